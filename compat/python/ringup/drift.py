# drift.py - find out whether the software that this package was installed for has changed.
# SPDX-License-Identifier: Apache-2.0
"""`ringup rebuild` writes the file watch next to this one.  Each line has a path, a size, and the
software that the path belongs to.  Looking at a few files takes microseconds and imports no
framework."""

import os
import sys

from . import setting

# A job shall say it once on each host: these tell a rank its number there.
_RANKS = ("RINGUP_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK",
          "SLURM_LOCALID")
_LONGEST = 65536


def changed(directory):
    """Return the software that has been removed or replaced, such as ["torch 2.13.0"]."""
    try:
        with open(os.path.join(directory, "watch"), encoding="utf-8") as f:
            lines = f.read(_LONGEST).splitlines()
    except (OSError, ValueError):
        return []
    out = []
    for line in lines:
        path, _, rest = line.partition("\t")
        size, _, what = rest.partition("\t")
        try:
            same = os.stat(path).st_size == int(size) if size != "-1" else os.path.exists(path)
        except FileNotFoundError:
            same = False
        except (OSError, ValueError):
            continue  # what cannot be looked at has not changed
        if not same and what and what not in out:
            out.append(what)
    return out


def sentence(what):
    """Return a sentence with the problem and the command that fixes it."""
    return (f"{' and '.join(what)}, which ringup was installed for, is missing or has changed: "
            f"`ringup rebuild --engine ringup --python {sys.executable}` updates ringup "
            "(RINGUP_DRIFT=off turns this message off)")


def warn():
    """Warn once, on one rank of each host; never fails."""
    if not setting.is_on("RINGUP_DRIFT", default=True):
        return
    if any(os.environ.get(name, "0") not in ("", "0", "-1") for name in _RANKS):
        return
    what = changed(os.path.dirname(os.path.abspath(__file__)))
    if what:
        import warnings
        warnings.warn(sentence(what), RuntimeWarning, stacklevel=3)
