#!/usr/bin/env python3
# check_nodes.py - time ringup net check between many nodes whose ports are open or filtered.
# SPDX-License-Identifier: Apache-2.0
"""Makes a network namespace per node and a router between them, and prints how long
`ringup net check` takes, by its own clock.  (At one switch more than 32 nodes would not fit into
the kernel's one table of neighbours, which all namespaces share.)

    tests/peers/check_nodes.py --ringup build/ringup --nodes 16,64 --rounds 3

What the nodes' firewalls drop without a word:

    open      nothing
    filtered  every connection that somebody begins
    store     the port of torch's store, on all nodes
    half      every connection, on every second node
    hole      packets of more than 1,400 bytes, on every second node

--addresses gives each node so many networks, each with a cable of its own.  All nodes share
the processors of this machine, which is the worst case: on a cluster each agent has its own.

Needs root, iproute2 and nftables.  Nothing stays behind.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

RULES = {
    "open": None,
    "filtered": "tcp flags & (syn|ack) == syn drop",
    "store": "tcp dport 29500 drop",
    "half": "tcp flags & (syn|ack) == syn drop",
    "hole": "meta length 1400-65535 drop",
}
EVERY_SECOND = ("half", "hole")


def do(*argv, stdin=None):
    subprocess.run(argv, input=stdin, text=True, check=True)


class Cluster:
    """Nodes with a cable each to a router, gone when it is over."""

    def __init__(self, nodes, addresses):
        self.router = f"ns{os.getpid()}"
        self.nodes = [f"nc{os.getpid()}-{i}" for i in range(1, nodes + 1)]
        self.addresses = addresses

    def __enter__(self):
        do("ip", "netns", "add", self.router)
        self.sysctl(self.router, "net.ipv4.ip_forward=1")
        for i, node in enumerate(self.nodes, 1):
            do("ip", "netns", "add", node)
            self.sysctl(node, "net.ipv6.conf.all.disable_ipv6=1",
                        "net.ipv6.conf.default.disable_ipv6=1")
            self.batch(node, ["link set lo up"])
            for k in range(self.addresses):
                self.cable(node, i, k)
        return self

    def cable(self, node, i, k):
        """One more network of a node: 10.(8+k).0.i, and the router as the way to all others."""
        net, port = f"10.{8 + k}.0", f"p{i}-{k}"
        self.batch(node, [f"link add eth{k} type veth peer name {port} netns {self.router}"])
        self.batch(self.router, [f"addr add {net}.254/32 dev {port}", f"link set {port} up",
                                 f"route add {net}.{i}/32 dev {port}"])
        self.batch(node, [f"addr add {net}.{i}/32 dev eth{k}", f"link set eth{k} up",
                          f"route add {net}.254/32 dev eth{k}",
                          f"route add {net}.0/24 via {net}.254 dev eth{k} src {net}.{i}"])

    def __exit__(self, *_):
        for node in [self.router, *self.nodes]:
            subprocess.run(["ip", "netns", "del", node], check=False)

    @staticmethod
    def sysctl(node, *words):
        do("ip", "netns", "exec", node, "sysctl", "-qw", *words)

    @staticmethod
    def batch(node, commands):
        do("ip", "-n", node, "-batch", "-", stdin="\n".join(commands))

    def wall(self, what):
        """The same firewall on all nodes that have one, instead of the one before."""
        for i, node in enumerate(self.nodes):
            text = "flush ruleset\n"
            if RULES[what] and not (what in EVERY_SECOND and i % 2):
                text += ("table inet wall { chain c {\ntype filter hook input priority 0\n"
                         f"iifname \"eth*\" {RULES[what]}\n}}\n}}\n")
            do("ip", "netns", "exec", node, "nft", "-f", "-", stdin=text)


def check(ringup, nodes):
    """What it tells, and the seconds of processor time of all that was started."""
    before = os.times()
    p = subprocess.run([ringup, "net", "check", "--json", "--ssh", "ip netns exec", *nodes],
                       stdout=subprocess.PIPE, text=True, check=False)
    after = os.times()
    if p.returncode > 1:
        sys.exit(f"check_nodes.py: exit status {p.returncode}")
    spent = (after.children_user + after.children_system
             - before.children_user - before.children_system)
    return json.loads(p.stdout), spent


def describe(told):
    states = {}
    for path in told["paths"]:
        states[path["state"]] = states.get(path["state"], 0) + 1
    lost = sum(1 for n in told["nodes"] if n.get("error"))
    measured = sum(1 for p in told["paths"] if p.get("latency_us"))
    return (", ".join(f"{n:,} {s}" for s, n in sorted(states.items()))
            + f"; {measured:,} measured" + (f"; {lost} NODES LOST" if lost else ""))


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--ringup", default="ringup")
    ap.add_argument("--nodes", default="16,64")
    ap.add_argument("--addresses", type=int, default=1)
    ap.add_argument("--what", default=",".join(RULES), help="of " + ", ".join(RULES))
    ap.add_argument("--rounds", type=int, default=3)
    args = ap.parse_args()
    if os.geteuid():
        sys.exit("check_nodes.py: needs root")
    print("| nodes | addresses | ports | seconds: median (least-most) | processor, s | paths |")
    print("|---|---|---|---|---|---|")
    for n in (int(word) for word in args.nodes.split(",")):
        with Cluster(n, args.addresses) as cluster:
            for what in args.what.split(","):
                cluster.wall(what)
                runs = [check(os.path.abspath(args.ringup), cluster.nodes)
                        for _ in range(args.rounds)]
                took = [told["seconds"] for told, _ in runs]
                print(f"| {n} | {args.addresses} | {what} | {statistics.median(took):.1f} "
                      f"({min(took):.1f}-{max(took):.1f}) "
                      f"| {statistics.median(s for _, s in runs):.1f} "
                      f"| {describe(runs[-1][0])} |", flush=True)


if __name__ == "__main__":
    main()
