# codec.py - objects as bytes: the one place of the launcher that unpickles.
# SPDX-License-Identifier: Apache-2.0
"""Unpickling can run any code.  Each reader therefore first verifies the source of the bytes: a
signature (loads_signed), or the owner of a file that no other user can write (read)."""

import base64
import os
import pickle
import stat

from horovod.runner.common.util import secret


def dumps(obj):
    """Return any object as bytes, including functions of __main__."""
    try:
        import cloudpickle
    except ImportError:
        try:
            return pickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as e:
            raise RuntimeError(f"{obj!r} cannot be pickled: {e}; cloudpickle supports more (pip "
                               "install cloudpickle)") from e
    return cloudpickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)


def dumps_base64(obj, to_ascii=True):
    """Return the result of dumps() in base64."""
    encoded = base64.b64encode(dumps(obj))
    return encoded.decode("ascii") if to_ascii else encoded


def loads_base64(encoded):
    """Undo dumps_base64(). Use this only for text that the caller itself has encoded."""
    return pickle.loads(base64.b64decode(encoded))


def loads_signed(key, message, digest):
    """Return the object in a message, after verifying its signature."""
    if not secret.check_digest(key, message, digest):
        raise Exception("Security error: digest did not match the message.")
    return pickle.loads(message)


def write(path, obj):
    """Write an object to a new file that only this user can read, completely or not at all."""
    part = f"{path}.part{os.getpid()}"
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
        f.write(dumps(obj))
    os.rename(part, path)


def read(path):
    """Return the object in a file that belongs to this user and that no other user can write."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as f:
        s = os.fstat(f.fileno())
        if not stat.S_ISREG(s.st_mode) or s.st_uid != os.geteuid() or s.st_mode & 0o022:
            raise PermissionError(f"refusing to unpickle {path}: other users can write it")
        return pickle.loads(f.read())
