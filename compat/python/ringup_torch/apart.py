# apart.py - warn if ranks train separate models: an optimizer steps and nothing is combined.
# SPDX-License-Identifier: Apache-2.0
"""Warns if ranks train without exchanging gradients.

Some frameworks wrap a model for the backends that they know by name, and silently return it
unchanged for any other backend; auto_model() of pytorch-ignite does this.  Each rank then trains
its own model.  This module therefore watches the first steps of an optimizer, and warns if no
operation of any process group runs between them.  It stops watching after the first operation or
the warning."""

import sys
import warnings

from torch.distributed import distributed_c10d as c10d

from ringup import job

from .dynamo import hidden
from .recorder import recorder

STEPS = 3  # of one optimizer with nothing between them

_TOLD = (
    "an optimizer has done {} steps on rank {} of {} ranks of the process group \"ringup\", "
    "without any operation of the group in between: gradients are not combined, so each rank "
    "trains a separate model.  Wrap the model in torch.nn.parallel.DistributedDataParallel, or in "
    "FSDP.  A framework may skip that because it does not know the back end's name, as "
    "auto_model() of pytorch-ignite does.  If the ranks shall train apart, ignore this warning")

_hook = None  # the handle of the hook, as long as it is there


def watch(rank, size):
    """Watch the first steps of optimizers in a newly created world."""
    global _hook
    forget()
    register = getattr(sys.modules.get("torch.optim.optimizer"),
                       "register_optimizer_step_post_hook", None)
    if register is None or size == 1:  # before torch 2.0
        return
    seen = {}  # id of an optimizer: operations until its latest step, and steps since one

    @hidden
    def look(optimizer, _args, _kwargs):
        before, steps = seen.get(id(optimizer), (None, 0))
        if before is not None and before != recorder.count or _others_may_combine():
            forget()
            return
        seen[id(optimizer)] = recorder.count, steps + 1
        if steps + 1 == STEPS:
            forget()
            warnings.warn(_TOLD.format(STEPS, rank, size), RuntimeWarning, stacklevel=4)

    _hook = register(look)


def _others_may_combine():
    """Return whether code other than ringup's process groups may reduce gradients."""
    named = {part.rpartition(":")[2] for backend, _store in c10d._world.pg_map.values()
             for part in str(backend).split(",")}
    return job.is_initialized() or named != {"ringup"}


def forget():
    """Stop watching steps."""
    global _hook
    if _hook is not None:
        _hook.remove()
        _hook = None
