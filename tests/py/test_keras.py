# test_keras.py - horovod.keras and horovod.tensorflow.keras: averaging, on each Keras and back end.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat/python tests/py src/frameworks

import os

import frameworks
import pytest
from conftest import checks_of

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
BRIEF = ["weights_are_those_of_one_process", "passes_are_added_up", "callbacks_make_ranks_alike"]
CHECKS = [(name, kind) for kind in KINDS for name in checks_of(SCRIPT)
          if LONG or kind != "keras-2" or name in BRIEF]


@pytest.mark.parametrize("name,kind", CHECKS)
def test_on_two_ranks(name, kind, tmp_path_factory):
    version, env = KINDS[kind]
    chosen = () if LONG or kind != "keras-2" else tuple(BRIEF)
    frameworks.passed(name, version, 2, SCRIPT, chosen, tmp_path_factory, **env)
