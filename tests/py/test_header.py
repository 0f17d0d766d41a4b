# test_header.py - ringup/_c.py says what ringup.h says.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src/ringup.h src/api src/base/collectives.h compat/python/ringup configure.ac

import os
import re
import shutil
import subprocess
import types

import pytest
from conftest import ROOT

import ringup
from ringup import _c, constants, errors, jax_host

# Structs without a size of their own: why old programs work with them all the same.
UNSIZED = {
    "ringup_set": "an element of an array in struct ringup_init; it never changes",
    "ringup_points": "an element of a result; ringup_points_get() takes its size",
}

# The structs of the first programs: each field and its offset on 64-bit machines, and the size.
# Programs are linked against libraries of later versions, so a struct grows at its end only, and
# never into the padding there, which old programs do not set.
FIRST = {
    "ringup_set": "ranks:0 count:8 =16",
    "ringup_init": "bytes:0 rank:8 size:12 exchange:16 ctx:24 groups:32 group_count:40 "
                   "join_sums:44 part:48 part_ranks:56 =64",
    "ringup_reduce": "bytes:0 name:8 in:16 out:24 count:32 dtype:40 redop:44 pre:48 post:56 "
                     "shape:64 dims:72 memory:76 stream:80 =88",
    "ringup_bcast": "bytes:0 name:8 in:16 out:24 count:32 dtype:40 root:44 shape:48 dims:56 "
                    "memory:60 stream:64 =72",
    "ringup_gather": "bytes:0 name:8 in:16 rows:24 row:32 dtype:40 out:48 counts:56 shape:64 "
                     "dims:72 into:80 into_bytes:88 memory:96 stream:104 =112",
    "ringup_exchange": "bytes:0 name:8 in:16 rows:24 row:32 splits:40 dtype:48 out:56 counts:64 "
                       "shape:72 dims:80 into:88 into_bytes:96 memory:104 stream:112 =120",
    "ringup_scatter": "bytes:0 name:8 in:16 rows:24 row:32 out:40 dtype:48 redop:52 pre:56 "
                      "post:64 shape:72 dims:80 memory:84 stream:88 =96",
    "ringup_send": "bytes:0 in:8 count:16 dtype:24 to:28 tag:32 =40",
    "ringup_recv": "bytes:0 out:8 count:16 dtype:24 from:28 tag:32 source:40 =48",
    "ringup_points": "submitted:0 ready:8 begun:16 complete:24 failed:32 =40",
}

# Names of enumerators that count the others: a program would keep the number of its header.
COUNTS = re.compile(r"_(COUNT|KINDS|LAST|END|MOST|NUM)$")

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


def compiler():
    cc = os.environ.get("CC", "cc").split()
    if not shutil.which(cc[0]):
        pytest.skip("no C compiler")
    return cc


@pytest.fixture(scope="module")
def expanded():
    """The header without comments, and with its lists expanded; without what it includes."""
    out = subprocess.run([*compiler(), "-E", HEADER], check=True, stdout=subprocess.PIPE, text=True)
    parts = re.split(r'^# \d+ "([^"]*)".*\n', out.stdout, flags=re.M)
    return "".join(text for name, text in zip(parts[1::2], parts[2::2]) if name == HEADER)


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    cc = compiler()
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


def structs(text):
    """The names and bodies of the structs and unions in C code."""
    return {name: body for name, body in
            re.findall(r"\b(?:struct|union)\s+(\w+)\s*{(.*?)}", text, re.S)}


def enumerators(text):
    return [name for body in re.findall(r"\benum\b[^{;()]*{(.*?)}", text, re.S)
            for name in re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip())]


def without_size(text):
    return {name for name, body in structs(text).items()
            if not re.match(r"\s*size_t\s+bytes\s*;", body)}


def test_every_struct_is_mirrored(expanded):
    assert set(structs(expanded)) == set(_c.STRUCTS)


def test_every_struct_begins_with_its_size(expanded):
    assert without_size(expanded) == set(UNSIZED), "begin it with size_t bytes, as the others"


def test_an_old_program_is_tested_with_each_struct(expanded):
    with open(os.path.join(ROOT, "tests", "whole", "test_old_caller.c"), encoding="utf-8") as f:
        test = f.read()
    sized = set(structs(expanded)) - {"ringup_set"}
    assert not [n for n in sized - {"ringup_points"} if f"NEW({n}," not in test]
    assert not [n for n in sized if not re.search(rf"(OLD|OLD_TO|SIZE_TO)\({n},", test)]


def test_structs_only_grow_at_the_end(facts):
    assert set(FIRST) == set(_c.STRUCTS)
    if _c.ctypes.sizeof(_c.c_void_p) != 8:
        pytest.skip("the offsets are those of 64-bit machines")
    for name, text in FIRST.items():
        first = text.split()
        size = int(first.pop()[1:])
        now = [f"{f[2]}:{f[3]}" for f in facts if f[:2] == ["field", name]]
        assert now[:len(first)] == first, name
        assert all(int(f.split(":")[1]) >= size for f in now[len(first):]), name
        if name == "ringup_set":
            assert now == first


def test_no_enumerator_counts_the_others(expanded):
    names = enumerators(expanded)
    assert {"RINGUP_OK", "RINGUP_EDEADLOCK", "RINGUP_BOOL", "RINGUP_HOSTS_ADDED"} <= set(names)
    assert not [n for n in names if COUNTS.search(n)]


def test_the_checks_of_structs_and_enumerators_find_something():
    assert without_size("struct a { size_t bytes; int x; }; struct b { int x; size_t bytes; };"
                        "struct c; struct d { size_t bytes_of; };") == {"b", "d"}
    assert enumerators("enum a { A, B = 1 << 2, A_COUNT }; enum { C }; enum a f(enum a);") == [
        "A", "B", "A_COUNT", "C"]
    assert COUNTS.search("RINGUP_DTYPE_COUNT") and not COUNTS.search("RINGUP_MAX")


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
    # Python's functions; ringup.jax needs JAX, and TensorFlow's operations TensorFlow.
    assert not [w for w in words if not hasattr(ringup.Group, w) or not hasattr(ringup, w)]
    assert set(jax_host._STARTS) == set(_c.COLLECTIVES)
    for module, call in (("ringup/operation.py", "lib.ringup_{}"), ("ringup/jax.py", '_call("{}'),
                         ("horovod/tensorflow/mpi_ops.py", "operations.ringup_{}")):
        with open(os.path.join(ROOT, "compat", "python", module), encoding="utf-8") as f:
            text = f.read()
        assert not [w for w in _c.COLLECTIVES
                    if not re.search(re.escape(call.format(w)) + r"\b", text)], module
    with open(os.path.join(ROOT, "src", "cli", "cmd_bench.c"), encoding="utf-8") as f:
        text = f.read()
    assert f"N tensors per call, for {', '.join(_c.MANY)} (@)" in text
    rows = [word for word, traits in table if "COLLECTIVE_ROWS" in traits]
    assert f"use blocks of different lengths ({', '.join(rows)})" in text
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
