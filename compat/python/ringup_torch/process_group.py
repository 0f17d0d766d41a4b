# process_group.py - the class of process groups: operations by the names of all torch releases.
# SPDX-License-Identifier: Apache-2.0

import torch

from .collectives import Collectives
from .messages import Messages
from .work import Several, Work


class ProcessGroup(Collectives, Messages):
    """A process group of init_process_group("ringup"), with the names of all releases of torch."""

    # before torch 2.13
    _allgather_base = Collectives.all_gather_single
    allgather_into_tensor_coalesced = Collectives.all_gather_single_coalesced
    _reduce_scatter_base = Collectives.reduce_scatter_single
    reduce_scatter_tensor_coalesced = Collectives.reduce_scatter_single_coalesced
    alltoall_base = Collectives.all_to_all_single


def _hide_from_dynamo(*classes):
    """Keep torch.compile from compiling the methods when C++ code calls them in a compiled region:
    it fails on them.  Does not import torch._dynamo; older releases have nothing to say it to."""
    frames = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    try:
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        say = frames.set_code_exec_strategy
    except AttributeError:
        return
    for cls in classes:
        for value in vars(cls).values():
            code = getattr(value.fget if isinstance(value, property) else value, "__code__", None)
            if code is not None:
                say(code, skip)


_hide_from_dynamo(Work, Several,
                  *(c for c in ProcessGroup.__mro__ if c.__module__.startswith(__package__)))
