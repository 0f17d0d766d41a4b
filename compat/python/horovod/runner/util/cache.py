# cache.py - keep results while a process runs.
# SPDX-License-Identifier: Apache-2.0

import threading
import time


class Cache:
    """Values by key, each kept for a number of minutes.  Horovod keeps them in a file of the
    folder, as pickles; here they are kept only in the process."""

    def __init__(self, cache_folder, cache_staleness_threshold_in_minutes, parameters_hash):
        self._seconds = 60 * cache_staleness_threshold_in_minutes
        self._values = {}
        self._lock = threading.Lock()

    def get(self, key):
        """Return the value, or None if it is unknown or too old."""
        with self._lock:
            when, value = self._values.get(key, (0, None))
        return value if time.monotonic() - when <= self._seconds else None

    def put(self, key, val):
        """Store a value."""
        with self._lock:
            self._values[key] = (time.monotonic(), val)


def use_cache():
    """Decorator that keeps results other than None in the Cache of the argument fn_cache."""
    def wrap(func):
        def wrapper(*args, fn_cache=None, **kwargs):
            key = (func.__name__, tuple(args[0]), frozenset(kwargs.items()))
            known = fn_cache.get(key) if fn_cache else None
            if known is None:
                known = func(*args, **kwargs)
                if fn_cache and known is not None:
                    fn_cache.put(key, known)
            return known

        return wrapper

    return wrap
