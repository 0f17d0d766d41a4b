# test_spark.py - HorovodRunner, horovod.spark.run() and TorchDistributor in a real Spark session.
# SPDX-License-Identifier: Apache-2.0
#
# One session local[2] for all tests of this process; RINGUP_TEST_SPARK is a folder with pyspark.
#
# needs: cpu
# tests: compat/python/ringup/spark compat/python/sparkdl compat/python/horovod/spark src/launch

import io
import os
import re
import runpy
import shutil
import signal
import socket
import sys
import threading
import time

import pytest
from conftest import HANG, ROOT, start

from ringup.spark import CannotPickle, JobFailed, TorchDistributor, gather, log_to_driver
from ringup.spark import run as spark_run
from sparkdl import HorovodRunner

SPARK = os.environ.get("RINGUP_TEST_SPARK", "")
if not SPARK:
    pytest.skip("no pyspark: set RINGUP_TEST_SPARK", allow_module_level=True)
if not shutil.which("java"):
    pytest.skip("no Java: apt-get install openjdk-17-jre-headless", allow_module_level=True)
MARK = f"SPARK_TEST_MARK={os.getpid()}"


class OfTheTest(Exception):
    """A class that the workers know from the driver only."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session; the JVM ends with it."""
    sys.path.insert(0, SPARK)
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1",
                      PYTHONPATH=os.pathsep.join([SPARK, os.environ["PYTHONPATH"]]))
    name, value = MARK.split("=")
    os.environ[name] = value
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    session = (SparkSession.builder.master("local[2]").appName("ringup-test")
               .config("spark.ui.enabled", "false").config("spark.local.dir", str(folder))
               .config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "512m")
               .config("spark.sql.warehouse.dir", str(folder)).getOrCreate())
    session.sparkContext.setLogLevel("OFF")
    gateway = session.sparkContext._gateway
    yield session
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(HANG)


@pytest.fixture(autouse=True)
def by_value(monkeypatch):
    """This file is a module of its own, and no worker has it."""
    monkeypatch.setattr(gather, "by_value", lambda: [sys.modules[__name__]])


