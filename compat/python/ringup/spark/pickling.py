# pickling.py - convert functions and results to bytes, and name what cannot be converted.
# SPDX-License-Identifier: Apache-2.0
"""cloudpickle sends objects that are defined in __main__, such as in a notebook, by value, and
other objects as names of modules, which ranks import; gather.py sends the driver's files.

A class is restored as the same class only if both sides use the same cloudpickle: the package of
that name and the copy in pyspark do not know each other's classes.  The payload therefore names it.
"""

import builtins
import functools
import importlib
import json
import pickle
import sys
import types

from . import gather

PICKLERS = ("cloudpickle", "pyspark.cloudpickle")
CONTAINERS = ("builtins", "functools", "types", "collections", "argparse", "dataclasses")
MOST_STEPS = 8      # from the function to the culprit
MOST_LOOKS = 2000   # objects that are tried


class CannotPickle(TypeError):
    """The function refers to something that cannot be sent to other processes."""


def pickler(name=None):
    """Return the pickling module: the named one, or the first that is installed."""
    for candidate in [name] if name else PICKLERS:
        try:
            return importlib.import_module(candidate)
        except ImportError:
            pass
    raise RuntimeError(f"{sys.executable} has no {name or 'cloudpickle'}: `pip install "
                       "cloudpickle`")


def _dumps(module, obj, by_value):
    register = getattr(module, "register_pickle_by_value", None)
    done = []
    try:
        for own in by_value if register else ():
            register(own)
            done.append(own)
        data = module.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)
    finally:
        for own in done:
            module.unregister_pickle_by_value(own)
    # Spark's workers can read these, and the ranks, processes of their own, cannot.
    for marks in ((b"pyspark.broadcast", b"_from_id"), (b"_deserialize_accumulator",)):
        if all(mark in data for mark in marks):
            raise TypeError("only Spark's own workers can read it")
    return data


# -- the culprit -----------------------------------------------------------------------------------

def _names(code):
    """Return the global names to which a function's code, and the code in it, refer."""
    found = dict.fromkeys(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found.update(_names(const))
    return found


def _parts_of_function(fn):
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
        try:
            yield f" -> {name}", cell.cell_contents
        except ValueError:  # not set yet
            pass
    for name in _names(fn.__code__):
        if name in fn.__globals__ and not hasattr(builtins, name):
            yield f" -> {name}", fn.__globals__[name]
    for i, value in enumerate(fn.__defaults__ or ()):
        first = fn.__code__.co_argcount - len(fn.__defaults__)
        yield f" -> {fn.__code__.co_varnames[first + i]} (a default)", value
    for name, value in (fn.__kwdefaults__ or {}).items():
        yield f" -> {name} (a default)", value


def _parts(value):
    """Return pairs (description, object) of the parts of an object."""
    if isinstance(value, types.FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, types.MethodType):
        yield " -> self", value.__self__
        yield "", value.__func__
    elif isinstance(value, functools.partial):
        yield " -> " + _called(value.func), value.func
        yield from ((f" -> argument {k}", a) for k, a in
                    (*enumerate(value.args), *value.keywords.items()))
    elif isinstance(value, dict):
        yield from ((f"[{k!r}]", v) for k, v in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"[{i}]", v) for i, v in enumerate(value))
    elif isinstance(value, types.ModuleType):
        return
    else:
        members = getattr(value, "__dict__", None) or {}
        if isinstance(value, type):
            members = {k: getattr(v, "__func__", v) for k, v in members.items()
                       if not k.startswith("__") or k in ("__init__", "__call__")}
        else:
            members = dict(members)
            for kind in type(value).__mro__:
                for slot in kind.__dict__.get("__slots__", ()):
                    if isinstance(slot, str) and hasattr(value, slot):
                        members.setdefault(slot, getattr(value, slot))
        yield from ((f".{k}", v) for k, v in members.items())
        if not isinstance(value, type) and type(value).__module__ == "__main__":
            yield f" -> class {type(value).__name__}", type(value)


def _called(value):
    return getattr(value, "__name__", None) or type(value).__name__


def _is_of_spark(value):
    return str(type(value).__module__).split(".")[0] in ("pyspark", "py4j")


def _is_whole(value):
    """Return whether this is an object of a library, whose parts mean nothing to the user."""
    kind = value if isinstance(value, type) else type(value)
    module = sys.modules.get(str(kind.__module__))
    path = getattr(module, "__file__", None)
    return str(kind.__module__) not in CONTAINERS and bool(path) and gather.is_installed(path)


def _find(value, path, by_value, module, left, seen):
    """Return (path, object, error) of the innermost object that cannot be pickled."""
    error = None
    if left[0] > 0:
        left[0] -= 1
        try:
            _dumps(module, value, by_value)
        except Exception as e:
            error = e
    if error is None or id(value) in seen:
        return None
    seen.add(id(value))
    if not _is_whole(value) and len(seen) < 200 and path.count(">") <= MOST_STEPS:
        try:
            parts = list(_parts(value))
        except Exception:  # properties that raise, for instance
            parts = []
        for name, part in parts:
            found = _find(part, path + name, by_value, module, left, seen)
            if found:
                return found
    return path, value, error


