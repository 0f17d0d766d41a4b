# test_spark_files.py - the driver's own modules and data files reach ranks on other hosts.
# SPDX-License-Identifier: Apache-2.0
#
# The other host is this one, on which the driver's folder is gone when the ranks start.
#
# needs: cpu
# tests: compat/python/ringup/spark compat/python/ringup/setting.py

import functools
import importlib
import os
import runpy
import shutil
import subprocess
import sys
import threading
import time
import types
import zipfile

import pytest
from conftest import HANG

from ringup.spark import JobFailed, gather, job, stage, unpack
from sparkdl import HorovodRunner


@pytest.fixture(autouse=True)
def by_value(monkeypatch):
    """This file is a module of its own, which needs pytest; its functions travel themselves."""
    real = gather.by_value
    monkeypatch.setattr(gather, "by_value", lambda: [*real(), sys.modules[__name__]])


@pytest.fixture
def note(tmp_path, monkeypatch):
    """The folder of a notebook, on sys.path and current; what it imports is forgotten later."""
    folder = tmp_path / "note"
    folder.mkdir()
    monkeypatch.chdir(folder)
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if gather.is_installed(p or ".")])
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    gather.left_out.clear()
    yield folder
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder, texts):
    """Files by name."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Call a function on a rank of another host: folders of the driver are not there."""
    real, away = job.Job.orders, tmp_path / "away"

    def orders(self, here=False):
        """The rank's host has neither the folders nor this process's sys.path."""
        found = real(self)
        os.chdir("/")
        monkeypatch.setattr(sys, "path", [p for p in sys.path if gather.is_installed(p or ".")])
        for name in call.folders:
            os.makedirs(away, exist_ok=True)
            os.rename(tmp_path / name, away / name)
        return found

    def call(fn, *args, folders=("note",), **kwargs):
        path, cwd = sys.path, os.getcwd()
        call.folders = folders
        try:
            with monkeypatch.context() as m:
                m.setattr(job.Job, "orders", orders)
                done = job.run_here_to_its_end(job.Job.of_function(1, fn, args, kwargs))
        finally:
            for name in os.listdir(away) if away.exists() else ():
                os.rename(away / name, tmp_path / name)
            monkeypatch.setattr(sys, "path", path)
            os.chdir(cwd)
        return done.results()[0]

    before = leftovers()
    yield call
    deadline = time.monotonic() + HANG
    while leftovers() - before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert leftovers() == before


def leftovers():
    import tempfile
    return {n for n in os.listdir(tempfile.gettempdir()) if n.startswith("ringup-files.")}


# -- a test per way to import ----------------------------------------------------------------------

def test_a_module_that_only_the_function_imports(note, elsewhere):
    write(note, {"helpers.py": "def make(): return 'made'\n"})

    def train():
        from helpers import make
        import helpers
        return make(), helpers.__file__
    made, path = elsewhere(train)
    assert made == "made" and not path.startswith(str(note)) and path.endswith(f"{note}/helpers.py")


def test_a_module_that_driver_and_function_import_is_one(note, elsewhere):
    write(note, {"both.py": "class Model: pass\ndef make(): return Model()\n"})
    import both

    def train(model):
        import both as again
        return isinstance(model, again.Model), isinstance(both.make(), again.Model)
    assert elsewhere(train, both.Model()) == (True, True)


def test_a_class_of_a_module_comes_back_as_itself(note, elsewhere):
    write(note, {"kinds.py": "class Point:\n    def __init__(self, x): self.x = x\n"})
    import kinds
    back = elsewhere(lambda: kinds.Point(3))
    assert type(back) is kinds.Point and back.x == 3


@pytest.mark.parametrize("text", [
    "import threading\nL = threading.Lock()\ndef f():\n    with L: return 1\n",
    "import functools\n@functools.lru_cache(None)\ndef g(x): return x\ndef f(): return g(1)\n",
    "import sys\nOUT = open('/dev/null')\nGEN = (i for i in (1,))\ndef f(): return next(GEN)\n"],
    ids=["a lock", "a cache", "a file and a generator"])
