#!/usr/bin/env python3
# wheels.py - build the wheels ringup and ringup-horovod from an installation by `make install`.
# SPDX-License-Identifier: Apache-2.0
"""Usage: wheels.py --stage STAGE DIRECTORY
       wheels.py --build SOURCES DIRECTORY [CONFIGURE-OPTION...]
       wheels.py --python STAGE DIRECTORY

The first form builds wheels from STAGE, the result of `make install-strip DESTDIR=STAGE`. The
second form first copies the sources to a folder of its own, and configures them with these options,
such as --host=aarch64-linux-gnu.  Both forms write two wheels to DIRECTORY and print their paths.
pip calls build_wheel(), which builds the wheel ringup.  The third form is for packages of a
distribution: it writes the Python packages to DIRECTORY, without the libraries.

The wheel ringup is an installation in the layout of `make install`. The program and its data go to
bin and share of the environment; the Python packages and the libraries go to site-packages.
Libraries that these need in addition to glibc are included in the wheel, with their licences.  The
wheel's tag names the oldest glibc that has all the symbols that the files need.

The wheel ringup-horovod contains horovod and sparkdl in a separate folder, which a .pth file
appends to Python's path after site-packages.  It therefore overwrites no file of another Horovod,
and if another Horovod is in the same site-packages, Python imports that one."""

import glob
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(TOP, "compat", "python"))
import build_ringup as base  # noqa: E402

# Libraries that every Linux with glibc has.
SYSTEM = re.compile(r"(libc|libm|libpthread|libdl|librt|ld-linux.*)\.so\.\d+$")
# Folders of an installation that a wheel has no use for: headers, pkg-config, libtool.
DATA = "share"

METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: {summary}
License: Apache-2.0
Keywords: distributed training,allreduce,collectives,DDP,Horovod,MPI,NCCL
Classifier: Development Status :: 4 - Beta
Classifier: Environment :: Console
Classifier: Intended Audience :: Developers
Classifier: Intended Audience :: Science/Research
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Topic :: System :: Distributed Computing
Requires-Python: >=3.8
{more}Description-Content-Type: text/markdown

{description}"""

SUMMARY = {
    "ringup": "Collectives for distributed training on CPUs, for torch.distributed, JAX and "
              "Horovod's interface, with network diagnostics",
    "ringup-horovod": "Horovod's Python interface over ringup: import horovod.torch unchanged",
}
EXTRAS = (("torch", "torch>=1.13"), ("tensorflow", "tensorflow>=2.12"), ("jax", "jax>=0.4.31"),
          ("spark", "pyspark>=3.3"), ("ray", "ray>=2.9"), ("horovod", "ringup-horovod=={version}"))


class Failed(Exception):
    """A problem that prevents the build, as a sentence."""


# -- what a wheel says of itself ------------------------------------------------------------------

def version(sources):
    """Return the version; between releases with the commit, so that pip distinguishes builds."""
    plain = base.version()
    if not os.path.exists(os.path.join(sources, ".git")):
        return plain
    try:
        said = subprocess.run(["git", "-C", sources, "describe", "--tags", "--always", "--long",
                               "--dirty", "--abbrev=10", "--match", "v[0-9]*"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return plain
    found = re.match(r"(?:v(.+)-(\d+)-g)?([0-9a-f]+)(-dirty)?$", said.strip())
    if not found or (found.group(1) == plain and found.group(2) == "0" and not found.group(4)):
        return plain
    return f"{plain}+g{found.group(3)}" + (".dirty" if found.group(4) else "")


def description(name):
    """Return the description for a package index: the part of description.md for this distribution.
    """
    text = base.read(os.path.join(HERE, "description.md")).decode()
    parts = dict(re.findall(r"(?ms)^# (\S+)\n(.*?)(?=^# |\Z)", text))
    return f"# {name}\n{parts[name]}"


def metadata(name, number, pure, tag, more=""):
    """Return (name, bytes) of the metadata files."""
    info = f"{name.replace('-', '_')}-{number}.dist-info"
    text = METADATA.format(name=name, version=number, summary=SUMMARY[name], more=more,
                           description=description(name))
    wheel = base.WHEEL.format(pure=str(pure).lower(), platform=tag)
    return info, [(f"{info}/METADATA", text.encode()), (f"{info}/WHEEL", wheel.encode()),
                  (f"{info}/LICENSE", base.read(os.path.join(TOP, "LICENSE")))]


# -- the libraries that come along ----------------------------------------------------------------

def readelf(option, path):
    """Return the output of readelf for a file."""
    return subprocess.run(["readelf", "-W", option, path], text=True, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def needed(path):
    """Return the names of the libraries that an ELF file needs."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("-d", path))


