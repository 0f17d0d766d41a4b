# pickling.py - functions and results as bytes, with the modules that only the driver has.
# SPDX-License-Identifier: Apache-2.0
"""cloudpickle sends what is defined in __main__, a notebook for instance, by value, and the rest
as names of modules.  Modules of the user's own that lie beside the notebook are sent by value here,
too, for the workers do not have them.

A class comes back as the same class only if both sides use the same cloudpickle: the package of
that name and the copy in pyspark do not know each other's classes.  So the payload names it."""

import importlib
import inspect
import json
import os
import pickle
import site
import sys
import sysconfig

PICKLERS = ("cloudpickle", "pyspark.cloudpickle")
NEVER_BY_VALUE = ("ringup", "horovod", "sparkdl", "pyspark", "py4j", "cloudpickle")


class CannotPickle(TypeError):
    """The function refers to something that cannot be sent to other processes."""


def pickler(name=None):
    """The module that pickles: the one of that name, or the first that is there."""
    for candidate in [name] if name else PICKLERS:
        try:
            return importlib.import_module(candidate)
        except ImportError:
            pass
    raise RuntimeError(f"there is no {name or 'cloudpickle'} for {sys.executable}: "
                       "`pip install cloudpickle`")


def installed_paths():
    """The folders of the standard library and of installed packages."""
    paths = {p for name, p in sysconfig.get_paths().items() if name in
             ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
    if site.ENABLE_USER_SITE:
        paths.add(site.getusersitepackages())
    return {os.path.realpath(p) for p in paths}


def is_standard(path):
    """Is a folder of sys.path there in each process of this Python?"""
    name = os.path.basename(path)
    if name == "lib-dynload" or (name.startswith("python3") and name.endswith(".zip")):
        return True
    return os.path.realpath(path) in installed_paths()


def own_modules():
    """Modules that are loaded, and are the user's own: not installed, not of this package."""
    installed = tuple(p + os.sep for p in installed_paths())
    found = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name == "__main__" or not path or name.split(".")[0] in NEVER_BY_VALUE:
            continue
        path = os.path.realpath(path)
        if path.endswith(".py") and not path.startswith(installed) and _is_beside(path, name):
            found.append(module)
    return found


def _is_beside(path, name):
    """Does the module lie in the current folder, or in the one of the script or notebook?"""
    places = [os.getcwd()]
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    places += [os.path.dirname(os.path.abspath(script))] if script else []
    top = path
    for _ in range(name.count(".") + 1 + (os.path.basename(path) == "__init__.py")):
        top = os.path.dirname(top)
    return top in {os.path.realpath(p) for p in places}


def _dumps(module, obj, by_value):
    register = getattr(module, "register_pickle_by_value", None)
    done = []
    try:
        for own in by_value if register else ():
            register(own)
            done.append(own)
        return module.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)
    finally:
        for own in done:
            module.unregister_pickle_by_value(own)


def _parts(fn, args, kwargs):
    """(name, object) of what travels with a function: what it refers to, and its arguments."""
    try:
        found = inspect.getclosurevars(fn)
        yield from found.nonlocals.items()
        yield from found.globals.items()
    except TypeError:
        pass
    yield from ((f"argument {i}", a) for i, a in enumerate(args))
    yield from ((f"argument {name}", a) for name, a in kwargs.items())


def _explain(module, fn, args, kwargs, error):
    """A sentence about what cannot be pickled."""
    name = getattr(fn, "__name__", repr(fn))
    for part, value in _parts(fn, args, kwargs):
        try:
            module.dumps(value)
        except Exception as e:
            kind = type(value)
            return (f"{name}() refers to {part}, of type {kind.__module__}.{kind.__qualname__}, "
                    f"which cannot be sent to other processes ({e}); import the library and make "
                    f"the object inside {name}()")
    return (f"{name}() cannot be sent to other processes ({error}); put the imports, and what it "
            f"makes of them, inside {name}()")


def dumps_call(fn, args, kwargs):
    """The payload of a call: a header, and the pickled function with its arguments."""
    module = pickler()
    call, own = (fn, tuple(args), dict(kwargs)), own_modules()
    try:
        body = _dumps(module, call, own)
    except Exception as e:
        try:
            body = _dumps(module, call, ())
        except Exception:
            raise CannotPickle(_explain(module, fn, args, kwargs, e)) from e
    header = json.dumps({"pickler": module.__name__, "python": list(sys.version_info[:2])}).encode()
    return len(header).to_bytes(4, "little") + header + body


def loads_result(data):
    """What dumps() of a rank has made; only for bytes whose MAC is right."""
    return pickle.loads(data)


def loads_call(payload):
    """(fn, args, kwargs, module that pickles) of a payload; in a rank only."""
    length = int.from_bytes(payload[:4], "little")
    header = json.loads(bytes(payload[4:4 + length]))
    module = pickler(header["pickler"])
    return (*pickle.loads(payload[4 + length:]), module)
