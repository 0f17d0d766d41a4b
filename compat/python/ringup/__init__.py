# __init__.py - ringup for Python: join a job and combine buffers.
# SPDX-License-Identifier: Apache-2.0
"""Collectives between the ranks of a job.

    import numpy, ringup
    ringup.init()
    total = ringup.allreduce(numpy.ones(1000))                  # in place
    rows = ringup.allgather(numpy.full((2, 3), ringup.rank()))  # of all ranks
    pair = ringup.new_group([0, 1])
    if pair.rank >= 0:
        work = pair.allreduce(total, "max", async_op=True)
        total = work.wait()

Arrays may come from NumPy, torch or JAX, or be in host memory and support the buffer protocol or
DLPack.  To train with torch, use `import horovod.torch as hvd`, which has optimizers and more."""

from . import drift
from ._version import __version__
from .collectives import (WORLD, Group, allgather, alloc, allreduce, alltoall, barrier, broadcast,
                          join, new_group, recv, reducescatter, send)
from .constants import ADASUM, ANY_SOURCE, AVERAGE, MAX, MIN, PRODUCT, SUM
from .errors import (Aborted, Deadlock, InvalidArgument, Mismatch, NameInUse, NoBackend,
                     NotAuthentic, NotRunning, OutOfMemory, PeerLost, RingupError, SystemRefused,
                     TimedOut)
from .gpu import wait_for_gpu
from .job import (abort, backend, host_count, host_rank, init, is_homogeneous, is_initialized,
                  local_rank, local_size, rank, shutdown, size)
from .objects import broadcast as broadcast_object

drift.warn()