def glibc(path):
    """Return the oldest glibc, such as (2, 28), that has the symbols that an ELF file needs."""
    said = readelf("-V", path)
    needs = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", said)]
    # the name of a feature of 2.36, which has no number
    return max(needs + [(2, 36)] * ("GLIBC_ABI_DT_RELR" in said) + [(2, 17)])


def machine(path):
    """Return the machine of an ELF file, in the form of platform.machine()."""
    said = re.search(r"Machine:\s+(.+)", readelf("-h", path)).group(1)
    return {"AArch64": "aarch64", "Advanced Micro Devices X86-64": "x86_64"}.get(said, said)


def located(path):
    """Return {name: path} of the libraries that the dynamic linker finds for an ELF file."""
    if machine(path) != platform.machine():  # Debian's folders of another machine's libraries
        folders = [f"{top}/{machine(path)}-linux-gnu" for top in ("/usr/lib", "/lib")]
        return {name: os.path.join(folder, name) for name in needed(path) for folder in folders
                if os.path.exists(os.path.join(folder, name))}
    said = subprocess.run(["ldd", path], text=True, stdout=subprocess.PIPE, check=True).stdout
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", said, re.M))


def brought(paths):
    """Return {name: path} of the libraries that files need and that some Linux systems lack."""
    found = {}
    todo = list(paths)
    while todo:
        path = todo.pop()
        for name in needed(path):
            if SYSTEM.match(name) or name in found or name.startswith("libringup"):
                continue
            at = located(path).get(name)
            if not at:
                raise Failed(f"{os.path.basename(path)} needs {name}, which is not found")
            found[name] = at
            todo.append(at)
    return found


def licence(name):
    """Return the licence of an included library, from the distribution's package."""
    stem = re.match(r"[a-z]+", name).group(0)  # libsodium.so.23: libsodium
    for pattern in (f"/usr/share/doc/{stem}[0-9]*/copyright", f"/usr/share/doc/{stem}*/copyright",
                    f"/usr/share/licenses/{stem}/*"):
        paths = [p for p in sorted(glob.glob(pattern)) if os.path.isfile(p)]
        if not paths:
            continue
        text = b"".join(base.read(p) for p in paths[:1 if "copyright" in pattern else None])
        # Debian's notes refer to texts that only Debian has
        for common in sorted(set(re.findall(rb"/usr/share/common-licenses/([A-Z0-9.-]*[0-9])",
                                            text))):
            path = f"/usr/share/common-licenses/{common.decode()}"
            if os.path.exists(path):
                text += b"\n\n" + base.read(path)
        return text
    raise Failed(f"there is no licence of {name} below /usr/share/doc or /usr/share/licenses, "
                 "and a wheel must not bring it without")


# -- the wheels -----------------------------------------------------------------------------------

def prefix_of(stage):
    """Return the folder below stage that contains bin, lib and share."""
    found = glob.glob(os.path.join(glob.escape(stage), "**", "bin", "ringup"), recursive=True)
    if len(found) != 1:
        raise Failed(f"{stage} holds {len(found)} programs bin/ringup; one is expected")
    return os.path.dirname(os.path.dirname(found[0]))


