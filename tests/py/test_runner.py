# test_runner.py - horovod.run(), horovod.runner and what users import beside the collectives.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat/python src/cli/horovodrun.c src/cli/hvdopts.c src/launch

import io
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

import pytest
from conftest import start

import horovod
from horovod.common import util
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader
from horovod.runner import _HorovodArgs, launch
from horovod.runner.common.service.task_service import BasicTaskClient, BasicTaskService
from horovod.runner.common.util import (codec, config_parser, hosts, network, safe_shell_exec,
                                        secret, timeout)
from horovod.runner.common.util.env import get_env_rank_and_size
from horovod.runner.elastic.discovery import HostDiscoveryScript
from horovod.runner.util.streams import Pipe


def arguments(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["horovodrun", *words])
    return launch.parse_args()


def told(monkeypatch, *words):
    """The variables for these words: horovodrun's and config_parser's are the same."""
    args = arguments(monkeypatch, "-np", "2", *words, "true")
    env = config_parser.set_env_from_args({}, args)
    p = start(["horovodrun", "-np", "2", "--dry-run", *words, "true"])
    said = p.stdout.split("ringup run")[0].replace("env ", "").split()
    assert sorted(said) == sorted(f"{k}={v}" for k, v in env.items())
    return env


# -- horovod.run() -----------------------------------------------------------------------------

def test_results_come_by_rank_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    factor = 10

    def f(x, y=0):
        return [x * factor + y, get_env_rank_and_size()]

    assert horovod.run(f, (1,), {"y": 2}, num_proc=2) == [[12, (0, 2)], [12, (1, 2)]]
    assert os.listdir(tmp_path) == []


def test_a_failure_is_told_with_the_ranks_own_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def f():
        if get_env_rank_and_size()[0] == 1:
            raise KeyError("the cause")

    with pytest.raises(RuntimeError, match="(?s)^Horovod detected that one or more processes "
                                           "exited with non-zero status.*rank 1 .*exited with "
                                           "status 1.*Rank 1:.*the cause"):
        horovod.run(f, num_proc=2)
    assert os.listdir(tmp_path) == []


def test_results_of_an_elastic_job_come_by_the_ranks_of_its_end(tmp_path):
    def f(lost):
        import ringup
        from ringup import elastic

        new = os.path.exists(lost)
        ringup.init()
        if ringup.rank() == 0 and not new:
            with open(lost, "w", encoding="utf-8"):
                os.kill(os.getpid(), signal.SIGKILL)

        @elastic.run
        def train(state):
            while not new and ringup.rank() == 1:
                state.commit()

        train(elastic.ObjectState(step=0))
        rank = ringup.rank()
        ringup.shutdown()
        return [rank, new]

    # The one that lives on and the new one both began as rank 1.
    assert horovod.run(f, (str(tmp_path / "lost"),), num_proc=2, min_num_proc=2,
                       hosts="localhost:2") == [[0, False], [1, True]]


def test_a_rank_that_returns_nothing_is_named():
    with pytest.raises(RuntimeError, match="rank 0 ended without a result"):
        horovod.run(lambda: os._exit(0))


def test_options_environment_and_python_reach_the_ranks(tmp_path):
    def f():
        return os.environ["ASKED"], os.environ.get("HOROVOD_STALL_CHECK_TIME_SECONDS")

    args = _HorovodArgs()
    args.run_func, args.env = f, {"ASKED": "x"}
    args.stall_check_warning_time_seconds = 7
    args.output_filename, args.executable = str(tmp_path / "out"), sys.executable
    assert launch._run(args) == [("x", "7")]
    assert (tmp_path / "out" / "rank.0" / "stdout").exists()


def test_older_names_and_contradictions(recwarn):
    assert horovod.run(lambda: 1, np=2) == [1, 1]
    assert any("np is deprecated" in str(w.message) for w in recwarn)
    with pytest.raises(ValueError, match="hosts and hostfile"):
        horovod.run(len, hosts="a:1", hostfile="f")
    with pytest.raises(ValueError, match="use_gloo and use_mpi"):
        horovod.run(len, use_gloo=True, use_mpi=True)


def test_a_program_from_standard_input_and_what_it_prints(tmp_path):
    text = ("import horovod\n"
            "def f():\n"
            "    print('here')\n"
            "    return 3\n"
            "print(horovod.run(f, np=2))\n")
    p = subprocess.run([sys.executable, "-"], input=text, text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, cwd=tmp_path, check=False)
    assert p.returncode == 0, p.stderr
    assert sorted(p.stdout.splitlines()) == ["[0]<stdout>:here", "[1]<stdout>:here", "[3, 3]"]


