# test_install.py - the wheel, and compat/install in an environment of its own.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat

import base64
import csv
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from conftest import HANG, ROOT

INSTALL = os.path.join(ROOT, "compat", "install")
BUILD = os.path.join(ROOT, "compat", "python", "build_ringup.py")


def clean():
    """The environment without what the tests' runner put into it."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}


def install(*args):
    return subprocess.run([INSTALL, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=HANG, env=clean())


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """An environment with pip, whose copies are environments, too."""
    d = tmp_path_factory.mktemp("env") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", d], check=True, env=clean())
    top, = glob.glob(f"{d}/lib/python*/site-packages")
    of_this = sysconfig.get_path("purelib")
    mine = [n for n in os.listdir(of_this) if n == "pip" or re.fullmatch(r"pip-.*\.dist-info", n)]
    if mine and sys.prefix != sys.base_prefix:  # a distribution's own pip would install elsewhere
        for name in mine:
            os.symlink(os.path.join(of_this, name), os.path.join(top, name))
    elif subprocess.run([d / "bin" / "python", "-m", "ensurepip"], stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT, timeout=HANG, env=clean()).returncode:
        pytest.skip("python -m ensurepip does not work here (Debian: apt-get install python3-venv)")
    return d


@pytest.fixture
def python(template, tmp_path):
    """The Python of a new environment with pip."""
    shutil.copytree(template, tmp_path / "venv", symlinks=True)
    return str(tmp_path / "venv" / "bin" / "python")


def ask(python, code):
    p = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, cwd="/", env=clean(), timeout=HANG)
    return p.stdout.strip()


def pip_list(python):
    return ask(python, "import importlib.metadata as m\n"
               "print(*sorted(d.metadata['Name'] for d in m.distributions()))").split()


def site(python):
    return glob.glob(f"{os.path.dirname(os.path.dirname(python))}/lib/python*/site-packages")[0]


def test_the_wheel_is_complete_and_the_same_each_time(tmp_path):
    wheels = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        out = subprocess.run([sys.executable, BUILD, tmp_path / name], check=True, text=True,
                             stdout=subprocess.PIPE).stdout.strip()
        assert os.listdir(tmp_path / name) == [os.path.basename(out)]
        with open(out, "rb") as f:
            wheels.append(f.read())
    assert wheels[0] == wheels[1]
    with zipfile.ZipFile(out) as z:
        assert z.testzip() is None
        names = set(z.namelist())
        record = next(n for n in names if n.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(z.read(record).decode().splitlines()))
        assert {r[0] for r in rows} == names
        for name, digest, size in rows:
            if name != record:
                data = z.read(name)
                want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
                assert (digest, int(size)) == ("sha256=" + want.decode(), len(data))
    assert {"ringup/_c.py", "ringup/__init__.py", "horovod/__init__.py",
            "horovod/torch/optimizer.py"} <= names


def test_from_install_to_uninstall(python):
    before = pip_list(python)
    p = install("--python", python)
    assert p.returncode == 0, p.stdout
    assert "ringup" in pip_list(python)
    assert ask(python, "import horovod; print(horovod.__file__)").startswith(site(python))
    check = install("--python", python, "--check")
    assert check.returncode == 0 and "problem" not in check.stdout, check.stdout

    # a Horovod that comes later is noticed
    info = os.path.join(site(python), "horovod-0.28.1.dist-info")
    os.mkdir(info)
    with open(os.path.join(info, "METADATA"), "w", encoding="utf-8") as f:
        f.write("Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n")
    check = install("--python", python, "--check")
    assert check.returncode == 1 and "two packages called horovod" in check.stdout, check.stdout
    shutil.rmtree(info)

    # once more, now with a library next to the package
    p = install("--python", python, "--library", os.environ["RINGUP_LIBRARY"])
    assert p.returncode == 0, p.stdout
    env = {k: v for k, v in clean().items() if k != "RINGUP_LIBRARY"}
    out = subprocess.run([python, "-m", "ringup"], stdout=subprocess.PIPE, text=True, cwd="/",
                         env=env, timeout=HANG)
    assert out.returncode == 0 and site(python) in out.stdout.split("library:")[1], out.stdout
    beside = os.listdir(os.path.join(site(python), "ringup"))
    assert {"libringup.so.0", "libringup_tf.so", "libringup_jax.so"} <= set(beside), beside

    assert install("--python", python, "--uninstall").returncode == 0
    assert pip_list(python) == before
    assert not any(os.path.exists(os.path.join(site(python), d)) for d in ("ringup", "horovod"))
    assert install("--python", python, "--uninstall").returncode == 0


def test_nothing_lies_beside_the_python_that_is_asked(tmp_path):
    fake, seen = tmp_path / "python3", tmp_path / "seen"
    fake.write_text(f'#!/bin/sh\nls -A >"{seen}"\nexit 1\n')
    fake.chmod(0o755)
    p = install("--python", str(fake), "--check")
    assert p.returncode == 1 and seen.read_text() == ""


def test_check_says_no_where_nothing_is_installed(python):
    p = install("--python", python, "--check")
    assert p.returncode == 1 and "does not have ringup" in p.stdout


@pytest.fixture
def real_horovod(python):
    """Something that looks to pip like Horovod 0.28.1."""
    top = site(python)
    info = os.path.join(top, "horovod-0.28.1.dist-info")
    os.makedirs(os.path.join(top, "horovod"))
    os.makedirs(info)
    files = {"horovod/__init__.py": "__version__ = 'the other'\n",
             "horovod-0.28.1.dist-info/METADATA":
                 "Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n",
             "horovod-0.28.1.dist-info/INSTALLER": "pip\n"}
    files["horovod-0.28.1.dist-info/RECORD"] = "".join(f"{n},,\n" for n in files) + \
        "horovod-0.28.1.dist-info/RECORD,,\n"
    for name, text in files.items():
        with open(os.path.join(top, name), "w", encoding="utf-8") as f:
            f.write(text)


def test_another_horovod_is_left_alone(real_horovod, python):
    p = install("--python", python)
    assert p.returncode == 1 and "Horovod 0.28.1 is installed" in p.stdout, p.stdout
    assert "--force" in p.stdout
    assert "ringup" not in pip_list(python)
    assert ask(python, "import horovod; print(horovod.__version__)") == "the other"


def test_force_removes_another_horovod_first(real_horovod, python):
    p = install("--python", python, "--force")
    assert p.returncode == 0, p.stdout
    names = pip_list(python)
    assert "ringup" in names and "horovod" not in names
    assert "ringup" in ask(python, "import horovod; print(horovod.__doc__)")


def test_a_package_that_pip_does_not_know_is_left_alone_even_with_force(python):
    stray = os.path.join(site(python), "horovod")
    os.mkdir(stray)
    with open(os.path.join(stray, "__init__.py"), "w", encoding="utf-8") as f:
        f.write("mine = True\n")
    p = install("--python", python, "--force")
    assert p.returncode != 0 and "remove that directory" in p.stdout, p.stdout
    assert ask(python, "import horovod; print(horovod.mine)") == "True"


def test_target_directory(tmp_path, python):
    d = str(tmp_path / "site")
    p = install("--python", python, "--target", d)
    assert p.returncode == 0, p.stdout
    assert os.path.exists(os.path.join(d, "horovod", "torch", "optimizer.py"))
    assert "ringup" not in pip_list(python)
    assert install("--python", python, "--target", d, "--uninstall").returncode == 0
    assert not os.path.exists(os.path.join(d, "ringup"))


@pytest.mark.parametrize("name", ["ringup", "horovod", "sparkdl"])
def test_a_folder_in_the_target_that_is_somebody_elses_stays(tmp_path, python, name):
    d = tmp_path / "src"
    clone = d / name
    (clone / "src").mkdir(parents=True)
    (clone / "src" / "mine.c").write_text("int mine;")
    (clone / "__init__.py").write_text("# ringup\n")
    p = install("--python", python, "--target", str(d))
    assert p.returncode == 1 and f"{clone} already exists" in p.stdout, p.stdout
    p = install("--python", python, "--target", str(d), "--uninstall")
    assert p.returncode == 0, p.stdout
    assert os.listdir(d) == [name] and (clone / "src" / "mine.c").read_text() == "int mine;"


def test_files_beside_those_of_the_package_in_a_target_stay(tmp_path, python):
    d = tmp_path / "site"
    (d / "bin").mkdir(parents=True)
    (d / "bin" / "tool").write_text("mine")
    assert install("--python", python, "--target", str(d)).returncode == 0
    mine = {d / "ringup" / "notes.txt", d / "horovod" / "torch" / "my.py", d / "ringup-plan",
            d / "bin" / "tool"}
    for path in mine:
        path.write_text("mine")
    old = d / "ringup" / "old.py"  # of an earlier version
    old.write_text("")
    record, = d.glob("ringup-*.dist-info/RECORD")
    with open(record, "a", encoding="utf-8") as f:
        f.write("ringup/old.py,,\n../outside,,\n/etc/none,,\n")
    (tmp_path / "outside").write_text("mine")
    p = install("--python", python, "--target", str(d))
    assert p.returncode == 0, p.stdout
    assert not old.exists() and (d / "ringup" / "_c.py").exists()
    assert install("--python", python, "--target", str(d), "--uninstall").returncode == 0
    left = {p for p in d.rglob("*") if p.is_file()}
    assert left == mine and {p.read_text() for p in mine} == {"mine"}
    assert (tmp_path / "outside").read_text() == "mine"


def test_pip_builds_it_without_setuptools_and_network(python):
    p = subprocess.run([python, "-m", "pip", "-q", "install", "--no-index",
                        os.path.join(ROOT, "compat", "python")], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, env=clean(), timeout=HANG)
    assert p.returncode == 0, p.stdout
    assert "ringup" in pip_list(python)


@pytest.mark.parametrize("args, status, says", [
    ([], 2, "--python PYTHON is missing"),
    (["--python"], 2, "needs an argument"),
    (["--python", "/nowhere/python3"], 2, "not an executable"),
    (["--frob"], 2, "unknown option"),
    (["--help"], 0, "--uninstall"),
])
def test_usage(args, status, says):
    p = install(*args)
    assert p.returncode == status and says in p.stdout, p.stdout


@pytest.mark.parametrize("name, value", [
    ("PIP_TARGET", "elsewhere"), ("PIP_PREFIX", "elsewhere"), ("PIP_DRY_RUN", "1"),
    ("PIP_USER", "1"),
    ("PIP_REQUIRE_HASHES", "1"), ("PIP_NO_BINARY", ":all:"), ("PIP_CONFIG_FILE", "pip.conf")])
def test_settings_of_pip_are_not_obeyed(tmp_path, python, name, value):
    (tmp_path / "pip.conf").write_text(f"[install]\ntarget = {tmp_path}/elsewhere\n")
    path = value if value in ("1", ":all:") else str(tmp_path / value)
    p = subprocess.run([INSTALL, "--python", python], stdout=subprocess.PIPE, text=True,
                       stderr=subprocess.STDOUT, env={**clean(), name: path}, timeout=HANG)
    assert p.returncode == 0, p.stdout
    assert os.path.exists(os.path.join(site(python), "ringup", "__init__.py"))
    assert not (tmp_path / "elsewhere").exists()


def test_others_can_read_what_is_installed_under_a_strict_umask(python):
    p = subprocess.run(["sh", "-c", 'umask 077 && exec "$@"', "sh", INSTALL, "--python", python],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean(),
                       timeout=HANG)
    assert p.returncode == 0, p.stdout
    for top, dirs, files in os.walk(os.path.join(site(python), "ringup")):
        for name, bits in [(d, 0o5) for d in dirs] + [(f, 0o4) for f in files]:
            assert os.stat(os.path.join(top, name)).st_mode & bits == bits, name


def test_pip_that_installs_elsewhere_is_found_out(tmp_path, python):
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "python"
    fake.write_text('#!/bin/sh\ncase "$*" in *"pip --quiet install"*) exit 0 ;; esac\n'
                    f'exec {python} "$@"\n')
    fake.chmod(0o755)
    p = install("--python", str(fake))
    assert p.returncode == 3 and "does not find it" in p.stdout, p.stdout


def test_a_python_that_is_too_old_is_told_so(tmp_path):
    fake = tmp_path / "python3"
    fake.write_text("#!/bin/sh\necho ringup: 3.7\n")
    fake.chmod(0o755)
    p = install("--python", str(fake))
    assert p.returncode == 3, p.stdout
    assert "is Python 3.7; ringup needs 3.8 or later" in p.stdout, p.stdout


def test_a_python_without_pip(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True,
                   env=clean())
    p = install("--python", str(tmp_path / "bare" / "bin" / "python"))
    assert p.returncode == 3 and "has no pip" in p.stdout and "ensurepip" in p.stdout, p.stdout


def test_no_library_is_a_sentence(tmp_path):
    p = subprocess.run([sys.executable, "-c", "import ringup"], stderr=subprocess.PIPE, text=True,
                       env={**os.environ, "RINGUP_LIBRARY": str(tmp_path / "none.so")})
    assert p.returncode == 1
    assert p.stderr.splitlines()[-1].startswith("ImportError: cannot load libringup.so: ")
    assert "set RINGUP_LIBRARY" in p.stderr
