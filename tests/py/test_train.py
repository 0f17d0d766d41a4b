# test_train.py - training on 2 and 3 ranks; the checks are in train_of_a_rank.py.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python tests/py

import pytest
from conftest import checks_of, outcome


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", checks_of("train_of_a_rank.py"))
def test_train(n, name, parent, tmp_path_factory):
    outcome("train_of_a_rank.py", n, name, parent, tmp_path_factory)
