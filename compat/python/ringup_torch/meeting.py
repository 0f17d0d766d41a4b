# meeting.py - the rendezvous of a process group's ranks in the Store that torch gives them.
# SPDX-License-Identifier: Apache-2.0
"""The Store carries the data that ringup_init() exchanges, including the key of the group's
connections, until all ranks have read it.  A program that can read the Store at that time can join
the group, as with every torch backend.  With RINGUP_SECRET, the key is derived from that secret,
and the Store carries proofs that each rank knows it."""

from torch.distributed import PrefixStore
from torch.distributed import distributed_c10d as c10d

from ringup import job
from ringup.meeting import Meeting


def open_group(store, rank, size, timeout, part=None, world=None):
    """Join the job of a process group's ranks.  Blocks until all ranks have called this, for at
    most timeout.

    For a group that is not the world, torch gives the ranks a place in the Store that is not used
    again while the world exists.  world distinguishes worlds; it is None for the world itself.
    part is as in job.open_job(). Returns the job, and the name that is unique to this meeting."""
    if size == 1:
        return job.open_job(0, 1, part=part), ""
    place = PrefixStore("ringup" if world is None else f"ringup/{world}", store)
    meeting = Meeting(place, rank, size, timeout.total_seconds(), "the process group",
                      is_once=world is not None)
    meeting.come()
    return job.open_job(rank, size, meeting.allgather, part=part), meeting.name


def forget_try():
    """Let torch give the world the same name again when init_process_group() is called after a
    failure, as it does after destroy_process_group(). The name is part of the ranks' place in the
    Store, and the ranks may have tried a different number of times."""
    if hasattr(c10d, "_group_count") and not c10d.is_initialized():
        c10d._group_count = 0