def of_jobs():
    """Processes of ranks, daemons and what they have started: those with the mark that are neither
    Spark's nor this test's."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                env = f.read().split(b"\0")
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                state = f.read().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if MARK.encode() in env and state != "Z" and int(pid) != os.getpid() and \
                b"java" not in words[0] and b"pyspark.daemon" not in words:
            found.append((int(pid), b" ".join(words)))
    return found


def descriptors(spark):
    """How many this process has, without py4j's connections to Spark: it keeps as many as threads
    have called at once."""
    port = spark.sparkContext._gateway.gateway_parameters.port
    count = 0
    for fd in map(int, os.listdir("/proc/self/fd")):
        peer = ()
        try:
            s = socket.socket(fileno=fd)
            try:
                peer = s.getpeername()
            finally:
                s.detach()
        except OSError:
            pass  # no socket, or not connected
        count += peer[1:2] != (port,)
    return count


@pytest.fixture
def leaves_nothing(spark):
    """No process of a job is left, and no descriptor of this process."""
    spark.sparkContext.parallelize([1]).count()
    before = descriptors(spark)
    yield
    deadline = time.monotonic() + HANG
    while (of_jobs() or descriptors(spark) > before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert of_jobs() == []
    assert descriptors(spark) <= before


@pytest.mark.parametrize("kind, words", [
    ("df", "value, a DataFrame of Spark.*df.write.parquet"),
    ("session", "the driver's SparkSession"),
    ("context", "the driver's SparkContext"), ("rdd", "an RDD of Spark"),
    ("broadcast", r"a broadcast variable of Spark.*\.value"), ("count", "an accumulator of Spark")])
def test_what_belongs_to_spark_is_named_before_anything_starts(spark, kind, words):
    sc = spark.sparkContext
    value = {"df": lambda: spark.range(3), "session": lambda: spark, "context": lambda: sc,
             "rdd": lambda: sc.parallelize([1]), "broadcast": lambda: sc.broadcast([1]),
             "count": lambda: sc.accumulator(0)}[kind]()

    def train():
        return value
    with pytest.raises(CannotPickle, match=words):
        HorovodRunner(np=2).run(train)
    with pytest.raises(CannotPickle, match="self.value, .*Path: fit -> self.value"):
        class Trainer:
            def __init__(self):
                self.value = value

            def fit(self):
                return self.value
        HorovodRunner(np=2).run(Trainer().fit)


def test_too_few_slots_are_told_as_upstream_s_own_test_wants_it(spark):
    import horovod.spark

    with pytest.raises(Exception, match="^Timed out waiting for Spark tasks to start."):
        horovod.spark.run(None, num_proc=4, start_timeout=5, verbose=0)
    with pytest.raises(TypeError, match="^fn is None, not a function"):
        horovod.spark.run(None, num_proc=2, verbose=0)


@pytest.mark.parametrize("python, words", [
    ("/no/such/python", 'cannot run program "/no/such/python" .*No such file'),
    ("/bin/false", "PYSPARK_PYTHON does not name a working Python there")])
def test_a_python_that_does_not_start_is_told(spark, monkeypatch, python, words):
    monkeypatch.setattr(spark.sparkContext, "pythonExec", python)
    with pytest.raises(JobFailed, match=words):
        HorovodRunner(np=2).run(lambda: 1)


def test_ranks_in_task_slots_add_up(spark, capfd, monkeypatch, leaves_nothing):
    monkeypatch.setenv("HOROVOD_MY_SETTING", "travels")

    def main(base):
        import horovod.torch as hvd
        import torch

        hvd.init()
        x = hvd.allreduce(torch.tensor([float(base + hvd.rank())]), op=hvd.Sum)
        print(f"rank {hvd.rank()} of {hvd.size()}")
        log_to_driver(f"told by {hvd.rank()}")
        return (hvd.rank(), hvd.local_rank(), hvd.local_size(), hvd.cross_size(), x.item(),
                os.environ["HOROVOD_MY_SETTING"], "PYTHONHASHSEED" in os.environ,
                sys.stdin.read())

    value = HorovodRunner(np=2, driver_log_verbosity="all").run(main, base=10)
    assert value == (0, 0, 2, 1, 21.0, "travels", False, "")
    out = capfd.readouterr().out.splitlines()
    assert {"[0]<stdout>:rank 0 of 2", "[1]<stdout>:rank 1 of 2", "told by 0",
            "told by 1"} <= set(out)


def test_only_what_is_told_comes_to_the_driver_by_default(spark, capfd, leaves_nothing):
    def main():
        print("of the rank's stdout")
        log_to_driver("x" * 5000)
        return 1

    assert HorovodRunner(np=1).run(main) == 1
    text = capfd.readouterr()
    assert "of the rank's stdout" not in text.out
    assert "x" * 4000 + "...(truncated)" in text.out


def test_all_slots_are_deprecated_but_work(spark):
    with pytest.warns(DeprecationWarning, match="Setting np=0 is deprecated"):
        assert HorovodRunner(np=0).run(lambda: int(os.environ["HOROVOD_SIZE"])) == 2


def test_too_few_slots_are_told_at_once(spark, leaves_nothing):
    with pytest.raises(JobFailed, match="3 ranks need 3 task slots .* have 2: ask for 2 ranks"):
        HorovodRunner(np=3).run(int)

    import horovod.spark

    with pytest.raises(RuntimeError, match="^Timed out waiting for Spark tasks to start.*have 2"):
        horovod.spark.run(int, num_proc=3, verbose=0)


def test_a_rank_that_raises_while_another_waits_is_named(spark, leaves_nothing):
    def main():
        import ringup

        ringup.init()
        if ringup.rank() == 1:
            raise OfTheTest("of rank 1")
        ringup.barrier()

    with pytest.raises(JobFailed, match="(?s)^rank 1 on .*OfTheTest: of rank 1.*Traceback") as e:
        HorovodRunner(np=2).run(main)
    assert isinstance(e.value.__cause__, OfTheTest) and e.value.rank == 1


def test_a_rank_that_is_killed_is_named_and_children_die(spark, leaves_nothing):
    def main():
        import subprocess

        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        if os.environ["HOROVOD_RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        child.wait()

    with pytest.raises(JobFailed, match=r"^rank 1 on .* killed by signal 9 \(SIGKILL\)") as e:
        HorovodRunner(np=2).run(main)
    assert (e.value.rank, e.value.signal) == (1, 9)


def test_the_next_run_sees_nothing_of_the_last(spark):
    def main():
        seen = getattr(os, "left_behind", None), os.environ.get("LEFT_BEHIND")
        os.left_behind = os.environ["LEFT_BEHIND"] = "x"
        return seen

    assert spark_run(main, num_proc=2) == [(None, None)] * 2
    assert spark_run(main, num_proc=2) == [(None, None)] * 2


def test_a_worker_of_spark_that_is_killed_ends_the_job(spark, leaves_nothing):
    def main():
        with open(f"/proc/{os.environ['TEST_WORKER']}/stat", encoding="ascii"):
            pass
        return 1

    def workers():
        return [pid for pid, words in daemons_children()]

    def daemons_children():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    marked = MARK.encode() in f.read().split(b"\0")
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    words = f.read()
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                    parent = int(f.read().rpartition(")")[2].split()[1])
                with open(f"/proc/{parent}/cmdline", "rb") as f:
                    of_daemon = b"pyspark.daemon" in f.read()
            except OSError:
                continue
            if marked and of_daemon and b"pyspark.daemon" in words:
                yield int(pid), words

    def hang():
        print("started", flush=True)
        time.sleep(1000)

    from ringup.spark import stage

    killed = threading.Event()
    output = stage.to_stdout()

    def once(line):
        if not killed.is_set():
            killed.set()
            for pid in workers():
                os.kill(pid, signal.SIGKILL)

    output.stdout = once
    with pytest.raises(JobFailed):
        spark_run(hang, num_proc=2, output=output)
    assert killed.is_set()
    assert spark_run(lambda: 5, num_proc=2) == [5, 5]


def test_an_interrupt_cancels_the_stage(spark, leaves_nothing):
    from ringup.spark import stage

    def hang():
        print("started", flush=True)
        time.sleep(1000)

    output, sent = stage.to_stdout(), threading.Event()

    def interrupt(line):
        if not sent.is_set():
            sent.set()
            os.kill(os.getpid(), signal.SIGINT)

    output.stdout = interrupt
    with pytest.raises(KeyboardInterrupt):
        spark_run(hang, num_proc=2, output=output)
    assert spark_run(lambda: 5, num_proc=2) == [5, 5]


def test_horovod_spark_run_has_upstreams_rules(spark, monkeypatch, leaves_nothing):
    import horovod.spark

    monkeypatch.setenv("HOROVOD_OF_THE_DRIVER", "1")
    out = io.StringIO()

    def fn(a, b=0):
        print("said by", os.environ["HOROVOD_RANK"])
        return a + b, os.environ["UENV"], int(os.environ["HOROVOD_RANK"])

    results = horovod.spark.run(fn, (1,), {"b": 2}, num_proc=2, env={"UENV": "u"}, stdout=out,
                                verbose=0)
    assert results == [(3, "u", 0), (3, "u", 1)]
    assert sorted(out.getvalue().splitlines()) == [f"[{r}]<stdout>:said by {r}" for r in (0, 1)]


def test_torch_distributor_in_a_stage(spark, leaves_nothing):
    def train(x):
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        t = torch.tensor([float(dist.get_rank() + x)])
        dist.all_reduce(t)
        dist.destroy_process_group()
        return t.item(), os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"]

    got = TorchDistributor(2, local_mode=False, use_gpu=False).run(train, 3)
    assert got == (7.0, "0", "2")


@pytest.mark.skipif(os.environ.get("RINGUP_TEST_LONG") != "1",
                    reason="nine ranks import torch; RINGUP_TEST_LONG=1")
def test_the_example_goes_from_one_process_to_both_runners(spark, capfd):
    import horovod.torch as hvd

    try:
        runpy.run_path(os.path.join(ROOT, "docs", "examples", "spark_digits.py"),
                       run_name="__main__")
    finally:
        hvd.shutdown()  # HorovodRunner(np=-1) is this process
    out = capfd.readouterr().out
    values = dict(re.findall(r"^([\w ]+(?:\(np=.*?\))?): ([0-9.]+)$", out, re.M))
    assert list(values) == ["one process", "HorovodRunner(np=-1)", "HorovodRunner(np=-2)",
                            "HorovodRunner(np=2)", "TorchDistributor"], out
    assert all(float(v) > 0.75 for v in values.values()), out
    assert out.count("epoch 3 of 3") == 3


@pytest.mark.skipif(os.environ.get("RINGUP_TEST_LONG") != "1",
                    reason="nine ranks import torch; RINGUP_TEST_LONG=1")
def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path):
    folder = os.environ.get("RINGUP_TEST_NOTEBOOK")
    if not folder:
        pytest.skip("no nbclient: set RINGUP_TEST_NOTEBOOK")
    sys.path.insert(0, SPARK)
    path = os.path.join(ROOT, "docs", "examples", "spark_digits.ipynb")
    program = ("import sys, nbformat; from nbclient import NotebookClient\n"
               f"book = nbformat.read({path!r}, 4)\n"
               "NotebookClient(book, timeout=None, kernel_name='python3',"
               f" resources={{'metadata': {{'path': {str(tmp_path)!r}}}}}).execute()\n"
               "print(*(o.get('text', '') for c in book.cells for o in c.get('outputs', [])))\n")
    paths = [folder, SPARK, os.environ["PYTHONPATH"]]
    p = start([sys.executable, "-c", program], PYTHONPATH=os.pathsep.join(paths),
              PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1", HOME=str(tmp_path),
              JUPYTER_PREFER_ENV_PATH="1", JUPYTER_PATH=os.path.join(
                  os.path.dirname(os.path.dirname(os.path.dirname(folder))), "share", "jupyter"))
    values = dict(re.findall(r"^ *([\w ]+(?:\(np=.*?\))?): ([0-9.]+)$", p.stdout, re.M))
    assert len(values) == 5 and all(float(v) > 0.75 for v in values.values()), p.stdout + p.stderr
    assert p.stdout.count("epoch 3 of 3") == 3


def test_dynamic_allocation_is_refused_with_the_setting(spark):
    from ringup.spark import stage

    class WithSetting:
        """The context of this session, whose configuration says something else."""

        def getConf(self):
            return spark.sparkContext.getConf().set("spark.dynamicAllocation.enabled", "true")

    with pytest.raises(RuntimeError, match="spark.dynamicAllocation.enabled=false"):
        stage.check_cluster(WithSetting())


def test_sparkdl_has_the_published_signatures():
    import inspect

    assert inspect.getfullargspec(HorovodRunner.__init__) == inspect.FullArgSpec(
        ["self"], None, None, None, ["np", "driver_log_verbosity"],
        {"driver_log_verbosity": "log_callback_only"}, {})
    assert inspect.getfullargspec(HorovodRunner.run)[:3] == (["self", "main"], None, "kwargs")
