# test_sets.py - process sets and more on 3 and 4 ranks; the checks are in sets_of_a_rank.py.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python tests/py

import pytest
from conftest import checks_of, outcome


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("name", checks_of("sets_of_a_rank.py"))
def test_sets(n, name, parent, tmp_path_factory):
    outcome("sets_of_a_rank.py", n, name, parent, tmp_path_factory)
