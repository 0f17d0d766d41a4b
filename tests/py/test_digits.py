# test_digits.py - the example: alone and on many ranks, its checkpoints, and every way to start it.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python docs/examples/digits.py tests/py

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT, launcher, start

DIGITS = os.path.join(ROOT, "docs", "examples", "digits.py")
MODULES = ["sklearn.datasets", "torch.optim"]
LONG = os.environ.get("RINGUP_TEST_LONG") == "1"
with_sklearn = pytest.mark.skipif(not importlib.util.find_spec("sklearn"),
                                  reason="scikit-learn is not installed")


def accuracy_of(text, n):
    """What the example prints at its end."""
    found = re.search(rf"ranks {n}, accuracy ([0-9.]+)", text)
    assert found, text
    return float(found.group(1))


@pytest.fixture
def digits(parent, tmp_path):
    """digits(n, ARGUMENT...) runs the example on n ranks, 0 without a launcher; returns what it
    prints."""
    def run(n, *args):
        if n == 0:
            p = parent.run(tmp_path, [{}], DIGITS, *args)
        else:
            p = parent.ranks(n, tmp_path, DIGITS, *args)
        assert p.codes == [0] * max(n, 1), p.text
        return p.text

    return run


@with_sklearn
def test_four_ranks_learn_as_one_does(digits):
    alone, text = accuracy_of(digits(0), 1), digits(4, "--check")
    accuracy = accuracy_of(text, 4)
    assert "parameters equal" in text
    assert alone >= 0.95 and accuracy >= 0.95 and abs(alone - accuracy) < 0.025


@with_sklearn
def test_it_continues_from_its_checkpoint(digits, tmp_path):
    (tmp_path / "saved").mkdir()
    saved = str(tmp_path / "saved" / "digits.pt")
    first = digits(2, "--epochs", "2", "--checkpoint", saved)
    assert "epoch 1:" in first and os.listdir(tmp_path / "saved") == ["digits.pt"]
    second = digits(2, "--epochs", "3", "--checkpoint", saved, "--check")
    assert "epoch 3:" in second and "epoch 2:" not in second
    through = digits(2, "--epochs", "3")
    assert re.search("epoch 3: (.*)", second).group(1) == re.search("epoch 3: (.*)",
                                                                   through).group(1)


@pytest.mark.parametrize("module, package", [("sklearn", "scikit-learn"), ("torch", "torch")])
def test_it_says_what_is_missing(tmp_path, module, package):
    for name in ("sklearn", "torch"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(
            f"raise ImportError(\"No module named '{module}'\")" if name == module else "")
    p = subprocess.run([sys.executable, DIGITS], stderr=subprocess.PIPE, text=True, env={
        **os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"})
    assert p.returncode == 1
    assert p.stderr.startswith("digits.py: No module named") and f"install {package}`" in p.stderr


@with_sklearn
def test_the_launcher_before_torchrun():
    """It hands --local-rank=N to the script; tutorials tell to type just this."""
    p = start([sys.executable, "-m", "torch.distributed.launch", "docs/examples/digits.py"],
              cwd=ROOT)
    assert p.returncode == 0, p.stderr
    assert accuracy_of(p.stdout, 1) >= 0.95


@with_sklearn
def test_the_arguments_of_the_launcher_before_torchrun(digits):
    """In the spelling of torch 2, and in that of torch 1."""
    digits(2, "--local-rank={rank}", "--local_rank={rank}", "--epochs", "1")


# What a launcher tells its ranks is test_jobs.py's; each starts the whole example in the long form.
@with_sklearn
@pytest.mark.parametrize("kind", ["ringup", "mpirun", "torchrun", "launch"][:4 if LONG else 1])
def test_every_launcher(kind):
    n, more = (4, []) if LONG else (2, ["--epochs", "1"])
    p = start([*launcher(kind, n), DIGITS, "--check", *more])
    assert p.returncode == 0, f"{p.stdout}\n{p.stderr}"
    assert accuracy_of(p.stdout, n) >= (0.95 if LONG else 0.5)
    assert "parameters equal" in p.stdout
