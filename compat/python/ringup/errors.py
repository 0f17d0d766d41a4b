# errors.py - one exception class for each way a call of the library can fail.
# SPDX-License-Identifier: Apache-2.0


class RingupError(RuntimeError):
    """Base of all; .status is the library's code, str() its sentence."""

    status = 0


class InvalidArgument(RingupError, ValueError):
    """An argument that no rank could accept."""


class OutOfMemory(RingupError, MemoryError):
    """No memory, or too many operations in flight."""


class NameInUse(RingupError, ValueError):
    """This rank already has an operation of that name in flight."""


class Mismatch(RingupError):
    """The ranks disagree about an operation; nothing was touched, the next one works."""


class PeerLost(RingupError):
    """A rank died; the sentence names it."""


class NotRunning(RingupError):
    """This rank is not in a job, or another rank has left it."""


class NoBackend(RingupError):
    """No back end can carry the operation out."""


class SystemRefused(RingupError, OSError):
    """The operating system refused a resource."""


class TimedOut(RingupError, TimeoutError):
    """Not in time."""


class Deadlock(RingupError):
    """All ranks wait, each for what another never starts; the job is over."""


class NotAuthentic(RingupError):
    """Somebody without the job's secret answered."""


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
