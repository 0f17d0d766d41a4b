#!/usr/bin/env python3
# strings.py - what libraries can say when they fail, taken from the libraries themselves.
# SPDX-License-Identifier: Apache-2.0
"""Writes strings.txt anew: the formats of the failures that each version of a library can print.

    tests/diagnose/strings.py --ringup build/ringup --cache DIR >tests/diagnose/strings.txt

Where each version comes from stands in sources.tsv: it is downloaded with pip or apt, read, and thrown
away; what was read stays in DIR, so that a second run needs only what is new.

NCCL    the formats that its code hands to its logger with the level WARN (x86-64)
UCX     the same, with the levels WARN, ERROR and FATAL, and the names of its statuses
libfabric  the same, with the level WARN, and the names of its errors
MPICH   the messages of its table of errors that tell of a failure between processes
Hydra   what MPICH's launcher prints of a failure
Open MPI  the first lines of the messages of its help files
torch   the formats of c10d and Gloo that tell of a failure

A row is: library, first and last version, the signature that fits or X2 and why there is none, and
the format, cut to 80 bytes.  tests/unit/test_unknown.c makes a line of each and looks at what is
found.  Reasons: `internal` is a check of the library's own state, `usage` a wrong argument or setting of the
program, `device` a call of CUDA or of a driver, `topology` a file or choice of the topology,
`rdma` a verb or recovery from its failures, `ras` NCCL's monitoring, `memory` that was not to be had, `setup` the
launcher's command line and its files, `quiet` a warning that tells of no failure.  In each case the text says all that is known, so it is shown as it is.
"""

import argparse
import glob
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

FIELD = re.compile(r"%[-+ #0-9.*]*(?:hh|h|ll|l|z|j|t)?[sdiuxXpfgcmlP%]|\{\}")
REASONS = [
    ("ras", r"RAS"),
    ("rdma", r"NET/IB|NET/MLX5|ibv_|mlx5|QP|GIN|RMA|GDR|gdr|DMA-?BUF|DOCA|doca|IB |rdmacm|rdma_|verbs|[dD]evx|"
             r"DEVX|umr|UMR|\bah\b|AH\b|\bqp|\bcq|srq|gid|lid\b|xrc|wqe|immed|RDMA|rdma|dmabuf|doorbell"),
    ("topology", r"TOPO|[Tt]opo|XML|xml|Graph|graph|NVLS|NVLink|CollNet|COLLNET|MNNVL"),
    ("device", r"[Cc][Uu][Dd][Aa]|cu[A-Z]|[Kk]ernel|GPU|dlopen|dlsym|dlvsym|nvml|rocm|HSA_|hip|gdrcopy|ze_|HMEM|hmem|"
               r"psm|opx|OPX|hfi|HFI|/dev/|ioctl|/sys/|/proc/|synapse|neuron"),
    ("memory", r"alloc|[Mm]emory|mmap|out of|ENOMEM|[Ff]ailed to (create|initialize|init)\b|mpool|malloc"),
    ("usage", r"[Ii]nvalid|argument|NULL|[Nn]ull |must be|not supported|[Uu]nsupported|out of range|larger than|wrong|"
              r"exceed|incorrect|unknown|[Uu]nrecognized|config|param|environment|deprecated|too (many|small|large|big|long)"),
]
FAILS = re.compile(r"fail|timed out|cannot|refused|unreachable|closed|error|unsupported|[Uu]nable", re.I)
PATHS = re.compile(r"onnect|sock|host|ddress|ommunication|timed out|timeout|closed|/shm|shared mem|PMI|OFI|UCX|ucx|bind|listen|accept")
CUT = 80


