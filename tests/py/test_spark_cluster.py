# test_spark_cluster.py - a standalone Spark cluster of two hosts: where ranks are, and every end.
# SPDX-License-Identifier: Apache-2.0
#
# Two network namespaces with a worker each; the master and this process are in the first one.
# RINGUP_TEST_SPARK4, or else RINGUP_TEST_SPARK, is a folder with pyspark.
#
# needs: waits root-net
# tests: compat/python/ringup/spark compat/python/sparkdl compat/python/horovod/spark src/launch

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import pytest
from conftest import HANG

from ringup.spark import JobFailed, TorchDistributor, gather, stage
from ringup.spark import run as spark_run
from sparkdl import HorovodRunner

SPARK = os.environ.get("RINGUP_TEST_SPARK4") or os.environ.get("RINGUP_TEST_SPARK", "")
if not SPARK:
    pytest.skip("no pyspark: set RINGUP_TEST_SPARK", allow_module_level=True)
if not shutil.which("java"):
    pytest.skip("no Java: apt-get install openjdk-17-jre-headless", allow_module_level=True)
if os.geteuid() != 0 or not shutil.which("ip"):
    pytest.skip("needs root and ip, to make namespaces", allow_module_level=True)
CLONE_NEWNET = 0x40000000
SOON = 60  # seconds in which a machine that does anything at all has done what is waited for
MARK = f"SPARK_TEST_MARK={os.getpid()}"
HOSTS = {"a": (f"spa{os.getpid()}", "10.77.0.1"), "b": (f"spb{os.getpid()}", "10.77.0.2")}
MASTER = "spark://10.77.0.1:7077"


class OfTheTest(Exception):
    """A class that the workers know from the driver only."""


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def processes(*parts):
    """{pid: words} of live processes with the mark whose command line has all parts."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                env = f.read().split(b"\0")
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().replace(b"\0", b" ").decode(errors="replace")
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                state = f.read().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if MARK.encode() in env and state != "Z" and int(pid) != os.getpid() and \
                all(part in words for part in parts):
            found[int(pid)] = words
    return found


def of_jobs():
    """Processes of ranks, daemons and what they have started: neither Java nor Spark's Python."""
    return {pid: words for pid, words in processes().items()
            if "java" not in words.split(" ")[0] and "pyspark.daemon" not in words
            and "bin/spark-class" not in words}


def eventually(condition):
    """Wait until it holds; False if that has not come in a time in which everything hangs."""
    deadline = time.monotonic() + SOON
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return value


def host_environment(address):
    """What a service of Spark has on its host."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("HOROVOD", "PYTEST"))}
    name, value = MARK.split("=")
    return {**keep, name: value, "SPARK_LOCAL_IP": address, "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": os.path.join(SPARK, "pyspark"),
            "PYTHONPATH": os.pathsep.join([SPARK, os.environ["PYTHONPATH"]])}


def serve(host, folder, *words, **env):
    """Start a service of Spark on a host, with more in its environment."""
    namespace, address = HOSTS[host]
    log = open(os.path.join(folder, f"{host}.{words[0].rpartition('.')[2]}.log"), "wb")
    with log:
        return subprocess.Popen(
            ["ip", "netns", "exec", namespace, os.path.join(SPARK, "pyspark/bin/spark-class"),
             *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**host_environment(address), **env})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The folder of a cluster that runs; this process is on its first host from now on."""
    folder = str(tmp_path_factory.mktemp("cluster"))
    started = []
    try:
        for namespace, _ in HOSTS.values():
            ip("netns", "add", namespace)
        ip("-n", HOSTS["a"][0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0",
           "netns", HOSTS["b"][0])
        for namespace, address in HOSTS.values():
            ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", namespace, "link", "set", "lo", "up")
            ip("-n", namespace, "link", "set", "eth0", "up")
        with open(f"/run/netns/{HOSTS['a'][0]}", "rb") as f:
            assert ctypes.CDLL(None, use_errno=True).setns(f.fileno(), CLONE_NEWNET) == 0
        started.append(serve("a", folder, "org.apache.spark.deploy.master.Master", "--host",
                             "10.77.0.1", "--port", "7077", "--webui-port", "0"))
        for host, (_, address) in HOSTS.items():
            started.append(serve(host, folder, "org.apache.spark.deploy.worker.Worker", "--host",
                                 address, "--cores", "1", "--memory", "1g", "--webui-port", "0",
                                 "--work-dir", os.path.join(folder, f"work-{host}"), MASTER))
        yield folder
    finally:
        for p in reversed(started):
            p.terminate()
        for p in started:
            try:
                p.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
        for namespace, _ in HOSTS.values():
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


def session_of(folder):
    """A session on the cluster."""
    from pyspark.sql import SparkSession

    session = (SparkSession.builder.master(MASTER).appName("ringup-test")
               .config("spark.ui.enabled", "false").config("spark.driver.host", "10.77.0.1")
               .config("spark.executor.memory", "512m").config("spark.driver.memory", "512m")
               .config("spark.local.dir", folder).config("spark.sql.warehouse.dir", folder)
               .getOrCreate())
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="module")
def spark(cluster):
    sys.path.insert(0, SPARK)
    os.environ.update(host_environment("10.77.0.1"))
    session = session_of(cluster)
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


