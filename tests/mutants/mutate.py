#!/usr/bin/env python3
# mutate.py - put small bugs into C sources, one at a time, and tell which of them no test notices.
# SPDX-License-Identifier: Apache-2.0
"""
mutate.py [--count N] [--seed N] [--file FILE]... [--lately N] SOURCES BUILD
mutate.py --show FILE

Each mutant is one changed line of a C file of SOURCES/src.  BUILD is a folder in which SOURCES is
built; there the file is compiled and the tests that say that they cover it (see covering() in
tests/lib/affected.bash) are run in their short form, the nearest first, until one fails: the mutant
is killed.  Of scripts that name only the file's folder, a few quick ones are run, last.  What the
compiler refuses is drawn anew.  SOURCES is changed meanwhile, so it is a copy.

Without --file the files are those that the latest N commits (--lately) have changed in the
repository that RINGUP_TEST_SOURCES, or else SOURCES, is.  tests/mutants/equivalent lists mutants
that change nothing that could be seen.  Prints each mutant, then those that survive; the exit
status is 0 if nine of ten are killed.
"""

import argparse
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TEST_SECONDS, TEARDOWN_SECONDS = 120, 10
FOLDER_SCRIPTS, FOLDER_SECONDS = 4, 30
GOAL = 0.9


def code_of(text):
    """The text with comments, strings and characters blanked, so that positions stay."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def times_ten(number):
    return number + "0"


def swaps(code, pattern, new):
    """The code with each match of pattern, one at a time, replaced by new(match)."""
    for m in re.finditer(pattern, code):
        yield m.start(), m.end(), new(m)


# Name, pattern, and what takes its place.  Each works on a line of code.
OPERATORS = [
    # Nothing is seen of memory for ten where there is one.
    ("constant times ten", r"(?<![\w.\[-])(?<!calloc\()[1-9][0-9]*(?![\w.])", lambda m: times_ten(m.group())),
    ("< to <=", r"(?<=\s)<(?=\s)", lambda m: "<="),
    ("<= to <", r"(?<=\s)<=(?=\s)", lambda m: "<"),
    ("> to >=", r"(?<=\s)>(?=\s)", lambda m: ">="),
    (">= to >", r"(?<=\s)>=(?=\s)", lambda m: ">"),
    ("== to !=", r"(?<=\s)==(?=\s)", lambda m: "!="),
    ("!= to ==", r"(?<=\s)!=(?=\s)", lambda m: "=="),
    ("&& to ||", r"&&", lambda m: "||"),
    ("|| to &&", r"\|\|", lambda m: "&&"),
    ("no !", r"(?<=[(\s])!(?=[\w(])", lambda m: ""),
    ("+ 1 to + 0", r"\+ 1\b(?!\s*<<)", lambda m: "+ 0"),
    ("- 1 to - 0", r"(?<=\w )- 1\b|(?<=\) )- 1\b", lambda m: "- 0"),
    ("one less in an array", r"(?<=\[)[A-Z][A-Z0-9_]+(?=\];)", lambda m: m.group() + " - 1"),
    # That memory is not freed is seen in build asan alone.
    ("statement dropped", r"^\t+(?!free\()[a-z_]+\(.*\);$",
     lambda m: re.match(r"\t+", m.group()).group() + ";"),
    ("assignment dropped", r"^\t+[\w.>\[\]-]+ [|&+-]?= [^=].*;$",
     lambda m: re.match(r"\t+", m.group()).group() + ";"),
    ("failure forgotten", r"(?<=\treturn )rc(?=;)", lambda m: "0"),
]
# Lines that say nothing to a test: preprocessor, assertions, what is for a person who debugs.
SKIPPED = re.compile(r"^\s*(#|_Static_assert|case |log_|\}|/\*|\*)|MAGIC")


def mutants_of(path):
    """All (line number, operator, old line, new line) of a file."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    lines, code = text.split("\n"), code_of(text).split("\n")
    for i, line in enumerate(lines):
        if SKIPPED.search(code[i]) or not code[i].strip():
            continue
        for name, pattern, new in OPERATORS:
            for start, end, put in swaps(code[i], pattern, new):
                # What was blanked within a statement is part of it.
                changed = line[:start] + put + line[end:]
                if changed != line:
                    yield i, name, line, changed


def files_changed_lately(repository, commits):
    """C files of src that the latest commits have changed and that are still there."""
    out = subprocess.run(
        ["git", "-C", repository, "log", f"-{commits}", "--format=", "--name-only", "--", "src"],
        capture_output=True, text=True, check=True).stdout
    names = dict.fromkeys(n for n in out.split() if n.endswith(".c"))
    return [n for n in names if os.path.exists(os.path.join(repository, n))]


