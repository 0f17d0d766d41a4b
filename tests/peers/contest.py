#!/usr/bin/env python3
# contest.py - ringup beside Open MPI, MPICH, Gloo and Horovod, by turns on the same processors.
# SPDX-License-Identifier: Apache-2.0
"""Measures a collective of ringup and of its peers in one run.

    tests/peers/contest.py allreduce -np 4 --sizes 8,2K,512K,64M --peer openmpi,mpich

All contenders start at the same time and stay until the end. They wait in read(2) until it is
their turn: a block of 3 to 16 samples, after calls for 5 ms that do not count. Turns alternate,
and who begins a turn changes. RATIO is how many times longer the peer takes: the median, over all
turns, of its block's median divided by that of ringup. How long a cache line takes between the
first and the last processor is probed around each block: below 100 ns is near, else far, and
turns of both are reported apart. Built by `make check`: the rank, tests/peers/player.
"""

import argparse
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SINGLE_BYTES, REST_BYTES = 256 << 10, 16 << 20
BLOCK_US, WARM_US, LEAST_BLOCK, MOST_BLOCK, MOST_TURNS = 40000, 5000, 3, 16, 100
START_S, ANSWER_S, LEAVE_S, LEAST_CALLS, NEAR_NS = 90, 300, 15, 8, 100
TUNED = ["--mca", "btl_vader_single_copy_mechanism", "none", "-x", "MALLOC_TOP_PAD_=268435456",
         "-x", "MALLOC_TRIM_THRESHOLD_=4294967296", "-x", "MALLOC_MMAP_THRESHOLD_=4294967296"]


class Failed(Exception):
    """The contest is over."""


class Cannot(Exception):
    """A contender has no such collective, or is not on this machine."""


def clamp(x, least, most):
    return int(min(max(x, least), most))


def bind(pid, n):
    """All threads of a process, later ones too, to the n-th processor that may be used."""
    cpus = sorted(os.sched_getaffinity(0))
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {cpus[n % len(cpus)]})


class Rank:
    """The connection of one rank of a contender."""

    def __init__(self, connection):
        self.connection, self.text = connection, b""
        self.pid, uid, _ = struct.unpack("3i", connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid != os.getuid():
            raise Failed("another user has connected")

    def read(self):
        """What has come; the line, if it is complete."""
        try:
            more = self.connection.recv(65536)
        except ConnectionResetError:
            more = b""
        if not more:
            raise Failed("it has ended")
        self.text += more
        if not self.text.endswith(b"\n"):
            return None
        line, self.text = self.text.decode().rstrip("\n"), b""
        return line


def hear(ranks):
    """A line of each; the first rank that has ended is named, for its end makes others fail."""
    poll, answers = select.poll(), {}
    by_fd = {rank.connection.fileno(): number for number, rank in ranks.items()}
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    while len(answers) < len(ranks):
        ready = poll.poll(ANSWER_S * 1000)
        if not ready:
            raise Failed(f"no answer in {ANSWER_S} s")
        for fd, _ in ready:
            try:
                line = ranks[by_fd[fd]].read()
            except Failed as why:
                raise Failed(f"rank {by_fd[fd]}: {why}") from None
            if line is not None:
                answers[by_fd[fd]] = line
                poll.unregister(fd)
    return [line for _, line in sorted(answers.items())]


class Contender:
    """The processes of ringup, or of a peer."""

    def __init__(self, name, ranks, pin):
        self.name, self.size, self.pin = name, ranks, pin
        self.ranks, self.about, self.job = {}, "", None

    def start(self, words, door):
        try:
            self.job = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sys.stderr,
                                        start_new_session=True)
        except OSError as why:
            raise Failed(f"{self.name}: {words[0]}: {why.strerror}") from None
        end = time.monotonic() + START_S
        while len(self.ranks) < self.size:
            try:
                rank = Rank(door.accept()[0])
            except TimeoutError:
                if self.job.poll() is not None:
                    raise Failed(f"{self.name}: ended before its ranks came") from None
                if time.monotonic() > end:
                    raise Failed(f"{self.name}: {len(self.ranks)} of {self.size} ranks came "
                                 f"in {START_S} s") from None
                continue
            _, number, size, about = hear({0: rank})[0].split(" ", 3)
            if int(size) != self.size or int(number) in self.ranks:
                raise Failed(f"{self.name}: rank {number} of {size}, not {self.size}")
            self.ranks[int(number)] = rank
            if number == "0":
                self.about = about
            if self.pin:
                bind(rank.pid, int(number))

    def order(self, line):
        for number, rank in sorted(self.ranks.items()):
            try:
                rank.connection.sendall(line.encode() + b"\n")
            except OSError:
                raise Failed(f"{self.name}: rank {number}: it has ended") from None
        try:
            return hear(self.ranks)
        except Failed as why:
            raise Failed(f"{self.name}: {why}") from None

    def play(self, task, warm, samples, calls):
        """Microseconds of each sample, of the slowest rank, and how many elements are wrong."""
        times, wrong = [0.0] * samples, 0
        for number, answer in enumerate(self.order(task.order(warm, samples, calls))):
            kind, _, words = answer.partition(" ")
            if kind == "no":
                raise Cannot(words)
            if kind != "ok":
                raise Failed(f"{self.name}: rank {number}: {words}")
            seen = words.split()
            wrong = -1 if wrong < 0 or int(seen[0]) < 0 else wrong + int(seen[0])
            times = [max(a, float(b)) for a, b in zip(times, seen[1:], strict=True)]
        return times, wrong

    def end(self):
        for rank in self.ranks.values():
            rank.connection.close()
        if not self.job:
            return
        for seconds, number in ((LEAVE_S, signal.SIGTERM), (3, signal.SIGKILL)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.job.wait(seconds if self.ranks else 0)
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.job.pid, number)
        self.job.wait()


