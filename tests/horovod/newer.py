#!/usr/bin/env python3
# newer.py - Horovod's own tests with TensorFlow 2.21, on ringup and on Horovod, counted apart.
# SPDX-License-Identifier: Apache-2.0
"""Horovod 0.28.1 was not made for TensorFlow 2.21 and Keras 3, nor were its tests.  This runs them
there on both sides, and writes down how each test ends.

    RINGUP_TEST_HOROVOD_221=/path/to/python tests/horovod/newer.py --work FOLDER [FILE...]

RINGUP_TEST_HOROVOD_221 is a Python with TensorFlow 2.21 for which Horovod was built, by
`ringup rebuild --engine horovod`.  That build's compiled library is taken and the Python files of
the release 0.28.1 beside it, as they are: what the build mends for Keras 3 is left out.
RINGUP_TEST_TENSORFLOW_221 is a Python with TensorFlow 2.21 for ringup; the rest is as for ask.py.
tests/horovod/tensorflow-2.21.tsv gets the outcomes, and docs/HOROVOD-TESTS.md what follows.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
FOUND = os.path.join(HERE, "tensorflow-2.21.tsv")

INTRODUCTION = """Horovod 0.28.1 and its tests do not support TensorFlow 2.16 and later. We ran the
tests nevertheless with TensorFlow 2.21 and Keras 3, on 2 ranks: once with ringup, and once with
Horovod's own Python files and a Horovod library that we compiled for this TensorFlow.
`tests/horovod/newer.py` runs the tests, and `tests/horovod/tensorflow-2.21.tsv` has each outcome.
One test fails with both because NumPy 2 rounds a float16 to 0. All others that fail with both use
functions that Keras 3 removed."""

AVERAGING = """With Keras 3, Horovod does not average gradients and prints no warning. A check in
`tests/py/keras_fit_of_a_rank.py` shows this. Each rank trains on six batches of its own data. The
check then compares the weights with those of a single process that trained on all batches:"""

COMMAND = """    export RINGUP_TEST_KERAS=tf RINGUP_TEST_RESULTS=$(mktemp -d)
    PYTHONPATH=HOROVOD:tests/py python -m horovod.runner.launch --gloo -np 2 \\
      python tests/py/keras_fit_of_a_rank.py weights_are_those_of_one_process"""

SEEN = """In this command, HOROVOD is the folder that contains the package `horovod`. `newer.py
--work FOLDER` creates such a folder, `FOLDER/released`. With Horovod, TensorFlow 2.21 and Keras
3.15, the check fails for SGD, the first optimizer that it tries: all 15 weights of the first layer
differ, by up to 0.02 (2026-11-27). The check passes with Horovod on TensorFlow 2.15, with Horovod
as built by `ringup rebuild --engine horovod`, and with ringup."""


# -- the page -----------------------------------------------------------------------------------

def read():
    """{(file, test, ranks): (outcome on ringup, outcome on Horovod, why it is none there)}"""
    rows = collections.OrderedDict()
    if os.path.exists(FOUND):
        with open(FOUND, encoding="utf-8") as f:
            for line in f:
                if not line.startswith("#"):
                    cells = (line.rstrip("\n").split("\t") + [""])[:6]
                    rows[tuple(cells[:3])] = tuple(cells[3:])
    return rows


def write(rows):
    """The reverse of read()."""
    with open(FOUND, "w", encoding="utf-8") as f:
        f.write("# tensorflow-2.21.tsv - Horovod's tests with TensorFlow 2.21: file, test, ranks, "
                "on ringup, on Horovod, why it does not pass.\n"
                "# SPDX-License-Identifier: Apache-2.0\n# Written by newer.py.\n")
        for key, row in rows.items():
            f.write("\t".join(key + row).rstrip("\t") + "\n")


def kind(here, there):
    """The column in which a test is counted."""
    if "passed" not in (here, there):
        return "skipped" if here == there == "skipped" else "neither"
    return "both" if here == there else "ringup" if here == "passed" else "Horovod"


def section():
    """Lines of docs/HOROVOD-TESTS.md."""
    rows, counts, total = read(), collections.OrderedDict(), collections.Counter()
    kinds = ("both", "ringup", "Horovod", "neither", "skipped")
    out = ["## Results with TensorFlow 2.21", "", *filled(INTRODUCTION), "",
           "| file | pass on both | pass on ringup only | pass on Horovod only | fail on both | "
           "skipped on both |",
           "|---|--:|--:|--:|--:|--:|"]
    for (file, _test, _ranks), (here, there, _why) in rows.items():
        counts.setdefault(file, collections.Counter())[kind(here, there)] += 1
    for file, c in counts.items():
        total.update(c)
        out.append(f"| {file} | " + " | ".join(str(c[k] or "") for k in kinds) + " |")
    out += ["| all | " + " | ".join(str(total[k] or "") for k in kinds) + " |", ""]
    for wanted, title in (("ringup", "Tests that pass on ringup only, with Horovod's message"),
                          ("Horovod", "Tests that pass on Horovod only, with ringup's message"),
                          ("neither", "Tests that fail on both, with their message")):
        why = collections.OrderedDict()
        for (_file, test, _ranks), (here, there, reason) in rows.items():
            if kind(here, there) == wanted:
                names = why.setdefault(reason, [])
                names += [] if test in names else [test]
        out += [f"{title}:", ""] if why else []
        for reason, names in why.items():
            out += textwrap.wrap(f"- {reason}: {', '.join(f'`{n}`' for n in names)}", 120,
                                 subsequent_indent="  ", break_on_hyphens=False)
        out += [""] if why else []
    return [*out, *filled(AVERAGING), "", *COMMAND.split("\n"), "", *filled(SEEN), ""]


def filled(text):
    """Lines of a paragraph."""
    return textwrap.wrap(" ".join(text.split()), 120, break_on_hyphens=False,
                         break_long_words=False)


# -- running them -------------------------------------------------------------------------------

def released(work, source, python):
    """A folder with the package of the release, and the library that was compiled for a Python."""
    asked = subprocess.run([python, "-c", "import horovod; print(horovod.__path__[0])"],
                           capture_output=True, text=True, check=True)
    built, folder = asked.stdout.strip(), os.path.join(work, "released")
    package = os.path.join(folder, "horovod")
    if not os.path.exists(package):
        shutil.copytree(os.path.join(os.path.dirname(source), "horovod"), package)
        for name in os.listdir(os.path.join(built, "tensorflow")):
            if name.endswith(".so"):
                shutil.copy(os.path.join(built, "tensorflow", name),
                            os.path.join(package, "tensorflow"))
        shutil.copy(os.path.join(built, "metadata.json"), package)
    return folder


def on_horovod(ask, folder):
    """Asked for tests on the package in a folder."""

    class OnHorovod(ask.Asked):
        """The launcher is Horovod's, too."""

        def environment(self, results, start):
            env = super().environment(results, start)
            env["PYTHONPATH"] = os.pathsep.join([HERE, folder])
            return env

        def launch(self, start, results):
            """Without MPI it has no Adasum, and its tests of that may leave themselves out."""
            ask.AS_IF_MPI.clear()
            return super().launch(start, results)

        def launcher(self):
            return [self.python, "-m", "horovod.runner.launch", "--gloo", "--disable-cache",
                    "-np", str(self.ranks)]

    return OnHorovod


