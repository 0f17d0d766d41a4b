# test_examples.py - the recipes of Horovod's tutorials, started as the tutorials tell to.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python docs/examples tests/py

import json
import os
import re
import shutil
import sys

import pytest
from conftest import ROOT, launcher, start

EXAMPLES = os.path.join(ROOT, "docs", "examples")
TRAIN = os.path.join(EXAMPLES, "train_horovod_example.py")
ELASTIC = os.path.join(EXAMPLES, "train_elastic_example.py")
TIMELINE = os.path.join(EXAMPLES, "train_timeline_example.py")
MODULES = ["torch.optim"]


def epochs(text):
    """[(epoch, workers, accuracy), ...] that an example has printed."""
    return [(int(e), int(n), float(a)) for e, n, a in
            re.findall(r"epoch (\d+): (\d+) workers, accuracy ([0-9.]+)", text)]


def test_the_recipe_trains_and_goes_on_from_its_checkpoint(parent, tmp_path):
    """With the arguments of torch.distributed.launch, in the spelling of torch 1 and of torch 2."""
    saved = tmp_path / "saved"
    saved.mkdir()
    first = parent.ranks(2, tmp_path, TRAIN, "--checkpoint-dir", str(saved), "--epochs", "2",
                         "--local-rank={rank}")
    assert first.codes == [0, 0] and sorted(os.listdir(saved)) == [
        "checkpoint-0.pt", "checkpoint-1.pt"], first.text
    os.remove(saved / "checkpoint-1.pt")
    second = parent.ranks(2, tmp_path, TRAIN, "--checkpoint-dir", str(saved), "--local_rank={rank}")
    assert second.codes == [0, 0], second.text
    (_, _, before), = epochs(first.text)[1:]
    again, *_, last = epochs(second.text)
    assert again == (1, 2, before) and last[:2] == (3, 2) and last[2] >= 0.85, second.text
    assert "models differ by 0\n" in second.text
    assert second.texts[1] == "", "only rank 0 says something"


def test_four_workers_learn_as_one_does(parent, tmp_path):
    """The learning rate is scaled, and the samples are dealt out."""
    accuracy = []
    for n in (1, 4):
        p = parent.ranks(n, tmp_path, TRAIN, "--checkpoint-dir", str(tmp_path))
        for name in os.listdir(tmp_path):
            os.remove(tmp_path / name)
        assert p.codes == [0] * n and "models differ by 0\n" in p.text, p.text
        accuracy.append(epochs(p.text)[-1][2])
    assert min(accuracy) >= 0.8, accuracy


@pytest.mark.parametrize("command", [
    "mpirun -np 2 python train_horovod_example.py",
    "python -m torch.distributed.launch --nproc_per_node 2 train_horovod_example.py",
])
def test_the_commands_of_the_tutorials(command, tmp_path):
    """As printed, but for what mpirun wants from root and on few processors."""
    words = command.split()
    if words[0] == "mpirun":
        launcher("mpirun", 2)  # or a skip
        words[1:1] = ["--allow-run-as-root", "--oversubscribe"]
    words[words.index("python")] = sys.executable
    shutil.copy(TRAIN, tmp_path)
    p = start([*words, "--epochs", "1"], cwd=tmp_path)
    assert p.returncode == 0, p.stdout + p.stderr
    assert [e[:2] for e in epochs(p.stdout)] == [(0, 2)] and "differ by 0\n" in p.stdout, p.stdout
    assert os.path.exists(tmp_path / "checkpoint-0.pt")


def test_elastic_training_without_an_elastic_launcher(parent, tmp_path):
    p = parent.ranks(2, tmp_path, ELASTIC)
    assert p.codes == [0, 0] and "done: 128 steps" in p.text, p.text
    assert epochs(p.text)[-1][2] >= 0.8 and p.texts[1] == "", p.text


def test_the_timeline_of_a_cell(tmp_path):
    import horovod
    if horovod.run.__doc__ == "Horovod's launcher as a function; ringup has a command instead.":
        pytest.skip("horovod.run() is not there")
    p = start([sys.executable, TIMELINE, str(tmp_path)])
    assert p.returncode == 0, p.stdout + p.stderr
    path = p.stdout.splitlines()[-1]
    assert path.startswith(str(tmp_path)) and path.endswith("/horovod_timeline.json")
    with open(path, encoding="utf-8") as f:
        events = json.load(f)
    assert {"NEGOTIATE_ALLREDUCE", "ALLREDUCE"} <= {e.get("name") for e in events if e}