@pytest.fixture(autouse=True)
def leaves_nothing(spark):
    """Nothing of a job is left on either host, and the cluster is whole for the next test."""
    assert eventually(lambda: stage.slots(spark.sparkContext) == 2)
    yield
    assert eventually(lambda: not of_jobs()), of_jobs()


def whereabouts():
    import ringup

    ringup.init()
    ringup.barrier()
    return (ringup.rank(), ringup.local_rank(), ringup.local_size(), ringup.host_rank(),
            ringup.host_count(), os.environ.get("HOROVOD_MY_SETTING"), os.environ.get("NOT_OURS"),
            os.environ["GLOO_SOCKET_IFNAME"])


def test_ranks_are_on_two_hosts_and_get_what_travels(spark, monkeypatch):
    monkeypatch.setenv("HOROVOD_MY_SETTING", "travels")
    monkeypatch.setenv("NOT_OURS", "stays")
    assert spark_run(whereabouts, num_proc=2) == [
        (r, 0, 1, r, 2, "travels", None, "eth0") for r in (0, 1)]


def test_of_the_driver_nothing_travels_with_horovod_spark_run(spark, monkeypatch):
    import horovod.spark

    monkeypatch.setenv("HOROVOD_MY_SETTING", "stays")
    results = horovod.spark.run(whereabouts, num_proc=2, verbose=0)
    assert [r[5:7] for r in results] == [(None, None)] * 2


def test_ranks_of_both_hosts_import_what_only_the_driver_has(spark, tmp_path, monkeypatch):
    """Folders of this process's own: a rank's host has none of that name."""
    import horovod.spark

    folder = tmp_path / "note"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_text(
        "import os\nHERE = os.path.dirname(__file__)\n"
        "def words(): return open(os.path.join(HERE, 'w')).read()\n")
    (folder / "pkg" / "w").write_text("words")
    (folder / "helpers.py").write_text("import threading, pkg\nL = threading.Lock()\n"
                                       "def f(x): return pkg.words(), x\n")
    monkeypatch.syspath_prepend(str(folder))
    import helpers
    real = gather.gather

    def gone(*args):
        data = real(*args)
        os.rename(folder, tmp_path / "away")
        return data

    def main(x=3):
        import helpers as again
        return helpers.f(x), again is helpers, again.__file__.startswith(str(folder))

    monkeypatch.setattr(gather, "gather", gone)
    for run in (lambda: HorovodRunner(np=2).run(main),
                lambda: horovod.spark.run(main, num_proc=2, verbose=0)[1],
                lambda: TorchDistributor(2, False, False).run(main),
                lambda: horovod.spark.run_elastic(main, num_proc=2, verbose=0)[0]):
        assert run() == (("words", 3), True, False)
        os.rename(tmp_path / "away", folder)
    for name in ("helpers", "pkg"):
        sys.modules.pop(name)
    assert eventually(lambda: not [n for n in os.listdir(tempfile.gettempdir())
                           if n.startswith("ringup-files.")])


