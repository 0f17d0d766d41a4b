# test_tensorflow.py - horovod.tensorflow and one libringup_tf.so, with TensorFlow 2.15 and 2.21.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python tests/py

import os
import re
import subprocess

import frameworks
import pytest
from conftest import HERE, checks_of, start

from ringup.spark.failure import is_consequence

SCRIPT = "tensorflow_of_a_rank.py"
GRAPH_SCRIPT = "tensorflow_graph_of_a_rank.py"
VERSIONS = list(frameworks.PYTHONS)
LONG = os.environ.get("RINGUP_TEST_LONG") == "1"


# With the older version the gate does what depends on it most.
BRIEF = ["sums_of_all_types", "rows_of_all_ranks", "gradients_of_collectives",
         "any_order_of_many_gradients", "options_of_the_tape", "a_rank_that_has_traced_more",
         "gradients_of_a_rank_that_has_traced_more", "variables_of_other_names_are_broadcast"]
CHECKS = [(name, version) for version in VERSIONS for name in checks_of(SCRIPT)
          if LONG or version != "2.15" or name in BRIEF]


def run_of(version):
    """How the checks of a version have ended."""
    return version, 2, SCRIPT, () if LONG or version != "2.15" else tuple(BRIEF)


@pytest.mark.parametrize("name,version", CHECKS)
def test_on_two_ranks(name, version, tmp_path_factory):
    frameworks.passed(name, *run_of(version), tmp_path_factory)


@pytest.mark.parametrize("n", [3, 4] if LONG else [])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", checks_of(SCRIPT))
def test_on_more_ranks(name, version, n, tmp_path_factory):
    frameworks.passed(name, version, n, SCRIPT, (), tmp_path_factory)


@pytest.mark.parametrize("version", VERSIONS if LONG else VERSIONS[1:])
@pytest.mark.parametrize("name", checks_of(GRAPH_SCRIPT))
def test_programs_of_tensorflow_1(name, version, tmp_path_factory):
    frameworks.passed(name, version, 2, GRAPH_SCRIPT, (), tmp_path_factory)


@pytest.mark.parametrize("version", VERSIONS if LONG else [])
def test_a_rank_that_is_killed_is_named(version, tmp_path):
    p = frameworks.ranks(version, 3, tmp_path, "tensorflow_end_of_a_rank.py")
    assert p.codes == [0, 0, -9], p.text
    for rank in range(2):
        for kind, said in p.results[rank].items():
            assert "AbortedError" in said and "rank 2" in said and "EPEER" in said, (kind, said)
            assert is_consequence(["AbortedError"], said), said
        assert len(p.results[rank]) == 2


@pytest.mark.parametrize("version", VERSIONS if LONG else [])
def test_functions_in_opposite_order_are_named(version, tmp_path):
    p = frameworks.ranks(version, 2, tmp_path, "tensorflow_order_of_a_rank.py",
                         RINGUP_STALL_WARN_MS="10000", RINGUP_STALL_ABORT_MS="20000",
                         RINGUP_DEADLOCK_MS="0")
    assert p.codes == [0, 0], p.text
    for function in ("first", "second"):
        assert f"allreduce.{function}.HorovodAllreduce has stalled" in p.text
    for rank in range(2):
        assert p.results[rank]["told"].startswith("AbortedError"), p.results
        assert "stalled" in p.results[rank]["told"], p.results


@pytest.mark.parametrize("version", VERSIONS if LONG else VERSIONS[1:])
def test_an_elastic_training_goes_on(version, tmp_path):
    p = start(["ringup", "run", "-np", "2", "--min-np", "1", "--", frameworks.python_of(version),
               os.path.join(HERE, "tensorflow_elastic_of_a_rank.py")],
              RINGUP_TEST_RESULTS=str(tmp_path), **frameworks.QUIET)
    assert p.returncode == 0, p.stdout + p.stderr
    ends = re.findall(r"rank (\d) of (\d): 20 steps, weight (\d+)", p.stdout)
    # Seven steps with two ranks; afterwards one was left, or another one came at some time.
    assert ends and len({w for _rank, _size, w in ends}) == 1, p.stdout
    assert 14 + 13 <= int(ends[0][2]) <= 40 and (tmp_path / "died").exists(), p.stdout
    assert "rank 1" in p.stderr and "generation 2" in p.stderr, p.stderr


def test_the_same_file_serves_both_versions(tmp_path_factory):
    told = [frameworks.outcome(*run_of(version), tmp_path_factory).results[0]["told"]
            for version in VERSIONS]
    assert told[0]["library"] == told[1]["library"]
    assert [t["version"].rpartition(".")[0] for t in told] == VERSIONS


def test_without_tensorflow_the_file_registers_nothing():
    library = os.environ["RINGUP_LIBRARY"]  # is loaded first, as the package does
    operations = os.path.join(os.path.dirname(library), "libringup_tf.so")
    code = (f"import ctypes; ctypes.CDLL({library!r}); "
            f"print(ctypes.CDLL({operations!r}).ringup_tensorflow_attach(None))")
    p = subprocess.run(["python3", "-c", code], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, p.stderr
