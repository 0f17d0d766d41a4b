#!/usr/bin/env python3
# table.py - all tables of docs/bench: ringup beside its peers, in a given time.
# SPDX-License-Identifier: Apache-2.0
"""Each row is one run of contest.py, whose command is printed with its results.  Everything
on stdout is Markdown; progress and complaints are on stderr.

    tests/peers/table.py --ringup ./ringup --python VENV/bin/python --minutes 10
    tests/peers/table.py --ringup ./ringup --rows small-2,hog --seconds 5

The Python is one that can import torch and Horovod; without it these two are left out.
"""

import argparse
import json
import math
import os
import platform
import shlex
import signal
import statistics
import subprocess
import sys
import time

import idle

MPI = "openmpi,openmpi-tuned,mpich"
ALL = MPI + ",gloo"
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


HERE = os.path.dirname(os.path.abspath(__file__))


class Row:
    """A run: what is measured, beside whom, and how many times faster it should be."""

    def __init__(self, name, title, words, peers, want, limit=90, on=None):
        self.name, self.title, self.words = name, title, words.split()
        self.peers, self.want, self.limit = peers, want, limit
        self.on = [os.path.join(HERE, on)] if on else []

    def wanted(self, place, peer):
        """A number, or one for each place, or for each peer."""
        if isinstance(self.want, dict):
            return self.want.get(place, self.want.get(peer))
        return self.want


ROWS = [
    Row("small-2", "Allreduce, 2 ranks, small", "allreduce -np 2 --sizes 8,32,128,512,1K", ALL,
        {"near": 2, "far": 1.25, "mixed": 1.25}),
    Row("allreduce-2", "Allreduce, 2 ranks", "allreduce -np 2 --sizes 2K:32M:4,64M", ALL, 2),
    Row("allreduce-4", "Allreduce, 4 ranks", "allreduce -np 4 --sizes 8,2K:32M:4,64M", ALL, 2),
    Row("allreduce-8", "Allreduce, 8 ranks", "allreduce -np 8 --sizes 8,2K:32M:4,64M",
        "openmpi,openmpi-tuned,gloo", 2),
    Row("alloc-2", "Allreduce, 2 ranks, buffers of ringup_alloc()",
        "allreduce -np 2 --alloc --sizes 32K:32M:4,64M", MPI, 5),
    Row("alloc-in-place-2", "Allreduce in place, 2 ranks, buffers of ringup_alloc()",
        "allreduce -np 2 --alloc --in-place yes --sizes 32K:32M:4,64M", MPI, 5),
    Row("broadcast-2", "Broadcast, 2 ranks", "broadcast -np 2 --sizes 1K,256K,16M", ALL, 1.3),
    Row("allgather-2", "Allgather, 2 ranks", "allgather -np 2 --sizes 1K,256K,16M", ALL, 1.3),
    Row("reducescatter-2", "Reduce-scatter, 2 ranks",
        "reducescatter -np 2 --sizes 1K,256K,16M", ALL, 1.3),
    Row("alltoall-2", "All-to-all, 2 ranks", "alltoall -np 2 --sizes 1K,256K,16M", ALL, 1.3),
    Row("barrier-2", "Barrier, 2 ranks", "barrier -np 2", ALL, 1.3),
    Row("one-c", "One float by name, C", "allreduce -np 2 --sizes 4", "openmpi,mpich",
        {"openmpi": 1, "mpich": 1}),
    Row("one-torch", "One float by name, horovod.torch",
        "allreduce -np 2 --sizes 4 --level torch", "gloo", None),
    Row("resnet50", "Gradients of ResNet-50, 2 ranks", "resnet50 -np 2",
        "openmpi-tuned,gloo", {"openmpi-tuned": 1.8, "gloo": 4}),
    Row("bert", "Gradients of BERT-base, 2 ranks", "bert -np 2 -i 2",
        "openmpi-tuned,gloo", {"openmpi-tuned": 1.8, "gloo": 4}, 120),
    # By itself: its threads take part of both processors from whoever plays beside it.
    Row("one-c-horovod", "One float by name, C, beside Horovod", "allreduce -np 2 --sizes 4",
        "horovod", 1000),
    Row("one-torch-horovod", "One float by name, horovod.torch, beside Horovod",
        "allreduce -np 2 --sizes 4 --level torch", "horovod", 100),
    Row("resnet50-horovod", "Gradients of ResNet-50, 2 ranks, beside Horovod",
        "resnet50 -np 2", "horovod", 4),
    Row("bert-horovod", "Gradients of BERT-base, 2 ranks, beside Horovod", "bert -np 2 -i 2",
        "horovod", 4, 120),
    Row("hog", "Allreduce, 4 ranks, and a foreign process burns a core",
        "allreduce -np 4 --sizes 8 --hog 1 --pin", ALL, None),
    Row("hog-container", "The same in a container",
        "allreduce -np 4 --sizes 8 --hog 1 --pin", ALL, 20, on="container.bash"),
    Row("busy-2", "Allreduce, 2 ranks beside 4 foreign processes",
        "allreduce -np 2 --sizes 8,8K,256K --hog 4", ALL, None),
    Row("busy-4", "Allreduce, 4 ranks beside 4 foreign processes",
        "allreduce -np 4 --sizes 8,8K,256K --hog 4", ALL, None),
    Row("nodes", "Allreduce, 2 hosts with 2 ranks each, TCP",
        "allreduce -np 4 --sizes 16M,64M", "openmpi,gloo", 1.5, on="nodes.bash"),
]


