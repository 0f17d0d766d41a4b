# group.py - the base class of all process groups: name, ranks and shutdown.
# SPDX-License-Identifier: Apache-2.0
"""A group is a job of its own (ringup.job), with its own connections and threads, and its failure
does not affect other groups.  Its operations are matched by their order, which is the same on every
rank."""

import collections
import contextlib
import datetime
import os

import torch
import torch.distributed as dist

from ringup import errors, job

from . import apart, meeting
from .evidence import evidence
from .recorder import recorder
from .waiters import waiters
from .work import Several, Work

_LONGEST = datetime.timedelta(days=365)  # as a time-out
_LAST_WAIT = datetime.timedelta(seconds=10)  # for operations of an ended group, which end at once

_open = set()  # the groups of this process, until they are shut down


def is_blocking(opts):
    """Return whether the caller accepts None instead of a Work, as dist.all_reduce(async_op=False)
    does.  torch before 2.8 does not pass this information."""
    return getattr(opts, "asyncOp", True) is False


def _part_of_world(ranks, name):
    """Return the name of a group with these ranks in timelines; None if the group is the world."""
    return (f"group {name or ' '.join(map(str, ranks))}", ranks) if ranks else None


def _world_of(ranks):
    """Return the key of the world that a group with these ranks belongs to; None if the group is
    the world."""
    return getattr(dist.group.WORLD, "meeting", "") if ranks else None


