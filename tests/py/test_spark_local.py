# test_spark_local.py - HorovodRunner and TorchDistributor on the driver alone, without Spark.
# SPDX-License-Identifier: Apache-2.0
#
# proves: F17 F18 of docs/RELIABILITY.md
# needs: cpu
# tests: compat/python/ringup/spark compat/python/sparkdl src/launch src/cli/cmd_rankd.c

import hmac
import os
import queue
import re
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from conftest import HANG, start

from ringup import program
from ringup.spark import CannotPickle, JobFailed, TorchDistributor, job, log_to_driver
from ringup.spark import connect, gather, launcher, rank, session, stage, task
from ringup.spark.failure import is_consequence
from sparkdl import HorovodRunner


class OfTheTest(Exception):
    """Its class is known to the driver alone, where this file is __main__ or lies beside it."""


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """The ranks do not have this file, which lies beside no script: it is sent by value."""
    monkeypatch.setattr(gather, "by_value", lambda: [sys.modules[__name__]])


def marked():
    """Processes that have the mark of this test in their environment, but for this one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                text = f.read()
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                state = f.read().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if f"SPARK_TEST_MARK={os.getpid()}".encode() in text.split(b"\0") and state != "Z":
            found.append(int(pid))
    return [p for p in found if p != os.getpid()]


@pytest.fixture
def leaves_nothing(monkeypatch):
    """No process with the mark, no descriptor and no socket is left.

    A task is a thread here.  It closes its sockets a moment after the job has its result."""
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    monkeypatch.setenv("SPARK_TEST_MARK", str(os.getpid()))
    before = descriptors()
    yield
    deadline = time.monotonic() + HANG
    while (marked() or descriptors() > before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not marked()
    assert descriptors() <= before


# -- HorovodRunner ---------------------------------------------------------------------------------

def test_minus_one_calls_the_function_in_this_process():
    seen = []
    assert HorovodRunner(np=-1).run(lambda x: seen.append(x) or 5, x=3) == 5
    assert seen == [3]


def test_minus_one_is_a_process_of_its_own_if_asked_for(monkeypatch, leaves_nothing):
    monkeypatch.setenv("RINGUP_HOROVODRUNNER_SPAWN", "1")
    pid, size = HorovodRunner(np=-1).run(lambda: (os.getpid(), os.environ["HOROVOD_SIZE"]))
    assert pid != os.getpid() and size == "1"


def test_ranks_of_the_driver_add_up_and_rank_0_returns(capfd, leaves_nothing):
    def main(base):
        import numpy
        import ringup

        ringup.init()
        x = numpy.full(3, base + ringup.rank(), dtype=numpy.float32)
        ringup.allreduce(x)
        print(f"rank {ringup.rank()} of {ringup.size()}")
        log_to_driver(f"told by {ringup.rank()}")
        return ringup.rank(), ringup.local_rank(), x.tolist(), sys.stdin.read()

    assert HorovodRunner(np=-2).run(main, base=10) == (0, 0, [21.0] * 3, "")
    out = capfd.readouterr().out.splitlines()
    assert sorted(line for line in out if "stdout" in line) == [
        "[0]<stdout>:rank 0 of 2", "[1]<stdout>:rank 1 of 2"]
    assert sorted(line for line in out if "told" in line) == ["told by 0", "told by 1"]


@pytest.mark.parametrize("given, wanted", [
    ([b"a\nb", b"c\n", b"d"], [b"a\n", b"bc\n", b"d"]),
    ([b"1%\r2", b"%\r", b"3%\n"], [b"1%\r", b"2%\r", b"3%\n"]),
    ([b"a\r\nb\r", b"\n\n"], [b"a\r\n", b"b\r", b"\n", b"\n"])],
    ids=["lines", "bars", "both"])
def test_lines_and_pieces_of_them_come_at_once(given, wanted):
    stream = type("Stream", (), {"read1": lambda self, n: given.pop(0) if given else b""})()
    assert list(launcher.pieces(stream)) == wanted


def test_a_progress_bar_of_a_rank_moves_on_the_driver():
    seen = []

    def main():
        for i in range(3):
            sys.stderr.write(f"\r{i} of 2")
        sys.stderr.write("\n")

    out = job.Output(stderr=seen.append)
    job.run_here(job.Job.of_function(1, main, env={}, output=out))
    assert seen == ["[0]<stderr>:0 of 2\r", "[0]<stderr>:1 of 2\r", "[0]<stderr>:2 of 2\n"]


def test_a_daemon_s_log_has_whole_lines_with_their_rank(tmp_path):
    """As the stderr of an executor has them."""
    log = open(tmp_path / "log", "w+b")

    def main():
        for i in range(200):
            print("x" * 50, "end", flush=i % 3 == 0)

    stderr = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        job.run_here(job.Job.of_function(2, main, env={}, copy=True))
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
    lines = (tmp_path / "log").read_text().splitlines()
    assert sorted(lines) == sorted([f"[{r}]<stdout>:{'x' * 50} end" for r in (0, 1)] * 200)
    log.close()


def test_a_class_of_the_driver_comes_back_as_itself():
    class Point:
        def __init__(self, x):
            self.x = x

    value = HorovodRunner(np=-1 - 1).run(lambda: Point(4))
    assert isinstance(value, Point) and value.x == 4


def test_a_callback_of_keras_tells_the_driver_of_epochs(monkeypatch, capfd):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras", reason="keras is not installed")
    del keras

    def main():
        import keras
        import numpy
        from sparkdl.horovod.tensorflow.keras import LogCallback

        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
        x = numpy.ones((4, 2), dtype="float32")
        model.fit(x, x[:, :1], batch_size=2, epochs=2, verbose=0,
                  callbacks=[LogCallback(per_batch_log=True)])

    HorovodRunner(np=-2).run(main)
    out = capfd.readouterr().out
    assert out.count("Epoch 1 begin") == 2 and out.count("Epoch 0 batch 1 end, loss: ") == 2
    assert len(re.findall(r"^Epoch 1 end after [0-9.e-]+ s, loss: [0-9.]+$", out, re.M)) == 2


def test_the_first_exception_counts_and_is_the_cause(leaves_nothing):
    def main():
        import ringup

        ringup.init()
        if ringup.rank() == 1:
            raise OfTheTest("of rank 1")
        ringup.barrier()

    with pytest.raises(JobFailed, match="(?s)^rank 1 on .* raised .*OfTheTest: of rank 1.*"
                                        "Traceback.* in main\n") as e:
        HorovodRunner(np=-2).run(main)
    assert e.value.rank == 1 and e.value.host == os.uname().nodename
    assert isinstance(e.value.__cause__, OfTheTest) and e.value.__cause__.args == ("of rank 1",)
    assert e.value.type_name.endswith("OfTheTest") and " in main" in e.value.traceback


def test_an_exception_that_cannot_be_pickled_is_told_as_text():
    def main():
        class Locked(Exception):
            def __init__(self):
                import threading
                super().__init__("locked")
                self.lock = threading.Lock()

        raise Locked()

    with pytest.raises(JobFailed, match="raised .*Locked: locked") as e:
        HorovodRunner(np=-2).run(main)
    assert e.value.__cause__ is None and e.value.rank in (0, 1)


@pytest.mark.parametrize("types,message,is_one", [
    (["PeerLost", "RingupError"], "barrier: rank 1 died", True),
    (["HorovodInternalError"], "allreduce: rank 1 died", True),
    (["AbortedError", "OpError"], "x: rank 1 died [ringup EPEER]\n\t [[{{node x}}]]", True),
    (["JaxRuntimeError", "RuntimeError"], "ABORTED: x: rank 1 has left [ringup ESHUTDOWN]", True),
    (["RuntimeError"], "[../gloo/pair.cc] Connection closed by peer [127.0.0.1]:1", True),
    (["AbortedError", "OpError"], "the queue is closed", False),
    (["InvalidArgumentError", "OpError"], "x: 2 is no rank [ringup EINVAL]", False),
    (["ValueError"], "Connection closed by peer", False)])
def test_the_loss_of_another_rank_is_known_as_a_consequence(types, message, is_one):
    assert is_consequence(types, message) is is_one


def test_a_consequence_that_is_read_first_does_not_count(leaves_nothing):
    """The rank daemon sleeps until both ranks have told of their exceptions; then it reads them in
    the order of ranks."""
    def main():
        import atexit
        import signal
        import ringup

        class AbortedError(Exception):
            pass

        ringup.init()
        daemon = os.getppid()
        if ringup.rank() == 1:
            os.kill(daemon, signal.SIGSTOP)
            raise OfTheTest("of rank 1")
        atexit.register(os.kill, daemon, signal.SIGCONT)
        try:
            ringup.barrier()
        except ringup.errors.RingupError as e:
            raise AbortedError(f"{e} [ringup EPEER]") from None

    with pytest.raises(JobFailed, match="^rank 1 on .* raised .*OfTheTest: of rank 1") as e:
        HorovodRunner(np=-2).run(main)
    assert any("rank 0" in other and "AbortedError" in other for other in e.value.others)


def test_a_killed_rank_is_named_by_its_signal_and_its_children_die(leaves_nothing):
    def main():
        import signal
        import subprocess
        import ringup

        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        assert child.pid
        ringup.init()
        if ringup.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        ringup.barrier()

    with pytest.raises(JobFailed, match=r"^rank 1 on .* was killed by signal 9 \(SIGKILL\)") as e:
        HorovodRunner(np=-2).run(main)
    assert (e.value.rank, e.value.signal, e.value.exit_status) == (1, 9, None)
    assert any("rank 0" in other for other in e.value.others)


def test_an_exit_is_named_by_its_status(leaves_nothing):
    def main():
        if os.environ["HOROVOD_RANK"] == "0":
            print("last words", flush=True)
            os._exit(7)
        time.sleep(1000)

    with pytest.raises(JobFailed, match="(?s)^rank 0 on .* exited with status 7.*last words") as e:
        HorovodRunner(np=-2).run(main)
    assert (e.value.rank, e.value.exit_status, e.value.signal) == (0, 7, None)


def test_an_exit_without_a_result_is_no_success():
    with pytest.raises(JobFailed, match="ended without a result"):
        HorovodRunner(np=-2).run(lambda: os._exit(0))


def test_a_result_of_many_megabytes_arrives_whole():
    value = HorovodRunner(np=-2).run(lambda: bytes(range(256)) * (64 << 12))
    assert value == bytes(range(256)) * (64 << 12)


def test_what_cannot_be_sent_is_named_with_the_cure():
    lock = threading.Lock()

    def main():
        with lock:
            return 1

    with pytest.raises(CannotPickle, match=r"main\(\) refers to lock, a thread lock .*"
                                           r"Path: main -> lock\.  Make it inside main\(\)"):
        HorovodRunner(np=-2).run(main)


def test_only_rank_0_s_value_is_pickled():
    def main():
        return 5 if os.environ["HOROVOD_RANK"] == "0" else threading.Lock()

    assert HorovodRunner(np=-2).run(main) == 5
    assert TorchDistributor(2, use_gpu=False).run(main) == 5
    with pytest.raises(JobFailed, match="^rank 1 on .* the function's result, lock"):
        job.run_here(job.Job.of_function(2, main))


def test_the_other_ranks_hear_of_an_exception_before_the_rank_has_ended():
    def main():
        import atexit
        import ringup

        ringup.init()
        if ringup.rank() == 1:
            atexit.register(time.sleep, 1000)
            raise OfTheTest("of rank 1")
        ringup.barrier()

    with pytest.raises(JobFailed, match="^rank 1 on .*OfTheTest: of rank 1") as e:
        HorovodRunner(np=-2).run(main)
    assert any("rank 0" in o and "OfTheTest: of rank 1" in o for o in e.value.others)


def test_one_traceback_is_shown_and_not_one_of_each_rank(capfd):
    def main():
        raise OfTheTest("of all ranks")

    with pytest.raises(JobFailed) as e:
        HorovodRunner(np=-2).run(main)
    shown = capfd.readouterr()
    assert str(e.value).count("Traceback") == 1 and "Traceback" not in shown.out + shown.err
    assert "rank 0 raised OfTheTest: of all ranks" in shown.err


def test_a_rank_that_does_not_come_is_named(monkeypatch):
    monkeypatch.setenv("HOROVOD_START_TIMEOUT", "2")

    def main():
        import ringup
        if os.environ["HOROVOD_RANK"] == "1":
            time.sleep(1000)
        ringup.init()

    with pytest.raises(JobFailed, match="^rank 1 of 2 on .* did not call hvd.init.. within 2 s"
                       ) as e:
        HorovodRunner(np=-2).run(main)
    assert e.value.rank == 1 and e.value.host == os.uname().nodename and len(e.value.others) == 1


def test_a_rank_that_is_stopped_is_named(monkeypatch):
    monkeypatch.setenv("RINGUP_FREEZE_MS", "1000")

    def main():
        import ringup
        import signal
        ringup.init()
        ringup.barrier()
        if ringup.rank() == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        ringup.barrier()

    with pytest.raises(JobFailed, match=r"^rank 1 on .* is stopped \(state T\)") as e:
        HorovodRunner(np=-2).run(main)
    assert e.value.rank == 1 and e.value.pid


def test_minus_one_leaves_no_job_behind():
    import ringup

    def main():
        ringup.init()
        return ringup.size()

    assert HorovodRunner(np=-1).run(main) == 1 and not ringup.is_initialized()
    with pytest.raises(ZeroDivisionError):
        HorovodRunner(np=-1).run(lambda: (ringup.init(), 1 / 0))
    assert not ringup.is_initialized()
    ringup.init()
    try:
        assert HorovodRunner(np=-1).run(main) == 1 and ringup.is_initialized(), "it is the caller's"
    finally:
        ringup.shutdown()


def test_what_frameworks_read_travels():
    given = {"KERAS_BACKEND": "torch", "TF_DETERMINISTIC_OPS": "1", "XLA_FLAGS": "x",
             "JAX_ENABLE_X64": "1", "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "3",
             "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "OMPI_MCA_btl_tcp_if_include": "eth0",
             "HOROVOD_TIMELINE": "/t", "RINGUP_DRIFT": "off"}
    stays = {"PATH": "/bin", "HOME": "/root", "CUDA_VISIBLE_DEVICES": "0", "HOROVOD_RANK": "1",
             "TF_CONFIG": "{}", "JAX_PROCESS_ID": "0", "KERAS_HOME": "/root", "AWS_SECRET": "s"}
    assert job.forwarded({**given, **stays}) == given


def test_variables_that_differ_are_named_where_none_travel(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setenv("JAX_ENABLE_X64", "")
    seen = []
    work = job.Job.of_function(2, lambda: 1, env={"KERAS_BACKEND": "jax"},
                               output=job.Output(log=seen.append))
    job.run_here(work)
    assert seen == ["ringup: KERAS_BACKEND is 'torch' on the driver and 'jax' in the ranks.  "
                    "env={'KERAS_BACKEND': os.environ['KERAS_BACKEND']} gives the ranks the "
                    "driver's"]


def test_what_returns_cannot_be_sent_is_told():
    with pytest.raises(JobFailed, match="the function's result, lock, cannot be sent"):
        HorovodRunner(np=-2).run(lambda: __import__("threading").Lock())


def test_verbosity_is_one_of_two():
    with pytest.raises(ValueError, match="log_callback_only"):
        HorovodRunner(np=-2, driver_log_verbosity="some").run(int)


def run_script(tmp_path, text, **env):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    return subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.PIPE, cwd=tmp_path, env={**os.environ, **env})


def test_a_module_beside_the_script_is_sent(tmp_path):
    (tmp_path / "beside.py").write_text("FACTOR = 3\ndef times(x):\n    return FACTOR * x\n")
    p = run_script(tmp_path, """
        import os
        import beside
        from sparkdl import HorovodRunner

        def main(x):
            os.chdir("/")
            return beside.times(x), os.environ["HOROVOD_RANK"]

        print(HorovodRunner(np=-2).run(main, x=14))
        """, PYTHONSAFEPATH="")
    out, err = p.communicate(timeout=HANG)
    assert out == "(42, '0')\n", err


@pytest.mark.parametrize("how", ["INT", "KILL"])
def test_the_end_of_the_driver_is_the_end_of_the_ranks(tmp_path, leaves_nothing, how):
    p = run_script(tmp_path, """
        import subprocess
        import sys
        import time
        from sparkdl import HorovodRunner

        def main():
            import subprocess
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
            print("started", flush=True)
            time.sleep(1000)

        try:
            HorovodRunner(np=-2).run(main)
        except KeyboardInterrupt:
            print("interrupted")
        """)
    seen = [p.stdout.readline(), p.stdout.readline()]
    assert sorted(seen) == ["[0]<stdout>:started\n", "[1]<stdout>:started\n"]
    p.send_signal({"INT": 2, "KILL": 9}[how])
    out, err = p.communicate(timeout=HANG)
    if how == "INT":
        assert "interrupted" in out and p.returncode == 0, err


def test_a_driver_that_does_not_read_slows_nobody():
    written = threading.Event()
    lines = []

    def slow(line):
        written.wait(HANG)
        lines.append(line)

    def main():
        for i in range(200000):
            print(f"line {i}")
        return "done"

    out = job.Output(stdout=slow)
    work = job.Job.of_function(2, main, env={}, output=out)
    port_free = threading.Thread(target=lambda: (time.sleep(0), written.set()))
    done = launcher.Launcher.wait

    def wait_then_free(self, look=lambda: None):
        self.process.wait()
        port_free.start()
        return done(self, look)

    launcher.Launcher.wait = wait_then_free
    try:
        assert job.run_here(work) == ["done", "done"]
    finally:
        launcher.Launcher.wait = done
        port_free.join()
    assert lines


# -- TorchDistributor ------------------------------------------------------------------------------

def test_a_file_runs_as_ranks_of_torch(tmp_path, capfd, leaves_nothing):
    path = tmp_path / "train.py"
    path.write_text("import os, sys\nprint(sys.argv[1:], *(os.environ[n] for n in ('RANK', "
                    "'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'MASTER_ADDR')))\n")
    assert TorchDistributor(2, use_gpu=False).run(str(path), "--lr=0.1") is None
    assert sorted(capfd.readouterr().out.splitlines()) == [
        f"['--lr=0.1'] {r} 2 {r} 2 127.0.0.1" for r in (0, 1)]


def test_a_file_that_fails_is_an_error(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("raise SystemExit(4)\n")
    with pytest.raises(JobFailed, match="exited with status 4"):
        TorchDistributor(2, use_gpu=False).run(str(path))
    with pytest.raises(ValueError, match="key-word"):
        TorchDistributor(2, use_gpu=False).run(str(path), lr=1)


def test_a_function_is_a_rank_of_torch_and_rank_0_returns(leaves_nothing):
    def train(x):
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        t = torch.tensor([float(dist.get_rank() + x)])
        dist.all_reduce(t)
        dist.destroy_process_group()
        return dist.get_backend.__name__, t.item(), os.environ["LOCAL_RANK"], \
            os.environ["CUDA_VISIBLE_DEVICES"]

    assert TorchDistributor(2, use_gpu=False).run(train, 3) == ("get_backend", 7.0, "0", "")


def test_processes_are_a_positive_number():
    with pytest.raises(ValueError, match="positive"):
        TorchDistributor(0)


# -- sessions --------------------------------------------------------------------------------------

class Listener:
    """A door whose sessions land in a queue."""

    def __init__(self, key):
        self.door, self.came = session.listen(["127.0.0.1"], key), queue.Queue()
        self.address = "127.0.0.1", self.door.port
        self.thread = threading.Thread(target=self.door.serve,
                                       args=(self.came.put, self.came.put))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.door.shut()
        self.thread.join(HANG)
        assert not self.thread.is_alive()


def test_both_sides_know_the_key():
    key = session.new_key()
    with Listener(key) as driver:
        ours = session.connect(driver.address, key, HANG)
        theirs = driver.came.get(timeout=HANG)
        assert ours.address == "127.0.0.1"
        ours.send({"text": "from the task"})
        theirs.send({"text": "from the driver"})
        assert theirs.receive(HANG) == {"text": "from the task"}
        assert ours.receive() == {"text": "from the driver"}
        with pytest.raises(ValueError, match="too long"):
            ours.send("x" * session.MOST_BYTES)
        with pytest.raises(TimeoutError):
            ours.receive(0.05)
        (near, key_near), (far, key_far) = ours.release(), theirs.release()
        with near, far:
            assert key_near == key_far != key
            near.sendall(b"on the same connection")
            assert far.recv(100) == b"on the same connection"
        for closed in (ours, theirs):
            closed.close()
            with pytest.raises(ConnectionError):
                closed.send({})


def test_who_does_not_know_the_key_is_refused():
    with Listener(session.new_key()) as driver:
        with pytest.raises(session.NotAuthentic):
            session.connect(driver.address, session.new_key(), HANG)
        assert driver.came.empty()


def test_nobody_there_is_an_error_within_the_time():
    with socket.create_server(("127.0.0.1", 0)) as s:
        address = s.getsockname()
    begin = time.monotonic()
    with pytest.raises(OSError):
        session.connect(address, session.new_key(), 0.5)
    assert time.monotonic() - begin < HANG


PROTOCOL, CHANNEL = 2, 7  # SHAKE_PROTOCOL and SHAKE_TASK of src/wire/shake.h


def shake_as(address, key, version):
    """The handshake of src/wire/shake.h by a task of another version; the driver's verdict."""
    def mac(secret, *parts):
        return hmac.digest(secret, b"".join(parts), "sha256")

    made, block, prk = b"", b"", mac(b"", key)
    for i in (1, 2, 3):
        block = mac(prk, block, b"ringup handshake\0", bytes([i]))
        made += block
    mine = b"\xf5ringup\n" + struct.pack("<HBBI16s", PROTOCOL, 1, CHANNEL, 0xffffffff,
                                         version.encode()) + made[64:80] + os.urandom(16)
    with socket.create_connection(address, HANG) as sock, sock.makefile("rb") as answers:
        sock.sendall(mine)
        theirs, proof = answers.read(64), answers.read(32)
        assert proof == mac(made[:32], b"S", mine, theirs, b"\0")
        sock.sendall(mac(made[:32], b"C", mine, theirs, proof, b"\0"))
        return struct.unpack("b32x", answers.read(33))[0]


