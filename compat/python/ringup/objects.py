# objects.py - exchange Python objects between the ranks of a job.
# SPDX-License-Identifier: Apache-2.0
"""Objects are sent as pickles, but only between ranks of one job.  These ranks run the same program
and have proved to each other that they belong to the job.  This module reads no other data."""

import pickle

from . import collectives, job


def dumps(value):
    """Pickle an object; with cloudpickle installed, also functions and classes of __main__."""
    try:
        from cloudpickle import dumps as of_cloudpickle
    except ImportError:
        return pickle.dumps(value)
    return of_cloudpickle(value)


def broadcast(value, root=0, name="object"):
    """Return root's object on every rank; on root itself, the same object."""
    if job.size() == 1:
        return value
    data = bytearray(dumps(value)) if job.rank() == root else None
    length = bytearray((len(data) if data else 0).to_bytes(8, "little"))
    collectives.broadcast(length, root, f"{name}.length")
    if data is None:
        data = bytearray(int.from_bytes(length, "little"))
    collectives.broadcast(data, root, name)
    return value if job.rank() == root else pickle.loads(data)
