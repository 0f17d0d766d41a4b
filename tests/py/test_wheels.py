# test_wheels.py - the wheels ringup and ringup-horovod: their contents, and environments with them.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: packaging debian pyproject.toml compat configure.ac Makefile.am src/base/data.c src/rebuild

import csv
import email
import fnmatch
import glob
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import HANG, ROOT
from test_install import pip_list, python, site, template  # noqa: F401

WHEELS = os.path.join(ROOT, "packaging", "wheels.py")
BUILD = os.path.dirname(os.path.dirname(os.path.realpath(os.environ["RINGUP_LIBRARY"])))
LONG = pytest.mark.skipif(os.environ.get("RINGUP_TEST_LONG") != "1",
                          reason="takes many seconds; RINGUP_TEST_LONG=1 runs it")


def clean(**more):
    """The environment of a user who has installed nothing but the wheels."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("RINGUP_", "PYTHON", "MAKE", "MFLAGS")) and k != "LD_LIBRARY_PATH"}
    return {**kept, "PATH": "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", **more}


def run(*words, status=0, cwd="/", **env):
    """What a command says, which has to end with that status."""
    p = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, cwd=cwd, env=clean(**env), timeout=HANG, stdin=subprocess.DEVNULL)
    assert p.returncode == status, f"{words}: {p.returncode}\n{p.stdout}"
    return p.stdout


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """What `make install-strip` installs of the build that is tested."""
    if not os.path.exists(os.path.join(BUILD, "Makefile")):
        pytest.skip("there is no build folder")
    d = tmp_path_factory.mktemp("stage")
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    p = subprocess.run(["make", "-s", "-C", BUILD, "install-strip", f"DESTDIR={d}"], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, timeout=HANG)
    assert p.returncode == 0, p.stdout
    library, = glob.glob(f"{d}/**/libringup.so.0", recursive=True)
    if b"san.so" in subprocess.run(["readelf", "-d", library], stdout=subprocess.PIPE).stdout:
        pytest.skip("this is a sanitizer's build")
    return d


@pytest.fixture(scope="module")
def wheels(stage, tmp_path_factory):
    """The paths of both wheels: ringup, ringup-horovod."""
    d = tmp_path_factory.mktemp("dist")
    out = run(sys.executable, WHEELS, "--stage", stage, d).split()
    assert sorted(os.listdir(d)) == sorted(os.path.basename(w) for w in out) and len(out) == 2
    return out


@pytest.fixture(scope="module")
def wheels_py():
    spec = importlib.util.spec_from_file_location("wheels", WHEELS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def installed(python, wheels):  # noqa: F811
    """The bin folder of an environment with the wheel ringup."""
    run(python, "-m", "pip", "-q", "install", "--no-index", "--no-deps", wheels[0])
    return os.path.dirname(python)


def hashes(top):
    """{path below top: SHA-256} of all files but bytecode."""
    found = {}
    for folder, _dirs, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not name.endswith(".pyc"):
                with open(path, "rb") as f:
                    found[os.path.relpath(path, top)] = hashlib.sha256(f.read()).hexdigest()
    return found


# -- what is in them ------------------------------------------------------------------------------

def test_the_wheel_says_what_it_is_and_brings_all_that_it_needs(wheels):
    name = os.path.basename(wheels[0])
    found = re.fullmatch(r"ringup-(0\.2\.0\S*)-py3-none-manylinux_2_(\d+)_\w+\.whl", name)
    assert found, name
    with zipfile.ZipFile(wheels[0]) as z:
        assert z.testzip() is None
        names = set(z.namelist())
        info = f"ringup-{found.group(1)}.dist-info"
        data = f"ringup-{found.group(1)}.data"
        rows = list(csv.reader(z.read(f"{info}/RECORD").decode().splitlines()))
        assert {r[0] for r in rows} == names
        meta = email.message_from_bytes(z.read(f"{info}/METADATA"))
        points = z.read(f"{info}/entry_points.txt").decode()
        modes = {i.filename: i.external_attr >> 16 & 0o777 for i in z.infolist()}
    assert meta["Name"] == "ringup" and meta["License"] == "Apache-2.0"
    assert meta["Requires-Python"] == ">=3.8" and "init_process_group" in meta.get_payload()
    assert {"torch", "spark", "ray", "jax", "horovod"} <= set(meta.get_all("Provides-Extra"))
    assert any(c.startswith("License ::") for c in meta.get_all("Classifier"))
    assert not [r for r in meta.get_all("Requires-Dist") if "extra" not in r]
    assert "[torch.distributed.backends]" in points
    assert {"ringup/libringup.so.0", "ringup/libringup_tf.so", "ringup/libringup_jax.so",
            "ringup_torch/__init__.py", f"{data}/scripts/ringup",
            f"{data}/data/share/ringup/recipes/horovod-0.28.1.json",
            f"{data}/data/share/ringup/compat/install",
            f"{data}/data/share/man/man1/ringup.1", f"{info}/LICENSE"} <= names
    assert not [n for n in names if n.startswith(("horovod/", "sparkdl/"))]
    for brought in ("libsodium", "libmnl", "libjansson"):
        assert [n for n in names if f"share/ringup/lib/{brought}.so" in n], brought
        assert f"{info}/licenses/{brought}.txt" in names
    for program in ("scripts/ringup", "scripts/ringup-init",
                    "data/share/ringup/compat/install"):
        assert modes[f"{data}/{program}"] == 0o755, program
    assert modes["ringup/__init__.py"] == 0o644


def test_the_tag_is_what_the_symbols_need(wheels, tmp_path):
    with zipfile.ZipFile(wheels[0]) as z:
        z.extractall(tmp_path)
    said = int(re.search(r"manylinux_2_(\d+)_", wheels[0]).group(1))
    needs = set()
    for path in glob.glob(f"{tmp_path}/**", recursive=True):
        if os.path.isfile(path) and (".so" in path or path.endswith("scripts/ringup")):
            out = subprocess.run(["objdump", "-T", path], stdout=subprocess.PIPE).stdout.decode()
            needs |= {int(n) for n in re.findall(r"GLIBC_2\.(\d+)", out)}
    assert max(needs) <= said <= max(max(needs), 36)


def test_the_same_installation_gives_the_same_wheels(stage, wheels, tmp_path):
    again = run(sys.executable, WHEELS, "--stage", stage, tmp_path).split()
    for a, b in zip(wheels, again):
        with open(a, "rb") as f, open(b, "rb") as g:
            assert f.read() == g.read()


def test_the_tag_names_the_machine_of_the_files(wheels_py, tmp_path):
    for gcc, machine in (("gcc", os.uname().machine), ("aarch64-linux-gnu-gcc", "aarch64")):
        if not shutil.which(gcc):
            pytest.skip(f"{gcc} is not installed")
        run(shutil.which(gcc), "-shared", "-fPIC", "-o", tmp_path / "a.so", "-x", "c", "/dev/null")
        assert wheels_py.machine(str(tmp_path / "a.so")) == machine


def test_a_library_without_its_licence_is_not_brought(wheels_py):
    with pytest.raises(wheels_py.Failed, match="no licence of libnobody"):
        wheels_py.licence("libnobody.so.1")


@pytest.mark.parametrize("tag, dirty, want", [
    (None, False, r"0\.2\.0\+g[0-9a-f]{10}"),
    (None, True, r"0\.2\.0\+g[0-9a-f]{10}\.dirty"),
    ("v0.2.0", False, r"0\.2\.0"),
    ("v0.1.0", False, r"0\.2\.0\+g[0-9a-f]{10}"),
])
def test_a_version_tells_two_builds_apart(wheels_py, tmp_path, tag, dirty, want):
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=a", "-c",
                        "user.email=a@example.com",
                        *words], check=True, stdout=subprocess.DEVNULL)

    git("init", "-q")
    (tmp_path / "a").write_text("a")
    git("add", "a")
    git("commit", "-q", "-m", "a")
    if tag:
        git("tag", tag)
    if dirty:
        (tmp_path / "a").write_text("b")
    assert re.fullmatch(want, wheels_py.version(str(tmp_path)))
    shutil.rmtree(tmp_path / ".git")
    assert wheels_py.version(str(tmp_path)) == "0.2.0"


# -- an environment with them ---------------------------------------------------------------------

JOB = """
import array, ringup
ringup.init()
a = array.array("d", [1.0 + ringup.rank()])
ringup.allreduce(a)
print("sum", a[0], "of", ringup.size())
"""


def test_the_command_and_jobs_work_with_nothing_else(installed, tmp_path):
    ringup, python = os.path.join(installed, "ringup"), os.path.join(installed, "python")
    assert run(ringup, "--version").startswith("ringup 0.2.0+")
    (tmp_path / "job.py").write_text(JOB)
    out = run(ringup, "run", "-np", "2", "--", python, tmp_path / "job.py")
    assert out.count("sum 3.0 of 2") == 2 or out.count("sum 1.5 of 2") == 2, out
    out = run(ringup, "horovodrun", "-np", "2", python, tmp_path / "job.py")
    assert out.count(" of 2") == 2, out
    out = run(python, "-m", "ringup")
    assert f"({site(python)}/ringup/libringup.so.0)" in out
    assert f"program:  {ringup}, which is not in PATH: export PATH={installed}:$PATH\n" in out
    out = run(python, "-m", "ringup", PATH=f"{installed}:/usr/bin:/bin")
    assert f"program:  {ringup}\n" in out
    (tmp_path / "log").write_text("nothing\n")
    run(ringup, "diagnose", tmp_path / "log")
    out = run(python, "-c", "from ringup import program; print(program.find())")
    assert out.strip() == ringup
    assert "70-verify" in run(os.path.join(installed, "ringup-init"), "--list")
    p = subprocess.run([ringup, "doctor"], stdout=subprocess.PIPE, text=True, env=clean(),
                       timeout=HANG)
    line, = re.findall(r"^engine .*", p.stdout, re.M)
    assert f" {site(python)}/ringup/libringup.so.0" in line and " good " in line, p.stdout
    assert "has no module" not in p.stdout, p.stdout
    run(python, "-m", "pip", "-q", "uninstall", "-y", "ringup")
    assert not [p for p in hashes(os.path.dirname(installed)) if "ringup" in p]


@LONG
def test_it_works_where_it_is_moved_to(wheels, python, tmp_path):  # noqa: F811
    d = tmp_path / "there"
    run(python, "-m", "pip", "-q", "install", "--no-index", "--no-deps", "--target", d, wheels[0])
    d = d.rename(tmp_path / "elsewhere")
    (tmp_path / "job.py").write_text(JOB)
    out = run(d / "bin" / "ringup", "run", "-np", "2", "--", python, tmp_path / "job.py",
              PYTHONPATH=str(d))
    assert out.count(" of 2") == 2, out
    run(d / "bin" / "ringup", "rebuild", "--engine", "ringup", "--without-mpi", "--python", python)
    assert site(python) in run(python, "-m", "ringup")


JAX_JOB = """
import jax, jax.numpy as jnp, ringup
from ringup import jax as rj
ringup.init()
f = jax.jit(lambda x: rj.allreduce(x, op=ringup.SUM) * 2)
print("sum", float(f(jnp.ones(3)).sum()))
"""


@pytest.fixture(scope="module")
def unpacked(wheels, tmp_path_factory):
    """A folder of Python's path with the wheel ringup, for any Python."""
    d = tmp_path_factory.mktemp("unpacked")
    run(sys.executable, "-m", "pip", "-q", "install", "--no-index", "--no-deps", "--target", d,
        wheels[0])
    return d