def test_a_task_of_another_version_is_refused_with_a_sentence():
    key = session.new_key()
    lobby = stage.Lobby(["127.0.0.1"], 1, key)
    try:
        assert shake_as(lobby.address, key, "9.8.7") == session._c.STATUS["EMISMATCH"]
        with pytest.raises(JobFailed, match=rf"ringup {stage.__version__}\S* here, ringup 9.8.7 on "
                                            "the other side.*install the same version"):
            lobby.wait(HANG)
    finally:
        lobby.close()


class Strangers:
    """Connections of those who do not know the key: they trickle, talk of something else, say
    nothing, or pretend to be ringup."""

    SAY = (b"\xf5ringup\n" + bytes(48), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"", b"\xf5ringup\n",
           os.urandom(4096))

    def __init__(self, address, count):
        self.address, self.is_over = address, threading.Event()
        self.thread = threading.Thread(target=self._run, args=(count,))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join(HANG)

    def _run(self, count):
        """Who is sent away comes again."""
        socks, at = {}, 0
        while not self.is_over.wait(0.05):
            for i in range(count):
                what = self.SAY[i % len(self.SAY)]
                try:
                    if i not in socks:
                        socks[i] = socket.create_connection(self.address, 1)
                        socks[i].setblocking(False)
                    # A byte at a time, or all at once.
                    socks[i].send(what[at % len(what or b"x"):][:1] if i % 2 else what)
                except BlockingIOError:
                    pass
                except OSError:
                    if i in socks:
                        socks.pop(i).close()
            at += 1
        for s in socks.values():
            s.close()


