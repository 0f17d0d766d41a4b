# __main__.py - `python -m ringup`: report what is installed here, and problems with it.
# SPDX-License-Identifier: Apache-2.0
"""Exit status: 0 without problems, 1 with problems."""

import importlib.util
import os
import sys


def problems():
    """Return a sentence for each problem."""
    from . import foreign

    out = foreign.problems() if foreign.has_drop_in() else list(filter(None, [foreign.yielded()]))
    try:
        from . import job
        print(f"library:  {job.lib.ringup_version().decode()} ({job.library_path})")
    except ImportError as e:
        out.append(str(e))
    return out


def say_program():
    """Print the path of the command; pip may have installed it outside of the shell's PATH."""
    from . import program

    try:
        path = program.find()
    except RuntimeError:
        print("program:  not there")
        return
    folder = os.path.dirname(path)
    known = any(os.path.realpath(d) == os.path.realpath(folder) for d in os.get_exec_path())
    print(f"program:  {path}" + ("" if known else
                                 f", which is not in PATH: export PATH={folder}:$PATH"))


def main():
    from ._version import __version__

    print(f"package:  ringup {__version__} ({os.path.dirname(os.path.abspath(__file__))})")
    print(f"python:   {sys.version.split()[0]} ({sys.executable})")
    print(f"torch:    {'there' if importlib.util.find_spec('torch') else 'not there'}")
    say_program()
    bad = problems()
    for p in bad:
        print("problem: ", p)
    return 1 if bad else 0


sys.exit(main())