@LONG
def test_jax_from_the_wheel(unpacked, tmp_path):
    python = os.environ.get("RINGUP_TEST_TENSORFLOW_221", "")
    if not os.access(python, os.X_OK):
        pytest.skip("there is no environment with JAX: tests/run makes one")
    (tmp_path / "job.py").write_text(JAX_JOB)
    out = run(unpacked / "bin" / "ringup", "run", "-np", "2", "--", python, tmp_path / "job.py",
              PYTHONPATH=str(unpacked))
    assert out.count("sum 12.0") == 2, out


@LONG
def test_one_wheel_serves_each_python_from_3_8(unpacked, wheels, tmp_path):
    pythons = glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))
    pythons += glob.glob("/usr/bin/python3.*[0-9]")
    if not pythons:
        pytest.skip("there is no Python of pyenv's or the system's")
    (tmp_path / "job.py").write_text(JOB)
    for python in pythons:
        minor = int(run(python, "-c", "import sys; print(sys.version_info[1])"))
        if minor >= 8:
            out = run(unpacked / "bin" / "ringup", "run", "-np", "2", "--", python,
                      tmp_path / "job.py", PYTHONPATH=str(unpacked))
            assert out.count(" of 2") == 2, f"{python}: {out}"
        elif minor == 7:
            out = run(python, "-m", "pip", "install", "--no-index", "--no-deps", "--target",
                      tmp_path / "none", wheels[0], status=1)
            assert "not in '>=3.8'" in out


