# job.py - this process as one rank: join, leave, start and wait for operations.
# SPDX-License-Identifier: Apache-2.0
"""Everything here works on addresses; horovod.torch and ringup.collectives put types on top."""

import atexit
import ctypes
import functools
import os
import sys

from . import _c, errors, torchrun
from ._version import __version__

lib, library_path = _c.load(__version__)

_job = None    # the Job that this process is in
_is_child = False  # was it forked from one that is in a job?
_live = set()  # operations under way: what they work on must not go away before they end

# How long one call into the library may block, so that Ctrl-C is noticed in between.
SLICE_MS = 500


class Group:
    """Some ranks of the job: who they are, and this process's place (-1: not among them)."""

    __slots__ = ("handle", "ranks", "rank", "size")

    def __init__(self, handle, ranks):
        self.handle, self.ranks, self.size = handle, ranks, len(ranks)
        self.rank = lib.ringup_rank(handle)


class Job:
    """A job, between init() and shutdown()."""

    __slots__ = ("handle", "world")

    def __init__(self, handle):
        world = lib.ringup_world(handle)
        self.handle = handle
        self.world = Group(world, list(range(lib.ringup_size(world))))


class Operation:
    """One collective under way: a handle to poll() and wait().

    keep and what finish refers to stay alive until it has completed, also if nobody waits;
    finish() makes the result."""

    __slots__ = ("op", "job", "called", "keep", "finish")

    def __init__(self, op, job, called, keep, finish):
        self.op, self.job, self.called, self.keep, self.finish = op, job, called, keep, finish

    def poll(self):
        """Has it completed, well or badly?  True also once it has been waited for."""
        return self.op is None or self.job is not _job or lib.ringup_poll(self.op) == 1

    def wait(self):
        """Block until it has completed; returns its result, or None if that was done before."""
        if self.op is None:
            return None
        if self.job is not _job:
            self._forget()
            raise errors.NotRunning(f"{_words(self.called)}: the job that it belonged to has ended")
        status = lib.ringup_wait(self.op, SLICE_MS)
        while status == _c.ETIMEDOUT:
            status = lib.ringup_wait(self.op, SLICE_MS)
        finish = self._forget()
        if status < 0:
            raise _c.failure(lib, status, _words(self.called))
        return finish() if finish else None

    def _forget(self):
        """There is no operation any more; returns what made its result."""
        finish, self.op, self.keep, self.finish = self.finish, None, None, None
        _live.discard(self)
        return finish


class Several:
    """Operations that are one to those who wait for them; the result is the list of theirs."""

    __slots__ = ("parts",)

    def __init__(self, parts):
        self.parts = parts

    def poll(self):
        """Have all of them completed?"""
        return all([part.poll() for part in self.parts])

    def wait(self):
        """Block until all have completed, then raise the first failure, or return the results."""
        parts, self.parts = self.parts, ()
        results, failed = [], None
        for part in parts:
            try:
                results.append(part.wait())
            except errors.RingupError as e:
                failed = failed or e
        if failed:
            raise failed
        return results if parts else None


def init(rank=None, size=None, allgather=None):
    """Join the job; nothing happens if this process is in one.

    Without arguments rank and size come from the launcher.  allgather(bytes) -> list of
    bytes, one for each rank, replaces ringup's own meeting point.
    """
    global _job
    if is_initialized():
        return
    if rank is None and allgather is None:
        rank, size, allgather = torchrun.meeting()
    how = _c.Init(rank=0 if rank is None else rank, size=0 if size is None else size)
    failed = []
    if allgather is not None:
        how.exchange, failed = _c.exchange(allgather)
    r = ctypes.c_void_p()
    status = lib.ringup_init(ctypes.byref(how), ctypes.byref(r))
    if status < 0:
        raise _c.failure(lib, status, "init") from (failed[0] if failed else None)
    _job = Job(r)
    atexit.register(shutdown)
    if sys.excepthook is not _last_words:
        _last_words.before, sys.excepthook = sys.excepthook, _last_words


def shutdown():
    """Leave the job; operations in flight fail, also on the other ranks."""
    global _job
    atexit.unregister(shutdown)
    if _job is None:
        return
    job, _job = _job, None
    lib.ringup_fini(job.handle)
    _live.clear()


def _forked():
    """Called in a child: it is no rank, and what is under way is its parent's."""
    global _job, _is_child
    _is_child, _job = _is_child or _job is not None, None
    _live.clear()


os.register_at_fork(after_in_child=_forked)


