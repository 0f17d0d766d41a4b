#!/usr/bin/env python3
# compare.py - ringup bench, Open MPI or MPICH, and Gloo in turn: a table of ratios.
# SPDX-License-Identifier: Apache-2.0
"""Runs every peer once a round, so that all see the same machine, and prints for each size the
median of the rounds' medians with its spread, and how many times longer the peers take.

    tests/peers/compare.py --ringup ./ringup -n 2 --sizes 8,128K,8M,64M --rounds 5

A peer that is not installed is left out, and said so.  Nothing stays behind.
"""

import argparse
import json
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(word):
    unit = UNITS.get(word[-1].upper(), 1)
    return int(word[:-1] if unit > 1 else word) * unit


def words_of(size):
    for letter, unit in reversed(UNITS.items()):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {letter}iB"
    return f"{size} B"


def run(command, timeout):
    """The lines of JSON that a command prints; RuntimeError if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not rows:
        raise RuntimeError(f"{shlex.join(command)}: status {done.returncode}: "
                           f"{done.stderr.strip()[-300:]}")
    return rows


def ours(args, backend):
    return [args.ringup, "bench", "allreduce", "-n", str(args.ranks), "--backend", backend,
            "--sizes", ",".join(map(str, args.sizes)), "--check", "--json"]


def mpi(args, scratch, extra=()):
    """Build the program against the MPI that is there; None and a reason if there is none."""
    mpicc, mpirun = shutil.which(args.mpicc), shutil.which(args.mpirun)
    if not mpicc or not mpirun:
        return None, f"{args.mpicc} or {args.mpirun} is not installed"
    program = os.path.join(scratch, "mpi_allreduce")
    if not os.path.exists(program):
        built = subprocess.run([mpicc, "-O2", "-o", program,
                                os.path.join(HERE, "mpi_allreduce.c")],
                               capture_output=True, text=True, check=False)
        if built.returncode:
            return None, built.stderr.strip().splitlines()[-1]
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False)
    options = []
    if "Open MPI" in version.stdout or "OpenRTE" in version.stdout:
        options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    return [mpirun, *options, *extra, "-np", str(args.ranks), program,
            *map(str, args.sizes)], version.stdout.splitlines()[0]


def gloo(args):
    probe = subprocess.run([args.python, "-c", "import torch; print(torch.__version__)"],
                           capture_output=True, text=True, check=False)
    if probe.returncode:
        return None, f"{args.python} has no torch"
    return [args.ringup, "run", "-np", str(args.ranks), "--no-prefix", "-x",
            "GLOO_SOCKET_IFNAME=lo", "--", args.python, os.path.join(HERE, "gloo_allreduce.py"),
            *map(str, args.sizes)], f"torch {probe.stdout.strip()}"


def peers_of(args, scratch):
    """Name, command and description of everybody who takes part."""
    found = [("ringup", ours(args, "node"), "shared memory"),
             ("ringup tcp", ours(args, "tcp"), "loopback")]
    for name, (command, what) in (
            ("MPI", mpi(args, scratch)),
            ("MPI tuned", mpi(args, scratch, shlex.split(args.mpi_tuned))
             if args.mpi_tuned else (None, "not asked for, see --mpi-tuned")),
            ("Gloo", gloo(args))):
        if command:
            found.append((name, command, what))
        else:
            print(f"{name}: left out: {what}", file=sys.stderr)
    return found


def measure(args, peers):
    """times[name][size]: the median of each round."""
    times = {name: {size: [] for size in args.sizes} for name, _, _ in peers}
    for turn in range(args.rounds):
        # Everybody goes first now and then.
        order = peers[turn % len(peers):] + peers[:turn % len(peers)]
        for name, command, _ in order:
            print(f"round {turn + 1} of {args.rounds}: {name}", file=sys.stderr)
            for row in run(command, args.timeout):
                if row["wrong"]:
                    raise RuntimeError(f"{name}: {row['wrong']} elements wrong in {row}")
                times[name][row["bytes"]].append(row["us"])
    return times


def cell(values, ours_by_round):
    """Median (least-most) in us; and, of a peer, the median ratio round by round."""
    text = f"{statistics.median(values):.4g} ({min(values):.4g}-{max(values):.4g})"
    if ours_by_round is not values:
        ratio = statistics.median(v / o for v, o in zip(values, ours_by_round))
        text += f", **{ratio:.2f}x**"
    return text


def table(args, peers, times):
    names = [name for name, _, _ in peers]
    print(f"\nAllreduce of f32, {args.ranks} ranks on {len(os.sched_getaffinity(0))} cores, "
          f"us: median of {args.rounds} rounds (least-most), and times ringup's.\n")
    print(f"Linux {platform.release()}; " +
          "; ".join(f"{name}: {what}" for name, _, what in peers) + "\n")
    print("| size | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for size in args.sizes:
        base = times["ringup"][size]
        print(f"| {words_of(size)} | " +
              " | ".join(cell(times[name][size], base) for name in names) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--ringup", default="ringup", help="the command to measure (%(default)s)")
    p.add_argument("-n", "--ranks", type=int, default=2, help="(%(default)s)")
    p.add_argument("--sizes", default="8,128K,8M,64M", help="bytes, K, M, G (%(default)s)")
    p.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    p.add_argument("--timeout", type=int, default=300, help="seconds a run (%(default)s)")
    p.add_argument("--mpicc", default="mpicc", help="(%(default)s)")
    p.add_argument("--mpirun", default="mpirun", help="(%(default)s)")
    p.add_argument("--mpi-tuned", default="", metavar="OPTIONS",
                   help="a second MPI column with these options of mpirun")
    p.add_argument("--python", default=sys.executable, help="one with torch (%(default)s)")
    args = p.parse_args()
    args.sizes = [size_of(word) for word in args.sizes.split(",")]
    if any(size < 4 or size % 4 for size in args.sizes):
        p.error("sizes are multiples of 4")
    with tempfile.TemporaryDirectory(prefix="ringup-compare-") as scratch:
        peers = peers_of(args, scratch)
        try:
            times = measure(args, peers)
        except (RuntimeError, subprocess.TimeoutExpired) as e:
            sys.exit(f"compare.py: {e}")
    table(args, peers, times)


main()
