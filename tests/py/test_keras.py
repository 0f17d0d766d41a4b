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
if os.environ.get("RINGUP_TEST_LONG") == "1":
    KINDS.update({
        "keras-2-alone": ("2.15", {}),
        "tf.keras-3": ("2.21", {"RINGUP_TEST_KERAS": "tf"}),
        "keras-3-torch": ("2.21", {"KERAS_BACKEND": "torch"}),
        "keras-3-jax": ("2.21", {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}),
    })


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", checks_of(SCRIPT))
def test_on_two_ranks(name, kind, tmp_path_factory):
    version, env = KINDS[kind]
    frameworks.passed(name, version, 2, tmp_path_factory, SCRIPT, **env)