# -- horovod.runner ----------------------------------------------------------------------------

def test_arguments_become_the_same_variables_here_and_in_horovodrun(monkeypatch):
    env = told(monkeypatch, "--fusion-threshold-mb", "10", "--cycle-time-ms", "20.5", "--autotune",
               "--autotune-gaussian-process-noise", "0.2", "--log-hide-timestamp", "--tcp",
               "--timeline-filename", "t", "--no-timeline-mark-cycles", "--no-stall-check")
    assert env["HOROVOD_FUSION_THRESHOLD"] == str(10 << 20) and env["NCCL_IB_DISABLE"] == "1"
    assert told(monkeypatch, "--autotune-warmup-samples", "3", "--timeline-mark-cycles") == {}


def test_wrong_arguments_raise(monkeypatch):
    with pytest.raises(ValueError, match="must be 0 or more"):
        arguments(monkeypatch, "-np", "2", "--cache-capacity", "-1")
    with pytest.raises(SystemExit) as e:
        arguments(monkeypatch, "--no-such-option")
    assert e.value.code == 2


def test_a_file_of_options_is_read_as_horovodrun_reads_it(monkeypatch, tmp_path):
    (tmp_path / "c.yaml").write_text("controller: gloo\nparams:\n  cycle_time_ms: 10\n"
                                     "stall_check:\n  enabled: true\n")
    args = arguments(monkeypatch, "-np", "2", "--config-file", str(tmp_path / "c.yaml"))
    assert args.use_gloo and args.cycle_time_ms == 10 and args.no_stall_check is False


def test_hosts():
    places = hosts.get_host_assignments(hosts.parse_hosts("a:1,b:2"), 3)
    assert [(p.hostname, p.local_rank, p.cross_rank, p.cross_size) for p in places] == \
        [("a", 0, 0, 2), ("b", 0, 1, 2), ("b", 1, 0, 1)]
    with pytest.raises(ValueError, match="Requested more processes"):
        hosts.get_host_assignments(hosts.parse_hosts("a:1"), 2)
    with pytest.raises(ValueError, match="Invalid host input"):
        hosts.parse_hosts_and_slots("a:1;b:2")


def test_a_file_of_hosts(tmp_path):
    (tmp_path / "h").write_text("# ours\na slots=2\n\nb  slots = 3 max_slots=4\n")
    assert hosts.parse_host_files(tmp_path / "h") == "a:2,b:3"
    (tmp_path / "h").write_text("a slots=2\nb\n")
    with pytest.raises(ValueError, match="line 2"):
        hosts.parse_host_files(tmp_path / "h")


def test_what_a_discovery_script_prints_is_checked():
    assert HostDiscoveryScript("printf 'a:2\\n\\nb\\n'",
                               4).find_available_hosts_and_slots() == {"a": 2, "b": 4}
    with pytest.raises(ValueError, match="not HOST or HOST:N"):
        HostDiscoveryScript("echo a:x", 1).find_available_hosts_and_slots()
    with pytest.raises(RuntimeError, match="Exit code: 3"):
        HostDiscoveryScript("exit 3", 1).find_available_hosts_and_slots()


def test_commands_and_their_end():
    out, err = io.StringIO(), io.StringIO()
    assert safe_shell_exec.execute("echo a; printf b >&2; exit 4", stdout=out, stderr=err,
                                   index=3) == 4
    assert (out.getvalue(), err.getvalue()) == ("[3]<stdout>:a\n", "[3]<stderr>:b")
    event, out = threading.Event(), io.StringIO()

    class Watch(io.StringIO):
        def write(self, text):
            event.set()  # the command has begun
            return super().write(text)

    assert safe_shell_exec.execute("echo x; sleep 300", stdout=Watch(), events=[event]) == 143


def test_a_command_ends_with_its_parent(tmp_path):
    script = ("from horovod.runner.common.util import safe_shell_exec as s\n"
              "s.execute('echo $$; exec sleep 300')")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE,
                          text=True) as p:
        pid = int(p.stdout.readline())
        handle = os.pidfd_open(pid)
        p.kill()
        import select
        assert select.select([handle], [], [], 300)[0], "it goes on"
        os.close(handle)


