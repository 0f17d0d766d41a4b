# gradient_aggregation.py - add up the gradients of several steps before ranks combine them.
# SPDX-License-Identifier: Apache-2.0
"""One implementation for graphs and for eager code: variables hold the sums and the count, and
tf.cond decides."""

import tensorflow as tf

from horovod.common.process_sets import global_process_set
from horovod.tensorflow.gradients import Local


class LocalGradientAggregationHelper:
    """Adds up gradients for backward_passes_per_step steps, combines the sums, and lets variables
    be updated only in the last of these steps.

    compute_gradients() takes the gradients of a step and returns the gradients to apply;
    apply_gradients() applies them."""

    _OPTIMIZER_TYPE_KERAS = "optimizer_type_keras"
    _OPTIMIZER_TYPE_LEGACY = "optimizer_type_legacy"

    def __init__(self, backward_passes_per_step, allreduce_func, sparse_as_dense=False,
                 average_aggregated_gradients=False, rank=None, optimizer_type=None,
                 process_set=global_process_set, scale_local_gradients=True, name=""):
        """allreduce_func(grads, variables) combines gradients across ranks."""
        if backward_passes_per_step <= 0:
            raise ValueError("backward_passes_per_step must be > 0")
        self.backward_passes_per_step = backward_passes_per_step
        self.allreduce_grads = allreduce_func
        self.sparse_as_dense = sparse_as_dense
        self.average_aggregated_gradients = average_aggregated_gradients
        self.name = name or "aggregation"
        self.local = Local(process_set, scale_local_gradients)
        self.counter = None  # steps since variables were updated
        self.sums = []       # a variable for each gradient that is not None

    def register_local_var(self, var):
        """Keep the gradient of this variable local to this rank."""
        self.local.add(var)

    def _tensor(self, grad):
        if not isinstance(grad, tf.IndexedSlices):
            return grad
        if not self.sparse_as_dense:
            raise ValueError("IndexedSlices are not supported when `backward_passes_per_step` > 1 "
                             "and `sparse_as_dense` is False.")
        return tf.convert_to_tensor(grad)

    def _make(self, grads, variables):
        """Create the variables once, outside of a tf.function that is being traced."""
        with tf.init_scope():
            collections = None
            if not tf.executing_eagerly():
                collections = [tf.compat.v1.GraphKeys.LOCAL_VARIABLES]

            def variable(value, name):
                if collections is None:
                    return tf.Variable(value, trainable=False, name=name)
                return tf.compat.v1.Variable(value, trainable=False, name=name,
                                             collections=collections, use_resource=True)

            self.counter = variable(tf.zeros((), tf.int32), f"{self.name}_counter")
            self.sums = [variable(tf.zeros(v.shape, g.dtype), f"{self.name}_{i}")
                         for i, (g, v) in enumerate(zip(grads, variables)) if g is not None]

    def compute_gradients(self, grads, variables):
        """Add up the gradients of a step.  In the last step, return the sums, combined across
        ranks.  In the other steps, return this step's own gradients, which must not be applied."""
        grads = [self._tensor(g) for g in grads]
        if self.counter is None:
            self._make(grads, variables)
        there = [i for i, g in enumerate(grads) if g is not None]
        added = [s.assign_add(grads[i], read_value=False) for s, i in zip(self.sums, there)]
        with tf.control_dependencies(_graph_only(added)):
            counted = self.counter.assign_add(1)
        with tf.control_dependencies(_graph_only([counted])):
            chosen = tf.cond(tf.equal(self.counter.read_value(), self.backward_passes_per_step),
                             lambda: self._combine(len(grads), there, variables),
                             lambda: [grads[i] for i in there])
        out = [None] * len(grads)
        for i, g in zip(there, chosen if isinstance(chosen, (list, tuple)) else [chosen]):
            out[i] = g
        return out

    def _combine(self, count, there, variables):
        """Return the combined sums of all ranks, and start to count from zero."""
        sums = [None] * count
        for i, s in zip(there, self.sums):
            sums[i] = s.read_value()
        combined = self.local.reduce_by(self.allreduce_grads, sums, variables)
        divisor = self.backward_passes_per_step if self.average_aggregated_gradients else 1
        combined = [combined[i] / tf.cast(divisor, combined[i].dtype) for i in there]
        with tf.control_dependencies(_graph_only(combined)):
            cleared = [s.assign(tf.zeros_like(s)) for s in self.sums] + [self.counter.assign(0)]
        with tf.control_dependencies(_graph_only(cleared)):
            return [tf.identity(g) for g in combined]

    def apply_gradients(self, apply_grads_closure, optimizer, *args, **kwargs):
        """Call apply_grads_closure() in the last step; count an iteration in the other steps."""
        grads = [g for g, _v in args[0] if g is not None]

        def update():
            return _done(apply_grads_closure())

        def count():
            iterations = getattr(optimizer, "iterations", None)
            step = kwargs.get("global_step")
            done = [v.assign_add(tf.ones((), v.dtype)) for v in (iterations, step)
                    if v is not None]
            return _done(done)

        with tf.control_dependencies(_graph_only(grads)):
            return tf.cond(tf.equal(self.counter.read_value(), 0), update, count)


class LocalGradientAggregationHelperEager(LocalGradientAggregationHelper):
    """The name of Horovod's second implementation for eager code, which is the same class here."""


def _graph_only(values):
    """Return operations that a graph can depend on."""
    return [] if tf.executing_eagerly() else [v for v in values if v is not None]


def _done(values):
    """Return a value for tf.cond() that depends on other operations."""
    values = values if isinstance(values, (list, tuple)) else [values]
    with tf.control_dependencies(_graph_only(values)):
        return tf.constant(True)
