# test_jax_gpu.py - ringup.jax on a GPU; the checks are in jax_of_a_rank.py.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat/python/ringup tests/py

import glob
import os
import subprocess

import frameworks
import pytest
from conftest import checks_of

SCRIPT = "jax_of_a_rank.py"
# Ranks share the GPU, and its memory.
GPU = {"RINGUP_TEST_JAX": "cuda", "JAX_PLATFORMS": "cuda,cpu", "CUDA_VISIBLE_DEVICES": "0",
       "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
pytestmark = pytest.mark.skipif(not glob.glob("/dev/nvidia[0-9]*"), reason="no NVIDIA GPU here")
# A Python whose JAX computes on GPUs; by default that which has JAX.
VARIABLE = "RINGUP_TEST_JAX_CUDA"


@pytest.fixture(scope="module", autouse=True)
def jax_sees_the_gpu():
    """Or a skip that tells how to get there."""
    if os.environ.get(VARIABLE):
        frameworks.PYTHONS["2.21"] = VARIABLE, "JAX for GPUs"
    python = frameworks.python_of("2.21")
    p = subprocess.run([python, "-c", "import jax; print(jax.devices('cuda'))"],
                       capture_output=True, text=True, timeout=300, check=False,
                       env={**os.environ, **GPU})
    if p.returncode:
        pytest.skip(f"JAX sees no GPU: pip install 'jax[cuda12]' optax, and set {VARIABLE} to that "
                    "Python")


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", checks_of(SCRIPT))
def test_on_a_gpu(name, n, tmp_path_factory):
    frameworks.passed(name, "2.21", n, SCRIPT, (), tmp_path_factory, **GPU)


def test_a_rank_that_is_killed_is_named(tmp_path):
    p = frameworks.ranks("2.21", 2, tmp_path, "jax_end_of_a_rank.py", **GPU)
    assert p.codes == [0, -9], p.text
    said = p.results[0]["said"]
    assert "rank 1" in said and "EPEER" in said, said