@pytest.mark.parametrize("count", [40, 150])
def test_strangers_do_not_keep_tasks_out(count):
    key, size = session.new_key(), 6
    lobby = stage.Lobby(["127.0.0.1"], size, key)
    guests = []

    def come(index):
        guest = session.connect(lobby.address, key, HANG)
        guests.append(guest)
        guest.send(dict(hello("h", "n", 1), index=index))

    try:
        with Strangers(lobby.address, count):
            time.sleep(1)  # they are there first
            tasks = [threading.Thread(target=come, args=(i,)) for i in range(size)]
            for t in tasks:
                t.start()
            assert lobby.wait(HANG)
            assert sorted(lobby.tasks) == list(range(size))
            for t in tasks:
                t.join(HANG)
    finally:
        lobby.close()
        for guest in guests:
            guest.close()


def test_a_task_that_says_nonsense_leaves_the_driver_as_it_was():
    key = session.new_key()
    lobby = stage.Lobby(["127.0.0.1"], 1, key)
    try:
        for nonsense in ({}, [], {"index": 7}, {"index": "0"}, {"index": -1}, None, 3):
            guest = session.connect(lobby.address, key, HANG)
            guest.send(nonsense)
            with pytest.raises(ConnectionError):
                guest.receive(HANG)
            guest.close()
        assert not lobby.tasks
        guest = session.connect(lobby.address, key, HANG)
        guest.send(dict(hello("h", "n", 1), index=0))
        assert lobby.wait(HANG)
        guest.close()
    finally:
        lobby.close()


