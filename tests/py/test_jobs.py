# test_jobs.py - whole jobs: launchers, meetings, ranks that end early or fork.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python tests/py

import contextlib
import os
import re
import socket
import sys

import pytest
from conftest import HERE, launch, launcher, start

WHERE = os.path.join(HERE, "where_of_a_rank.py")


@pytest.mark.parametrize("kind", ["ringup", "mpirun"])
def test_every_launcher_tells_the_ranks(kind, tmp_path):
    p = launch(kind, 2, WHERE, tmp_path)
    assert p.codes == [0] and p.results == {r: [r, 2, r, 2, 0, 1, 3.0] for r in range(2)}, p.text


@pytest.fixture
def torchrun(parent, tmp_path):
    """torchrun(n, OPTION...) runs n of torchrun's agents, which start their ranks anew."""
    def run(n, *options):
        script = tmp_path / "agent.py"
        script.write_text("from torch.distributed.run import main\nmain()\n")
        return parent.run(tmp_path, [{}] * n, str(script), *options, WHERE)

    return run


def test_torchrun_tells_the_ranks(torchrun):
    p = torchrun(1, "--nproc-per-node", "2", "--standalone")
    assert p.codes == [0] and p.results == {r: [r, 2, r, 2, 0, 1, 3.0] for r in range(2)}, p.text


def test_a_job_of_two_builds_of_one_number_is_refused(tmp_path):
    with open(os.environ["RINGUP_LIBRARY"], "rb") as f:
        data = f.read()
    (build,) = set(re.findall(rb"\d+\.\d+\.\d+\+([0-9a-f]{8})\0", data))
    other = bytes(reversed(build)) if build != build[::-1] else b"00000000"
    library = tmp_path / "libringup.so.0"
    library.write_bytes(data.replace(b"+" + build + b"\0", b"+" + other + b"\0"))
    mixed = f'[ "$RINGUP_RANK" = 0 ] || export RINGUP_LIBRARY={library}; exec "$@"'
    p = start(["ringup", "run", "-np", "2", "--", "sh", "-c", mixed, "sh", sys.executable, WHERE],
              RINGUP_TEST_RESULTS=str(tmp_path))
    assert p.returncode and not list(tmp_path.glob("rank.*")), p.stderr
    said = re.findall(r"rank 1 runs ringup \S+\+(\w+), the rendezvous ringup \S+\+(\w+)",
                      p.stderr)
    assert said and set(said) == {(other.decode(), build.decode())}, p.stderr


CHILD = os.path.join(HERE, "child_of_a_rank.py")
ABORTED = r"Aborted: allreduce.*: rank 1 aborted the job: ValueError: a bad batch"


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("end, told", [("raise", ABORTED), ("exit", ABORTED), (
    "return", "NotRunning: allreduce.*: rank 1 has left the job")])
def test_a_rank_that_multiprocessing_starts_ends_as_others_do(method, end, told, tmp_path):
    p = start(["ringup", "run", "-np", "3", "--", sys.executable, CHILD, method, end],
              RINGUP_TEST_RESULTS=str(tmp_path))
    assert [re.fullmatch(told, (tmp_path / f"rank.{r}").read_text()) is not None
            for r in (0, 2)] == [True, True], (p.stderr, list(map(str, tmp_path.iterdir())))


@pytest.mark.parametrize("launcher", ["run", "horovodrun"])
def test_a_program_in_between_may_close_all_descriptors(launcher, tmp_path):
    wrapper = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    dash = ["--"] if launcher == "run" else []
    p = start(["ringup", launcher, "-np", "2", *dash, sys.executable, "-c", wrapper,
               sys.executable, "-c", wrapper, sys.executable, WHERE],
              RINGUP_TEST_RESULTS=str(tmp_path))
    found = [(tmp_path / f"rank.{r}").read_text() for r in range(2)]
    assert p.returncode == 0 and found == [f"[{r}, 2, {r}, 2, 0, 1, 3.0]" for r in range(2)], p
    assert "warn" not in p.stderr, p.stderr


def test_a_process_that_nobody_launched_is_rank_0_of_1(tmp_path):
    p = start([sys.executable, WHERE], RINGUP_TEST_RESULTS=str(tmp_path))
    assert p.returncode == 0, p.stderr
    assert (tmp_path / "rank.0").read_text() == "[0, 1, 0, 1, 0, 1, 1.0]"