class GroupBase(dist.ProcessGroup):
    """The ranks that called init_process_group("ringup") or new_group(), without operations.

    An operation that does not complete within the group's time-out ends the group on all ranks;
    the error names what is missing."""

    def __init__(self, store, rank, size, timeout, ranks=(), name=None):
        """Meet the other ranks in a torch Store, for at most timeout.

        ranks are the group's ranks in the world; without ranks, the group is the world.  name is
        the name that torch will give to the group, for timelines."""
        super().__init__(rank, size)
        self._rank, self._size, self._name, self._desc = rank, size, "", "undefined"
        self.set_timeout(timeout)
        self._job, self.meeting = meeting.open_group(
            store, rank, size, min(timeout, _LONGEST), _part_of_world(list(ranks), name),
            _world_of(ranks))
        self._members = self._job.world
        self._pending = collections.deque()  # Works that nobody may ever wait for
        self._coalesced = None
        self._record = recorder.group(list(ranks) or list(range(size)), self.timeout_ms, not ranks,
                                      self._job, fails=self._fails)
        if not ranks:
            recorder.rank = rank
            apart.watch(rank, size)
        _open.add(self)

    # ---- names and numbers ----

    def name(self):
        """The name of the backend."""
        return "ringup"

    getBackendName = _get_backend_name = name

    def rank(self):
        """Return the rank of this process in the group."""
        return self._rank

    getRank = rank

    def size(self):
        """Return the number of ranks in the group."""
        return self._size

    getSize = size

    def getGroupName(self):
        """Return torch's name for the group, by which functional collectives find it."""
        return self._name

    def setGroupName(self, name):
        """Set the name of the group.  Called by torch."""
        self._name = self._record.name = name

    _set_group_name = setGroupName

    def getGroupDesc(self):
        """Return the description of the group that the program gave."""
        return self._desc

    def setGroupDesc(self, desc):
        """Set the description of the group.  Called by torch."""
        self._desc = self._record.desc = desc

    _set_group_desc = setGroupDesc

    @property
    def group_name(self):
        """The result of getGroupName(), for Python."""
        return self._name

    @property
    def group_desc(self):
        """The result of getGroupDesc(), for Python."""
        return self._desc

    @property
    def _device_types(self):
        """Return the device types for which torch creates tensors of this group."""
        return [torch.device("cpu")]

    _fails = None  # a method to call when the job fails, which must not block

    supports_splitting = supports_coalescing = supports_time_estimate = False

    def _get_backend(self, _device):
        """Return the group, which is its own backend."""
        return self

    def set_timeout(self, timeout):
        """Set the time-out of waits that start from now on."""
        self.timeout_ms = round(min(timeout, _LONGEST).total_seconds() * 1000)

    _set_default_timeout = set_timeout

    @property
    def communicator(self):
        """The ringup.job.Job that runs the operations."""
        return self._job

    # ---- the end ----

    def abort(self, why="the process group was aborted"):
        """Fail all current and future operations of the group on all ranks.  Thread-safe."""
        if self._job.running:
            self._job.abort(why)

    def shutdown(self):
        """Leave the group; operations in flight fail on all ranks.

        Called by destroy_process_group(), and at exit."""
        _open.discard(self)
        pending = [work for work in self._pending if not work.poll()]
        if any(work.needs_abort() for work in pending):
            self.abort("the process group was destroyed while operations were in flight")
            for work in pending:
                with contextlib.suppress(errors.RingupError):
                    work.wait(_LAST_WAIT)
        self._pending.clear()
        recorder.close(self._record)
        self._job.close()
        for work in pending:
            work.poll()  # messages have ended with the job

    # ---- operations ----

    def complete(self, op, within_ms=None):
        """Wait for an operation and return its result.

        If it misses the group's deadline, the group ends.  within_ms is the caller's own
        deadline: if it expires first, TimedOut is raised, but the operation and the group
        continue."""
        if within_ms is not None:
            return op.wait(within_ms)
        lead = evidence.lead_ms(self.timeout_ms)
        try:
            return op.wait(self.timeout_ms - lead)
        except errors.TimedOut:
            return self.miss(op, lead)

    def miss(self, op, left_ms=0):
        """Handle an operation that will miss the group's deadline in left_ms milliseconds.

        An operation that completes before the deadline is not affected; see evidence.py."""
        if left_ms and evidence.lead_ms(self.timeout_ms):
            evidence.start()
        try:
            return op.wait(left_ms)
        except errors.TimedOut as e:
            evidence.finish()
            raise self.end_with(op, e) from e

    def end_with(self, op, error):
        """End the group, so that nothing uses the memory of its operations any more.  Return the
        exception to raise, which may already be the result of an earlier call."""
        if hasattr(error, "has_ended"):
            return error
        self.abort(str(error))
        with contextlib.suppress(errors.RingupError):
            op.wait(round(_LAST_WAIT.total_seconds() * 1000))
        told = errors.TimedOut(f"{error}; the timeout of the group is "
                               f"{self.timeout_ms / 1000:g} s, and the group has ended")
        told.status, told.has_ended = error.status, True
        return told

    def _began(self, name, inputs, outputs=None, is_message=False):
        """Return the record of a new operation."""
        return recorder.add(self._record, name, inputs, inputs if outputs is None else outputs,
                            is_message, 2)

    def _under_way(self, op, outputs, opts, entry, source=None, is_message=False):
        """Return the method's result for a started operation; None if it has already completed."""
        if is_blocking(opts) and self._coalesced is None:
            with entry:
                if op is not None:
                    self.complete(op)
            return None
        work = Work(self, op, outputs, entry, source)
        work.is_message = is_message
        self._keep(work)
        return work

    def _keep(self, work):
        """Let a thread wait for a Work that the program may never wait for, so that its memory is
        released."""
        pending = self._pending
        with contextlib.suppress(IndexError):  # another thread does the same
            while pending[0].poll():
                pending.popleft()
        pending.append(work)
        if self._coalesced is not None:
            self._coalesced.append(work)

    def _start_coalescing(self, _device=None):
        """Collect the Works of the following operations."""
        self._coalesced = []

    def _end_coalescing(self, _device=None):
        """Return one Work for the collected ones."""
        works, self._coalesced = self._coalesced or [], None
        return Several(works)


def _shutdown_all():
    """Shut down all groups at exit, before the library is closed."""
    for group in list(_open):
        group.shutdown()
    waiters.end(_LAST_WAIT.total_seconds())
    recorder.alarms.end(_LAST_WAIT.total_seconds())


job.call_at_exit(_shutdown_all)
os.register_at_fork(after_in_child=_open.clear)