def run_session(argv, cwd, place, out, seconds):
    """Runs a command in a session and with temporary files of its own; its status, None if late."""
    env = {**os.environ, "TMPDIR": place, "MUTANT_PLACE": place}
    with subprocess.Popen(argv, cwd=cwd, env=env, stdout=out,
                          stderr=subprocess.STDOUT, start_new_session=True) as p:
        try:
            return p.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if p.poll() is None:
                end_session(p, place)


def end_session(p, place):
    """Ends what a test has started, after time for what it does when it is torn down."""
    # A shell tears down only after the program for which it waits, which may be in another group.
    for pid in running(p.pid, place):
        send(pid, signal.SIGTERM)
    until, quiet = time.monotonic() + TEARDOWN_SECONDS, 0
    # One that begins while the list is read may be missed.
    while quiet < 3 and time.monotonic() < until:
        quiet = 0 if running(p.pid, place) else quiet + 1
        time.sleep(0.1)
    for pid in running(p.pid, place):
        send(pid, signal.SIGKILL)
    p.wait()


def send(pid, signum):
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        pass


def running(group, place):
    """Processes of the group, or with this place in their environment, that have not ended."""
    mark, found = f"MUTANT_PLACE={place}".encode(), []
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            with open(f"{folder}/stat", encoding="utf-8", errors="replace") as f:
                state, _, its_group = f.read().rpartition(")")[2].split()[:3]
            with open(f"{folder}/environ", "rb") as f:
                is_marked = mark in f.read().split(b"\0")
        except OSError:
            continue
        if state not in "ZX" and (int(its_group) == group or is_marked):
            found.append(int(folder.rpartition("/")[2]))
    return found


class Tree:
    """A copy of the sources and its build, in which one mutant at a time is tried."""

    def __init__(self, sources, build):
        self.sources, self.build = sources, build
        self.make = ["make", "-s", "-j", str(os.cpu_count() or 1)]
        tests, self.helpers = (
            subprocess.run(self.make + [target], cwd=build, capture_output=True, text=True,
                           check=True).stdout.splitlines()
            for target in ("list-tests", "list-programs"))
        self.gate = {line.split()[2] for line in tests if line.startswith("gate gcc ")}
        self.limit = {}  # of each test the seconds that it may take; 0: it is not asked

    def tests_for(self, name):
        """Programs that cover the file, and scripts that name it; the nearest first."""
        script = 'here=$1; . "$1/tests/lib/affected.bash"; covering "$2"'
        out = subprocess.run(["bash", "-c", script, "_", self.sources, name], capture_output=True,
                             text=True, check=True).stdout
        near = [line.split() for line in out.splitlines() if line.split()[1] in self.gate]
        last = [test for how, test in near if how == "folder" and re.search(r"\.(bats|py)$", test)]
        first = [test for _, test in near if test not in last]
        # Those that build clusters or wait for faults to be noticed take minutes; a script that is
        # called as the folder is nearer than others.
        folder = os.path.basename(os.path.dirname(name))
        last = [t for t in last if re.search(r"tests/(cli|py)/", t)]
        last = sorted(last, key=lambda t: folder not in os.path.basename(t))[:FOLDER_SCRIPTS]
        return [test for test in first if self.is_sound(test)] + [
            test for test in last if self.is_sound(
                test, TEST_SECONDS if folder in os.path.basename(test) else FOLDER_SECONDS)]

    def is_sound(self, test, seconds=TEST_SECONDS):
        """Does the test pass without a bug?  One that does not would kill each mutant."""
        if test not in self.limit:
            good = self.compile([test])
            begun = time.monotonic()
            good = good and self.passes(test, seconds)
            took = time.monotonic() - begun
            self.limit[test] = 20 + 3 * took if good else 0
            if not good:
                why = f"takes longer than {seconds} s" if took >= seconds else "fails"
                print(f"# {test} {why} on its own and is not asked", flush=True)
        return self.limit[test] > 0

    def compile(self, tests):
        """Builds what these tests need; False if the compiler refuses."""
        scripts = [t for t in tests if re.search(r"\.(bats|py)$", t)]
        targets = ["all-am"] * bool(scripts) + [t for t in tests if t not in scripts]
        for script in scripts:
            targets += [t for t in self.started_by(script) if t not in targets]
        return subprocess.run(self.make + targets, cwd=self.build, capture_output=True,
                              check=False).returncode == 0

    def started_by(self, script):
        """Targets for the programs of tests/ that this script, or what it loads, names."""
        words = set()
        place = os.path.join(self.sources, "tests")
        for path in [os.path.join(self.sources, script), *glob.glob(f"{place}/lib/*.bash")]:
            with open(path, encoding="utf-8") as f:
                words.update(re.findall(r"\w+", f.read()))
        named = [p for p in self.helpers if os.path.splitext(os.path.basename(p))[0] in words]
        return named + ["fakes"] * ("fakegpu" in words)

    def passes(self, test, seconds):
        """Runs a test as the gate does; False if it fails or takes too long."""
        command = f"./{test}"
        if test.endswith(".bats"):
            command = f'bats --tap "$srcdir/{test}"'
        elif test.endswith(".py"):
            command = f'"$srcdir/tests/py/run" "$srcdir/{test}"'
        command = f". tests/environment; unset RINGUP_TEST_LONG; exec {command}"
        # Whatever a test leaves behind is removed with the folder; short, since sockets have names.
        place = tempfile.mkdtemp(prefix="m-")
        try:
            with tempfile.TemporaryFile("w+", errors="replace") as out:
                status = run_session(["bash", "-c", command], self.build, place, out, seconds)
                out.seek(0)
                return status == 0 and not re.search(r"^not ok", out.read(), re.M)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def killer(self, tests):
        """The first test that fails, or None."""
        return next((t for t in tests if not self.passes(t, self.limit[t])), None)


