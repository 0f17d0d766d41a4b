#!/usr/bin/env python3
# two_builds.py - one `ringup bench` of two builds by turns: is any size of any row slower now?
# SPDX-License-Identifier: Apache-2.0
"""Runs the same rows of `ringup bench` with two builds, one after the other in each turn, and
prints for each size the ratio of the medians of all turns, new by old, with the spread of the
old build's turns: the largest by the smallest.

    tests/peers/two_builds.py old/ringup new/ringup --turns 7

Exit status 1 if a size is slower by more than the spread.
"""

import argparse
import collections
import json
import statistics
import subprocess
import sys

ROWS = {
    "allreduce, 2 ranks": "allreduce -np 2 -s 8,2K,64K,1M,16M",
    "allreduce, 4 ranks": "allreduce -np 4 -s 8,2K,64K,1M",
    "allreduce of 16 tensors, 2 ranks": "allreduce -np 2 --members 16 -s 2K,64K",
    "allgather, 2 ranks": "allgather -np 2 -s 8,64K,4M",
    "broadcast, 2 ranks": "broadcast -np 2 -s 8,64K,4M",
    "alltoall, 2 ranks": "alltoall -np 2 -s 8,64K,4M",
    "reducescatter, 2 ranks": "reducescatter -np 2 -s 64K,4M",
    "allreduce between hosts, 2 ranks": "allreduce -np 2 --backend tcp -s 8,64K,4M",
    "allreduce between hosts, 3 ranks": "allreduce -np 3 --backend tcp -s 8,64K",
    "allreduce in two groups, 4 ranks": "allreduce -np 4 -g 2 -s 8,64K,1M",
}


def measure(ringup, row, seconds):
    """Microseconds of each size, {bytes: us}."""
    out = subprocess.run([ringup, "bench", *row.split(), "-t", str(seconds), "--json"], check=True,
                         capture_output=True, text=True).stdout
    return {r["bytes"]: r["us"] for r in map(json.loads, out.splitlines())}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--turns", type=int, default=5)
    p.add_argument("--seconds", type=int, default=1, help="for each size and turn")
    p.add_argument("--row", action="append", help="a part of a row's name; may be repeated")
    a = p.parse_args()
    slower = 0
    for name, row in ROWS.items():
        if a.row and not any(part in name for part in a.row):
            continue
        times = collections.defaultdict(lambda: ([], []))
        for turn in range(a.turns):
            for which in (0, 1) if turn % 2 else (1, 0):
                for size, us in measure((a.old, a.new)[which], row, a.seconds).items():
                    times[size][which].append(us)
        for size, (old, new) in times.items():
            ratio = statistics.median(new) / statistics.median(old)
            spread = max(old) / min(old)
            is_slower = ratio > spread
            slower += is_slower
            print(f"{name:36} {size:>10}  {statistics.median(old):>10.2f} us  "
                  f"new/old {ratio:5.2f}  spread {spread:5.2f}{'  SLOWER' if is_slower else ''}",
                  flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