def test_what_a_module_holds_need_not_be_sent(note, elsewhere, text):
    write(note, {"holds.py": text})
    import holds
    assert elsewhere(lambda: holds.f()) == 1


def test_a_function_of_a_module_is_the_training(note, elsewhere):
    write(note, {"training.py": "import other\ndef main(x): return other.twice(x)\n",
                 "other.py": "def twice(x): return 2 * x\n"})
    import training
    assert elsewhere(training.main, 4) == 8
    assert elsewhere(functools.partial(training.main, x=5)) == 10


def test_packages_with_subpackages_and_relative_imports(note, elsewhere):
    write(note, {"pkg/__init__.py": "", "pkg/a.py": "from .sub.b import value\n",
                 "pkg/sub/__init__.py": "", "pkg/sub/b.py": "from .. import c\nvalue = c.value\n",
                 "pkg/c.py": "value = 'deep'\n"})

    def train():
        import pkg.a
        return pkg.a.value
    assert elsewhere(train) == "deep"


def test_namespace_packages_of_two_folders(note, tmp_path, elsewhere):
    lib = tmp_path / "lib"
    write(note, {"space/one.py": "x = 1\n"})
    write(lib, {"space/two.py": "x = 2\n"})
    sys.path.append(str(lib))

    def train():
        from space import one, two
        return one.x, two.x
    assert elsewhere(train, folders=("note", "lib")) == (1, 2)


def test_data_files_beside_a_module(note, elsewhere):
    write(note, {"pkg/__init__.py": "import os, pkgutil\nfrom importlib import resources\n"
          "HERE = os.path.dirname(__file__)\n"
          "def by_path(): return open(os.path.join(HERE, 'words.txt')).read()\n"
          "def by_pkgutil(): return pkgutil.get_data(__name__, 'data/deep/x.json').decode()\n"
          "FILES = resources.files(__name__)\n"
          "def by_resources(): return FILES.joinpath('words.txt').read_text()\n",
          "reads.py": "import os\nHERE = os.path.dirname(os.path.abspath(__file__))\n"
          "def above(): return open(os.path.join(HERE, 'conf', 'a.yaml')).read()\n",
          "pkg/words.txt": "words", "pkg/data/deep/x.json": "{}", "conf/a.yaml": "a: 1"})

    def train():
        import pkg
        import reads
        return pkg.by_path(), pkg.by_pkgutil(), pkg.by_resources(), reads.above()
    assert elsewhere(train) == ("words", "{}", "words", "a: 1")


def test_the_root_of_a_repository_and_a_folder_in_it(note, tmp_path, elsewhere):
    """The notebook lies in a subfolder; both are on sys.path, as Databricks has them."""
    write(note, {"src/model.py": "NAME = 'model'\n",
                 "notebooks/local.py": "import src.model\ndef f(): return src.model.NAME\n"})
    sys.path.insert(0, str(note / "notebooks"))

    def train():
        import local
        return local.f(), local.__file__
    value, path = elsewhere(train)
    assert value == "model" and path.endswith("/note/notebooks/local.py")


@pytest.mark.parametrize("where", ["before", "behind"])
def test_a_folder_has_its_place_before_or_behind_installed_packages(note, tmp_path, elsewhere,
                                                                    where):
    write(tmp_path / "lib", {"numpy.py": "NAME = 'mine'\n", "only_there.py": "x = 1\n"})
    if where == "behind":  # nothing of Python's own start finds these
        write(tmp_path / "lib", {"json.py": "1 / 0", "queue.py": "1 / 0", "hmac.py": "1 / 0"})
    sys.path.insert(0, str(tmp_path / "lib")) if where == "before" else \
        sys.path.append(str(tmp_path / "lib"))

    def train():
        import only_there
        import numpy
        return only_there.x, getattr(numpy, "NAME", None)
    assert elsewhere(train, folders=("lib",)) == (1, "mine" if where == "before" else None)


