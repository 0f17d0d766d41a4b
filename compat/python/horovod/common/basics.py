# basics.py - init(), shutdown(), rank() and the like, for all frameworks.
# SPDX-License-Identifier: Apache-2.0

import functools
import warnings

from ringup import job, timeline
from ringup.errors import NotRunning, SystemRefused

from . import process_sets as _sets
from .semantics import Adasum, Average, Max, Min, Product, Sum

_first_sets = []  # process sets that the last init() was given


def init(comm=None, process_sets=None):
    """Join the job.  This has no effect if this process is already in a job.

    comm may be an mpi4py communicator, whose ranks then form the job and meet through it, or a list
    of all ranks that the launcher started.  process_sets are created at the start; you can add more
    later, even without "dynamic"."""
    dynamic = process_sets is None or isinstance(process_sets, str)
    if isinstance(process_sets, str) and process_sets.lower() != "dynamic":
        raise ValueError(f'process_sets={process_sets!r}: it is a list of hvd.ProcessSet, or '
                         '"dynamic"')
    sets = [] if dynamic else list(process_sets)
    if not job.is_initialized():
        _first_sets[:] = sets
    if hasattr(comm, "Get_rank"):
        _sets.begin(sets, comm)
        return
    _check_ranks(comm)
    begins = not job.is_initialized()
    _sets.begin(sets)
    if begins and comm and len(comm) != job.size():
        there = job.size()
        job.shutdown()
        raise ValueError(_SOME_RANKS.format(sorted(comm), f", of a job of {there} ranks"))


_SOME_RANKS = ("hvd.init(comm={}){}: a job contains all ranks that its launcher started.  Start "
               "fewer ranks, pass an mpi4py communicator, or pass the list to hvd.ProcessSet()")


def _check_ranks(comm):
    """Raise an exception for a list that does not contain all ranks."""
    if comm is None:
        return
    try:
        ranks = sorted(comm)
    except TypeError as e:
        raise ValueError("comm must be a list of ranks or an mpi4py communicator, not "
                         f"{type(comm).__name__}") from e
    if ranks != list(range(len(ranks))):
        raise ValueError(_SOME_RANKS.format(ranks, ""))


def init_again():
    """Join the next generation of an elastic job, with the process sets of the last init(). New
    ranks run the program from its beginning, so they request the same sets."""
    _sets.begin(_first_sets, again=True)


def _asked(question):
    """Query the job; raise ValueError before init(), as Horovod does."""
    @functools.wraps(question)
    def ask(*args, **kwargs):
        try:
            return question(*args, **kwargs)
        except NotRunning as e:
            raise ValueError("Horovod is not initialized: call hvd.init() first") from e

    return ask


shutdown = job.shutdown
is_initialized = job.is_initialized
rank = _asked(job.rank)
size = _asked(job.size)
local_rank = _asked(job.local_rank)
local_size = _asked(job.local_size)
cross_rank = _asked(job.host_rank)
cross_size = _asked(job.host_count)
is_homogeneous = _asked(job.is_homogeneous)


@_asked
def start_timeline(file_path, mark_cycles=False):
    """Start recording a timeline in this file; only rank 0 writes one.

    HOROVOD_TIMELINE need not be set.  If the file cannot be written, a warning is logged and the
    job continues, as in Horovod."""
    try:
        timeline.start(file_path, mark_cycles)
    except SystemRefused as e:
        warnings.warn(f"no timeline: {e}", stacklevel=3)


@_asked
def stop_timeline():
    """Stop recording if a recording is running.  The file is then complete."""
    timeline.stop()


# Horovod asks which libraries it was compiled with.  ringup carries the data itself and needs no
# MPI for that, which is what "gloo" stands for in Horovod's vocabulary.

def gloo_built():
    """Return whether a transport without MPI exists; always true."""
    return True


gloo_enabled = gloo_built


def mpi_built():
    """Return whether MPI moves the data; always false.  mpirun may still start the ranks."""
    return False


mpi_enabled = mpi_built


def mpi_threads_supported():
    """Return whether the program may use MPI from several threads; ringup does not decide this."""
    raise ValueError("ringup does not use MPI, so it cannot say whether MPI allows threads")


def nccl_built():
    """Return NCCL's version code, or 0 without NCCL."""
    return 0


def ddl_built():
    """Return whether IBM's DDL is available; always false."""
    return False


ccl_built = cuda_built = rocm_built = ddl_built


class HorovodBasics:
    """The same functions as methods.  In Horovod, each framework's mpi_ops has such an object,
    called _basics."""

    Average, Sum, Adasum, Min, Max, Product = Average, Sum, Adasum, Min, Max, Product

    HOROVOD_PROCESS_SET_ERROR_INIT = -1
    HOROVOD_PROCESS_SET_ERROR_DYNAMIC = -2
    HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET = -3
    HOROVOD_PROCESS_SET_ERROR_FOREIGN_SET = -4
    HOROVOD_PROCESS_SET_ERROR_SHUTDOWN = -5
    HOROVOD_PROCESS_SET_ERROR_EXISTING_SET = -6

    def __init__(self, pkg_path=None, *args):
        """Accept the path at which Horovod looks for a library of its own.  ringup has one library
        for all frameworks and ignores the path."""

    def _add_process_set_impl(self, ranks):
        """Return the id of a new set; None if a set with these ranks exists."""
        if list(ranks) in _sets.ids_and_ranks().values():
            return None
        return _sets.add_process_set(list(ranks)).process_set_id

    def _remove_process_set_impl(self, process_set_id):
        """Return the id of the removed set; None for an unknown set or the global one."""
        if process_set_id not in _sets.ids_and_ranks():
            return None
        return process_set_id if _sets.remove_process_set(_sets.set_of(process_set_id)) else None

    def _process_set_rank(self, process_set_id):
        """Return the rank of this process in a set."""
        return _sets.set_of(process_set_id).rank()

    def _process_set_size(self, process_set_id):
        """Return the number of ranks in a set."""
        return _sets.set_of(process_set_id).size()

    def _get_process_set_ids_and_ranks(self):
        """Return {id: ranks} of all sets."""
        return _sets.ids_and_ranks()

    def _comm_process_set_id(self, comm):
        """Return the number of a set that was made from a communicator."""
        ranks = sorted(comm.allgather(job.rank()))
        for number, others in _sets.ids_and_ranks().items():
            if ranks == others:
                return number
        raise ValueError(f"no process set with ranks {ranks}")


for _name in ("init", "shutdown", "is_initialized", "start_timeline", "stop_timeline", "size",
              "local_size", "cross_size", "rank", "local_rank", "cross_rank", "is_homogeneous",
              "mpi_threads_supported", "mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built",
              "nccl_built", "ddl_built", "ccl_built", "cuda_built", "rocm_built"):
    setattr(HorovodBasics, _name, staticmethod(globals()[_name]))
