# util.py - TensorFlow helpers for horovod.tensorflow and for Horovod's users.
# SPDX-License-Identifier: Apache-2.0

import tensorflow as tf

from horovod.common.util import _cache
from ringup import elastic

__all__ = ["_cache", "_executing_eagerly", "_make_subgraph", "refs_to_vars", "vars_to_refs"]


def _executing_eagerly():
    """Return whether this code runs eagerly, rather than building a graph."""
    return tf.executing_eagerly()


def _make_subgraph(f):
    """Return a tf.function of f."""
    return tf.function(f)


def vars_to_refs(variables):
    """Return dictionary keys for variables, or for nested lists of variables."""
    if isinstance(variables, (list, tuple)):
        return tuple(vars_to_refs(v) for v in variables)
    return variables.ref()


def refs_to_vars(refs):
    """Return the variables for the keys that vars_to_refs() returned."""
    if isinstance(refs, (list, tuple)):
        return [refs_to_vars(r) for r in refs]
    return refs.deref()


def is_elastic():
    """Return whether the number of ranks may change while a graph exists."""
    return elastic.is_elastic()
