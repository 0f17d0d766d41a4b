# collectives.py - operations on buffers, tensors and bytes, for code without a framework.
# SPDX-License-Identifier: Apache-2.0
"""What lies in host memory is used where it lies: see memory.py for what can be passed."""

import array

from . import _c, constants, memory, operation
from .job import lib


def _name(name):
    return None if name is None else name.encode()


def allreduce(data, op=constants.SUM, name=None, pre=1.0, post=1.0):
    """Combine an array across all ranks, in place; returns it."""
    m = memory.of(data, writable=True)
    memory.check_reducible(m)
    operation.Reduction(_name(name), m.count, m.dtype, op, pre, post).start(m.address, m.address,
                                                                           keep=m).wait()
    return data


def broadcast(data, root=0, name=None):
    """Give every rank root's elements, in place; returns the array."""
    m = memory.of(data, writable=True)
    dtype, each = m.carried
    operation.broadcast(m.address, m.address, m.count * each, dtype, root, _name(name),
                        keep=m).wait()
    return data


def allgather(data, name=None):
    """The bytes of every rank, in rank order; lengths may differ."""
    mine = array.array("B", bytes(data))
    address = mine.buffer_info()[0] if mine else None
    block, counts = operation.allgather(address, len(mine), 1, constants.U8, _name(name), keep=mine,
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
