# memory.py - describe the memory of any array or tensor, for operations.
# SPDX-License-Identifier: Apache-2.0
"""of() accepts any object that gives access to its elements through the buffer protocol (numpy,
array, bytearray, bytes) or DLPack (torch, jax, tensorflow, cupy), also in GPU memory.  For tensors
that need more, such as copies from a GPU, see horovod.common.adapter."""

import ctypes
import math

from . import constants, dlpack
from .constants import U8

_FORMATS = {"B": constants.U8, "b": constants.I8, "H": constants.U16, "h": constants.I16,
            "i": constants.I32, "q": constants.I64, "l": constants.I64, "e": constants.F16,
            "f": constants.F32, "d": constants.F64, "?": constants.BOOL}


class Memory:
    """Contiguous elements in host memory or in the memory of a CUDA device.

    address   the address of the first element
    dtype     the library's number of the elements' type; None: it can only move their bytes
    itemsize  the number of bytes in an element
    shape     a tuple; its product is count
    carried   (the library's number of a type, number of these in one element), for operations that
              move elements without computing with them
    device    the device of a tensor of these elements, in terms of the framework; None: the host
    native    the elements' type in terms of the framework
    keep      an object that must stay alive as long as the elements are used
    stream    the CUDA stream that orders reads and writes of the elements; None: they are in host
              memory
    """

    __slots__ = ("address", "dtype", "itemsize", "shape", "count", "device", "native", "carried",
                 "keep", "stream")

    def __init__(self, address, dtype, itemsize, shape, keep, device=None, native=None,
                 stream=None):
        self.address, self.dtype, self.itemsize, self.shape = address, dtype, itemsize, shape
        self.keep, self.device, self.native, self.stream = keep, device, native, stream
        self.count = math.prod(shape)
        self.carried = (U8, itemsize) if dtype is None else (dtype, 1)

    @property
    def bytes(self):
        """Return a writable memoryview of the elements."""
        n = self.count * self.itemsize
        if n == 0:
            return memoryview(bytearray())
        return memoryview((ctypes.c_ubyte * n).from_address(self.address)).cast("B")

    def like(self, shape, block=None):
        """Return memory for elements of this type, with another shape, in the given block or a new
        one."""
        n = math.prod(shape) * self.itemsize
        if block is None:
            block = bytearray(n)
        address = ctypes.addressof(ctypes.c_char.from_buffer(block)) if n else None
        return Memory(address, self.dtype, self.itemsize, shape, block, self.device, self.native)


def _of_buffer(m, writable):
    """Return the Memory for a memoryview."""
    if not m.c_contiguous:
        raise ValueError("the buffer is not contiguous; copy it first")
    if writable and m.readonly:
        raise ValueError("the buffer is read-only; pass a bytearray or a writable array")
    dtype = _FORMATS.get(m.format)
    address = _address(m) if m.nbytes else None
    return Memory(address, dtype, m.itemsize, m.shape, m, None, m.format)


def _address(m):
    """Return the address of a contiguous memoryview, which may be read-only."""
    if not m.readonly:
        return ctypes.addressof(ctypes.c_char.from_buffer(m))
    if isinstance(m.obj, bytes):
        return ctypes.cast(ctypes.c_char_p(m.obj), ctypes.c_void_p).value
    where = getattr(m.obj, "__array_interface__", None)  # numpy's
    if where is None:
        raise ValueError("the buffer is read-only; copy it first")
    return where["data"][0]


def _check_writable(data):
    """Raise an exception for an array that must not be changed in place."""
    if type(data).__module__.partition(".")[0] in ("jax", "jaxlib"):
        raise ValueError("JAX arrays cannot be changed in place; use ringup.jax, whose functions "
                         "return new arrays")
    if type(data).__module__.partition(".")[0] == "torch":
        return  # always writable; the property below raises exceptions for some
    told = getattr(data, "__cuda_array_interface__", None)
    if told is not None and told["data"][1]:
        raise ValueError("the array is read-only; pass a writable array")


def of(data, writable=False, stream=None):
    """Return the Memory for an object.  writable: an operation will change it in place.

    Operations on GPU memory are ordered on a stream, given as a number.  Without a stream, an
    object in GPU memory raises an exception."""
    if isinstance(data, Memory):
        return data
    if writable:
        _check_writable(data)
    try:
        m = memoryview(data)
    except (TypeError, ValueError, BufferError):
        m = None
    if m is not None:
        return _of_buffer(m, writable)
    if hasattr(data, "__dlpack__") and hasattr(data, "__dlpack_device__"):
        address, dtype, itemsize, shape, keep, is_far = dlpack.look(data, stream)
        return Memory(address, dtype, itemsize, shape, (data, keep), None,
                      getattr(data, "dtype", None), stream if is_far else None)
    raise TypeError(f"{type(data).__name__} does not expose its memory: pass an object with the "
                    "buffer protocol or with __dlpack__(), such as a numpy array or a "
                    "tensor")


def check_reducible(memory):
    """Raise an exception if the library cannot reduce elements of this type."""
    if memory.dtype is None:
        raise ValueError(f"elements of type {memory.native!r} cannot be reduced; these can: "
                         + " ".join(name.lower() for name in constants.DTYPES))