def size_text(n):
    for unit, name in UNITS:
        if n >= unit and n % unit == 0:
            return f"{n // unit} {name}"
    return f"{n} B"


def time_text(us):
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if us >= unit:
            return f"{us / unit:.3g} {name}"
    return f"{us:.3g} us"


def command_of(row, args):
    words = [*row.on, os.path.join(HERE, "contest.py"), *row.words, "--ringup", args.ringup,
             "--peer", row.peers]
    if args.python:
        words += ["--python", args.python]
    if "-i" not in row.words:
        words += ["-t", str(args.seconds)]
    return words


def run(words, seconds):
    """What it printed as JSON until it ended or the time was over, and whether that was all."""
    with subprocess.Popen([*words, "--json"], stdout=subprocess.PIPE, text=True) as job:
        whole = True
        try:
            text, _ = job.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            # Told so, it ends its peers, too.
            job.send_signal(signal.SIGTERM)
            text, _ = job.communicate()
            whole = False
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")], \
        whole and job.returncode == 0


def is_each(row):
    """Are the peers judged one by one, or only the best of them?"""
    return isinstance(row.want, dict) and not {"near", "far"} & set(row.want)


def verdicts(row, line):
    """Of a line of results: peer, its time, how many times longer, quartiles, what is wanted."""
    peers = sorted(line["peers"], key=lambda p: p["ratio"])
    for p in peers if is_each(row) else peers[:1]:
        yield p, row.wanted(line["place"], p["name"])


def mark(ratio, want):
    if want is None:
        return ""
    return f"{want:g}x: {'yes' if ratio >= want else '**no**'}"


def print_row(row, words, lines, whole):
    spoken = [os.path.join("tests/peers", os.path.basename(on)) for on in row.on]
    spoken += ["tests/peers/contest.py", *words[len(row.on) + 1:]]
    print(f"\n### {row.title}\n\n    {shlex.join(spoken)}\n")
    print("| size | place | hop, ns | ringup | beside | time | times longer (quartiles) | goal |")
    print("|---" * 8 + "|")
    ratios = []
    for line in lines:
        hop = f"{line['hop_ns']:.0f}" if line["hop_ns"] else "-"
        for p, want in verdicts(row, line):
            ratios.append((p["ratio"], want, p["name"], line))
            print(f"| {size_text(line['bytes'])} | {line['place'] or '-'} | {hop} | "
                  f"{time_text(line['us'])} | {p['name']} | {time_text(p['us'])} | "
                  f"**{p['ratio']:.2f}** ({p['ratio_low']:.2f}-{p['ratio_high']:.2f}) | "
                  f"{mark(p['ratio'], want)} |")
    if not whole:
        print("\nIncomplete: it failed, or the time was over.")
    sys.stdout.flush()
    return ratios


