# host_hash.py - a unique name for this host.
# SPDX-License-Identifier: Apache-2.0

import hashlib
import os
import socket

NAMESPACE_PATH = "/proc/self/ns"


def _namespaces():
    """Return this process's namespaces, because processes of two containers do not share memory."""
    try:
        return " ".join(os.readlink(os.path.join(NAMESPACE_PATH, name))
                        for name in sorted(os.listdir(NAMESPACE_PATH)))
    except OSError:
        return ""


def _hash(string):
    return hashlib.md5(string.encode("ascii", "replace"), usedforsecurity=False).hexdigest()


def host_hash(salt=None):
    """Return HOST-HASH, where HOST is the first part of the host's name."""
    name = socket.gethostname()
    text = f"{name}-{_namespaces()}" + (f"-{salt}" if salt else "")
    return f"{name.split('.')[0]}-{_hash(text)}"
