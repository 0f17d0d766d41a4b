# values.py - values that the driver has set in its own modules since it imported them.
# SPDX-License-Identifier: Apache-2.0
"""Ranks import the driver's modules again, so an assignment such as `config.LR = 0.1` in a notebook
would be lost silently.  Simple values are therefore sent with the function: values of names that
the source assigns once, as a literal, if they have changed, and values of names that the source
does not define.  Names that a function of the module declares global belong to the module's own
state, and are not sent."""

import ast
import importlib.abc
import importlib.machinery
import os
import sys
import types

MOST_CHARACTERS = 16384  # of a value's text
PLAIN = (bool, int, float, str, bytes, type(None))


def _is_plain(value, depth=4):
    if type(value) in PLAIN:
        return value == value  # no NaN, which has no literal
    if type(value) in (list, tuple, set) and depth:
        return all(_is_plain(v, depth - 1) for v in value) and (value or type(value) is not set)
    if type(value) is dict and depth:
        return all(_is_plain(k, depth - 1) and _is_plain(v, depth - 1) for k, v in value.items())
    return False


def _text(value):
    """Return a literal for a simple value; None if it has none."""
    text = repr(value)
    try:
        return text if len(text) <= MOST_CHARACTERS and ast.literal_eval(text) == value else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # inf, for instance
        return None


class _Source(ast.NodeVisitor):
    """The names that a module's source binds at the top level, and those of them that are one
    literal."""

    def __init__(self, tree):
        self.bound, self.literals, self.own, self.is_open = {}, {}, set(), False
        self.depth = 0
        self.visit(tree)

    def _bind(self, name):
        self.bound[name] = self.bound.get(name, 0) + (self.depth == 0)

    def visit_Name(self, node):
        if not isinstance(node.ctx, ast.Load):
            self._bind(node.id)

    def visit_Global(self, node):
        self.own.update(node.names)

    def visit_alias(self, node):
        self.is_open = self.is_open or node.name == "*"
        self._bind((node.asname or node.name).split(".")[0])

    def _scope(self, node):
        self._bind(node.name)
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scope

    def _assigns(self, node):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if self.depth == 0 and node.value is not None and len(targets) == 1 and \
                isinstance(targets[0], ast.Name):
            try:
                self.literals[targets[0].id] = ast.literal_eval(node.value)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                pass
        self.generic_visit(node)

    visit_Assign = visit_AnnAssign = _assigns


def _is_as_loaded(module, path, tree):
    """Return whether the file is unchanged since the driver imported it."""
    try:
        with open(getattr(module, "__cached__", None) or "", "rb") as f:
            head = f.read(16)
        found = os.stat(path)
        return head[4:8] != bytes(4) or (
            int.from_bytes(head[8:12], "little") == int(found.st_mtime) & 0xffffffff and
            int.from_bytes(head[12:16], "little") == found.st_size & 0xffffffff)
    except OSError:  # no compiled file: then compare the functions
        pass
    compiled = compile(tree, path, "exec", dont_inherit=True)
    for code in compiled.co_consts:
        loaded = getattr(getattr(module, getattr(code, "co_name", ""), None), "__code__", None)
        if isinstance(code, types.CodeType) and loaded is not None and (
                loaded.co_code != code.co_code or loaded.co_names != code.co_names):
            return False
    return True


def _of_module(module, path):
    """Return {name: literal} of the assignments in a module."""
    with open(path, "rb") as f:
        tree = ast.parse(f.read(), path)
    source, found = _Source(tree), {}
    for name, value in list(vars(module).items()):
        if name.startswith("__") or name in source.own or not _is_plain(value):
            continue
        is_other = name in source.literals and source.bound.get(name) == 1 and (
            type(value), value) != (type(source.literals[name]), source.literals[name])
        if (is_other or name not in source.bound and not source.is_open) and \
                (text := _text(value)) is not None:
            found[name] = text
    return found if found and _is_as_loaded(module, path, tree) else {}


def changed(modules):
    """Return {module: {name: literal}} of the values that the driver has set.  modules are its own
    modules that ranks import."""
    found = {}
    for module in modules:
        path = getattr(module, "__file__", None)
        try:
            if path and path.endswith(".py") and (values := _of_module(module, path)):
                found[module.__name__] = values
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            pass  # a rank will say what is wrong with it
    return found


# -- in a rank -------------------------------------------------------------------------------------

class _Setter(importlib.abc.MetaPathFinder):
    """Sets the values after a module has been imported."""

    def __init__(self, values):
        self.values = values

    def find_spec(self, name, path=None, target=None):
        if name not in self.values:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec and spec.loader:
                load = spec.loader.exec_module

                def exec_module(module):
                    load(module)
                    _set(module, self.values.pop(name, {}))

                spec.loader.exec_module = exec_module
                return spec
        return None


def _set(module, values):
    for name, text in values.items():
        value, there = ast.literal_eval(text), getattr(module, name, None)
        if type(there) is type(value) is dict:  # others may have imported it from the module
            there.clear()
            there.update(value)
        elif type(there) is type(value) is list:
            there[:] = value
        else:
            setattr(module, name, value)


def install(values):
    """Arrange that the values that changed() has found are set in this process's modules."""
    if values:
        sys.meta_path.insert(0, _Setter(dict(values)))