def test_the_driver_never_listens_on_all_addresses():
    lobby = stage.Lobby(["192.0.2.77", "0.0.0.0"], 1, session.new_key())  # as behind NAT
    try:
        port = f"{lobby.address[1]:04X}"
        with open("/proc/net/tcp", encoding="ascii") as f:
            bound = [line.split()[1] for line in f if f":{port} " in line]
        assert bound and all(where != f"00000000:{port}" for where in bound)
    finally:
        lobby.close()
    with pytest.raises(RuntimeError, match="spark.driver.host"):
        stage.Lobby(["192.0.2.77"], 1, session.new_key())


def test_a_reserved_port_is_at_its_address_and_rank_0_can_listen_there():
    with task.reserve_port("127.0.0.1") as port:
        assert port.getsockname()[0] == "127.0.0.1"
        with socket.create_server(("127.0.0.1", port.getsockname()[1])):  # with SO_REUSEADDR
            pass


def test_reports_come_in_any_pieces():
    state, lines = launcher.RankState(0), []

    def frame(kind, body):
        return kind + len(body).to_bytes(8, "little") + body

    for byte in frame(rank.LOG, b"a line") + frame(rank.RESULT, b"a result"):
        state.take(bytes([byte]), lines.append)
    assert lines == ["a line"] and state.result == b"a result"


