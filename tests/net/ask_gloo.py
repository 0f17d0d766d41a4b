# ask_gloo.py - what real Gloo listens on, for each value of GLOO_SOCKET_IFNAME.
# SPDX-License-Identifier: Apache-2.0
"""Usage: ask_gloo.py DIR VALUE...

For each VALUE ("-": not set) two ranks of torch.distributed meet through a file
in DIR; prints "VALUE|ADDRESS ..." as the kernel lists rank 1's listening
sockets, or "VALUE|refuses".  torch is imported once and the ranks are forked.
"""

import datetime
import os
import socket
import struct
import sys

import torch
import torch.distributed


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


def be_rank(rank, where, out):
    """Meet the other rank, and let rank 1 tell what it listens on."""
    try:
        torch.distributed.init_process_group(
            "gloo",
            init_method="file://" + where,
            rank=rank,
            world_size=2,
            timeout=datetime.timedelta(seconds=20),
        )
        torch.distributed.all_reduce(torch.ones(1))
        said = " ".join(listening())
        torch.distributed.barrier()
    except (RuntimeError, ValueError):
        said = "refuses"
    if rank == 1:
        os.write(out, said.encode())
    os._exit(0)


def ask(value, where):
    """What rank 1 says with GLOO_SOCKET_IFNAME=value."""
    os.environ.pop("GLOO_SOCKET_IFNAME", None)
    if value != "-":
        os.environ["GLOO_SOCKET_IFNAME"] = value
    back, out = os.pipe()
    ranks = []
    for rank in (0, 1):
        pid = os.fork()
        if not pid:
            be_rank(rank, where, out)
        ranks.append(pid)
    os.close(out)
    with os.fdopen(back) as said:
        text = said.read()
    for pid in ranks:
        os.waitpid(pid, 0)
    return text


def main():
    """Ask for every value in turn."""
    for i, value in enumerate(sys.argv[2:]):
        print("%s|%s" % (value, ask(value, os.path.join(sys.argv[1], "meet%d" % i))), flush=True)


main()
