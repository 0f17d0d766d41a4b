# tensorflow_reducer.py - a step of a Keras optimizer on TensorFlow.
# SPDX-License-Identifier: Apache-2.0

import tensorflow as tf

from horovod.common.semantics import Sum
from horovod.tensorflow import gradients
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper


class TensorFlowReducer:
    """Combines the gradients of an optimizer, in eager code and in graphs."""

    def __init__(self, how, scope, scale_local_gradients, passes, average_aggregated_gradients):
        self.how, self.scope = how, scope
        self.local = gradients.Local(how.process_set, scale_local_gradients)
        self.helper = self.combined = None
        self.is_each_step = passes == 1
        if passes > 1:
            self.helper = LocalGradientAggregationHelper(
                passes, self.reduce, how.sparse_as_dense, average_aggregated_gradients,
                process_set=how.process_set, scale_local_gradients=scale_local_gradients,
                name=scope)

    def register_local_var(self, var):
        """Keep the gradient of this variable local to this rank."""
        self.local.add(var)
        if self.helper:
            self.helper.register_local_var(var)

    @staticmethod
    def passes_of(_optimizer, _update):
        """Return None, because the helper adds up passes."""
        return None

    def reduce(self, grads, variables):
        """Return the gradients of all ranks."""
        return gradients.reduce(grads, variables, self.how, self.scope)

    def combine(self, grads, variables, optimizer):
        """Return the gradients of all ranks; step() then uses them unchanged."""
        if self.helper is None:
            self.combined = self.local.reduce_by(self.reduce, grads, variables)
        else:
            self._build(optimizer, variables)
            self.combined = self.helper.compute_gradients(list(grads), list(variables))
        return self.combined

    def _is_combined(self, grads):
        """Return whether combine() returned these gradients."""
        last, self.combined = self.combined, None
        if last is None:
            return False
        there = [g for g in last if g is not None]
        same = [g for g in grads if g is not None]
        if len(there) == len(same) and all(a is b for a, b in zip(there, same)):
            return True
        # The program has changed them.  Averages of equal gradients are the same once more; sums
        # would be counted twice.
        return self.how.op == Sum or self.helper is not None

    def step(self, grads, variables, optimizer, update):
        """Combine the gradients, and update variables with them."""
        if not self._is_combined(grads):
            grads = self.combine(grads, variables, optimizer)
            self.combined = None
        if self.helper is None:
            return update(grads)
        return self.helper.apply_gradients(lambda: update(grads), optimizer,
                                           list(zip(grads, variables)))

    @staticmethod
    def _build(optimizer, variables):
        """Let the optimizer create its variables before the branch of a graph in which it uses
        them."""
        with tf.init_scope():
            if hasattr(optimizer, "build"):
                if not getattr(optimizer, "built", False):
                    optimizer.build(variables)
            elif hasattr(optimizer, "_create_all_weights"):
                optimizer._create_all_weights(variables)
