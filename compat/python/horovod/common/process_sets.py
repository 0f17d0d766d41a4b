# process_sets.py - sets of ranks that communicate among themselves.
# SPDX-License-Identifier: Apache-2.0

import collections

from ringup import job
from ringup.errors import RingupError

from .exceptions import translated

_added = {}  # ranks: the sets of them that can be used, which stand for one group
_free_ids = collections.deque()  # of removed sets; new ones get them in that order, as Horovod's


class ProcessSet:
    """A set of ranks.  Pass it to init() or add_process_set() before use.

    A set of an mpi4py communicator gets its ranks in init(comm). Each rank must then pass such a
    set, and different ranks may pass different sets."""

    process_set_id = ranks = mpi_comm = None

    def __init__(self, ranks_or_comm):
        self._group = None
        if hasattr(ranks_or_comm, "Get_rank"):
            self.mpi_comm = ranks_or_comm
            return
        try:
            self.ranks = sorted(ranks_or_comm)
        except TypeError as e:
            raise ValueError("a ProcessSet takes a list of ranks or an mpi4py communicator, not "
                             f"{type(ranks_or_comm).__name__}") from e
        if any(not isinstance(r, int) for r in self.ranks):
            raise ValueError(f"a ProcessSet takes a list of ranks, not {self.ranks}")

    def size(self):
        """Return the number of ranks; None if the set has not been added."""
        return None if self.process_set_id is None else _group(self).size

    def rank(self):
        """Return the rank of this process in the set; None if the set has not been added."""
        return None if self.process_set_id is None else _as_member(_group(self), self).rank

    def included(self):
        """Return whether this process is a member; None if the ranks are not known yet."""
        if self.ranks is None:
            return None
        # The world's ranks are known to hvd.init(); others may have joined the job.
        return self is global_process_set or job.rank() in self.ranks

    def __repr__(self):
        return (f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, "
                f"mpi_comm={self.mpi_comm})")


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0


def _asked(question, *args):
    """Call a function of ringup.job, and replace its exceptions with Horovod's."""
    try:
        return question(*args)
    except RingupError as e:
        raise translated(e) from e


def _group(process_set):
    """Return the library's group of a set; in a forked child, the parent's."""
    current = _asked(job.get)
    if process_set is global_process_set:
        process_set._group = current.world
    group = process_set._group
    if group is None or group.job is not current:
        raise ValueError(f"add {process_set} with hvd.init() or hvd.add_process_set() before you "
                         "use it")
    return group


def _as_member(group, process_set):
    """Return the group, if this process is one of its ranks; otherwise raise an exception."""
    if group.rank < 0:
        raise ValueError(f"rank {job.rank()} is not a member of {process_set}")
    return group


def group_of(process_set):
    """Return the library's group for an operation of this process."""
    group = process_set._group
    if group is None or not group.job.running:
        _asked(job.get_running)
        group = _group(process_set)
    return _as_member(group, process_set)


def _check(process_set):
    """Raise an exception for invalid ranks of a set."""
    ranks = process_set.ranks
    if ranks is None:
        raise NotImplementedError(f"{process_set}: pass a set made from a communicator to "
                                  "hvd.init(), together with a communicator of all ranks")
    if not ranks or len(set(ranks)) < len(ranks) or ranks[0] < 0:
        raise ValueError(f"{process_set}: a process set needs at least one rank, and each rank "
                         "once")


def _check_new(process_set):
    """Raise an exception if the set already exists."""
    if tuple(process_set.ranks) in _added:
        raise ValueError(f"{process_set}: a process set with these ranks already exists")


def _next_id():
    """Return the id of a new set: the one that has been unused for the longest time, or the next
    new number."""
    if _free_ids:
        return _free_ids.popleft()
    return 1 + max(sets[0].process_set_id for sets in _added.values())


