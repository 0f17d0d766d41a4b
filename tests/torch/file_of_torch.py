#!/usr/bin/env python3
# file_of_torch.py - a file of torch's test/distributed, on the back end $BACKEND.
# SPDX-License-Identifier: Apache-2.0
"""The files are not in wheels: they are those of a checkout of torch's release.

    BACKEND=ringup file_of_torch.py SOURCES/test/distributed/test_device_mesh.py [TEST...]

prints a line "CLASS.TEST<tab>RESULT<tab>WHY" for each test: passed, skipped or failed.  Where the
file asks for Gloo, or for torch's default, the ranks get the back end.  Ranks are forked: to import
torch takes longer than most tests.
"""

import fnmatch
import importlib.util
import multiprocessing
import os
import sys
import unittest

import of_torch
import torch
from torch.testing._internal import common_distributed

import ringup_torch

BACKEND = os.environ.get("BACKEND", "ringup")
SECONDS = 120  # after which a test hangs


class Lines(of_torch.Lines):
    """Names have their class in front: files have several of one name."""

    def say(self, test, what, why=""):
        print(".".join(test.id().split(".")[-2:]), what, " ".join(why.split()), sep="\t",
              flush=True)


def module_of(path):
    """The file as a module that children of fork() have, too."""
    sys.path[:0] = [os.path.dirname(path), os.path.dirname(os.path.dirname(path))]
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module).pop("load_tests", None)  # wants the file to be the program
    return module


def each_of(suite):
    """The tests of a suite, which may consist of suites."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each_of(test)
        else:
            yield test


def forked(self):
    """In the place of the method that spawns ranks."""
    self._start_processes(multiprocessing.get_context("fork").Process)


def main():
    path, *names = sys.argv[1:]
    ringup_torch.register()
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork", force=True)
    common_distributed.MultiProcessTestCase._spawn_processes = forked
    common_distributed.TIMEOUT_DEFAULT = SECONDS
    if BACKEND != "gloo":
        of_torch.tell(("gloo", None, "cpu:gloo", "cpu:gloo,cuda:nccl"), BACKEND)
    tests = each_of(unittest.TestLoader().loadTestsFromModule(module_of(os.path.abspath(path))))
    for test in tests:
        name = ".".join(test.id().split(".")[-2:])
        if not names or any(fnmatch.fnmatch(name, "*" + n + "*") for n in names):
            test.run(Lines())


if __name__ == "__main__":
    main()
