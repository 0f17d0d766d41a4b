# job.py - this process's membership in jobs: join, leave, form groups, query its rank.
# SPDX-License-Identifier: Apache-2.0
"""init() joins the job that rank(), size() and the other functions describe.  open_job() joins
further jobs, any number of times; each job has its own connections, threads and groups."""

import atexit
import ctypes
import os
import sys

from . import _c, errors, torchrun
from ._version import __version__
from .constants import CUDA

lib, library_path = _c.load(__version__)
error_of = _c.error  # the exception for the name of a status, and a sentence

_job = None    # the Job that this process is in, or that it was forked from a rank of
_last_rank = None  # of this process, in the job that it is in or was in last
_jobs = set()  # every Job that was opened here and not closed, init()'s included
_before_end = []  # functions that are called at exit: see call_at_exit()
_followers = []  # pairs of functions that are told of init()'s jobs: see attach()
# (rank, size, allgather) for init() without arguments, or three times None: the library then asks
# the environment.  A launcher whose ranks meet by Python, such as horovod.ray, puts its own here.
meeting = torchrun.meeting


class Group:
    """A group of ranks of the job: its members, and this process's rank in it (-1 if not a
    member)."""

    __slots__ = ("handle", "job", "number", "ranks", "rank", "size", "cuda")

    def __init__(self, job, handle):
        self.handle, self.job, self.number = handle, job, lib.ringup_group_id(handle)
        self.rank, self.size = lib.ringup_rank(handle), lib.ringup_size(handle)
        self.ranks = [lib.ringup_group_member(handle, i) for i in range(self.size)]
        self.cuda = bool(lib.ringup_accepts(handle, CUDA))  # are data of GPUs taken where they are?


class Job:
    """A job that this process belongs to as a rank, until close().

    A forked child also has the job, but it is not running there: the child can only read its
    numbers, as data-loading workers do.

    under_way  operations whose memory must stay alive until they end
    fresh      names of operations that were started since any was seen complete; see operation.py
    unnamed    {number of a group: its latest operations without a name}; see operation.py
    followed   {number of a group: number of unnamed operations that another one has followed}
    calls      {number of a group: numbers of its calls from JAX}; see jax_primitive.py
    """

    __slots__ = ("handle", "running", "world", "local_rank", "local_size", "host_rank",
                 "host_count", "is_homogeneous", "backend", "under_way", "fresh", "unnamed",
                 "calls", "followed")

    def __init__(self, handle):
        self.handle, self.running = handle, True
        self.under_way, self.fresh, self.unnamed, self.calls = set(), {}, {}, {}
        self.followed = {}
        self.world = Group(self, lib.ringup_world(handle))
        self.local_rank, self.local_size = (lib.ringup_local_rank(handle),
                                            lib.ringup_local_size(handle))
        self.host_rank, self.host_count = (lib.ringup_host_rank(handle),
                                           lib.ringup_host_count(handle))
        self.is_homogeneous = bool(lib.ringup_is_homogeneous(handle))
        self.backend = lib.ringup_backend(self.world.handle).decode()

    def abort(self, why):
        """Fail all current and future operations on all ranks.  Thread-safe."""
        lib.ringup_abort(self.handle, str(why)[:200].encode())

    def close(self):
        """Leave the job.  Operations in flight fail, also on the other ranks.

        No other thread may be waiting for an operation.  A second call has no effect."""
        if self.running:
            self.stop()
            lib.ringup_fini(self.handle)
            self.forget()

    def stop(self):
        """Stop belonging to the job as a rank."""
        self.running = False
        _jobs.discard(self)

    def forget(self):
        """Forget the operations that this process has started."""
        self.under_way.clear()
        self.fresh.clear()
        self.unnamed.clear()


