# dlpack.py - find the elements of a DLPack capsule in memory.
# SPDX-License-Identifier: Apache-2.0
"""Frameworks pass tensors to each other as DLPack capsules: dmlc.github.io/dlpack.  This module
only reads a capsule and never consumes it, so the capsule keeps the memory alive as long as it
lives."""

import ctypes
import operator
from ctypes import Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p

from .constants import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16

_CPU, CUDA, _CUDA_HOST, _ROCM_HOST = 1, 2, 3, 11  # DLDeviceType
_HOST = (_CPU, _CUDA_HOST, _ROCM_HOST)  # what the processor can read
LEGACY = 1  # CUDA's legacy default stream, as DLPack and the driver call it
_MOST_DIMENSIONS = 64

# (DLDataTypeCode, bits): 0 integers, 1 unsigned, 2 floating point, 4 bfloat16, 6 bool
_NUMBERS = {(1, 8): U8, (0, 8): I8, (1, 16): U16, (0, 16): I16, (0, 32): I32, (0, 64): I64,
            (2, 16): F16, (4, 16): BF16, (2, 32): F32, (2, 64): F64, (6, 8): BOOL}


class _Tensor(Structure):
    """struct DLTensor"""
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", ctypes.POINTER(c_int64)), ("strides", ctypes.POINTER(c_int64)),
                ("byte_offset", c_uint64)]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]


def stream_number(stream):
    """Return the driver's number of a CUDA stream, which is given as a number or as an object of
    torch, CuPy, Numba or another library with __cuda_stream__()."""
    ask = getattr(stream, "__cuda_stream__", None)
    if ask is not None:
        return int(ask()[1]) or LEGACY
    for name in ("cuda_stream", "ptr", "handle"):  # torch, CuPy, Numba
        if hasattr(stream, name):
            found = getattr(stream, name)
            return int(getattr(found, "value", found) or LEGACY)
    try:
        number = operator.index(stream)
    except TypeError:
        raise TypeError(f"stream={stream!r} is neither a CUDA stream nor the number of one") from (
            None)
    if number < 0:
        raise ValueError(f"stream={number} is not a CUDA stream: an operation must wait until its "
                         "array is computed; pass the stream that computes it, or 1 for CUDA's "
                         "default stream")
    if number == 0:
        raise ValueError("stream=0 is ambiguous; pass 1 for CUDA's (legacy) default stream, or 2 "
                         "for the default stream of this thread")
    return number


def uses_legacy(tensor):
    """Return whether the tensor's library queues work on CUDA's legacy default stream, unless the
    program chooses another stream."""
    return type(tensor).__module__.partition(".")[0] in ("torch", "cupy", "numba")


def _is_contiguous(shape, strides):
    """Return whether the elements are contiguous, in row-major order."""
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides)):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def look(tensor, stream=None):
    """Return the facts about a tensor in host memory or, with a stream, on a CUDA device: (address,
    number of the type or None, bytes per element, shape, object to keep alive, whether it is on a
    GPU).

    With a stream, the work that the framework has already queued for the tensor runs before the
    work that is queued on the stream from now on."""
    kind, number = tensor.__dlpack_device__()
    if int(kind) not in _HOST and (int(kind) != CUDA or stream is None):
        raise ValueError(f"the tensor is on device {int(kind)}:{number}, which the library cannot "
                         "read; copy it to host memory first")
    capsule = tensor.__dlpack__(stream=stream) if int(kind) == CUDA else tensor.__dlpack__()
    t = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    if not 0 <= t.ndim <= _MOST_DIMENSIONS or t.lanes != 1 or t.bits % 8 and t.code != 6:
        raise ValueError(f"a DLPack tensor of {t.ndim} dimensions, {t.bits} bits and {t.lanes} "
                         "lanes cannot be read")
    shape = tuple(t.shape[i] for i in range(t.ndim))
    if t.strides and 0 not in shape and not _is_contiguous(shape, t.strides[:t.ndim]):
        raise ValueError("the tensor is not contiguous; copy it first")
    dtype = _NUMBERS.get((t.code, t.bits))
    return ((t.data or 0) + t.byte_offset, dtype, max(t.bits // 8, 1), shape, capsule,
            int(kind) == CUDA)