def test_time_and_pipes():
    t = timeout.Timeout(0, "Waited for {activity}")
    with pytest.raises(timeout.TimeoutException, match="Waited for it. Timeout after 0 seconds"):
        while True:
            t.check_time_out_for("it")
    p = Pipe()
    p.write("abc")
    p.close()
    assert (p.read(2), p.read(), p.read()) == ("ab", "c", None)


# -- services ----------------------------------------------------------------------------------

class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.fixture
def service():
    key = secret.make_secret_key()
    s = BasicTaskService("test", 0, key, nics=["lo"])
    yield key, s
    s.shutdown()


def talk(service, data):
    """What the service answers to these bytes."""
    with socket.create_connection(("127.0.0.1", service.get_port()), timeout=60) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        return s.makefile("rb").read()


def test_a_service_runs_a_command_for_who_knows_the_key(service):
    key, s = service
    client = BasicTaskClient("test", s.addresses(), key, verbose=0, attempts=1)
    out = io.StringIO()
    thread, _ = client.stream_command_output(out)
    client.run_command("echo $A; exit 5", {"A": "x"}, capture_stdout=True)
    assert client.wait_for_command_exit_code() == 5 and client.command_result() == (True, 5)
    thread.join()
    assert out.getvalue() == "[0]<stdout>:x\n"


def test_nothing_is_unpickled_that_is_not_signed(service, tmp_path):
    key, s = service
    message = pickle.dumps(Trap(str(tmp_path / "sprung")))
    for sign in (bytes(32), secret.compute_digest(b"another key", message)):
        assert talk(s, sign + struct.pack("i", len(message)) + message) == b""
    assert talk(s, bytes(32) + struct.pack("i", -1)) == b""
    assert talk(s, b"short") == b""
    assert not (tmp_path / "sprung").exists()
    with pytest.raises(network.NoValidAddressesFound):
        BasicTaskClient("test", s.addresses(), b"another key", verbose=0, attempts=1)
    assert BasicTaskClient("test", s.addresses(), key, 0, attempts=1).command_result() == \
        (False, None)


def test_a_service_of_an_interface_that_there_is_not():
    with pytest.raises(network.NoValidAddressesFound, match="no-such"):
        network.BasicService("test", b"key", nics=["no-such"])


def test_files_of_others_are_not_unpickled(tmp_path):
    path = tmp_path / "x"
    codec.write(path, [1])
    assert codec.read(path) == [1] and path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o620)
    with pytest.raises(PermissionError):
        codec.read(path)
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError):
        codec.read(tmp_path / "link")


# -- horovod.common.util, horovod.data ---------------------------------------------------------

def test_helpers():
    assert util.split_list([1, 2, 3, 4, 5], 3) == [[1, 2], [3, 4], [5]]
    assert [n for n in range(9) if util.num_rank_is_power_2(n)] == [1, 2, 4, 8]
    assert util.is_iterable(()) and not util.is_iterable(1)
    with util.env(RUNNER_A="1", RUNNER_B=None):
        assert os.environ["RUNNER_A"] == "1" and "RUNNER_B" not in os.environ
    assert "RUNNER_A" not in os.environ
    assert util.extension_available("torch") and not util.extension_available("mxnet")
    util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__, "mpi_lib_v2")
    with pytest.raises(ImportError, match="horovod.mxnet has not been built"):
        util.check_extension("horovod.mxnet", "HOROVOD_WITH_MXNET", __file__, "mpi_lib")
    assert "torch" not in sys.modules, "that has been asked without importing it"


class Loader(BaseDataLoader):
    fails = False

    def __len__(self):
        return 3

    def _iterate(self):
        yield from range(3)
        if self.fails:
            raise OSError("the disk")

    def _process_batch(self, batch):
        return batch * 10


class AsyncLoader(AsyncDataLoaderMixin, Loader):
    pass


@pytest.mark.parametrize("ahead", [0, 1, 64])
def test_a_loader_gives_all_batches_of_each_pass(ahead):
    loader = AsyncLoader(ahead)
    assert [list(loader), list(loader)] == [[0, 10, 20]] * 2
    loader.close_async_loader()
    assert threading.active_count() == 1 or not loader.thread.is_alive()


def test_a_loaders_failure_is_seen():
    loader = AsyncLoader(2)
    loader.fails = True
    with pytest.raises(OSError, match="the disk"):
        list(loader)
    loader.close_async_loader()
