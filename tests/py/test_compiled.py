# test_compiled.py - horovod.torch within torch.compile; the checks are in compiled_of_a_rank.py.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat/python/horovod/torch compat/python/ringup compat/python/ringup_torch tests/py

import importlib.util

import pytest
from conftest import checks_of, outcome

MODULES = ["torch.optim", "torch.amp", "torch._dynamo"]

if not importlib.util.find_spec("torch._dynamo"):
    pytest.skip("this torch has no torch.compile", allow_module_level=True)


@pytest.mark.parametrize("name", checks_of("compiled_of_a_rank.py"))
def test_compiled(name, parent, tmp_path_factory):
    outcome("compiled_of_a_rank.py", 2, name, parent, tmp_path_factory)