def try_mutant(tree, name, mutant, tests):
    """The test that kills it, None if it survives, False if the compiler refuses it."""
    i, _, _, new = mutant
    path = os.path.join(tree.sources, name)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    lines = text.split("\n")
    lines[i] = new
    try:
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
        return tree.killer(tests) if tree.compile(tests) else False
    finally:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def equivalents(sources):
    """Those that tests/mutants/equivalent lists, as (file, old, new)."""
    with open(os.path.join(sources, "tests/mutants/equivalent"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if line.strip() and line[0] != "#"]
    return {tuple(row[:3]) for row in rows}


def draw(tree, files, count, seed):
    """Tries mutants, by turns of the files, until so many have compiled; yields each."""
    known, chance = equivalents(tree.sources), random.Random(seed)
    pools = {}
    for name in files:
        pool = list(mutants_of(os.path.join(tree.sources, name)))
        chance.shuffle(pool)
        # An operator is drawn first, so that rare ones have their turn.
        pools[name] = sorted(pool, key=lambda m: (sum(m[1] == o[1] for o in pool[:pool.index(m)])))
    tests = {}
    while count and pools:
        for name in list(pools):
            if not count:
                return
            tests[name] = tests.get(name) or tree.tests_for(name)
            if not pools[name] or not tests[name]:
                del pools[name]
                continue
            mutant = pools[name].pop(0)
            if (name, mutant[2].strip(), mutant[3].strip()) in known:
                continue
            by = try_mutant(tree, name, mutant, tests[name])
            if by is not False:
                count -= 1
                yield name, mutant, by, len(tests[name])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--lately", type=int, default=60)
    parser.add_argument("--file", action="append")
    parser.add_argument("--show")
    parser.add_argument("place", nargs="*")
    a = parser.parse_args()
    if a.show:
        for i, name, _, new in mutants_of(a.show):
            print(f"{i + 1}: {name}: {new.strip()}")
        return 0
    if len(a.place) != 2:
        parser.error("SOURCES and BUILD, please")
    # Also when told to end the mutant is taken out again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sources, build = map(os.path.abspath, a.place)
    repository = os.environ.get("RINGUP_TEST_SOURCES") or sources
    files = a.file or files_changed_lately(repository, a.lately)
    tree = Tree(sources, build)
    survivors, tried = [], 0
    random.Random(a.seed).shuffle(files)
    for name, (i, what, old, new), by, tests in draw(tree, files, a.count, a.seed):
        tried += 1
        where = f"{name}:{i + 1}: {what}"
        print(f"# {tried} {where}: " + (f"killed by {by}" if by else f"survives {tests} tests"),
              flush=True)
        if not by:
            survivors.append(f"# survives: {where}\n#   {old.strip()}\n#   {new.strip()}")
    print(*survivors, sep="\n")
    killed = tried - len(survivors)
    print(f"# {killed} of {tried} killed, seed {a.seed}")
    return 0 if tried and killed >= GOAL * tried else 1


if __name__ == "__main__":
    sys.exit(main())