def open_job(rank=0, size=0, allgather=None, groups=(), join_sums=False, part=None):
    """Join a job and return it.  If the caller does not close the job, it is closed at exit.

    rank, size and allgather(bytes), which returns a list with the bytes of each rank, have the same
    meaning as in struct ringup_init.  Without a size, rank and size come from the launcher.  groups
    and join_sums are as in init(). If the job is part of a larger one, part contains its name in
    timelines and the ranks of its members in the larger job.  Blocks until all ranks have called
    open_job()."""
    how = _c.Init(rank=rank, size=size)
    sets = (_c.Set * len(groups))(*[_c.Set(_ints(g), len(g)) for g in groups])
    how.groups, how.group_count, how.join_sums = sets, len(groups), join_sums
    if part is not None:
        how.part, how.part_ranks = part[0].encode(), _ints(part[1])
    failed = []
    if allgather is not None:
        how.exchange, failed = _c.exchange(allgather, size or None)
    atexit.unregister(_close_all)
    atexit.register(_close_all)  # after what was registered before, so called before it
    if not _last_words.installed:
        _last_words.before, sys.excepthook = sys.excepthook, _last_words
        _last_words.installed = True
    _watch_child()
    r = ctypes.c_void_p()
    try:
        status = lib.ringup_init(ctypes.byref(how), ctypes.byref(r))
        if failed and isinstance(failed[0], errors.RingupError):  # it says more than the library
            raise failed[0]
        if status < 0:
            raise _c.failure(lib, status, "init") from (failed[0] if failed else None)
        job = Job(r)
    except BaseException:  # a KeyboardInterrupt comes when the library is through
        lib.ringup_fini(r)
        raise
    _jobs.add(job)
    return job


def init(rank=None, size=None, allgather=None, groups=(), join_sums=False):
    """Join the job.  This has no effect if this process is already in a job, or was forked from a
    rank.

    Without arguments, rank and size come from the launcher.  allgather(bytes), which returns a list
    with the bytes of each rank, replaces ringup's own rendezvous.  groups are lists of ranks, the
    same on all ranks; group(1) is the first of them.  With join_sums, a rank that has joined takes
    part in sums and barriers only, as in Horovod; RINGUP_JOIN overrides this."""
    global _job, _last_rank
    if is_initialized():
        return
    if rank is None and allgather is None:
        rank, size, allgather = meeting()
    _job = open_job(rank or 0, size or 0, allgather, groups, join_sums)
    _last_rank = _job.world.rank
    for tell, _closed in _followers:
        tell(_job.handle)


def shutdown():
    """Leave the job.  Operations in flight fail, also on the other ranks."""
    global _job
    if _job is not None:
        job, _job = _job, None
        told = _followers if job.running else ()
        for tell, _closed in told:
            tell(None)
        job.close()
        for _tell, closed in told:
            closed()


def beside(name, who):
    """Return the path of a library in the same folder as this process's libringup.so."""
    candidates = [library_path, os.path.realpath(library_path)]
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        candidates += [line.split(None, 5)[-1].strip() for line in maps if "libringup.so" in line]
    tried = list(dict.fromkeys(os.path.join(os.path.dirname(os.path.abspath(c)), name)
                               for c in candidates))
    for path in tried:
        if os.path.exists(path):
            return path
    raise ImportError(f"{who} needs {name}, which belongs in the folder of libringup.so, but it "
                      f"was not found: {', '.join(tried)}; reinstall ringup with `make install`, "
                      "or rebuild it with `ringup rebuild --engine ringup`")


def function_of(path, name):
    """Return a function of a library that a framework can call."""
    return _c.foreign_function(path, name)


def attach(path, name, closed=None):
    """Attach a library that starts operations itself to the job.

    Its function name() is called with the handle of each job that init() joins, and with None
    before shutdown() leaves the job.  Its function closed(), if it has one, is called after
    shutdown()."""
    tell = _c.of_framework(path, name)
    _followers.append((tell, _c.of_framework(path, closed, ()) if closed else lambda: None))
    if _job is not None and _job.running:
        tell(_job.handle)


def call_at_exit(function):
    """Call a function at exit, before jobs are closed, so that it can still use them."""
    _before_end.append(function)


def _close_all():
    """Close all jobs at exit."""
    for function in _before_end:
        function()
    shutdown()
    for job in list(_jobs):
        job.close()


def _ints(numbers):
    return (ctypes.c_int * len(numbers))(*numbers)


def group(number):
    """Return the group with this number; 0 is the group of all ranks."""
    job = get_running()
    handle = lib.ringup_group_get(job.handle, number)
    if not handle:
        raise errors.InvalidArgument(f"no group {number}")
    return Group(job, handle)