VERSION = "import importlib.metadata as m; print(m.version('ringup'))"


@LONG
def test_rebuild_and_undo_in_an_environment_with_the_wheel(installed):
    ringup = os.path.join(installed, "ringup")  # noqa: F811
    python = os.path.join(installed, "python")
    before = hashes(os.path.dirname(installed))
    number = run(python, "-c", VERSION)
    run(ringup, "rebuild", "--engine", "ringup", "--without-mpi", "--python", python)
    assert os.access(ringup, os.X_OK)
    # else pip would take the wheel for another version, and ringup-horovod would lack it
    assert run(python, "-c", VERSION) == number
    assert f"({site(python)}/ringup/libringup.so.0)" in run(python, "-m", "ringup")
    assert run(python, "-c", "import horovod; print(horovod.__file__)").startswith(site(python))
    run(ringup, "rebuild", "--engine", "ringup", "--python", python, "--undo")
    assert hashes(os.path.dirname(installed)) == before
    run(ringup, "rebuild", "--engine", "ringup", "--without-mpi", "--python", python)
    run(python, "-m", "pip", "-q", "uninstall", "-y", "ringup")
    # what undo would bring back is not pip's
    assert not [p for p in hashes(os.path.dirname(installed))
                if "ringup" in p and ".ringup-rebuild" not in p]