def files(top):
    """Return (path below top, path) of every file, sorted."""
    for folder, dirs, names in os.walk(top):
        dirs.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and "__pycache__" not in path and not name.endswith(".pyc"):
                yield os.path.relpath(path, top), path


def library(prefix, name):
    """Return the path of an installed library, whose folder the builder has chosen."""
    found = [p for p in glob.glob(os.path.join(glob.escape(prefix), "lib*", "**", name),
                                  recursive=True)]
    if not found:
        raise Failed(f"there is no {name} below {prefix}: make it with `make install`")
    return found[0]


def ringup(stage, directory, number):
    """Write the wheel ringup; return its file name."""
    prefix = prefix_of(stage)
    data = f"ringup-{number}.data"
    program = os.path.join(prefix, "bin", "ringup")
    libs = [library(prefix, n) for n in ("libringup.so.0", *base.BESIDE, "libnccl-env-ringup.so")]
    compat = os.path.join(prefix, "share", "ringup", "compat", "python")
    entries = list(base.sources(("ringup", "ringup_torch"), compat))
    entries += base.beside(libs[0])
    for name, path in sorted(brought(libs).items()):
        entries.append((f"ringup/{name}", base.read(path)))
    of_program = brought([program])
    for name, path in sorted(of_program.items()):
        entries.append((f"{data}/data/share/ringup/lib/{name}", base.read(path)))
    entries.append((f"{data}/data/share/ringup/lib/libnccl-env-ringup.so", base.read(libs[-1])))
    programs = {f"{data}/scripts/ringup", f"{data}/scripts/ringup-init"}
    entries.append((f"{data}/scripts/ringup", base.read(program)))
    entries.append((f"{data}/scripts/ringup-init", base.read(
        os.path.join(prefix, "share", "ringup", "init-scripts", "ringup-init"))))
    for name, path in files(os.path.join(prefix, DATA)):
        entries.append((f"{data}/data/{DATA}/{name}", base.read(path)))
        if os.access(path, os.X_OK):
            programs.add(entries[-1][0])
    # `ringup rebuild` and compat/install name what they install after this wheel.
    entries.append((f"{data}/data/share/ringup/compat/python/distribution", f"{number}\n".encode()))
    oldest = max(glibc(p) for p in [program, *libs, *of_program.values()])
    tag = "manylinux_{}_{}_{}".format(*oldest, machine(program))
    more = "".join(f"Provides-Extra: {extra}\nRequires-Dist: {what.format(version=number)}; "
                   f"extra == '{extra}'\n" for extra, what in EXTRAS)
    info, about = metadata("ringup", number, False, tag, more)
    about.append((f"{info}/entry_points.txt", base.ENTRY_POINTS.encode()))
    about += [(f"{info}/licenses/{re.match('[a-z]+', n).group(0)}.txt", licence(n))
              for n in sorted(of_program)]
    return base.archive(directory, f"ringup-{number}-py3-none-{tag}.whl", info, entries + about,
                        programs)


def for_distribution(stage, directory):
    """Write the Python packages and their metadata, as files, to a folder on Python's path."""
    compat = os.path.join(prefix_of(stage), "share", "ringup", "compat", "python")
    info, about = metadata("ringup", base.version(), True, "any")
    about = [(name, data) for name, data in about if name.endswith("METADATA")]
    about.append((f"{info}/entry_points.txt", base.ENTRY_POINTS.encode()))
    for name, data in [*base.sources(("ringup", "ringup_torch"), compat), *about]:
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)


def ringup_horovod(stage, directory, number):
    """Write the wheel ringup-horovod; return its file name."""
    compat = os.path.join(prefix_of(stage), "share", "ringup", "compat", "python")
    entries = [(f"ringup_horovod/{name}", data)
               for name, data in base.sources(("horovod", "sparkdl"), compat)]
    entries += base.sources(("ringup_horovod",), HERE)
    # A line that is a path is added to sys.path, and nothing is run.
    entries.append(("ringup_horovod.pth", b"ringup_horovod\n"))
    info, about = metadata("ringup-horovod", number, True, "any",
                           f"Requires-Dist: ringup=={number}\nRequires-Dist: cloudpickle\n")
    return base.archive(directory, f"ringup_horovod-{number}-py3-none-any.whl", info,
                        entries + about)


