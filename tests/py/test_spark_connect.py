# test_spark_connect.py - Spark Connect: a client whom the tasks can reach, or cannot; every end.
# SPDX-License-Identifier: Apache-2.0
#
# The standalone cluster of two hosts of test_spark_cluster.py with a Connect server on the first;
# this process is on a third host, which has a way to the first alone unless a route is added.
# RINGUP_TEST_SPARK4 is a folder with pyspark 4, pyarrow and pandas, RINGUP_TEST_CONNECT one with
# what the client of Connect needs beside.
#
# needs: waits root-net
# tests: compat/python/ringup/spark compat/python/sparkdl compat/python/horovod/spark src/launch

import ctypes
import importlib.util
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import test_spark_cluster as hosts
from conftest import HANG, ROOT

from ringup.spark import JobFailed, TorchDistributor, gather, log_to_driver, stage
from ringup.spark import run as spark_run
from sparkdl import HorovodRunner

NEEDED = os.environ.get("RINGUP_TEST_CONNECT", "")
if not NEEDED or not os.environ.get("RINGUP_TEST_SPARK4"):
    pytest.skip("no pyspark[connect]: set RINGUP_TEST_SPARK4 and RINGUP_TEST_CONNECT",
                allow_module_level=True)
CLIENT = f"spc{os.getpid()}"
SERVER = "sc://10.78.0.1:15002"
TEST_MODULES = [sys.modules[__name__], hosts]


class OfTheTest(Exception):
    """A class that the workers know from the client only."""


