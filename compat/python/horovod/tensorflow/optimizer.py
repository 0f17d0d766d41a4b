# optimizer.py - TensorFlow 1 optimizers whose gradients are combined across ranks.
# SPDX-License-Identifier: Apache-2.0
"""Distributed optimizers for TensorFlow 1. Those for Keras are in horovod.tensorflow.keras."""

import importlib

import tensorflow as tf

from horovod.common.process_sets import global_process_set
from horovod.common.semantics import Adasum, Average
from horovod.tensorflow import gradients
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.functions import broadcast_variables
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.util import _executing_eagerly

_LegacyOptimizer = tf.compat.v1.train.Optimizer


class _DistributedOptimizer(_LegacyOptimizer):
    """Wraps an optimizer and combines its gradients when they are computed."""

    def __init__(self, optimizer, name, use_locking, how, passes, average_aggregated_gradients,
                 scale_local_gradients):
        name = name or f"Distributed{type(optimizer).__name__}"
        super().__init__(name=name, use_locking=use_locking)
        self._optimizer, self._how, self.process_set = optimizer, how, how.process_set
        self._local = gradients.Local(how.process_set, scale_local_gradients)
        self._agg_helper = None
        if passes > 1:
            if _executing_eagerly():
                raise ValueError("backward_passes_per_step > 1 is not yet supported for an "
                                 "optimizer of TensorFlow 1 with eager execution; use a tape or an "
                                 "optimizer of Keras")
            self._agg_helper = LocalGradientAggregationHelper(
                passes, self._allreduce_grads, how.sparse_as_dense, average_aggregated_gradients,
                process_set=how.process_set, scale_local_gradients=scale_local_gradients,
                name=name)

    def _allreduce_grads(self, grads, variables):
        return gradients.reduce(grads, variables, self._how, self.get_name())

    def register_local_var(self, var):
        """Keep the gradient of this variable local to this rank."""
        self._local.add(var)
        if self._agg_helper:
            self._agg_helper.register_local_var(var)

    def compute_gradients(self, *args, **kwargs):
        """Compute the gradients as the wrapped optimizer does, and combine them across the ranks.
        """
        grads, variables = zip(*self._optimizer.compute_gradients(*args, **kwargs))
        if self._agg_helper:
            combined = self._agg_helper.compute_gradients(grads, variables)
        else:
            combined = self._local.reduce_by(self._allreduce_grads, grads, variables)
        return list(zip(combined, variables))

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """Apply the gradients as the wrapped optimizer does, but only in the last of
        backward_passes_per_step steps."""
        pairs = list(grads_and_vars)

        def update():
            return self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)

        if self._agg_helper is None:
            return update()
        return self._agg_helper.apply_gradients(update, self._optimizer, pairs,
                                                global_step=global_step, name=name)

    def get_slot(self, *args, **kwargs):
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args, **kwargs):
        return self._optimizer.variables(*args, **kwargs)


