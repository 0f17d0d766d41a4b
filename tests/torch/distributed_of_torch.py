#!/usr/bin/env python3
# distributed_of_torch.py - torch's own tests of process groups, on the back end $BACKEND.
# SPDX-License-Identifier: Apache-2.0
"""The tests are in every wheel of torch (torch.testing); the program that starts them for a back
end is not, and is here.  Ranks are forked: to import torch takes longer than most tests.

    BACKEND=ringup TESTS_OF=gloo WORLD_SIZE=3 distributed_of_torch.py [TEST...]

prints a line "TEST<tab>RESULT<tab>WHY" for each test that torch has for the back end TESTS_OF:
passed, skipped or failed.
"""

import multiprocessing
import os
import sys
import tempfile
import unittest

BACKEND = os.environ.get("BACKEND", "ringup")
os.environ["BACKEND"] = os.environ.get("TESTS_OF", "gloo")  # decides which tests there are
os.environ.setdefault("WORLD_SIZE", "3")
_folder = tempfile.TemporaryDirectory(prefix="ringup-torch")
os.environ["TEMP_DIR"] = _folder.name
os.environ["INIT_METHOD"] = f"file://{_folder.name}/init_dir/shared_init_file"
for _name in ("barrier", "test_dir", "init_dir"):
    os.makedirs(os.path.join(_folder.name, _name))

import of_torch  # noqa: E402
import torch  # noqa: E402

import ringup_torch  # noqa: E402

ringup_torch.register()
for _module in (torch.distributed, torch.distributed.distributed_c10d):
    _module.is_mpi_available = lambda: True  # so that the tests of MPI are there

from torch.testing._internal.distributed import distributed_test  # noqa: E402

of_torch.tell((distributed_test.BACKEND,), BACKEND)


class TorchTests(distributed_test.TestDistBackend,
                 distributed_test.DistributedTest._DistTestBase):
    """All tests, each on ranks of its own."""

    def setUp(self):
        super().setUp()
        self._start_processes(multiprocessing.get_context("fork").Process)


def main():
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork", force=True)
    names = sys.argv[1:] or unittest.TestLoader().getTestCaseNames(TorchTests)
    suite = unittest.TestSuite(TorchTests(name) for name in names)
    suite.run(of_torch.Lines())


if __name__ == "__main__":
    main()
