# conftest.py - TAP for automake, and ways to start ranks.
# SPDX-License-Identifier: Apache-2.0

import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HANG = 300  # seconds after which nothing will come any more, however slow the machine is


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
        elif report.skipped:  # a whole file
            self.skipped(report)

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("/")[-1]
        if report.skipped:
            self.skipped(report)
        elif report.failed or report.when == "call":
            text = "\n".join([report.longreprtext, *(t for _, t in report.sections)])
            self.result(report.passed, name, text)

    def skipped(self, report):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else "?"
        self.n += 1
        self.say(f"ok {self.n} - {report.nodeid.split('/')[-1]} # SKIP "
                 f"{why.replace('Skipped: ', '')}")

    def result(self, good, name, text):
        self.n += 1
        self.say(f"{'ok' if good else 'not ok'} {self.n} - {name}")
        if not good:
            self.say(*["# " + line for line in text.splitlines()])

    def pytest_sessionfinish(self, session):
        self.say(f"1..{self.n}")
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.n:
            session.exitstatus = pytest.ExitCode.OK  # skipped files only


def pytest_runtest_setup():
    """In a storm (RINGUP_TEST_STORM, see tests/run) each test begins up to half a second late."""
    if "RINGUP_TEST_STORM" in os.environ:
        time.sleep(random.random() / 2)


def pytest_configure(config):
    if not config.pluginmanager.hasplugin("terminalreporter"):
        config.pluginmanager.register(Tap())


def launcher(kind, n):
    """The command line in front of a script's, or a skip; torch had launch before torchrun."""
    if kind == "ringup":
        return ["ringup", "run", "-np", str(n), "--", sys.executable]
    if kind == "mpirun":
        if not shutil.which("mpirun"):
            pytest.skip("mpirun is not installed")
        return ["mpirun", "-np", str(n), "--oversubscribe", "--allow-run-as-root", sys.executable]
    if kind == "torchrun":
        return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n),
                "--standalone"]
    return [sys.executable, "-m", "torch.distributed.launch", "--nproc-per-node", str(n)]


def start(argv, timeout=HANG, cwd=None, **env):
    """Run a command in a session of its own; kills all of that when the time is up.

    Its temporary files are removed here: torchrun leaves a folder behind for each run."""
    with tempfile.TemporaryDirectory(prefix="ringup") as tmp, subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=cwd, start_new_session=True, env={
                **os.environ, "TMPDIR": tmp,
                "TORCH_FR_DUMP_TEMP_FILE": os.path.join(tmp, "trace_"), **env}) as p:
        try:
            out, err = p.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out, err = p.communicate()
            pytest.fail(f"{argv}: not done in {timeout} s\n{out}\n{err}")
    return subprocess.CompletedProcess(argv, p.returncode, out, err)


class Outcome:
    """How processes have ended: exit statuses, what all of them printed, and the results that the
    ranks left, each in a file called rank.N."""

    def __init__(self, codes, text, results):
        self.codes, self.results = codes, {}
        self.text = f"exit statuses {codes}\n{text}"
        for name in os.listdir(results):
            if name.startswith("rank.") and not name.endswith(".part"):
                with open(os.path.join(results, name), encoding="utf-8") as f:
                    self.results[int(name[5:])] = json.load(f)


def launch(kind, n, script, results):
    """Run a script on n ranks by a launcher."""
    p = start([*launcher(kind, n), os.path.join(HERE, script)], RINGUP_TEST_RESULTS=str(results))
    return Outcome([p.returncode], f"{p.stdout}\n{p.stderr}", results)


class Parent:
    """A parent_of_ranks.py: runs scripts that need torch, which only it imports."""

    def __init__(self, modules):
        self.modules, self.process = modules, None

    def _ask(self, request):
        """The answer to a request: exit statuses."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "parent_of_ranks.py"), *self.modules],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True)
        print(json.dumps(request), file=self.process.stdin, flush=True)
        if select.select([self.process.stdout], [], [], HANG)[0]:
            answer = self.process.stdout.readline()
            if answer:
                return json.loads(answer)
        self.end()
        return None

    def end(self):
        """End it, and what it has started."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            self.process = None

    def run(self, results, environments, script, *args):
        """Run a script once for each environment; nothing ends one because another has ended.
        {rank} in an argument is the number of the process."""
        with tempfile.TemporaryDirectory(prefix="ringup") as tmp:
            common = {"RINGUP_TEST_RESULTS": str(results), "TMPDIR": tmp,
                      "TORCH_FR_DUMP_TEMP_FILE": os.path.join(tmp, "trace_")}
            request = [{"argv": [os.path.join(HERE, script),
                                 *(a.replace("{rank}", str(i)) for a in args)],
                        "env": {**common, **env}, "output": os.path.join(tmp, f"output.{i}")}
                       for i, env in enumerate(environments)]
            codes = self._ask(request)
            texts = []
            for process in request:
                if os.path.exists(process["output"]):
                    with open(process["output"], encoding="utf-8", errors="replace") as f:
                        texts.append(f.read())
            if codes is None:
                pytest.fail(f"{script} did not end, or the parent did\n" + "\n".join(texts))
            out = Outcome(codes, "\n".join(texts), results)
            out.texts = texts
        return out

    def ranks(self, n, results, script, *args, **env):
        """Run a script on n ranks."""
        env["RINGUP_JOB"] = f"test.{uuid.uuid4().hex}"
        return self.run(results, [{"RINGUP_RANK": str(r), "RINGUP_SIZE": str(n), **env}
                                  for r in range(n)], script, *args)


@pytest.fixture(scope="module")
def parent(request):
    """What starts ranks that need torch, and perhaps what the file of tests calls MODULES."""
    p = Parent(getattr(request.module, "MODULES", ()))
    yield p
    p.end()


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder with the packages as pip leaves them, so with their entry points."""
    folder = tmp_path_factory.mktemp("site")
    for name, text in (("stamp", "{}"), ("watch", "")):
        (folder / name).write_text(text)
    build = os.path.join(ROOT, "compat", "python", "build_ringup.py")
    subprocess.run([sys.executable, build, "--into", str(folder / "packages"),
                    str(folder / "stamp"), str(folder / "watch")], check=True)
    return folder / "packages"


def checks_of(script):
    """The checks in a script, which is not imported: that would take torch's time."""
    with open(os.path.join(HERE, script), encoding="utf-8") as f:
        return re.findall(r"^@check\ndef (\w+)", f.read(), re.M)


_outcomes = {}


def outcome(script, n, name, parent, tmp_path_factory):
    """Pass or fail as the check did on every rank; all checks of a script run in one job."""
    if (script, n) not in _outcomes:
        _outcomes[script, n] = None
        _outcomes[script, n] = parent.ranks(n, tmp_path_factory.mktemp("ranks"), script)
    p = _outcomes[script, n]
    assert p, "the job did not end"
    for r in range(n):
        said = p.results.get(r, {}).get(name, "it never came to this")
        assert not said, f"rank {r}: {said}\n{p.text}"
    failed = any(said for checks in p.results.values() for said in checks.values())
    assert failed or p.codes == [0] * n, p.text
