# tiny_shell_exec.py - run a short command and keep what it prints.
# SPDX-License-Identifier: Apache-2.0

import io
import sys
import traceback

from horovod.runner.common.util import safe_shell_exec


def execute(command, env=None):
    """Return (output, exit status), or None if the command could not be run."""
    output = io.StringIO()
    try:
        status = safe_shell_exec.execute(command, env=env, stdout=output, stderr=output)
    except Exception:
        traceback.print_exc(file=sys.stderr)
        return None
    return output.getvalue(), status
