# conftest.py - TAP for automake, and ways to start ranks.
# SPDX-License-Identifier: Apache-2.0

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

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
            "--standalone"]


def start(argv, timeout=120, **env):
    """Run a command in a session of its own; kills all of that when the time is up.

    Its temporary files are removed here: torchrun leaves a folder behind for each run."""
    with tempfile.TemporaryDirectory(prefix="ringup") as tmp, subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env={**os.environ, "TMPDIR": tmp, **env}) as p:
        try:
            out, err = p.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out, err = p.communicate()
            pytest.fail(f"{argv}: not done in {timeout} s\n{out}\n{err}")
    return subprocess.CompletedProcess(argv, p.returncode, out, err)


def launch(n, script, args, results, kind="ringup", timeout=120):
    """Run a script on n ranks; each may leave a JSON file called rank.N in results."""
    p = start(launcher(kind, n) + [os.path.join(HERE, script), *args], timeout,
              RINGUP_TEST_RESULTS=str(results))
    p.text = f"exit status {p.returncode}\n{p.stdout}\n{p.stderr}"
    p.results = {}
    for name in os.listdir(results):
        if name.startswith("rank.") and not name.endswith(".part"):
            with open(os.path.join(results, name), encoding="utf-8") as f:
                p.results[int(name[5:])] = json.load(f)
    return p


@pytest.fixture
def ranks(tmp_path):
    """ranks(n, script, *args) runs the script on n ranks and expects an exit status."""
    def run(n, script, *args, kind="ringup", timeout=120, status=0):
        p = launch(n, script, args, tmp_path, kind, timeout)
        assert status is None or p.returncode == status, p.text
        return p

    return run


def checks_of(script):
    """The checks in a script, which is not imported: that would take torch's time."""
    with open(os.path.join(HERE, script), encoding="utf-8") as f:
        return re.findall(r"^@check\ndef (\w+)", f.read(), re.M)


_launched = {}


def outcome(script, n, name, tmp_path_factory):
    """Pass or fail as the check did on every rank; all checks of a script run in one launch."""
    if (script, n) not in _launched:
        _launched[script, n] = launch(n, script, [], tmp_path_factory.mktemp("ranks"), timeout=280)
    p = _launched[script, n]
    for r in range(n):
        said = p.results.get(r, {}).get(name, "it never came to this")
        assert not said, f"rank {r}: {said}\n{p.text}"
