# conftest.py - TAP for automake, and ways to start ranks.
# SPDX-License-Identifier: Apache-2.0

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


class Tap:
    """Prints a TAP line for each test, to the stdout that pytest started with."""

    def __init__(self):
        self.out = os.fdopen(os.dup(1), "w")
        self.n = 0

    def say(self, *lines):
        print(*lines, sep="\n", file=self.out, flush=True)

    def pytest_collectreport(self, report):
        if report.failed:
            self.result(False, report.nodeid, str(report.longrepr))

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("/")[-1]
        if report.skipped:
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else "?"
            self.n += 1
            self.say(f"ok {self.n} - {name} # SKIP {why.replace('Skipped: ', '')}")
        elif report.failed or report.when == "call":
            text = "\n".join([report.longreprtext, *(t for _, t in report.sections)])
            self.result(report.passed, name, text)

    def result(self, good, name, text):
        self.n += 1
        self.say(f"{'ok' if good else 'not ok'} {self.n} - {name}")
        if not good:
            self.say(*["# " + line for line in text.splitlines()])

    def pytest_sessionfinish(self, session):
        self.say(f"1..{self.n}")


def pytest_configure(config):
    if not config.pluginmanager.hasplugin("terminalreporter"):
        config.pluginmanager.register(Tap())


def launcher(kind, n):
    """The command line in front of a script's, or a skip."""
    if kind == "ringup":
        return ["ringup", "run", "-np", str(n), "--", sys.executable]
    if kind == "mpirun":
        if not shutil.which("mpirun"):
            pytest.skip("mpirun is not installed")
        return ["mpirun", "-np", str(n), "--oversubscribe", "--allow-run-as-root", sys.executable]
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n),
            "--master-port", "0"]


def start(argv, timeout=120, **env):
    """Run a command in a session of its own; kills all of that when the time is up."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True, env={**os.environ, **env}) as p:
        try:
            out, err = p.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out, err = p.communicate()
            pytest.fail(f"{argv}: not done in {timeout} s\n{out}\n{err}")
    return subprocess.CompletedProcess(argv, p.returncode, out, err)


@pytest.fixture
def ranks(tmp_path):
    """ranks(n, script, *args) runs the script under a launcher; each rank may leave a result."""
    def run(n, script, *args, kind="ringup", timeout=120, status=0):
        p = start(launcher(kind, n) + [os.path.join(HERE, script), *args], timeout,
                  RINGUP_TEST_RESULTS=str(tmp_path))
        text = f"exit status {p.returncode}\n{p.stdout}\n{p.stderr}"
        assert status is None or p.returncode == status, text
        p.results = {}
        for name in os.listdir(tmp_path):
            if name.startswith("rank."):
                with open(tmp_path / name, encoding="utf-8") as f:
                    p.results[int(name[5:])] = json.load(f)
        p.text = text
        return p

    return run
