# test_ray.py - horovod.ray and ray.train over ringup, on real Ray clusters of this machine.
# SPDX-License-Identifier: Apache-2.0
#
# RINGUP_TEST_RAY is a folder with Ray.  One cluster serves most tests; those that need several
# nodes, or end the driver, start their own.
#
# needs: cpu waits
# tests: compat/python/horovod/ray compat/python/ringup/spark compat/python/ringup/job.py src/launch

import atexit
import functools
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import pytest
from conftest import HANG, ROOT, start

RAY = os.environ.get("RINGUP_TEST_RAY", "")
if not RAY:
    pytest.skip("no Ray: set RINGUP_TEST_RAY", allow_module_level=True)
sys.path.append(RAY)
MARK = f"RAY_TEST_MARK={os.getpid()}"
# The names of Ray's sockets have 107 bytes at most, and a test's own folder may be deep.
ROOM = tempfile.mkdtemp(prefix="ringup-ray.", dir="/tmp")
atexit.register(shutil.rmtree, ROOM, ignore_errors=True)
os.environ.update(dict([MARK.split("=")]), RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0",
                  RAY_TMPDIR=ROOM,
                  PYTHONPATH=os.pathsep.join([os.environ["PYTHONPATH"], RAY]))

import ray  # noqa: E402
from horovod.ray import ElasticRayExecutor, JobFailed, RayExecutor  # noqa: E402
from horovod.ray.elastic_v2 import RayHostDiscovery  # noqa: E402
from horovod.ray.runner import Coordinator, MiniSettings  # noqa: E402

long = pytest.mark.skipif("RINGUP_TEST_LONG" not in os.environ, reason="long: RINGUP_TEST_LONG=1")
init = functools.partial(ray.init, include_dashboard=False, log_to_driver=False,
                         logging_level="error")


def until(what, seconds=60):
    """Wait for something to be true."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def alive(pid):
    """Does a process live?"""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def marked(mark=MARK):
    """{pid: command} of what Ray has started for this test, but for Ray's own servers."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                env = f.read().split(b"\0")
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if mark.encode() in env and int(pid) != os.getpid() and alive(pid) and not re.search(
                "Agent|raylet|gcs_server|log_monitor|monitor.py|dashboard|ray::IDLE|default_worker",
                " ".join(words)):
            found[int(pid)] = " ".join(words)[:150]
    return found


@pytest.fixture(scope="module")
def cluster():
    """A Ray of one node with room for three ranks."""
    init(num_cpus=3)
    yield
    ray.shutdown()
    until(lambda: not marked())


@pytest.fixture
def executor(cluster):
    """Makes executors; after the test neither a rank nor the room for one is left."""
    made, pids = [], []

    def make(timeout_s=60, env=None, **how):
        settings = RayExecutor.create_settings(timeout_s=timeout_s, placement_group_timeout_s=60)
        made.append(RayExecutor(settings, **how))
        made[-1].start(extra_env_vars=env)
        if "num_workers" in how:
            pids.extend(made[-1].execute(lambda _: os.getpid()))
        return made[-1]

    yield make
    for e in made:
        e.shutdown()
    until(lambda: not any(map(alive, pids)))
    until(lambda: ray.available_resources().get("CPU") == 3)
    assert not [g for g in ray.util.placement_group_table().values() if g["state"] != "REMOVED"]


# -- RayExecutor -----------------------------------------------------------------------------------

def test_ranks_keep_an_object_and_add_up(executor):
    class Model:
        def __init__(self, step, scale=1):
            import ringup

            ringup.init()
            self.step, self.scale = step, scale

        def train(self, x):
            import array

            import ringup

            self.step += 1
            a = array.array("f", [x + ringup.rank()])
            ringup.allreduce(a, name="x")
            return self.step, a[0] * self.scale, ringup.local_rank(), ringup.local_size()

    e = executor(num_workers=2)
    e.start(executable_cls=Model, executable_args=[10], executable_kwargs={"scale": 2},
            extra_env_vars={"OF_THE_TEST": 7})
    assert e.execute(lambda m: m.train(1)) == [(11, 6.0, 0, 2), (11, 6.0, 1, 2)]
    assert e.execute(lambda m: m.train(2))[1] == (12, 10.0, 1, 2)
    assert e.execute_single(lambda m: m.step) == 12
    assert e.run(lambda a, b: (os.environ["HOROVOD_RANK"], os.environ["OF_THE_TEST"], a - b),
                 args=[5], kwargs={"b": 3}) == [("0", "7", 2), ("1", "7", 2)]
    assert ray.get(e.run_remote(lambda: os.environ["WORLD_SIZE"])) == ["2", "2"]


