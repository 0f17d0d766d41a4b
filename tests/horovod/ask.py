#!/usr/bin/env python3
# ask.py - run Horovod's own tests, and Spark's, against ringup, and compare with what is expected.
# SPDX-License-Identifier: Apache-2.0
"""Horovod's tests are not part of ringup.  They are those of a checkout,
$RINGUP_TEST_HOROVOD_SOURCE,
else of the tag v0.28.1 on GitHub (the archive on PyPI does not hold them).
Those of HorovodRunner (sparkdl/) and of Spark's TorchDistributor (spark/) are single files of
GitHub, or of $RINGUP_TEST_SPARKDL_SOURCE and $RINGUP_TEST_SPARK_SOURCE.

    tests/horovod/ask.py                       # all files; exit status 1 if something differs
    tests/horovod/ask.py single/test_run.py    # these files only
    tests/horovod/ask.py --ranks 2 parallel/test_torch.py --only allgather
    tests/horovod/ask.py --update [FILE...]    # write expected.tsv and docs/HOROVOD-TESTS.md anew
    tests/horovod/ask.py --table               # print docs/HOROVOD-TESTS.md

ringup and horovodrun are those in PATH.  The tests run in a Python environment that is made for
them beside that of $RINGUP_TEST_PYTHON, which has torch, or of $RINGUP_TEST_TENSORFLOW_215; pip gets
what they import.  Exit status 77 and a line that says why if that, or the tests, cannot be had;
without a TensorFlow, or a pyspark 4 in the folder $RINGUP_TEST_SPARK4, or Java, or Ray in the folder
$RINGUP_TEST_RAY, their files are left out.

Files of parallel/ are run by horovodrun on 2 and on 4 ranks, all tests in one job.  Once a test has
failed on a rank, the others are out of step with it: the job ends, and another one goes on with the
next test.
"""

import argparse
import collections
import faulthandler
import functools
import importlib
import importlib.machinery
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import types
import urllib.request

try:
    from pytest import hookimpl
except ImportError:  # main() needs none
    def hookimpl(**_how):
        return lambda f: f

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EXPECTED = os.path.join(HERE, "expected.tsv")
DOCUMENT = os.path.join(ROOT, "docs", "HOROVOD-TESTS.md")
ARCHIVE = "https://github.com/horovod/horovod/archive/refs/tags/v0.28.1.tar.gz"
NEEDS = ("pytest<8", "mock", "parameterized", "psutil", "cloudpickle", "packaging", "pyarrow",
         "h5py")
TEST_SECONDS = 300  # after which a test hangs
JOB_SECONDS = 1800
SKIP = 77

# Files, and on how many ranks; None: by itself, it starts what it needs.
FILES = {
    "parallel/test_common.py": (2, 4),
    "parallel/test_torch.py": (2, 4),
    "parallel/test_timeline.py": (2, 4),
    "parallel/test_adasum_pytorch.py": (2, 4),
    "single/test_run.py": (None,),
    "single/test_util.py": (None,),
    "single/test_service.py": (None,),
    "single/test_task_service.py": (None,),
    "single/test_torch_elastic.py": (None,),
    "single/test_elastic_discovery.py": (None,),
    "single/test_elastic_driver.py": (None,),
    "single/test_elastic_run.py": (None,),
    "integration/test_static_run.py": (None,),
    "integration/test_interactiverun.py": (None,),
    "integration/test_elastic_torch.py": (None,),
}

