# arguments.py - check a function and the number of ranks before a job starts.
# SPDX-License-Identifier: Apache-2.0

import inspect
import operator
import os


def number(value, name, least=None):
    """Return an integer, which may be NumPy's.  Otherwise raise TypeError or ValueError, which name
    the argument."""
    try:
        if isinstance(value, bool):
            raise TypeError
        found = operator.index(value)
    except TypeError:
        hint = ""
        if isinstance(value, str) and value.strip().lstrip("+-").isdigit():
            hint = f": write {name}={int(value)}, without quotes"
        elif isinstance(value, float) and value == int(value):
            hint = f": write {name}={int(value)}"
        raise TypeError(f"{name}={value!r} is of type {type(value).__name__}; {name} must be a "
                        f"whole number of ranks{hint}") from None
    if least is not None and found < least:
        raise ValueError(f"{name}={found}: at least {least} rank{'s' * (least > 1)}")
    return found


def _what(value):
    """Return a description of a value, for a message."""
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return "None" if value is None else f"{text}, of type {type(value).__name__}"


def _wrong_kind(fn, name, call):
    """Return why a value is not a function that ranks can call; None if it is one."""
    called = (f"Did you call it, as in {call.format('train()')}?  Give the function itself: "
              f"{call.format('train')}")
    if inspect.iscoroutine(fn) or inspect.isgenerator(fn) or inspect.isasyncgen(fn):
        kind = "coroutine" if inspect.iscoroutine(fn) else "generator"
        if inspect.iscoroutine(fn):
            fn.close()  # else Python warns that nobody has awaited it
        return f"{name} is a {kind}, not a function.  {called}"
    if isinstance(fn, (str, bytes, os.PathLike)):
        return (f"{name} is {_what(fn)}, not a function.  Import the file and give a function of "
                "it; ringup.spark.TorchDistributor runs the file itself")
    if isinstance(fn, type) and fn.__module__ != "builtins":
        return (f"{name} is the class {fn.__qualname__}, not a function: each rank would only make "
                "an object.  Give a function, or a method of an object: "
                f"{call.format(f'{fn.__name__}(...).METHOD')}")
    if not callable(fn):
        return f"{name} is {_what(fn)}, not a function.  {called}"
    inner = fn
    while hasattr(inner, "func") and hasattr(inner, "keywords"):  # functools.partial
        inner = inner.func
    for f in (inner, getattr(type(inner), "__call__", None)):
        if inspect.iscoroutinefunction(f):
            return (f"{name} is a coroutine function (async def), so a call of it runs nothing.  "
                    f"Give a function: def train(): return asyncio.run({_name(fn)}())")
        if inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f):
            return (f"{name} is a generator function (it has a yield), so a call of it runs "
                    "nothing.  Let it return what it makes")
    return None


def _name(fn):
    return getattr(fn, "__name__", None) or type(getattr(fn, "func", fn)).__name__


def function(fn, args, kwargs, name="main", call="run({})"):
    """Raise TypeError if fn(*args, **kwargs) is not a valid call, because fn is not a function or
    does not accept these arguments.

    name is the parameter as which fn was passed; call is the user's call, with {} for fn."""
    wrong = _wrong_kind(fn, name, call)
    if wrong:
        raise TypeError(wrong)
    try:
        # Not that of a function within a decorator, which may add arguments.
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):  # one in C that does not tell
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as e:
        raise TypeError(f"{_name(fn)}(), given as {name}, does not take these arguments: {e}.  Its "
                        f"signature is {_name(fn)}{signature}") from None


def sequences(args, kwargs):
    """Return (tuple, dict) of the arguments for a function; TypeError if they have another type."""
    if args is None:
        args = ()
    if isinstance(args, (str, bytes, dict)) or not hasattr(args, "__iter__"):
        raise TypeError(f"args={args!r} is of type {type(args).__name__}; args must be a tuple of "
                        f"arguments: args=({args!r},)")
    if kwargs is None:
        kwargs = {}
    if not isinstance(kwargs, dict) or not all(isinstance(k, str) for k in kwargs):
        raise TypeError(f"kwargs={kwargs!r}: kwargs must be a dict of arguments by name")
    return tuple(args), dict(kwargs)