def outcome(found, name):
    """(outcome, why) of a test; a file that cannot be imported has none of its tests."""
    return found.get(name) or found.get("(import)") or ("failed", "it never came to this")


def innermost(why):
    """The last error that a failure tells of: TensorFlow begins with where it was."""
    errors = re.findall(r"^E\s+(\w+(?:Error|Exception): \S.*)$", why, re.M)
    return errors[-1] if errors else why


def compare(ask, o):
    """Run what is asked for on both sides, and keep the outcomes."""
    work = os.path.abspath(o.work)
    here = ask.get_python(make(work, "ringup"), "RINGUP_TEST_TENSORFLOW_221", "tensorflow")
    there = ask.get_python(make(work, "horovod"), "RINGUP_TEST_HOROVOD_221", "tensorflow")
    source = ask.get_source(work)
    other = on_horovod(ask, released(work, source, os.environ["RINGUP_TEST_HOROVOD_221"]))
    rows, library = read(), os.environ.get("RINGUP_LIBRARY") or os.path.join(
        os.path.dirname(shutil.which("horovodrun")), ".libs", "libringup.so.0")
    for file in o.files or [f for f in ask.TENSORFLOW_FILES if f.startswith("parallel/")]:
        path, ranks = os.path.join(source, file), 2 if file.startswith("parallel/") else None
        mine = ask.Asked(file, ranks, o.only, path, here, library).run()
        theirs = other(file, ranks, o.only, path, there, library).run()
        for name in [n for n in {**mine, **theirs} if n != "(import)"] or ["(import)"]:
            (a, why_a), (b, why_b) = outcome(mine, name), outcome(theirs, name)
            why = why_b if a == "passed" else why_a
            rows[file, name, str(ranks or "-")] = a, b, ask.short(innermost(why))
            print(f"{file} {name}: {a} on ringup, {b} on Horovod", flush=True)
        write(rows)


def make(work, name):
    """A folder below the working folder."""
    path = os.path.join(work, name)
    os.makedirs(path, exist_ok=True)
    return path


def main():
    import ask

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("files", nargs="*", metavar="FILE", help="below Horovod's folder test")
    p.add_argument("--only", help="pytest's -k")
    p.add_argument("--work", required=True, help="where tests and Pythons are kept")
    o = p.parse_args()
    compare(ask, o)
    with open(ask.DOCUMENT, "w", encoding="utf-8") as f:
        f.write(ask.table(ask.read_expected()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
