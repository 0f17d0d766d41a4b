# test_tables.py - the table of versions and the recipe of Horovod, which their readers trust.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat/versions.tsv src/rebuild/recipes src/rebuild/versions.c src/rebuild/recipe.c

import json
import os
import re

import pytest
from conftest import ROOT

SUBJECTS = ("clang cuda debian fedora gcc horovod keras mpich mxnet nccl openmpi rhel tensorflow "
            "torch ubuntu").split()
TRUSTS = "memory issue recipe doc tested".split()
NUMBER = r"\d+(\.\d+)*"
RANGE = r"({0}-{0}|{0}-?|-{0})".format(NUMBER)
RANGES = r"{0}(,{0})*".format(RANGE)
ATTRIBUTES = {
    "bad": "horovod|ringup",                # an engine that must not be used with it
    "clang": RANGES, "gcc": RANGES,         # a distribution: the compilers it has
    "clang_max": NUMBER, "clang_min": NUMBER, "gcc_max": NUMBER, "gcc_min": NUMBER,
    "compiler": "(gcc|clang) " + NUMBER,    # what built it
    "cuda": RANGES,                         # the CUDA it is for
    "cxx11_abi": "[01]",                    # _GLIBCXX_USE_CXX11_ABI of its build
    "cxx_standard": "11|14|17|20|23",       # that its headers need; a compiler's newest
    "glibcxx": NUMBER,                      # a gcc: the newest symbols of its libstdc++
    "keras": RANGES,                        # the Keras that is TensorFlow's own
    "numpy": RANGES, "python": RANGES,      # those it was built with, those it exists for
    "tensorflow": RANGES, "torch": RANGES,  # an engine: those it knows
}
WORD = re.compile(r"![a-z0-9]+|[a-z0-9]+((<|>|<=|>=|==|!=){})?".format(NUMBER))
LISTS = {"advisories": ["id", "text"], "bad": ["when", "why", "instead"], "env": ["name", "value"],
         "adds": ["to", "from"], "edits": ["name", "file", "why", "match", "with"]}


def parts(version):
    return [int(n) for n in version.split(".")] if version != "-" else []


def reaches(low, high):
    """Is @low not above @high?  2.15.1 is not above 2.15."""
    return "-" in (low, high) or parts(low)[:len(parts(high))] <= parts(high)


def fault(line):
    """The fault of one fact, or None."""
    if line.count("\t") != 7:
        return "fields"
    subject, low, high, attribute, value, trust, source, _ = line.split("\t")
    attribute, at, variant = attribute.partition("@")
    bounds = all(re.fullmatch("-|" + NUMBER, b) for b in (low, high)) and reaches(low, high)
    ranges = [r.split("-") for r in value.split(",") if "-" in r.strip("-")]
    return ("subject" if subject not in SUBJECTS else
            "attribute" if attribute not in ATTRIBUTES else
            "variant" if not re.fullmatch("[a-z0-9-]{1,23}" if at else "", variant) else
            "range" if not bounds else
            "value" if not re.fullmatch(ATTRIBUTES[attribute], value) or
            (ATTRIBUTES[attribute] is RANGES and not all(reaches(a, b) for a, b in ranges)) else
            "trust" if trust not in TRUSTS else
            "source" if not source else None)


def faults(text):
    """The faults of a table; facts of equal trust about one thing must not differ."""
    lines = [x for x in text.split("\n") if x and x[0] != "#" and not x.startswith("subject\t")]
    found = ["{}: {}".format(fault(x), x) for x in lines if fault(x)]
    facts = [x.split("\t") for x in lines] if not found else []
    thing = [(f[0], *f[3].partition("@")[::2]) for f in facts]
    for i in range(1, len(facts)):
        if (thing[i], parts(facts[i][1])) < (thing[i - 1], parts(facts[i - 1][1])):
            found.append("order: " + lines[i])
    for i, a in enumerate(facts):
        for j, b in enumerate(facts[:i]):
            if (thing[i] == thing[j] and a[5] == b[5] and a[4] != b[4] and reaches(a[1], b[2]) and
                    reaches(b[1], a[2])):
                found.append("contradiction: {} and {}".format(lines[j], lines[i]))
    return found


def recipe_faults(recipe):
    found = [k for k, keys in LISTS.items() for o in recipe[k] for key in keys
             if not isinstance(o.get(key), str)]
    return found + [o["when"] for k in LISTS for o in recipe[k] if "when" in o and
                    not all(WORD.fullmatch(w) for w in o["when"].split())]


def test_table():
    with open(os.path.join(ROOT, "compat", "versions.tsv")) as f:
        text = f.read()
    assert faults(text) == []
    assert text.count("\n") > 100


@pytest.mark.parametrize("what, rows", [
    ("fields", ["torch 1 2"]),
    ("subject", ["torhc 1 2 cxx11_abi 0 doc x "]),
    ("attribute", ["torch 1 2 cxx11abi 0 doc x "]),
    ("range", ["torch 2 1 cxx11_abi 0 doc x "]),
    ("range", ["torch 1. 2 cxx11_abi 0 doc x "]),
    ("range", ["torch v1 2 cxx11_abi 0 doc x "]),
    ("range", ["torch  2 cxx11_abi 0 doc x "]),
    ("value", ["torch 1 2 cxx11_abi 2 doc x "]),
    ("value", ["torch 1 2 cxx_standard 15 doc x "]),
    ("value", ["torch 1 2 compiler gcc doc x "]),
    ("value", ["torch 1 2 compiler icc_19 doc x "]),
    ("value", ["torch 1 2 python 3.9-3.8 doc x "]),
    ("value", ["torch 1 2 python 3.9, doc x "]),
    ("value", ["torch 1 2 python  doc x "]),
    ("trust", ["torch 1 2 cxx11_abi 0 sure x "]),
    ("source", ["torch 1 2 cxx11_abi 0 doc  "]),
    ("variant", ["torch 1 2 cxx11_abi@ 0 doc x "]),
    ("variant", ["torch 1 2 cxx11_abi@CU118 0 doc x "]),
    ("order", ["torch 2 - cxx11_abi 1 doc x ", "torch 1 1 cxx11_abi 0 doc x "]),
    ("contradiction", ["torch 1 2.5 cxx11_abi 0 doc x ", "torch 2.5.1 - cxx11_abi 1 doc x "]),
    ("contradiction", ["torch - 2.5 cxx11_abi 0 doc x ", "torch 1 1 cxx11_abi 1 doc x "]),
])
def test_faults(what, rows):
    found = faults("\n".join(r.replace(" ", "\t") for r in rows))
    assert len(found) == 1 and found[0].startswith(what + ": ")


def test_recipe():
    with open(os.path.join(ROOT, "src", "rebuild", "recipes", "horovod-0.28.1.json")) as f:
        recipe = json.load(f)
    assert recipe_faults(recipe) == []
    assert all(isinstance(o["times"], int) for o in recipe["edits"])
    assert recipe_faults(dict(recipe, env=[{"name": "A"}])) == ["env"]
    for when in ("torch>>1", "!torch>1", "torch>", "torch >= 1"):
        assert recipe_faults(dict(recipe, bad=[{"when": when, "why": "", "instead": ""}])) == [when]
