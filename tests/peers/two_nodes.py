#!/usr/bin/env python3
# two_nodes.py - allreduce between two hosts: ringup, Open MPI, Gloo and plain sockets, in turn.
# SPDX-License-Identifier: Apache-2.0
"""Makes two network namespaces joined by a cable, runs each implementation there once a round
with two ranks a host, and prints medians of the rounds in us, and ratios.

    tests/peers/two_nodes.py --ringup build/ringup --sizes 8,64K,16M,64M --rounds 5

"Plain sockets" is what it takes to move the bytes that have to cross the cable, each way at
once, by as many processes, without adding anything up: of a vector of N bytes at least N each
way, N / ranks of it by each rank of a host.  Where each rank has a processor, an allreduce
should come close to that, as the sums hide behind the network.

Here both hosts share the processors of this machine, and sockets alone keep them busy: each
sum and each copy within a host takes time from them.  "Sockets, sums" is the bound for that
case: the same processes also copy and add what a host with several ranks has to (stream.c
says which), but never wait for each other and agree on nothing.  A goal of 85 % of what plain
sockets carry is to be read as 85 % of this where there are fewer processors than ranks.  Its
rounds follow each other, each process at its own pace, on input that nobody has touched since.
"The same, by calls" is measured as collectives are here: input is written anew, all begin
together, and a round has taken as long as its slowest process.

Needs root.  A peer that is not installed is left out, and said so.  Nothing stays behind.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
ADDRESS = ("10.9.0.1", "10.9.0.2")
CONNECTED = 1  # seconds after which all pairs of plain sockets are, and have touched their memory


def size_of(word):
    unit = UNITS.get(word[-1].upper(), 1)
    return int(word[:-1] if unit > 1 else word) * unit


def words_of(size):
    for letter, unit in reversed(UNITS.items()):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {letter}iB"
    return f"{size} B"


class Cable:
    """Two namespaces, gone when it is over."""

    def __init__(self, rate):
        self.hosts = [f"tn{os.getpid()}{letter}" for letter in "ab"]
        self.rate = rate

    def __enter__(self):
        for host in self.hosts:
            subprocess.run(["ip", "netns", "add", host], check=True)
        subprocess.run(["ip", "link", "add", "eth0", "netns", self.hosts[0], "type", "veth",
                        "peer", "name", "eth0", "netns", self.hosts[1]], check=True)
        for host, address in zip(self.hosts, ADDRESS):
            for words in (f"addr add {address}/24 dev eth0", "link set lo up",
                          "link set eth0 up"):
                subprocess.run(["ip", "-n", host, *words.split()], check=True)
            if self.rate:
                subprocess.run(["ip", "netns", "exec", host, "tc", "qdisc", "add", "dev", "eth0",
                                "root", "tbf", "rate", self.rate, "burst", "256kb", "latency",
                                "50ms"], check=True)
        for host in self.hosts:
            self.wait(host)
        return self

    @staticmethod
    def wait(host):
        """The kernel notices a carrier in its own time."""
        for _ in range(100):
            if "state UP" in subprocess.run(["ip", "-n", host, "link", "show", "eth0"], text=True,
                                            capture_output=True, check=True).stdout:
                return
            time.sleep(0.05)

    def __exit__(self, *_):
        for host in self.hosts:
            subprocess.run(["ip", "netns", "del", host], check=False)

    def inside(self, host, command):
        return ["ip", "netns", "exec", self.hosts[host], *command]


def together(commands, timeout):
    """Run all at once; the lines of JSON that they print."""
    running = []
    try:
        for command, env in commands:
            running.append(subprocess.Popen(command, env={**os.environ, **env}, text=True,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE))
        said = [p.communicate(timeout=timeout) for p in running]
    finally:
        for p in running:
            if p.poll() is None:
                p.kill()
                p.wait()
    for p, (_, err) in zip(running, said):
        if p.returncode:
            raise RuntimeError(f"{p.args}: status {p.returncode}: {err.strip()[-300:]}")
    return [json.loads(line) for out, _ in said for line in out.splitlines()
            if line.startswith("{")]


def ours(args, cable, scratch):
    meet = tempfile.mkdtemp(dir=scratch)
    ranks = 2 * args.per_host
    env = {"RINGUP_SIZE": str(ranks), "RINGUP_MEET": meet, "RINGUP_JOB": "two-nodes"}
    return [(cable.inside(rank // args.per_host,
                          [args.ringup, "bench", "allreduce", "--json", "--sizes",
                           ",".join(map(str, args.sizes))]),
             {**env, "RINGUP_RANK": str(rank)}) for rank in range(ranks)]


def mpi(args, cable, scratch):
    """mpirun in the first namespace, and an agent that stands for ssh to the second."""
    agent, program = os.path.join(scratch, "agent"), os.path.join(scratch, "mpi_allreduce")
    if not os.path.exists(program):
        subprocess.run(["mpicc", "-O2", "-o", program, os.path.join(HERE, "mpi_allreduce.c")],
                       check=True)
        with open(agent, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\nshift\nexec unshare -u ip netns exec "
                    f"{cable.hosts[1]} sh -c 'hostname two; exec sh -c \"$*\"' sh \"$@\"\n")
        os.chmod(agent, 0o700)
    run = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
           "--mca", "plm_rsh_agent", agent, "--mca", "btl_tcp_if_include", "eth0",
           "--mca", "oob_tcp_if_include", "eth0", "--mca", "pml", "ob1", *args.mpi_options,
           "--host", ",".join(f"{a}:{args.per_host}" for a in ADDRESS),
           "-np", str(2 * args.per_host), program, *map(str, args.sizes)]
    return [(["unshare", "-u", *cable.inside(0, ["sh", "-c", "hostname one; exec \"$@\"", "sh",
                                                 *run])], {})]


def gloo(args, cable, _scratch):
    ranks = 2 * args.per_host
    env = {"MASTER_ADDR": ADDRESS[0], "MASTER_PORT": "29511", "WORLD_SIZE": str(ranks),
           "GLOO_SOCKET_IFNAME": "eth0"}
    return [(cable.inside(rank // args.per_host,
                          [args.python, os.path.join(HERE, "gloo_allreduce.py"),
                           *map(str, args.sizes)]), {**env, "RANK": str(rank)})
            for rank in range(ranks)]


def plain(args, cable, scratch, size, *more):
    """Pairs of processes that swap @size bytes together; @more: words for stream.c."""
    program = os.path.join(scratch, "stream")
    if not os.path.exists(program):
        subprocess.run(["cc", "-O3", "-march=native", "-o", program,
                        os.path.join(HERE, "stream.c")], check=True)
    share = str(max(size // args.per_host, 1))
    at = str(time.monotonic() + CONNECTED)
    if "calls" in more:
        page = os.path.join(scratch, "meeting")
        with open(page, "wb") as f:
            f.write(bytes(4096))
        more = (*(word for word in more if word != "calls"), f"meet={page}:{2 * args.per_host}")
    commands = []
    for pair in range(args.per_host):
        for host, role in enumerate(("listen", "connect")):
            commands.append((cable.inside(host, [program, role, ADDRESS[0], str(29600 + pair),
                                                 share, str(41 if size > 1 << 20 else 401),
                                                 at, *more]), {}))
    return commands


def slowest(rows):
    """Of all processes: what a round takes in the mean, or the median of what calls take."""
    if "each" in rows[0]:
        return statistics.median(max(call) for call in zip(*(row["each"] for row in rows)))
    return max(row["us"] for row in rows)


def measure(args, cable, scratch):
    peers = [("ringup", ours)]
    if shutil.which("mpirun") and shutil.which("mpicc"):
        peers.append(("Open MPI", mpi))
    else:
        print("Open MPI is left out: it is not installed", file=sys.stderr)
    if shutil.which(args.python) and subprocess.run(
            [args.python, "-c", "import torch"], capture_output=True,
            check=False).returncode == 0:
        peers.append(("Gloo", gloo))
    else:
        print(f"Gloo is left out: {args.python} has no torch", file=sys.stderr)
    times = {name: {size: [] for size in args.sizes} for name, _ in peers}
    sums = f"ranks={args.per_host}"
    limits = {"plain sockets": (), "sockets, sums": (sums,),
              "the same, by calls": (sums, "calls")}
    if args.zerocopy:
        limits["plain, zero-copy"] = ("zerocopy",)
    times.update({name: {size: [] for size in args.sizes} for name in limits})
    for turn in range(args.rounds):
        for name, commands in peers:
            print(f"round {turn + 1} of {args.rounds}: {name}", file=sys.stderr)
            for row in together(commands(args, cable, scratch), args.timeout):
                times[name][row["bytes"]].append(row["us"])
        for size in args.sizes:
            for name, more in limits.items():
                rows = together(plain(args, cable, scratch, size, *more), args.timeout)
                times[name][size].append(slowest(rows))
                if "zerocopy" in more:
                    print(f"{name}, {words_of(size)}: {rows[0]['copied']:.0%} of the sends were "
                          "copied after all", file=sys.stderr)
    return times


def table(args, times):
    print(f"Allreduce of f32, two hosts with {args.per_host} ranks each on "
          f"{len(os.sched_getaffinity(0))} cores, us: median of {args.rounds} rounds "
          "(least-most), and times ringup's.\n")
    print("| size | " + " | ".join(times) + " |")
    print("|---" * (len(times) + 1) + "|")
    for size in args.sizes:
        cells = []
        for name, rows in times.items():
            v = rows[size]
            cells.append(f"{statistics.median(v):.4g} ({min(v):.4g}-{max(v):.4g})")
            if name != "ringup":
                ratio = statistics.median(x / o for x, o in zip(v, times["ringup"][size]))
                cells[-1] += f", **{ratio:.2f}x**"
        print(f"| {words_of(size)} | " + " | ".join(cells) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ringup", default="ringup", help="the command to measure (%(default)s)")
    p.add_argument("--per-host", type=int, default=2, help="ranks of a host (%(default)s)")
    p.add_argument("--sizes", default="8,64K,1M,16M,64M", help="bytes, K, M, G (%(default)s)")
    p.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    p.add_argument("--rate", default="", help="limit the cable, as tc spells it: 10gbit")
    p.add_argument("--timeout", type=int, default=300, help="seconds a run (%(default)s)")
    p.add_argument("--zerocopy", action="store_true",
                   help="also plain sockets that are asked to send without a copy")
    p.add_argument("--mpi-options", default="", help="more options for mpirun")
    p.add_argument("--python", default=sys.executable, help="one with torch (%(default)s)")
    args = p.parse_args()
    args.sizes = [size_of(word) for word in args.sizes.split(",")]
    args.mpi_options = args.mpi_options.split()
    args.ringup = os.path.abspath(shutil.which(args.ringup) or args.ringup)
    if any(size < 4 or size % 4 for size in args.sizes):
        p.error("sizes are multiples of 4")
    if os.geteuid():
        sys.exit("two_nodes.py: only root can make network namespaces")
    # Who is told to end takes down what he has put up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="ringup-two-") as scratch:
        os.chmod(scratch, 0o700)
        with Cable(args.rate) as cable:
            try:
                times = measure(args, cable, scratch)
            except (RuntimeError, subprocess.TimeoutExpired) as e:
                sys.exit(f"two_nodes.py: {e}")
    table(args, times)


main()
