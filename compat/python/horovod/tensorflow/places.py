# places.py - names for collectives, derived from their position in the program.
# SPDX-License-Identifier: Apache-2.0
"""Ranks match collectives by name.  A name therefore depends only on facts that all ranks share:
the traced function, the kind of collective, and the number of earlier collectives of that kind in
the same trace.  Names of tensors and layers are not suitable, because Keras and TensorFlow number
them by everything that the process has built.  If one rank has built another model, its numbers
differ."""

import collections
import re

import tensorflow as tf

from horovod.tensorflow.util import _executing_eagerly


def of_operation(kind):
    """Return the name of an operation to which the program gives none; "" in eager code, where
    calls are matched by their order."""
    if _executing_eagerly():
        return ""
    graph = _function(tf.compat.v1.get_default_graph())
    # The function's name tells two functions apart that run at the same time.
    return ".".join(filter(None, [_name(graph), _numbered(graph, "Horovod" + kind)]))


def of_list(scope, count):
    """Return names for the tensors of a list.  A graph may run several lists of one scope and
    length at the same time, so the second and later lists have a number."""
    if not _executing_eagerly():
        scope = _numbered(_function(tf.compat.v1.get_default_graph()), scope, count)
    return [f"{scope}.{i + 1}of{count}" for i in range(count)]


def _numbered(graph, word, count=None):
    """Return a word with a number: how often this graph has used the word, with this count, before.
    """
    uses = getattr(graph, "_ringup_uses", None)
    if uses is None:
        uses = graph._ringup_uses = collections.Counter()
    number = uses[word, count]
    uses[word, count] += 1
    return f"{word}_{number}" if number else word


def _function(graph):
    """Return the graph of the function that contains this graph as a branch or a loop.  Names of
    branches contain numbers that count everything that the process has traced."""
    while type(graph).__name__ not in ("FuncGraph", "Graph") and getattr(
            graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def _name(graph):
    """Return the name of a function without the number that TensorFlow adds to functions of its
    own, such as those of gradients."""
    return re.sub(r"^__(.*)_\d+$", r"\1", getattr(graph, "name", None) or "")
