# ask_many.py - real NCCL and Gloo, loaded once and asked again and again, in any network namespace.
# SPDX-License-Identifier: Apache-2.0
"""Usage: ask_many.py REQUESTS ANSWERS

Reads requests from the FIFO REQUESTS and writes a line to the FIFO ANSWERS when it has done with
one.  A request is the number of its words and then the words, each ended by a NUL:

    nccl LOG NETNS LIBRARY VAR=VALUE...    make a unique id, which needs no GPU and binds the
                                           bootstrap's socket; LOG has what the library says, and
                                           "refuses RESULT" if it returns an error
    gloo LOG NETNS HOSTS DIR VALUE...      for each VALUE of GLOO_SOCKET_IFNAME ("-": not set) let
                                           two ranks of torch.distributed meet through a file in
                                           DIR; LOG has "VALUE|ADDRESS ..." as the kernel lists
                                           rank 1's listening sockets, or "VALUE|refuses"

Each is carried out by a fork, in that network namespace and with those variables and no others.
For gloo the host is called node, and HOSTS is its /etc/hosts.  A library is loaded when it is first
asked; the line is "no ..." where that cannot be done.
"""

import ctypes
import datetime
import os
import signal
import socket
import struct
import sys

NEWNS, NEWUTS, NEWNET = 0x20000, 0x4000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
HANG_SECONDS = 200

PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def sure(result, what):
    """The kernel has done it, or the fork ends with what it says."""
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)


def enter(netns, variables):
    """Go there, and forget the environment."""
    with open("/run/netns/" + netns, encoding="ascii") as there:
        sure(libc.setns(there.fileno(), NEWNET), netns)
    os.environ.clear()
    os.environ.update(v.split("=", 1) for v in variables)


def be_node(hosts):
    """A host called node that reads HOSTS."""
    sure(libc.unshare(NEWNS | NEWUTS), "unshare")
    sure(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "/")
    sure(libc.mount(hosts.encode(), b"/etc/hosts", None, MS_BIND, None), hosts)
    socket.sethostname("node")


def own_inodes():
    """Inodes of this process's sockets."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink("/proc/self/fd/" + fd)
        except OSError:
            continue
        if link.startswith("socket:["):
            found.add(link[8:-1])
    return found


def listening():
    """Addresses on which this process listens, sorted."""
    mine, found = own_inodes(), set()
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with open("/proc/self/net/" + name, encoding="ascii") as lines:
            for line in list(lines)[1:]:
                field = line.split()
                if field[3] != "0A" or field[9] not in mine:
                    continue
                raw = field[1].split(":")[0]
                words = [int(raw[i : i + 8], 16) for i in range(0, len(raw), 8)]
                found.add(socket.inet_ntop(family, struct.pack("=%dI" % len(words), *words)))
    return sorted(found)


def be_rank(distributed, ones, rank, where, out):
    """Meet the other rank, and let rank 1 tell what it listens on."""
    try:
        distributed.init_process_group(
            "gloo",
            init_method="file://" + where,
            rank=rank,
            world_size=2,
            timeout=datetime.timedelta(seconds=60),
        )
        distributed.all_reduce(ones(1))
        said = " ".join(listening())
        distributed.barrier()
    except (RuntimeError, ValueError):
        said = "refuses"
    if rank == 1:
        os.write(out, said.encode())
    os._exit(0)


def ask_gloo(loaded, directory, values):
    """What rank 1 says with each of them."""
    for i, value in enumerate(values):
        os.environ.pop("GLOO_SOCKET_IFNAME", None)
        if value != "-":
            os.environ["GLOO_SOCKET_IFNAME"] = value
        back, out = os.pipe()
        ranks = []
        for rank in (0, 1):
            pid = os.fork()
            if not pid:
                be_rank(*loaded, rank, os.path.join(directory, "meet%d" % i), out)
            ranks.append(pid)
        os.close(out)
        with os.fdopen(back) as said:
            print("%s|%s" % (value, said.read()), flush=True)
        for pid in ranks:
            os.waitpid(pid, 0)


def ask_nccl(library):
    """Make an id."""
    result = library.ncclGetUniqueId(ctypes.create_string_buffer(128))
    if result:
        print("refuses", result, flush=True)


def load(kind, name, cache={}):
    """The library, which stays loaded."""
    if name not in cache:
        if kind == "nccl":
            cache[name] = ctypes.CDLL(name)
        else:
            import torch
            import torch.distributed as distributed

            if not distributed.is_gloo_available():
                raise ImportError("torch has no Gloo")
            cache[name] = (distributed, torch.ones)
    return cache[name]


def carry_out(kind, log, netns, words):
    """In a fork, which does not come back."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    signal.alarm(HANG_SECONDS)
    if kind == "nccl":
        enter(netns, words[1:])
        ask_nccl(load(kind, words[0]))
    else:
        enter(netns, [])
        be_node(words[0])
        ask_gloo(load(kind, "torch"), words[1], words[2:])
    sys.stdout.flush()
    libc.fflush(None)  # NCCL's own words
    os._exit(0)


def answer(words):
    """Do what is asked; the line that tells of it."""
    kind, log, netns = words[:3]
    try:
        load(kind, words[3] if kind == "nccl" else "torch")
    except (ImportError, OSError) as why:
        return "no " + str(why).replace("\n", " ")
    pid = os.fork()
    if not pid:
        try:
            carry_out(kind, log, netns, words[3:])
        except BaseException as why:
            print(why, file=sys.stderr, flush=True)
        os._exit(1)
    return "done %d" % os.waitpid(pid, 0)[1]


def main():
    """Until nobody asks any more."""
    sure(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")
    # Both ends are held open, so that those who ask may come and go.
    requests = os.fdopen(os.open(sys.argv[1], os.O_RDWR), "rb", 0)
    answers = os.open(sys.argv[2], os.O_RDWR)

    def word():
        found = b""
        while not found.endswith(b"\0"):
            found += requests.read(1)
        return os.fsdecode(found[:-1])

    while True:
        words = [word() for _ in range(int(word()))]
        os.write(answers, answer(words).encode() + b"\n")


main()