# Those that want TensorFlow 2.15; most skip what is for GPUs or for TensorFlow 1.
TENSORFLOW_FILES = {
    "parallel/test_tensorflow.py": (2,),
    "parallel/test_tensorflow_process_sets.py": (2, 4),
    "parallel/test_tensorflow_process_sets_dynamic.py": (2, 4),
    "parallel/test_tensorflow2_keras.py": (2,),
    "parallel/test_tensorflow2_keras_process_sets.py": (2, 4),
    "parallel/test_tensorflow_keras.py": (2,),
    "parallel/test_keras.py": (2,),
    "parallel/test_adasum_tensorflow.py": (2,),
    "parallel/test_xla.py": (2,),
    "parallel/test_xla_process_sets.py": (2, 4),
    "parallel/test_process_sets_static.py": (2, 4),
    "parallel/test_process_sets_multi_comm.py": (2, 4),
    "integration/test_elastic_tensorflow.py": (None,),
    "integration/test_elastic_tensorflow2.py": (None,),
    "integration/test_elastic_tensorflow_keras.py": (None,),
}
FILES.update(TENSORFLOW_FILES)

# Those that want pyspark, and where on GitHub those are that are not Horovod's.
SPARK_FILES = {name: (None,) for name in (
    "integration/test_spark.py", "sparkdl/runner_base_test.py", "spark/test_distributor.py",
    "spark/test_log_communication.py")}
FILES.update(SPARK_FILES)
SPARK_TESTS = "python/pyspark/ml/torch/tests"
OTHERS = {"sparkdl": ("databricks/spark-deep-learning", "master", "tests/horovod",
                      "RINGUP_TEST_SPARKDL_SOURCE"),
          "spark": ("apache/spark", "v4.1.0", SPARK_TESTS, "RINGUP_TEST_SPARK_SOURCE")}

# Those that want Ray.
RAY_FILES = {f"single/test_ray{name}.py": (None,) for name in ("", "_elastic", "_elastic_v2")}
FILES.update(RAY_FILES)

# Adasum: Horovod's needs MPI, and its tests ask for it; ringup's does not.
AS_IF_MPI = {"parallel/test_adasum_pytorch.py": "torch",
             "parallel/test_adasum_tensorflow.py": "tensorflow"}

# Programs that elastic tests start, which wait 3 s for new ranks to be announced.  ringup announces
# them when they have come, and TensorFlow takes longer to import; so they wait longer.  Two of them
# are for TensorFlow 1, whose names are put where it had them.
ELASTIC_FILES = {
    "integration/test_elastic_tensorflow.py": "1",
    "integration/test_elastic_tensorflow2.py": "2",
    "integration/test_elastic_tensorflow_keras.py": "1",
}
DISCOVERY_WAIT = 120  # seconds

# How a reason begins: who decides that a test does not pass.
KINDS = {
    "upstream": "the test skips itself, as it would with Horovod",
    "internals": "the test checks internals of Horovod's launcher or of its Spark services, which "
                 "ringup replaces",
    "differs": "ringup behaves differently on purpose",
    "test": "the test does not support current versions of its framework or of Python, so it also "
            "fails with Horovod",
    "todo": "ringup does not support this yet",
}


INTRODUCTION = """`tests/horovod/ask.py` downloads the tests of Horovod 0.28.1 and runs them
unchanged against ringup. `tests/horovod/expected.tsv` has the outcome of each test, and this page
is generated from it. The table includes the tests of HorovodRunner (`sparkdl/`). It also includes
the tests that Spark 4.1 has for its own TorchDistributor (`spark/`), which must still work when
ringup is installed; they run on pyspark 4.3.0. The column "passed" counts the tests that pass. The
columns after it count those that do not, by reason."""

NOTES = """If the column "ranks" has a dash, the tests start their own processes. For the elastic
tests of TensorFlow, `ask.py` changes the programs that the tests start: they wait for new ranks
longer than upstream's 3 s, and they can use the names of TensorFlow 1 with TensorFlow 2.15."""

REASONS = """Each entry has a reason from the first table, an explanation, and the names of the
tests to which it applies. If a test skips itself, the explanation is usually the test's own
message."""