class Desk:
    """The program that knows the tasks' sizes and probes the processors."""

    def __init__(self, program, ranks):
        self.program = subprocess.Popen([program, "desk", str(ranks)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.program.stdin.write(line + "\n")
        self.program.stdin.flush()
        return self.program.stdout.readline().split()

    def place(self):
        ns = float(self.ask("probe")[0])
        return ns, "-" if ns < 0 else "near" if ns < NEAR_NS else "far"

    def end(self):
        self.program.stdin.close()
        self.program.wait()
        self.program.stdout.close()


class Task:
    """A collective of one size."""

    def __init__(self, args, desk, size, in_place):
        self.args, self.in_place = args, in_place
        answer = desk.ask(f"task {args.collective} {args.dtype} {in_place:d} {args.uneven:d} "
                          f"{args.members} {size}")
        if len(answer) != 3:
            raise Failed(f"{args.collective} {args.dtype}: no such task")
        self.bytes, self.count, self.counts = int(answer[0]), int(answer[1]), answer[2]

    def order(self, warm, samples, calls):
        a = self.args
        return (f"do {a.collective} {a.dtype} {a.op} {self.in_place:d} {a.uneven:d} {a.members} "
                f"{warm} {samples} {calls} {a.check:d} {self.counts}")


def both(one, other):
    return other if one == "-" else one if other in ("-", one) else "mixed"


class Contest:
    """All turns of one task."""

    def __init__(self, args, contenders, desk, task):
        self.args, self.desk, self.task = args, desk, task
        self.sample_us = 50000 if args.hog else 200
        self.out, self.calls, self.us = {}, {}, {}
        self.wrong = dict.fromkeys(contenders, 0)
        for c in contenders:
            self.calibrate(c)
        self.players = [c for c in contenders if c not in self.out]

    def block(self, c, warm, samples, calls):
        times, wrong = c.play(self.task, warm, samples, calls)
        if self.task.bytes >= REST_BYTES and len(self.wrong) > 1:
            c.order("rest")
        self.wrong[c] = -1 if wrong < 0 or self.wrong[c] < 0 else self.wrong[c] + wrong
        return times

    def calibrate(self, c):
        """How many calls are a sample: rows grow until they take the wanted time."""
        short, calls, least = self.task.bytes < SINGLE_BYTES, 1, 1.0
        try:
            for tries in range(6):
                least = max(0.01, min(self.block(c, 1, 3 if short else 1, calls)))
                room = BLOCK_US / LEAST_BLOCK / least
                want = clamp(max(self.sample_us / least, min(room, LEAST_CALLS)), 1,
                             self.sample_us * 5) if short else 1
                if (tries or not short) and want <= 2 * calls and calls <= 2 * want:
                    break
                calls = clamp(want, 1, 16 * calls)
        except Cannot as why:
            if c.name == "ringup":
                raise Failed(f"ringup: {why}") from None
            self.out[c] = True
            print(f"{self.args.collective}: {c.name} is left out: {why}", file=sys.stderr)
        self.calls[c], self.us[c] = calls, least * calls

    def warm(self, c):
        return clamp(WARM_US / self.us[c], 1, 1 << 30)

    def plan(self):
        us = [self.us[c] for c in self.players]
        warm = sum(self.warm(c) * self.us[c] for c in self.players)
        samples = clamp(BLOCK_US / max(us), LEAST_BLOCK, MOST_BLOCK)
        turns = clamp(self.args.seconds * 1e6 / (2 * sum(us) * samples + warm), 3, MOST_TURNS)
        if self.args.iterations:
            samples = clamp(self.args.iterations, 1, MOST_BLOCK)
            turns = -(-self.args.iterations // samples)
        return samples, turns

    def turn(self, number, samples):
        hop, place = self.desk.place()
        times = {}
        for i in range(len(self.players)):
            c = self.players[(i + number) % len(self.players)]
            times[c] = self.block(c, self.warm(c), samples, self.calls[c])
            place = both(place, self.desk.place()[1])
        return hop, place, times

    def run(self):
        """The results, near before far; places of few turns only if there are no others."""
        samples, count = self.plan()
        begun, turns = time.monotonic(), []
        while len(turns) < count:
            turns.append(self.turn(len(turns), samples))
            late = time.monotonic() - begun > 2 * self.args.seconds
            if not self.args.iterations and len(turns) >= 3 and late:
                break
        found = [(p, [t for t in turns if t[1] == p]) for p in ("near", "far")]
        found = [(p, some) for p, some in found if 5 * len(some) >= len(turns)]
        if not found:
            alone = all(t[1] == "-" for t in turns)
            found = [("-" if alone else "mixed", turns)]
        return [self.result(place, some) for place, some in found]

    def result(self, place, turns):
        hops = [hop for hop, _, _ in turns if hop >= 0]
        ours = self.score(self.players[0], turns)
        a, t = self.args, self.task
        combines = a.collective not in ("broadcast", "allgather", "alltoall", "barrier")
        return {"collective": a.collective,
                "dtype": "none" if a.collective == "barrier" else a.dtype,
                "op": a.op if combines else "none", "in_place": t.in_place,
                "uneven": a.uneven, "members": a.members, "alloc": a.alloc,
                "bytes": t.bytes, "count": t.count, "ranks": a.ranks,
                "place": None if place == "-" else place,
                "hop_ns": statistics.median(hops) if hops else None, **ours,
                "peers": [{"name": c.name, **self.ratios(c, turns), **self.score(c, turns)}
                          for c in self.players[1:]]}

    def score(self, c, turns):
        us = [x for _, _, times in turns for x in times[c]]
        return {"us": statistics.median(us), "min_us": min(us), "max_us": max(us),
                "samples": len(us), "calls": self.calls[c],
                "wrong": self.wrong[c] if self.args.check and self.wrong[c] >= 0 else None}

    def ratios(self, c, turns):
        first = self.players[0]
        ratios = [statistics.median(t[c]) / statistics.median(t[first]) for _, _, t in turns]
        low, middle, high = (statistics.quantiles(ratios, n=4, method="inclusive")
                             if len(ratios) > 1 else ratios * 3)
        return {"ratio": middle, "ratio_low": low, "ratio_high": high}


class Stand:
    """Where the contenders come from, and the socket that they connect to."""

    def __init__(self, args):
        self.args = args
        self.ringup = shutil.which(args.ringup) or args.ringup
        build = os.path.dirname(os.path.abspath(self.ringup))
        self.build, self.player = build, os.path.join(build, "tests", "peers", "player")
        if not os.access(self.player, os.X_OK):
            raise Failed(f"{self.player} is not there; `make check` builds it")
        self.dir = tempfile.mkdtemp(prefix="ringup-bench.")
        self.path = os.path.join(self.dir, "door")
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(self.path)
        self.door.listen(1024)
        self.door.settimeout(0.1)
        self.under = [args.under] if args.under else []

    def close(self):
        self.door.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, *exports):
        return [self.ringup, "run", f"--ranks={self.args.ranks}", "--no-prefix",
                *(f"--export={e}" for e in exports), "--", *self.under]

    def torch(self, kind):
        return [self.args.python, os.path.join(HERE, "peer_torch.py"), kind, self.path]

    def ours(self):
        named = [f"RINGUP_BACKEND={self.args.backend}"] if self.args.backend else []
        if self.args.level == "torch":
            source = os.path.join(self.build, "share", "ringup", "compat", "python")
            path = ":".join(filter(None, [source, os.environ.get("PYTHONPATH")]))
            library = os.environ.get("RINGUP_LIBRARY") or os.path.join(
                self.build, ".libs", "libringup.so.0")
            return [*self.run(*named, f"PYTHONPATH={path}", f"RINGUP_LIBRARY={library}"),
                    *self.torch("horovod")]
        alloc = ["alloc"] if self.args.alloc else []
        return [*self.run(*named), self.player, "join", self.path, self.args.groups, *alloc]

    def mpi(self, name, kind, mark, *options):
        def answers(program, option, text):
            try:
                out = subprocess.run([program, option], capture_output=True, text=True, timeout=60)
            except (OSError, subprocess.TimeoutExpired):
                return False
            return text in out.stdout + out.stderr if text else out.returncode == 0

        def find(name, option, text):
            return next((p for p in (f"{name}.{kind}", name) if answers(p, option, text)), "")

        mpirun, mpicc = find("mpirun", "--version", mark), find("mpicc", "-show", "")
        for found, what in ((mpirun, "mpirun"), (mpicc, "mpicc")):
            if not found:
                raise Cannot(f"{name} is not here: no {what}.{kind}")
        program = os.path.join(self.dir, kind)
        if not os.path.exists(program):
            made = subprocess.run([mpicc, "-O2", "-o", program, os.path.join(HERE, "peer_mpi.c"),
                                   "-lm"], check=False)
            if made.returncode:
                raise Cannot(f"{mpicc} does not compile peer_mpi.c")
        return [mpirun, *options, "-np", str(self.args.ranks)], [program, self.path]

    def openmpi(self, *more):
        root = [] if os.geteuid() else ["--allow-run-as-root"]
        first, last = self.mpi("Open MPI", "openmpi", "Open", *root, "--oversubscribe",
                               "--bind-to", "none")
        return [*first, *more, *last]

    def mpich(self):
        first, last = self.mpi("MPICH", "mpich", "HYDRA")
        return [*first, *last]

    def need(self, module):
        words = [self.args.python, "-c", f"import {module}"]
        try:
            if subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 0:
                return
        except (OSError, subprocess.TimeoutExpired):
            pass
        raise Cannot(f"{self.args.python} cannot import {module}")

    def gloo(self):
        self.need("torch")
        return [*self.run("GLOO_SOCKET_IFNAME=lo"), *self.torch("gloo")]

    def horovod(self):
        self.need("horovod.torch.mpi_lib_v2")  # ringup's package has no C extension of that name
        return [self.args.python, "-m", "horovod.runner.launch", "--gloo", "-np",
                str(self.args.ranks), *self.torch("horovod")]

    def peer(self, name):
        known = {"openmpi": self.openmpi, "openmpi-tuned": lambda: self.openmpi(*TUNED),
                 "mpich": self.mpich, "gloo": self.gloo, "horovod": self.horovod}
        if name not in known:
            raise Failed(f"--peer={name}: none of {' '.join(known)}")
        return known[name]()


def size_of(word):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(word[:-1]) * units[word[-1]] if word[-1] in units else int(word)


def sizes_of(text):
    sizes = []
    for word in text.split(","):
        parts = [size_of(part) for part in word.split(":")]
        least, most, factor = (parts + [parts[-1] if len(parts) == 1 else 2])[:3] \
            if len(parts) > 1 else (parts[0], parts[0], 2)
        while least <= most:
            sizes.append(least)
            least *= factor
    return sizes


def show(args, row):
    if args.json:
        print(json.dumps(row, separators=(",", ":")), flush=True)
        return
    words = f"{row['bytes']:>10} {row['place'] or '-':>5} {row['us']:>10.3f}"
    for p in row["peers"]:
        words += f"  {p['name']} {p['us']:.3f} "
        words += f"WRONG {p['wrong']}" if p["wrong"] else \
            f"{p['ratio']:.2f} ({p['ratio_low']:.2f}-{p['ratio_high']:.2f})"
    print(words, flush=True)


def hogs(count, of):
    for i in range(count):
        hog = subprocess.Popen([sys.executable, "-c", "while True: pass", of])
        bind(hog.pid, -1 - i)
        yield hog


def hold(args, stand, at_end):
    contenders = [Contender("ringup", args.ranks, args.pin)]
    at_end.callback(contenders[0].end)
    contenders[0].start(stand.ours(), stand.door)
    for name in filter(None, args.peer.split(",")):
        try:
            words = stand.peer(name)
        except Cannot as why:
            if "," not in args.peer:
                raise Failed(str(why)) from None
            print(f"{name} is left out: {why}", file=sys.stderr)
            continue
        contenders.append(Contender(name, args.ranks, args.pin))
        at_end.callback(contenders[-1].end)
        contenders[-1].start(words, stand.door)
    for hog in hogs(args.hog, stand.dir):
        at_end.callback(hog.wait)
        at_end.callback(hog.kill)
    backend, nodes = (contenders[0].about.split() + ["", ""])[:2]
    desk = Desk(stand.player, args.ranks)
    at_end.callback(desk.end)
    if not args.json:
        print(f"{args.collective}, {args.ranks} ranks, " +
              "; ".join(f"{c.name}: {c.about}" for c in contenders), flush=True)
    wrong = silent = False
    places = {"no": [False], "yes": [True], "both": [False, True]}[args.in_place]
    if args.collective in ("resnet50", "bert", "barrier"):
        args.sizes, places = [0], [args.collective != "barrier"]
    for size in args.sizes:
        for in_place in places:
            for row in Contest(args, contenders, desk, Task(args, desk, size, in_place)).run():
                row.update(backend=backend, nodes=int(nodes) if nodes.isdigit() else 1)
                if args.check and row["wrong"] is None and not silent:
                    silent = True
                    print("--check: --level=torch compares sums of f32 only; of this nothing was "
                          "compared", file=sys.stderr)
                wrong |= bool(row["wrong"]) or any(p["wrong"] for p in row["peers"])
                show(args, row)
    return 1 if wrong else 0


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("collective")
    p.add_argument("-n", "-np", "--np", "--ranks", dest="ranks", type=int, default=2)
    p.add_argument("-s", "--sizes", type=sizes_of, default="8,128,2K,32K,512K,8M,64M")
    p.add_argument("-d", "--dtype", default="f32")
    p.add_argument("-o", "--op", default="sum")
    p.add_argument("--in-place", choices=("no", "yes", "both"), default="no")
    p.add_argument("--uneven", action="store_true")
    p.add_argument("--members", type=int, default=1)
    p.add_argument("-g", "--groups", default="")
    p.add_argument("-a", "--alloc", action="store_true")
    p.add_argument("--backend")
    p.add_argument("-p", "--peer", default="")
    p.add_argument("--python", default=sys.executable, help="for peers that need one")
    p.add_argument("-l", "--level", choices=("c", "torch"), default="c")
    p.add_argument("-t", "--seconds", type=float, default=1)
    p.add_argument("-i", "--iterations", type=int, default=0)
    p.add_argument("-c", "--check", action="store_true")
    p.add_argument("--json", action="store_true")
    p.add_argument("-u", "--under", help="a program that starts each rank")
    p.add_argument("--hog", type=int, default=0, help="busy loops, each bound to a processor")
    p.add_argument("--pin", action="store_true", help="bind rank r to processor r")
    p.add_argument("--ringup", default="ringup", help="of a build tree (%(default)s)")
    return p.parse_args()


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        with contextlib.ExitStack() as at_end:
            stand = Stand(args)
            at_end.callback(stand.close)
            return hold(args, stand, at_end)
    except Failed as why:
        print(f"contest.py: {why}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
