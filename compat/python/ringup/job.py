# job.py - this process as one rank: join, leave, start and wait for operations.
# SPDX-License-Identifier: Apache-2.0
"""Everything here works on addresses; horovod.torch and ringup.collectives put types on top."""

import atexit
import ctypes
import itertools
import os
import sys

from . import _c, errors, torchrun
from ._version import __version__

lib, library_path = _c.load(__version__)

_job = None  # (struct ringup *, group of all ranks, rank, size, pid)
_ops = {}    # handle: (struct ringup_op *, its job, what it is called, what must stay alive)
_handles = itertools.count(1)

# How long one call into the library may block, so that Ctrl-C is noticed in between.
SLICE_MS = 500


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
    world = lib.ringup_world(r)
    _job = (r, world, lib.ringup_rank(world), lib.ringup_size(world), os.getpid())
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
    if job[4] == os.getpid():  # a forked child is not the rank
        lib.ringup_fini(job[0])


def _last_words(kind, value, trace):
    """sys.excepthook: tell the other ranks why this one is about to end."""
    if is_initialized() and _job[3] > 1:
        abort(f"{kind.__name__}: {value}")
    _last_words.before(kind, value, trace)


def abort(why):
    """Fail all operations of all ranks, now and from now on."""
    lib.ringup_abort(_here()[0], str(why)[:200].encode())


def is_initialized():
    """Is this process in a job?"""
    return _job is not None and _job[4] == os.getpid()


def _here():
    """The job this process is in."""
    if _job is None:
        raise errors.NotRunning("this process is not in a job: call init() first")
    if _job[4] != os.getpid():
        raise errors.NotRunning("this process was forked from a rank and is not one itself: "
                                "communicate from the process that called init()")
    return _job


def rank():
    """This process's place among all ranks."""
    return _here()[2]


def size():
    """How many ranks there are."""
    return _here()[3]


def local_rank():
    """This process's place among the ranks of its host."""
    return lib.ringup_local_rank(_here()[0])


def local_size():
    """How many ranks this host has."""
    return lib.ringup_local_size(_here()[0])


def host_rank():
    """This host's place among the hosts."""
    return lib.ringup_host_rank(_here()[0])


def host_count():
    """How many hosts there are."""
    return lib.ringup_host_count(_here()[0])


def is_homogeneous():
    """Has every host the same number of ranks?"""
    return bool(lib.ringup_is_homogeneous(_here()[0]))


def backend():
    """Who carries the collectives out: "self", "node", "tcp"."""
    return lib.ringup_backend(_here()[1]).decode()


def _start(call, what, name, keep, *args):
    """Start an operation; returns its handle."""
    called = f"{what} {name!r}" if name else what
    op, job = ctypes.c_void_p(), _here()
    status = call(job[1], *args, ctypes.byref(op))
    if status < 0:
        raise _c.failure(lib, status, called)
    handle = next(_handles)
    _ops[handle] = (op, job, called, keep)
    return handle


def _name(name):
    return None if name is None else name.encode()


def _shape(shape):
    """The two last fields of every struct; ranks compare them."""
    return (ctypes.c_uint64 * len(shape))(*shape), len(shape)


def allreduce(source, target, count, dtype, op, name=None, pre=1.0, post=1.0, keep=None,
              shape=()):
    """Start a reduction; keep is referred to until it has completed."""
    if not pre or not post:
        raise ValueError("a scale factor of 0 would give zeros; multiply by 0 yourself")
    a = _c.Reduce(_name(name), source, target, count, dtype, op, pre, post,
                   *_shape(shape))
    return _start(lib.ringup_allreduce, "allreduce", name, keep, ctypes.byref(a))


def broadcast(source, target, count, dtype, root, name=None, keep=None, shape=()):
    """Start a broadcast; source is read on root only."""
    b = _c.Bcast(_name(name), source, target, count, dtype, root, *_shape(shape))
    return _start(lib.ringup_broadcast, "broadcast", name, keep, ctypes.byref(b))


def allgather(source, rows, row, dtype, name=None, keep=None, shape=()):
    """Start a gathering of rows rows; wait() returns (memory, rows of each rank)."""
    out, counts = ctypes.c_void_p(), (ctypes.c_uint64 * size())()
    a = _c.Gather(_name(name), source, rows, row, dtype, ctypes.pointer(out),
                  ctypes.cast(counts, ctypes.POINTER(ctypes.c_uint64)), *_shape(shape))
    bytes_of_row = row * tuple(_c.DTYPES.values())[dtype]

    def result():
        n = list(counts)
        return (_c.view(lib, out.value, sum(n) * bytes_of_row) if out.value else None), n

    result.keep = keep
    return _start(lib.ringup_allgather, "allgather", name, result, ctypes.byref(a))


def barrier(name=None):
    """Start a barrier."""
    return _start(lib.ringup_barrier, "barrier", name, None, _name(name))


def poll(handle):
    """Has the operation completed, well or badly?  True also once it has been waited for."""
    op, job = _ops.get(handle, (None, None))[:2]
    return op is None or job is not _job or lib.ringup_poll(op) == 1


def wait(handle):
    """Block until the operation has completed; returns what allgather() says, else None."""
    if handle not in _ops:
        return None
    op, job, called, keep = _ops[handle]
    if job is not _here():
        del _ops[handle]
        raise errors.NotRunning(f"{called}: the job that it belonged to has ended")
    status = lib.ringup_wait(op, SLICE_MS)
    while status == _c.ETIMEDOUT:
        status = lib.ringup_wait(op, SLICE_MS)
    del _ops[handle]
    if status < 0:
        raise _c.failure(lib, status, called)
    return keep() if callable(keep) else None
