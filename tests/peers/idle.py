#!/usr/bin/env python3
# idle.py - what ranks cost that have nothing to do: memory, wake-ups, processor time.
# SPDX-License-Identifier: Apache-2.0
"""Starts ranks as contest.py does, lets them add up a tensor once, gives their buffers back, and
looks at them through /proc while nobody asks anything of them.

    tests/peers/idle.py --ringup ./ringup -n 2 --seconds 5
"""

import argparse
import glob
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

ORDERS = "do allreduce f32 sum 0 0 1 1 2 1 0 262144", "rest"


def field(text, name):
    """The number after NAME: in a file of /proc, 0 if there is none."""
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0


def slurp(path):
    with open(path, encoding="ascii", errors="replace") as f:
        return f.read()


def look(pid):
    """Memory in KiB, context switches and ticks of all threads so far."""
    status = slurp(f"/proc/{pid}/status")
    tasks = [slurp(path) for path in glob.glob(f"/proc/{pid}/task/*/status")]
    ticks = slurp(f"/proc/{pid}/stat").rpartition(")")[2].split()[11:13]
    return {"rss_kib": field(status, "VmRSS"), "anon_kib": field(status, "RssAnon"),
            "shared_kib": field(status, "RssShmem"), "threads": len(tasks),
            "switches": sum(field(t, "voluntary_ctxt_switches") for t in tasks),
            "ticks": sum(map(int, ticks))}


class Rank:
    """A rank that has connected."""

    def __init__(self, listener):
        self.sock, _ = listener.accept()
        self.sock.settimeout(30)
        cred = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.pid = struct.unpack("3i", cred)[0]
        self.lines = self.sock.makefile("r")
        self.hear("hello")

    def say(self, order):
        self.sock.sendall(order.encode() + b"\n")

    def hear(self, word):
        line = self.lines.readline()
        if not line.startswith(word):
            raise RuntimeError(f"a rank said {line.strip()!r} instead of {word}")


def watch(ranks, seconds):
    for order in ORDERS:
        for rank in ranks:
            rank.say(order)
        for rank in ranks:
            rank.hear("ok")
    time.sleep(0.5)
    before = [look(rank.pid) for rank in ranks]
    time.sleep(seconds)
    rows = []
    for rank, old in zip(ranks, before):
        now = look(rank.pid)
        now["switches_per_s"] = (now.pop("switches") - old["switches"]) / seconds
        ms = (now.pop("ticks") - old["ticks"]) * 1000 / os.sysconf("SC_CLK_TCK")
        now["cpu_percent"] = ms / seconds / 10
        rows.append(now)
    return rows


def measure(ringup, count, seconds):
    """A dictionary for each of so many ranks."""
    with tempfile.TemporaryDirectory(prefix="ringup-idle-") as scratch:
        path = os.path.join(scratch, "door")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(count)
            listener.settimeout(30)
            player = os.path.join(os.path.dirname(os.path.abspath(shutil.which(ringup) or ringup)),
                                  "tests", "peers", "player")
            command = [ringup, "run", "-np", str(count), "--no-prefix", "--", player, "join", path]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL) as job:
                ranks = []
                try:
                    while len(ranks) < count:
                        ranks.append(Rank(listener))
                    return watch(ranks, seconds)
                finally:
                    # Without its connections a rank ends by itself, and so does the job.
                    for rank in ranks:
                        rank.lines.close()
                        rank.sock.close()
                    try:
                        job.wait(10)
                    except subprocess.TimeoutExpired:
                        job.terminate()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--ringup", default="ringup", help="the command (%(default)s)")
    p.add_argument("-n", "--ranks", type=int, default=2, help="(%(default)s)")
    p.add_argument("--seconds", type=float, default=5, help="how long to look (%(default)s)")
    args = p.parse_args()
    try:
        rows = measure(args.ringup, args.ranks, args.seconds)
    except (OSError, RuntimeError) as e:
        sys.exit(f"idle.py: {e}")
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
