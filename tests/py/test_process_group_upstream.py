# test_process_group_upstream.py - torch's own tests of process groups, on "ringup".
# SPDX-License-Identifier: Apache-2.0
#
# needs: waits
# tests: src compat/python tests/py tests/torch
"""docs/TORCH-TESTS.md tells which there are.  The gate has three of them."""

import os
import sys

import pytest
from conftest import ROOT, start

SCRIPT = os.path.join(ROOT, "tests", "torch", "distributed_of_torch.py")
LONG = os.environ.get("RINGUP_TEST_LONG") == "1"
# torch compares names: monitored_barrier() is for "gloo", and get_backend() must be what was asked.
BY_NAME = {"test_monitored_barrier_gloo", "test_monitored_barrier_gloo_subgroup",
           "test_monitored_barrier_gloo_rank_0_timeout", "test_get_backend"}


@pytest.mark.parametrize("of", ["gloo", "mpi"] if LONG else ["gloo"])
def test_the_tests_of_a_back_end_of_torch(of, tmp_path):
    names = [] if LONG else ["test_all_reduce_sum", "test_DistributedDataParallelCPU",
                             "test_send_recv_any_source"]
    p = start([sys.executable, SCRIPT, *names], timeout=850, BACKEND="ringup", TESTS_OF=of,
              WORLD_SIZE="3", TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "trace_"))
    results = {}
    for line in p.stdout.splitlines():
        name, _, rest = line.partition("\t")
        if rest:
            results[name] = rest
    failed = {name for name, rest in results.items() if rest.startswith("failed")}
    assert p.returncode == 0 and failed <= BY_NAME, p.stdout
    passed = sum(rest.startswith("passed") for rest in results.values())
    assert passed == len(names) if names else passed >= 80, p.stdout