def give_entry_points(folder):
    """A distribution by which torch finds the back end, as an installed ringup has it."""
    spec = importlib.util.spec_from_file_location(
        "build_ringup", os.path.join(ROOT, "compat", "python", "build_ringup.py"))
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    info = os.path.join(folder, f"ringup-{build.version()}.dist-info")
    os.makedirs(info)
    for name, text in (("METADATA", build.METADATA.format(version=build.version())),
                       ("entry_points.txt", build.ENTRY_POINTS)):
        with open(os.path.join(info, name), "w", encoding="utf-8") as f:
            f.write(text)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster with a Connect server; this process is on the client's host from now on."""
    folder = str(tmp_path_factory.mktemp("cluster"))
    info = os.path.join(folder, "info")
    give_entry_points(info)
    os.environ["PYTHONPATH"] = os.pathsep.join([info, NEEDED, os.environ["PYTHONPATH"]])
    ip, a, b = hosts.ip, hosts.HOSTS["a"][0], hosts.HOSTS["b"][0]
    started = []
    try:
        for namespace in (a, b, CLIENT):
            ip("netns", "add", namespace)
            ip("-n", namespace, "link", "set", "lo", "up")
        for left, name, right, one, two in ((a, "eth0", b, "10.77.0.1", "10.77.0.2"),
                                            (a, "eth1", CLIENT, "10.78.0.1", "10.78.0.2")):
            ip("-n", left, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns",
               right)
            for namespace, link, address in ((left, name, one), (right, "eth0", two)):
                ip("-n", namespace, "addr", "add", f"{address}/24", "dev", link)
                ip("-n", namespace, "link", "set", link, "up")
        ip("-n", b, "route", "add", "10.78.0.0/24", "via", "10.77.0.1")
        ip("netns", "exec", a, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        started.append(hosts.serve("a", folder, "org.apache.spark.deploy.master.Master", "--host",
                                   "10.77.0.1", "--port", "7077", "--webui-port", "0"))
        for host, (_, address) in hosts.HOSTS.items():
            started.append(hosts.serve(
                host, folder, "org.apache.spark.deploy.worker.Worker", "--host", address,
                "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir",
                os.path.join(folder, f"work-{host}"), hosts.MASTER))
        started.append(hosts.serve(
            "a", folder, "org.apache.spark.deploy.SparkSubmit", "--class",
            "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", hosts.MASTER,
            *(word for setting in (
                "spark.ui.enabled=false", "spark.driver.host=10.77.0.1",
                "spark.executor.memory=512m", f"spark.local.dir={folder}",
                f"spark.sql.warehouse.dir={folder}") for word in ("--conf", setting)),
            "spark-internal", SPARK_DAEMON_MEMORY="768m"))
        with open(f"/run/netns/{CLIENT}", "rb") as f:
            assert ctypes.CDLL(None, use_errno=True).setns(f.fileno(), hosts.CLONE_NEWNET) == 0
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
        for namespace in (a, b, CLIENT):
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


@pytest.fixture(scope="module")
def spark(cluster):
    sys.path[:0] = [hosts.SPARK, NEEDED]
    name, value = hosts.MARK.split("=")
    os.environ[name] = value

    def answers():
        try:
            socket.create_connection(("10.78.0.1", 15002), 1).close()
            return True
        except OSError:
            return False

    with open(os.path.join(cluster, "a.SparkSubmit.log"), encoding="utf-8") as log:
        assert any(hosts.eventually(answers) for _ in range(4)), log.read()[-2000:]
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(SERVER).getOrCreate()
    context = stage.context()
    # A server without executors says two, too.
    assert session.range(0, 2, 1, 2).mapInArrow(lambda it: it, "id long", barrier=True).count() == 2
    assert context.slots() == 2
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def by_value(monkeypatch):
    """These files are modules of their own, and no worker has them."""
    monkeypatch.setattr(gather, "by_value", lambda: TEST_MODULES)


@pytest.fixture(autouse=True)
def leaves_nothing(spark):
    """Nothing of a job is left on any host."""
    yield
    assert hosts.eventually(lambda: not ranks()), ranks()


def ranks():
    """Processes of jobs, but not Spark's own."""
    return {pid: words for pid, words in hosts.of_jobs().items()
            if "spark-internal" not in words and "spark-submit" not in words}


@pytest.fixture(params=["apart", "reached"])
def client(request, spark):
    """Can both tasks connect to this process?  Without a route back to the second host, one can,
    and the other hears nothing."""
    route = ["10.77.0.0/24", "via", "10.78.0.1"]
    if request.param == "reached":
        hosts.ip("-n", CLIENT, "route", "add", *route)
    yield request.param
    if request.param == "reached":
        hosts.ip("-n", CLIENT, "route", "del", *route)


def test_ranks_run_and_what_they_say_comes_back(client, capfd, monkeypatch):
    monkeypatch.setenv("HOROVOD_MY_SETTING", "travels")

    def main(base):
        import horovod.torch as hvd
        import torch

        hvd.init()
        x = hvd.allreduce(torch.tensor([float(base + hvd.rank())]), op=hvd.Sum)
        print(f"rank {hvd.rank()} of {hvd.size()}")
        log_to_driver(f"told by {hvd.rank()}")
        return (hvd.rank(), hvd.local_size(), hvd.cross_size(), x.item(),
                os.environ["HOROVOD_MY_SETTING"], os.environ["GLOO_SOCKET_IFNAME"])

    value = HorovodRunner(np=2, driver_log_verbosity="all").run(main, base=10)
    assert value == (0, 1, 2, 21.0, "travels", "eth0")
    out = capfd.readouterr().out.splitlines()
    assert {"[0]<stdout>:rank 0 of 2", "[1]<stdout>:rank 1 of 2", "told by 0",
            "told by 1"} <= set(out)


def test_horovod_spark_run_has_upstreams_rules(client):
    import horovod.spark

    out = io.StringIO()

    def fn(a, b=0):
        print("said by", os.environ["HOROVOD_RANK"])
        return a + b, int(os.environ["HOROVOD_RANK"])

    assert horovod.spark.run(fn, (1,), {"b": 2}, stdout=out, verbose=0) == [(3, 0), (3, 1)]
    assert sorted(out.getvalue().splitlines()) == [f"[{r}]<stdout>:said by {r}" for r in (0, 1)]


def test_a_rank_that_raises_while_another_waits_is_named(client):
    def main():
        import ringup

        ringup.init()
        if ringup.rank() == 1:
            raise OfTheTest("of rank 1")
        ringup.barrier()

    with pytest.raises(JobFailed, match="(?s)^rank 1 on .*OfTheTest: of rank 1.*Traceback") as e:
        HorovodRunner(np=2).run(main)
    assert isinstance(e.value.__cause__, OfTheTest) and e.value.rank == 1


def test_a_rank_that_is_killed_is_named_and_children_die(client):
    def main():
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        if os.environ["HOROVOD_RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        child.wait()

    with pytest.raises(JobFailed, match=r"^rank 1 on .* killed by signal 9 \(SIGKILL\)") as e:
        HorovodRunner(np=2).run(main)
    assert (e.value.rank, e.value.signal) == (1, 9)


def test_an_interrupt_cancels_the_stage(client):
    def act():
        if hosts.eventually(lambda: len(hosts.processes("sleep 1000")) == 2):
            os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=act)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        spark_run(hosts.hang, num_proc=2)
        interrupter.join()
    assert spark_run(lambda: 5, num_proc=2) == [5, 5]


def test_an_executor_that_is_killed_ends_the_job(client):
    def act():
        if hosts.eventually(lambda: len(hosts.processes("sleep 1000")) == 2):
            hosts.kill("CoarseGrainedExecutorBackend", only_on="b")

    killer = threading.Thread(target=act)
    killer.start()
    with pytest.raises(JobFailed, match="connection lost|Spark has ended|Spark could not"):
        spark_run(hosts.hang, num_proc=2)
    killer.join()
    assert spark_run(lambda: 5, num_proc=2, start_timeout=HANG) == [5, 5]


def test_too_few_slots_are_told(client):
    with pytest.raises(JobFailed, match="3 ranks need 3 task slots .* have 2"):
        spark_run(int, num_proc=3, start_timeout=1)


def test_a_busy_slot_is_told_after_the_start_timeout(client):
    hold = threading.Thread(target=lambda: spark_run(lambda: time.sleep(12), num_proc=1))
    hold.start()
    assert hosts.eventually(lambda: hosts.processes("ringup.spark.call"))
    with pytest.raises(JobFailed, match="Timed out waiting for Spark tasks to start: 0 of 2"):
        spark_run(int, num_proc=2, start_timeout=3)
    hold.join(HANG)


def test_results_of_many_rows(client):
    assert [len(r) for r in spark_run(lambda: bytes(20 << 20), num_proc=2)] == [20 << 20] * 2


def ddp(name):
    import torch
    import torch.distributed as dist

    dist.init_process_group(name)
    t = torch.ones(1) * (dist.get_rank() + 1)
    dist.all_reduce(t)
    dist.destroy_process_group()
    return t.item()


def test_torch_distributor(client):
    ours = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False)
    assert [ours.run(ddp, name) for name in ("gloo", "ringup")] == [3.0, 3.0]


