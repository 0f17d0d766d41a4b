# staging.py - host memory through which GPU tensors pass: pinned, and shared with other ranks.
# SPDX-License-Identifier: Apache-2.0
"""A GPU's driver copies to and from pinned memory several times as fast as to and from other
memory, and the library reduces data in ringup_alloc() memory in place.  A staging tensor has both
kinds of memory in one.  Pinning takes longer than a copy, so blocks are kept: a block returns to
its pool when the last tensor on it is gone, and is never returned to the system.

If memory cannot be shared or pinned, a staging tensor is an ordinary torch tensor."""

import collections
import ctypes
import math
import os
import weakref

import torch

from ringup import job

_LEAST = 4096       # bytes of the smallest block
_PORTABLE = 1       # cudaHostRegisterPortable: pinned for all GPUs of this process


def size_class(nbytes):
    """Return the size of a block for this many bytes: at most a quarter larger."""
    if nbytes <= _LEAST:
        return _LEAST
    step = 1 << ((nbytes - 1).bit_length() - 3)
    return -(-nbytes // step) * step


def register(address, nbytes):
    """Pin memory for GPUs; return whether this succeeded."""
    if int(torch.cuda.cudart().cudaHostRegister(address, nbytes, _PORTABLE)) == 0:
        return True
    try:  # the driver keeps the error, and torch takes it for that of the next kernel: this one
        torch.ones(1, device="cuda")
    except RuntimeError:
        pass
    return False


class Pool:
    """Blocks of pinned memory.  Thread-safe."""

    def __init__(self, pin=register):
        """pin(address, bytes) pins memory and returns whether it succeeded."""
        self._pin = pin
        self._free = collections.defaultdict(collections.deque)  # addresses by size
        self._refused = False

    def empty(self, shape, dtype):
        """Return an uninitialized contiguous host tensor on a block of the pool.  The block
        returns to the pool when the tensor and all its views are gone."""
        count, each = math.prod(shape), torch.empty(0, dtype=dtype).element_size()
        block = self._block(size_class(count * each)) if count else None
        if block is None:
            return torch.empty(shape, dtype=dtype)
        flat = torch.frombuffer(block, dtype=torch.uint8, count=count * each)
        return flat.view(dtype).view(shape)

    def _block(self, nbytes):
        """Return a block as an object with the buffer protocol, or None."""
        try:
            address = self._free[nbytes].pop()
        except IndexError:
            address = None if self._refused else self._make(nbytes)
            if address is None:
                return None
        block = (ctypes.c_ubyte * nbytes).from_address(address)
        weakref.finalize(block, self._free[nbytes].append, address).atexit = False
        return block

    def _make(self, nbytes):
        """Return the address of a new block, or None.  After a failure, do not try again: another
        attempt takes long and fails for the same reason, such as a limit of this process."""
        address = job.lib.ringup_alloc(nbytes)
        if address and not self._pin(address, nbytes):
            job.lib.ringup_free(address)
            address = None
        self._refused = not address
        return address

    def forget(self):
        """In a forked child, leave all blocks to the parent, because both have the same memory."""
        self._free = collections.defaultdict(collections.deque)


_pool = Pool()
os.register_at_fork(after_in_child=_pool.forget)


def empty(shape, dtype):
    """Return an uninitialized host tensor for data of a GPU."""
    return _pool.empty(shape, dtype)
