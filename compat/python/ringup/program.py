# program.py - find the program ringup, which also provides horovodrun.
# SPDX-License-Identifier: Apache-2.0

import os
import shutil
import sysconfig

FOLDERS = ("/opt/ringup/current/bin", "/usr/local/bin")


def beside():
    """Return the folders in which pip installs the program of the wheel that contains this package.
    """
    site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not os.path.exists(os.path.join(site, "ringup", "libringup.so.0")):
        return []
    user = sysconfig.get_path("scripts", f"{os.name}_user")
    return [os.path.join(site, "bin"), sysconfig.get_path("scripts"), user]


def find():
    """Return the path of the program: from this package's own wheel, from PATH, or from the place
    of installation."""
    first = shutil.which("ringup")
    for folder in beside() + ([os.path.dirname(first)] if first else []) + list(FOLDERS):
        path = os.path.join(folder, "ringup")
        if os.access(path, os.X_OK):
            return path
    raise RuntimeError("the program ringup was not found: install ringup (`pip install ringup`, or "
                       "`./configure && make install`), or put its folder into PATH")


def horovodrun():
    """Return the first words of a horovodrun command line, since another Horovod may own that name.
    """
    return [find(), "horovodrun"]
