#!/usr/bin/env python3
# distributed_of_torch.py - torch's own tests of process groups, on the back end $BACKEND.
# SPDX-License-Identifier: Apache-2.0
"""The tests are in every wheel of torch (torch.testing); the program that starts them for a back
end is not, and is here.  Ranks are forked: to import torch takes longer than most tests.

    BACKEND=ringup TESTS_OF=gloo WORLD_SIZE=3 distributed_of_torch.py [TEST...]

prints a line "TEST<tab>RESULT<tab>WHY" for each test that torch has for the back end TESTS_OF:
passed, skipped or failed.
"""

import importlib.util
import multiprocessing
import os
import sys
import tempfile
import types
import unittest

BACKEND = os.environ.get("BACKEND", "ringup")
os.environ["BACKEND"] = os.environ.get("TESTS_OF", "gloo")  # decides which tests there are
os.environ.setdefault("WORLD_SIZE", "3")
_folder = tempfile.TemporaryDirectory(prefix="ringup-torch")
os.environ["TEMP_DIR"] = _folder.name
os.environ["INIT_METHOD"] = f"file://{_folder.name}/init_dir/shared_init_file"
for _name in ("barrier", "test_dir", "init_dir"):
    os.makedirs(os.path.join(_folder.name, _name))

if not importlib.util.find_spec("expecttest"):  # for other tests of torch's than these
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase

import torch  # noqa: E402

import ringup_torch  # noqa: E402

ringup_torch.register()
for _module in (torch.distributed, torch.distributed.distributed_c10d):
    _module.is_mpi_available = lambda: True  # so that the tests of MPI are there

from torch.testing._internal.distributed import distributed_test  # noqa: E402

_init = torch.distributed.init_process_group


def _init_told(backend=None, *args, **kwargs):
    """Tests ask for the back end that they are of; the ranks get the one that is tested."""
    return _init(BACKEND if backend == distributed_test.BACKEND else backend, *args, **kwargs)


torch.distributed.init_process_group = _init_told


class TorchTests(distributed_test.TestDistBackend,
                 distributed_test.DistributedTest._DistTestBase):
    """All tests, each on ranks of its own."""

    def setUp(self):
        super().setUp()
        self._start_processes(multiprocessing.get_context("fork").Process)


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


def main():
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork", force=True)
    names = sys.argv[1:] or unittest.TestLoader().getTestCaseNames(TorchTests)
    suite = unittest.TestSuite(TorchTests(name) for name in names)
    suite.run(Lines())


if __name__ == "__main__":
    main()