def summary(row, ratios):
    """A line of the table of tables: the worst of each kind, and the geometric mean."""
    kinds = {}
    for ratio, want, peer, line in ratios:
        where = line["place"] or "-"
        kinds.setdefault((where, peer if is_each(row) else "best peer"), []).append(
            (ratio, want, size_text(line["bytes"])))
    for (where, beside), seen in kinds.items():
        ratio, want, size = min(seen)
        mean = math.exp(sum(math.log(r) for r, _, _ in seen) / len(seen))
        # Of memory that is shared anyway the mean counts, of all else the worst size.
        judged = mean if row.name.startswith("alloc") else ratio
        yield (f"| {row.title} | {beside} | {where} | {ratio:.2f} at {size} | {mean:.2f} | "
               f"{mark(judged, want)} |")


def print_idle(args):
    rows = idle.measure(args.ringup, 2, 3)
    print("\n### Idle, 2 ranks\n\n    tests/peers/idle.py -n 2 --seconds 3\n")
    print("| rank | memory, MiB | of it shared | threads | wake-ups a second | processor |")
    print("|---" * 6 + "|")
    for i, r in enumerate(rows):
        print(f"| {i} | {r['rss_kib'] / 1024:.1f} | {r['shared_kib'] / 1024:.1f} | "
              f"{r['threads']} | {r['switches_per_s']:.1f} | {r['cpu_percent']:.1f} % |")
    sys.stdout.flush()
    worst = max(r["rss_kib"] for r in rows) / 1024
    return [f"| Memory of an idle rank | - | - | {worst:.1f} MiB | - | "
            f"< 8 MiB: {'yes' if worst < 8 else '**no**'} |"]


def print_groups(args):
    """What a group costs beside all ranks: both by turns, the difference of the medians."""
    def once(words):
        found, _ = run([args.ringup, "bench", *words, "-t", str(args.seconds)], 60)
        return {line["bytes"]: line["us"] for line in found}

    plain = "allreduce -np 2 --sizes 8,1K,32K".split()
    print(f"\n### A group's cost, 2 ranks\n\n    ringup {shlex.join(['bench', *plain])} "
          "--groups 0,1\n")
    print("| size | all ranks | the group | more | goal |")
    print("|---" * 5 + "|")
    taken = [(once(plain), once([*plain, "--groups", "0,1"])) for _ in range(5)]
    worst = 0.0
    for size in taken[0][0]:
        world, group = (statistics.median(t[i][size] for t in taken) for i in (0, 1))
        worst = max(worst, group - world)
        print(f"| {size_text(size)} | {time_text(world)} | {time_text(group)} | "
              f"{group - world:+.3f} us | {'yes' if group - world < 1 else '**no**'} |")
    sys.stdout.flush()
    return [f"| A group's cost, 2 ranks | all ranks | - | {worst:+.3f} us | - | "
            f"< 1 us: {'yes' if worst < 1 else '**no**'} |"]


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def measure(args, chosen):
    lines, end = [], time.monotonic() + args.minutes * 60
    for row in ROWS:
        left = end - time.monotonic()
        if row.name not in chosen:
            continue
        if left < 5:
            print(f"{row.name}: no time left", file=sys.stderr)
            continue
        words = command_of(row, args)
        print(f"{row.name}: {shlex.join(words)}", file=sys.stderr)
        found, whole = run(words, min(left, row.limit))
        lines += summary(row, print_row(row, words, found, whole))
    if "groups" in chosen:
        lines += print_groups(args)
    if "idle" in chosen:
        lines += print_idle(args)
    return lines


def main():
    names = [row.name for row in ROWS] + ["groups", "idle"]
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                epilog="rows: " + " ".join(names))
    p.add_argument("--ringup", default="ringup", help="the command to measure (%(default)s)")
    p.add_argument("--python", help="one with torch and Horovod")
    p.add_argument("--rows", default=",".join(names), metavar="LIST", help="only these")
    p.add_argument("--seconds", type=int, default=2, help="for each size (%(default)s)")
    p.add_argument("--minutes", type=float, default=12, help="for everything (%(default)s)")
    args = p.parse_args()
    chosen = args.rows.split(",")
    if set(chosen) - set(names):
        p.error(f"no such row: {' '.join(sorted(set(chosen) - set(names)))}")
    print(f"Linux {platform.release()}, {len(os.sched_getaffinity(0))} processors, "
          f"{processor()}; load {os.getloadavg()[0]:.1f} at the start.")
    lines = measure(args, chosen)
    print("\n### In short\n")
    print("| what | beside | place | worst | geometric mean | goal |")
    print("|---" * 6 + "|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