# Run by hand, since the machines that run all tests have no GPU.
GPU = """We ran parallel/test_torch.py on 2 ranks that share one H100 (2026-11-27, torch 2.11 for
CUDA 13). `HOROVOD_MIXED_INSTALL=1` tells the tests that collectives run on the CPU. So that all
ranks use the one GPU, our runner takes GPU numbers modulo the number of GPUs. 105 tests pass, 6
skip themselves, and 3 fail because they do not support the optimizer Muon of this torch. One more
fails because ringup behaves differently on purpose: `test_horovod_grouped_allreduce_cpu_gpu_error`
expects an error for GPU and CPU tensors in one grouped operation, but ringup reduces them."""

# -- what pytest calls, on every rank (this file is loaded with -p) ------------------------------

class Absent:
    """What a module of Horovod's inside has in Horovod: a test that uses it fails, and says so."""

    def __init__(self, name):
        self.name = name

    def __call__(self, *_args, **_how):
        raise NotImplementedError(f"{self.name} is the inside of Horovod")

    def __mro_entries__(self, _bases):
        return (object,)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.name}.{name}")


class AbsentModule(types.ModuleType):
    """A module of Horovod's inside."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")


class Absentees:
    """Finds the modules of horovod.spark that there are not, so that files which import them, for
    some of their tests, can be collected; and lets those that there are have what they have not."""

    @staticmethod
    def find_spec(name, _path=None, _target=None):
        if not name.startswith("horovod.spark."):
            return None
        return importlib.machinery.ModuleSpec(name, Absentees, is_package=True)

    @staticmethod
    def create_module(spec):
        return AbsentModule(spec.name)

    @staticmethod
    def exec_module(_module):
        pass

    @staticmethod
    def install():
        """From now on; in processes that a test starts by a sitecustomize.py."""
        sys.meta_path.append(Absentees)
        for name in ("runner", "task", "common.store", "common.util"):
            module = importlib.import_module(f"horovod.spark.{name}")
            module.__getattr__ = functools.partial(AbsentModule.__getattr__, module)


def prepare_elastic():
    """What a sitecustomize.py calls in each Python that an elastic test starts."""
    if not any("elastic_tensorflow" in word for word in sys.orig_argv[1:2]):
        return  # it is not the program of a rank
    add_argument = argparse.ArgumentParser.add_argument

    def add_argument_and_wait(self, *names, **how):
        if "--discovery-wait" in names:
            how["default"] = DISCOVERY_WAIT
        return add_argument(self, *names, **how)

    argparse.ArgumentParser.add_argument = add_argument_and_wait
    if os.environ["HOROVOD_TESTS_ELASTIC"] == "1":
        tf = importlib.import_module("tensorflow")
        v1 = tf.compat.v1
        v1.disable_v2_behavior()
        names = [name for name in dir(v1) if not hasattr(tf, name)]
        for name in [*names, "Variable", "keras", "losses", "train"]:
            setattr(tf, name, getattr(v1, name))


def prepare_ray():
    """Ray's newest: it has no Redis any more, and nothing looks at its dashboard here."""
    ray = importlib.import_module("ray")
    init = ray.init

    def init_without(*args, **how):
        how.pop("_redis_max_memory", None)
        return init(*args, **{"include_dashboard": False, **how})

    ray.init = init_without


def pytest_configure():
    if "HOROVOD_TESTS_RAY" in os.environ:
        prepare_ray()
    if os.environ.get("HOROVOD_TESTS_SPARK") == "spark":
        importlib.import_module("pyspark.ml.torch").__path__.append(
            os.environ["HOROVOD_TESTS_FOLDER"])
    if "HOROVOD_TESTS_AS_IF_MPI" in os.environ:
        hvd = importlib.import_module("horovod." + os.environ["HOROVOD_TESTS_AS_IF_MPI"])
        hvd.mpi_enabled = lambda: True


@hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items[:] = items[int(os.environ["HOROVOD_TESTS_START"]):]


