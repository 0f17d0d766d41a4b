# test_checks.py - operations, process sets and training; the checks are in *_of_a_rank.py.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python tests/py

import pytest
from conftest import checks_of, outcome

MODULES = ["torch.optim"]


@pytest.mark.parametrize("n", [1, 3, 4])
@pytest.mark.parametrize("name", checks_of("ops_of_a_rank.py"))
def test_ops(n, name, parent, tmp_path_factory):
    outcome("ops_of_a_rank.py", n, name, parent, tmp_path_factory)


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("name", checks_of("sets_of_a_rank.py"))
def test_sets(n, name, parent, tmp_path_factory):
    outcome("sets_of_a_rank.py", n, name, parent, tmp_path_factory)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", checks_of("train_of_a_rank.py"))
def test_train(n, name, parent, tmp_path_factory):
    outcome("train_of_a_rank.py", n, name, parent, tmp_path_factory)
