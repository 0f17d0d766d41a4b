# sync_batch_norm.py - batch normalization with the statistics of all ranks' batches.
# SPDX-License-Identifier: Apache-2.0

import tensorflow as tf

from horovod.tensorflow.mpi_ops import Sum, allreduce, size


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """tf.keras.layers.BatchNormalization over the combined batches of all ranks.

    The batches may differ in size.  It works with Keras 2, and with Keras 3 on TensorFlow."""

    def __init__(self, fused=False, **kwargs):
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization does not support fused=True.")
        kwargs["name"] = kwargs.get("name") or "sync_batch_normalization"
        if _KERAS_2:
            kwargs["fused"] = False
        super().__init__(**kwargs)

    def _moments(self, inputs, *args, **kwargs):
        """Return mean and variance of all ranks' inputs.  Keras 2 passes the axes to reduce, Keras
        3 a mask."""
        if size() == 1:
            return super()._moments(inputs, *args, **kwargs)
        axes, keep = self._axes(inputs, args, kwargs)
        mask = kwargs.get("mask", args[0] if args and not _KERAS_2 else None)
        wide = tf.cast(inputs, tf.float32) if inputs.dtype in (tf.float16, tf.bfloat16) else inputs
        weight = tf.ones_like(wide[..., :1]) if mask is None else tf.cast(mask, wide.dtype)[
            ..., tf.newaxis]
        weight = tf.broadcast_to(weight, tf.shape(wide))
        # Two passes, for E[x^2] - E[x]^2 loses what matters; gradients go through allreduce().
        count = allreduce(tf.stop_gradient(tf.reduce_sum(weight, axes, keepdims=True)), op=Sum)
        mean = allreduce(tf.reduce_sum(wide * weight, axes, keepdims=True), op=Sum) / count
        variance = allreduce(tf.reduce_sum(tf.square(wide - mean) * weight, axes, keepdims=True),
                             op=Sum) / count
        if not keep:
            mean, variance = tf.squeeze(mean, axes), tf.squeeze(variance, axes)
        return tf.cast(mean, inputs.dtype), tf.cast(variance, inputs.dtype)

    def _axes(self, inputs, args, kwargs):
        """Return (axes to reduce, whether to keep these dimensions)."""
        if _KERAS_2:
            axes = kwargs.get("reduction_axes", args[0] if args else None)
            keep = kwargs.get("keep_dims", args[1] if len(args) > 1 else False)
            return list(axes), keep
        axis = self.axis if self.axis >= 0 else self.axis + len(inputs.shape)
        return [i for i in range(len(inputs.shape)) if i != axis], False


_KERAS_2 = hasattr(tf.keras, "__internal__") and hasattr(tf.keras.layers, "Layer") and not hasattr(
    tf.keras, "ops")
