#!/usr/bin/env python3
# build_ringup.py - write the wheel: a build back end for pip, and a command, without setuptools.
# SPDX-License-Identifier: Apache-2.0
"""Usage: build_ringup.py DIRECTORY [LIBRINGUP.SO]

Writes ringup-VERSION-py3-none-any.whl to DIRECTORY and prints its path.  With a library, puts
it next to the package and tags the wheel for this machine.
"""

import base64
import hashlib
import os
import re
import sys
import sysconfig
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ("ringup", "horovod")

METADATA = """\
Metadata-Version: 2.1
Name: ringup
Version: {version}
Summary: Distributed training over libringup, with Horovod's interface for torch
License: Apache-2.0
Requires-Python: >=3.8
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: build_ringup
Root-Is-Purelib: {pure}
Tag: py3-none-{platform}
"""


def version():
    """The version, from the one Python file that says it."""
    with open(os.path.join(HERE, "ringup", "_version.py"), encoding="utf-8") as f:
        return re.search(r'__version__ = "(.+)"', f.read()).group(1)


def sources():
    """(name in the wheel, bytes) of every Python file, sorted."""
    for package in PACKAGES:
        for top, dirs, files in os.walk(os.path.join(HERE, package)):
            dirs.sort()
            for name in sorted(files):
                if name.endswith(".py"):
                    path = os.path.join(top, name)
                    with open(path, "rb") as f:
                        yield os.path.relpath(path, HERE), f.read()


def record(entries, info):
    """RECORD: every file's SHA-256 and size."""
    lines = []
    for name, data in entries:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(lines + [f"{info}/RECORD,,\n"]).encode()


def write(directory, library=None):
    """Write the wheel to directory, atomically; returns its file name."""
    info = f"ringup-{version()}.dist-info"
    platform = re.sub("[-.]", "_", sysconfig.get_platform()) if library else "any"
    entries = list(sources())
    if library:
        with open(library, "rb") as f:
            entries.append(("ringup/libringup.so.0", f.read()))
    entries.append((f"{info}/METADATA", METADATA.format(version=version()).encode()))
    entries.append((f"{info}/WHEEL",
                    WHEEL.format(pure=str(not library).lower(), platform=platform).encode()))
    entries.append((f"{info}/RECORD", record(entries, info)))
    name = f"ringup-{version()}-py3-none-{platform}.whl"
    part = os.path.join(directory, f".{name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as z:
            for path, data in entries:
                item = zipfile.ZipInfo(path)  # dated 1980: the same sources, the same wheel
                item.external_attr = 0o644 << 16
                item.compress_type = zipfile.ZIP_DEFLATED
                z.writestr(item, data)
        os.replace(part, os.path.join(directory, name))
    finally:
        if os.path.exists(part):
            os.unlink(part)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """What pip calls (PEP 517)."""
    return write(wheel_directory, (config_settings or {}).get("library"))


def build_sdist(sdist_directory, config_settings=None):
    """What pip calls for a source archive: there is none of Python alone."""
    raise NotImplementedError("the source archive is ringup's own: `make dist`")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    print(os.path.join(sys.argv[1], write(*sys.argv[1:])))
