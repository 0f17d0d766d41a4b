# test_optimizer.py - gradients that a program changes; the checks are in optimizer_of_a_rank.py.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python tests/py

import pytest
from conftest import checks_of, outcome

MODULES = ["torch.optim", "torch.amp", "torch.utils.checkpoint"]


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", checks_of("optimizer_of_a_rank.py"))
def test_optimizer(n, name, parent, tmp_path_factory):
    outcome("optimizer_of_a_rank.py", n, name, parent, tmp_path_factory)
