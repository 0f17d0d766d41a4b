# collectives.py - operations on buffers and bytes, for code without a framework.
# SPDX-License-Identifier: Apache-2.0
"""A buffer is anything with the buffer protocol: numpy arrays, array.array, bytearray."""

import array

from . import _c, operation
from .job import lib

_FORMATS = {"B": _c.U8, "b": _c.I8, "H": _c.U16, "h": _c.I16, "i": _c.I32, "q": _c.I64,
            "l": _c.I64, "e": _c.F16, "f": _c.F32, "d": _c.F64, "?": _c.BOOL}


def _buffer(data, writable):
    """(address, elements, dtype, what must stay alive) of a buffer."""
    m = memoryview(data)
    if not m.c_contiguous:
        raise ValueError("the buffer is not contiguous; copy it first")
    if m.format not in _FORMATS:
        raise ValueError(f"elements of format {m.format!r} cannot be reduced; "
                         f"these can: {' '.join(_FORMATS)}")
    if writable and m.readonly:
        raise ValueError("the buffer is read-only; pass a bytearray or a writable array")
    dtype = _FORMATS[m.format]
    if m.nbytes == 0:
        return None, 0, dtype, m
    return _address(m), m.nbytes // m.itemsize, dtype, m


def _address(m):
    """The address of a contiguous memoryview, also of a read-only one."""
    import ctypes

    if not m.readonly:
        return ctypes.addressof(ctypes.c_char.from_buffer(m))
    return ctypes.cast(ctypes.c_char_p(m.obj), ctypes.c_void_p).value


def _name(name):
    return None if name is None else name.encode()


def allreduce(data, op=_c.SUM, name=None, pre=1.0, post=1.0):
    """Combine a buffer across all ranks, in place; returns it."""
    address, count, dtype, keep = _buffer(data, True)
    operation.Reduction(_name(name), count, dtype, op, pre, post).start(address, address,
                                                                        keep=keep).wait()
    return data


def broadcast(data, root=0, name=None):
    """Give every rank root's elements, in place; returns the buffer."""
    address, count, dtype, keep = _buffer(data, True)
    operation.broadcast(address, address, count, dtype, root, _name(name), keep=keep).wait()
    return data


def allgather(data, name=None):
    """The bytes of every rank, in rank order; lengths may differ."""
    mine = array.array("B", bytes(data))
    address = mine.buffer_info()[0] if mine else None
    block, counts = operation.allgather(address, len(mine), 1, _c.U8, _name(name), keep=mine,
                                        finish=lambda *result: result).wait()
    parts, at = [], 0
    for n in counts:
        parts.append(bytes(block[at:at + n]) if n else b"")
        at += n
    return parts


def barrier(name=None):
    """Wait until every rank is here."""
    operation.barrier(_name(name)).wait()


def alloc(nbytes):
    """Memory that the ranks of this host share, as a memoryview: what is reduced in it is not
    copied.  numpy.frombuffer() and torch.frombuffer() make arrays and tensors of it."""
    address = lib.ringup_alloc(nbytes)
    if not address:
        raise MemoryError(f"no memory for {nbytes} bytes that ranks can share")
    return _c.view(lib, address, nbytes)
