# test_jax.py - ringup.jax: collectives in code that JAX has compiled.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src/frameworks compat/python/ringup tests/py

import frameworks
import pytest
from conftest import checks_of

SCRIPT = "jax_of_a_rank.py"
VERSION = "2.21"  # the Python that has JAX


@pytest.mark.parametrize("name", checks_of(SCRIPT))
def test_on_two_ranks(name, tmp_path_factory):
    frameworks.passed(name, VERSION, 2, SCRIPT, (), tmp_path_factory)


def test_a_rank_that_is_killed_is_named(tmp_path):
    p = frameworks.ranks(VERSION, 2, tmp_path, "jax_end_of_a_rank.py", JAX_PLATFORMS="cpu")
    assert p.codes == [0, -9], p.text
    said = p.results[0]["said"]
    assert "rank 1" in said and "EPEER" in said, said
