#!/usr/bin/env python3
# strings.py - what libraries can say when they fail, taken from the libraries themselves.
# SPDX-License-Identifier: Apache-2.0
"""Writes strings.txt anew: the formats of the failures that each version of a library can print.

    tests/diagnose/strings.py --ringup build/ringup nccl=2.21.5:libnccl.so.2 \\
        openmpi=4.1.4:/usr/share/openmpi torch=2.13:libtorch_cpu.so >tests/diagnose/strings.txt

NCCL    the formats that its code hands to its logger with the level WARN (x86-64)
Open MPI  the first lines of the messages of its help files
torch   the formats of c10d and Gloo that tell of a failure

A row is: library, first and last version, the signature that fits or X2 and why there is none, and
the format, cut to 80 bytes.  tests/unit/test_unknown.c makes a line of each and looks at what is
found.  Reasons: `internal` is a check of the library's own state, `usage` a wrong argument of the
program, `device` a call of CUDA or of a driver, `topology` a file or choice of the topology,
`rdma` a verb or NCCL's recovery from its failures, `ras` NCCL's monitoring, `setup` mpirun's command
line.  In each case the text says all that is known, so it is shown as it is.
"""

import argparse
import json
import os
import re
import struct
import subprocess
import sys

FIELD = re.compile(r"%[-+ #0-9.]*(?:hh|h|ll|l|z|j|t)?[sdiuxXpfgcml%]|\{\}")
REASONS = [
    ("ras", r"RAS"),
    ("rdma", r"NET/IB|NET/MLX5|ibv_|mlx5|QP|GIN|RMA|GDR|gdr|DMA-?BUF|DOCA|doca|IB "),
    ("topology", r"TOPO|[Tt]opo|XML|xml|Graph|graph|NVLS|NVLink|CollNet|COLLNET|MNNVL"),
    ("device", r"[Cc][Uu][Dd][Aa]|cu[A-Z]|[Kk]ernel|GPU|dlopen|dlsym|dlvsym|nvml|alloc"),
    ("usage", r"[Ii]nvalid|argument|NULL|must be|not supported|out of range|larger than|wrong"),
]
FAILS = re.compile(r"fail|timed out|cannot|refused|unreachable|closed|error|unsupported|[Uu]nable", re.I)


def rodata(path):
    with open(path, "rb") as f:
        data = f.read()
    shoff, = struct.unpack_from("<Q", data, 0x28)
    count, names = struct.unpack_from("<HH", data, 0x3c)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + 64 * i) for i in range(count)]
    base = heads[names][4]
    out = {}
    for h in heads:
        name = data[base + h[0]:data.index(b"\0", base + h[0])].decode()
        if h[1] != 8:
            out[name] = (h[3], data[h[4]:h[4] + h[5]])
    return out


def nccl(path):
    sections = rodata(path)
    start, text = sections[".text"]
    for m in re.finditer(rb"\x4c\x8d[\x05\x0d](....)", text, re.S):
        address = start + m.end() + struct.unpack("<i", m.group(1))[0]
        for name, (at, data) in sections.items():
            if name.startswith(".rodata") and at <= address < at + len(data):
                string = data[address - at:data.find(b"\0", address - at)]
                break
        else:
            continue
        # The level is the first argument of the call that the format is one of.
        first = max(0, m.start() - 80)
        levels = [(abs(x.start() - (m.start() - first)), x.group(1))
                  for x in re.finditer(rb"\xbf([\x01-\x06])\0\0\0", text[first:m.end() + 60])]
        if levels and min(levels)[1] == b"\x02":
            yield string.decode("ascii", "replace")


def openmpi(folder):
    for root, _, files in os.walk(folder):
        for name in sorted(files):
            if not re.match(r"help-(mpi-btl-tcp|oob|plm-base|errmgr|orterun|prterun|opal-shmem|mca-bml|mpi-runtime|"
                            r"orte-rmaps-base|prte-rmaps-base)", name):
                continue
            with open(os.path.join(root, name), encoding="utf-8", errors="replace") as f:
                topics = re.split(r"^\[.*\]$", re.sub(r"^#.*\n?", "", f.read(), flags=re.M), flags=re.M)
            for topic in topics[1:]:
                lines = [x.strip() for x in topic.splitlines() if x.strip()]
                if lines and FAILS.search(topic) and not re.match(r"Usage|usage|%s$|-", lines[0]):
                    yield " ".join(lines[:2])


def torch(path):
    for name, (_, data) in rodata(path).items():
        if name.startswith(".rodata"):
            for s in re.findall(rb"[ -~]{16,200}(?=\0)", data):
                s = s.decode()
                if FAILS.search(s) and re.search(r"socket|TCPStore|Store|onnect|monitored|gloo|waiting", s) \
                        and not re.search(r"INTERNAL ASSERT|->|::|_Z|operator|QNN|Algorithm|\(\) \[", s):
                    yield s


def sample(text):
    def value(m):
        before = text[:m.start()]
        if m.group(0) in ("%s", "{}"):
            return "10.30.0.7<4000>" if re.search(r"(to|peer|from|address) $", before) else "gizmo"
        return "%" if m.group(0) == "%%" else "12"
    return FIELD.sub(value, text)


def line_of(library, text):
    if library == "openmpi":
        return "%s\n%s\n%s\n" % ("-" * 74, sample(text), "-" * 74)
    head = "node-1:41:42 [0] x.cc:1 NCCL WARN " if library == "nccl" else "RuntimeError: "
    return head + sample(text) + "\n"


def signature(ringup, library, text):
    out = subprocess.run([ringup, "diagnose", "--json", "-"], input=line_of(library, text).encode(),
                         stdout=subprocess.PIPE, check=False).stdout
    found = json.loads(out)["findings"]
    return found[0]["signature"] if found else "-"


def reason(library, text):
    if library == "openmpi":
        return "setup"
    for name, pattern in REASONS:
        if re.search(pattern, text):
            return name
    return "internal"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ringup", required=True)
    p.add_argument("source", nargs="+", metavar="LIBRARY=VERSION:PATH", help="versions in order")
    args = p.parse_args()
    take = {"nccl": nccl, "openmpi": openmpi, "torch": torch}
    seen = {}
    for source in args.source:
        library, version, path = re.match(r"(\w+)=([\w.]+):(.+)", source).groups()
        for text in take[library](path):
            text = re.sub(r"\s+", " ", text.split("\\n")[0]).strip()[:80].strip()
            if len(text) > 11 and " " in text and "\ufffd" not in text:
                first, _ = seen.get((library, text), (version, version))
                seen[library, text] = (first, version)
    print("# strings.txt - what libraries can say when they fail, and the signature; strings.py writes it.")
    for (library, text), (first, last) in sorted(seen.items()):
        what = signature(args.ringup, library, text)
        if what in ("X2", "X3", "-"):
            what += " " + reason(library, text)
        print(library, first, last, what, text, sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main())
