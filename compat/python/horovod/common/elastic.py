# elastic.py - Horovod's elastic training, the same for all frameworks.
# SPDX-License-Identifier: Apache-2.0
"""Horovod's elastic interface on top of ringup.elastic.  It improves on Horovod in these ways:

- sync() sends the current state of rank 0, not the one that rank 0 saved last, and saves it.  The
  counters therefore always belong to the weights.
- The ranks agree whether the state must be synchronized.  No rank continues with other weights
  because it left the training function for another reason.
- If a rank is lost while the others meet, they meet again, and the job does not fail.

Process sets that were passed to hvd.init(process_sets=...) exist in every generation, and contain
the ranks with the same numbers.  A set that hvd.add_process_set() created ends with its generation.
A reset callback may add it again, as a new process does before it calls the training function.
"""

import enum
import functools

from ringup import elastic
from ringup.errors import RingupError

from . import basics
from .exceptions import HorovodInternalError, HostsUpdatedInterrupt, translated


class HostUpdateResult(enum.IntFlag):
    """How the hosts of a job have changed."""

    no_update = 0
    removed = elastic.REMOVED
    added = elastic.ADDED
    mixed = removed | added


WorkerNotificationManager = elastic.Notifications
notification_manager = elastic.notifications


class State(elastic.State):
    """Values that all ranks share; see ringup.elastic.State for its functions.

    bcast_object(object) returns rank 0's object on every rank; get_rank() returns this process's
    rank."""

    Interrupt = HostsUpdatedInterrupt

    def __init__(self, bcast_object, get_rank):
        super().__init__(bcast_object)
        self._rank = get_rank

    def await_values(self, *values):
        """As in ringup.elastic.State, with Horovod's exception."""
        try:
            super().await_values(*values)
        except RingupError as e:
            raise translated(e) from e


class ObjectState(elastic.Values, State):
    """Objects that all ranks share: each keyword is an attribute."""

    def __init__(self, bcast_object, get_rank, **kwargs):
        self._saved_state = kwargs
        self._set_attrs()
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)


def _any_rank(flag):
    """Return whether the flag is set on any rank.  Raises Horovod's exceptions."""
    try:
        return elastic.any_rank(flag)
    except RingupError as e:
        raise translated(e) from e


def meet_again():
    """Leave the job and join its next generation, with the process sets that were passed to init().
    """
    basics.shutdown()
    basics.init_again()


def run_fn(func, reset):
    """Wrap func(state, ...) so that it is called again after each rendezvous.  reset() runs the
    rendezvous."""
    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        return elastic.rerun(lambda: func(state, *args, **kwargs), state, reset,
                             HorovodInternalError, HostsUpdatedInterrupt, _any_rank,
                             notification_manager)

    return wrapper
