# gather.py - the driver's own Python files, as bytes for ranks on other hosts.
# SPDX-License-Identifier: Apache-2.0
"""A rank imports the same files as the driver would.  The user's folders of sys.path are sent with
the job as one zip archive: sources first, then small data files beside them.  Installed packages,
the standard library, Spark and ringup are not sent, because every executor has them.

The archive mirrors the driver's paths, so relative imports, data files beside a module and nested
folders of sys.path work as on the driver.  unpack.py unpacks it."""

import functools
import importlib.machinery
import io
import json
import os
import site
import sys
import sysconfig
import tempfile
import time
import types
import zipfile

from ringup import setting

from . import unpack

SOURCES = (".py", ".so", ".pyi", ".pyd", ".pyc", ".pyx")
ARCHIVES = (".zip", ".egg", ".whl")
IGNORED_FOLDERS = frozenset({"__pycache__", "node_modules", "mlruns", "spark-warehouse",
                             "metastore_db", "site-packages", "dist-packages"})
IGNORED_FILES = (".ipynb", ".swp", "~")
ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
MOST_BYTES = 32 << 20     # of all files
UNIT_BYTES = 4 << 20      # data files of one kind in a folder: all of them, or none
MOST_ENTRIES = 20000      # files and folders to look at
LOOK_S = 10               # on a slow network file system
OURS = ("ringup", "horovod", "sparkdl", "pyspark", "py4j", "cloudpickle")
left_out = {}  # path -> (bytes, why): what ranks of this process's jobs have not got


