# test_jobs.py - whole jobs: launchers, the example, checkpoints, ranks that end early.
# SPDX-License-Identifier: Apache-2.0

import json
import os
import re
import socket
import subprocess
import sys

import pytest
from conftest import HERE, ROOT, launcher, start

DIGITS = os.path.join(ROOT, "docs", "examples", "digits.py")
WHERE = os.path.join(HERE, "where_of_a_rank.py")


def digits(n, *args, kind="ringup", status=0, **env):
    """Run the example; returns (accuracy, all that it printed)."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    argv = [sys.executable] if n == 0 else launcher(kind, n)
    p = start(argv + [DIGITS, *args], 200, **env)
    text = f"{p.stdout}\n{p.stderr}"
    assert p.returncode == status, text
    found = re.search(r"ranks (\d+), accuracy ([0-9.]+)", text)
    if status == 0:
        assert found and int(found.group(1)) == max(n, 1), text
        return float(found.group(2)), text
    return None, text


@pytest.fixture(scope="module")
def alone():
    """The accuracy that one process reaches."""
    return digits(0)[0]


@pytest.mark.parametrize("kind, check", [("ringup", ["--check"]), ("mpirun", []),
                                         ("torchrun", [])])
def test_digits_on_four_ranks(kind, check, alone):
    accuracy, text = digits(4, *check, kind=kind)
    assert ("parameters equal" in text) == bool(check)
    assert alone >= 0.95 and accuracy >= 0.95 and abs(alone - accuracy) < 0.025


def test_digits_continues_from_its_checkpoint(tmp_path):
    saved = str(tmp_path / "digits.pt")
    first = digits(2, "--epochs", "2", "--checkpoint", saved)[1]
    assert "epoch 1:" in first and os.listdir(tmp_path) == ["digits.pt"]
    second = digits(2, "--epochs", "3", "--checkpoint", saved, "--check")[1]
    assert "epoch 3:" in second and "epoch 2:" not in second
    through = digits(2, "--epochs", "3")[1]
    assert re.search("epoch 3: (.*)", second).group(1) == re.search("epoch 3: (.*)",
                                                                   through).group(1)


@pytest.mark.parametrize("module, package", [("sklearn", "scikit-learn"), ("torch", "torch")])
def test_digits_says_what_is_missing(tmp_path, module, package):
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").write_text(
        f"raise ImportError(\"No module named '{module}'\")")
    p = subprocess.run([sys.executable, DIGITS], stderr=subprocess.PIPE, text=True, env={
        **os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"})
    assert p.returncode == 1
    assert p.stderr.startswith("digits.py: No module named") and f"install {package}`" in p.stderr


@pytest.mark.parametrize("kind", ["ringup", "mpirun", "torchrun"])
def test_every_launcher_tells_the_ranks(kind, ranks):
    p = ranks(2, "where_of_a_rank.py", kind=kind)
    assert p.results == {r: [r, 2, r, 2, 0, 1, 3.0] for r in range(2)}, p.text


def test_a_process_that_nobody_launched_is_rank_0_of_1(tmp_path):
    p = start([sys.executable, WHERE], RINGUP_TEST_RESULTS=str(tmp_path))
    assert p.returncode == 0, p.stderr
    assert (tmp_path / "rank.0").read_text() == "[0, 1, 0, 1, 0, 1, 1.0]"


def free_port():
    """A port that nobody listens at."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def outputs(processes, seconds):
    """What they print until they end, which they do in that time, whatever becomes of them."""
    try:
        return [p.communicate(timeout=seconds)[0] for p in processes]
    finally:
        for p in processes:
            p.kill()
            p.wait()


