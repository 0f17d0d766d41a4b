# gpu.py - wait until the GPU has run all queued work, and check that the job has not failed.
# SPDX-License-Identifier: Apache-2.0
"""With RINGUP_BACKEND=nccl an operation is complete when it is queued on the GPU, not when the GPU
has run it.  If a rank dies in between, NCCL ends the operation with a wrong result, and work that
is queued behind it uses that result.  wait_for_gpu() separates right values from wrong ones: ringup
records that the job has failed before it ends operations on the GPU."""

import sys
import threading

from . import _c, job
from .job import lib

# Seconds between two checks whether the job has failed, during a wait for the GPU.
LOOK = 0.02


class _Waiter(threading.Thread):
    """Waits for arrays and devices, so that the caller can notice signals and a failed job."""

    def __init__(self, arrays):
        super().__init__(name="ringup: wait for the GPU", daemon=True)
        self.arrays, self.error = arrays, None
        self.start()

    def run(self):
        try:
            # JAX queues work later than its functions return, in threads of its own.
            jax = sys.modules.get("jax")
            if jax is not None and self.arrays:
                jax.block_until_ready(self.arrays)
            _c.finish_devices()
        except BaseException as e:  # for the caller
            self.error = e
        self.arrays = None


def _check(group):
    """Raise an exception if the group has failed.  A rank that has left the job is no failure: it
    left after its GPU had run its operations."""
    status = lib.ringup_group_error(group.handle)
    if status < 0 and status != _c.STATUS["ESHUTDOWN"]:
        raise _c.failure(lib, status, "wait_for_gpu")


def wait_for_gpu(*arrays):
    """Wait until the GPU has run all work that is queued, and raise an exception if the job has
    failed meanwhile.  Call it before you save a checkpoint: if it returns, no tensor contains the
    result of an operation that was aborted.

    JAX queues work later.  To wait for that work as well, pass the JAX arrays, or lists or dicts of
    them.  If the job does not keep tensors on the GPU (RINGUP_BACKEND=nccl), ringup has waited for
    them already, and this function only checks the job."""
    group = job.get_running().world
    _check(group)
    if not group.cuda:
        return
    waiter = _Waiter(arrays)
    while waiter.is_alive():
        waiter.join(LOOK)
        _check(group)
    _check(group)  # after the GPU, so that it has failed before the GPU was done or not at all
    if waiter.error is not None:
        raise waiter.error
