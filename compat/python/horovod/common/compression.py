# compression.py - compression of gradients in transit, for all frameworks.
# SPDX-License-Identifier: Apache-2.0


class Compressor:
    """The interface of compressors.  compress() returns (tensor to send, context); decompress()
    undoes it."""

    @staticmethod
    def compress(tensor):
        raise NotImplementedError

    @staticmethod
    def decompress(tensor, ctx):
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Send the tensor uncompressed."""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


class CastCompressor(Compressor):
    """Send floating-point numbers as another type, and send integers unchanged.  The compressor of
    a framework defines dtype, and the functions that read and change a type."""

    dtype = None

    @staticmethod
    def is_floating_point(tensor):
        raise NotImplementedError

    @staticmethod
    def cast(tensor, dtype):
        raise NotImplementedError

    @classmethod
    def compress(cls, tensor):
        small = cls.cast(tensor, cls.dtype) if cls.is_floating_point(tensor) else tensor
        return small, tensor.dtype

    @classmethod
    def decompress(cls, tensor, ctx):
        return cls.cast(tensor, ctx)
