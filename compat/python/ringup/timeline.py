# timeline.py - record what the ranks do, for chrome://tracing and Perfetto.
# SPDX-License-Identifier: Apache-2.0
"""`ringup timeline merge` makes one file of the files of several ranks."""

import os

from . import _c
from .job import here, lib

CYCLES, ALL_RANKS = 1, 2


def start(path, mark_cycles=False, all_ranks=False):
    """Record all operations in a file from now on; only rank 0 writes one, unless all_ranks.

    Then each rank that calls writes PATH.RANK, or PATH with its number in the place of "%r".
    """
    flags = (CYCLES if mark_cycles else 0) | (ALL_RANKS if all_ranks else 0)
    status = lib.ringup_timeline_start(here().handle, os.fsencode(path), flags)
    if status < 0:
        raise _c.failure(lib, status, f"timeline {os.fspath(path)}")


def stop():
    """End the recording; returns when the file is complete."""
    status = lib.ringup_timeline_stop(here().handle)
    if status < 0:
        raise _c.failure(lib, status, "timeline")