class Elf:
    """The sections and the strings of a library of 64 bits."""

    def __init__(self, data):
        shoff, = struct.unpack_from("<Q", data, 0x28)
        count, names = struct.unpack_from("<HH", data, 0x3c)
        heads = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + 64 * i) for i in range(count)]
        base = heads[names][4]
        self.sections = {}
        for h in heads:
            name = data[base + h[0]:data.index(b"\0", base + h[0])].decode()
            if re.match(r"\.(text|rodata|dynsym|dynstr|rela\.dyn)", name):
                self.sections[name] = (h[3], data[h[4]:h[4] + h[5]])

    def string(self, address):
        for name, (at, data) in self.sections.items():
            if name.startswith(".rodata") and at <= address < at + len(data):
                return data[address - at:data.find(b"\0", address - at)].decode("ascii", "replace")
        return None

    def function(self, name):
        """Where the code of an exported function is: offset in .text, and its length."""
        symbols, strings = self.sections[".dynsym"], self.sections[".dynstr"]
        start = self.sections[".text"][0]
        for i in range(0, len(symbols[1]), 24):
            at, _, _, _, value, size = struct.unpack_from("<IBBHQQ", symbols[1], i)
            if strings[1][at:strings[1].index(b"\0", at)].decode() == name and value >= start:
                return value - start, size
        return None

    def loads(self, registers=b"[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d]", first=0, last=None):
        """Where .text takes the address of a string, and which."""
        start, text = self.sections[".text"]
        for m in re.compile(registers + rb"(....)", re.S).finditer(text, first, last or len(text)):
            string = self.string(start + m.end() + struct.unpack("<i", m.group(1))[0])
            if string:
                yield m, string

    def words(self):
        for name, (_, data) in self.sections.items():
            if name.startswith(".rodata"):
                for s in re.findall(rb"[\t\n -~]{8,300}(?=\0)", data):
                    yield s.decode()

    def names(self, function):
        """The strings that a function such as strerror(3) chooses from."""
        found = self.function(function)
        if found:
            for _, string in self.loads(first=found[0], last=found[0] + found[1]):
                yield string


def leveled(elf, formats, levels, bad, near=(80, 60)):
    """Of the strings in the register of formats those that are handed over with a bad level."""
    text = elf.sections[".text"][1]
    for m, string in elf.loads(formats):
        first = max(0, m.start() - near[0])
        seen = [(abs(x.start() - (m.start() - first)), x.group(0))
                for x in re.finditer(levels, text[first:m.end() + near[1]], re.S)]
        if seen and min(seen)[1] in bad:
            yield string


def nccl(_, data):
    yield from leveled(Elf(data), rb"\x4c\x8d[\x05\x0d]", rb"\xbf[\x01-\x06]\0\0\0", (b"\xbf\2\0\0\0",))


def ucx(_, data):
    elf = Elf(data)
    yield from leveled(elf, rb"\x4c\x8d\x0d", rb"\xb9[\x01-\x09]\0\0\0|\x31\xc9",
                       (b"\xb9\1\0\0\0", b"\xb9\2\0\0\0", b"\x31\xc9"))
    yield from elf.names("ucs_status_string")


def libfabric(_, data):
    elf = Elf(data)
    yield from leveled(elf, rb"\x4c\x8d\x0d", rb"\xbe[\x01-\x05]\0\0\0|\x31\xf6", (b"\x31\xf6",))
    table = [s for s in elf.words() if re.fullmatch(r"[A-Z][a-z]+( [a-z]+)+", s)]
    yield from (s for s in table if FAILS.search(s) or "not " in s)


def hydra(_, data):
    yield from (s for s in Elf(data).words()
                if FAILS.search(s) and " " in s and not re.search(r"^ |\t| --?\w|hwloc|XML|ynthetic|NUMA|HWLOC|^\*", s))


def mpich(_, data):
    elf = Elf(data)
    start, relocations = elf.sections[".rela.dyn"]
    places = {}
    for i in range(0, len(relocations), 24):
        at, info, addend = struct.unpack_from("<QQq", relocations, i)
        if info == 8:
            places[at] = addend
    for at, addend in sorted(places.items()):
        if at + 8 in places and (elf.string(addend) or "").startswith("**"):
            message = elf.string(places[at + 8]) or ""
            # "MPI_Send(...) failed" stands above the reason, which is another message.
            if FAILS.search(message) and PATHS.search(message) and not re.match(r"P?MPI_\w+(\(.*)? failed$|OFI call", message):
                yield message


def openmpi(name, data):
    own = re.match(r"help-(mpi-btl-tcp|oob|plm-base|errmgr|orterun|prterun|opal-shmem|mca-bml|mpi-runtime|"
                   r"orte-rmaps-base|prte-rmaps-base)", os.path.basename(name))
    if not own and not re.match(r"help-(mpi-common|mpi-pml|mtl-ofi|mpi-errors|opal-runtime|plm-rsh|prte-plm-rsh|"
                                r"pmix|prte\.|schizo|ras-)", os.path.basename(name)):
        return
    text = re.sub(r"^#.*\n?", "", data.decode("utf-8", "replace"), flags=re.M)
    topics = re.split(r"^\[.*\]$", text, flags=re.M)
    for topic in topics[1:]:
        lines = [x.strip() for x in topic.splitlines() if x.strip()]
        # Most topics of the other files tell of options.
        said = topic if own else " ".join(lines[:2])
        if lines and FAILS.search(said) and not re.match(r"Usage|usage|%s$|-", lines[0]):
            yield " ".join(lines[:2])


