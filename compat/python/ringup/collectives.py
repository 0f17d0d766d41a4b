# collectives.py - collectives and messages on arrays of any library in host memory.
# SPDX-License-Identifier: Apache-2.0
"""Arrays may come from NumPy, torch or JAX, or support the buffer protocol or DLPack; see
memory.py.

A call blocks until it is complete.  With async_op=True it returns a handle immediately:
handle.wait() returns the result, and handle.poll() returns whether the operation is complete.  Do
not use the array in between.  Operations without a name are matched by their order, which must then
be the same on all ranks."""

from __future__ import annotations

import array
import importlib
import sys
from typing import Any, Iterable, List, Optional, Sequence, TypeVar, Union

from . import _c, constants, dlpack, gpu, job, memory, operation
from .job import lib

Array = TypeVar("Array")
Op = Union[int, str]

REDUCTIONS = {"sum": constants.SUM, "average": constants.AVERAGE, "min": constants.MIN,
              "max": constants.MAX, "product": constants.PRODUCT, "adasum": constants.ADASUM}


def _name(name):
    return None if name is None else name.encode()


def _reduction(op):
    """Return the library's code for "sum", ringup.SUM and so on."""
    number = REDUCTIONS.get(op, op) if isinstance(op, str) else op
    if number not in REDUCTIONS.values():
        raise ValueError(f"op={op!r} is not one of {', '.join(REDUCTIONS)}")
    return number


def _end(started, async_op):
    return started if async_op else started.wait()


def _array_of(like, block, shape):
    """Return an array over a block of memory, with the library and dtype of like; None if the block
    is empty."""
    block = bytearray() if block is None else block
    torch, numpy = sys.modules.get("torch"), None
    if torch is not None and isinstance(like, torch.Tensor):
        if not len(block):
            return like.new_empty(shape)
        return torch.frombuffer(block, dtype=like.dtype).reshape(shape)
    try:
        numpy = importlib.import_module("numpy")
    except ImportError:
        view = memoryview(block).cast("B")
        return view.cast(memoryview(like).format, shape) if len(view) else view
    dtype = getattr(like, "dtype", None)
    if dtype is None:
        dtype = memoryview(like).format
    out = numpy.frombuffer(block, dtype=dtype).reshape(shape)
    library = like.__array_namespace__() if hasattr(like, "__array_namespace__") else numpy
    return out if library is numpy else library.asarray(out)


def _rows(data, what):
    """Return the memory of an array that is split along its first dimension, and the arguments for
    its rows that operation.py needs."""
    m = memory.of(data)
    if not m.shape:
        raise ValueError(f"{what} needs an array with at least one dimension")
    dtype, each = m.carried
    row = each
    for n in m.shape[1:]:
        row *= n
    return m, {"source": m.address, "rows": m.shape[0], "row": row, "dtype": dtype,
               "shape": m.shape[1:]}


