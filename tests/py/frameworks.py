# frameworks.py - run scripts on ranks in Pythons of their own, which have one TensorFlow each.
# SPDX-License-Identifier: Apache-2.0

import contextlib
import os
import signal
import subprocess
import tempfile
import uuid

import pytest
from conftest import HANG, HERE, Outcome

# What tests/run has made: the variable that names the Python, and what that one has.
PYTHONS = {"2.15": ("RINGUP_TEST_TENSORFLOW_215", "TensorFlow 2.15 and Keras 2"),
           "2.21": ("RINGUP_TEST_TENSORFLOW_221", "TensorFlow 2.21, Keras 3 and JAX")}
# What TensorFlow shall not say, and no GPU.
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": ""}


def python_of(version):
    """The Python with that TensorFlow, or a skip."""
    variable, what = PYTHONS[version]
    path = os.environ.get(variable)
    if not path:
        pytest.skip(f"no Python with {what}: tests/run makes one and sets {variable}")
    return path


def ranks(version, n, results, script, *args, **env):
    """Run a script on n ranks, none of which is ended because another one has."""
    python, job = python_of(version), f"test.{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory(prefix="ringup") as tmp, contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(open(os.path.join(tmp, f"output.{r}"), "w+",
                                            encoding="utf-8", errors="replace"))
                   for r in range(n)]
        started = [subprocess.Popen(
            [python, os.path.join(HERE, script), *args], stdout=outputs[r],
            stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "RINGUP_RANK": str(r), "RINGUP_SIZE": str(n), "RINGUP_JOB": job,
                 "TMPDIR": tmp, "RINGUP_TEST_RESULTS": str(results), **QUIET, **env})
            for r in range(n)]
        codes = [_end_of(p) for p in started]
        texts = []
        for f in outputs:
            f.seek(0)
            texts.append(f.read())
        out = Outcome(codes, "\n".join(texts), results)
        out.texts = texts
    return out


def _end_of(process):
    """Its exit status; a process that hangs is killed, and so is what it has started."""
    try:
        return process.wait(HANG)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


_outcomes = {}


def outcome(version, n, script, args, tmp_path_factory, **env):
    """How a script has ended on n ranks; it runs once."""
    python_of(version)  # or a skip of each test
    key = script, args, version, n, tuple(sorted(env.items()))
    if key not in _outcomes:
        _outcomes[key] = None
        _outcomes[key] = ranks(version, n, tmp_path_factory.mktemp("ranks"), script, *args, **env)
    assert _outcomes[key], "the job did not end"
    return _outcomes[key]


def passed(name, version, n, script, args, tmp_path_factory, **env):
    """Pass or fail as the check did on every rank; all checks of a script run in one job."""
    p = outcome(version, n, script, args, tmp_path_factory, **env)
    for r in range(n):
        said = p.results.get(r, {}).get(name, "it never came to this")
        assert not said, f"rank {r}: {said}\n{p.text}"
    failed = any(said for checks in p.results.values() for said in checks.values()
                 if isinstance(said, str))
    assert failed or p.codes == [0] * n, p.text
