# unpack.py - the driver's own Python files on the host of its ranks; gather.py packs them.
# SPDX-License-Identifier: Apache-2.0
"""If this host has a folder of the driver with the same files (a local session, or shared storage),
the folder is used in place.  Other folders are unpacked to a temporary folder for the ranks of this
host.  A small process removes this folder when the last of the ranks has ended, in whatever way."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

MANIFEST = "ringup-files.json"
VARIABLE = "SPARK_FILES_OF_RANKS"  # tells a rank what became of the driver's folders
# Removes the folder when the pipe has no writer left; in the background, so nobody waits for it.
# A shell gives what runs in the background /dev/null as its descriptor 0.
REMOVER = 'exec 3<&0; { read -r _ <&3; exec rm -rf -- "$0"; } &'


class Places:
    """The driver's folders on this host, those before and those after the installed packages.
    folder contains the unpacked ones, or is None."""

    def __init__(self, before=(), behind=(), folder=None):
        self.before, self.behind, self.folder = list(before), list(behind), folder

    def variable(self):
        """Return the places as a variable in the ranks' environment."""
        return json.dumps(vars(self))

    def on_host(self, path):
        """Return a driver's file on this host: the unpacked file, or the same name."""
        there = self.folder + path if self.folder and path.startswith("/") else path
        return there if os.path.isfile(there) else path

    def on_driver(self, path):
        """Return the driver's name of a file; the same name if the file was not unpacked."""
        if self.folder and path.startswith(self.folder + os.sep):
            return path[len(self.folder):]
        return path

    def text_for_driver(self, text):
        """Return a text, such as a traceback, with the driver's names of files."""
        return text.replace(self.folder + os.sep, os.sep) if self.folder else text


def of_rank():
    """Return the Places of this process, which is a rank."""
    said = json.loads(os.environ.get(VARIABLE) or "{}")
    return Places(**said)


def order_path(places):
    """Give sys.path the driver's order, because PYTHONPATH cannot put folders last.  Processes that
    this process starts also find everything."""
    sys.path[:] = [p for p in sys.path if p not in places.behind] + places.behind
    os.environ.update(for_children(os.environ, places))


def for_children(env, places):
    """Return a PYTHONPATH with all places."""
    paths = [p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys([*paths, *places.behind]))}


def _is_here(archive, root):
    """Return whether this host has the same files in a folder with this name."""
    names = [n for n in archive.namelist()
             if "/" + n == root or ("/" + n).startswith(root.rstrip("/") + "/")]
    for name in names:
        try:
            path = "/" + name
            if os.path.getsize(path) != archive.getinfo(name).file_size:
                return False
            with open(path, "rb") as f:
                if f.read() != archive.read(name):
                    return False
        except OSError:
            return False
    return bool(names)


@contextlib.contextmanager
def unpacked(data):
    """Return the Places of the driver's files, and a descriptor that every process which needs them
    must inherit.  data is the archive from gather(), or the place of the files on this host, or
    None."""
    if not data or isinstance(data, Places):
        yield data or Places(), None
        return
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        manifest = json.loads(archive.read(MANIFEST))
        missing = [root for root, _ in manifest if not _is_here(archive, root)]
        names = [n for n in archive.namelist() if n != MANIFEST and
                 any("/" + n == r or ("/" + n).startswith(r.rstrip("/") + "/") for r in missing)]
        folder = end = None
        try:
            if names:
                folder = tempfile.mkdtemp(prefix="ringup-files.")
                try:
                    archive.extractall(folder, names)
                except OSError as e:
                    raise RuntimeError(
                        f"{os.uname().nodename} has no space for the driver's Python files in "
                        f"{folder}: {e.strerror or e}.  RINGUP_SPARK_FILES=0 on the driver sends "
                        "none; set TMPDIR on the executors to another folder") from e
                end = _remover(folder)
            places = Places(folder=folder)
            for root, behind in manifest:
                where = folder + root if root in missing else root
                (places.behind if behind else places.before).append(where)
            yield places, end
        finally:
            if end is not None:
                os.close(end)
            elif folder:
                shutil.rmtree(folder, ignore_errors=True)


def _remover(folder):
    """Return a descriptor.  When all its copies are closed, the folder is removed."""
    reads, writes = os.pipe()
    try:
        subprocess.run(["/bin/sh", "-c", REMOVER, folder], stdin=reads, env={"PATH": os.defpath},
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       start_new_session=True, cwd="/", check=True)
    except BaseException:
        os.close(writes)
        raise
    finally:
        os.close(reads)
    return writes
