#!/usr/bin/env python3
# read_logs.py - speed and memory of ringup diagnose on logs: healthy, broken, hostile, packed.
# SPDX-License-Identifier: Apache-2.0
"""Writes one log of each kind after the other into a temporary directory, reads it with
`ringup diagnose` on one processor, and prints a Markdown table.

    tests/peers/read_logs.py --ringup build/ringup --size 1G --rounds 3

    healthy   verbose logs of NCCL, Open MPI, Gloo and Horovod, a rank's name before each line
    broken    logs in which something is known to be wrong, over and over
    near      beginnings of known messages that go on otherwise, as dense as they can be
    long      lines of 100 MB of healthy words without a newline
    control   escape sequences and other control characters among healthy words
    nul       nothing but zeros
    noise     random bytes: invalid UTF-8, nothing known
    gz xz zst the healthy log, packed; the unpacker runs on the same processor

MB/s are 10^6 unpacked bytes a second of wall time, then of the processor time that ringup itself
took, which tells more where other work is near; memory is the most that it had, this script's own
before it begins included.  What the unpacker takes is in the first only.
"""

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
UNITS = {"K": 10 ** 3, "M": 10 ** 6, "G": 10 ** 9}
BLOCK = 16 * 10 ** 6
PACKERS = {"gz": ["gzip", "-c1"], "xz": ["xz", "-c0"], "zst": ["zstd", "-qc1"]}


def logs(folder):
    where = os.path.join(TESTS, "diagnose", folder)
    out = []
    for name in sorted(os.listdir(where)):
        with open(os.path.join(where, name), "rb") as f:
            out.append(f.read().splitlines())
    return out


def fill(pieces):
    """A block of pieces, in random order, always the same one."""
    rnd, out, size = random.Random(1), [], 0
    while size < BLOCK:
        out.append(rnd.choice(pieces))
        size += len(out[-1])
    return b"".join(out)


def ranks(folder):
    """Whole logs, each of one of many ranks."""
    return [b"".join(b"[node-%02d:%d][rank %d] %s\n" % (r // 8, 4000 + r, r, line)
                     for line in lines)
            for r in range(16) for lines in logs(folder)]


def known():
    """What known messages begin with, up to the first field."""
    with open(os.path.join(TESTS, "..", "src", "diagnose", "signatures.def"),
              encoding="utf-8") as f:
        texts = re.findall(r'TEXT\("((?:[^"\\]|\\.)*)"\)', f.read())
    return [t.split("{")[0].replace('\\"', '"').encode() for t in texts]


def near():
    out = []
    for text in known():
        out += [text[:-1] + b"~", text + b"10.0.0.1.2.3:", text + b"9" * 200, text + b" " * 200,
                text * 3, text + b"<" * 50]
    return out


def block_of(kind):
    if kind == "broken":
        return fill(ranks("logs"))
    if kind == "near":
        return fill(near())
    if kind == "long":
        return fill(ranks("healthy")).replace(b"\n", b" ")
    if kind == "control":
        rnd = random.Random(2)
        return fill([b"\x1b[31m" + line + bytes(rnd.choices(range(32), k=8))
                     for lines in logs("healthy") for line in lines])
    if kind == "nul":
        return bytes(BLOCK)
    if kind == "noise":
        return random.Random(3).randbytes(BLOCK)
    return fill(ranks("healthy"))


def write(path, kind, size):
    """The log, of about @size bytes when unpacked; how many they are."""
    block, parts = block_of(kind), size // BLOCK
    packed = block
    if kind in PACKERS:
        packed = subprocess.run(PACKERS[kind], input=block, stdout=subprocess.PIPE,
                                check=True).stdout
    with open(path, "wb") as f:
        for i in range(parts):
            f.write(packed)
            if kind == "long" and i % 6 == 5:
                f.write(b"\n")
    return parts * len(block)


def read(ringup, path, cpu):
    begun = time.monotonic()
    p = subprocess.Popen([ringup, "diagnose", path], stdout=subprocess.DEVNULL,
                         stdin=subprocess.DEVNULL,
                         preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode not in (0, 1):
        sys.exit(f"read_logs.py: {path}: exit status {p.returncode}")
    return {"wall": time.monotonic() - begun, "processor": used.ru_utime + used.ru_stime,
            "memory": used.ru_maxrss / 1024, "found": p.returncode == 1}


def main():
    kinds = ["healthy", "broken", "near", "long", "control", "nul", "noise", *PACKERS]
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--ringup", default="ringup")
    ap.add_argument("--size", default="1G")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--kinds", default=",".join(kinds), help="of " + ", ".join(kinds))
    ap.add_argument("--cpu", type=int, default=min(os.sched_getaffinity(0)))
    args = ap.parse_args()
    size = int(args.size[:-1]) * UNITS[args.size[-1]] if args.size[-1] in UNITS else int(args.size)
    print("| log | MB | MB/s: median (least-most) | by its processor time | memory, MiB | says |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="read_logs-") as scratch:
        path = os.path.join(scratch, "log")
        for kind in args.kinds.split(","):
            if kind in PACKERS and not shutil.which(PACKERS[kind][0]):
                print(f"| {kind} | {PACKERS[kind][0]} is not installed | | | | |")
                continue
            length = write(path, kind, size)
            runs = [read(os.path.abspath(args.ringup), path, args.cpu)
                    for _ in range(args.rounds)]
            rate = [length / 1e6 / run["wall"] for run in runs]
            busy = statistics.median(length / 1e6 / run["processor"] for run in runs)
            print(f"| {kind} | {length / 1e6:,.0f} | {statistics.median(rate):,.0f} "
                  f"({min(rate):,.0f}-{max(rate):,.0f}) | {busy:,.0f} "
                  f"| {max(run['memory'] for run in runs):.1f} "
                  f"| {'findings' if runs[0]['found'] else 'nothing'} |", flush=True)


if __name__ == "__main__":
    main()