def _adopt(process_set, group, new_id=None):
    """Let a set stand for a group.  Sets of the same ranks have one id.  The id may differ from the
    number of the group, which is never given to another group of the job."""
    same = _added.get(tuple(process_set.ranks))
    process_set.process_set_id = same[0].process_set_id if same else new_id or _next_id()
    process_set._group = group
    _added.setdefault(tuple(process_set.ranks), []).append(process_set)


def _in_order(everybody):
    """Return each set that a rank has passed, once, in an order that is the same on all ranks."""
    longest = max(map(len, everybody), default=0)
    return list(dict.fromkeys(named[i] for i in range(longest) for named in everybody
                              if i < len(named)))


def begin(process_sets, comm=None, again=False):
    """Join the job, with the ranks of a communicator if one is given, and with some sets, which
    exist from the start.

    If two sets are the same, raise an exception after the job has begun.  In a later generation
    this is not an error, because the ranks of a set may be all that remain."""
    if comm is not None:
        for s in process_sets:
            if s.mpi_comm is not None:
                s.ranks = sorted(s.mpi_comm.allgather(comm.Get_rank()))
    for s in process_sets:
        _check(s)
    mine = [tuple(s.ranks) for s in process_sets]
    wanted = _in_order([mine] if comm is None else comm.allgather(mine))
    if job.is_initialized():
        for ranks in wanted:
            if ranks not in _added:
                add_process_set(ranks)
    else:
        _join_job(wanted, comm)
    seen = {tuple(global_process_set.ranks)}
    for s, ranks in zip(process_sets, mine):
        if ranks in seen and not again:
            raise ValueError(f"{s}: a process set with these ranks already exists")
        seen.add(ranks)
        if s not in _added[ranks]:
            _adopt(s, _group(_added[ranks][0]))


def _join_job(wanted, comm):
    """Join the job, with sets of these ranks."""
    how = {}
    if comm is not None:
        how = {"rank": comm.Get_rank(), "size": comm.Get_size(), "allgather": comm.allgather}
        wanted = [ranks for ranks in wanted if ranks != tuple(range(comm.Get_size()))]
    _added.clear()
    _free_ids.clear()
    _asked(lambda: job.init(groups=wanted, join_sums=True, **how))
    global_process_set.ranks, global_process_set.mpi_comm = list(range(job.size())), comm
    _added[tuple(global_process_set.ranks)] = [global_process_set]
    for i, ranks in enumerate(wanted):
        if ranks not in _added:
            _adopt(ProcessSet(ranks), job.group(i + 1), new_id=i + 1)


def add_process_set(process_set):
    """Add a set of ranks, and return it.  All ranks of the job must call this at the same point."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    _asked(job.get_running)
    _check(process_set)
    _check_new(process_set)
    _adopt(process_set, _asked(job.add_group, process_set.ranks))
    return process_set


def remove_process_set(process_set):
    """Remove a set; return False for an unknown set or the global one.  All ranks of the job
    must call this at the same point."""
    if not process_set.process_set_id or tuple(process_set.ranks) not in _added:
        return False
    group = _group(process_set)
    _asked(job.remove_group, group)
    _free_ids.append(process_set.process_set_id)
    for s in _added.pop(tuple(process_set.ranks)):
        s._group = s.process_set_id = None
    return True


def ids_and_ranks():
    """Return {id: ranks} of all sets."""
    _asked(job.get)
    return {sets[0].process_set_id: list(ranks) for ranks, sets in _added.items()}


def set_of(process_set_id):
    """Return the set with this id."""
    for sets in _added.values():
        if sets[0].process_set_id == process_set_id:
            return sets[0]
    raise ValueError(f"no process set {process_set_id}: create it with hvd.init() or "
                     "hvd.add_process_set()")


def number_of(process_set):
    """Return the number of the library's group of a set, by which compiled code identifies the
    group."""
    return 0 if process_set is global_process_set else _group(process_set).number


def set_of_number(number):
    """Return the set of the library's group with this number."""
    if not number:
        return global_process_set
    for sets in _added.values():
        if _group(sets[0]).number == number:
            return sets[0]
    raise ValueError("the process set of this operation has been removed")