def note(**what):
    """Append to this rank's list of results."""
    rank = next((os.environ[name] for name in ("HOROVOD_TESTS_RANK", "RINGUP_RANK", "HOROVOD_RANK")
                 if name in os.environ), "0")
    with open(os.path.join(os.environ["HOROVOD_TESTS_RESULTS"], rank), "a",
              encoding="utf-8") as f:
        f.write(json.dumps(what) + "\n")


def pytest_collectreport(report):
    if report.failed:
        note(name="(import)", outcome="failed", why=report.longreprtext)


def pytest_runtest_logstart(nodeid):
    faulthandler.dump_traceback_later(TEST_SECONDS, exit=True)
    note(name=nodeid.split("::")[-1], outcome="began", why="")


def pytest_runtest_logreport(report):
    if report.when == "call" or not report.passed:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        note(name=report.nodeid.split("::")[-1], outcome=report.outcome, why=why)


def pytest_sessionfinish():
    faulthandler.cancel_dump_traceback_later()


# -- what the tests need ------------------------------------------------------------------------

def give_up(why):
    """There is nothing to run."""
    print(f"skipped: {why}", flush=True)
    sys.exit(SKIP)


def get_source(work):
    """The folder with Horovod's tests."""
    told = os.environ.get("RINGUP_TEST_HOROVOD_SOURCE")
    if told:
        if not os.path.isdir(os.path.join(told, "test", "parallel")):
            give_up(f"RINGUP_TEST_HOROVOD_SOURCE={told} has no folder test/parallel")
        return os.path.abspath(os.path.join(told, "test"))
    path = os.path.join(work, "horovod.tar.gz")
    source = os.path.join(work, "horovod-0.28.1", "test")
    if os.path.isdir(source):
        return source
    try:
        with urllib.request.urlopen(ARCHIVE, timeout=60) as r, open(path, "wb") as f:
            shutil.copyfileobj(r, f)
    except OSError as e:
        give_up(f"cannot get {ARCHIVE} ({e}); RINGUP_TEST_HOROVOD_SOURCE names no checkout")
    with tarfile.open(path) as t:
        t.extractall(work, [m for m in t if m.isfile() and "/test/" in m.name
                            and not os.path.isabs(m.name) and ".." not in m.name.split("/")])
    return source


def get_other(kind, name, work):
    """The folder of a file that is not Horovod's."""
    repository, ref, below, variable = OTHERS[kind]
    told = os.environ.get(variable)
    if told:
        if not os.path.exists(os.path.join(told, below, name)):
            give_up(f"{variable}={told} has no {below}/{name}")
        return os.path.join(os.path.abspath(told), below)
    folder = os.path.join(work, kind, "tests")
    os.makedirs(folder, exist_ok=True)
    wanted = [name] if kind == "sparkdl" else [
        "__init__.py", *(os.path.basename(n) for n in SPARK_FILES if n.startswith("spark/"))]
    for file in wanted:
        url = f"https://raw.githubusercontent.com/{repository}/{ref}/{below}/{file}"
        path = os.path.join(folder, file)
        if os.path.exists(path):
            continue
        try:
            with urllib.request.urlopen(url, timeout=60) as r, open(path + ".part", "wb") as f:
                shutil.copyfileobj(r, f)
        except OSError as e:
            give_up(f"cannot get {url} ({e}); {variable} names no checkout")
        os.rename(path + ".part", path)
    return folder


def get_file(file, work, horovod):
    """The path of a file of tests; horovod() is the folder of Horovod's."""
    kind, name = file.split("/")
    return os.path.join(get_other(kind, name, work) if kind in OTHERS else
                        os.path.join(horovod(), kind), name)


