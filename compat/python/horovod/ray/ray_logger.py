# ray_logger.py - messages from ranks to the driver's callbacks.
# SPDX-License-Identifier: Apache-2.0

import base64
import os
import sys
import warnings

MARK = "ray_logger "  # in front of what goes by a rank's report

_send = None
_has_warned = False


def configure(send):
    """Make log() pass its messages to send(); None means that no callbacks exist."""
    global _send
    _send = send


def _reporter():
    """Return the Reporter of this process, if it is a rank of an elastic job."""
    reporter = getattr(sys.modules.get("ringup.spark.rank"), "reporter", None)
    return reporter if reporter and reporter.pid == os.getpid() else None


def log(info_dict):
    """Call each callback of execute() or run() on the driver with this object, which must be
    picklable."""
    global _has_warned
    reporter = _reporter()
    if _send is not None:
        _send(info_dict)
    elif reporter:
        import cloudpickle

        from ringup.spark import rank

        text = MARK + base64.b64encode(cloudpickle.dumps(info_dict)).decode()
        reporter.report(rank.LOG, text.encode())
    elif not _has_warned:
        _has_warned = True
        warnings.warn("ray_logger.log() has no receiver: pass callbacks= to execute() or run()")
