# errors.py - one exception class for each way a library call can fail.
# SPDX-License-Identifier: Apache-2.0


class RingupError(RuntimeError):
    """The base class of all errors.  status is the error code of the library, str() the message."""

    status = 0


class InvalidArgument(RingupError, ValueError):
    """An argument is invalid on one of the ranks."""


class OutOfMemory(RingupError, MemoryError):
    """Out of memory, or too many operations in flight."""


class NameInUse(RingupError, ValueError):
    """This rank already has an operation with this name in flight."""


class Mismatch(RingupError):
    """The ranks passed different arguments.  No data was changed, and later operations work."""


class PeerLost(RingupError):
    """A rank died; the message names it."""


class NotRunning(RingupError):
    """This process is not in a job, or another rank has left it."""


class NoBackend(RingupError):
    """No back end supports the operation."""


class SystemRefused(RingupError, OSError):
    """The operating system refused a resource."""


class TimedOut(RingupError, TimeoutError):
    """The deadline expired."""


class Deadlock(RingupError):
    """All ranks waited for operations that other ranks never started; the job has ended."""


class NotAuthentic(RingupError):
    """A peer does not know the job's secret."""


class Aborted(RingupError):
    """A rank aborted the job."""


# The library's names for its status codes (RINGUP_STATUSES in ringup.h).
BY_NAME = {
    "EINVAL": InvalidArgument,
    "ENOMEM": OutOfMemory,
    "EBUSY": NameInUse,
    "EMISMATCH": Mismatch,
    "EPEER": PeerLost,
    "ESHUTDOWN": NotRunning,
    "ENOBACKEND": NoBackend,
    "ESYSTEM": SystemRefused,
    "ETIMEDOUT": TimedOut,
    "EAUTH": NotAuthentic,
    "EABORTED": Aborted,
    "EDEADLOCK": Deadlock,
}