@pytest.mark.parametrize("suffix", [".zip", ".egg"])
def test_an_archive_on_the_path(note, elsewhere, suffix):
    with zipfile.ZipFile(note / f"lib{suffix}", "w") as z:
        z.writestr("zipped/__init__.py", "x = 5\nclass Model: pass\n")
    sys.path.insert(0, str(note / f"lib{suffix}"))
    import zipped

    def train(model):
        import zipped as again
        return again.x, type(model) is again.Model is zipped.Model
    assert elsewhere(train, zipped.Model()) == (5, True)


def test_a_module_whose_folder_is_no_longer_on_the_path(note, tmp_path, elsewhere):
    write(tmp_path / "lib", {"gone.py": "def f(): return 'was there'\n", "other.py": "1 / 0\n"})
    sys.path.insert(0, str(tmp_path / "lib"))
    import gone
    sys.path.remove(str(tmp_path / "lib"))
    assert elsewhere(lambda: gone.f(), folders=("note", "lib")) == "was there"


def test_modules_that_have_no_file_or_another_name(note, tmp_path, elsewhere):
    made = types.ModuleType("made_here")
    exec("def f(): return 'made'\n", made.__dict__)
    sys.modules["made_here"] = made
    write(tmp_path / "lib", {"file.py": "def f(): return 'named'\n"})
    spec = importlib.util.spec_from_file_location("other_name", tmp_path / "lib" / "file.py")
    named = sys.modules["other_name"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(named)
    write(note, {"ran.py": "def f(): return 'run'\n"})
    ran = runpy.run_path(str(note / "ran.py"))["f"]
    assert elsewhere(lambda: (made.f(), named.f(), ran()), folders=("note", "lib")) == (
        "made", "named", "run")


def test_a_module_that_needs_the_driver_s_session_is_not_imported(note, elsewhere):
    """Its functions travel themselves: an import would start a session in the rank."""
    class SparkSession:
        pass
    SparkSession.__module__ = "pyspark.sql.session"
    write(note, {"with_session.py": "spark = None\ndef f(): return 'f'\n"})
    import with_session
    with_session.spark = SparkSession()
    (note / "with_session.py").write_text("raise RuntimeError('imported')\n")
    assert elsewhere(with_session.f) == "f"


def test_a_module_that_has_changed_since_is_the_file_s(note, elsewhere):
    write(note, {"changes.py": "def f(): return 'old'\n"})
    import changes
    (note / "changes.py").write_text("def f(): return 'newer'\n")
    assert changes.f() == "old" and elsewhere(lambda: changes.f()) == "newer"


@pytest.mark.parametrize("has_cache", [True, False])
def test_what_the_driver_has_set_in_a_module_travels(note, elsewhere, monkeypatch, has_cache):
    monkeypatch.setattr(sys, "dont_write_bytecode", not has_cache)
    write(note, {"config.py": "LR = 0.1\nSAME = 1\nPARAMS = {'a': 1}\nNAMES: list = ['x']\n"
                 "COUNT = 0\nHALF = LR / 2\nTWICE = 1\nTWICE = 2\n"
                 "def count():\n    global COUNT\n    COUNT += 1\ndef lr(): return LR\n",
                 "uses.py": "from config import PARAMS\ndef a(): return PARAMS['a']\n"})
    import config
    import uses
    config.LR, config.NEW = 0.5, "new"
    config.PARAMS["a"] = 2
    config.NAMES.append("y")
    config.count()
    config.lock = threading.Lock()
    assert elsewhere(lambda: (config.lr(), config.SAME, uses.a(), config.NAMES, config.COUNT,
                              config.HALF, config.NEW, config.TWICE, hasattr(config, "lock"))) == (
        0.5, 1, 2, ["x", "y"], 0, 0.05, "new", 2, False)
    write(note, {"config.py": "LR = 0.25\nPARAMS = {'a': 7, 'b': 8}\ndef lr(): return 2 * LR\n"})
    assert elsewhere(lambda: config.lr()) == 0.5, "the file has changed since: it counts"
    assert elsewhere(uses.a) == 7


def test_an_editable_install(note, tmp_path, elsewhere, monkeypatch):
    """setuptools makes a finder with a table; no entry of sys.path has the package."""
    write(tmp_path / "project", {"editable/__init__.py": "x = 'edited'\n"})
    finder = types.ModuleType("__editable___x_finder")
    finder.MAPPING = {"editable": str(tmp_path / "project" / "editable")}

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return None
    Finder.__module__ = finder.__name__
    monkeypatch.setitem(sys.modules, finder.__name__, finder)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])

    def train():
        import editable
        return editable.x
    assert elsewhere(train, folders=("note", "project")) == "edited"


