# timeline.py - record what the ranks do, for chrome://tracing and Perfetto.
# SPDX-License-Identifier: Apache-2.0
"""`ringup timeline merge` makes one file of the files of several ranks.

A flight recorder asks for the points of the latest operations instead: when this rank started each,
when all ranks were ready, when its data moved and when it was over."""

import ctypes
import os
import select

from . import _c
from .job import get_running, lib

CYCLES, ALL_RANKS = 1, 2


def start(path, mark_cycles=False, all_ranks=False):
    """Record all operations in a file from now on; only rank 0 writes one, unless all_ranks.

    Then each rank that calls writes PATH.RANK, or PATH with its number in the place of "%r".
    """
    flags = (CYCLES if mark_cycles else 0) | (ALL_RANKS if all_ranks else 0)
    status = lib.ringup_timeline_start(get_running().handle, os.fsencode(path), flags)
    if status < 0:
        raise _c.failure(lib, status, f"timeline {os.fspath(path)}")


def stop():
    """End the recording; returns when the file is complete."""
    status = lib.ringup_timeline_stop(get_running().handle)
    if status < 0:
        raise _c.failure(lib, status, "timeline")


def keep_points(job):
    """Remember when operations of a job come to their points, from now on.

    Returns the ctypes.c_uint64 in which the library counts the operations that this rank starts:
    its value is the number of the latest.  It is there until the job ends."""
    count = ctypes.POINTER(ctypes.c_uint64)()
    status = lib.ringup_points_keep(job.handle, ctypes.byref(count))
    if status < 0:
        raise _c.failure(lib, status, "points of operations")
    return count.contents


def points(job, first, count):
    """The points of a job's operations first to first + count - 1; 0 is a point that one has not
    come to, or that is not known any more."""
    found = (_c.Points * count)()
    status = lib.ringup_points_get(job.handle, first, count, found,
                                   ctypes.sizeof(_c.Points))
    if status < 0:
        raise _c.failure(lib, status, "points of operations")
    return found


def alarm_fd(job):
    """A descriptor that can be read from when a job has failed, until the job is closed; negative:
    there is none."""
    return lib.ringup_alarm_fd(job.handle) if job.running else -1


def has_failed(job):
    """Has a rank died, or ended the job?"""
    fd = alarm_fd(job)
    poll = select.poll()
    if fd >= 0:
        poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
