# gradients.py - combine a list of gradients across ranks, all of them at the same time.
# SPDX-License-Identifier: Apache-2.0
"""Reductions start in reverse order of the variables, which is the order in which gradients become
ready.  TensorFlow keeps the order of stateful operations, so the first reduction to start must not
be of the last gradient to become ready.  One operation waits for all of them."""

import collections
import warnings

import tensorflow as tf

from horovod.common import array_weights, weights
from horovod.common.process_sets import global_process_set
from horovod.common.semantics import Adasum, Average, check_sparse
from horovod.common.util import split_list
from horovod.tensorflow import places
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.mpi_ops import (allgather_start, allreduce_start, is_session_graph,
                                        ranks_of, wait_all)
from horovod.tensorflow.util import is_elastic

# How gradients are combined:
# op, predivide    the reduction; gradients are divided before and multiplied after it
# compression      what makes them smaller on their way
# sparse_as_dense  whether IndexedSlices are made tensors before
# groups           how many are combined at a time: None, a number of groups, or lists of variables
# process_set      the ranks
How = collections.namedtuple("How", "op predivide compression sparse_as_dense groups process_set")


def how(op=Average, gradient_predivide_factor=1.0, compression=Compression.none,
        sparse_as_dense=False, num_groups=0, groups=None, process_set=global_process_set):
    """Check Horovod's arguments and return a How."""
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if num_groups:
        warnings.warn("num_groups= is deprecated: use groups=", DeprecationWarning, stacklevel=3)
        groups = num_groups if groups is None else groups
    if groups is not None and not isinstance(groups, list) and not (
            isinstance(groups, int) and groups > 0):
        raise ValueError("groups must be a positive number or a list of lists of variables")
    if isinstance(groups, list):
        groups = [[key_of(v) for v in group] for group in groups]
    return How(op, gradient_predivide_factor, compression, sparse_as_dense, groups, process_set)


def key_of(variable):
    """Return the dictionary key of a variable of TensorFlow or any version of Keras."""
    value = getattr(variable, "_value", None)  # a variable of Keras 3 holds one of TensorFlow
    variable = variable if value is None else value
    return variable.ref() if hasattr(variable, "ref") else id(variable)


def combines(process_set):
    """Return whether a reduction is necessary.  A graph may exist longer than an elastic generation
    with one rank."""
    return process_set.included() and (process_set.size() > 1 or is_elastic())


def _units(grads, variables, groups):
    """Return lists of indices of gradients that are combined together."""
    there = [i for i, g in enumerate(grads) if g is not None]
    if groups is None:
        return [[i] for i in there]
    if isinstance(groups, int):
        return [unit for unit in split_list(there, groups) if unit]
    if variables is None:
        raise ValueError("groups of variables need gradients that come with variables")
    index = {key_of(variables[i]): i for i in there}
    units = [[index.pop(key) for key in group if key in index] for group in groups]
    return [unit for unit in units if unit] + [[i] for i in index.values()]


class _Started:
    """Operations in flight: pairs for wait_all(), and functions that return the results."""

    def __init__(self, how):
        self.how, self.pairs, self.finish = how, [], []

    def dense(self, places, grads, label):
        """Start combining some gradients, as one operation."""
        h = self.how
        small, contexts = zip(*[h.compression.compress(tf.convert_to_tensor(g)) for g in grads])
        self.pairs.append(allreduce_start(list(small), label, len(places) > 1, h.op,
                                          1.0 / h.predivide, h.predivide, h.process_set))
        self.finish.append(lambda results, out: [
            out.__setitem__(i, h.compression.decompress(t, c))
            for i, t, c in zip(places, results, contexts)])

    def sparse(self, place, slices, label):
        """Start concatenating the ranks' IndexedSlices."""
        h = self.how
        check_sparse(h.op)
        self.pairs.append(allgather_start(slices.values, label + ".values", h.process_set))
        self.finish.append(lambda results, out: out.__setitem__(place, results[0]))
        self.pairs.append(allgather_start(slices.indices, label + ".indices", h.process_set))

        def finish(results, out):
            values = out[place]
            if h.op == Average:
                values = values / tf.cast(ranks_of(h.process_set), values.dtype)
            out[place] = tf.IndexedSlices(values, results[0], dense_shape=slices.dense_shape)

        self.finish.append(finish)

    def wait(self, out):
        """Wait for all operations, and put each result in its place."""
        results = iter(wait_all(self.pairs))
        for (outputs, _handle), finish in zip(self.pairs, self.finish):
            finish([next(results) for _ in outputs], out)
        return out


def _check_weights(scope, variables, process_set):
    """Compare samples of the ranks' weights before a step changes them, in the steps in which a
    check is due.  Not in the graph of a session, in which operations have no order."""
    variables = [v for v in variables if hasattr(v, "assign")]
    if not variables or is_session_graph():
        return
    known = array_weights.Check(scope, variables, process_set)
    tf.numpy_function(known.compare, [tf.convert_to_tensor(v) for v in variables], [])


def reduce(grads, variables, how, scope):
    """Return the list of gradients, each combined across the ranks; None stays None.

    scope is the prefix of the names of the operations."""
    grads = list(grads)
    if not combines(how.process_set):
        return grads
    if how.sparse_as_dense:
        grads = [tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g for g in grads]
    if weights.interval() and variables is not None:
        _check_weights(scope, variables, how.process_set)
    names = places.of_list(scope, len(grads))
    started = _Started(how)
    for unit in reversed(_units(grads, variables, how.groups)):
        dense = [i for i in unit if not isinstance(grads[i], tf.IndexedSlices)]
        for i in unit:
            if isinstance(grads[i], tf.IndexedSlices):
                if how.op == Adasum:
                    raise NotImplementedError("sparse gradients cannot be combined with Adasum; "
                                              "use sparse_as_dense=True")
                started.sparse(i, grads[i], names[i])
        if dense:
            started.dense(dense, [grads[i] for i in dense], names[dense[0]])
    return started.wait(grads)


class Local:
    """Variables whose gradients remain local to this rank."""

    def __init__(self, process_set, scale):
        self.process_set, self.scale, self.keys = process_set, scale, set()

    def add(self, variable):
        """Keep the gradient of this variable local."""
        self.keys.add(key_of(variable))

    def __contains__(self, variable):
        return key_of(variable) in self.keys

    def _scaled(self, grad):
        """Return a gradient as if it were zero on the other ranks: its share of the average."""
        if grad is None or not self.scale:
            return grad
        n = ranks_of(self.process_set)
        if isinstance(grad, tf.IndexedSlices):
            return tf.IndexedSlices(grad.values / tf.cast(n, grad.values.dtype), grad.indices,
                                    grad.dense_shape)
        return grad / tf.cast(n, grad.dtype)

    def reduce_by(self, combine, grads, variables):
        """Return the gradients that combine(grads, variables) returns for all other variables.  If
        requested, local gradients are divided by the number of ranks."""
        grads, variables = list(grads), list(variables)
        if not self.keys:
            return combine(grads, variables)
        shared = [i for i, v in enumerate(variables) if v not in self]
        out = [self._scaled(g) if v in self else None for g, v in zip(grads, variables)]
        for i, g in zip(shared, combine([grads[i] for i in shared],
                                        [variables[i] for i in shared])):
            out[i] = g
        return out
