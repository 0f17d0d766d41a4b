# test_framework_examples.py - the examples for Keras, TensorFlow 1 and JAX learn, on two ranks.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: docs/examples compat/python tests/py

import os
import re

import frameworks
import pytest
from conftest import ROOT

EXAMPLES = os.path.join(ROOT, "docs", "examples")
JOBS = [("2.21", "jax_digits_example.py", {"JAX_PLATFORMS": "cpu"})]
if os.environ.get("RINGUP_TEST_LONG") == "1":
    JOBS += [("2.15", "keras_digits_example.py", {}),
             ("2.21", "keras_digits_example.py", {"KERAS_BACKEND": "tensorflow"}),
             ("2.21", "keras_digits_example.py", {"KERAS_BACKEND": "jax",
                                                  "JAX_PLATFORMS": "cpu"}),
             ("2.15", "tensorflow1_digits_example.py", {}),
             ("2.21", "tensorflow1_digits_example.py", {}),
             ("2.21", "keras_digits_example.py", {"KERAS_BACKEND": "torch"})]


@pytest.mark.parametrize("version,script,env", JOBS)
def test_it_learns(version, script, env, tmp_path):
    p = frameworks.ranks(version, 2, tmp_path, os.path.join(EXAMPLES, script), **env)
    assert p.codes == [0, 0], p.text
    told = re.findall(r"^ranks 2, accuracy (\S+)$", p.text, re.M)
    assert len(told) == 1 and float(told[0]) > 0.9, p.text