# -- hosts and what they are given -----------------------------------------------------------------

FRAME_HEAD = 32  # src/wire/chan.h


def whole_frames(data):
    """The frames (src/wire/chan.h) that are whole at the start of data, and the rest."""
    frames = []
    while len(data) > FRAME_HEAD:
        size = int.from_bytes(data[:4], "little") + FRAME_HEAD
        if len(data) < size:
            break
        frames.append(data[:size])
        data = data[size:]
    return frames, data


class Between:
    """A stranger between the launcher and the rank daemon: sees all bytes, and may change them.

    change(name, frame) is what it passes on for a frame of the encrypted stream; name is "orders"
    or "answers".
    """

    def __init__(self, monkeypatch, change=lambda name, data: data):
        self.change, self.seen = change, {"orders": b"", "answers": b""}
        self.serve = task.serve
        monkeypatch.setattr(task, "serve", self._serve)

    def _serve(self, sock, *rest):
        near, far = socket.socketpair()
        pumps = [threading.Thread(target=self._pump, args=a) for a in
                 (("orders", sock, near), ("answers", near, sock))]
        for pump in pumps:
            pump.start()
        try:
            return self.serve(far, *rest)
        finally:
            for pump in pumps:
                pump.join(HANG)
            near.close(), sock.close()

    def _pump(self, name, source, sink):
        rest = b""
        try:
            while data := source.recv(65536):
                self.seen[name] += data
                rest += data
                frames, rest = whole_frames(rest)
                for frame in frames:
                    sink.sendall(self.change(name, frame))
        except OSError:
            pass
        for sock in (source, sink):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Daemon:
    """A rank daemon of a task, the launcher's end of its connection, and its lifeline."""

    def __init__(self, seal=None):
        self.near, far = socket.socketpair()
        seal = task._memory_file("seal", session.new_key() if seal is None else seal)
        watched, self.lifeline = os.pipe()
        with far:
            self.process = subprocess.Popen(
                [program.find(), "rankd", f"--lifeline={watched}", f"--seal={seal}", "--", "true"],
                stdin=far, stdout=far, stderr=subprocess.PIPE, pass_fds=(watched, seal), text=True)
        os.close(watched), os.close(seal)

    def ends(self):
        """Its status and what it has said."""
        try:
            _, said = self.process.communicate(timeout=HANG)
            return self.process.returncode, said
        finally:
            self.near.close()


