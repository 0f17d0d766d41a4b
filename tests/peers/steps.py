#!/usr/bin/env python3
# steps.py - steps of a training job under a quota of processor time, and beside forked children.
# SPDX-License-Identifier: Apache-2.0
"""Runs steps.c with ringup, Open MPI and MPICH, one after the other, a few times, and prints
medians over the rounds: once in control groups that may use so many processors' worth of time,
once with so many children of each rank that have been forked off.

    tests/peers/steps.py --ringup build/ringup --ranks 2 --quotas 0,1.5,1,0.5 --compute 500
    tests/peers/steps.py --ringup build/ringup --ranks 2 --children 0,4 --bytes 1M

A quota needs root and the controller "cpu", of either version; 0 is none.  A peer that is not
installed is left out, and said so.  Nothing stays behind.
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
SOURCES = os.path.join(HERE, "..", "..", "src")
UNITS = {"K": 1 << 10, "M": 1 << 20}
PERIOD_US = 100000
# What ends this program does so while a job runs, which it ends then: not while it starts.
ENDS = {signal.SIGTERM}


def size_of(word):
    unit = UNITS.get(word[-1].upper(), 1)
    return int(word[:-1] if unit > 1 else word) * unit


class Group:
    """A control group with a quota, gone when it is over; without one nothing at all."""

    def __init__(self, quota):
        self.quota, self.path, self.v2 = quota, None, False

    def __enter__(self):
        if not self.quota:
            return self
        root = "/sys/fs/cgroup"
        self.v2 = not os.path.exists(f"{root}/cpu/cpu.cfs_quota_us")
        self.path = f"{root}{'' if self.v2 else '/cpu'}/ringup-steps-{os.getpid()}"
        os.mkdir(self.path)
        try:
            limit = int(self.quota * PERIOD_US)
            if self.v2:
                self.write("cpu.max", f"{limit} {PERIOD_US}")
            else:
                self.write("cpu.cfs_period_us", PERIOD_US)
                self.write("cpu.cfs_quota_us", limit)
        except OSError:
            os.rmdir(self.path)
            raise
        return self

    def __exit__(self, *_):
        if not self.path:
            return
        for _ in range(100):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.05)
        print(f"steps.py: cannot remove {self.path}", file=sys.stderr)

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as f:
            f.write(str(value))

    def enter(self):
        """In a process that is about to become another program."""
        if self.path:
            self.write("cgroup.procs", os.getpid())

    def stopped(self):
        """Seconds for which processors were kept from it, and how often."""
        if not self.path:
            return 0.0, 0
        with open(os.path.join(self.path, "cpu.stat"), encoding="ascii") as f:
            told = dict(line.split() for line in f)
        seconds = int(told["throttled_usec"]) / 1e6 if self.v2 else int(
            told["throttled_time"]) / 1e9
        return seconds, int(told["nr_throttled"])


def compile_with(compiler, scratch, name, *more):
    program = os.path.join(scratch, name)
    subprocess.run([compiler, "-O2", "-o", program, os.path.join(HERE, "steps.c"), *more],
                   check=True)
    return program


def library_of(ringup):
    """The folder of the library that belongs to the command: as built, or as installed."""
    for place in (".libs", "../lib"):
        folder = os.path.join(os.path.dirname(ringup), place)
        if os.path.exists(os.path.join(folder, "libringup.so")):
            return os.path.abspath(folder)
    sys.exit(f"steps.py: no libringup.so belongs to {ringup}")


def contenders(args, scratch):
    """For each name the words in front of the arguments."""
    ringup = os.path.realpath(shutil.which(args.ringup) or args.ringup)
    folder = library_of(ringup)
    ours = compile_with("cc", scratch, "ours", f"-I{SOURCES}", f"-L{folder}", "-lringup",
                        f"-Wl,-rpath,{folder}")
    found = {"ringup": [ringup, "run", "-np", str(args.ranks), "--no-prefix", "--", ours]}
    for name, kind, options in (
            ("Open MPI", "openmpi", ["--allow-run-as-root", "--oversubscribe", "--bind-to",
                                     "none"]),
            ("MPICH", "mpich", [])):
        if not shutil.which(f"mpicc.{kind}") or not shutil.which(f"mpirun.{kind}"):
            print(f"{name} is left out: it is not installed", file=sys.stderr)
            continue
        program = compile_with(f"mpicc.{kind}", scratch, kind, "-DWITH_MPI")
        found[name] = [f"mpirun.{kind}", *options, "-np", str(args.ranks), program]
    return found


def run(words, group, timeout):
    def enter():
        group.enter()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)

    with subprocess.Popen(words, preexec_fn=enter, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
            out, err = job.communicate(timeout=timeout)
        except BaseException:
            job.terminate()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    rows = [line for line in out.splitlines() if line.startswith("{")]
    if job.returncode or not rows:
        raise RuntimeError(f"{words[0]}: status {job.returncode}: {err.strip()[-300:]}")
    return json.loads(rows[0])


def measure(args, found, quota, children):
    """Of each contender the medians over the rounds."""
    rows = {name: [] for name in found}
    for turn in range(args.rounds):
        for name, words in found.items():
            print(f"{name}, quota {quota:g}, {children} children, round {turn + 1}",
                  file=sys.stderr)
            with Group(quota) as group:
                row = run([*words, str(args.seconds), str(args.compute), str(args.bytes),
                           str(children)], group, 20 * args.seconds + 60)
                row["stopped_s"], row["stopped"] = group.stopped()
            rows[name].append(row)
    return {name: {key: statistics.median(row[key] for row in many) for key in many[0]}
            for name, many in rows.items()}


def print_quotas(args, found):
    print("| quota, processors (0: none) | | steps a second | times ringup's | "
          "a step, us: median | longest, ms | processors used |")
    print("|---" * 7 + "|")
    for quota in args.quotas:
        rows = measure(args, found, quota, 0)
        for name, row in rows.items():
            ratio = row["steps_per_s"] / rows["ringup"]["steps_per_s"]
            print(f"| {quota:g} | {name} | {row['steps_per_s']:.0f} | {ratio:.2f} | "
                  f"{row['median_us']:.3g} | {row['most_us'] / 1000:.1f} | "
                  f"{row['cores']:.2f} |")
        sys.stdout.flush()


def print_children(args, found):
    print("| children of each rank | | steps a second | a step, us: median | longest, ms | "
          "fork(), us: before joining | after |")
    print("|---" * 7 + "|")
    for children in args.children:
        for name, row in measure(args, found, 0, children).items():
            print(f"| {children} | {name} | {row['steps_per_s']:.0f} | {row['median_us']:.3g} | "
                  f"{row['most_us'] / 1000:.1f} | {row['fork_before_us']:.0f} | "
                  f"{row['fork_after_us']:.0f} |")
        sys.stdout.flush()


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ringup", default="ringup", help="the command to measure (%(default)s)")
    p.add_argument("--ranks", type=int, default=2, help="(%(default)s)")
    p.add_argument("--seconds", type=float, default=2, help="a run (%(default)s)")
    p.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    p.add_argument("--compute", type=float, default=0, help="us of a step (%(default)s)")
    p.add_argument("--bytes", default="4", help="added up in a step: 4, 64K, 1M (%(default)s)")
    p.add_argument("--quotas", default="", help="processors, 0 is no quota: 0,1.5,1")
    p.add_argument("--children", default="", help="of each rank: 0,4")
    args = p.parse_args()
    args.quotas = [float(word) for word in args.quotas.split(",") if word]
    args.children = [int(word) for word in args.children.split(",") if word]
    args.bytes = size_of(args.bytes)
    if any(args.quotas) and os.geteuid():
        sys.exit("steps.py: only root can make control groups")
    # Who is told to end takes down what he has put up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    with tempfile.TemporaryDirectory(prefix="ringup-steps-") as scratch:
        try:
            found = contenders(args, scratch)
            print(f"\n{args.ranks} ranks on {len(os.sched_getaffinity(0))} processors; a step: "
                  f"{args.compute:g} us of work, {args.bytes} bytes; median of {args.rounds} "
                  f"rounds of {args.seconds:g} s.\n")
            if args.quotas:
                print_quotas(args, found)
            if args.children:
                print_children(args, found)
        except (OSError, RuntimeError, subprocess.SubprocessError) as e:
            sys.exit(f"steps.py: {e}")


main()
