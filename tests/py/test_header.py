# test_header.py - ringup/_c.py says what ringup.h says.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src/ringup.h src/api/api_launcher.h compat/python/ringup configure.ac

import os
import re
import shutil
import subprocess
import types

import pytest
from conftest import ROOT

from ringup import _c, constants, errors

HEADER = os.path.join(ROOT, "src", "ringup.h")
LAUNCHER = os.path.join(ROOT, "src", "api", "api_launcher.h")


def header(path=HEADER):
    with open(path, encoding="utf-8") as f:
        return re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)


def fields(struct):
    """The names of a struct's fields; a description begins with its size."""
    return ["bytes"] * issubclass(struct, _c.Sized) + [name for name, _type in struct._fields_]


def program():
    """A C program that prints what the header means, one fact a line."""
    lines = ['#include <stdio.h>', '#include "ringup.h"', "int main(void) {",
             "#define X(n, c, t) printf(\"status %s %d\\n\", #n, c);", "RINGUP_STATUSES(X)",
             "#undef X", "#define X(n, b) printf(\"dtype %s %d %d\\n\", #n, RINGUP_##n, b);",
             "RINGUP_DTYPES(X)"]
    for op in ("SUM", "AVERAGE", "MIN", "MAX", "PRODUCT", "ADASUM"):
        lines.append(f'printf("redop {op} %d\\n", RINGUP_{op});')
    for name, struct in _c.STRUCTS.items():
        lines.append(f'printf("size {name} %zu\\n", sizeof(struct {name}));')
        for field in fields(struct):
            lines.append(f'printf("field {name} {field} %zu %zu\\n", offsetof(struct {name}, '
                         f'{field}), sizeof(((struct {name} *)0)->{field}));')
    return "\n".join(lines + ["}"])


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    cc = os.environ.get("CC", "cc").split()
    if not shutil.which(cc[0]):
        pytest.skip("no C compiler")
    d = tmp_path_factory.mktemp("header")
    (d / "p.c").write_text(program())
    subprocess.run([*cc, "-I", os.path.dirname(HEADER), "-o", d / "p", d / "p.c"], check=True)
    out = subprocess.run([d / "p"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [line.split() for line in out.splitlines()]


def test_statuses(facts):
    assert {f[1]: int(f[2]) for f in facts if f[0] == "status"} == _c.STATUS
    assert set(errors.BY_NAME) == set(_c.STATUS)


def test_dtypes(facts):
    found = [(f[1], int(f[2]), int(f[3])) for f in facts if f[0] == "dtype"]
    assert [(n, getattr(constants, n), b) for n, b in constants.DTYPES.items()] == found


def test_reductions(facts):
    found = {f[1]: int(f[2]) for f in facts if f[0] == "redop"}
    assert {n: getattr(constants, n) for n in found} == found


def test_structs_have_the_same_layout(facts):
    sizes = {f[1]: int(f[2]) for f in facts if f[0] == "size"}
    for name, struct in _c.STRUCTS.items():
        assert _c.ctypes.sizeof(struct) == sizes[name]
        mine = [(n, getattr(struct, n).offset, getattr(struct, n).size) for n in fields(struct)]
        assert mine == [(f[2], int(f[3]), int(f[4])) for f in facts if f[:2] == ["field", name]]


def test_no_struct_has_a_field_more():
    for name, struct in _c.STRUCTS.items():
        body = re.search(rf"struct {name} {{(.*?)}};", header(), re.S).group(1)
        body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r" \1", body)
        found = re.findall(r"(\w+)\s*(?=[,;])", body)
        assert found == fields(struct), name


@pytest.mark.parametrize("path, table", [(HEADER, _c.PROTOTYPES), (LAUNCHER, _c.LAUNCHER)],
                         ids=["ringup.h", "api_launcher.h"])
def test_every_function_is_there_with_as_many_arguments(path, table):
    found = {}
    for name, args in re.findall(r"RINGUP_(?:API|EXPORT) [^;(]*?\**(ringup_\w+)\((.*?)\);",
                                 header(path), re.S):
        args = re.sub(r"\(\*(\w+)\)\([^)]*\)", r" \1", args)
        found[name] = 0 if args.strip() == "void" else args.count(",") + 1
    assert found == {n: len(args) for n, (_result, args) in table.items()}


def test_collectives_are_those_of_the_table():
    with open(os.path.join(ROOT, "src", "base", "collectives.h"), encoding="utf-8") as f:
        table = re.findall(r"\bX\([A-Z]+,\s*(\w+),\s*\"\w+\",([^)]*)\)", f.read())
    words = [word for word, _traits in table]
    assert [*_c.COLLECTIVES, "barrier"] == [w for w in words if w != "barrier"] + ["barrier"]
    assert list(_c.MANY) == [word for word, traits in table if "COLLECTIVE_MANY" in traits]
    declared = re.findall(r"ringup_(\w+)\(", header())
    assert set(words) | {f"{w}_many" for w in _c.MANY} <= set(declared)
    for page in ("docs/man/ringup-bench.1", "docs/gpu.md", "docs/horovod.md"):
        with open(os.path.join(ROOT, page), encoding="utf-8") as f:
            text = f.read()
        assert not [w for w in words if w not in text], page


def test_sizes_of_the_launcher_are_the_same():
    from ringup.spark import session

    sizes = dict(re.findall(r"(RINGUP_\w+) = (\d+)", header(LAUNCHER)))
    assert {n: int(v) for n, v in sizes.items()} == {
        "RINGUP_KEY_BYTES": session.KEY_BYTES, "RINGUP_WHERE_BYTES": session.WHERE_BYTES,
        "RINGUP_IDENTITY_HEX": session.IDENTITY_BYTES}


def test_versions_agree():
    from ringup import __version__
    with open(os.path.join(ROOT, "configure.ac"), encoding="utf-8") as f:
        assert f"AC_INIT([ringup], [{__version__}])" in f.read()


@pytest.mark.parametrize("text, ours", [
    ("rank 1 has left the job", True), ("x[1]: rank 0 wants a barrier", True),
    ("allreduce 'x': rank 1 died", False), ("grouped allreduce 'x': rank 1 died", False),
    ("allreduce #3: rank 1 died", False), ("allreduce x has stalled for 2.0 s: rank 0", False),
    ("receive of 10 f32 from rank 2 with tag 7: rank 2 died", False)])
def test_an_error_names_its_operation_once(text, ours):
    library = types.SimpleNamespace(ringup_explain=text.encode)
    error = _c.failure(library, _c.STATUS["EPEER"], "allreduce 'x'")
    assert isinstance(error, errors.PeerLost)
    assert str(error) == (f"allreduce 'x': {text}" if ours else text)


@pytest.mark.parametrize("doing, text, want", [
    ("allreduce 'x'", "x: rank 0 wants a join", "allreduce 'x': rank 0 wants a join"),
    ("allreduce", "one without a name: rank 0 wants a join", "allreduce: rank 0 wants a join"),
    ("allreduce", "allreduce: rank 0 aborted the job", "allreduce: rank 0 aborted the job")])
def test_an_error_says_the_name_once(doing, text, want):
    library = types.SimpleNamespace(ringup_explain=text.encode)
    assert str(_c.failure(library, _c.STATUS["EMISMATCH"], doing)) == want