def test_children_of_a_rank_find_the_modules(note, elsewhere):
    write(note, {"helpers.py": "def f(x): return x + 1\n"})

    def train():
        import multiprocessing
        import subprocess
        import sys

        import helpers
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            doubled = pool.map(helpers.f, [1, 2])
        return doubled, subprocess.run([sys.executable, "-c", "import helpers"],
                                       check=False).returncode
    assert elsewhere(train) == ([2, 3], 0)


def test_ranks_on_the_driver_use_its_folders(note, tmp_path):
    write(note, {"helpers.py": "def where(): return __file__\n"})
    write(tmp_path / "lib", {"far.py": "x = 2\n", "numpy.py": "NAME = 'mine'\n"})
    sys.path.append(str(tmp_path / "lib"))

    def train():
        import far
        import numpy
        from helpers import where
        return where(), far.x, hasattr(numpy, "NAME")
    assert HorovodRunner(np=-2).run(train) == (str(note / "helpers.py"), 2, False)


def test_a_host_that_has_the_same_files_uses_them_there(note):
    write(note, {"helpers.py": "x = 1\n"})
    with unpack.unpacked(gather.gather()) as (places, stays):
        assert str(note) in places.before and places.folder is None and stays is None
        data = gather.gather()
    (note / "helpers.py").write_text("x = 2\n")
    with unpack.unpacked(data) as (places, stays):
        assert places.before == [f"{places.folder}{note}"]


def test_a_program_of_the_driver_runs_with_the_modules_beside_it(note, tmp_path, monkeypatch,
                                                                 capfd):
    """As TorchDistributor runs it."""
    write(tmp_path / "lib", {"train.py": "import sys, beside\nprint(beside.x, sys.argv[1:])\n",
                             "beside.py": "x = 'beside'\n"})
    monkeypatch.chdir(tmp_path / "lib")
    work = job.Job.of_file(1, "train.py", [3], output=stage.to_stdout())
    orders = work.orders()
    os.rename(tmp_path / "lib", tmp_path / "away")
    os.chdir("/")
    work.orders = lambda here: orders
    job.run_here_to_its_end(work).check()
    assert "beside ['3']" in capfd.readouterr().out


# -- what stays behind -----------------------------------------------------------------------------

def names_in(data):
    with zipfile.ZipFile(gather.io.BytesIO(data)) as z:
        return {n for n in z.namelist() if "/note/" in n}


def test_installed_and_hidden_things_do_not_travel(note):
    write(note, {"a.py": "", "venv/pyvenv.cfg": "", "venv/bin/x.py": "", ".git/config": "",
                 ".env": "secret", "node_modules/b.py": "", "x.egg-info/PKG": "", "n.ipynb": "{}",
                 "__pycache__/a.py": ""})
    os.mkfifo(note / "pipe")
    os.symlink(note, note / "loop")
    os.symlink("/no/such", note / "dangling.py")
    assert names_in(gather.gather()) == {f"{note}/a.py".lstrip("/")}


def test_a_data_set_beside_the_notebook_stays_and_is_told(note, capsys):
    write(note, {"a.py": "", "small.py": ""})
    (note / "images").mkdir()
    for i in range(3):
        (note / "images" / f"{i}.jpg").write_bytes(bytes(2 << 20))
    (note / "labels.txt").write_text("labels")
    (note / "big.bin").write_bytes(bytes(5 << 20))
    names = {os.path.basename(n) for n in names_in(gather.gather())}
    assert names == {"a.py", "small.py", "labels.txt"}, "a part of a data set is worse than nothing"
    said = capsys.readouterr().err
    assert "big.bin (5 MiB)" in said and "and 1 more" in said and "storage that all hosts" in said
    gather.gather()
    assert not capsys.readouterr().err, "said once"


