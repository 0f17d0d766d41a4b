# setting.py - settings that the Python packages read themselves, as the C library reads them.
# SPDX-License-Identifier: Apache-2.0
"""All other settings are read in C (src/base/conf.def), which reports invalid values."""

import os

_ON = ("1", "on", "yes", "true")
_OFF = ("0", "off", "no", "false")


def number(name):
    """Return the value of a numeric setting; 0 if it is not set or not a number."""
    try:
        return max(0, int(os.environ.get(name) or 0))
    except ValueError:
        return 0


def is_on(name, default=False):
    """Return the value of an on/off setting; the default if it is not set or has another value."""
    said = os.environ.get(name, "").lower()
    return said in _ON or (default and said not in _OFF)


def size(name, default):
    """Return the value of a size such as 64K, 2M or 1G, in bytes; the default if it is not set
    or invalid."""
    said = os.environ.get(name, "").strip().upper().rstrip("B")
    unit = "KMGT".find(said[-1:]) + 1 if said else 0
    digits = said[:-1] if unit else said
    return int(digits) << 10 * unit if digits.isdigit() else default
