# functions.py - exchange variables and Python objects between ranks.
# SPDX-License-Identifier: Apache-2.0

import tensorflow as tf

from horovod.common import objects
from horovod.common.process_sets import global_process_set
from horovod.tensorflow.mpi_ops import assign_all
from horovod.tensorflow.util import _executing_eagerly


def broadcast_variables(variables, root_rank, process_set=global_process_set, inplace=False):
    """Overwrite variables with root's values; in a graph, return the operation that does so.

    Keras 3 variables are supported.  inplace is accepted for compatibility."""
    variables = list(variables)
    if _executing_eagerly():
        objects.check_lengths(len(variables), process_set)
    done = assign_all([_inner(v) for v in variables], root_rank, None, process_set)
    return None if _executing_eagerly() else tf.group(*[a for a in done if a is not None])


def _inner(variable):
    """Return TensorFlow's variable inside a Keras 3 variable."""
    value = getattr(variable, "_value", None)
    return value if value is not None and hasattr(value, "assign") else variable


def broadcast_object(obj, root_rank=0, session=None, name=None, process_set=global_process_set):
    """Return root's object on every rank; it must be picklable.  No session is needed."""
    return objects.broadcast_object(obj, root_rank, name or "object", process_set)


def broadcast_object_fn(root_rank=0, session=None, name=None, process_set=global_process_set):
    """Return a function broadcast_object(obj), for TensorFlow 1 code."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(obj, session=None, name=None, process_set=global_process_set):
    """Return the list of the objects of all ranks, in rank order.  No session is needed."""
    return objects.allgather_object(obj, name or "object", process_set)
