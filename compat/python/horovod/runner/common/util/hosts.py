# hosts.py - lists of hosts, and the ranks on each.
# SPDX-License-Identifier: Apache-2.0

import re
from dataclasses import dataclass


class HostInfo:
    """A host and its number of slots."""

    def __init__(self, hostname, slots):
        self.hostname = hostname
        self.slots = slots

    @staticmethod
    def from_string(host_string):
        """Return the HostInfo for "HOST:N"."""
        hostname, slots = host_string.strip().split(":")
        return HostInfo(hostname, int(slots))


@dataclass
class SlotInfo:
    """A rank and its place."""

    hostname: str
    rank: int
    local_rank: int
    cross_rank: int
    size: int
    local_size: int
    cross_size: int

    def to_response_string(self):
        """Return the numbers, separated by commas."""
        return ",".join(str(n) for n in (self.rank, self.size, self.local_rank, self.local_size,
                                         self.cross_rank, self.cross_size))


INVALID_SLOT_INFO = SlotInfo("", -1, -1, -1, -1, -1, -1)


def parse_host_files(filename):
    """Return "HOST:N,HOST:N" for a file with lines "HOST slots=N"."""
    hosts = []
    with open(filename, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.partition("#")[0].strip()
            if not line:
                continue
            m = re.fullmatch(r"(\S+)\s+slots\s*=\s*(\d+).*", line)
            if not m:
                raise ValueError(f"{filename}, line {number}: not \"HOST slots=N\": {line[:80]}")
            hosts.append(f"{m[1]}:{m[2]}")
    return ",".join(hosts)


def parse_hosts_and_slots(hosts):
    """Return (names, {name: slots}) for "HOST:N,HOST:N"."""
    names, slots = [], {}
    for host in hosts.split(","):
        m = re.fullmatch(r"([\w.-]+):([0-9]+)", host.strip())
        if not m:
            raise ValueError("Invalid host input, please make sure it has format as : "
                             f"worker-0:2,worker-1:2. It has {host.strip()[:80]!r}")
        names.append(m[1])
        slots[m[1]] = int(m[2])
    return names, slots


def parse_hosts(hosts_string):
    """Return a list of HostInfo for "HOST:N,HOST:N"."""
    return [HostInfo.from_string(s) for s in hosts_string.split(",")]


def get_host_assignments(hosts, min_num_proc, max_num_proc=None):
    """Return the SlotInfo of each rank; hosts are filled one after the other."""
    room = sum(h.slots for h in hosts)
    size = room if max_num_proc is None else min(room, max_num_proc)
    if size < min_num_proc:
        raise ValueError(f"Requested more processes ({min_num_proc}) than there are available "
                         f"slots ({size})")
    places = []  # (host, local rank, how many are there)
    for h in hosts:
        n = min(h.slots, size - len(places))
        places += [(h.hostname, i, n) for i in range(n)]
    cross = [[p[0] for p in places if p[1] == local] for _, local, _ in places]
    return [SlotInfo(host, rank, local, cross[rank].index(host), size, n, len(cross[rank]))
            for rank, (host, local, n) in enumerate(places)]