class _DistributedAdasumOptimizer(_LegacyOptimizer):
    """Wraps an optimizer and combines the changes of its steps with Adasum."""

    def __init__(self, optimizer, name, use_locking, how, passes):
        super().__init__(name=name or f"DistributedDelta{type(optimizer).__name__}",
                         use_locking=use_locking)
        self._optimizer, self._how, self._passes = optimizer, how, passes
        self._counter = None

    def compute_gradients(self, *args, **kwargs):
        """Return this rank's own gradients."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """Run the wrapped optimizer's step.  After each backward_passes_per_step steps, combine the
        changes since the ranks were last equal."""
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        variables = [v for _g, v in pairs]
        starts = [self._get_or_make_start(v) for v in variables]
        if self._counter is None:
            with tf.init_scope():
                self._counter = _variable(tf.zeros((), tf.int32), "adasum_step_count")
        # What variables are now is where the first steps begin.
        begun = [tf.cond(tf.equal(self._counter.read_value(), 0),
                         lambda s=s, v=v: tf.identity(s.assign(v)), lambda s=s: s.read_value())
                 for s, v in zip(starts, variables)]
        with tf.control_dependencies(_graph_only(begun)):
            updated = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        with tf.control_dependencies(_graph_only([updated])):
            counted = self._counter.assign_add(1)
        with tf.control_dependencies(_graph_only([counted])):
            return tf.cond(tf.equal(self._counter.read_value(), self._passes),
                           lambda: self._combine(variables, starts), lambda: tf.constant(True))

    def _combine(self, variables, starts):
        deltas = [v.read_value() - s.read_value() for v, s in zip(variables, starts)]
        deltas = gradients.reduce(deltas, variables, self._how, self.get_name())
        done = [v.assign(s.read_value() + d) for v, s, d in zip(variables, starts, deltas)]
        with tf.control_dependencies(_graph_only(done)):
            done.append(self._counter.assign(0))
        with tf.control_dependencies(_graph_only(done)):
            return tf.constant(True)

    def _get_or_make_start(self, variable):
        """Return the value that a variable had when the ranks were last equal."""
        known = vars(self).setdefault("_starts", {})
        key = gradients.key_of(variable)
        if key not in known:
            with tf.init_scope():
                known[key] = _variable(tf.zeros(variable.shape, variable.dtype.base_dtype),
                                       f"delta_start_{len(known)}")
        return known[key]

    def get_slot(self, *args, **kwargs):
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args, **kwargs):
        return self._optimizer.variables(*args, **kwargs)


def _variable(value, name):
    """Create a variable of a TensorFlow 1 graph, or of eager code."""
    if _executing_eagerly():
        return tf.Variable(value, trainable=False, name=name)
    return tf.compat.v1.Variable(value, trainable=False, name=name, use_resource=True)


def _graph_only(values):
    """Return operations that a graph can depend on."""
    return [] if _executing_eagerly() else [v for v in values if v is not None]


def DistributedOptimizer(optimizer, name=None, use_locking=False, device_dense="",
                         device_sparse="", compression=Compression.none, sparse_as_dense=False,
                         backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0,
                         average_aggregated_gradients=False, num_groups=0, groups=None,
                         process_set=global_process_set, scale_local_gradients=True):
    """Wrap an optimizer of tf.compat.v1.train or Keras, and combine its gradients across the ranks.

    With backward_passes_per_step, the gradients of this many steps are first added up, or averaged
    with average_aggregated_gradients.  The other arguments are as in DistributedGradientTape().
    op=hvd.Adasum combines the changes of a step; it supports only optimizers of tf.compat.v1.train.
    """
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("Adasum does not support average_aggregated_gradients == True")
    if not isinstance(optimizer, _LegacyOptimizer):
        if op == Adasum:
            raise ValueError("op == Adasum is not supported yet with Keras")
        # Keras is a layer above this one, and is imported when it is asked for.
        of_keras = importlib.import_module("horovod.tensorflow.keras").DistributedOptimizer
        return of_keras(optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
                        gradient_predivide_factor=gradient_predivide_factor, op=op,
                        backward_passes_per_step=backward_passes_per_step,
                        average_aggregated_gradients=average_aggregated_gradients,
                        num_groups=num_groups, groups=groups, process_set=process_set,
                        scale_local_gradients=scale_local_gradients)
    how = gradients.how(op, gradient_predivide_factor, compression, sparse_as_dense, num_groups,
                        groups, process_set)
    if op == Adasum:
        return _DistributedAdasumOptimizer(optimizer, name, use_locking, how,
                                           backward_passes_per_step)
    return _DistributedOptimizer(optimizer, name, use_locking, how, backward_passes_per_step,
                                 average_aggregated_gradients, scale_local_gradients)


def broadcast_global_variables(root_rank):
    """Return the operation that overwrites all variables of a TensorFlow 1 graph with root's
    values."""
    if _executing_eagerly():
        raise RuntimeError("hvd.broadcast_global_variables() does not support eager execution. "
                           "Please use `hvd.broadcast_variables(<model/optimizer variables>)` "
                           "instead.")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Overwrites all variables with root's values after a MonitoredTrainingSession or an estimator
    has initialized or restored them."""

    def __init__(self, root_rank, device=""):
        super().__init__()
        self.root_rank, self.device, self.bcast_op = root_rank, device, None

    def begin(self):
        graph = tf.compat.v1.get_default_graph()
        if self.bcast_op is None or self.bcast_op.graph is not graph:
            self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session, coord):
        session.run(self.bcast_op)