def _last_words(kind, value, trace):
    """sys.excepthook: tell the other ranks why this one is about to end."""
    if is_initialized() and _job.world.size > 1:
        abort(f"{kind.__name__}: {value}")
    _last_words.before(kind, value, trace)


def abort(why):
    """Fail all operations of all ranks, now and from now on."""
    lib.ringup_abort(here().handle, str(why)[:200].encode())


def is_initialized():
    """Is this process in a job?"""
    return _job is not None


def here():
    """The job this process is in."""
    if _job is None:
        raise errors.NotRunning("this process was forked from a rank and is not one itself: "
                                "communicate from the process that called init()" if _is_child
                                else "this process is not in a job: call init() first")
    return _job


def rank():
    """This process's place among all ranks."""
    return here().world.rank


def size():
    """How many ranks there are."""
    return here().world.size


def local_rank():
    """This process's place among the ranks of its host."""
    return lib.ringup_local_rank(here().handle)


def local_size():
    """How many ranks this host has."""
    return lib.ringup_local_size(here().handle)


def host_rank():
    """This host's place among the hosts."""
    return lib.ringup_host_rank(here().handle)


def host_count():
    """How many hosts there are."""
    return lib.ringup_host_count(here().handle)


def is_homogeneous():
    """Has every host the same number of ranks?"""
    return bool(lib.ringup_is_homogeneous(here().handle))


def backend():
    """Who carries the collectives out: "self", "node", "tcp"."""
    return lib.ringup_backend(here().world.handle).decode()


def _words(called):
    """What an operation is called, for people."""
    what, name = called
    return f"{what} {name.decode(errors='replace')!r}" if name else what


def _start(call, group, called, keep, finish, *args):
    """Start an operation of a group; returns it."""
    job, op = here(), ctypes.c_void_p()
    status = call((group or job.world).handle, *args, ctypes.byref(op))
    if status < 0:
        raise _c.failure(lib, status, _words(called))
    operation = Operation(op, job, called, keep, finish)
    _live.add(operation)
    return operation


@functools.lru_cache(1 << 12)
def _shape(shape):
    """The two last fields of most structs; ranks compare them."""
    return (ctypes.c_uint64 * len(shape))(*shape), len(shape)


def _scaled(pre, post):
    """The library takes 0 for 1."""
    if not pre or not post:
        raise ValueError("a scale factor of 0 would give zeros; multiply by 0 yourself")


@functools.lru_cache(1 << 12)
def _reduce(name, count, dtype, op, pre, post, shape):
    """What to reduce, but not where: the same in each step of a training."""
    _scaled(pre, post)
    return _c.Reduce(name, None, None, count, dtype, op, pre, post, *_shape(shape))


def allreduce(source, target, count, dtype, op, name=None, pre=1.0, post=1.0, shape=(),
              group=None, keep=None, finish=None):
    """Start a reduction.  Names are bytes here and below; without a group all ranks take part."""
    pattern = _reduce(name, count, dtype, op, pre, post, shape)  # the copy points into it
    a = _c.Reduce.from_buffer_copy(pattern)
    setattr(a, "in", source)
    a.out = target
    return _start(lib.ringup_allreduce, group, ("allreduce", name), keep, finish, ctypes.byref(a))


def broadcast(source, target, count, dtype, root, name=None, shape=(), group=None, keep=None,
              finish=None):
    """Start a broadcast; root is a place in the group, source is read there only."""
    b = _c.Bcast(name, source, target, count, dtype, root, *_shape(shape))
    return _start(lib.ringup_broadcast, group, ("broadcast", name), keep, finish, ctypes.byref(b))


def allgather(source, rows, row, dtype, name=None, shape=(), group=None, keep=None, finish=None):
    """Start a gathering of rows rows; finish(memory, rows of each rank) makes the result."""
    out = ctypes.c_void_p()
    counts = (ctypes.c_uint64 * (group or here().world).size)()
    a = _c.Gather(name, source, rows, row, dtype, ctypes.pointer(out), counts, *_shape(shape))
    return _start(lib.ringup_allgather, group, ("allgather", name), (keep, out, counts),
                  lambda: finish(*_received(out, list(counts), row, dtype)), ctypes.byref(a))


def _received(out, rows, row, dtype):
    """(memory, rows of each rank) that an operation has left; the memory is None if empty."""
    if not out.value:
        return None, rows
    return _c.view(lib, out.value, sum(rows) * row * _c.BYTES[dtype]), rows


def barrier(name=None, group=None):
    """Start a barrier."""
    return _start(lib.ringup_barrier, group, ("barrier", name), None, None, name)
