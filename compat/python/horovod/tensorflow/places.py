# places.py - names for collectives, derived from their position in the program.
# SPDX-License-Identifier: Apache-2.0
"""Ranks match collectives by name.  A name therefore depends only on what all ranks have in common:
the function that is traced, the kind of collective, and how many of that kind came before in the
same trace.  Names of tensors and layers do not do, since Keras and TensorFlow number them by what
the process has built before; a rank that has built one more model counts otherwise."""

import collections
import re

import tensorflow as tf

from horovod.tensorflow.util import _executing_eagerly


def of_operation(kind):
    """The name of an operation for which the program gives none; "" in eager code, where the order
    of the calls decides."""
    if _executing_eagerly():
        return ""
    graph = _function(tf.compat.v1.get_default_graph())
    # The function's name tells two functions apart that run at the same time.
    return ".".join(filter(None, [_name(graph), _numbered(graph, "Horovod" + kind)]))


def of_list(scope, count):
    """Names for the so many tensors of a list.  A graph may have several lists of one scope and
    length under way at a time, so the second and later ones have a number."""
    if not _executing_eagerly():
        scope = _numbered(_function(tf.compat.v1.get_default_graph()), scope, count)
    return [f"{scope}.{i + 1}of{count}" for i in range(count)]


def _numbered(graph, word, count=None):
    """A word, and how often it has been used before in this graph, with this count."""
    uses = getattr(graph, "_ringup_uses", None)
    if uses is None:
        uses = graph._ringup_uses = collections.Counter()
    number = uses[word, count]
    uses[word, count] += 1
    return f"{word}_{number}" if number else word


def _function(graph):
    """The graph of the function that this graph is a branch or a loop of: names of branches have
    numbers that count what the process has traced."""
    while type(graph).__name__ not in ("FuncGraph", "Graph") and getattr(
            graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def _name(graph):
    """The name of a function; TensorFlow numbers those that it makes, such as of gradients."""
    return re.sub(r"^__(.*)_\d+$", r"\1", getattr(graph, "name", None) or "")
