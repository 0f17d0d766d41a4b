# test_elastic_jobs.py - elastic jobs under `ringup run`: ranks are killed, and hosts come and go.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python docs/examples/train_elastic_example.py docs/migration.md tests/py

import json
import os
import re
import sys
import textwrap

import pytest
from conftest import HERE, ROOT, start

JOB = os.path.join(HERE, "elastic_job_of_a_rank.py")
STEPS = 20  # with as many ranks as there shall be in the end


class Elastic:
    """An elastic job: how it ended, and what its ranks told."""

    def __init__(self, folder, *options, **plan):
        self.log = str(folder / "events")
        told = json.dumps({"events": self.log, "steps": STEPS, "until": 4, **plan})
        p = start(["ringup", "run", *options, "--", sys.executable, JOB, told], cwd=folder)
        self.code, self.text = p.returncode, f"{p.stdout}\n{p.stderr}"
        self.events = []
        if os.path.exists(self.log):
            with open(self.log, encoding="utf-8") as f:
                self.events = [json.loads(line) for line in f]
        self.text += "".join(f"\n{e}" for e in self.events)

    def told(self, what, **like):
        """The events of that kind, in order of rank."""
        return sorted((e for e in self.events if e["what"] == what
                       and all(e[k] == v for k, v in like.items())), key=lambda e: e["rank"])

    def generations(self):
        """[{rank: process}, ...], one for each time that ranks met."""
        last = max(e["generation"] for e in self.events)
        return [{e["rank"]: e["pid"] for e in self.told("begin", generation=g)}
                for g in range(1, last + 1)]

    def check_end(self, size):
        """All ranks ended together, and nothing that was committed was lost or done twice."""
        done = self.told("done")
        assert self.code == 0 and [e["rank"] for e in done] == list(range(size)), self.text
        for e in done:
            assert e["size"] == size and e["step"] >= STEPS, self.text
            assert e["weights"] == [e["sizes"]] * 3, self.text
        assert len({(e["step"], e["sizes"]) for e in done}) == 1, self.text


@pytest.mark.parametrize("rank, way", [(3, "kill"), (0, "kill"), (1, "raise"), (2, "exit")])
def test_a_rank_that_ends_is_replaced_and_the_others_stay(tmp_path, rank, way):
    """The three others go on without it; its successor joins them and has their state."""
    job = Elastic(tmp_path, "-np", "4", "--min-np", "2", end=[[5, rank, way]])
    job.check_end(4)
    first, *between, last = job.generations()
    assert sorted(first) == sorted(last) == [0, 1, 2, 3], job.text
    lost, = {e["pid"] for e in job.told(way)}
    others = [first[r] for r in range(4) if r != rank]
    assert first[rank] == lost and lost not in last.values(), job.text
    for g in [*between, last]:
        assert list(g[r] for r in range(3)) == others, job.text  # in their order, from rank 0 on
    new, = [e for e in job.told("done") if e["pid"] not in others]
    assert new["rank"] == 3 and new["reset"] == 0, job.text
    for e in job.told("done"):
        if e["pid"] in others:
            assert e["reset"] == len(between) + 1, job.text


@pytest.fixture
def hosts(tmp_path):
    """hosts(LINE...) makes a discovery script that prints these lines, and a file that a rank may
    write others to; returns the script's path and the file's."""
    def make(*lines):
        path, script = tmp_path / "hosts", tmp_path / "discover"
        path.write_text("".join(line + "\n" for line in lines))
        script.write_text(f"#!/bin/sh\ncat '{path}'\n")
        script.chmod(0o700)
        return str(script), str(path)

    return make


def test_a_host_that_is_discovered_adds_ranks(tmp_path, hosts):
    script, path = hosts("localhost:2")
    job = Elastic(tmp_path, "-np", "2", "--min-np", "2", "--max-np", "4",
                  "--host-discovery-script", script,
                  hosts=[5, path, "localhost:2\n127.0.0.1:2\n"])
    job.check_end(4)
    first, *_, last = job.generations()
    assert sorted(first) == [0, 1] and [last[0], last[1]] == [first[0], first[1]], job.text
    for e in job.told("begin"):
        if e["generation"] > 1:
            assert e["step"] > 5, job.text  # nothing was taken back


def test_a_host_that_is_taken_away_takes_its_ranks_along(tmp_path, hosts):
    """The others go on, without a synchronization and without losing a step."""
    script, path = hosts("localhost:2", "127.0.0.1:2")
    job = Elastic(tmp_path, "-np", "4", "--min-np", "2", "--host-discovery-script", script,
                  hosts=[5, path, "localhost:2\n"], until=2)
    job.check_end(2)
    first, last = job.generations()
    assert sorted(first) == [0, 1, 2, 3] and last == {0: first[0], 1: first[1]}, job.text
    assert all(e["step"] > 5 for e in job.told("begin", generation=2)), job.text
    assert "Traceback" not in job.text


