# test_process_group_users.py - FSDP, DTensor, torch.compile and the like over "ringup".
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python tests/py

import os

import pytest
from conftest import checks_of, outcome

MODULES = ["torch.distributed", "torch.nn.parallel", "torch.optim"]
SCRIPT = "process_group_users_of_a_rank.py"
LONG = os.environ.get("RINGUP_TEST_LONG") == "1"


@pytest.mark.parametrize("n", [2, 3, 4] if LONG else [2])
@pytest.mark.parametrize("name", checks_of(SCRIPT))
def test_users(n, name, parent, tmp_path_factory):
    outcome(SCRIPT, n, name, parent, tmp_path_factory)