@pytest.mark.parametrize("how", ["num_workers", "min_workers"])
def test_ranks_find_the_modules_of_the_driver(executor, how, tmp_path, monkeypatch):
    (tmp_path / f"of_ray_test_{how}.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module(f"of_ray_test_{how}")

    def main(name):
        import importlib

        return importlib.import_module(name).double(4)

    e = executor(**{how: 1}, **({"max_workers": 1} if how == "min_workers" else {}))
    assert e.run(module.double, args=[3]) == [6]
    assert e.run(main, args=[module.__name__]) == [8]


def test_a_module_that_only_the_driver_has_is_named(executor, tmp_path, monkeypatch):
    e = executor(num_workers=1)
    (tmp_path / "only_on_the_driver.py").write_text("def one():\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="(?s)^rank 0 on .*No module named "
                       "'only_on_the_driver', which the function refers to: .*working_dir"):
        e.run(importlib.import_module("only_on_the_driver").one)


def test_callbacks_hear_of_what_ranks_log(executor):
    def tell(what):
        from horovod.ray import ray_logger

        for i in range(3):
            ray_logger.log({"rank": os.environ["HOROVOD_RANK"], what: i})

    heard = []
    e = executor(num_workers=2)
    e.run(tell, args=["n"], callbacks=[heard.append])
    assert sorted((h["rank"], h["n"]) for h in heard) == [(r, n) for r in "01" for n in range(3)]


def test_the_room_of_the_caller_is_used(cluster):
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = ray.util.placement_group([{"CPU": 1}] * 2)
    assert group.wait(HANG)

    @ray.remote
    class Caller:
        def run(self):
            e = RayExecutor(RayExecutor.create_settings(), num_workers=2)
            e.start()
            pids = e.execute(lambda _: os.getpid())
            there = len([g for g in ray.util.placement_group_table().values()
                         if g["state"] == "CREATED"])
            e.shutdown()
            return len(set(pids)), there

    caller = Caller.options(num_cpus=0, scheduling_strategy=PlacementGroupSchedulingStrategy(
        group, placement_group_capture_child_tasks=True)).remote()
    assert ray.get(caller.run.remote(), timeout=HANG) == (2, 1)
    ray.kill(caller)
    ray.util.remove_placement_group(group)


def test_arguments_are_checked_before_anything_starts():
    settings = RayExecutor.create_settings()
    for text, how in (("num_workers=None, num_hosts=None", {}),
                      ("num_workers=2, num_hosts=2", {"num_workers": 2, "num_hosts": 2}),
                      ("Both `min_workers` and `num_workers`",
                       {"num_workers": 1, "min_workers": 1}),
                      ("`max_workers` provided", {"max_workers": 2}),
                      ("max_workers=1 is less than min_workers=2",
                       {"min_workers": 2, "max_workers": 1}),
                      ("use_gpu is False", {"num_workers": 1, "gpus_per_worker": 1}),
                      ("must be >= 1: got 0",
                       {"num_workers": 1, "use_gpu": True, "gpus_per_worker": 0})):
        with pytest.raises(ValueError, match=text):
            RayExecutor(settings, **how)
    with pytest.raises(RuntimeError, match="call start"):
        RayExecutor(settings, num_workers=1).run(print)
    elastic = ElasticRayExecutor.create_settings(min_np=2)
    assert (elastic.min_num_proc, elastic.max_num_proc) == (2, None)
    with pytest.raises(ValueError, match="settings.discovery is not set"):
        ElasticRayExecutor(elastic, override_discovery=False)


def test_nodes_number_their_ranks():
    c = Coordinator(MiniSettings())
    for rank, node in enumerate("aabbb"):
        c.register("host", node, rank)
    found = c.finalize_registration()
    assert [found[r]["HOROVOD_LOCAL_RANK"] for r in range(5)] == [0, 1, 0, 1, 2]
    assert [found[r]["HOROVOD_CROSS_RANK"] for r in range(5)] == [0, 0, 1, 1, 0]
    assert [found[r]["HOROVOD_CROSS_SIZE"] for r in range(5)] == [2, 2, 2, 2, 1]
    assert c.node_id_string == "a:2,b:3" and c.world_size == 5


def test_no_room_is_told_and_given_up(cluster):
    e = RayExecutor(RayExecutor.create_settings(placement_group_timeout_s=1), num_workers=4)
    with pytest.raises(TimeoutError, match=r"no room for 4 x {'CPU': 1} \(PACK\) within 1 s"):
        e.start()
    e.shutdown()
    assert not [g for g in ray.util.placement_group_table().values() if g["state"] != "REMOVED"]


# -- failures --------------------------------------------------------------------------------------

NODE = r"node [0-9.]+ \(\S+, Ray node [0-9a-f]{8}\)"


def fails(executor, fn, kind, says, **how):
    """Rank 1 of two fails in a function that both call; returns what the driver gets."""
    e = executor(num_workers=2, **how)
    with pytest.raises(kind) as caught:
        e.run(fn)
    error = caught.value
    assert isinstance(error, JobFailed) and error.rank == 1 and error.pid
    assert re.search(f"^rank 1 on {NODE} {says}", str(error), re.S), str(error)
    assert re.fullmatch(NODE[5:], error.host)
    return e, error


def test_a_rank_that_raises_is_the_cause_and_the_job_goes_on(executor):
    def main():
        import ringup

        ringup.init()
        if ringup.rank() == 1:
            raise KeyError("of rank 1")
        ringup.barrier()

    def again():
        import ringup

        ringup.shutdown()
        ringup.init()
        ringup.barrier()
        return ringup.rank()

    e, error = fails(executor, main, KeyError,
                     "raised KeyError: 'of rank 1'\n\nTraceback.* in main")
    assert str(error).count("Traceback") == 1 and error.type_name == "KeyError"
    assert isinstance(error.__cause__, KeyError) and len(error.others) == 1
    assert e.run(again) == [0, 1]


def test_an_error_of_all_ranks_ends_nothing(executor):
    def main():
        import ringup

        ringup.init()
        return ringup.size()

    def wrong():
        import ringup

        return ringup.sizes()

    e = executor(num_workers=2)
    assert e.run(main) == [2, 2]
    with pytest.raises(AttributeError, match="'sizes'"):
        e.run(wrong)

    def barrier():
        import ringup

        ringup.barrier()

    e.run(barrier)


def test_an_exception_that_cannot_travel_is_told_as_text(executor):
    def main():
        import threading

        class Locked(Exception):
            def __init__(self):
                super().__init__("held")
                self.lock = threading.Lock()

        if os.environ["HOROVOD_RANK"] == "1":
            raise Locked()

    _, error = fails(executor, main, JobFailed, "raised .*Locked: held\n\nTraceback.* in main")
    assert error.type_name.endswith("Locked")


def test_sys_exit_is_an_error(executor):
    def main():
        if os.environ["HOROVOD_RANK"] == "1":
            sys.exit(3)

    fails(executor, main, JobFailed, r"raised SystemExit: the function called sys.exit\(3\)")


def test_a_killed_rank_is_named(executor):
    def main():
        import ringup

        ringup.init()
        if ringup.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        ringup.barrier()

    fails(executor, main, ray.exceptions.RayActorError, "died: .*")


def test_a_rank_that_never_comes_is_named(executor):
    def main():
        import ringup

        if os.environ["HOROVOD_RANK"] == "1":
            time.sleep(1000)
        ringup.init()

    fails(executor, main, TimeoutError, r"did not call init\(\), which the others wait for: "
          "rank 1 of 2 did not join within 2 s", timeout_s=2)


def test_a_frozen_rank_is_named_and_ended(executor):
    def main():
        import ringup

        ringup.init()
        if ringup.rank() == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        ringup.barrier()

    fails(executor, main, JobFailed, r"has not ended: rank 0 on .* is stopped \(state T\)",
          env={"RINGUP_LIVENESS_PROFILE": "fast"})


def start_apart(argv, **env):
    """Run a command that finds no other Ray: each leaves its address in Ray's folder."""
    return start(argv, RAY_TMPDIR=tempfile.mkdtemp("", "", ROOM), **env)


def run_script(text, **env):
    """Run a program in a process of its own; what it has printed."""
    p = start_apart([sys.executable, "-c", textwrap.dedent(text)], **env)
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout


@pytest.mark.parametrize("how", ["num_workers=2", "min_workers=2"])
def test_nothing_is_left_of_a_driver_that_is_killed(how, tmp_path):
    mark = f"RAY_TEST_MARK={os.getpid()}.{how}"
    script = f"""
        import os, ray
        from horovod.ray import RayExecutor
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        e = RayExecutor(RayExecutor.create_settings(), {how})
        e.start()
        def main():
            import ringup
            ringup.init()
            ringup.barrier()
            open("{tmp_path}/" + str(os.getpid()), "w").close()
            while True:
                ringup.barrier()
        e.run(main)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**os.environ, **dict([mark.split("=", 1)])}) as p:
        try:
            until(lambda: len(os.listdir(tmp_path)) == 2)
            assert len(marked(mark)) > 2
        finally:
            p.kill()
    until(lambda: not marked(mark), 60)


# -- several nodes, elastic jobs -------------------------------------------------------------------

SCRIPT = """
    import os, ray, sys, threading, time
    from ray.cluster_utils import Cluster
    from horovod.ray import ElasticRayExecutor, JobFailed, RayExecutor

    def until(what):
        end = time.monotonic() + 120
        while not what():
            assert time.monotonic() < end
            time.sleep(.05)

    c = Cluster(initialize_head=True, head_node_args={"num_cpus": CPUS, "include_dashboard": False})
    nodes = [c.add_node(num_cpus=2) for _ in range(MORE)]
    ray.init(address=c.address, log_to_driver=False, logging_level="error")
"""


def on_nodes(cpus, more, text):
    """The output of a program on a cluster of so many nodes."""
    head = SCRIPT.replace("CPUS", str(cpus)).replace("MORE", str(more))
    return run_script(textwrap.dedent(head) + textwrap.dedent(text))


def test_local_ranks_are_those_of_a_ray_node_and_its_end_is_told():
    out = on_nodes(2, 1, """
        e = RayExecutor(RayExecutor.create_settings(), num_hosts=2, num_workers_per_host=2)
        e.start()
        def main():
            import array, ringup
            ringup.init()
            a = array.array("f", [1])
            ringup.allreduce(a)
            return (ringup.rank(), ringup.local_rank(), ringup.local_size(), ringup.host_rank(),
                    ringup.host_count(), int(a[0]), os.environ["HOROVOD_CROSS_RANK"])
        print(e.run(main))
        def on_and_on():
            import ringup
            while True:
                ringup.barrier()
        waiter = []
        def wait():
            try:
                e.run(on_and_on)
            except JobFailed as error:
                waiter.append(error)
        t = threading.Thread(target=wait)
        t.start()
        time.sleep(1)
        c.remove_node(nodes[0], allow_graceful=False)
        t.join()
        print("the", waiter[0], nodes[0].node_id[:8])
        e.shutdown()
    """)
    assert "[(0, 0, 2, 0, 2, 4, '0'), (1, 1, 2, 0, 2, 4, '0'), (2, 0, 2, 1, 2, 4, '1'), " \
        "(3, 1, 2, 1, 2, 4, '1')]" in out
    assert re.search(r"^the rank \d on node [^,]*, Ray node (\w{8})\) .* \1$", out, re.M), out


ELASTIC = """
    def main(steps, die):
        import array, ringup
        from horovod.ray import ray_logger
        from ringup import elastic

        ringup.init()

        @elastic.run
        def train(state):
            while state.step < steps:
                if state.step == die and ringup.size() == 2 and ringup.rank() == 1:
                    os.kill(os.getpid(), 9)
                ringup.allreduce(array.array("f", [1]), name="x")
                if ringup.rank() == 0:
                    ray_logger.log((state.step, ringup.size()))
                time.sleep(.02)
                state.step += 1
                state.commit()

        state = elastic.ObjectState(step=0)
        train(state)
        return ringup.rank(), ringup.size(), state.step
"""


def test_survivors_of_an_elastic_job_go_on(executor):
    scope = {"os": os, "time": time}
    exec(textwrap.dedent(ELASTIC), scope)
    heard = []
    e = executor(min_workers=1, max_workers=2, elastic_timeout=60)
    assert e.run(scope["main"], args=[30], kwargs={"die": 10}, callbacks=[heard.append]) == [
        (0, 1, 30)]
    assert [s for s, _ in heard] == list(range(10)) + list(range(10, 30))
    assert {n for s, n in heard if s < 10} == {2} and {n for s, n in heard if s >= 10} == {1}


def test_an_elastic_job_whose_ranks_all_fail_tells_the_first(executor):
    def main():
        raise KeyError("of all")

    e = executor(min_workers=2, max_workers=2, elastic_timeout=60)
    with pytest.raises(JobFailed, match="(?s)^rank [01] on .* raised .*KeyError.*in main") as told:
        e.run(main)
    assert isinstance(told.value.__cause__, KeyError)


@long
def test_nodes_come_to_an_elastic_job_and_go():
    out = on_nodes(1, 0, ELASTIC + """
    heard, result = [], []
    e = ElasticRayExecutor(ElasticRayExecutor.create_settings(
        min_num_proc=1, max_num_proc=2, elastic_timeout=60))
    e.start()
    t = threading.Thread(target=lambda: result.append(
        e.run(lambda: main(1500, -1), callbacks=[heard.append])))
    t.start()
    until(lambda: len(heard) > 5)
    node = c.add_node(num_cpus=1)
    until(lambda: sum(n == 2 for _, n in heard) > 5)
    c.remove_node(node, allow_graceful=False)
    t.join()
    print(result[0], [n for i, (_, n) in enumerate(heard) if not i or heard[i - 1][1] != n])
    print(sorted({s for s, _ in heard}) == list(range(1500)))
    """)
    assert "[(0, 1, 1500)] [1, 2, 1]\nTrue" in out


def test_a_node_that_cannot_start_ranks_is_told(executor):
    e = executor(min_workers=1, max_workers=1, env={"RINGUP_OF_THE_TEST": "1"})
    with pytest.raises(JobFailed, match="ringup rankd on node .* ended with status [0-9]|"
                       "ringup does not start there"):
        e.run(os.getpid)


def test_ray_says_which_nodes_have_room(monkeypatch):
    def node(address, alive=True, **resources):
        return {"NodeManagerAddress": address, "Alive": alive, "Resources": resources}

    monkeypatch.setattr(ray, "nodes", lambda: [
        node("a", CPU=4.0, GPU=2.0), node("b", CPU=4.0), node("c", False, CPU=4.0, GPU=1.0),
        node("a", CPU=1.0, GPU=1.0)])
    assert RayHostDiscovery(cpus_per_worker=2).find_available_hosts_and_slots() == {"a": 2, "b": 2}
    assert RayHostDiscovery(True).find_available_hosts_and_slots() == {"a": 3}
    assert RayHostDiscovery(True, 1, 2).find_available_hosts_and_slots() == {"a": 1}


@long
def test_the_example_trains_on_ranks_that_stay_and_on_others():
    p = start_apart([sys.executable, os.path.join(ROOT, "docs", "examples", "ray_digits.py")])
    found = re.findall(r"^(num|min)_workers=\d: \[(0\.\d+), (0\.\d+)\]$", p.stdout, re.M)
    assert [kind for kind, _, _ in found] == ["num", "min"], p.stdout + p.stderr
    assert all(a == b and float(a) > 0.75 for _, a, b in found), p.stdout
    assert p.stdout.count("'epoch': 2, 'ranks': 2") == 2, p.stdout


# -- ray.train -------------------------------------------------------------------------------------

@long
def test_a_torch_trainer_of_ray_runs_on_ringup(packages, tmp_path):
    """Its workers find the back end by the entry points of the installed package."""
    pytest.importorskip("ray.train.torch", reason="ray.train is not installed")
    run_script("""
        import ray, ray.train
        from ray.train import RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer
        ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)

        def loop():
            import torch, torch.distributed as dist
            from ray.train.torch import prepare_model
            torch.manual_seed(dist.get_rank())
            model = prepare_model(torch.nn.Linear(4, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.randn(8, 4)).pow(2).mean().backward()
                optimizer.step()
            w = next(model.parameters()).detach()
            all_w = [torch.zeros_like(w) for _ in range(2)]
            dist.all_gather(all_w, w)
            if dist.get_rank() == 0:
                with open("FOLDER/said", "w") as f:
                    print(torch.equal(*all_w), dist.get_backend(), type(model).__name__, file=f)
            ray.train.report({"done": True})

        TorchTrainer(loop, torch_config=TorchConfig(backend="ringup"),
                     scaling_config=ScalingConfig(num_workers=2),
                     run_config=RunConfig(storage_path="FOLDER")).fit()
    """.replace("FOLDER", str(tmp_path)), PYTHONPATH=os.pathsep.join([str(packages), RAY]))
    assert (tmp_path / "said").read_text() == "True ringup DistributedDataParallel\n"
