# test_keras.py - horovod.keras and horovod.tensorflow.keras: averaging, on each Keras and back end.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat/python tests/py src/frameworks

import os

import frameworks
import pytest
from conftest import checks_of

from ringup.spark.failure import is_consequence

SCRIPT = "keras_fit_of_a_rank.py"
# Name: the TensorFlow of the Python, and how Keras is chosen there.
KINDS = {
    "keras-2": ("2.15", {"RINGUP_TEST_KERAS": "tf"}),
    "keras-3-tensorflow": ("2.21", {"KERAS_BACKEND": "tensorflow"}),
}
LONG = os.environ.get("RINGUP_TEST_LONG") == "1"
if LONG:
    KINDS.update({
        "keras-2-alone": ("2.15", {}),
        "tf.keras-3": ("2.21", {"RINGUP_TEST_KERAS": "tf"}),
        "keras-3-torch": ("2.21", {"KERAS_BACKEND": "torch"}),
        "keras-3-jax": ("2.21", {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}),
    })


# With Keras 2 the gate does what depends on it most.
BRIEF = ["weights_are_those_of_one_process", "passes_are_added_up", "callbacks_make_ranks_alike",
         "and_in_a_programs_own_loop", "a_rank_that_has_built_one_more_model",
         "a_rank_that_has_loaded_its_model", "copies_of_an_optimizer_combine",
         "a_model_that_combines_nothing_is_told_of"]
CHECKS = [(name, kind) for kind in KINDS for name in checks_of(SCRIPT)
          if LONG or kind != "keras-2" or name in BRIEF]


ENDS = [(kind, how) for kind in KINDS for how in ("graph", "eager")
        if LONG and (kind, how) != ("keras-3-jax", "eager")]


@pytest.mark.parametrize("kind,how", ENDS)
def test_a_rank_that_is_killed_in_a_fit_is_named_by_all_others(kind, how, tmp_path):
    version, env = KINDS[kind]
    p = frameworks.ranks(version, 3, tmp_path, "keras_end_of_a_rank.py", how, **env)
    assert p.codes == [0, 0, -9], p.text
    for rank in range(2):
        said, ended = p.results[rank]["said"], p.results[rank]["ended"]
        assert "rank 2" in said and ("EPEER" in said or "HorovodInternalError" in said), said
        assert is_consequence([said.partition(":")[0]], said), said
        # The batch in which it was killed ends nowhere; JAX may compute it later than Keras counts.
        assert ended == 3 or "jax" in kind and ended > 3, p.results
        if "torch" not in kind and "jax" not in kind:
            assert said.startswith("AbortedError"), said


@pytest.mark.parametrize("name,kind,n", [(name, kind, n) for name in checks_of(SCRIPT)
                                         for kind in KINDS for n in (3, 4)
                                         if LONG and kind in ("keras-2", "keras-3-tensorflow")])
def test_on_more_ranks(name, kind, n, tmp_path_factory):
    version, env = KINDS[kind]
    frameworks.passed(name, version, n, SCRIPT, (), tmp_path_factory, **env)


@pytest.mark.parametrize("name,kind", CHECKS)
def test_on_two_ranks(name, kind, tmp_path_factory):
    version, env = KINDS[kind]
    chosen = () if LONG or kind != "keras-2" else tuple(BRIEF)
    frameworks.passed(name, version, 2, SCRIPT, chosen, tmp_path_factory, **env)
