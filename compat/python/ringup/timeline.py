# timeline.py - record what the ranks do, for chrome://tracing and Perfetto.
# SPDX-License-Identifier: Apache-2.0
"""Functions that record timelines.  `ringup timeline merge` merges the files of several ranks.

A flight recorder uses points() instead, which returns the times of the latest operations: when this
rank started each one, when all ranks were ready, when its data moved, and when it ended."""

import ctypes
import os
import select

from . import _c
from .job import get_running, lib

CYCLES, ALL_RANKS = 1, 2


def start(path, mark_cycles=False, all_ranks=False):
    """Start recording all operations in a file.

    Only rank 0 writes a file, unless all_ranks is set: then each rank that calls start() writes
    PATH.RANK, or PATH with "%r" replaced by its rank."""
    flags = (CYCLES if mark_cycles else 0) | (ALL_RANKS if all_ranks else 0)
    status = lib.ringup_timeline_start(get_running().handle, os.fsencode(path), flags)
    if status < 0:
        raise _c.failure(lib, status, f"timeline {os.fspath(path)}")


def stop():
    """Stop recording.  Returns when the file is complete."""
    status = lib.ringup_timeline_stop(get_running().handle)
    if status < 0:
        raise _c.failure(lib, status, "timeline")


def keep_points(job):
    """Start recording when each operation of a job reaches its stages.

    Returns the ctypes.c_uint64 in which the library counts the operations that this rank starts.
    Its value is the number of the latest operation.  It is valid until the job ends."""
    count = ctypes.POINTER(ctypes.c_uint64)()
    status = lib.ringup_points_keep(job.handle, ctypes.byref(count))
    if status < 0:
        raise _c.failure(lib, status, "points of operations")
    return count.contents


def points(job, first, count):
    """Return the recorded times of the operations first to first + count - 1 of a job.  A time is 0
    if the operation has not reached that stage, or if the record has been overwritten."""
    found = (_c.Points * count)()
    status = lib.ringup_points_get(job.handle, first, count, found,
                                   ctypes.sizeof(_c.Points))
    if status < 0:
        raise _c.failure(lib, status, "points of operations")
    return found


def alarm_fd(job):
    """Return a descriptor that becomes readable when the job fails; negative if the library has
    none.  It is valid until the job is closed."""
    return lib.ringup_alarm_fd(job.handle) if job.running else -1


def has_failed(job):
    """Return whether a rank has died or has ended the job."""
    fd = alarm_fd(job)
    poll = select.poll()
    if fd >= 0:
        poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
