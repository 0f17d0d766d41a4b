# util.py - what the modules of horovod.tensorflow, and Horovod's users, ask of TensorFlow.
# SPDX-License-Identifier: Apache-2.0

import tensorflow as tf

from horovod.common.util import _cache
from ringup import elastic

__all__ = ["_cache", "_executing_eagerly", "_make_subgraph", "refs_to_vars", "vars_to_refs"]


def _executing_eagerly():
    """Does this code run now, rather than describe a graph?"""
    return tf.executing_eagerly()


def _make_subgraph(f):
    """A tf.function of f."""
    return tf.function(f)


def vars_to_refs(variables):
    """Dictionary keys for variables, or nested lists of them."""
    if isinstance(variables, (list, tuple)):
        return tuple(vars_to_refs(v) for v in variables)
    return variables.ref()


def refs_to_vars(refs):
    """The reverse."""
    if isinstance(refs, (list, tuple)):
        return [refs_to_vars(r) for r in refs]
    return refs.deref()


def is_elastic():
    """May the number of ranks change while a graph lives?"""
    return elastic.is_elastic()