def _kind_and_cure(value, name):
    """Return (description of the object, what to do instead)."""
    kind = type(value)
    full = f"{kind.__module__}.{kind.__qualname__}"
    inside = f"Make it inside {name}()"
    spark = full.startswith("pyspark.")
    if spark and kind.__name__ == "DataFrame":
        return "a DataFrame of Spark", (
            "Ranks cannot ask Spark.  Write it first, df.write.parquet(PATH), to storage that all "
            f"hosts share, and read PATH inside {name}(), with pandas or pyarrow for instance; a "
            f"small one can be an argument: {name}'s argument df.toPandas()")
    if spark and kind.__name__ == "RDD":
        return "an RDD of Spark", (
            "Ranks cannot ask Spark.  Save it to storage that all hosts share and read that inside "
            f"{name}(), or give rdd.collect() as an argument")
    if spark and kind.__name__ == "Broadcast":
        return "a broadcast variable of Spark", (
            f"Give its value to {name}() as an argument (.value), or load it inside {name}()")
    if spark and kind.__name__ == "Accumulator":
        return "an accumulator of Spark", (
            f"Let {name}() return what it counts; hvd.allreduce() adds it up over the ranks")
    if spark and kind.__name__ in ("SparkSession", "SparkContext", "SQLContext"):
        return f"the driver's {kind.__name__}", (
            f"Only the driver has it: do what needs Spark before {name}() runs, and let ranks read "
            "the result from storage that all hosts share")
    if full == "_thread.lock" or full == "_thread.RLock" or full.startswith(
            ("threading.", "multiprocessing.synchronize.", "queue.")):
        return f"a thread lock (type {full})" if "lock" in full.lower() else f"of type {full}", \
            inside
    if full.startswith("_io.") and hasattr(value, "name"):
        return f"an open file ({value.name!r}, type {full})", (
            f"Open it inside {name}(), from storage that all hosts share")
    if full in ("builtins.generator", "builtins.coroutine"):
        return f"a {kind.__name__}", f"{inside}, or make a list of it"
    if full == "builtins.module":
        return f"the module {value.__name__}", f"Import it inside {name}()"
    return f"of type {full}", f"Import its library and make the object inside {name}()"


def _explain(module, call, by_value, error):
    """Return the part of a call that cannot be pickled: a sentence, its path, and what to do."""
    fn, args, kwargs = call
    name = _called(fn)
    left, seen = [MOST_LOOKS], set()
    roots = [(name, fn), *((f"argument {i}", a) for i, a in enumerate(args)),
             *((f"argument {k}", a) for k, a in kwargs.items())]
    for path, value in roots:
        found = _find(value, path, by_value, module, left, seen)
        if not found:
            continue
        path, culprit, why = found
        if culprit is fn:
            break
        kind, cure = _kind_and_cure(culprit, name)
        last = path.rsplit(" -> ", 1)[-1]
        reason = str(why).splitlines()[0][:200] if str(why) else type(why).__name__
        reason = "" if _is_of_spark(culprit) else f" ({reason})"  # Spark's is about its own workers
        return (f"{name}() refers to {last}, {kind}, which cannot be sent to other processes"
                f"{reason}.  Path: {path}.  {cure}")
    return (f"{name}() cannot be sent to other processes ({error}).  Move its imports, and "
            f"objects created from them, into {name}()")


def cannot_pickle(fn, error, args=(), kwargs=None, by_value=()):
    """Return CannotPickle for a function, or a partial of one, that caused error."""
    kwargs = dict(kwargs or {})
    if isinstance(fn, functools.partial):
        fn, args, kwargs = fn.func, (*fn.args, *args), {**fn.keywords, **kwargs}
    return CannotPickle(_explain(pickler(), (fn, args, kwargs), by_value, error))


# -- calls and results -----------------------------------------------------------------------------

def dumps_call(fn, args, kwargs, by_value=(), **header):
    """Return the payload of a call: a header, and the pickled function with its arguments.

    by_value lists modules whose functions and classes are sent by value, not by name."""
    module = pickler()
    call = fn, tuple(args), dict(kwargs)
    try:
        body = _dumps(module, call, by_value)
    except Exception as e:
        raise cannot_pickle(fn, e, args, kwargs, by_value) from e
    header = json.dumps({**header, "pickler": module.__name__}).encode()
    return len(header).to_bytes(4, "little") + header + body


def loads_result(data):
    """Return the result in a rank's dumps(); None for no bytes.  Use it only for bytes with a valid
    MAC."""
    return pickle.loads(data) if data else None


def loads_header(payload):
    """Return the header of a payload, and the module that pickles."""
    length = int.from_bytes(payload[:4], "little")
    header = json.loads(bytes(payload[4:4 + length]))
    return header, pickler(header["pickler"])


def loads_call(payload):
    """Return (fn, args, kwargs) of a payload.  Use it only in a rank."""
    return pickle.loads(payload[4 + int.from_bytes(payload[:4], "little"):])
