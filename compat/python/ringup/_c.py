# _c.py - libringup.so and CUDA's driver through ctypes: the only Python file that deals with C.
# SPDX-License-Identifier: Apache-2.0
"""The ctypes mirror of ringup.h.  tests/py/test_header.py compiles the header and compares the two.
"""

import ctypes
import ctypes.util
import os
import re
import types
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_size_t,
                    c_uint64, c_void_p)

from . import errors

STATUS = {
    "EINVAL": -1, "ENOMEM": -2, "EBUSY": -3, "EMISMATCH": -4, "EPEER": -5, "ESHUTDOWN": -6,
    "ENOBACKEND": -7, "ESYSTEM": -8, "ETIMEDOUT": -9, "EAUTH": -10, "EABORTED": -11,
    "EDEADLOCK": -12,
}
EBUSY, ETIMEDOUT = STATUS["EBUSY"], STATUS["ETIMEDOUT"]

EXCHANGE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)
CALLBACK = CFUNCTYPE(None, c_void_p, c_int)


class Set(Structure):
    """struct ringup_set"""
    _fields_ = [("ranks", POINTER(c_int)), ("count", c_int)]


class Sized(Structure):
    """A struct of ringup.h whose first field is its size."""
    _fields_ = [("bytes", c_size_t)]

    def __init__(self, *fields, **named):
        super().__init__(ctypes.sizeof(self), *fields, **named)


class Init(Sized):
    """struct ringup_init"""
    _fields_ = [("rank", c_int), ("size", c_int), ("exchange", EXCHANGE), ("ctx", c_void_p),
                ("groups", POINTER(Set)), ("group_count", c_int), ("join_sums", c_int),
                ("part", c_char_p), ("part_ranks", POINTER(c_int))]


class Reduce(Sized):
    """struct ringup_reduce"""
    _fields_ = [("name", c_char_p), ("in", c_void_p), ("out", c_void_p), ("count", c_uint64),
                ("dtype", c_int), ("redop", c_int), ("pre", c_double), ("post", c_double),
                ("shape", POINTER(c_uint64)), ("dims", c_int), ("memory", c_int),
                ("stream", c_void_p)]


class Bcast(Sized):
    """struct ringup_bcast"""
    _fields_ = [("name", c_char_p), ("in", c_void_p), ("out", c_void_p), ("count", c_uint64),
                ("dtype", c_int), ("root", c_int), ("shape", POINTER(c_uint64)), ("dims", c_int),
                ("memory", c_int), ("stream", c_void_p)]


class Gather(Sized):
    """struct ringup_gather"""
    _fields_ = [("name", c_char_p), ("in", c_void_p), ("rows", c_uint64), ("row", c_uint64),
                ("dtype", c_int), ("out", POINTER(c_void_p)), ("counts", POINTER(c_uint64)),
                ("shape", POINTER(c_uint64)), ("dims", c_int), ("into", c_void_p),
                ("into_bytes", c_uint64), ("memory", c_int), ("stream", c_void_p)]


class Exchange(Sized):
    """struct ringup_exchange"""
    _fields_ = [("name", c_char_p), ("in", c_void_p), ("rows", c_uint64), ("row", c_uint64),
                ("splits", POINTER(c_uint64)), ("dtype", c_int), ("out", POINTER(c_void_p)),
                ("counts", POINTER(c_uint64)), ("shape", POINTER(c_uint64)), ("dims", c_int),
                ("into", c_void_p), ("into_bytes", c_uint64), ("memory", c_int),
                ("stream", c_void_p)]


class Scatter(Sized):
    """struct ringup_scatter"""
    _fields_ = [("name", c_char_p), ("in", c_void_p), ("rows", c_uint64), ("row", c_uint64),
                ("out", c_void_p), ("dtype", c_int), ("redop", c_int), ("pre", c_double),
                ("post", c_double), ("shape", POINTER(c_uint64)), ("dims", c_int),
                ("memory", c_int), ("stream", c_void_p)]


class Send(Sized):
    """struct ringup_send"""
    _fields_ = [("in", c_void_p), ("count", c_uint64), ("dtype", c_int), ("to", c_int),
                ("tag", c_int)]


