# test_process_group_trainers.py - Lightning, accelerate, transformers and ignite over "ringup".
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python tests/py
"""Each trains two ranks that torchrun starts, where $RINGUP_TEST_PYTHON has it."""

import importlib.util
import os

import pytest
from conftest import HERE, launcher, start

SCRIPT = os.path.join(HERE, "trainer_of_a_rank.py")
LONG = os.environ.get("RINGUP_TEST_LONG") == "1"


@pytest.mark.skipif(not LONG, reason="for the long form: RINGUP_TEST_LONG=1")
@pytest.mark.parametrize("name", ["lightning", "accelerate", "transformers", "ignite"])
def test_a_training(name, packages, tmp_path):
    if not importlib.util.find_spec(name):
        pytest.skip(f"{name} is not installed in this Python")
    p = start([*launcher("torchrun", 2), SCRIPT, name], PYTHONPATH=str(packages), cwd=tmp_path,
              RINGUP_TEST_RESULTS=str(tmp_path))
    assert "trained: ringup, 2 ranks, same True, moved True" in p.stdout, p.stdout + p.stderr
    assert p.returncode == 0, p.stderr
