# __init__.py - ringup for Python: join a job and combine buffers.
# SPDX-License-Identifier: Apache-2.0
"""Collectives between the ranks of a job.

    import ringup
    ringup.init()
    total = ringup.allreduce(numpy.ones(1000))      # in place

For torch, `import horovod.torch as hvd` has the tensors, the optimizer and the rest.
"""

from . import drift
from ._version import __version__
from .collectives import allgather, alloc, allreduce, barrier, broadcast
from .constants import ADASUM, AVERAGE, MAX, MIN, PRODUCT, SUM
from .errors import (Aborted, Deadlock, InvalidArgument, Mismatch, NameInUse, NoBackend,
                     NotAuthentic, NotRunning, OutOfMemory, PeerLost, RingupError, SystemRefused,
                     TimedOut)
from .job import (abort, backend, host_count, host_rank, init, is_homogeneous, is_initialized,
                  local_rank, local_size, rank, shutdown, size)

drift.warn()