class Recv(Sized):
    """struct ringup_recv"""
    _fields_ = [("out", c_void_p), ("count", c_uint64), ("dtype", c_int), ("from", c_int),
                ("tag", c_int), ("source", POINTER(c_int))]


class Points(Structure):
    """struct ringup_points"""
    _fields_ = [("submitted", c_int64), ("ready", c_int64), ("begun", c_int64),
                ("complete", c_int64), ("failed", c_int)]


STRUCTS = {"ringup_set": Set, "ringup_init": Init, "ringup_reduce": Reduce, "ringup_bcast": Bcast,
           "ringup_gather": Gather, "ringup_exchange": Exchange, "ringup_scatter": Scatter,
           "ringup_send": Send, "ringup_recv": Recv, "ringup_points": Points}

# What describes each collective; MANY: several go together.  src/base/collectives.h has the same.
COLLECTIVES = {"allreduce": Reduce, "broadcast": Bcast, "allgather": Gather,
               "reducescatter": Scatter, "alltoall": Exchange}
MANY = ("allreduce", "allgather", "reducescatter")
ROOTED = {"reduce_to": Reduce, "gather_to": Gather, "scatter_from": Exchange}
STARTS = {
    **{f"ringup_{word}": (c_int, [c_void_p, POINTER(of), POINTER(c_void_p)])
       for word, of in COLLECTIVES.items()},
    **{f"ringup_{word}": (c_int, [c_void_p, POINTER(of), c_int, POINTER(c_void_p)])
       for word, of in (*((f"{word}_many", COLLECTIVES[word]) for word in MANY), *ROOTED.items())},
    "ringup_barrier": (c_int, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "ringup_join": (c_int, [c_void_p, POINTER(c_int), POINTER(c_void_p)]),
    "ringup_send": (c_int, [c_void_p, POINTER(Send), POINTER(c_void_p)]),
    "ringup_recv": (c_int, [c_void_p, POINTER(Recv), POINTER(c_void_p)]),
}

# name: (result, arguments)
PROTOTYPES = {
    **STARTS,
    "ringup_version": (c_char_p, []),
    "ringup_strerror": (c_char_p, [c_int]),
    "ringup_error": (c_char_p, []),
    "ringup_explain": (c_char_p, []),
    "ringup_init": (c_int, [POINTER(Init), POINTER(c_void_p)]),
    "ringup_fini": (None, [c_void_p]),
    "ringup_alarm_fd": (c_int, [c_void_p]),
    "ringup_abort": (None, [c_void_p, c_char_p]),
    "ringup_world": (c_void_p, [c_void_p]),
    "ringup_group_add": (c_int, [c_void_p, POINTER(c_int), c_int, POINTER(c_void_p)]),
    "ringup_group_remove": (c_int, [c_void_p]),
    "ringup_group_abort": (c_int, [c_void_p]),
    "ringup_group_error": (c_int, [c_void_p]),
    "ringup_group_id": (c_int, [c_void_p]),
    "ringup_group_get": (c_void_p, [c_void_p, c_int]),
    "ringup_group_member": (c_int, [c_void_p, c_int]),
    "ringup_rank": (c_int, [c_void_p]),
    "ringup_size": (c_int, [c_void_p]),
    "ringup_hosts_changed": (c_int, [c_void_p]),
    "ringup_state_synced": (None, [c_int]),
    "ringup_generation": (c_int, [c_void_p]),
    "ringup_local_rank": (c_int, [c_void_p]),
    "ringup_local_size": (c_int, [c_void_p]),
    "ringup_host_rank": (c_int, [c_void_p]),
    "ringup_host_count": (c_int, [c_void_p]),
    "ringup_is_homogeneous": (c_int, [c_void_p]),
    "ringup_backend": (c_char_p, [c_void_p]),
    "ringup_accepts": (c_int, [c_void_p, c_int]),
    "ringup_allreduce_within": (c_int, [c_void_p, POINTER(Reduce), c_int64, POINTER(c_void_p)]),
    "ringup_poll": (c_int, [c_void_p]),
    "ringup_wait": (c_int, [c_void_p, c_int64]),
    "ringup_wait_on": (c_int, [c_void_p, c_int64]),
    "ringup_result_stream": (c_int, [c_void_p, c_void_p]),
    "ringup_then": (c_int, [c_void_p, CALLBACK, c_void_p]),
    "ringup_timeline_start": (c_int, [c_void_p, c_char_p, c_int]),
    "ringup_timeline_stop": (c_int, [c_void_p]),
    "ringup_points_keep": (c_int, [c_void_p, POINTER(POINTER(c_uint64))]),
    "ringup_points_get": (c_int, [c_void_p, c_uint64, c_uint64, POINTER(Points), c_size_t]),
    "ringup_alloc": (c_void_p, [c_size_t]),
    "ringup_free": (None, [c_void_p]),
}

# src/api/api_launcher.h: for ringup.spark alone.
LAUNCHER = {
    "ringup_door_open": (c_int, [c_char_p, c_char_p, c_char_p, POINTER(c_void_p)]),
    "ringup_door_wait": (c_int, [c_void_p, POINTER(c_void_p)]),
    "ringup_door_shut": (None, [c_void_p]),
    "ringup_door_close": (None, [c_void_p]),
    "ringup_session_connect": (c_int, [c_char_p, c_char_p, c_int64, POINTER(c_void_p)]),
    "ringup_session_fd": (c_int, [c_void_p]),
    "ringup_session_send": (c_int, [c_void_p, c_char_p, c_size_t, c_int64]),
    "ringup_session_receive": (c_int, [c_void_p, c_int64, POINTER(c_void_p)]),
    "ringup_session_release": (c_int, [c_void_p, c_char_p]),
    "ringup_session_close": (None, [c_void_p]),
    "ringup_host_identity": (None, [c_char_p, c_char_p]),
}

# These never block, so they keep the interpreter's lock: who lets go of it has to get it back,
# which takes milliseconds where another thread computes in Python.
PROMPT = {*STARTS, "ringup_then", "ringup_result_stream", "ringup_poll", "ringup_hosts_changed"}

SONAME = "libringup.so.0"


def candidates():
    """Return the paths to search for the library, best first: RINGUP_LIBRARY, the bundled one, the
    installed one, and the one that ld.so finds."""
    told = os.environ.get("RINGUP_LIBRARY")
    if told:
        return [told]
    here = os.path.dirname(os.path.abspath(__file__))
    return [p for p in (os.path.join(here, SONAME), "/opt/ringup/current/lib/" + SONAME,
                        "/usr/local/lib/" + SONAME) if os.path.exists(p)] + [SONAME]


def functions(path):
    """Return the functions of the library in this file, by name."""
    waiting, prompt, lib = ctypes.CDLL(path), ctypes.PyDLL(path), types.SimpleNamespace()
    for name, (result, arguments) in (*PROTOTYPES.items(), *LAUNCHER.items()):
        f = getattr(prompt if name in PROMPT else waiting, name)
        f.restype, f.argtypes = result, arguments
        setattr(lib, name, f)
    return lib


def load(version):
    """Load the library.  Its minor version must match that of the package."""
    why = []
    for path in candidates():
        try:
            lib = functions(path)
        except (OSError, AttributeError) as e:
            why.append(str(e))
            continue
        found = lib.ringup_version().decode()
        if found.split(".")[:2] != version.split(".")[:2]:
            raise ImportError(f"{path} is ringup {found}, but this Python package is {version}; "
                              "install both from the same release")
        return lib, path
    raise ImportError("cannot load libringup.so: " + "; ".join(why) + ".  Install ringup "
                      "(`./configure && make install`, then `ldconfig`), or set RINGUP_LIBRARY "
                      "to the path of libringup.so")


def of_framework(path, name, takes=(c_void_p,)):
    """Return a function void name(struct ringup *) of a framework's library, or a function without
    effect.  The function may block until operations end."""
    f = getattr(ctypes.CDLL(path), name)
    f.restype, f.argtypes = None, takes
    return f


def foreign_function(path, name):
    """Return the address of a function of a library, for a framework."""
    return getattr(ctypes.CDLL(path), name)


def error(name, text):
    """Return the exception for a status with this name."""
    e = errors.BY_NAME.get(name, errors.RingupError)(text)
    e.status = STATUS.get(name, 0)
    return e


# How a sentence about what the ranks want begins, if not with the bare name of the operation.
_UNNAMED = "one without a name: "
# How the library's sentence begins if it names the operation.
_NAMES_ONE = re.compile(r"(grouped )?[a-z]+ ('.*'|#\d+): |(send|receive) of "
                        r"|[a-z]+ \S+ (has stalled|is not complete)")


def failure(lib, status, doing):
    """Return the exception for a negative status, with the library's message.

    If the message does not name the operation, `doing` precedes it."""
    name = next((n for n, code in STATUS.items() if code == status), None)
    text = lib.ringup_explain().decode(errors="replace")
    text = text or lib.ringup_strerror(status).decode()
    called = re.search("'(.*)'$", doing)
    bare = f"{called[1]}: " if called else _UNNAMED
    text = text[len(bare):] if text.startswith(bare) else text
    named = text.startswith(f"{doing}: ") or _NAMES_ONE.match(text)
    e = error(name, text if named else f"{doing}: {text}")
    e.status = status
    return e


def exchange(allgather, size):
    """Return the callback for ringup_init() that calls allgather(bytes).

    allgather returns a list with the bytes of each of size ranks.  If size is None, the launcher
    determines the number of ranks."""
    failed = []

    def call(_ctx, mine, length, everybody):
        try:
            blocks = [bytes(b) for b in allgather(ctypes.string_at(mine, length))]
            lengths = [len(b) for b in blocks]
            if len(blocks) != (size or len(blocks)) or set(lengths) != {length}:
                raise ValueError(f"allgather() must return {length} bytes from each rank, but it "
                                 f"returned {len(blocks)} blocks of {lengths} bytes")
            ctypes.memmove(everybody, b"".join(blocks), length * len(blocks))
            return 0
        except BaseException as e:  # it must not unwind through C
            failed.append(e)
            return -1

    return EXCHANGE(call), failed


def view(lib, address, nbytes):
    """Return a writable memoryview on memory of the library.

    The memory is released when the view and everything made from it (casts, slices, arrays) are
    gone.  Arrays refer to the object behind a memoryview, not to the memoryview."""
    import weakref

    if nbytes == 0:  # cannot be cast
        lib.ringup_free(address)
        return memoryview(bytearray())
    a = (ctypes.c_ubyte * nbytes).from_address(address)
    weakref.finalize(a, lib.ringup_free, address).atexit = False
    return memoryview(a).cast("B")


# CUDA's driver, of which the library uses one context for each device, as the frameworks do.

def _driver():
    """Return the driver; None if this process has not loaded it."""
    try:
        return ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None


def _call_driver(driver, name, *args):
    """Call a function of the driver; raise an exception if it fails."""
    code = getattr(driver, name)(*args)
    if code:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(text))
        raise error("ESYSTEM", f"the GPU has failed: {name}: "
                    f"{(text.value or b'').decode() or f'error {code}'}; restart this process")


def finish_devices():
    """Block until each device whose primary context is in use has run its work.  The context of
    the calling thread changes."""
    driver = _driver()
    if driver is None:
        return
    count, device, flags, active = (ctypes.c_int() for _ in range(4))
    context = ctypes.c_void_p()
    _call_driver(driver, "cuDeviceGetCount", ctypes.byref(count))
    for i in range(count.value):
        _call_driver(driver, "cuDeviceGet", ctypes.byref(device), i)
        _call_driver(driver, "cuDevicePrimaryCtxGetState", device, ctypes.byref(flags),
                     ctypes.byref(active))
        if not active.value:
            continue
        _call_driver(driver, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        try:
            _call_driver(driver, "cuCtxSetCurrent", context)
            _call_driver(driver, "cuCtxSynchronize")
        finally:
            driver.cuCtxSetCurrent(None)
            driver.cuDevicePrimaryCtxRelease_v2(device)