def torch(_, data):
    for s in Elf(data).words():
        if 16 <= len(s) <= 200 and FAILS.search(s) \
                and re.search(r"socket|TCPStore|Store|onnect|monitored|gloo|waiting", s) \
                and not re.search(r"INTERNAL ASSERT|->|::|_Z|operator|QNN|Algorithm|xnn_|\(\) \[", s):
            yield s


TAKE = {"nccl": nccl, "ucx": ucx, "libfabric": libfabric, "mpich": mpich, "hydra": hydra, "openmpi": openmpi, "torch": torch}


# ---- where they come from ----

def fetch_pip(what, pattern, folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", folder,
                    *what.split()], check=True, stdout=sys.stderr)
    wheel, = glob.glob(os.path.join(folder, "*.whl"))
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            # Where a link would be, a wheel has a small file that names its target.
            if re.fullmatch(pattern, name) and (name.endswith(".txt") or z.getinfo(name).file_size > 4096):
                yield name, z.read(name)


def fetch_apt(what, pattern, folder):
    subprocess.run(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *what.split()], check=True, cwd=folder)
    for package in glob.glob(os.path.join(folder, "*.deb")):
        subprocess.run(["dpkg", "-x", package, os.path.join(folder, "root")], check=True)
    root = os.path.join(folder, "root")
    for place, _, files in os.walk(root):
        for name in sorted(files):
            path = os.path.join(place, name)
            if re.fullmatch(pattern, os.path.relpath(path, root)) and not os.path.islink(path):
                with open(path, "rb") as f:
                    yield path, f.read()


def tidy(text):
    return re.sub(r"\s+", " ", text.replace("\\n", "\n").strip().split("\n\n")[0]).strip()[:CUT].strip()


def formats_of(source, cache):
    """What a version says, once each; of the cache if it was read before."""
    library, version, client, what, pattern = source
    kept = os.path.join(cache, "%s-%s.json" % (library, re.sub(r"[^\w.]+", "-", what)))
    if not os.path.exists(kept):
        with tempfile.TemporaryDirectory() as folder:
            fetch = {"pip": fetch_pip, "apt": fetch_apt}[client]
            said = sorted({tidy(s) for file in fetch(what, pattern, folder) for s in TAKE[library](*file)})
        print("%s %s: %d formats of %s" % (library, version, len(said), what), file=sys.stderr)
        if not said:
            sys.exit("%s: nothing was found in %s" % (what, pattern))
        with open(kept, "w", encoding="utf-8") as f:
            json.dump(said, f)
    with open(kept, encoding="utf-8") as f:
        return [s for s in json.load(f) if len(s) > 11 and " " in s and "\ufffd" not in s]


def read_sources(path):
    with open(path, encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f if line.strip() and line[0] != "#"]


# ---- what is found in them ----

def sample(text):
    def value(m):
        before = text[:m.start()]
        if m.group(0) in ("%s", "{}"):
            return "10.30.0.7<4000>" if re.search(r"(to|peer|from|address) $", before) else "gizmo"
        return "%" if m.group(0) == "%%" else "12"
    return FIELD.sub(value, text)


HEADS = {
    "nccl": "node-1:41:42 [0] x.cc:1 NCCL WARN ",
    "ucx": "[1724320872.1] [node-1:41   :0]  x.c:1    UCX  ERROR ",
    "libfabric": "libfabric:41:1724320872::core:core:frob():1<warn> ",
    "mpich": "Fatal error in internal_Send: Other MPI error, error stack:\nfrob(12)......: ",
    "hydra": "[proxy:0:1@node-2] frob (x.c:1): ",
    "torch": "RuntimeError: ",
}


def line_of(library, text):
    if library == "openmpi":
        return "%s\n%s\n%s\n" % ("-" * 74, sample(text), "-" * 74)
    return HEADS[library] + sample(text) + "\n"


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
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ringup", required=True)
    p.add_argument("--cache", required=True, metavar="DIR")
    p.add_argument("--sources", default=os.path.join(here, "sources.tsv"), metavar="FILE")
    args = p.parse_args()
    os.makedirs(args.cache, exist_ok=True)
    seen = {}
    for source in read_sources(args.sources):
        for text in formats_of(source, args.cache):
            first, _ = seen.get((source[0], text), (source[1], None))
            seen[source[0], text] = (first, source[1])
    print("# strings.txt - what libraries can say when they fail, and the signature; strings.py writes it.")
    for (library, text), (first, last) in sorted(seen.items()):
        what = signature(args.ringup, library, text)
        if what in ("X2", "X3", "-", "C5"):
            what += " " + ("quiet" if what == "-" else reason(library, text))
        print(library, first, last, what, text, sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main())
