#!/usr/bin/env python3
# startup.py - time whole commands side by side, in turn.
# SPDX-License-Identifier: Apache-2.0
"""Runs each command once a round and prints a Markdown table of wall and processor times.

    startup.py --rounds 20 'ringup run -np 4 true' 'mpirun -np 4 true' 'horovodrun -np 4 true'
"""

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import time


def once(argv):
    """Milliseconds of wall and of processor time that a command takes."""
    before, begun = os.times(), time.monotonic()
    p = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                       stdin=subprocess.DEVNULL, check=False)
    wall, after = time.monotonic() - begun, os.times()
    if p.returncode:
        sys.exit(f"startup.py: {shlex.join(argv)}: exit status {p.returncode}\n{p.stderr}")
    cpu = after.children_user + after.children_system
    return wall * 1e3, (cpu - before.children_user - before.children_system) * 1e3


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--rounds", type=int, default=20)
    ap.add_argument("command", nargs="+", help="as one word each")
    args = ap.parse_args()
    commands = [shlex.split(c) for c in args.command]
    times = [[] for _ in commands]
    for c in commands:
        once(c)
    for r in range(args.rounds):
        for i in range(len(commands)):
            k = (i + r) % len(commands)
            times[k].append(once(commands[k]))
    first = statistics.median(t[0] for t in times[0])
    print("| command | wall, ms: median (least-most) | processor, ms | times the first |")
    print("|---|---|---|---|")
    for c, t in zip(commands, times):
        wall, cpu = [x[0] for x in t], [x[1] for x in t]
        m = statistics.median(wall)
        print(f"| `{shlex.join(c)}` | {m:.1f} ({min(wall):.1f}-{max(wall):.1f}) "
              f"| {statistics.median(cpu):.0f} | {m / first:.1f}x |")


if __name__ == "__main__":
    main()