class Group:
    """A group of ranks that communicate with each other.

    new_group() creates one; WORLD contains all ranks of the job.  Rank arguments are ranks
    within the group."""

    def __init__(self, ranks: Optional[Iterable[int]] = None):
        self._group = None if ranks is None else job.add_group(list(ranks))

    def _here(self):
        return self._group or job.get_running().world

    def _stream(self, stream):
        """Return the number of the stream for an array on a GPU; None if the group does not accept
        GPU arrays."""
        number = dlpack.LEGACY if stream is None else dlpack.stream_number(stream)
        return number if self._here().cuda else None

    @staticmethod
    def _changed(data, m, stream):
        """Return the function that returns an array once an operation on it is complete.

        If it is unknown on which stream the array's library continues, the function waits until the
        GPU has run the operation."""
        if m.stream is None or stream is not None or dlpack.uses_legacy(data):
            return lambda _: data

        def finish(_keep):
            gpu.wait_for_gpu()
            return data
        return finish

    @property
    def rank(self) -> int:
        """This process's rank in the group; -1 if it is not a member."""
        return self._here().rank

    @property
    def size(self) -> int:
        """The number of ranks in the group."""
        return self._here().size

    @property
    def ranks(self) -> List[int]:
        """The members' ranks in the world."""
        return list(self._here().ranks)

    def allreduce(self, data: Array, op: Op = constants.SUM, name: Optional[str] = None,
                  pre: float = 1.0, post: float = 1.0,
                  async_op: bool = False,
                  stream: Optional[Any] = None) -> Union[Array, operation.Operation]:
        """Reduce an array over all ranks, in place, and return it.

        op is ringup.SUM, "sum" and so on.  Elements are multiplied by pre before the reduction
        and by post after it.

        With RINGUP_BACKEND=nccl the array may be on a GPU, but not a JAX array: use ringup.jax.
        stream is the CUDA stream on which the program uses the array: an object of torch, CuPy or
        Numba, which then stays alive during the operation, or a number.  The operation runs after
        the work that is queued there.  When it is complete, work queued there finds the result.
        Without a stream, this applies to CUDA's default stream for arrays of torch, CuPy and Numba;
        with arrays of other libraries, wait() waits until the GPU has run the operation.  If you
        use the result on another stream, pass that one to wait(stream=...) of the handle."""
        m = memory.of(data, writable=True, stream=self._stream(stream))
        memory.check_reducible(m)
        reduction = operation.Reduction(_name(name), m.count, m.dtype, _reduction(op), pre, post)
        return _end(reduction.start(m.address, m.address, self._group, (m, stream),
                                    self._changed(data, m, stream), m.stream), async_op)

    def broadcast(self, data: Array, root: int = 0, name: Optional[str] = None,
                  async_op: bool = False,
                  stream: Optional[Any] = None) -> Union[Array, operation.Operation]:
        """Copy root's elements into every rank's array, in place, and return it.  GPU arrays work
        as in allreduce()."""
        m = memory.of(data, writable=True, stream=self._stream(stream))
        dtype, each = m.carried
        return _end(operation.broadcast(m.address, m.address, m.count * each, dtype, root,
                                        _name(name), (), self._group, (m, stream),
                                        self._changed(data, m, stream), m.stream), async_op)

    def allgather(self, data: Array, name: Optional[str] = None,
                  async_op: bool = False) -> Any:
        """Concatenate the arrays of all ranks along the first dimension, whose size may differ
        between ranks.  For bytes, return a list with the bytes of each rank."""
        if isinstance(data, (bytes, bytearray)):
            return self._allgather_bytes(bytes(data), name, async_op)
        m, block = _rows(data, "allgather")
        return _end(operation.allgather(
            name=_name(name), group=self._group, keep=m, **block,
            finish=lambda out, rows: _array_of(data, out, (sum(rows), *m.shape[1:]))), async_op)

    def _allgather_bytes(self, data, name, async_op):
        mine = array.array("B", data)

        def parts(block, counts):
            out, at = [], 0
            for n in counts:
                out.append(bytes(block[at:at + n]) if n else b"")
                at += n
            return out

        address = mine.buffer_info()[0] if mine else None
        return _end(operation.allgather(address, len(mine), 1, constants.U8, _name(name),
                                        group=self._group, keep=mine, finish=parts), async_op)

    def alltoall(self, data: Array, splits: Optional[Sequence[int]] = None,
                 name: Optional[str] = None, async_op: bool = False) -> Any:
        """Send splits[i] rows of an array to rank i.  By default, all ranks get the same number of
        rows.

        Returns (received rows in rank order, number of rows received from each rank)."""
        m, block = _rows(data, "alltoall")
        if splits is not None:
            splits = [int(n) for n in splits]
            if len(splits) != self.size or min(splits) < 0 or sum(splits) > m.shape[0]:
                raise ValueError(f"splits={splits}: pass one number for each of {self.size} ranks, "
                                 f"which add up to at most {m.shape[0]} rows")
        return _end(operation.alltoall(
            name=_name(name), splits=splits, group=self._group, keep=m, **block,
            finish=lambda out, rows: (_array_of(data, out, (sum(rows), *m.shape[1:])), rows)),
            async_op)

    def reducescatter(self, data: Array, op: Op = constants.SUM, name: Optional[str] = None,
                      pre: float = 1.0, post: float = 1.0,
                      async_op: bool = False) -> Union[Array, operation.Operation]:
        """Reduce an array over all ranks and return this rank's rows of the result.  If the rows
        do not divide evenly, the first ranks get one more."""
        m, block = _rows(data, "reducescatter")
        memory.check_reducible(m)
        own = m.like((operation.own_rows(m.shape[0], self._here()), *m.shape[1:]))
        return _end(operation.reducescatter(
            _name(name), self._group, (m, own), lambda _: _array_of(data, own.keep, own.shape),
            target=own.address, op=_reduction(op), pre=pre, post=post, **block), async_op)

    def send(self, data: Any, to: int, tag: int = 0,
             async_op: bool = False) -> Optional[operation.Operation]:
        """Send an array to a rank."""
        m = memory.of(data)
        dtype, each = m.carried
        return _end(operation.send(m.address, m.count * each, dtype, to, tag, self._here(), m),
                    async_op)

    def recv(self, data: Any, source: int = constants.ANY_SOURCE, tag: int = 0) -> int:
        """Receive into an array; return the rank of the sender."""
        m = memory.of(data, writable=True)
        dtype, each = m.carried
        started, came_from = operation.receive(m.address, m.count * each, dtype, source, tag,
                                               self._here(), m)
        started.wait()
        return came_from()

    def barrier(self, name: Optional[str] = None,
                async_op: bool = False) -> Optional[operation.Operation]:
        """Block until all ranks of the group have called barrier()."""
        return _end(operation.barrier(_name(name), self._group), async_op)

    def join(self) -> int:
        """Stop contributing data.  The other ranks continue their reductions without this rank.

        Blocks until all ranks have joined; returns the rank that joined last."""
        return operation.join(self._group).wait()

    def remove(self) -> None:
        """Remove the group.  All ranks of the job must call it."""
        if self._group is None:
            raise ValueError("WORLD contains all ranks and cannot be removed; shutdown() ends the "
                             "job")
        job.remove_group(self._group)


WORLD = Group()
allreduce, broadcast, allgather, alltoall = (WORLD.allreduce, WORLD.broadcast, WORLD.allgather,
                                             WORLD.alltoall)
reducescatter, send, recv, barrier, join = (WORLD.reducescatter, WORLD.send, WORLD.recv,
                                            WORLD.barrier, WORLD.join)


def new_group(ranks: Iterable[int]) -> Group:
    """Create a group of the given ranks.  All ranks of the job must call it, members or not."""
    return Group(ranks)


def alloc(nbytes: int) -> memoryview:
    """Allocate memory that the ranks of this host share, and return it as a memoryview.  Reductions
    in this memory need no copy.

    Use numpy.frombuffer() or torch.frombuffer() to get an array or a tensor."""
    address = lib.ringup_alloc(nbytes)
    if not address:
        raise MemoryError(f"cannot allocate {nbytes} bytes of memory that ranks can share")
    return _c.view(lib, address, nbytes)
