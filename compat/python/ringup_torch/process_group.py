# process_group.py - the class of process groups: operations by the names of all torch releases.
# SPDX-License-Identifier: Apache-2.0

import sys
import types

import torch

from .collectives import Collectives
from .messages import Messages


class ProcessGroup(Collectives, Messages):
    """A process group of init_process_group("ringup"), with the names of all releases of torch."""

    # before torch 2.13
    _allgather_base = Collectives.all_gather_single
    allgather_into_tensor_coalesced = Collectives.all_gather_single_coalesced
    _reduce_scatter_base = Collectives.reduce_scatter_single
    reduce_scatter_tensor_coalesced = Collectives.reduce_scatter_single_coalesced
    alltoall_base = Collectives.all_to_all_single


def _codes(thing):
    """The code of all functions of a module or class, with those in them."""
    if isinstance(thing, property):
        thing = thing.fget
    if isinstance(thing, (types.ModuleType, type)):
        inner = vars(thing).values()
    elif isinstance(thing, types.FunctionType):
        inner = [thing.__code__]
    elif isinstance(thing, types.CodeType):
        yield thing
        inner = [c for c in thing.co_consts if isinstance(c, types.CodeType)]
    else:
        return
    for one in inner:
        if isinstance(one, types.CodeType) or _is_ours(one):
            yield from _codes(one)


def _is_ours(thing):
    """Is it a function, property or class of these packages, and no module?"""
    where = getattr(thing.fget if isinstance(thing, property) else thing, "__module__", None)
    return isinstance(where, str) and where.partition(".")[0] in ("ringup", "ringup_torch")


def hide_from_dynamo():
    """Keep torch.compile from compiling what C++ code calls in a compiled region: it fails on it.
    Does not import torch._dynamo; releases without it have nothing to say it to."""
    frames = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)

        def say(code):
            frames.set_code_exec_strategy(code, skip)
    elif hasattr(frames, "skip_code"):  # before torch 2.7
        say = frames.skip_code
    else:
        return
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("ringup", "ringup_torch"):
            for code in _codes(module):
                say(code)


hide_from_dynamo()