def test_what_frameworks_read_is_the_driver_s(spark, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert HorovodRunner(np=2).run(lambda: os.environ.get("KERAS_BACKEND")) == "torch"


def test_ranks_are_as_many_as_spark_can_run_without_a_number(spark, monkeypatch, capfd):
    import horovod.spark

    sc = spark.sparkContext
    conf = sc.getConf().set("spark.task.cpus", "2")
    monkeypatch.setattr(type(sc), "getConf", lambda self: conf)
    assert horovod.spark.run(lambda: os.environ["HOROVOD_SIZE"]) == ["1"]
    assert "Running 1 processes" in capfd.readouterr().out


def test_too_few_slots_are_told_after_the_start_timeout(spark):
    with pytest.raises(JobFailed, match="3 ranks need 3 task slots .* have 2"):
        spark_run(int, num_proc=3, start_timeout=1)


def test_a_rank_of_the_other_host_raises_while_one_computes(spark):
    def main():
        if os.environ["RANK"] == "1":
            raise OfTheTest("of rank 1")
        while True:
            sum(range(1000000))

    with pytest.raises(JobFailed, match="(?s)^rank 1 on .*OfTheTest: of rank 1") as e:
        HorovodRunner(np=2).run(main)
    assert isinstance(e.value.__cause__, OfTheTest)


def started_ranks(spark, fn, act, **how):
    """Run fn, whose ranks print a line when they have started; act() once both have."""
    output, seen = stage.to_stdout(), []

    def line(text):
        seen.append(text)
        if len(seen) == 2:
            act()

    output.stdout = line
    return spark_run(fn, num_proc=2, output=output, **how)


def hang():
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("started", flush=True)
    time.sleep(1000)


def name_of(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
        return f.read().strip()


def kill(*parts, without="\0", only_on=None, name=None):
    """SIGKILL for the processes of that command line, of a host's namespace if one is named, or
    those with this name: the daemon's guard has another one, and the same words."""
    inode = os.stat(f"/run/netns/{HOSTS[only_on][0]}").st_ino if only_on else None
    for pid, words in processes(*parts).items():
        if without not in words and (not name or name_of(pid) == name) and (
                inode is None or os.stat(f"/proc/{pid}/ns/net").st_ino == inode):
            os.kill(pid, signal.SIGKILL)


def test_a_rank_of_the_other_host_is_killed(spark):
    with pytest.raises(JobFailed, match=r"^rank [01] on .* killed by signal 9 \(SIGKILL\)") as e:
        started_ranks(spark, hang, lambda: kill("-m ringup.spark.call", without=" rankd ",
                                                 only_on="b"))
    assert e.value.signal == 9 and e.value.exit_status is None


def test_an_executor_is_killed(spark):
    with pytest.raises(JobFailed, match="executor \\d+ lost: it was killed by SIGKILL"):
        started_ranks(spark, hang, lambda: kill("CoarseGrainedExecutorBackend", only_on="b"))
    assert eventually(lambda: stage.slots(spark.sparkContext) == 2)
    assert spark_run(lambda: 5, num_proc=2) == [5, 5]


def test_spark_s_python_is_killed(spark):
    with pytest.raises(JobFailed, match="connection lost|Spark has ended the tasks"):
        started_ranks(spark, hang, lambda: kill("pyspark.daemon", only_on="b"))
    assert spark_run(lambda: 5, num_proc=2) == [5, 5]


def test_the_rank_daemon_is_killed(spark):
    with pytest.raises(JobFailed, match="connection lost"):
        started_ranks(spark, hang, lambda: kill(" rankd ", only_on="b", name="ringup"))


def test_an_interrupt_ends_ranks_of_both_hosts(spark):
    with pytest.raises(KeyboardInterrupt):
        started_ranks(spark, hang, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert spark_run(lambda: 5, num_proc=2) == [5, 5]


def test_the_stage_is_cancelled(spark):
    with pytest.raises(JobFailed, match="(?i)cancel|connection lost"):
        started_ranks(spark, hang, spark.sparkContext.cancelAllJobs)


def test_two_jobs_at_once_do_not_know_each_other(spark):
    results = {}

    def one(name):
        try:
            results[name] = spark_run(lambda: (os.environ["SIZE_IS"], name), num_proc=1,
                                      env={"SIZE_IS": "1"})
        except Exception as e:  # the thread's own report would go nowhere
            results[name] = e

    threads = [threading.Thread(target=one, args=(n,)) for n in "xy"]
    for t in threads:
        t.start()
    for t in threads:
        t.join(HANG)
    assert results == {"x": [("1", "x")], "y": [("1", "y")]}


def test_a_result_of_200_megabytes(spark):
    results = spark_run(lambda: bytes(200 << 20), num_proc=2)
    assert [len(r) for r in results] == [200 << 20] * 2


def test_a_busy_slot_is_told_after_the_start_timeout(spark):
    hold = threading.Thread(target=lambda: spark_run(
        lambda: time.sleep(8), num_proc=1, output=stage.to_stdout()))
    hold.start()
    eventually(lambda: processes("ringup.spark.call"))
    with pytest.raises(JobFailed, match="Timed out waiting for Spark tasks to start: 0 of 2"):
        spark_run(int, num_proc=2, start_timeout=2)
    hold.join(HANG)


def test_the_timeline_recipe(spark, tmp_path, monkeypatch):
    def run_training_horovod(params):
        import horovod.torch as hvd
        import torch

        hvd.init()
        hvd.allreduce(torch.ones(params["n"]), name="gradient")
        return hvd.size()

    folder = tmp_path / "horovod-timeline"
    os.makedirs(folder)
    monkeypatch.setenv("HOROVOD_TIMELINE", f"{folder}/horovod_timeline.json")
    assert HorovodRunner(np=2).run(run_training_horovod, params={"n": 3}) == 2
    with open(folder / "horovod_timeline.json", encoding="utf-8") as f:
        assert "gradient" in json.dumps(json.load(f))


def test_torch_ranks_of_two_hosts_find_each_other(spark):
    def train(lr, use_gpu):
        import torch
        import torch.distributed as dist

        dist.init_process_group("nccl" if use_gpu else "gloo")
        t = torch.tensor([lr * (1 + dist.get_rank())])
        dist.all_reduce(t)
        dist.destroy_process_group()
        return round(t.item(), 6), os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"]

    got = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False).run(train, 0.5, False)
    assert got == (1.5, "0", "1")


def test_pyspark_s_own_torch_distributor_is_as_it_was(spark, monkeypatch, capfd):
    """Unmodified, with gloo: ringup is not in its way, and its interface is the one to be named."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    from pyspark.ml.torch.distributor import TorchDistributor as Theirs

    def train(x):
        import os
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        t = torch.tensor([float(dist.get_rank() + x)])
        dist.all_reduce(t)
        dist.destroy_process_group()
        return t.item(), os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"]

    theirs = Theirs(num_processes=2, local_mode=False, use_gpu=False).run(train, 3)
    ours = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False).run(train, 3)
    assert theirs == ours == (7.0, "0", "1")


def test_an_exit_of_a_rank_is_named_while_the_other_sleeps(spark):
    def main():
        if os.environ["RANK"] == "0":
            os._exit(3)
        time.sleep(1000)

    with pytest.raises(JobFailed, match="^rank 0 on .* exited with status 3") as e:
        HorovodRunner(np=2).run(main)
    assert e.value.exit_status == 3


def test_children_of_a_rank_do_not_outlive_a_job_that_succeeds(spark):
    def main():
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        return 1

    assert spark_run(main, num_proc=2) == [1, 1]


def test_an_executor_is_lost_before_the_ranks_start(spark, monkeypatch):
    real, done = stage.Lobby.wait, []

    def wait(self, seconds):
        """The stage has begun when a task has connected; then it waits no more, for the task that
        is lost may have connected, too."""
        with self.changed:
            self.changed.wait_for(lambda: self.tasks and not done, seconds)
            if self.tasks and not done:
                done.append(kill("CoarseGrainedExecutorBackend", only_on="b"))
        return False

    monkeypatch.setattr(stage.Lobby, "wait", wait)
    with pytest.raises(JobFailed, match="Spark could not start the tasks"):
        spark_run(int, num_proc=2)
    monkeypatch.setattr(stage.Lobby, "wait", real)
    assert eventually(lambda: stage.slots(spark.sparkContext) == 2)
    assert spark_run(lambda: 5, num_proc=2) == [5, 5]


def elastic(steps, marker):
    """An elastic training of so many steps; it waits in step 3 until the file says to go on."""
    import horovod.torch as hvd
    import torch

    hvd.init()
    state = hvd.elastic.TorchState(step=0, seen=[])

    @hvd.elastic.run
    def train(state):
        while state.step < steps:
            if state.step == 3 and not os.path.exists(marker):
                if hvd.rank() == 0 and state.seen == [2, 2, 2]:
                    print("waits", flush=True)
                while not os.path.exists(marker):
                    hvd.allreduce(torch.zeros(1), name="alive")
                    time.sleep(0.1)
            hvd.allreduce(torch.ones(1), name="step")
            state.seen = state.seen + [hvd.size()]
            state.step += 1
            state.commit()
        return hvd.rank(), state.seen

    return train(state)


def test_an_elastic_job_ends_with_the_results_of_its_ranks(spark, tmp_path):
    import horovod.spark

    (tmp_path / "go").touch()
    results = horovod.spark.run_elastic(elastic, (5, str(tmp_path / "go")), num_proc=2, verbose=0)
    assert results == [(0, [2] * 5), (1, [2] * 5)]


def test_an_elastic_job_survives_the_loss_of_an_executor(spark, tmp_path):
    import horovod.spark

    class Act:
        """A stream that kills an executor when rank 0 waits, and lets the others go on when that
        has been noticed."""

        def write(self, line):
            if "waits" in line:
                kill("CoarseGrainedExecutorBackend", only_on="b")
            if "connection lost" in line:
                (tmp_path / "go").touch()

    results = horovod.spark.run_elastic(elastic, (8, str(tmp_path / "go")), num_proc=2,
                                        min_num_proc=1, stdout=Act(), stderr=Act(), verbose=0)
    assert results and all(len(seen) == 8 for _, seen in results), results
    assert sorted(rank for rank, _ in results) == list(range(len(results)))


def digits(spark):
    """Handwritten digits as a DataFrame: a vector, a class, and whether the row is held back."""
    from pyspark.ml.linalg import Vectors
    from sklearn.datasets import load_digits

    data = load_digits()
    return spark.createDataFrame(
        [(Vectors.dense((x / 16).tolist()), int(y), i % 5 == 0)
         for i, (x, y) in enumerate(zip(data.data, data.target))], ["x", "y", "held"])


def test_an_estimator_fits_and_transforms(spark, tmp_path, capfd):
    pytest.importorskip("pyarrow")
    import horovod.spark.torch as hvd
    import torch
    from horovod.spark.common.store import Store

    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    before = [p.detach().clone() for p in model.parameters()]
    store = Store.create(str(tmp_path / "store"))

    def right(output, label):
        return (output.argmax(1) == label).float().mean()

    estimator = hvd.TorchEstimator(
        num_proc=2, store=store, model=model, loss=torch.nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), metrics=[right],
        feature_cols=["x"], label_cols=["y"], validation="held", batch_size=16, epochs=4,
        random_seed=1, run_id="run", verbose=1)
    df = digits(spark)
    fitted = estimator.fit(df).setOutputCols(["digit"])
    history = fitted.getHistory()
    assert [e["epoch"] for e in history] == [0, 1, 2, 3]
    assert history[-1]["validation"]["right"] > 0.85 and history[-1]["validation"]["loss"] < 1
    assert "epoch 4 of 4" in capfd.readouterr().out
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before)), "the model is ours"
    rows = fitted.transform(df.filter("held")).collect()
    good = sum(r["digit"].toArray().argmax() == r["y"] for r in rows)
    assert len(rows) == 360 and good / 360 > 0.85 and rows[0].asDict().keys() == {
        "x", "y", "held", "digit"}
    saved = torch.load(store.get_checkpoint_file("run"), weights_only=True)["model"]
    assert all(torch.equal(saved[k], v) for k, v in fitted.getModel().state_dict().items())
    assert not store.exists(store.get_train_data_path("run"))


def test_an_estimator_of_two_outputs_with_weights(spark, tmp_path):
    pytest.importorskip("pyarrow")
    import horovod.spark.torch as hvd
    import torch
    from horovod.spark.common.store import LocalStore
    from pyspark.ml import Pipeline

    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one = torch.nn.Linear(2, 1)

        def forward(self, a, b):
            out = self.one(torch.stack([a, b], 1))
            return out, 2 * out

    df = spark.createDataFrame([(float(i % 7), float(i % 5), 2.0 * (i % 7) + i % 5,
                                 4.0 * (i % 7) + 2 * (i % 5), 1.0) for i in range(200)],
                               ["a", "b", "y", "z", "w"])
    model = Two()
    estimator = hvd.TorchEstimator(
        num_proc=2, store=LocalStore(f"file://{tmp_path}/store"), model=model, verbose=0,
        optimizer=torch.optim.Adam(model.parameters(), lr=0.1), feature_cols=["a", "b"],
        loss=[torch.nn.functional.mse_loss] * 2, label_shapes=[[-1, 1]] * 2, epochs=20,
        label_cols=["y", "z"], sample_weight_col="w", batch_size=20, random_seed=2)
    fitted = Pipeline(stages=[estimator]).fit(df)
    rows = fitted.transform(df).collect()
    assert max(abs(r["y__output"] - r["y"]) + abs(r["z__output"] - r["z"]) for r in rows) < 2


def test_what_an_estimator_does_not_have_is_told(spark):
    pytest.importorskip("pyarrow")
    import horovod.spark.torch as hvd
    from horovod.spark.common.store import Store

    with pytest.raises(ValueError, match="does not support callbacks"):
        hvd.TorchEstimator(callbacks=[1])
    with pytest.raises(TypeError, match="no parameter epoch"):
        hvd.TorchEstimator(epoch=1)
    with pytest.raises(ValueError, match="needs store, model, optimizer, loss"):
        hvd.TorchEstimator(feature_cols=["x"], label_cols=["y"]).fit(digits(spark))
    with pytest.raises(ValueError, match="only supports stores in folders"):
        Store.create("hdfs://name/path")
    assert hvd.TorchEstimator(epochs=2).setEpochs(3).getEpochs() == 3


def run_driver(folder, path, act):
    """Run a driver of its own; act(its process) when both of its ranks have started."""
    path.write_text(textwrap.dedent("""
        import subprocess, sys, time
        from pyspark.sql import SparkSession
        from sparkdl import HorovodRunner

        (SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
         .config("spark.driver.host", "10.77.0.1").config("spark.executor.memory", "512m")
         .config("spark.local.dir", sys.argv[2]).getOrCreate())

        def main():
            import subprocess, time
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
            print("started", flush=True)
            time.sleep(1000)

        HorovodRunner(np=2, driver_log_verbosity="all").run(main)
        """))
    with subprocess.Popen([sys.executable, str(path), MASTER, folder], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True,
                          env=host_environment("10.77.0.1")) as p:
        try:
            lines = 0
            while lines < 2 and (line := p.stdout.readline()):
                lines += "started" in line
            assert lines == 2 and len(processes("sleep 1000")) == 2
            act(p)
        finally:
            p.kill()


def descendants(pid):
    """Processes that a process has started, and theirs; first itself."""
    found = [pid]
    for parent in found:
        for task in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{task}/children", encoding="ascii") as f:
                found += [int(child) for child in f.read().split()]
    return found


def test_a_driver_that_is_frozen_or_killed_leaves_nothing(spark, cluster, tmp_path):
    """The cluster has two cores, which this session has: so it gives them back first."""
    def freeze(driver):
        stopped = descendants(driver.pid)
        assert len(stopped) >= 3, "Python, Java, ringup run"
        try:
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            assert eventually(lambda: not processes("sleep 1000")), processes()
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGKILL)

    spark.stop()
    run_driver(cluster, tmp_path / "frozen.py", freeze)
    run_driver(cluster, tmp_path / "killed.py", lambda driver: driver.kill())
