# of_torch.py - what runs tests of torch's own on another back end than they are written for.
# SPDX-License-Identifier: Apache-2.0
"""tell() makes programs that ask torch.distributed for one back end get another one; Lines prints
a line "TEST<tab>RESULT<tab>WHY" for each test: passed, skipped or failed."""

import importlib.util
import sys
import types
import unittest

if not importlib.util.find_spec("expecttest"):  # for other tests of torch's than these
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed import distributed_c10d as c10d  # noqa: E402


def tell(asked, backend):
    """Whoever asks for one of the back ends `asked` gets `backend`; None is torch's default."""
    def told(function, place):
        def call(*args, **kwargs):
            if len(args) > place:
                args = list(args)
                args[place] = backend if args[place] in asked else args[place]
            elif kwargs.get("backend") in asked:
                kwargs["backend"] = backend
            return function(*args, **kwargs)
        return call

    for name, place in (("init_process_group", 0), ("new_group", 2)):
        function = told(getattr(c10d, name), place)
        for module in (dist, c10d):
            setattr(module, name, function)


class Lines(unittest.TestResult):
    """Prints a line for each test."""

    def say(self, test, what, why=""):
        why = " ".join(why.split())
        print(test.id().rpartition(".")[2], what, why, sep="\t", flush=True)

    def addSuccess(self, test):
        self.say(test, "passed")

    def addSkip(self, test, reason):
        self.say(test, "skipped", reason)

    def addFailure(self, test, err):
        self.say(test, "failed", self._exc_info_to_string(err, test)[-600:])

    addError = addFailure

    def addExpectedFailure(self, test, err):
        self.say(test, "passed", "fails, as torch expects")

    def addUnexpectedSuccess(self, test):
        self.say(test, "passed", "though torch expects a failure")
