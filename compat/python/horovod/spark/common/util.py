# util.py - what programs of Horovod on Spark take from this module.
# SPDX-License-Identifier: Apache-2.0

import os

from horovod.runner.common.util import host_hash as _host


def host_hash(salt=None):
    """A name that processes share if, and only if, they are on one host, or in one container."""
    parts = [part for part in (os.environ.get("CONTAINER_ID"), salt) if part]
    return _host.host_hash("-".join(parts) or None)


def to_list(var, length):
    """A list of that length: var itself, or var as often as it takes; None stays None."""
    if var is None:
        return None
    values = list(var) if isinstance(var, (list, tuple)) else [var]
    if len(values) == 1:
        values *= length
    if len(values) != length:
        raise ValueError(f"{len(values)} values, where there are {length}")
    return values
