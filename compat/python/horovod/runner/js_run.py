# js_run.py - jsrun: the functions that other code imports.
# SPDX-License-Identifier: Apache-2.0

import shutil


def is_jsrun_installed():
    """Return whether jsrun is in PATH."""
    return shutil.which("jsrun") is not None


def js_run(settings, nics, env, command, stdout=None, stderr=None):
    """Raise an exception: ringup does not have this part of upstream's launcher."""
    raise NotImplementedError("js_run() is part of upstream's launcher; start the ranks with "
                              "`horovodrun --jsrun`")


def generate_jsrun_rankfile(settings, path=None):
    """Raise an exception: ringup does not have this part of upstream's launcher."""
    raise NotImplementedError("jsrun places the ranks; choose how with `horovodrun --jsrun "
                              "--binding-args=WORDS`")