NOTEBOOK = """
import os, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[2]").getOrCreate()
from pyspark.ml.torch.distributor import TorchDistributor
from sparkdl import HorovodRunner

def train(name):
    import torch
    import torch.distributed as dist

    dist.init_process_group(name)
    t = torch.ones(1) * (dist.get_rank() + 1)
    dist.all_reduce(t)
    dist.destroy_process_group()
    return t.item()

def work():
    import horovod.torch as hvd
    import torch

    hvd.init()
    return hvd.size(), hvd.allreduce(torch.ones(2) * (hvd.rank() + 1)).tolist()

print([HorovodRunner(np=n).run(work) for n in (2, -2)],
      TorchDistributor(2, False, False).run(train, "ringup"))
spark.stop()
"""


def test_a_session_on_this_host_and_pyspark_s_own_torch_distributor(spark, tmp_path):
    """pyspark's own listens at the address of Spark's driver, which a client elsewhere cannot."""
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    p = subprocess.run([sys.executable, "notebook.py"], cwd=tmp_path, capture_output=True,
                       text=True, timeout=240, check=False,
                       env=hosts.host_environment("127.0.0.1"))
    assert "[(2, [1.5, 1.5]), (2, [1.5, 1.5])] 3.0" in p.stdout, p.stdout + p.stderr


OLD_CLIENT = """
import pyspark, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
import horovod.spark

def work(fails):
    import ringup
    ringup.init()
    ringup.barrier()
    if fails:
        raise KeyError(ringup.rank())
    return ringup.rank()

print(pyspark.__version__, horovod.spark.run(work, (False,), verbose=0))
try:
    horovod.spark.run(work, (True,), verbose=0)
except RuntimeError as e:
    print(e.rank, type(e.__cause__))
"""


def test_a_client_of_spark_3_5(client, tmp_path):
    old = os.environ.get("RINGUP_TEST_SPARK")
    if not old:
        pytest.skip("no pyspark 3.5: set RINGUP_TEST_SPARK")
    (tmp_path / "old.py").write_text(OLD_CLIENT)
    env = hosts.host_environment("10.78.0.2")
    env["PYTHONPATH"] = os.pathsep.join([old, env["PYTHONPATH"]])
    del env["SPARK_HOME"]
    p = subprocess.run([sys.executable, "old.py", SERVER], cwd=tmp_path, capture_output=True,
                       text=True, timeout=240, check=False, env=env)
    assert re.fullmatch(r"3\.5\.\d+ \[0, 1\]\n[01] <class 'KeyError'>\n", p.stdout), \
        p.stdout + p.stderr
    assert ("ranks' output comes when" in p.stderr) <= (client == "apart")


def test_an_elastic_job_needs_tasks_that_reach_the_client(client, tmp_path):
    import horovod.spark

    (tmp_path / "go").touch()

    def elastic():
        return horovod.spark.run_elastic(hosts.elastic, (3, str(tmp_path / "go")), num_proc=2,
                                         verbose=0)

    if client == "reached":
        assert elastic() == [(0, [2] * 3), (1, [2] * 3)]
    else:
        with pytest.raises(JobFailed, match="cannot connect to the client of Spark Connect at "
                                            r"10.78.0.2 port .*horovod.spark.run\(\)"):
            elastic()


def test_a_function_that_is_too_large_is_told(spark):
    data = os.urandom(140 << 20)
    with pytest.raises(JobFailed, match="Spark Connect: .*134217728"):
        spark_run(lambda: len(data), num_proc=2)