def get_python(work, variable="RINGUP_TEST_PYTHON", framework="torch"):
    """A Python with that framework, and with what the tests import."""
    base = os.environ.get(variable)
    if not base:
        give_up(f"{variable} names no Python with {framework}")
    asked = subprocess.run([base, "-c", "import json, sysconfig, importlib.util as u; "
                            "print(json.dumps(sysconfig.get_path('purelib'))); "
                            f"raise SystemExit(not u.find_spec('{framework}'))"],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                           check=False)
    if asked.returncode:
        give_up(f"{base} has no {framework}")
    venv = os.path.join(work, f"venv-{framework}")
    python, ready = os.path.join(venv, "bin", "python"), os.path.join(venv, "ready")
    if os.path.exists(ready):
        return python
    try:
        subprocess.run([base, "-m", "venv", venv], check=True)
        site = subprocess.check_output([python, "-c", "import sysconfig; "
                                        "print(sysconfig.get_path('purelib'))"], text=True).strip()
        with open(os.path.join(site, "base.pth"), "w", encoding="utf-8") as f:
            f.write(json.loads(asked.stdout) + "\n")
        subprocess.run([python, "-m", "pip", "install", "-q", *NEEDS], check=True,
                       stderr=subprocess.DEVNULL)
    except subprocess.CalledProcessError as e:
        give_up(f"cannot make an environment for the tests: {e}")
    with open(ready, "w", encoding="utf-8"):
        return python