def add_group(ranks):
    """Create a group of ranks.  All ranks of the job must call it, members or not."""
    job, g = get_running(), ctypes.c_void_p()
    status = lib.ringup_group_add(job.handle, _ints(ranks), len(ranks), ctypes.byref(g))
    if status < 0:
        raise _c.failure(lib, status, f"a group of ranks {ranks}")
    return Group(job, g.value)


def remove_group(which):
    """Remove a group.  All ranks of the job must call it."""
    get_running()
    status = lib.ringup_group_remove(which.handle)
    if status < 0:
        raise _c.failure(lib, status, f"removing group {which.number}")


def _forked():
    """Run in a forked child, which is not a rank; operations in flight belong to its parent."""
    for job in list(_jobs):
        job.stop()
        job.forget()


os.register_at_fork(after_in_child=_forked)


def abort_all(error):
    """Notify the other ranks that this rank is ending because of an exception."""
    for job in list(_jobs):
        if job.world.size > 1:
            job.abort(f"{type(error).__name__}: {error}")


def _last_words(kind, value, trace):
    """Run as sys.excepthook: call abort_all(), then the previous hook."""
    abort_all(value)
    _last_words.before(kind, value, trace)


_last_words.installed = False  # once: a hook that replaces this one may call it


def _child_fails(error):
    """Call abort_all() if the exception ends this child of multiprocessing as failed."""
    if isinstance(error, SystemExit):  # mp.spawn() of torch raises it after an exception
        error = error.__context__ if error.code else None
    if error is not None:
        abort_all(error)


def _child_ends():
    """Do what atexit and sys.excepthook do elsewhere."""
    _child_fails(sys.exc_info()[1])
    _close_all()


def _watch_run(process):
    """Have _child_fails() called with the exception that leaves run() of this child's Process."""
    monitoring, bootstrap = sys.monitoring, process.BaseProcess._bootstrap.__code__

    def unwound(code, _offset, error):
        caller = sys._getframe(1).f_back
        if code.co_name == "run" and caller and caller.f_code is bootstrap:
            _child_fails(error)

    for tool in (3, 4):  # of the six, those without a use of their own
        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, "ringup")
            monitoring.register_callback(tool, monitoring.events.PY_UNWIND, unwound)
            monitoring.set_events(tool, monitoring.events.PY_UNWIND)
            break


def _watch_child():
    """Have _child_ends() called if this process is a child of multiprocessing, which calls no
    sys.excepthook and, if it was forked, nothing of atexit."""
    process, util = map(sys.modules.get, ("multiprocessing.process", "multiprocessing.util"))
    if not process or not util or process.parent_process() is None:
        return
    if not (_watch_child.finalizer and _watch_child.finalizer.still_active()):
        _watch_child.finalizer = util.Finalize(None, _child_ends, exitpriority=100)
        if sys.version_info >= (3, 13):  # which runs finalizers when it has handled the exception
            _watch_run(process)


_watch_child.finalizer = None


def abort(why):
    """Fail all current and future operations on all ranks."""
    get_running().abort(why)


def is_initialized():
    """Return whether this process is in a job, or was forked from a process that is."""
    return _job is not None


def get_or_none():
    """Return the job, or None if there is none."""
    return _job


def get():
    """Return the job of this process, or of the rank that it was forked from."""
    if _job is None:
        raise errors.NotRunning("this process is not in a job: call init() first")
    return _job


def get_running():
    """Return the job of this process, which must be a rank and not a forked child."""
    job = get()
    if not job.running:
        raise errors.NotRunning("a forked child is not a rank of the job: communicate from the "
                                "process that called init()")
    return job


def rank():
    """Return the rank of this process in the job."""
    return get().world.rank


def last_rank():
    """Return the rank of this process, even after shutdown(); None if it never joined a job."""
    return _last_rank


def size():
    """Return the number of ranks."""
    return get().world.size


def local_rank():
    """Return the rank of this process on its host."""
    return get().local_rank


def local_size():
    """Return the number of ranks on this host."""
    return get().local_size


def host_rank():
    """Return the index of this host among the hosts of the job."""
    return get().host_rank


def host_count():
    """Return the number of hosts."""
    return get().host_count


def is_homogeneous():
    """Return whether all hosts have the same number of ranks."""
    return get().is_homogeneous


def backend():
    """Return the name of the back end that runs the collectives: "self", "node" or "tcp"."""
    return get().backend
