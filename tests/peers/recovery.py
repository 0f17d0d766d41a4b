#!/usr/bin/env python3
# recovery.py - time what an elastic job takes to go on when a rank of it is killed.
# SPDX-License-Identifier: Apache-2.0
"""Each command starts the ranks of an elastic job; this file is appended to it.  Once a round each
of them starts a job whose last rank kills itself after some steps, and the others note when they
notice and when their first allreduce of the next generation is done.  The last of them counts.

    recovery.py --rounds 10 'ringup run -np 4 --min-np 2 -H localhost:2,127.0.0.1:2 -- python' \\
        'horovodrun -np 4 --min-np 2 -H localhost:2,127.0.0.1:2 python'

One host under two names, for Horovod gives a host up on which a rank has failed.  Prints a
Markdown table.
"""

import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BEFORE, AFTER = 200, 20  # steps


def rank(path):
    """What each rank does."""
    import torch

    import horovod.torch as hvd

    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(what):
        """All ranks have one clock."""
        line = json.dumps({"what": what, "pid": os.getpid(), "ns": time.monotonic_ns()})
        os.write(log, line.encode() + b"\n")

    class State(hvd.elastic.TorchState):
        def restore(self):
            note("noticed")
            super().restore()

    @hvd.elastic.run
    def train(state):
        hvd.allreduce(torch.ones(1), name="first")
        note("good")
        state.generation += 1
        state.commit()
        for step in range(BEFORE if state.generation == 1 else AFTER):
            hvd.allreduce(torch.ones(1000), name="gradient")
        if state.generation == 1 and hvd.rank() == hvd.size() - 1:
            note("killed")
            os.kill(os.getpid(), signal.SIGKILL)
        while state.generation == 1:
            hvd.allreduce(torch.ones(1000), name="gradient")

    hvd.init()
    train(State(generation=0))


def once(argv):
    """(milliseconds until it is noticed, milliseconds until the first allreduce) of one job."""
    with tempfile.TemporaryDirectory(prefix="ringup") as folder:
        path = os.path.join(folder, "log")
        p = subprocess.run([*argv, os.path.abspath(__file__), "--rank", path],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           stdin=subprocess.DEVNULL, check=False)
        with open(path, encoding="utf-8") as f:
            notes = [json.loads(line) for line in f]
    at = {what: {n["pid"]: n["ns"] for n in notes if n["what"] == what}
          for what in ("killed", "noticed", "good")}
    if p.returncode or len(at["killed"]) != 1 or not at["noticed"]:
        sys.exit(f"recovery.py: {shlex.join(argv)}: exit status {p.returncode}\n{p.stdout}")
    killed, = at["killed"].values()
    return tuple((max(at[what][pid] for pid in at["noticed"]) - killed) / 1e6
                 for what in ("noticed", "good"))


def cell(ms):
    return f"{statistics.median(ms):.1f} ({min(ms):.1f}-{max(ms):.1f})"


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--rounds", type=int, default=10)
    ap.add_argument("--rank", metavar="FILE", help=argparse.SUPPRESS)
    ap.add_argument("command", nargs="*", help="as one word each")
    args = ap.parse_args()
    if args.rank:
        return rank(args.rank)
    commands = [shlex.split(c) for c in args.command]
    times = [[] for _ in commands]
    for r in range(args.rounds):
        for i in range(len(commands)):
            k = (i + r) % len(commands)
            times[k].append(once(commands[k]))
    print("| command | noticed, ms: median (least-most) | first allreduce, ms | times the first |")
    print("|---|---|---|---|")
    for c, t in zip(commands, times):
        noticed, good = zip(*t)
        ratio = statistics.median(good) / statistics.median(x[1] for x in times[0])
        print(f"| `{shlex.join(c)}` | {cell(noticed)} | {cell(good)} | {ratio:.1f}x |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
