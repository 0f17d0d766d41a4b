#!/usr/bin/env python3
# build_ringup.py - build the wheel, as pip's build backend or as a command, without setuptools.
# SPDX-License-Identifier: Apache-2.0
"""Usage: build_ringup.py DIRECTORY [LIBRINGUP.SO]
       build_ringup.py --into DIRECTORY STAMP WATCH [LIBRINGUP.SO]

The first form writes ringup-VERSION-py3-none-any.whl to DIRECTORY and prints its path.  With a
library, it puts the library next to the package and tags the wheel for this machine.  The wheels
that users install come from packaging/wheels.py.

The second form writes the files that pip would install from the wheel to DIRECTORY, without pip:
the packages, the files STAMP and WATCH (the software that it was installed for; see drift.py), and
a link to the library.  `ringup rebuild` then moves them to where Python finds them.  If this Python
has a wheel of ringup, the result is complete, too: its libraries are copied, and its program and
data are recorded again."""

import base64
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import sysconfig
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ("ringup", "ringup_torch", "horovod", "sparkdl")
# What is found beside the library: operations for frameworks, which need no compiling for them.
BESIDE = ("libringup_tf.so", "libringup_jax.so")

METADATA = """\
Metadata-Version: 2.1
Name: ringup
Version: {version}
Summary: Distributed training over libringup, with Horovod's interface for torch and TensorFlow
License: Apache-2.0
Requires-Python: >=3.8
"""
# As in pyproject.toml.  torch looks for back ends in the first from 2.5 on, from 2.14 on in both.
ENTRY_POINTS = """\
[torch.backends]
ringup = ringup_torch:register

[torch.distributed.backends]
ringup = ringup_torch:register
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: build_ringup
Root-Is-Purelib: {pure}
Tag: py3-none-{platform}
"""


def version():
    """Return the version, from the Python file that defines it."""
    with open(os.path.join(HERE, "ringup", "_version.py"), encoding="utf-8") as f:
        return re.search(r'__version__ = "(.+)"', f.read()).group(1)


def read(path):
    """Return the bytes of a file."""
    with open(path, "rb") as f:
        return f.read()


def number():
    """Return the version by which pip distinguishes builds: that of the wheel that contains this
    file, if any."""
    path = os.path.join(HERE, "distribution")
    said = read(path).decode(errors="replace").strip() if os.path.exists(path) else ""
    return said if re.fullmatch(r"[0-9][0-9A-Za-z.]*(\+[0-9A-Za-z.]+)?", said) else version()


def sources(packages=PACKAGES, here=HERE):
    """Return (name in the wheel, bytes) of every Python file, sorted."""
    for package in packages:
        for top, dirs, files in os.walk(os.path.join(here, package)):
            dirs.sort()
            for name in sorted(files):
                if name.endswith(".py"):
                    path = os.path.join(top, name)
                    yield os.path.relpath(path, here), read(path)


def record(entries, info):
    """Return RECORD: the SHA-256 and size of every file."""
    lines = []
    for name, data in entries:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(lines + [f"{info}/RECORD,,\n"]).encode()


def metadata(info, pure, platform):
    """Return (name, bytes) of the metadata files in the folder info."""
    wheel = WHEEL.format(pure=str(pure).lower(), platform=platform)
    return [(f"{info}/METADATA", METADATA.format(version=number()).encode()),
            (f"{info}/WHEEL", wheel.encode()),
            (f"{info}/entry_points.txt", ENTRY_POINTS.encode())]


def archive(directory, name, info, entries, programs=()):
    """Write a wheel of these entries to directory, atomically; return its file name."""
    entries = list(entries)
    entries.append((f"{info}/RECORD", record(entries, info)))
    part = os.path.join(directory, f".{name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as z:
            for path, data in entries:
                item = zipfile.ZipInfo(path)  # dated 1980: the same sources, the same wheel
                item.external_attr = (0o100755 if path in programs else 0o100644) << 16
                item.compress_type = zipfile.ZIP_DEFLATED
                z.writestr(item, data)
        os.replace(part, os.path.join(directory, name))
    finally:
        if os.path.exists(part):
            os.unlink(part)
    return name


def beside(library):
    """Return (name, bytes) of a library and of the files next to it, as files of the package."""
    yield "ringup/libringup.so.0", read(library)
    for name in BESIDE:
        path = os.path.join(os.path.dirname(os.path.realpath(library)), name)
        if os.path.exists(path):
            yield f"ringup/{name}", read(path)


def write(directory, library=None):
    """Write the wheel to directory, atomically; return its file name."""
    info = f"ringup-{number()}.dist-info"
    platform = re.sub("[-.]", "_", sysconfig.get_platform()) if library else "any"
    entries = list(sources()) + list(beside(library) if library else ())
    entries += metadata(info, not library, platform)
    return archive(directory, f"ringup-{number()}-py3-none-{platform}.whl", info, entries)


def kept(library):
    """Return the shared libraries of a ringup wheel in this Python, as (name, bytes), and the lines
    of RECORD for the program and the data, which stay in place."""
    own = os.path.dirname(os.path.abspath(library))
    if not os.path.exists(os.path.join(own, "_version.py")):
        return [], []
    libraries = [(f"ringup/{name}", read(os.path.join(own, name)))
                 for name in sorted(os.listdir(own)) if ".so" in name]
    spec = importlib.util.find_spec("ringup")
    if not spec or not os.path.samefile(os.path.dirname(spec.origin), own):
        return libraries, []  # the wheel is another Python's
    text = importlib.metadata.distribution("ringup").read_text("RECORD") or ""
    return libraries, [line + "\n" for line in text.splitlines() if line.startswith("../")]


def unpack(directory, stamp, watch, library=None):
    """Write the files of an installed wheel; an existing file is an error."""
    info = f"ringup-{number()}.dist-info"
    entries = list(sources())
    for name, path in (("ringup/build.json", stamp), ("ringup/watch", watch)):
        with open(path, "rb") as f:
            entries.append((name, f.read()))
    entries += metadata(info, True, "any")
    entries.append((f"{info}/INSTALLER", b"ringup\n"))
    libraries, outside = kept(library) if library else ([], [])
    entries += libraries
    lines = "".join(outside).encode() + record(entries, info)
    if library and not libraries:
        lines = b"ringup/libringup.so.0,,\n" + lines
    for name, data in entries + [(f"{info}/RECORD", lines)]:
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with open(path, "xb") as f:
            f.write(data)
        os.chmod(path, 0o644)
    if library and not libraries:
        os.symlink(library, os.path.join(directory, "ringup", "libringup.so.0"))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The hook that pip calls (PEP 517)."""
    return write(wheel_directory, (config_settings or {}).get("library"))


def build_sdist(sdist_directory, config_settings=None):
    """The hook that pip calls for a source archive; ringup has none of its Python part alone."""
    raise NotImplementedError("the source archive is ringup's own: `make dist`")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--into"] and 4 <= len(words) <= 5:
        os.umask(0o022)
        unpack(*words[1:])
    elif 1 <= len(words) <= 2 and not words[0].startswith("-"):
        print(os.path.join(words[0], write(*words)))
    else:
        sys.exit(__doc__)