def test_a_daemon_ends_with_its_lifeline_though_the_launcher_is_there():
    daemon = Daemon()
    os.close(daemon.lifeline)
    greeting = daemon.near.recv(1000)
    assert len(greeting) > FRAME_HEAD and b"ringup" not in greeting  # it is encrypted
    assert daemon.ends() == (0, "")


def test_a_daemon_refuses_a_launcher_that_does_not_know_the_key():
    daemon = Daemon()
    daemon.near.sendall(b"\xff" * 200)
    status, said = daemon.ends()
    os.close(daemon.lifeline)
    assert status == 3 and "the peer does not know the key" in said


def test_a_daemon_refuses_what_is_no_key():
    daemon = Daemon(b"too short")
    status, said = daemon.ends()
    os.close(daemon.lifeline)
    assert status == 3 and "not a file of 32 bytes" in said


def speak():
    print("printed by a rank", flush=True)
    return "returned by a rank"


def test_nobody_between_driver_and_daemon_can_read_what_they_say(monkeypatch, leaves_nothing):
    between = Between(monkeypatch)
    said = []
    work = job.Job.of_function(2, speak, output=launcher.Output(stdout=said.append))
    assert job.run_here(work) == ["returned by a rank"] * 2
    assert sorted(said) == [f"[{r}]<stdout>:printed by a rank\n" for r in (0, 1)]
    for name, data in between.seen.items():
        assert len(data) > 300, name
        for text in (b"a rank", b"RINGUP_", b"ringup", work.key):
            assert text not in data, (name, text)


@pytest.mark.parametrize("name", ["orders", "answers"])
@pytest.mark.parametrize("how", ["a bit", "twice", "less", "in another order"])
def test_what_is_changed_between_driver_and_daemon_ends_the_job(monkeypatch, leaves_nothing, name,
                                                                how):
    waiting, count = [], {"orders": 0, "answers": 0}

    def change(which, data):
        count[which] += 1
        if which != name:
            return data
        if how == "a bit":
            return data[:-1] + bytes([data[-1] ^ 1])
        if how == "twice":
            return data + data
        if how == "less":
            return data[:-1]
        waiting.append(data)
        return b"" if len(waiting) == 1 else waiting.pop() + waiting.pop()

    Between(monkeypatch, change)
    with pytest.raises(JobFailed):
        job.run_here(job.Job.of_function(2, speak))
    assert count[name] >= 1 + (how == "in another order")


def hello(host, name, port, gpus=()):
    return {"host": host, "name": name, "address": f"10.0.0.{port % 250}", "port": port,
            "gpus": list(gpus), "python": list(sys.version_info[:2]), "executable": "python3",
            "ringup": stage.__version__}


def test_hosts_are_told_apart_by_identity_and_named_apart():
    hosts = stage.group_by_host({0: (hello("b", "node", 1), "c0"), 1: (hello("a", "node", 2), "c1"),
                                 2: (hello("b", "node", 3), "c2")})
    assert [(h.name, [c for _, c in h.tasks]) for h in hosts] == [("node", ["c0", "c2"]),
                                                                 ("node.2", ["c1"])]


def local_ranks():
    import ringup

    ringup.init()
    return ringup.local_rank(), int(os.environ["LOCAL_RANK"]), ringup.host_count()


def test_spark_and_the_engine_mean_the_same_host(monkeypatch, leaves_nothing):
    """Two executors on a node, each a container of YARN, share what makes a host."""
    real, containers = session.host_identity, iter("xy")

    def identity():
        monkeypatch.setenv("CONTAINER_ID", next(containers))
        monkeypatch.setattr(os, "uname", lambda: type("U", (), {"nodename": os.environ[
            "CONTAINER_ID"]}))
        return real()

    monkeypatch.setattr(session, "host_identity", identity)
    work = job.Job.of_function(2, local_ranks)
    done = connect.ended(run_in_tasks(monkeypatch, work), work)
    assert done.results() == [(0, 0, 1), (1, 1, 1)]


def test_gpus_of_a_host_come_in_the_order_of_its_ranks():
    hosts = stage.group_by_host({0: (hello("a", "n", 1, ["3"]), None),
                                 1: (hello("b", "m", 2, ["0"]), None),
                                 2: (hello("a", "n", 3, ["1"]), None)})
    a, b = stage.host_environments(hosts)
    assert a["CUDA_VISIBLE_DEVICES"] == "3,1" and b["CUDA_VISIBLE_DEVICES"] == "0"
    assert a["MASTER_ADDR"] == b["MASTER_ADDR"] == "10.0.0.1" and a["MASTER_PORT"] == "1"


def test_the_devices_of_a_rank_are_its_tasks(monkeypatch):
    from horovod.spark.task import get_available_devices

    monkeypatch.setenv(stage.GPUS, "3;1,2")
    monkeypatch.setenv("HOROVOD_LOCAL_RANK", "1")
    assert get_available_devices() == ["1", "2"]
    monkeypatch.setenv("HOROVOD_LOCAL_RANK", "5")
    assert get_available_devices() == []