# -- ringup-horovod -------------------------------------------------------------------------------

def real_horovod(python):  # noqa: F811
    """Another Horovod, as pip installs it, with its launcher; returns its files."""
    top, bin_ = site(python), os.path.dirname(python)
    texts = {"horovod/__init__.py": "__version__ = 'the other'\n", "horovod/torch/__init__.py": "",
             "horovod-0.28.1.dist-info/METADATA":
                 "Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n",
             "horovod-0.28.1.dist-info/INSTALLER": "pip\n"}
    texts["horovod-0.28.1.dist-info/RECORD"] = "".join(f"{n},,\n" for n in texts) + \
        "../../../bin/horovodrun,,\nhorovod-0.28.1.dist-info/RECORD,,\n"
    for name, text in texts.items():
        path = os.path.join(top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    with open(os.path.join(bin_, "horovodrun"), "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\necho the other\n")
    return {os.path.join(top, n) for n in texts} | {os.path.join(bin_, "horovodrun")}


IMPORT = "import horovod; print(horovod.__file__)"


def test_the_drop_in_is_imported_where_there_is_no_other(installed, wheels):
    python = os.path.join(installed, "python")  # noqa: F811
    run(python, "-m", "pip", "-q", "install", "--no-index", "--no-deps", wheels[1])
    assert run(python, "-c", IMPORT).startswith(site(python) + "/ringup_horovod/horovod/")
    assert "ringup_horovod" in run(python, "-c", "import sparkdl; print(sparkdl.__file__)")
    assert "problem" not in run(python, "-m", "ringup")
    run(python, "-m", "ringup_horovod")
    words = "from horovod.runner import launch; print(launch.program.horovodrun())"
    assert run(python, "-c", words).strip() == f"['{installed}/ringup', 'horovodrun']"
    run(python, "-m", "pip", "-q", "uninstall", "-y", "ringup-horovod")
    run(python, "-c", "import horovod", status=1)


def test_another_horovod_loses_nothing(installed, wheels):
    python = os.path.join(installed, "python")  # noqa: F811
    theirs = real_horovod(python)
    before = {p: h for p, h in hashes(os.path.dirname(installed)).items()}
    assert "problem" not in run(python, "-m", "ringup")  # ringup alone is in nobody's way
    run(python, "-m", "pip", "-q", "install", "--no-index", "--no-deps", wheels[1])
    after = hashes(os.path.dirname(installed))
    assert {p: after.get(p) for p in before} == before
    assert run(python, "-c", "import horovod; print(horovod.__version__)") == "the other\n"
    for module in ("ringup", "ringup_horovod"):
        out = run(python, "-m", module, status=1)
        assert "`import horovod` finds Horovod 0.28.1" in out and "pip uninstall horovod" in out
    run(python, "-m", "pip", "-q", "uninstall", "-y", "ringup-horovod")
    assert hashes(os.path.dirname(installed)) == before

    run(python, "-m", "pip", "-q", "install", "--no-index", "--no-deps", wheels[1])
    run(python, "-m", "pip", "-q", "uninstall", "-y", "horovod")
    assert not [p for p in theirs if os.path.exists(p)]
    assert "/ringup_horovod/" in run(python, "-c", IMPORT)
    assert "problem" not in run(python, "-m", "ringup")


@LONG
def test_rebuild_knows_the_drop_in_and_puts_another_horovod_away(installed, wheels):
    ringup = os.path.join(installed, "ringup")  # noqa: F811
    python = os.path.join(installed, "python")
    real_horovod(python)
    run(python, "-m", "pip", "-q", "install", "--no-index", "--no-deps", wheels[1])
    before = hashes(os.path.dirname(installed))
    run(ringup, "rebuild", "--engine", "ringup", "--without-mpi", "--python", python)
    assert run(python, "-c", IMPORT).startswith(site(python) + "/horovod/")
    assert "problem" not in run(python, "-m", "ringup")
    run(ringup, "rebuild", "--engine", "ringup", "--python", python, "--undo")
    assert hashes(os.path.dirname(installed)) == before


# -- packages of a distribution -------------------------------------------------------------------

DEBIAN = os.path.join(ROOT, "debian")


def test_each_installed_file_is_in_one_package_of_debian(stage, wheels_py):
    claims = []
    for path in glob.glob(os.path.join(DEBIAN, "*.install")):
        with open(path, encoding="utf-8") as f:
            claims += [(os.path.basename(path), line.split()[0]) for line in f if line.strip()]
    prefix = wheels_py.prefix_of(str(stage))
    for folder, _dirs, names in os.walk(prefix):
        for name in names:
            file = os.path.relpath(os.path.join(folder, name), prefix)
            if name.endswith((".la", ".pyc")):
                continue
            file = "usr/" + re.sub(r"^lib(64)?/", "lib/triplet/", file)
            found = [p for p, claim in claims
                     if fnmatch.fnmatch(file, claim) or fnmatch.fnmatch(file, claim + "/*")]
            assert len(found) == 1, f"{file}: {found}"


def test_all_packages_have_the_version_of_configure():
    with open(os.path.join(ROOT, "configure.ac"), encoding="utf-8") as f:
        number = re.search(r"AC_INIT\(\[ringup\], \[(.+?)\]\)", f.read()).group(1)
    with open(os.path.join(DEBIAN, "changelog"), encoding="utf-8") as f:
        assert f.readline().startswith(f"ringup ({number}) ")
    package = os.path.join(ROOT, "compat", "python", "ringup")
    with open(os.path.join(package, "_version.py"), encoding="utf-8") as f:
        assert f'"{number}"' in f.read()


# -- the whole way, long --------------------------------------------------------------------------

DDP = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("ringup")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
step = torch.optim.SGD(model.parameters(), 0.1)
for i in range(3):
    step.zero_grad()
    model(torch.full((3, 4), float(dist.get_rank() + i))).sum().backward()
    step.step()
print("weights", sum(p.sum().item() for p in model.parameters()))
dist.destroy_process_group()
import horovod.torch as hvd
hvd.init()
print("ranks", hvd.size())
"""


@LONG
def test_torchrun_finds_the_back_end_by_name(installed, wheels, tmp_path):
    import torch
    python = os.path.join(installed, "python")  # noqa: F811
    run(python, "-m", "pip", "-q", "install", "--no-index", "--no-deps", wheels[1])
    with open(os.path.join(site(python), "zz-torch.pth"), "w", encoding="utf-8") as f:
        f.write(os.path.dirname(os.path.dirname(torch.__file__)) + "\n")
    (tmp_path / "train.py").write_text(DDP)
    out = run(python, "-m", "torch.distributed.run", "--nproc-per-node", "2", tmp_path / "train.py")
    weights = re.findall(r"weights (\S+)", out)
    assert len(weights) == 2 and len(set(weights)) == 1 and out.count("ranks 2") == 2, out
