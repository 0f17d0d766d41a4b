# program.py - where ringup's programs are: ringup and, beside it, horovodrun.
# SPDX-License-Identifier: Apache-2.0

import os
import shutil

FOLDERS = ("/opt/ringup/current/bin", "/usr/local/bin")


def find(name="ringup"):
    """The path of ringup's program of that name.

    horovodrun is looked for beside ringup, for another Horovod may have one, too.
    """
    first = shutil.which("ringup")
    for folder in ([os.path.dirname(first)] if first else []) + list(FOLDERS):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    raise RuntimeError(f"there is no program {name}: install ringup (`./configure && make "
                       "install`), or put the folder of ringup and horovodrun into PATH")
