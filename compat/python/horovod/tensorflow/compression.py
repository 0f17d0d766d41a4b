# compression.py - compression of TensorFlow gradients in transit.
# SPDX-License-Identifier: Apache-2.0

import tensorflow as tf

from horovod.common.compression import CastCompressor, Compressor, NoneCompressor


class _HalfCompressor(CastCompressor):
    """Send floating-point numbers with two bytes each; send integers unchanged."""

    cast = staticmethod(tf.cast)

    @staticmethod
    def is_floating_point(tensor):
        return tensor.dtype.is_floating


class FP16Compressor(_HalfCompressor):
    """IEEE half precision: 11 bits of mantissa, values up to 65504."""

    dtype = tf.float16


class BF16Compressor(_HalfCompressor):
    """bfloat16: 8 bits of mantissa, the range of float32. Horovod 0.28 does not have it."""

    dtype = tf.bfloat16


class Compression:
    """The values of compression=."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
