# process_sets.py - sets of ranks that communicate among themselves.
# SPDX-License-Identifier: Apache-2.0

from ringup import job
from ringup.errors import RingupError

from .exceptions import translated

_added = {}  # ranks: the set of them that can be used


class ProcessSet:
    """Some ranks; to be used it must be given to init() or add_process_set()."""

    process_set_id = ranks = mpi_comm = None

    def __init__(self, ranks_or_comm):
        if hasattr(ranks_or_comm, "Get_rank"):
            raise ValueError("a ProcessSet cannot be made from an MPI communicator here: pass the "
                             "list of its ranks, which its allgather(hvd.rank()) gives")
        try:
            self.ranks = sorted(ranks_or_comm)
        except TypeError as e:
            raise ValueError("a ProcessSet is made from a list of ranks, not from "
                             f"{type(ranks_or_comm).__name__}") from e
        if any(not isinstance(r, int) for r in self.ranks):
            raise ValueError(f"a ProcessSet is made from a list of ranks, not {self.ranks}")
        self._group = None

    def size(self):
        """How many ranks it has; None if it has not been added."""
        return None if self.process_set_id is None else _group(self).size

    def rank(self):
        """This process's place in it; None if it has not been added."""
        return None if self.process_set_id is None else _as_member(_group(self), self).rank

    def included(self):
        """Is this process one of them?"""
        # The world's ranks are known to hvd.init(); others may have joined the job.
        return self is global_process_set or job.rank() in self.ranks

    def __repr__(self):
        return (f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, "
                f"mpi_comm={self.mpi_comm})")


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0


def _asked(question, *args):
    """What a function of the job's returns, or Horovod's exception for its own."""
    try:
        return question(*args)
    except RingupError as e:
        raise translated(e) from e


def _group(process_set):
    """The library's group that a set stands for; in a forked child, stood for."""
    joined = _asked(job.joined)
    if process_set is global_process_set:
        process_set._group = joined.world
    group = process_set._group
    if group is None or group.job is not joined:
        raise ValueError(f"{process_set} is to be added with hvd.init() or hvd.add_process_set() "
                         "before it can be used")
    return group


def _as_member(group, process_set):
    """The group, if this process is one of its ranks."""
    if group.rank < 0:
        raise ValueError(f"rank {job.rank()} is not a member of {process_set}")
    return group


def group_of(process_set):
    """The library's group for an operation of this process's."""
    group = process_set._group
    if group is None or not group.job.running:
        _asked(job.here)
        group = _group(process_set)
    return _as_member(group, process_set)


def _check(process_set):
    """Complain about what cannot be a new set."""
    ranks = process_set.ranks
    if not ranks or len(set(ranks)) < len(ranks) or ranks[0] < 0:
        raise ValueError(f"{process_set}: a process set has ranks, each once")
    if tuple(ranks) in _added:
        raise ValueError(f"{process_set}: there is a process set with these ranks already")


def _adopt(process_set, group):
    """Let a set stand for a group."""
    process_set._group, process_set.process_set_id = group, group.number
    _added[tuple(process_set.ranks)] = process_set


def begin(process_sets, **how):
    """Join the job with some sets, which exist from the start; how is for ringup.job.init()."""
    if job.is_initialized():
        for s in process_sets:
            if tuple(s.ranks) not in _added:
                add_process_set(s)
        return
    _added.clear()
    for s in process_sets:
        _check(s)
        _added[tuple(s.ranks)] = s
    _asked(lambda: job.init(groups=[s.ranks for s in process_sets], join_sums=True, **how))
    global_process_set.ranks = list(range(job.size()))
    _added[tuple(global_process_set.ranks)] = global_process_set
    for i, s in enumerate(process_sets):
        _adopt(s, job.group(i + 1))


def add_process_set(process_set):
    """Let some ranks be a set, on all ranks of the job at once; returns the set."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    _asked(job.here)
    _check(process_set)
    _adopt(process_set, _asked(job.add_group, process_set.ranks))
    return process_set


def remove_process_set(process_set):
    """End a set, on all ranks of the job at once; False if it is not one, or the global one."""
    if not process_set.process_set_id or tuple(process_set.ranks) not in _added:
        return False
    group = _group(process_set)
    _asked(job.remove_group, group)
    del _added[tuple(process_set.ranks)]
    process_set._group = process_set.process_set_id = None
    return True


def ids_and_ranks():
    """{number: ranks} of the sets that there are."""
    _asked(job.joined)
    return {s.process_set_id: list(ranks) for ranks, s in _added.items()
            if s.process_set_id is not None}


def set_of(process_set_id):
    """The set of that number."""
    for s in _added.values():
        if s.process_set_id == process_set_id:
            return s
    raise ValueError(f"there is no process set {process_set_id}: hvd.init() or "
                     "hvd.add_process_set() makes one")
