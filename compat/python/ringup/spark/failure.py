# failure.py - the error of a job that has failed, with what is known of the rank.
# SPDX-License-Identifier: Apache-2.0

import re
import signal


class JobFailed(RuntimeError):
    """A job on Spark, or on the driver alone, has failed.

    rank, host and pid tell where; None if no rank is to blame.  exit_status or signal tell how
    the rank's process has ended; None if it is the other one, or not known.  type_name and
    traceback are those of the exception that its function has raised, as text; __cause__ is the
    exception itself, where it could be pickled.  others are the failures of other ranks, which
    came later, or most likely because of this one.
    """

    def __init__(self, message, rank=None, host=None, pid=None, exit_status=None, signal=None,
                 type_name=None, traceback=None, others=()):
        super().__init__(message)
        self.rank, self.host, self.pid = rank, host, pid
        self.exit_status, self.signal = exit_status, signal
        self.type_name, self.traceback, self.others = type_name, traceback, list(others)


# Exceptions that a rank raises because another one is gone, by the names of their types.
CONSEQUENCES = frozenset({"PeerLost", "Aborted", "NotRunning", "HorovodInternalError",
                          "DistBackendError", "DistNetworkError"})
# An operation in a graph ends with an exception of the framework's, and the library's status stands
# in its text.
_IN_A_GRAPH = re.compile(r"\[ringup (EPEER|ESHUTDOWN|EABORTED)\]")
_GLOO = ("Connection closed by peer", "Connection reset by peer", "Connection refused",
         "Read error", "Timed out waiting")


def is_consequence(type_names, message):
    """Does an exception of this type (and its bases, by name) tell of another rank's failure?"""
    if CONSEQUENCES.intersection(type_names) or _IN_A_GRAPH.search(message):
        return True
    return "RuntimeError" in type_names and any(text in message for text in _GLOO)


def ending_of(exit_status, number, memory=""):
    """How a process has ended, as part of a sentence."""
    if number is not None:
        try:
            name = f" ({signal.Signals(number).name})"
        except ValueError:
            name = ""
        return f"was killed by signal {number}{name}{memory}"
    return f"exited with status {exit_status}"
