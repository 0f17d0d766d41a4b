#!/usr/bin/env python3
# horovod_tests.py - run Horovod's own tests of its torch interface against ringup's.
# SPDX-License-Identifier: Apache-2.0
"""The tests are not part of ringup: --checkout names a clone of github.com/horovod/horovod at
v0.28.1; without it one is fetched into a temporary directory.

    tests/peers/horovod_tests.py --ringup ./ringup -n 2

The Python that runs this must have torch, numpy, pytest, cloudpickle and packaging.  Prints a line
for each test and the counts; exit status 0 if all passed but those that DIFFERENT explains.

All tests run in one launch of n ranks.  Once a test has failed on a rank, the others are out of
step with it: the launch ends, and another one goes on with the next test.
"""

import argparse
import collections
import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import types

try:
    from pytest import hookimpl
except ImportError:  # main() needs none
    def hookimpl(**_how):
        return lambda f: f

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCE = "https://github.com/horovod/horovod"
TAG = "v0.28.1"
TEST_SECONDS = 60

# Tests of what ringup does otherwise, and why.
DIFFERENT = {
    "test_global_barrier_op": "a rank that comes late to a barrier, because others have its core, "
                              "does not wait for the whole 5 seconds that rank 0 sleeps",
}


def adapt():
    """Give the tests what they import and ringup does not have: a launcher's helpers, mock.

    Some run with every optimizer of torch; those that want matrices came after them.  Adasum is
    only tried with MPI, for Horovod's needs it."""
    import unittest.mock

    import torch

    import horovod.torch

    horovod.torch.mpi_enabled = lambda: True
    if hasattr(torch.optim, "Muon"):
        torch.optim.Muon.__module__ = "later"

    sys.modules.setdefault("mock", unittest.mock)
    for name in ("horovod.runner", "horovod.runner.util", "horovod.runner.util.threads"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["horovod.runner.util.threads"].in_thread = None


# What pytest calls, on every rank (this file is loaded with -p).

def pytest_configure():
    adapt()


@hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items[:] = items[int(os.environ["HOROVOD_TESTS_START"]):]


def note(**what):
    """Append to this rank's list of results."""
    path = os.path.join(os.environ["HOROVOD_TESTS_RESULTS"], os.environ["RINGUP_RANK"])
    with open(path, "a", encoding="utf-8") as f:
        f.write(json.dumps(what) + "\n")


def pytest_runtest_logstart(nodeid):
    faulthandler.dump_traceback_later(TEST_SECONDS, exit=True)
    note(name=nodeid.split("::")[-1], outcome="began", why="")


def pytest_runtest_logreport(report):
    if report.when == "call" or not report.passed:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        note(name=report.nodeid.split("::")[-1], outcome=report.outcome, why=why)


def pytest_sessionfinish():
    faulthandler.cancel_dump_traceback_later()


# What starts the ranks.

def results_of(folder, n):
    """{test: {rank: (outcome, why)}} in the order of the tests."""
    out = collections.OrderedDict()
    for rank in range(n):
        path = os.path.join(folder, str(rank))
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                for line in f:
                    r = json.loads(line)
                    ranks = out.setdefault(r["name"], {})
                    if ranks.get(rank, ("began",))[0] in ("began", "passed"):
                        ranks[rank] = r["outcome"], r["why"]
    return out


def verdict(ranks, n):
    """(outcome, why) of a test on all ranks."""
    outcomes = [ranks.get(r, ("began", "")) for r in range(n)]
    for kind in ("failed", "began"):
        for outcome, why in outcomes:
            if outcome == kind:
                return "failed", why or "it did not come to its end"
    for outcome, why in outcomes:
        if outcome == "skipped":
            return outcome, why
    return "passed", ""


def launch(o, tests, start, folder):
    """Run the tests from number start on, until one fails."""
    env = dict(os.environ, HOROVOD_TESTS_START=str(start), HOROVOD_TESTS_RESULTS=folder,
               OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1",
               PYTHONPATH=os.pathsep.join([HERE, os.path.join(ROOT, "compat", "python")]),
               RINGUP_LIBRARY=o.library)
    argv = [o.ringup, "run", "-np", str(o.n), "--", sys.executable, "-m", "pytest", "-x", "-q",
            "-p", "no:cacheprovider", "-p", "horovod_tests", tests]
    argv += ["-k", o.only] if o.only else []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          start_new_session=True, env=env, cwd=folder) as p:
        try:
            return p.communicate(timeout=o.timeout)[0]
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            return p.communicate()[0]


def run(o, tests):
    """{test: (outcome, why)}"""
    done = collections.OrderedDict()
    while True:
        with tempfile.TemporaryDirectory(prefix="ringup-horovod-tests") as folder:
            text = launch(o, tests, len(done), folder)
            found = results_of(folder, o.n)
        if not found:
            if not done:
                sys.exit("no test has run:\n" + text)
            return done
        for name, ranks in found.items():
            done[name] = verdict(ranks, o.n)
            say(name, *done[name], o.verbose)
            if done[name][0] == "failed":
                break
        else:
            return done


def say(name, outcome, why, verbose):
    """Print a line about a test."""
    if outcome == "failed" and name in DIFFERENT:
        print(f"differs  {name}: {DIFFERENT[name]}", flush=True)
        return
    text = why if verbose else (why.strip().splitlines() or [""])[-1]
    print(f"{outcome:8} {name}{': ' if text else ''}{text}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--ringup", default="ringup", help="the command")
    p.add_argument("--library", help="libringup.so.0; default: .libs next to the command")
    p.add_argument("-n", type=int, default=2, help="ranks")
    p.add_argument("--checkout", help=f"a clone of {SOURCE}")
    p.add_argument("--file", default="test/parallel/test_torch.py")
    p.add_argument("--only", help="pytest's -k")
    p.add_argument("--timeout", type=int, default=900, help="seconds for a launch")
    p.add_argument("--verbose", action="store_true", help="tell all about failures")
    o = p.parse_args()
    o.ringup = os.path.abspath(o.ringup) if os.sep in o.ringup else o.ringup
    o.library = o.library or os.path.join(os.path.dirname(o.ringup), ".libs", "libringup.so.0")
    with tempfile.TemporaryDirectory(prefix="ringup-horovod") as work:
        if not o.checkout:
            subprocess.run(["git", "-c", "advice.detachedHead=false", "clone", "-q", "--depth", "1",
                            "--branch", TAG, SOURCE, work], check=True)
        done = run(o, os.path.join(os.path.abspath(o.checkout or work), o.file))
    counts = collections.Counter(outcome for outcome, _why in done.values())
    differing = sum(done[n][0] == "failed" for n in done if n in DIFFERENT)
    print(f"{counts['passed']} passed, {counts['failed'] - differing} failed, {differing} differ, "
          f"{counts['skipped']} skipped, on {o.n} ranks")
    return 1 if counts["failed"] > differing else 0


if __name__ == "__main__":
    sys.exit(main())
