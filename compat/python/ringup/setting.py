# setting.py - settings that the Python packages read themselves, as the C library reads them.
# SPDX-License-Identifier: Apache-2.0
"""Everything else reads its settings in C (src/base/conf.def), which complains about wrong ones."""

import os

_ON = ("1", "on", "yes", "true")
_OFF = ("0", "off", "no", "false")


def number(name):
    """The value of a setting that counts; 0 if it is not set or no number."""
    try:
        return max(0, int(os.environ.get(name) or 0))
    except ValueError:
        return 0


def is_on(name, default=False):
    """The value of a setting that is on or off; the default if it is not set or says neither."""
    said = os.environ.get(name, "").lower()
    return said in _ON or (default and said not in _OFF)


def size(name, default):
    """The value of a setting of bytes, as 64K, 2M or 1G; the default if it is not set or wrong."""
    said = os.environ.get(name, "").strip().upper().rstrip("B")
    unit = "KMGT".find(said[-1:]) + 1 if said else 0
    digits = said[:-1] if unit else said
    return int(digits) << 10 * unit if digits.isdigit() else default
