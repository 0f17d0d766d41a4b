# __main__.py - `python -m ringup`: say what is installed here, and whether it is in order.
# SPDX-License-Identifier: Apache-2.0
"""Exit status: 0 in order, 1 not."""

import importlib.util
import os
import sys


def problems():
    """Sentences about what is wrong; empty if nothing is."""
    from . import foreign

    out = foreign.problems()
    try:
        from . import job
        print(f"library:  {job.lib.ringup_version().decode()} ({job.library_path})")
    except ImportError as e:
        out.append(str(e))
    return out


def main():
    from ._version import __version__

    print(f"package:  ringup {__version__} ({os.path.dirname(os.path.abspath(__file__))})")
    print(f"python:   {sys.version.split()[0]} ({sys.executable})")
    print(f"torch:    {'there' if importlib.util.find_spec('torch') else 'not there'}")
    bad = problems()
    for p in bad:
        print("problem: ", p)
    return 1 if bad else 0


sys.exit(main())