# -- building -------------------------------------------------------------------------------------

def run(words, cwd, log):
    """Run a command.  If it fails, raise Failed with the end of its output."""
    print("+", *words, file=log, flush=True)
    p = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log,
                       stderr=subprocess.STDOUT, check=False)
    if p.returncode:
        log.flush()
        with open(log.name, encoding="utf-8", errors="replace") as f:
            end = "".join(f.readlines()[-25:])
        raise Failed(f"{' '.join(words)}: exit status {p.returncode}.  Its last lines:\n{end}")


def copied(sources, to):
    """Copy the sources: the files in git, or all files that no build has created."""
    if os.path.exists(os.path.join(sources, ".git")):
        names = subprocess.run(["git", "-C", sources, "ls-files", "-z", "--cached", "--others",
                                "--exclude-standard"], stdout=subprocess.PIPE,
                               check=True).stdout.decode().split("\0")
        for name in filter(None, names):
            path = os.path.join(sources, name)
            if os.path.lexists(path):
                os.makedirs(os.path.dirname(os.path.join(to, name)), exist_ok=True)
                shutil.copy2(path, os.path.join(to, name), follow_symlinks=False)
    else:
        left = ("*.o", "*.lo", "*.la", "*.log", "*.trs", ".libs", ".deps", "autom4te.cache",
                "config.status", "build", "dist", "__pycache__")
        shutil.copytree(sources, to, symlinks=True, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns(*left))


def built(sources, work, options=()):
    """Build a copy of the sources below work; return the stage."""
    copy, obj, stage = (os.path.join(work, n) for n in ("src", "obj", "stage"))
    for folder in (copy, obj):
        os.mkdir(folder)
    copied(sources, copy)
    with open(os.path.join(work, "log"), "w", encoding="utf-8") as log:
        if not os.path.exists(os.path.join(copy, "configure")):
            run(["./bootstrap"], copy, log)
        words = ["-q", "--without-mpi", "--prefix=/usr/local", *options]
        run([os.path.join(copy, "configure"), *words], obj, log)
        run(["make", f"-j{os.cpu_count() or 1}"], obj, log)
        run(["make", "install-strip", f"DESTDIR={stage}"], obj, log)
    return stage


def build(sources, directory, kinds, options=()):
    """Build, and write the wheels of these kinds; return their file names."""
    with tempfile.TemporaryDirectory(prefix="ringup-wheel.") as work:
        stage = built(sources, work, options)
        return [kind(stage, directory, version(sources)) for kind in kinds]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The hook that pip calls (PEP 517)."""
    try:
        return build(TOP, wheel_directory, [ringup])[0]
    except Failed as e:
        raise RuntimeError(str(e)) from None


def build_sdist(sdist_directory, config_settings=None):
    """The hook that `python -m build` calls for a source archive."""
    raise NotImplementedError("the source archive is made by `make dist`")


def main(words):
    kinds = [ringup, ringup_horovod]
    options = words[3:]
    if len(words) < 3 or words[0] not in ("--stage", "--build", "--python") or \
            options and (words[0] != "--build" or not all(o.startswith("-") for o in options)):
        sys.exit(__doc__)
    os.makedirs(words[2], exist_ok=True)
    try:
        if words[0] == "--python":
            for_distribution(words[1], words[2])
            return
        if words[0] == "--build":
            names = build(os.path.abspath(words[1]), words[2], kinds, options)
        else:
            names = [kind(words[1], words[2], version(TOP)) for kind in kinds]
    except (Failed, OSError, subprocess.CalledProcessError) as e:
        sys.exit(f"wheels.py: {e}")
    for name in names:
        print(os.path.join(words[2], name))


if __name__ == "__main__":
    main(sys.argv[1:])
