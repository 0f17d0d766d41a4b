# tensorflow_reducer.py - an optimizer's step of Keras on TensorFlow.
# SPDX-License-Identifier: Apache-2.0

import tensorflow as tf

from horovod.tensorflow import gradients
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper


class TensorFlowReducer:
    """Combines the gradients of an optimizer, in eager code and in graphs."""

    def __init__(self, how, scope, scale_local_gradients, passes, average_aggregated_gradients):
        self.how, self.scope = how, scope
        self.local = gradients.Local(how.process_set, scale_local_gradients)
        self.helper = None
        if passes > 1:
            self.helper = LocalGradientAggregationHelper(
                passes, self.reduce, how.sparse_as_dense, average_aggregated_gradients,
                process_set=how.process_set, scale_local_gradients=scale_local_gradients,
                name=scope)

    def register_local_var(self, var):
        """Leave the gradient of this variable to this rank."""
        self.local.add(var)
        if self.helper:
            self.helper.register_local_var(var)

    def reduce(self, grads, variables):
        """The gradients of all ranks."""
        return gradients.reduce(grads, variables, self.how, self.scope)

    def step(self, grads, variables, optimizer, update):
        """Combine the gradients and update variables by them."""
        if self.helper is None:
            return update(self.local.reduce_by(self.reduce, grads, variables))
        self._build(optimizer, variables)
        combined = self.helper.compute_gradients(grads, variables)
        return self.helper.apply_gradients(lambda: update(combined), optimizer,
                                           list(zip(combined, variables)))

    @staticmethod
    def _build(optimizer, variables):
        """Let the optimizer make its variables before the branch of a graph in which it uses
        them."""
        with tf.init_scope():
            if hasattr(optimizer, "build"):
                if not getattr(optimizer, "built", False):
                    optimizer.build(variables)
            elif hasattr(optimizer, "_create_all_weights"):
                optimizer._create_all_weights(variables)
