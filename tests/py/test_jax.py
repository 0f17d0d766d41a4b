# test_jax.py - ringup.jax: collectives in code that JAX has compiled.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src/frameworks compat/python/ringup tests/py

import os
import socket
import subprocess
import sys

import frameworks
import pytest
from conftest import checks_of

from ringup.spark.failure import is_consequence

SCRIPT, PLACES = "jax_of_a_rank.py", "jax_places_of_a_rank.py"
VERSION = "2.21"  # the Python that has JAX


LONG = os.environ.get("RINGUP_TEST_LONG") == "1"
# The way of GPUs, through host memory: the gate does what depends on it most.
BRIEF = ["collectives_of_all_types", "loops_and_vectors", "devices_of_a_process_do_not_mix",
         "ranks_that_disagree_are_told"]


@pytest.mark.parametrize("n", [2, 4] if LONG else [2])
@pytest.mark.parametrize("name", checks_of(SCRIPT))
def test_ranks(name, n, tmp_path_factory):
    frameworks.passed(name, VERSION, n, SCRIPT, (), tmp_path_factory)


@pytest.mark.parametrize("name", checks_of(SCRIPT) if LONG else BRIEF)
def test_through_host_memory(name, tmp_path_factory):
    frameworks.passed(name, VERSION, 3 if LONG else 2, SCRIPT, () if LONG else tuple(BRIEF),
                      tmp_path_factory, RINGUP_TEST_JAX="host")


@pytest.mark.parametrize("n", [2, 3] if LONG else [2])
@pytest.mark.parametrize("name", checks_of(PLACES))
def test_programs_and_derivatives(name, n, tmp_path_factory):
    frameworks.passed(name, VERSION, n, PLACES, (), tmp_path_factory)


@pytest.mark.skipif(not LONG, reason="only with RINGUP_TEST_LONG=1")
@pytest.mark.parametrize("name", checks_of(PLACES))
def test_programs_and_derivatives_through_host_memory(name, tmp_path_factory):
    frameworks.passed(name, VERSION, 2, PLACES, (), tmp_path_factory, RINGUP_TEST_JAX="host")


def test_a_jax_that_is_too_old_is_told_so():
    modules = ["jax", "jax.numpy"]
    code = ("import sys, types; "
            f"sys.modules.update({{n: types.ModuleType(n) for n in {modules}}}); "
            "jax = sys.modules['jax']; jax.numpy = sys.modules['jax.numpy']; "
            "jax.__version__ = '0.4.38'; import ringup.jax")
    p = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
                       check=False)
    assert p.returncode == 1 and "needs JAX 0.5 or later, not 0.4.38" in p.stderr, p.stderr


@pytest.mark.skipif(not LONG, reason="only with RINGUP_TEST_LONG=1")
def test_beside_the_distributed_runtime_of_jax(tmp_path):
    """There each process numbers its devices differently."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    p = frameworks.ranks(VERSION, 2, tmp_path, "jax_distributed_of_a_rank.py", str(port))
    assert p.codes == [0, 0], p.text
    assert p.results == {0: [3.0, 3.0], 1: [3.0, 3.0]}, p.results


@pytest.mark.parametrize("way", ["cpu", "host"] if LONG else ["cpu"])
def test_a_rank_that_is_killed_is_named(way, tmp_path):
    p = frameworks.ranks(VERSION, 2, tmp_path, "jax_end_of_a_rank.py", JAX_PLATFORMS="cpu",
                         RINGUP_TEST_JAX=way)
    assert p.codes == [0, -9], p.text
    said = p.results[0]["said"]
    assert "rank 1" in said and "EPEER" in said, said
    assert said.count("allreduce '") == 1, said
    assert is_consequence(["JaxRuntimeError"], said), said
