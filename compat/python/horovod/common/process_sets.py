# process_sets.py - sets of ranks; so far the one set of all ranks.
# SPDX-License-Identifier: Apache-2.0

from ringup import job
from ringup.errors import NotRunning

from .exceptions import translated


class ProcessSet:
    """Some ranks that communicate among themselves."""

    def __init__(self, ranks):
        self.ranks = sorted(ranks)
        self.process_set_id = None
        if any(not isinstance(r, int) for r in self.ranks):
            raise ValueError("a ProcessSet is made from a list of ranks")

    def size(self):
        """How many ranks it has; None if it has not been added."""
        return None if self.process_set_id is None else job.size()

    def rank(self):
        """This process's place in it; None if it has not been added."""
        return None if self.process_set_id is None else job.rank()

    def included(self):
        """Is this process one of them?"""
        return self is global_process_set or job.rank() in self.ranks

    def __repr__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0

_MISSING = "process sets other than the global one are not part of ringup yet"


def group_of(process_set):
    """The library's group that a set stands for."""
    if process_set is not global_process_set:
        raise NotImplementedError(_MISSING)
    try:
        return job.here().world
    except NotRunning as e:
        raise translated(e) from e


def add_process_set(process_set):
    """Register a set on all ranks."""
    raise NotImplementedError(_MISSING)


def remove_process_set(process_set):
    """Forget a set on all ranks."""
    raise NotImplementedError(_MISSING)