def test_modules_that_are_used_come_first_within_the_limit(note, monkeypatch, capsys):
    monkeypatch.setenv("RINGUP_SPARK_FILES", "2K")
    for i in range(9):
        write(note, {f"a{i}.py": "#" * 500})
    write(note, {"wanted.py": "x = 1\n"})

    def train():
        import wanted
        return wanted.x
    assert "wanted.py" in {os.path.basename(n) for n in names_in(gather.gather(train))}
    assert "RINGUP_SPARK_FILES=SIZE" in capsys.readouterr().err
    monkeypatch.setenv("RINGUP_SPARK_FILES", "0")
    assert gather.gather(train) is None


def test_a_module_that_was_left_out_is_named_with_its_file(note, elsewhere, monkeypatch):
    monkeypatch.setenv("RINGUP_SPARK_FILES", "1K")
    write(note, {"large.py": "#" * 2000, "small.py": ""})

    def train():
        import large
        return large
    with pytest.raises(JobFailed) as e:
        elsewhere(train)
    first = str(e.value).split("\n\n")[0]
    assert f"{note}/large.py (1.95 KiB) was left out: sources travel up to 1 KiB" in first
    assert "Raise RINGUP_SPARK_FILES" in first


def test_a_module_that_nobody_has_is_said_so(note):
    def train():
        import no_such_module_anywhere
        return no_such_module_anywhere
    with pytest.raises(JobFailed) as e:
        HorovodRunner(np=-1 - 1).run(train)
    first = str(e.value).split("\n\n")[0]
    assert "no_such_module_anywhere" in first and "the driver does not have it either" in first
    assert e.value.rank in (0, 1) and isinstance(e.value.__cause__, ModuleNotFoundError)


def test_a_file_that_only_the_driver_has_is_named(note, elsewhere, tmp_path):
    (note / "table.csv").write_text("1,2\n")

    def train():
        import os
        os.chdir("/")
        return open("table.csv", encoding="utf-8").read()
    with pytest.raises(JobFailed) as e:
        elsewhere(train, folders=())
    first = str(e.value).split("\n\n")[0]
    assert str(note / "table.csv") in first and "storage that all hosts share" in first


def test_a_traceback_has_the_driver_s_names_of_files(note, elsewhere):
    write(note, {"raises.py": "def f():\n    raise ValueError('here')\n"})

    def train():
        import raises
        raises.f()
    with pytest.raises(JobFailed) as e:
        elsewhere(train)
    assert f'File "{note}/raises.py", line 2, in f' in e.value.traceback
    assert "ringup-files" not in str(e.value)


@pytest.mark.parametrize("how", ["TERM", "KILL"])
def test_a_task_that_is_killed_leaves_no_files(note, tmp_path, how):
    write(note, {"a.py": "x = 1\n"})
    (tmp_path / "archive").write_bytes(gather.gather())
    shutil.rmtree(note)
    before = leftovers()
    program = ("import sys, time\nfrom ringup.spark import unpack\n"
               "with unpack.unpacked(open(sys.argv[1], 'rb').read()) as (places, stays):\n"
               "    print(places.folder, flush=True)\n    time.sleep(1000)\n")
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "archive")], cwd="/",
                          stdout=subprocess.PIPE, text=True) as p:
        folder = p.stdout.readline().strip()
        assert os.path.exists(f"{folder}{note}/a.py") and leftovers() - before
        assert os.stat(folder).st_mode & 0o777 == 0o700
        p.send_signal({"TERM": 15, "KILL": 9}[how])
    deadline = time.monotonic() + HANG
    while leftovers() - before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert leftovers() == before


def test_a_host_without_room_says_so(note, monkeypatch):
    write(note, {"a.py": "x = 1\n"})
    data = gather.gather()
    shutil.rmtree(note)
    monkeypatch.setattr(zipfile.ZipFile, "extractall",
                        lambda *a: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    before = leftovers()
    with pytest.raises(RuntimeError, match="no space for the driver's Python files"):
        with unpack.unpacked(data):
            pass
    assert leftovers() == before