def test_ranks_of_several_torchrun_agents_meet_in_its_store(tmp_path):
    """Two agents with one rank each, as on two hosts; both are here, and ringup sees that."""
    port = free_port()
    agents = [subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(i),
         "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", str(port), WHERE],
        env={**os.environ, "RINGUP_TEST_RESULTS": str(tmp_path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for i in range(2)]
    texts = outputs(agents, 100)
    assert [a.returncode for a in agents] == [0, 0], texts
    for r in range(2):
        assert (tmp_path / f"rank.{r}").read_text() == f"[{r}, 2, {r}, 2, 0, 1, 3.0]"


MEETS = """
import os, time
import ringup
from ringup import torchrun

class Late:
    def __init__(self, inner):
        self.inner, self.set = inner, inner.set

    def get(self, key):
        time.sleep(0.1)
        return self.inner.get(key)

if os.environ["RANK"] == "1":
    store = torchrun.store
    torchrun.store = lambda *which: Late(store(*which))
for i in range(2):
    ringup.init()
    print(ringup.rank(), ringup.size())
    ringup.shutdown()
"""


def test_the_store_outlives_who_reads_in_it():
    """Rank 0 serves it, as it does if torchrun's agents do not share theirs, and ends first."""
    port = free_port()
    env = {**os.environ, "TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1",
           "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ps = [subprocess.Popen([sys.executable, "-c", MEETS], env={**env, "RANK": str(r)},
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
          for r in range(2)]
    texts = outputs(ps, 60)
    assert texts == ["0 2\n" * 2, "1 2\n" * 2]


def early(tmp_path, way, n=3):
    """Start ranks without a launcher that would end the others; returns what each saw."""
    name = f"test.{os.getpid()}.{way}"
    ps = [subprocess.Popen([sys.executable, os.path.join(HERE, "end_of_a_rank.py"), way], env={
        **os.environ, "RINGUP_RANK": str(r), "RINGUP_SIZE": str(n), "RINGUP_JOB": name,
        "RINGUP_TEST_RESULTS": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True) for r in range(n)]
    try:
        texts = [p.communicate(timeout=60)[0] for p in ps]
    finally:
        for p in ps:
            p.kill()
            p.wait()
    seen = {}
    for r in range(n):
        f = tmp_path / f"rank.{r}"
        seen[r] = json.loads(f.read_text()) if f.exists() else None
    return seen, [p.returncode for p in ps], "\n".join(texts)


@pytest.mark.parametrize("way, kind, says, codes", [
    ("kill", "PeerLost", "rank 1", [0, -9, 0]),
    ("raise", "Aborted", "no such column", [0, 1, 0]),
    ("exit", "NotRunning", "", [0, 0, 0]),
])
def test_survivors_learn_how_a_rank_ended(tmp_path, way, kind, says, codes):
    seen, found, text = early(tmp_path, way)
    assert found == codes, text
    for r in (0, 2):
        assert seen[r] and seen[r][0] == kind and says in seen[r][1], (seen, text)
        assert seen[r][2], "the tensor was changed"


def test_everybody_learns_of_an_abort(tmp_path):
    seen, codes, text = early(tmp_path, "abort")
    assert codes == [0, 0, 0], text
    for r in range(3):
        assert seen[r] and seen[r][0] == "Aborted" and "the loss is NaN" in seen[r][1], text


def test_a_killed_rank_fails_the_job_and_is_named(ranks):
    p = ranks(3, "end_of_a_rank.py", "kill", status=None)
    assert p.returncode != 0 and "rank 1" in p.text, p.text


@pytest.mark.parametrize("wrong", ["[b, b, b]", "[b]", "[b, b[1:]]", "[b, b + b]", "[]"])
def test_an_allgather_that_returns_something_else_is_refused(wrong):
    code = f"""
import ringup
try:
    ringup.init(rank=0, size=2, allgather=lambda b: {wrong})
except ringup.RingupError as e:
    print(type(e.__cause__).__name__, str(e.__cause__)[:23])
"""
    p = start([sys.executable, "-c", code])
    assert p.stdout == "ValueError allgather() must return\n", p.stdout + p.stderr


def test_an_interrupted_init_leaves_the_job():
    code = """
import ringup
from ringup import job
init, fini, left = job.lib.ringup_init, job.lib.ringup_fini, []

def interrupted(how, r):
    job.lib.ringup_init = init
    init(how, r)
    raise KeyboardInterrupt

job.lib.ringup_init = interrupted
job.lib.ringup_fini = lambda r: (left.append(r.value), fini(r))
try:
    ringup.init()
except KeyboardInterrupt:
    print(ringup.is_initialized(), len(left), all(left))
ringup.init()
print(list(ringup.allreduce(bytearray([5]))))
"""
    p = start([sys.executable, "-c", code])
    assert p.returncode == 0 and p.stdout == "False 1 True\n[5]\n", p.stdout + p.stderr


def test_a_forked_child_knows_the_numbers_and_is_not_a_rank():
    code = """
import os, sys
import ringup, torch, horovod.torch as hvd

def numbers():
    world = hvd.global_process_set
    return [hvd.is_initialized(), ringup.is_initialized(), ringup.backend(), world.rank(),
            world.size(), world.included(), few.rank(), few.size(), few.included(),
            *(f() for f in (hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_rank,
                            hvd.cross_size, hvd.is_homogeneous, ringup.host_count))]

def refused(f, *args):
    try:
        f(*args)
    except (hvd.HorovodInternalError, ringup.NotRunning) as e:
        assert "forked" in str(e), e
    else:
        sys.exit(2)

few = hvd.ProcessSet([1])
hvd.init(process_sets=[few])
if hvd.rank() == 1:
    before = numbers()
    pid = os.fork()
    if pid == 0:
        hvd.init()  # nothing, as in the parent
        assert numbers() == before, numbers()
        refused(hvd.allreduce, torch.ones(1))
        refused(lambda: hvd.allreduce(torch.ones(1), process_set=few))
        refused(hvd.add_process_set, [0])
        refused(hvd.remove_process_set, few)
        refused(ringup.barrier)
        refused(ringup.abort, "")
        hvd.shutdown()
        assert not hvd.is_initialized()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print(hvd.allreduce(torch.ones(1), op=hvd.Sum).item())
"""
    p = start(launcher("ringup", 2) + ["-c", code])
    assert p.returncode == 0 and sorted(p.stdout.splitlines()) == ["[0] 2.0", "[1] 2.0"], p.stderr