def test_another_python_is_refused_before_anything_runs():
    task_of_old = hello("a", "n", 1)
    task_of_old["python"] = [2, 7]
    with pytest.raises(JobFailed, match="is 2.7 .*set PYSPARK_PYTHON"):
        stage.check_tasks(stage.group_by_host({0: (task_of_old, None)}))


def test_what_travels_of_the_environment():
    env = {"HOROVOD_TIMELINE": "/t", "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "2", "TF_X": "1",
           "RINGUP_LOG_LEVEL": "info", "HOME": "/root", "RINGUP_CACHE_KEY": "k",
           "HOROVOD_RANK": "3", "RINGUP_SECRET_FD": "4"}
    assert sorted(job.forwarded(env)) == ["HOROVOD_TIMELINE", "NCCL_DEBUG", "OMP_NUM_THREADS",
                                          "RINGUP_LOG_LEVEL", "TF_X"]


def test_ranks_do_not_get_what_spark_sets_for_its_workers():
    env = task.environment({"PYTHONHASHSEED": "0", "MASTER_ADDR": "old", "A": "1"}, {"B": "2"})
    assert "PYTHONHASHSEED" not in env and "MASTER_ADDR" not in env
    assert (env["A"], env["B"], env["PYTHONUNBUFFERED"]) == ("1", "2", "1")


def test_without_pyspark_or_a_session_the_way_out_is_told():
    p = start([sys.executable, "-c", "from sparkdl import HorovodRunner\n"
               "try:\n    HorovodRunner(np=2).run(int)\n"
               "except RuntimeError as e:\n    print(e)\n"])
    assert "HorovodRunner(np=-2)" in p.stdout


def test_a_store_is_a_folder_under_every_name(tmp_path, monkeypatch):
    from horovod.spark.common.store import DBFSLocalStore, LocalStore, Store

    for name in (tmp_path, f"file://{tmp_path}"):
        store = Store.create(str(name))
        assert isinstance(store, LocalStore)
        assert store.get_train_data_path() == f"{tmp_path}/intermediate_train_data"
        assert store.get_val_data_path("x") == f"{tmp_path}/intermediate_val_data.x"
        assert store.get_checkpoint_file("run") == f"{tmp_path}/runs/run/checkpoint.pt"
    assert isinstance(Store.create("dbfs:/a/b"), DBFSLocalStore)
    assert Store.create("dbfs:/a/b").get_run_path("r") == "/dbfs/a/b/runs/r"
    assert DBFSLocalStore.normalize_path("file:///dbfs/a") == "/dbfs/a"
    assert not DBFSLocalStore.matches_dbfs(str(tmp_path))
    with pytest.raises(ValueError, match="dbfs:/FOLDER"):
        DBFSLocalStore("dbfs://host/a")
    assert not isinstance(Store.create("/dbfs/a"), DBFSLocalStore)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "16.4")
    assert isinstance(Store.create("file:/dbfs/a"), DBFSLocalStore)
    assert not isinstance(Store.create(str(tmp_path)), DBFSLocalStore)
    with pytest.raises(ValueError, match="mount s3"):
        Store.create("s3://bucket/x")
    assert LocalStore(tmp_path, save_runs=False).get_checkpoint_path("run") is None
    store.write_text(f"{tmp_path}/runs/run/note", "text")
    assert store.read(f"{tmp_path}/runs/run/note") == b"text"
    assert os.listdir(f"{tmp_path}/runs/run") == ["note"]


def test_what_programs_take_from_horovod_spark_common(monkeypatch):
    from horovod.spark.common import util

    monkeypatch.delenv("CONTAINER_ID", raising=False)
    names = {util.host_hash(), util.host_hash("salt")}
    monkeypatch.setenv("CONTAINER_ID", "of a container")
    names |= {util.host_hash(), util.host_hash("salt")}
    assert len(names) == 4 and util.host_hash() in names
    assert util.to_list("a", 2) == ["a", "a"] and util.to_list(["a", "b"], 2) == ["a", "b"]
    assert util.to_list(None, 2) is None
    with pytest.raises(ValueError, match="2 values instead of 3"):
        util.to_list(["a", "b"], 3)


@pytest.mark.parametrize("master, waits", [("local", False), ("local[2]", False),
                                           ("local[2,4]", False), ("local-cluster[1,2,1024]", True),
                                           ("spark://10.0.0.1:7077", True)],
                         ids=["local", "threads", "failures", "local-cluster", "standalone"])
def test_slots_are_waited_for_where_executors_come(monkeypatch, master, waits):
    """An executor that has not come yet is not one that will not come."""
    there = [0, 1, 2]
    monkeypatch.setattr(stage, "SLOTS_POLL_S", 0)
    monkeypatch.setattr(stage, "slots", lambda sc: there.pop(0) if len(there) > 1 else there[0])
    session = type("Session", (), {"master": master})
    if waits:
        stage.wait_for_slots(session, 2, HANG)
        assert there == [2]
    else:
        with pytest.raises(stage.TooFewSlots, match="have 0"):
            stage.wait_for_slots(session, 2, HANG)


@pytest.mark.parametrize("there, after", [([0], 600), ([0, 1], 60), ([1, 2, 3], 61)],
                         ids=["no executor", "one that stays alone", "some that come"])
def test_too_few_slots_are_told_in_time(monkeypatch, capsys, there, after):
    """A second passes with each look."""
    clock = type("Clock", (), {"now": 0.0, "monotonic": lambda self: self.now,
                               "sleep": lambda self, s: setattr(self, "now", self.now + 1)})()
    monkeypatch.setattr(stage, "time", clock)
    monkeypatch.setattr(stage, "slots", lambda sc: there[min(int(clock.now), len(there) - 1)])
    with pytest.raises(stage.TooFewSlots, match=f"have {there[-1]}"):
        stage.wait_for_slots(type("Session", (), {"master": "spark://10.0.0.1:7077"}), 4, 600)
    assert after <= clock.now <= after + 2
    assert "4 ranks wait for as many task slots" in capsys.readouterr().err


