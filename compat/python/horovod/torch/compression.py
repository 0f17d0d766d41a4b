# compression.py - what makes gradients smaller on their way.
# SPDX-License-Identifier: Apache-2.0

import torch


class Compressor:
    """compress() returns (what to send, context); decompress() undoes it."""

    @staticmethod
    def compress(tensor):
        raise NotImplementedError

    @staticmethod
    def decompress(tensor, ctx):
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Send it as it is."""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


class _HalfCompressor(Compressor):
    """Send floating point numbers with two bytes each; leave integers alone."""

    dtype = None

    @classmethod
    def compress(cls, tensor):
        return (tensor.to(cls.dtype) if tensor.is_floating_point() else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)


class FP16Compressor(_HalfCompressor):
    """IEEE half precision: 11 bits of mantissa, up to 65504."""

    dtype = torch.float16


class BF16Compressor(_HalfCompressor):
    """bfloat16: 8 bits of mantissa, float32's range.  Horovod 0.28 does not have it."""

    dtype = torch.bfloat16


class Compression:
    """The choices for compression=."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
