# dynamo.py - keep torch.compile from compiling the code of these packages.
# SPDX-License-Identifier: Apache-2.0
"""Hides code from torch.compile.

A collective has effects that torch.compile does not see: it waits for other ranks, and hooks of an
optimizer count the gradients that backward() has computed.  The code of ringup, ringup_torch and
horovod is therefore hidden from dynamo, as torch.compiler.disable() hides a function.  A call from
compiled code breaks the graph and runs uncompiled, and so does a call from C++ (hooks, methods of a
process group).

Functions that only return numbers, such as hvd.rank(), can still be compiled with their caller.

torch._dynamo takes seconds to import, so this module does not import it.  It marks code with the
functions of dynamo's C part, and marks functions with the attribute that torch.compiler.disable()
sets."""

import functools
import sys
import types

import torch

_PACKAGES = ("ringup", "ringup_torch", "horovod")

# These tell numbers of the job and call no collective that takes a tensor.
_INLINED = ("ringup.job", "ringup.errors", "horovod.common.basics", "horovod.common.process_sets")

_hidden = set()  # names of the modules that have been marked


def _marker():
    """Return a function that keeps dynamo from compiling the frames of a code object and the
    functions that they call.  None: this torch has no dynamo, or none that supports this."""
    frames = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        return lambda code: frames.set_code_exec_strategy(code, skip)
    return getattr(frames, "skip_code", None)  # before torch 2.7


_mark = _marker()


def _mark_all(code):
    """Mark a code object and those of the functions defined in it."""
    _mark(code)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            _mark_all(inner)


def hidden(function):
    """Decorator that hides a function.  Functions that are created while the program runs, such as
    hooks, need it; hide() finds the others."""
    if _mark is not None:
        _mark_all(function.__code__)
        if function.__module__ not in _INLINED:
            function._torchdynamo_disable = True
            function._torchdynamo_disable_msg = "it is part of ringup"
    return function


def _functions(thing):
    """Return our functions that an attribute of a module or class refers to."""
    if isinstance(thing, property):
        for one in (thing.fget, thing.fset, thing.fdel):
            yield from _functions(one)
    elif isinstance(thing, (classmethod, staticmethod)):
        yield from _functions(thing.__func__)
    elif isinstance(thing, functools._lru_cache_wrapper):
        yield from _functions(thing.__wrapped__)
    elif isinstance(thing, (types.FunctionType, type)) and _is_ours(thing.__module__):
        if isinstance(thing, types.FunctionType):
            yield thing
        else:
            for one in vars(thing).values():
                yield from _functions(one)


def _is_ours(name):
    """Return whether this is the name of a module of these packages."""
    return isinstance(name, str) and name.partition(".")[0] in _PACKAGES


def hide():
    """Hide the functions of all modules of these packages that have been imported so far."""
    if _mark is None:
        return
    for name, module in list(sys.modules.items()):
        if _is_ours(name) and name not in _hidden and isinstance(module, types.ModuleType):
            for thing in list(vars(module).values()):
                for function in _functions(thing):
                    hidden(function)
            if not getattr(getattr(module, "__spec__", None), "_initializing", False):
                _hidden.add(name)