def test_max_np_bounds_the_job(tmp_path, hosts):
    script, path = hosts("localhost:2")
    job = Elastic(tmp_path, "-np", "2", "--min-np", "2", "--max-np", "3",
                  "--host-discovery-script", script, until=3,
                  hosts=[5, path, "localhost:2\n127.0.0.1:2\n"])
    job.check_end(3)
    assert max(e["size"] for e in job.events) == 3, job.text


def test_the_reset_limit_ends_the_job(tmp_path):
    job = Elastic(tmp_path, "-np", "4", "--min-np", "2", "--reset-limit", "1",
                  end=[[5, 3, "kill"], [8, 2, "kill"]])
    assert job.code != 0 and "reset" in job.text and not job.told("done"), job.text
    assert len(job.generations()) == 2, job.text


def test_too_few_ranks_end_the_job(tmp_path):
    """--min-np is all there is, and the only host fails again and again."""
    job = Elastic(tmp_path, "-np", "2", "--min-np", "2", "--elastic-timeout", "1", "--reset-limit",
                  "0", end=[[5, 1, "kill"]], until=2)
    assert job.code != 0 and not job.told("done"), job.text


KILLS = """
import os, runpy, signal, sys
import horovod.torch as hvd

commit, commits = hvd.elastic.TorchState.commit, []

def kills(state):
    commits.append(state)
    if hvd.rank() == 2 and len(commits) == 3 and state.epoch == 0:
        try:
            os.close(os.open("killed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    commit(state)

hvd.elastic.TorchState.commit = kills
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_the_example_survives_the_loss_of_a_rank(tmp_path):
    """Two go on, or three if the successor comes in time; each sample is seen once an epoch."""
    (tmp_path / "kills.py").write_text(KILLS)
    p = start(["ringup", "run", "-np", "3", "--min-np", "2", "--", sys.executable, "kills.py",
               os.path.join(ROOT, "docs", "examples", "train_elastic_example.py")], cwd=tmp_path)
    text = p.stdout + p.stderr
    assert p.returncode == 0 and (tmp_path / "killed").exists(), text
    steps = int(re.search(r"done: (\d+) steps", text).group(1))
    assert 4 * -(-2048 // (3 * 32)) <= steps <= 4 * -(-2048 // (2 * 32)) + 4, text
    seen = re.findall(r"epoch (\d): (\d) workers, accuracy ([0-9.]+)", text)
    assert [int(e) for e, _n, _a in seen] == [0, 1, 2, 3] and float(seen[-1][2]) >= 0.8, text


ADDS_SETS = """
import os, signal, sys
import horovod.torch as hvd
import torch
hvd.init(process_sets="dynamic")
hvd.add_process_set([0])

@hvd.elastic.run
def train(state):
    while state.step < 6:
        state.step += 1
        hvd.allreduce(torch.ones(1), name=f"step {state.step}")
        if state.step == 3 and hvd.rank() == 1 and not os.path.exists("killed"):
            open("killed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        state.commit()

train(hvd.elastic.TorchState(step=0))
"""


def test_a_set_that_only_a_new_rank_adds_ends_the_job(tmp_path):
    """The others are in elastic.run() and wait for it there: no rank can go on, and they say so."""
    (tmp_path / "adds_sets.py").write_text(ADDS_SETS)
    p = start(["ringup", "run", "-np", "2", "--min-np", "2", "--", sys.executable, "adds_sets.py"],
              cwd=tmp_path, RINGUP_DEADLOCK_MS="2000")
    text = p.stdout + p.stderr
    assert p.returncode and (tmp_path / "killed").exists(), text
    # The launcher ends the other rank as soon as one has failed.
    assert re.search(r"^\[[01]\].*HorovodInternalError: .*deadlock: all 2 ranks .*"
                     r"rank 1 for adding or removing a group; .*init\(process_sets=\[",
                     text, re.M), text


def test_the_script_of_the_migration_guide_trains(tmp_path):
    """The block of the page with hvd.elastic.run and hvd.elastic.TorchState, as it stands there."""
    with open(os.path.join(ROOT, "docs", "migration.md"), encoding="utf-8") as f:
        script, = [block for block in re.findall(r"(?:^    .*\n)+", f.read(), re.M)
                   if block.startswith("    import horovod.torch")]
    (tmp_path / "train.py").write_text(textwrap.dedent(script))
    p = start(["ringup", "run", "-np", "1", "--min-np", "1", "--", sys.executable, "train.py"],
              cwd=tmp_path)
    assert p.returncode == 0 and "done, rank 0 of 1" in p.stdout, p.stdout + p.stderr
