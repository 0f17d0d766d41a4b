# checks.py - checks that all ranks of a job make, one after the other, and how each has ended.
# SPDX-License-Identifier: Apache-2.0
"""A script that is started on every rank has a Checks, the decorator of its checks:

    check = Checks()

    @check
    def sums_are_right():
        ...

    check.run(hvd.rank(), between=hvd.barrier)
    hvd.shutdown()
    end()
"""

import faulthandler
import json
import os
import sys
import traceback

HANG = 240  # seconds after which a check will not come to its end, however slow the machine is


def raises(kind, f, *args, says="", **kwargs):
    """The exception of that kind which f() has to raise, and whose text has to have says in it."""
    try:
        f(*args, **kwargs)
    except kind as e:
        assert says in str(e), f"{says!r} is not in {e}"
        return e
    raise AssertionError(f"{getattr(f, '__name__', f)} did not raise {kind}")


class Checks:
    """The checks of a script, in its order."""

    def __init__(self):
        self.all = {}

    def __call__(self, f):
        self.all[f.__name__] = f
        return f

    def run(self, rank, before=lambda: None, between=lambda: None, told=None):
        """Make the checks that the command line names, or all.

        The file rank.N of RINGUP_TEST_RESULTS gets what each has ended with, "" or a traceback,
        and what told has.  before() is called ahead of each check and between() after it.  After a
        check that fails the process ends: the ranks may be out of step, and the checks that follow
        would tell nothing.
        """
        results = dict(told or {})
        path = os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"rank.{rank}")
        for name in sys.argv[1:] or list(self.all):
            faulthandler.dump_traceback_later(HANG, exit=True)
            before()
            try:
                self.all[name]()
                results[name] = ""
            except BaseException:
                results[name] = traceback.format_exc()
            with open(path + ".part", "w", encoding="utf-8") as f:
                json.dump(results, f)
            os.replace(path + ".part", path)
            if results[name]:
                print(results[name], file=sys.stderr, flush=True)
                os._exit(1)
            between()


def end():
    """End the process well.  To take a framework down would last as long as all the checks."""
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.flush()
    os._exit(0)
