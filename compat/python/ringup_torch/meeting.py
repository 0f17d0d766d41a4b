# meeting.py - the ranks of a process group meet in the Store that torch gives them.
# SPDX-License-Identifier: Apache-2.0
"""The Store carries what ringup_init() exchanges, the key of the group's connections included: a
program that can read the Store can join the group, as with every back end of torch.  With
RINGUP_SECRET the key is made of that, and the Store carries proofs that each rank knows it."""

import datetime

from torch.distributed import PrefixStore

from ringup import errors, job, torchrun


def open_group(store, rank, size, timeout, part=None):
    """The job of a process group's ranks; blocks until all have called it, for timeout at most.

    The same Store may serve one group after the other, as torchrun's does: the count of ranks that
    have come tells which meeting this is.  part is as in job.open_job()."""
    if size == 1:
        return job.open_job(0, 1, part=part)
    number = (store.add("ringup/came", 1) - 1) // size
    place = PrefixStore(f"ringup/{number}", store)
    _await_all(place, rank, size, timeout)
    return job.open_job(rank, size, torchrun.allgather_of(place, rank, size), part=part)


def _await_all(store, rank, size, timeout):
    """Return when all ranks are here; TimedOut names those that are not.

    Connecting has a deadline of its own, RINGUP_START_TIMEOUT_MS, which begins only then."""
    store.set(f"here/{rank}", "")
    if store.add("here", 1) == size:
        store.set("all", "")
    try:
        store.wait(["all"], timeout)
    except RuntimeError as e:
        missing = [r for r in range(size) if not store.check([f"here/{r}"])]
        if not missing:
            raise
        raise errors.TimedOut(
            f"{'ranks' if len(missing) > 1 else 'rank'} {', '.join(map(str, missing))} of the "
            f"process group did not come within {seconds(timeout):g} s: look whether they still "
            "run and create the same groups in the same order") from e


def seconds(timeout):
    """A timedelta as a number."""
    return timeout / datetime.timedelta(seconds=1)