def test_an_elastic_job_of_wrong_sizes_is_refused_before_anything_runs(monkeypatch):
    import horovod.spark

    monkeypatch.setattr(stage, "context", lambda: None)
    for how in ({"min_num_proc": 3}, {"max_num_proc": 1}, {"min_np": 0}):
        with pytest.raises(ValueError, match="each must be at least the previous one"):
            horovod.spark.run_elastic(int, num_proc=2, **how)


# -- Spark Connect; test_spark_connect.py has the real one ----------------------------------------

class Settings:
    """A session of Spark Connect that has settings, and says how it would cut a range."""

    def __init__(self, plan="*(1) Range (0, 1048576, step=1, splits=8)", **settings):
        self.plan, self.settings, self.conf = plan, settings, self

    def get(self, name, default):
        return self.settings.get(name.replace(".", "_"), default)

    def sql(self, text):
        return self

    def collect(self):
        return [[self.plan]]


@pytest.mark.parametrize("session, there", [
    (Settings(), 8), (Settings(spark_task_cpus="2"), 4), (Settings(plan="a scan"), None),
    (Settings(spark_default_parallelism="3"), None)], ids=["cores", "cpus", "unknown", "set"])
def test_task_slots_of_a_service_that_does_not_count_them(session, there):
    context = connect.Context(session)
    assert stage.slots(context) == there
    if there is None:
        stage.wait_for_slots(context, 1000, HANG)
        with pytest.raises(ValueError, match="set the number of ranks"):
            _ = context.defaultParallelism


class Barrier:
    """The context of two tasks of a barrier stage, each in a thread."""

    def __init__(self):
        self.own, self.said, self.together = threading.local(), {}, threading.Barrier(2)

    def get(self):
        return self

    def partitionId(self):
        return self.own.index

    taskAttemptId = partitionId

    def resources(self):
        return {}

    def getTaskInfos(self):
        return [type("Info", (), {"address": "localhost:4000"})] * 2

    def allGather(self, text):
        self.said[self.own.index] = text
        self.together.wait(HANG)
        return [self.said[i] for i in sorted(self.said)]


def run_in_tasks(monkeypatch, work, client=("127.0.0.1", 9)):
    """Run a job as the tasks of a Connect stage do that cannot connect to the client; the rows."""
    context, rows = Barrier(), []
    monkeypatch.setitem(sys.modules, "pyspark", type("P", (), {"BarrierTaskContext": context}))
    monkeypatch.setattr(connect, "_row", lambda number, piece: (number, piece))
    monkeypatch.setattr(connect, "PIECE_BYTES", 100)
    body = connect.Context(Settings(spark_driver_host="localhost")).body(client, work)

    def run_task(index):
        context.own.index = index
        rows.extend(body(iter(())))

    tasks = [threading.Thread(target=run_task, args=(i,)) for i in (0, 1)]
    for t in tasks:
        t.start()
    for t in tasks:
        t.join(HANG)
    return rows


def test_a_job_that_no_client_reaches_comes_back_in_rows(monkeypatch, leaves_nothing):
    said = []
    work = job.Job.of_function(2, speak, output=launcher.Output(stdout=said.append))
    rows = run_in_tasks(monkeypatch, work)
    assert len(rows) > 2
    assert connect.ended(reversed(rows), work).results() == ["returned by a rank"] * 2
    assert sorted(said) == [f"[{r}]<stdout>:printed by a rank\n" for r in (0, 1)]
    rows[1] = (rows[1][0], rows[1][1][:-1] + b"!")
    with pytest.raises(JobFailed, match="belong to another job"):
        connect.ended(rows, work)


def fail_on_one():
    if os.environ["RANK"] == "1":
        raise OfTheTest("of rank 1")
    time.sleep(HANG)


def test_a_rank_that_raises_is_named_in_the_rows(monkeypatch, leaves_nothing):
    work = job.Job.of_function(2, fail_on_one)
    done = connect.ended(run_in_tasks(monkeypatch, work), work)
    with pytest.raises(JobFailed, match="(?s)^rank 1 on .*OfTheTest: of rank 1.*Traceback") as e:
        done.results()
    assert isinstance(e.value.__cause__, OfTheTest) and e.value.rank == 1


def test_tasks_that_cannot_connect_to_each_other_are_named(monkeypatch, leaves_nothing):
    monkeypatch.setattr(connect, "FOLLOW_S", 1)
    real = task.Guest

    def guest(address, key, context, *rest):
        if context.partitionId() == 1:
            raise ConnectionRefusedError
        return real(address, key, context, *rest)

    monkeypatch.setattr(task, "Guest", guest)
    work = job.Job.of_function(2, speak)
    rows = run_in_tasks(monkeypatch, work)
    with pytest.raises(JobFailed, match="task 1 on .* did not reach task 0 at 127.0.0.1 port"):
        connect.ended(rows, work)


def test_what_ranks_print_comes_back_in_part_if_it_is_much(monkeypatch):
    monkeypatch.setattr(connect, "LINES_BYTES", 10)
    lines = connect.Lines()
    for text in ("aaaa", "bbbb", "cccc"):
        lines.taker("stdout")(text)
    assert list(lines.lines) == [("stdout", "bbbb"), ("stdout", "cccc")] and lines.dropped == 1


def test_importing_ringup_or_horovod_imports_no_spark():
    p = start([sys.executable, "-c", "import sys, horovod.spark, ringup.spark, sparkdl\n"
               "print([m for m in sys.modules if m.split('.')[0] == 'pyspark'])"])
    assert p.stdout == "[]\n", p.stderr