def environment(folder, start, library, python):
    """Variables of the tests: nothing of another job, and this source's packages."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("HOROVOD_", "OMPI_", "PMI_", "PMIX_", "RINGUP_"))
           and k not in ("RANK", "WORLD_SIZE", "PYTHONHOME")}
    env.update(HOROVOD_TESTS_START=str(start), HOROVOD_TESTS_RESULTS=folder,
               OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", RINGUP_LIBRARY=library,
               TMPDIR=folder,
               PATH=os.pathsep.join([os.path.dirname(python), env.get("PATH", "")]),
               PYTHONPATH=os.pathsep.join([HERE, os.path.join(ROOT, "compat", "python")]))
    return env


def call_in_each_python(env, call):
    """Let each Python that a test starts call something of this file first."""
    with open(os.path.join(env["TMPDIR"], "sitecustomize.py"), "w", encoding="utf-8") as f:
        f.write(f"import ask\n\nask.{call}()\n")
    env["PYTHONPATH"] = os.pathsep.join([env["TMPDIR"], env["PYTHONPATH"]])


def spark_environment(env, file, path, python):
    """The same for a file that wants pyspark."""
    kind, spark = file.split("/")[0], os.environ["RINGUP_TEST_SPARK4"]
    if kind == "integration":
        call_in_each_python(env, "Absentees.install")
    env.update(HOROVOD_TESTS_SPARK=kind, PYSPARK_PYTHON=python, SPARK_LOCAL_IP="127.0.0.1",
               HOROVOD_TESTS_FOLDER=os.path.dirname(os.path.dirname(path)),
               SPARK_HOME=os.path.join(spark, "pyspark"),
               PYTHONPATH=os.pathsep.join([env["PYTHONPATH"], spark]))


def ray_environment(env, path):
    """The same for a file that wants Ray, whose workers import the file of tests, too."""
    env.update(HOROVOD_TESTS_RAY="1", RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0",
               PYTHONPATH=os.pathsep.join([env["PYTHONPATH"], os.environ["RINGUP_TEST_RAY"],
                                           os.path.dirname(path)]))


# -- running them -------------------------------------------------------------------------------

class Asked:
    """The tests of one file on so many ranks."""

    def __init__(self, file, ranks, only, path, python, library):
        self.file, self.ranks, self.only = file, ranks, only
        self.path, self.python, self.library = path, python, library

    def environment(self, folder, start):
        """Variables of the tests."""
        return environment(folder, start, self.library, self.python)

    def launcher(self):
        """What starts the ranks; their command follows."""
        return ["horovodrun", "-np", str(self.ranks), "--"]

    def launch(self, start, folder):
        """Run the tests from number start on: on several ranks until one fails."""
        argv = [self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "ask",
                self.path]
        argv += ["-k", self.only] if self.only else []
        env = self.environment(folder, start)
        if self.file in SPARK_FILES:
            spark_environment(env, self.file, self.path, self.python)
        if self.file in RAY_FILES:
            ray_environment(env, self.path)
        if self.file in ELASTIC_FILES:
            env["HOROVOD_TESTS_ELASTIC"] = ELASTIC_FILES[self.file]
            call_in_each_python(env, "prepare_elastic")
        if self.file in AS_IF_MPI:
            env["HOROVOD_TESTS_AS_IF_MPI"] = AS_IF_MPI[self.file]
        if self.ranks:
            argv = [*self.launcher(), *argv, "-x"]
        else:
            env["HOROVOD_TESTS_RANK"] = "0"  # ranks that a test starts are none of ours
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, start_new_session=True, env=env,
                              errors="replace", cwd=folder) as p:
            try:
                return p.communicate(timeout=JOB_SECONDS)[0]
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                return p.communicate()[0]
            except BaseException:
                os.killpg(p.pid, signal.SIGTERM)
                raise

    def results(self, folder):
        """{test: {rank: (outcome, why)}} in the order of the tests."""
        out = collections.OrderedDict()
        for rank in range(self.ranks or 1):
            path = os.path.join(folder, str(rank))
            if os.path.exists(path):
                with open(path, encoding="utf-8") as f:
                    for line in f:
                        r = json.loads(line)
                        ranks = out.setdefault(r["name"], {})
                        if ranks.get(rank, ("began",))[0] in ("began", "passed"):
                            ranks[rank] = r["outcome"], r["why"]
        return out

    def verdict(self, ranks):
        """(outcome, why) of a test on all ranks."""
        outcomes = [ranks.get(r, ("began", "")) for r in range(self.ranks or 1)]
        for kind in ("failed", "began"):
            for outcome, why in outcomes:
                if outcome == kind:
                    return "failed", why or "it did not come to its end"
        for outcome, why in outcomes:
            if outcome == "skipped":
                return outcome, why
        return "passed", ""

    def run(self):
        """{test: (outcome, why)}"""
        done = collections.OrderedDict()
        while True:
            # The names of Ray's sockets have 107 bytes at most, and the runner's folder is deep.
            where = "/tmp" if self.file in RAY_FILES else None
            with tempfile.TemporaryDirectory(prefix="ringup-horovod-tests", dir=where) as folder:
                text = self.launch(len(done), folder)
                found = self.results(folder)
            ended = True
            for name, ranks in found.items():
                done[name] = self.verdict(ranks)
                if done[name][0] == "failed" and name != "(import)" and (
                        self.ranks or ranks[0][0] == "began"):
                    ended = False
                    break
            if not done:
                done["(import)"] = "failed", text
            if ended or not found:
                return done


# -- what is expected ---------------------------------------------------------------------------

def read_expected():
    """{(file, test, ranks): (outcome, reason)} in the order of the file."""
    rows = collections.OrderedDict()
    with open(EXPECTED, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if line.startswith("#") or not line.strip():
                continue
            cells = line.rstrip("\n").split("\t")
            cells += [""] * (len(cells) == 4)
            if len(cells) != 5 or cells[3] not in ("passed", "failed", "skipped"):
                sys.exit(f"{EXPECTED}, line {number}: not FILE, TEST, RANKS, OUTCOME, REASON")
            if cells[3] != "passed" and cells[4].split(":")[0] not in KINDS:
                sys.exit(f"{EXPECTED}, line {number}: the reason begins with none of "
                         f"{', '.join(KINDS)}")
            rows[cells[0], cells[1], cells[2]] = cells[3], cells[4]
    return rows


def short(why):
    """One line of a failure or of a skip."""
    lines = [line.strip() for line in why.strip().splitlines() if line.strip()]
    marked = [line[1:].strip() for line in lines if line.startswith("E ")]
    text = " ".join((marked[0] if marked else lines[-1] if lines else "").split())
    return re.sub(r" \(/[^)]*\)", "", text.removeprefix("Skipped: "))[:200]


def write_expected(rows):
    """The reverse of read_expected()."""
    with open(EXPECTED, "w", encoding="utf-8") as f:
        f.write("# expected.tsv - results of Horovod's tests: file, test, ranks, outcome, "
                "reason.\n# SPDX-License-Identifier: Apache-2.0\n# Written by ask.py --update, "
                "which keeps the reason of a row if the outcome is the same.\n")
        for key, row in rows.items():
            f.write("\t".join(key + row).rstrip("\t") + "\n")


def update(rows, file, ranks, found):
    """Put what was found into the rows."""
    keep = {k: v for k, v in rows.items() if k[0] == file and k[2] == ranks}
    for key in keep:
        del rows[key]
    for name, (outcome, why) in found.items():
        key = file, name, ranks
        if outcome == "passed":
            rows[key] = outcome, ""
        elif keep.get(key, ("",))[0] == outcome:
            rows[key] = keep[key]
        else:
            rows[key] = outcome, (f"{'upstream' if outcome == 'skipped' else 'todo'}: "
                                  f"{short(why)}")


def in_order(rows):
    """Rows by file as FILES has them; the tests of a file as they came."""
    order = list(FILES)
    keys = sorted(rows, key=lambda k: (order.index(k[0]) if k[0] in order else len(order), k[2]))
    return collections.OrderedDict((k, rows[k]) for k in keys)


def differences(rows, file, ranks, found, only):
    """Sentences."""
    out = []
    for name, (outcome, why) in found.items():
        want = rows.get((file, name, ranks), ("not known", ""))[0]
        if outcome != want:
            out.append(f"{file} {name}, ranks {ranks}: {outcome}, expected: {want}"
                       + (f": {short(why)}" if why else ""))
    if not only:
        out += [f"{file} {k[1]}, ranks {ranks}: is not there any more" for k in rows
                if k[0] == file and k[2] == ranks and k[1] not in found]
    return out


def table(rows):
    """docs/HOROVOD-TESTS.md"""
    out = ["# Horovod's own tests, run against ringup", "",
           *textwrap.wrap(INTRODUCTION, 120), "",
           "| file | ranks | passed | " + " | ".join(KINDS) + " |",
           "|---|--:|--:|" + "--:|" * len(KINDS)]
    counts = collections.OrderedDict()
    for (file, _, ranks), (outcome, reason) in rows.items():
        c = counts.setdefault((file, ranks), collections.Counter())
        c["passed" if outcome == "passed" else reason.split(":")[0]] += 1
    total = collections.Counter()
    for (file, ranks), c in counts.items():
        total.update(c)
        out.append(f"| {file} | {ranks} | {c['passed']} | "
                   + " | ".join(str(c[k] or "") for k in KINDS) + " |")
    out.append(f"| all | | {total['passed']} | "
               + " | ".join(str(total[k] or "") for k in KINDS) + " |")
    out += ["", *(f"- **{k}**: {text}." for k, text in KINDS.items()), "",
            *textwrap.wrap(NOTES, 120), "",
            *importlib.import_module("newer").section(),
            "## On a GPU", "", *textwrap.wrap(GPU, 120), "",
            "## Tests that do not pass", "", *textwrap.wrap(REASONS, 120), ""]
    why = collections.OrderedDict()
    for (file, name, ranks), (outcome, reason) in rows.items():
        if outcome != "passed":
            names = why.setdefault((file, reason), [])
            if name not in names:
                names.append(name)
    last = None
    for (file, reason), names in why.items():
        if file != last:
            out += [""] * (last is not None) + [f"### {file}", ""]
            last = file
        out += textwrap.wrap(f"- {reason}: {', '.join(f'`{n}`' for n in names)}", 120,
                             subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(out) + "\n"


# -- the whole ----------------------------------------------------------------------------------

def lacks(file):
    """Why a file is left out, or nothing."""
    if file in TENSORFLOW_FILES and not os.environ.get("RINGUP_TEST_TENSORFLOW_215"):
        return "RINGUP_TEST_TENSORFLOW_215 names no Python with TensorFlow"
    if file in SPARK_FILES and not os.environ.get("RINGUP_TEST_SPARK4"):
        return "RINGUP_TEST_SPARK4 names no folder with pyspark"
    if file in SPARK_FILES and not shutil.which("java"):
        return "there is no Java"
    if file in RAY_FILES and not os.environ.get("RINGUP_TEST_RAY"):
        return "RINGUP_TEST_RAY names no folder with Ray"
    return None


def ask(o, work):
    """Run what is asked for; sentences about what differs."""
    pythons, sources = {}, []

    def horovod():
        sources[:] = sources or [get_source(work)]
        return sources[0]

    if not shutil.which("horovodrun"):
        give_up("horovodrun is not in PATH")
    library = os.environ.get("RINGUP_LIBRARY") or os.path.join(
        os.path.dirname(shutil.which("horovodrun")), ".libs", "libringup.so.0")
    rows, out = read_expected() if os.path.exists(EXPECTED) else collections.OrderedDict(), []
    for file in o.files or FILES:
        of = (("RINGUP_TEST_TENSORFLOW_215", "tensorflow") if file in TENSORFLOW_FILES
              else ("RINGUP_TEST_PYTHON", "torch"))
        if lacks(file) and not o.only:
            print(f"{file}: left out, {lacks(file)}", flush=True)
            continue
        path = get_file(file, work, horovod)
        python = pythons.get(of) or pythons.setdefault(of, get_python(work, *of))
        for ranks in FILES[file]:
            if o.ranks and ranks not in o.ranks:
                continue
            shown = str(ranks or "-")
            found = Asked(file, ranks, o.only, path, python, library).run()
            counts = collections.Counter(outcome for outcome, _ in found.values())
            print(f"{file}, ranks {shown}: " + ", ".join(f"{n} {what}" for what, n in
                                                          sorted(counts.items())), flush=True)
            if o.verbose:
                for name, (outcome, why) in found.items():
                    if outcome != "passed":
                        print(f"-- {name}: {outcome}\n{why}", flush=True)
            if o.update:
                update(rows, file, shown, found)
                write_expected(in_order(rows))
            else:
                out += differences(rows, file, shown, found, o.only)
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("files", nargs="*", metavar="FILE",
                   help="below Horovod's folder test; a folder stands for all of its files")
    p.add_argument("--ranks", type=int, action="append", help="only with so many; repeatable")
    p.add_argument("--only", help="pytest's -k")
    p.add_argument("--update", action="store_true", help="write down what was found")
    p.add_argument("--table", action="store_true", help="print the page of the manual")
    p.add_argument("--work", help="keep tests and Python here for another time")
    p.add_argument("--verbose", action="store_true", help="tell all about failures")
    o = p.parse_args()
    o.files = [f for name in o.files
               for f in ([k for k in FILES if k.startswith(name + "/")] or [name])]
    unknown = [f for f in o.files if f not in FILES]
    if unknown or (o.update and o.only):
        p.error(f"not known: {unknown}" if unknown else "--update does not go with --only")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if o.table:
        sys.stdout.write(table(read_expected()))
        return 0
    if o.work:
        os.makedirs(o.work, exist_ok=True)
        wrong = ask(o, os.path.abspath(o.work))
    else:
        with tempfile.TemporaryDirectory(prefix="ringup-horovod") as work:
            wrong = ask(o, work)
    if o.update:
        with open(DOCUMENT, "w", encoding="utf-8") as f:
            f.write(table(read_expected()))
    if wrong:
        print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
