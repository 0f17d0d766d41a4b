# test_layers.py - imports of compat/python point downwards only; compat/python/layers is the order.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat/python

import ast
import os

from conftest import ROOT

TOP = os.path.join(ROOT, "compat", "python")
# Frameworks, and the packages whose import may import them.
FRAMEWORKS = {"torch": ("horovod.torch", "ringup_torch."),
              "tensorflow": ("horovod.tensorflow", "horovod._keras.tensorflow_reducer",
                             "sparkdl.horovod.tensorflow"),
              "keras": ("horovod._keras", "horovod.keras", "sparkdl.horovod.tensorflow"),
              "numpy": ("horovod._keras", "horovod.common.array", "ringup.jax"),
              "jax": ("ringup.jax", "horovod._keras.jax_passes", "horovod._keras.jax_reducer"),
              "mpi4py": (),
              "pyspark": ("horovod.spark",), "ray": ("horovod.ray",),
              "cloudpickle": ("horovod", "ringup.elastic")}
LAZY = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def modules():
    """{name: path} of all modules; a package's name is that of its __init__.py."""
    out = {}
    for package in ("ringup", "ringup_torch", "horovod", "sparkdl"):
        for folder, _folders, files in os.walk(os.path.join(TOP, package)):
            for f in files:
                if f.endswith(".py"):
                    path = os.path.join(folder, f)
                    name = os.path.relpath(path, TOP)[:-3].replace(os.sep, ".")
                    out[name[:-9] if name.endswith(".__init__") else name] = path
    return out


MODULES = modules()


def layers():
    """The entries, bottom first."""
    with open(os.path.join(TOP, "layers"), encoding="utf-8") as f:
        return [line.strip() for line in f if line.strip() and not line.startswith("#")]


def entry_of(module, entries):
    """The place of a module's entry, which is the longest that it begins with."""
    fits = [e for e in entries if module == e or module.startswith(e + ".")]
    return entries.index(max(fits, key=len)) if fits else None


def statements(node, lazy):
    """Each import statement below a node, and whether it is in a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, lazy
        else:
            yield from statements(child, lazy or isinstance(child, LAZY))


def imports(name, path):
    """(what is imported, is it in a function, line) of a module."""
    with open(path, encoding="utf-8") as f:
        tree = ast.parse(f.read(), path)
    package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
    for node, lazy in statements(tree, False):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, lazy, node.lineno
            continue
        base = node.module or ""
        if node.level:
            parts = package.split(".")
            base = ".".join(parts[:len(parts) - node.level + 1] + ([base] if base else []))
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            yield (inner if inner in MODULES else base), lazy, node.lineno


def test_every_entry_is_in_the_list_once_and_every_module_has_one():
    entries = layers()
    assert len(set(entries)) == len(entries)
    assert [m for m in MODULES if entry_of(m, entries) is None] == []


def test_imports_point_downwards():
    """Not counted is what a package's __init__.py gets when it is asked for."""
    entries, bad = layers(), []
    for name, path in MODULES.items():
        mine = entry_of(name, entries)
        for what, lazy, line in imports(name, path):
            theirs = entry_of(what, entries)
            if theirs is None or lazy and path.endswith("__init__.py"):
                continue
            if theirs > mine:
                bad.append(f"{path}:{line}: {name} must not import {what}")
    assert bad == []


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: {what for what, lazy, _line in imports(name, path)
                    if what in MODULES and what != name and not lazy}
             for name, path in MODULES.items()}
    done, circles = set(), []

    def visit(name, above):
        if name in above:
            circles.append(above[above.index(name):] + [name])
        elif name not in done:
            for other in sorted(graph[name]):
                visit(other, above + [name])
            done.add(name)

    for name in sorted(graph):
        visit(name, [])
    assert circles == []


def test_an_import_brings_no_framework_but_the_package_of_that_name_does():
    bad = []
    for name, path in MODULES.items():
        for what, lazy, line in imports(name, path):
            allowed = FRAMEWORKS.get(what.split(".")[0])
            if allowed is not None and not lazy and not name.startswith(allowed):
                bad.append(f"{path}:{line}: {name} must not import {what} when it is imported")
    assert bad == []


def test_nobody_but_ringup_reaches_for_its_private_names():
    bad = [f"{path}:{line}: {what}" for name, path in MODULES.items()
           for what, _lazy, line in imports(name, path)
           if not name.startswith("ringup") and what.startswith("ringup._")]
    assert bad == []
