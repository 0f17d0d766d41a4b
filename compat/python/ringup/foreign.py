# foreign.py - detect another Horovod or sparkdl in the place of ours.
# SPDX-License-Identifier: Apache-2.0
"""This module needs only the standard library, because compat/install runs it in a Python without
ringup."""

import importlib.metadata
import importlib.util
import os
import sys


def distributions(path=None, name="horovod"):
    """Return [(version, directory)] of every distribution with this name."""
    where = {"path": [path]} if path else {}
    found = importlib.metadata.distributions(name=name, **where)
    return [(d.version, str(d.locate_file(""))) for d in found if d.version]


def package(path=None):
    """Return the directory that `import horovod` would use, or None."""
    if path:
        at = os.path.join(path, "horovod")
        return at if os.path.isdir(at) else None
    spec = importlib.util.find_spec("horovod")
    places = spec and (spec.submodule_search_locations or [os.path.dirname(spec.origin or "")])
    return list(places)[0] if places else None


def is_ours(directory):
    """Return whether the package there comes with ringup."""
    try:
        with open(os.path.join(directory, "__init__.py"), encoding="utf-8") as f:
            return "ringup" in f.readline() + f.readline() + f.readline()
    except (OSError, UnicodeDecodeError):
        return False


def yielded():
    """Return why ringup-horovod does not provide `import horovod`; None if it does or is not
    installed."""
    at = package()
    if not distributions(name="ringup-horovod") or (at and is_ours(at)):
        return None
    if not at:
        return ("ringup-horovod is installed, but its folder is not on Python's path: Python reads "
                ".pth files in site-packages only; add that folder to PYTHONPATH")
    real = distributions()
    name = f"Horovod {real[0][0]}" if real else "another Horovod"
    return (f"ringup-horovod is installed, but `import horovod` finds {name} in {at}: run `pip "
            "uninstall horovod` to use ringup's, or `pip uninstall ringup-horovod` to keep it")


def has_drop_in():
    """Return whether an installed ringup contains a package horovod, which hides another one."""
    try:
        files = importlib.metadata.files("ringup") or []
    except importlib.metadata.PackageNotFoundError:
        return True  # on PYTHONPATH, as in a clone
    return any(str(f) == "horovod/__init__.py" for f in files)


def problems(path=None):
    """Return a sentence for each other Horovod or sparkdl."""
    out = [f"Horovod {version} is installed in {where}; two packages called horovod cannot "
           "coexist: `pip uninstall horovod` removes that one, `pip uninstall ringup` this one"
           for version, where in distributions(path)]
    at = package(path)
    if at and not out and not is_ours(at):
        out.append(f"`import horovod` finds {at}, which is not ringup's and not pip's: remove "
                   "that directory, or remove it from PYTHONPATH")
    # The sparkdl of PyPI is one of 2018, without HorovodRunner.
    out += [f"another package sparkdl {version} in {where} replaces the one with HorovodRunner: "
            "run `pip uninstall sparkdl`, then reinstall ringup"
            for version, where in distributions(path, "sparkdl")]
    return out


if __name__ == "__main__":
    found = problems(*sys.argv[1:])
    for sentence in found:
        print("ringup:", sentence)  # marked, for sitecustomize may print, too
    sys.exit(1 if found else 0)