@functools.lru_cache(None)
def installed_paths():
    """Return the folders of the standard library and of installed packages."""
    paths = {p for name, p in sysconfig.get_paths().items() if name in
             ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
    if site.ENABLE_USER_SITE:
        paths.add(site.getusersitepackages())
    return {os.path.realpath(p) for p in paths}


def is_standard(path):
    """Return whether every process of this Python has this folder in sys.path."""
    name = os.path.basename(path)
    if name == "lib-dynload" or (name.startswith("python3") and name.endswith(".zip")):
        return True
    return os.path.realpath(path) in installed_paths()


class Root:
    """A folder, or an archive, of the driver's sys.path.

    behind means that it comes after the installed packages.  only contains the top-level names to
    send; None means all."""

    def __init__(self, path, behind=False, only=None):
        self.path, self.behind, self.only = path, behind, only


@functools.lru_cache(1)
def _system_roots(*homes):
    """Return folders whose files every executor has, or must not get from the driver."""
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return tuple(os.path.realpath(p) for p in (own, "/databricks", *homes, *installed_paths()) if p)


def is_installed(path):
    """Return whether a file or folder belongs to Python, installed packages, Spark or ringup."""
    path = os.path.realpath(path)
    parts = path.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts or "lib-dynload" in parts:
        return True
    if path == "/databricks/driver" or path.startswith("/databricks/driver/"):
        return False
    if any(part.startswith("userFiles-") for part in parts):  # sc.addPyFile() has sent these
        return True
    spark = getattr(sys.modules.get("pyspark"), "__file__", None)
    homes = _system_roots(os.environ.get("SPARK_HOME"), spark and os.path.dirname(spark))
    return any(path == p or path.startswith(p + os.sep) for p in homes)


def _editable():
    """Return folders of packages that `pip install -e` has added through a finder, not through a
    path."""
    for finder in sys.meta_path:
        mapping = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", None)
        if isinstance(mapping, dict):
            for name, path in mapping.items():
                path = os.path.abspath(str(path))
                if os.path.basename(path) == name and os.path.isdir(path):
                    yield name, os.path.dirname(path)


def roots():
    """Return the user's own entries of sys.path, in their order."""
    found, behind = {}, False
    for entry in sys.path:
        if not isinstance(entry, str):
            continue
        path = os.path.abspath(entry or os.curdir)
        if is_installed(path) or is_standard(path):
            behind = behind or "-packages" in path
        elif os.path.basename(path).startswith(".") or not path.isprintable():
            pass  # IPython's own folder, for instance
        elif os.path.isdir(path) or (path.endswith(ARCHIVES) and os.path.isfile(path)):
            found.setdefault(path, Root(path, behind))
    for name, path in _editable():
        if path not in found and not is_installed(path):
            found[path] = Root(path, True, {name})
    return list(found.values())


def _file_of(module):
    path = getattr(module, "__file__", None)
    return os.path.abspath(path) if isinstance(path, str) and path else None


def _top_of(name, path):
    """Return the folder of sys.path to which a module with this name and file belongs, or None."""
    folder, base = os.path.split(path)
    base = base.split(".")[0]
    words = (folder if base == "__init__" else os.path.join(folder, base)).split(os.sep)
    parts = name.split(".")
    return os.sep.join(words[:-len(parts)]) or os.sep if words[-len(parts):] == parts else None


def _needs_driver(module):
    """Return whether the module contains a Spark session.  A rank that imports it would start one.
    """
    return any(str(type(v).__module__).startswith("pyspark.") and
               type(v).__name__ in ("SparkSession", "SparkContext", "SQLContext")
               for v in list(vars(module).values()))


def own_modules():
    """Return pairs (module, its root or None) of loaded modules that are the user's own.  None
    means that a rank cannot import the module."""
    found = []
    for name, module in list(sys.modules.items()):
        if name in ("__main__", "__mp_main__") or not isinstance(module, types.ModuleType) or \
                name.split(".")[0] in OURS or module.__name__ != name:
            continue
        path = _file_of(module)
        if path is None:
            if "." not in name and getattr(module, "__spec__", None) is None and \
                    getattr(module, "__loader__", None) is None:
                found.append((module, None))  # made by the program, not imported
            continue
        if not is_installed(path):
            found.append((module, None if _needs_driver(module) else _root_of(module, path)))
    return found


def _root_of(module, path):
    """Return the folder or archive from which a module is imported, or None."""
    if os.path.isfile(path):
        return _top_of(module.__name__, path)
    archive = getattr(getattr(module, "__loader__", None), "archive", None)
    return os.path.abspath(archive) if archive and os.path.isfile(archive) else None


def by_value():
    """Return the modules whose functions and classes are sent by value, because ranks cannot import
    them."""
    return [module for module, top in own_modules() if top is None]


# -- what is in the folders ------------------------------------------------------------------------

class File:
    """A file that may be sent.  Files with the same unit are all sent, or none of them."""

    def __init__(self, path, size, unit=None):
        self.path, self.size, self.unit = path, size, unit


class Look:
    """The contents of the roots, each folder's files before those of its subfolders."""

    def __init__(self):
        self.sources, self.data, self.left_out = {}, {}, {}
        self.entries, self.end = 0, time.monotonic() + LOOK_S
        self.broken = set()  # folders that were not looked at

    def add(self, root):
        """Look at a root."""
        if os.path.isfile(root.path):
            self.sources[root.path] = File(root.path, os.path.getsize(root.path))
            return
        # Programs and projects of all kinds lie in these: only what is a module at first sight.
        shallow = root.path in ("/", os.path.expanduser("~"), tempfile.gettempdir())
        pending, data, with_sources = [(root.path, (os.path.realpath(root.path),))], [], set()
        while pending:
            folder, above = pending.pop(0)
            for e in self._entries(folder):
                if folder == root.path and root.only is not None and \
                        e.name.split(".")[0] not in root.only:
                    continue
                if e.is_dir():
                    inner = self._folder(e, above)
                    if inner and not (shallow and folder == root.path and not
                                      os.path.exists(os.path.join(e.path, "__init__.py"))):
                        pending.append((e.path, inner))
                elif e.is_file() and (size := _size(e)) is not None:
                    if e.name.endswith(SOURCES):
                        self.sources[e.path] = File(e.path, size)
                        with_sources.add(folder)
                    elif not e.name.endswith(IGNORED_FILES) and not \
                            (shallow and folder == root.path):
                        data.append((folder, e.path, size))
        for folder, path, size in data:
            unit = self._unit(folder, root.path, with_sources, path)
            if unit:
                self.data[path] = File(path, size, unit)

    def _entries(self, folder):
        if self.entries >= MOST_ENTRIES or time.monotonic() > self.end:
            self.broken.add(folder)
            self.left_out[folder] = 0, "there are too many files"
            return []
        try:
            with os.scandir(folder) as found:
                entries = sorted((e for e in found if not e.name.startswith(".") and e.name not in
                                  IGNORED_FOLDERS and e.name.isprintable()), key=lambda e: e.name)
        except OSError as e:
            self.broken.add(folder)
            self.left_out[folder] = 0, e.strerror or str(e)
            return []
        self.entries += len(entries) + 1
        return entries

    @staticmethod
    def _folder(entry, above):
        """Return the folders that contain this one, and the folder itself; None if nothing of it is
        sent."""
        if entry.name.endswith((".egg-info", ".dist-info")) or \
                any(os.path.exists(os.path.join(entry.path, m)) for m in ENVIRONMENT_MARKS):
            return None
        real = os.path.realpath(entry.path)
        if real in above or is_installed(real):  # a link to a folder above it
            return None
        return (*above, real)

    def _unit(self, folder, top, with_sources, path):
        """Return a unit: files of one kind beside sources, or a whole folder without sources that
        is beside sources."""
        if folder in with_sources:
            return folder, os.path.splitext(path)[1]
        while folder != top:
            above = os.path.dirname(folder)
            if above in with_sources:
                return None if any(b == folder or b.startswith(folder + os.sep)
                                   for b in self.broken) else (folder, "")
            folder = above
        return None


def _size(entry):
    try:
        return entry.stat().st_size
    except OSError:  # removed in this moment
        return None


def _names_in(code):
    """Return the top-level names that compiled code imports, and all other names to which it
    refers."""
    names = {name.split(".")[0] for name in code.co_names}
    for const in code.co_consts:
        names |= _names_in(const) if isinstance(const, types.CodeType) else set()
    return names


def _wanted(fn):
    """Return the names of modules to prefer if not all can be sent: those that the function and the
    functions of its module mention, and those that are loaded."""
    names = {m.__name__.split(".")[0] for m, _ in own_modules()}
    main = vars(sys.modules["__main__"]).values() if "__main__" in sys.modules else ()
    for f in (fn, *list(main)):
        code = getattr(getattr(f, "__func__", f), "__code__", None)
        if isinstance(code, types.CodeType):
            names |= _names_in(code)
    return names


def _choose(look, tops, most, wanted, first=None):
    """Choose the files to send: sources, the preferred ones first, then data."""
    def rank(file):
        if file.path == first:
            return False, 0
        top = max((t for t in tops if file.path.startswith(t.rstrip(os.sep) + os.sep)),
                  key=len, default=os.path.dirname(file.path))
        name = os.path.relpath(file.path, top).split(os.sep)[0].split(".")[0]
        return name not in wanted, file.path.count(os.sep)

    chosen, total = [], 0
    for file in sorted(look.sources.values(), key=rank):
        if total + file.size > most:
            look.left_out[file.path] = file.size, f"sources travel up to {size_text(most)}"
            continue
        chosen.append(file.path)
        total += file.size
    units = {}
    for file in look.data.values():
        units.setdefault(file.unit, []).append(file)
    for files in sorted(units.values(), key=lambda f: (f[0].path.count(os.sep), f[0].path)):
        size = sum(f.size for f in files)
        if size > UNIT_BYTES or total + size > most:
            why = (f"data files of one kind in a folder travel up to {size_text(UNIT_BYTES)}"
                   if size > UNIT_BYTES else f"files travel up to {size_text(most)} in all")
            look.left_out.update((f.path, (f.size, why)) for f in files)
            continue
        chosen += [f.path for f in files]
        total += size
    return chosen


def size_text(count):
    """Return a number of bytes as text."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"


def _warn(look):
    """Warn once about files that are not sent."""
    names = {p for p in look.left_out if p not in left_out}
    left_out.update(look.left_out)
    if not names:
        return
    shown = sorted(names, key=lambda p: (not p.endswith(SOURCES), -look.left_out[p][0]))
    some = ", ".join(f"{p} ({size_text(look.left_out[p][0])})" if look.left_out[p][0] else p
                     for p in shown[:3])
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    print(f"ringup: ranks do not get {some}{more}, unless their host has the same folder: "
          f"{look.left_out[shown[0]][1]}.  Put large files on storage that all hosts share; "
          "RINGUP_SPARK_FILES=SIZE sets the limit of all files, 0 sends none", file=sys.stderr,
          flush=True)


def _places(file=None):
    """Return Roots: the user's own entries of sys.path, the folders of modules that were loaded
    from elsewhere, and the folder of a file."""
    places = {r.path: r for r in roots()}
    if file and os.path.isfile(file):  # Python itself puts its folder first
        places.setdefault(os.path.dirname(file), Root(os.path.dirname(file), True))
    listed = set(places)
    for module, top in own_modules():
        if top is not None and top not in listed:
            extra = places.setdefault(top, Root(top, True, set()))
            extra.only.add(module.__name__.split(".")[0])
    return list(places.values())


def here():
    """Return where ranks on this host find the driver's files: in place."""
    found = _places()
    return unpack.Places([r.path for r in found if not r.behind],
                         [r.path for r in found if r.behind])


def gather(fn=None, file=None):
    """Return the archive for ranks on other hosts; None if nothing has to be sent.  fn is their
    function, whose modules are preferred if not all can be sent; file is the path of their program.
    """
    most = setting.size("RINGUP_SPARK_FILES", MOST_BYTES)
    if most == 0:
        return None
    places, look, data = _places(file), Look(), io.BytesIO()
    for root in places:
        look.add(root)
    chosen = _choose(look, [r.path for r in places], most, _wanted(fn), file)
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
        for path in list(chosen):
            try:
                z.writestr(path.lstrip("/"), _read(path))
            except OSError as e:
                look.left_out[path] = 0, e.strerror or str(e)
                chosen.remove(path)
        used = [r for r in places
                if any(p == r.path or p.startswith(r.path.rstrip("/") + "/") for p in chosen)]
        z.writestr(unpack.MANIFEST, json.dumps([[r.path, r.behind] for r in used]))
    _warn(look)
    return data.getvalue() if used else None


def _read(path):
    with open(path, "rb") as f:
        return f.read()


# -- what a rank has not found ---------------------------------------------------------------------

def _why_not(path):
    """Return why ranks do not have a file or its folder, or None."""
    while path and path != os.sep:
        if path in left_out:
            size, why = left_out[path]
            return f"{path}" + (f" ({size_text(size)})" if size else "") + f" was left out: {why}"
        path = os.path.dirname(path)
    return None


def about_module(name):
    """Return the driver's view of a module that a rank could not import, and what to do."""
    top = name.split(".")[0]
    for root in roots():
        for path in (os.path.join(root.path, *name.split(".")), os.path.join(root.path, top)):
            for file in (f"{path}.py", path):
                if os.path.exists(file):
                    why = _why_not(file) or "RINGUP_SPARK_FILES=0 sends none of the driver's files"
                    return (f"on the driver it is {file}.  {why}.  Raise RINGUP_SPARK_FILES, or "
                            f"send it with sc.addPyFile({file!r}), or install it on each node")
    module = sys.modules.get(top)
    path = getattr(module, "__file__", None)
    if not path:
        try:
            spec = importlib.machinery.PathFinder.find_spec(top)
            path = spec and spec.origin
        except (ImportError, ValueError, AttributeError):
            path = None
    if path and not is_installed(path):
        return (f"on the driver it is {path}, in a folder that is not on sys.path: put that folder "
                "there")
    if path:
        return (f"the driver has it ({path}), but the Python of the executors does not: install "
                "it there on each node, or set PYSPARK_PYTHON to a Python that has it")
    return (f"the driver does not have it either: no folder of sys.path holds {top}.py or {top}/.  "
            "Install it on the driver and on each node, or put its folder on the driver's sys.path")


def about_file(path):
    """Return the same for a file that a rank could not open; None if the driver does not have it.
    """
    on_driver = os.path.abspath(path)
    if not os.path.exists(on_driver):
        return None
    why = _why_not(on_driver) or f"{on_driver} is on the driver only"
    return (f"{why}.  Put it on storage that all hosts share (/dbfs, /Volumes, NFS) and open it "
            "by its absolute path, or pass its contents as an argument")
