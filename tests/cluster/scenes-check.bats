#!/usr/bin/env bats
# scenes-check.bats - `ringup net check` of clusters that are broken in the ways that jobs hang for.
# needs: waits root-net
# tests: src/nicpick src/probe src/detect/netfacts.c src/settle src/diagnose src/host src/base src/cli/cmd_net*.c src/cli/cmd_diagnose.c tests/lib/scenes.bash tests/lib/hosts.bash tests/lib/real.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/real
load ../lib/scenes

setup() { scenes_setup; }
teardown() { cluster_down; }

# well - nothing but perhaps its speed is wrong with the network of n1, n2 and n3.
well() {
  at n1 ringup net check --json --timeout 60 --ssh /run/nodes/rsh n1 n2 n3 >facts || true
  level facts >level
  run at n1 ringup net check --from "$PWD/level"
  first_line 0 'no problems between 3 nodes'
}

@test "check: all is well, also with IPv6 alone" {
  cluster_up 3
  well
  cluster_down
  cluster_up 3 ipv6
  well
}

@test "check: the address of docker0, idle or with a container, before eth0 or after" {
  local kind
  for kind in docker docker-first docker-running; do
    cluster_up 3 "$kind"
    verdict 1 '172.17.0.1 is docker0 of n1, n2 and n3*'
    cluster_down
  done
}

@test "check: the firewall of one node, and how it says no" {
  need_nft
  cluster_up 3
  firewall n2 drop
  verdict 1 '*reach n2 *filtered*'
  heal n2 input
  firewall n2 'reject with tcp reset'
  verdict 1 '*reach n2 *refused*'
  heal n2 input
  firewall n2 'reject with icmpx admin-prohibited'
  verdict 1 '*reach n2 *prohibited*'
}

@test "check: the rule of the one that connects, whatever its chain is called" {
  need_nft
  cluster_up 3
  at n1 nft -f - <<<'table inet jobs { chain c { type filter hook output priority 0; ip daddr 10.77.0.2 drop; }; }'
  at n2 nft -f - <<<'table inet jobs { chain c { type filter hook input priority 0; ip saddr 192.0.2.0/24 drop; }; }'
  verdict 1 'n1 *n2 *filtered*: the firewall of n1 itself*'
  [[ $output == *'This rule of n1 explains it: nft: table inet jobs chain c (output): ip daddr 10.77.0.2 drop'* ]]
}

@test "check: jumbo frames that do not reach one node" {
  cluster_up 3
  black_hole 3 2
  verdict 1 'MTU black hole to and from n2: 9000 bytes at both ends, 1500 in between*'
}

@test "check: an address that two nodes have" {
  cluster_up 3
  room ip -n n3 address flush dev eth0
  room ip -n n3 address add 10.77.0.2/24 dev eth0
  verdict 1 '10.77.0.2 is eth0 of n2 and n3*'
}

@test "check: an interface that comes first and leads nowhere" {
  cluster_up 3 management
  verdict 1 'eth1 reaches no other node*'
}

@test "check: cards with other names" {
  cluster_up 3 names
  verdict 1 '10.77.0.0/24 is named ens5 on n2, but eth0 on other nodes*'
}

@test "check: a node whose name is its loopback" {
  cluster_up 3 loopback-name
  verdict 1 "on n1, n2 and n3, the host's own name resolves to 127.0.1.1*"
}

@test "check over real ssh names the address that both nodes have" {
  need_ssh
  cluster_up 2 docker
  ssh_up 2
  run at n1 ringup net check --timeout 60 n1 n2
  first_line 1 '172.17.0.1 is docker0 of n1 and*n2*'
}