@contextlib.contextmanager
def reserved_port():
    """A port that the kernel gives to nobody else meanwhile: it is bound here.  A server that sets
    SO_REUSEADDR, as torch's store does, can listen at it all the same."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", 0))
        yield s.getsockname()[1]


def test_ranks_of_several_torchrun_agents_meet_in_its_store(torchrun):
    """Two agents with one rank each, as on two hosts; both are here, and ringup sees that."""
    with reserved_port() as port:
        p = torchrun(2, "--nnodes", "2", "--node-rank", "{rank}", "--nproc-per-node", "1",
                     "--master-addr", "127.0.0.1", "--master-port", str(port))
    assert p.codes == [0, 0], p.text
    assert p.results == {r: [r, 2, r, 2, 0, 1, 3.0] for r in range(2)}, p.text


MEETS = """
import os, time
import ringup
from ringup import torchrun

waits = os.path.join(os.environ["RINGUP_TEST_RESULTS"], "waits.")

class Server:
    '''Rank 0's store: tells that rank 0 has read everything and waits for the others.'''

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def wait(self, keys, timeout):
        if keys[0].endswith("/over"):
            open(waits + keys[0].replace("/", "."), "w").close()
        self.inner.wait(keys, timeout)

class Late(Server):
    '''Rank 1's store: says that it has read nothing before that.'''

    def wait(self, keys, timeout):
        self.inner.wait(keys, timeout)

    def add(self, key, n):
        begin, path = time.monotonic(), waits + key.replace("/", ".")[:-4] + "over"
        while key.endswith("/read") and not os.path.exists(path):
            assert time.monotonic() < begin + 60, "rank 0 does not wait"
            time.sleep(0.01)
        return self.inner.add(key, n)

store = torchrun.store
torchrun.store = lambda rank, size: (Late if rank else Server)(store(rank, size))
for i in range(2):
    ringup.init()
    print(ringup.rank(), ringup.size())
    ringup.shutdown()
"""


def test_the_store_outlives_who_reads_in_it(parent, tmp_path):
    """Rank 0 serves it, as it does if torchrun's agents do not share theirs, and is the first to
    have read everything."""
    script = tmp_path / "meets.py"
    script.write_text(MEETS)
    with reserved_port() as port:
        env = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1",
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        p = parent.run(tmp_path, [{**env, "RANK": str(r)} for r in range(2)], str(script))
    assert p.codes == [0, 0] and p.texts == ["0 2\n" * 2, "1 2\n" * 2], p.text


@pytest.mark.parametrize("way, kind, says, codes", [
    ("kill", "PeerLost", "rank 1", [0, -9, 0]),
    ("raise", "Aborted", "no such column", [0, 1, 0]),
    ("exit", "NotRunning", "", [0, 0, 0]),
])
def test_survivors_learn_how_a_rank_ended(parent, tmp_path, way, kind, says, codes):
    p = parent.ranks(3, tmp_path, "end_of_a_rank.py", way)
    assert p.codes == codes, p.text
    for r in (0, 2):
        kind_seen, says_seen, unchanged = p.results[r]
        assert kind_seen == kind and says in says_seen, p.text
        assert unchanged, "the tensor was changed"


def test_everybody_learns_of_an_abort(parent, tmp_path):
    p = parent.ranks(3, tmp_path, "end_of_a_rank.py", "abort")
    assert p.codes == [0, 0, 0], p.text
    for r in range(3):
        assert p.results[r][0] == "Aborted" and "the loss is NaN" in p.results[r][1], p.text


def test_a_killed_rank_fails_the_job_and_is_named():
    code = """
import os, signal
import ringup

ringup.init()
try:
    for step in range(1000):
        if step == 5 and ringup.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        ringup.allreduce(bytearray(1000), name="b")
except ringup.RingupError:
    pass  # so nothing but the launcher says that something is wrong
"""
    p = start([*launcher("ringup", 3), "-c", code])
    assert p.returncode != 0 and "rank 1" in p.stderr, f"{p.stdout}\n{p.stderr}"


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


def test_a_forked_child_knows_the_numbers_and_is_not_a_rank(parent, tmp_path):
    script = tmp_path / "forks.py"
    script.write_text("""
import os, sys, warnings
import ringup, torch, horovod.torch as hvd

warnings.simplefilter("ignore", DeprecationWarning)  # of fork() beside threads

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
""")
    p = parent.ranks(2, tmp_path, str(script))
    assert p.codes == [0, 0] and p.texts == ["2.0\n"] * 2, p.text
