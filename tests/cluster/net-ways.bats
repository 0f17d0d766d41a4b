#!/usr/bin/env bats
# net-ways.bats - faults that `net check` has to name: parts of port ranges, NAT, names, neighbours, source routing.
#
# A full table of neighbours is not among these scenes, since all namespaces of a kernel share one: a test that filled it
# would cut off the machine.  test_neigh.c reads the kernel's counter, test_verdict.c has what is said of it.
# needs: waits root-net
# tests: src/probe src/nicpick/own.c src/settle src/cli/cmd_net.c src/cli/cmd_net_check.c src/cli/cmd_net_fix.c src/cli/cmd_net_agent.c tests/lib/nodes.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/nodes

setup() { nodes_setup; }
teardown() { nodes_teardown; }

# finding CODE - the sentence of the first finding of that kind.
finding() { jq -r --arg c "$1" '[.findings[] | select(.code == $c)][0].what' <<<"$facts"; }

@test "a healthy matrix has no mark: loopback addresses are not tried between nodes" {
  cluster 2
  check --quick
  expect 0 jq '[.paths[] | select(.state != "open" or (.address | startswith("127.")) or .address == "::1")] | length' <<<"$facts"
}

@test "a firewall that closes a part of the ephemeral ports, in, out or both, is one finding" {
  need_nft
  local what
  cluster 2
  wall "c2-$$" "tcp dport 40000-60999 tcp flags & (syn|ack) == syn drop"
  check --quick
  [[ $status -eq 1 ]]
  expect 1 jq '[.findings[] | select(.from)] | length' <<<"$facts"
  what=$(finding one-direction)
  [[ $what == *" 44"*" and "[56]*"the firewall of"* && $what != *" 3"[234]* ]] || { echo "$what"; return 1; }
  at "$n2" nft flush ruleset
  at "$n2" nft -f - <<<'table inet t { chain c { type filter hook output priority 0; tcp dport 33000-40000 tcp flags & (syn|ack) == syn drop; }; }'
  check --quick
  what=$(finding one-direction)
  [[ $what == *" 3"* && $what != *" "[456]* ]] || { echo "$what"; return 1; }
  at "$n2" nft flush ruleset
  at "$n2" nft -f - <<<'table inet t { chain i { type filter hook input priority 0; tcp dport 40000-60999 tcp flags & (syn|ack) == syn drop; }; chain o { type filter hook output priority 0; tcp dport 40000-60999 tcp flags & (syn|ack) == syn drop; }; }'
  check --quick
  expect 1 jq '[.findings[] | select(.code | test("connection|direction|cut-off|no-way"))] | length' <<<"$facts"
  what=$(finding no-connection)
  [[ $what == *" 44"*" and "[56]*"the firewall of c2-$$ itself" && $what != *" 3"[234]* ]] || { echo "$what"; return 1; }
}

@test "torchrun's own port alone" {
  need_nft
  cluster 2
  wall "c2-$$" "tcp dport 29400 tcp flags & (syn|ack) == syn drop"
  check --quick
  [[ $(finding one-direction) == *"port 29400 (rendezvous)"* ]] || { finding one-direction; return 1; }
}

@test "two swapped lines of /etc/hosts" {
  cluster 3
  # The user gives addresses; the nodes' own names are asked for, too.
  local node
  for node in 1 2 3; do
    mkdir -p "/etc/netns/c$node-$$"
    printf '127.0.0.1 localhost\n10.8.0.1 c1-%s\n10.8.0.%s c2-%s\n10.8.0.%s c3-%s\n' $$ $((node == 1 ? 3 : 2)) $$ $((node == 1 ? 2 : 3)) $$ >"/etc/netns/c$node-$$/hosts"
  done
  check --quick
  rm -rf "/etc/netns/c"[123]"-$$"
  [[ $status -eq 1 && $(finding wrong-name) == *"resolves to 10.8.0.3, which is"* ]] || { finding wrong-name; return 1; }
}

@test "rules by source address: the node has no way, and no firewall is blamed" {
  cluster 2
  ip -n "$n1" rule add from 10.8.0.1 table 77
  ip -n "$n1" route add unreachable default table 77
  check --quick
  [[ $status -eq 1 ]]
  not jq -e '[.findings[] | .what + .why + .next] | any(contains("security group"))' <<<"$facts"
  expect true jq '[.findings[].command] | any(contains("ip route get"))' <<<"$facts"
  expect true jq '[.findings[] | .next == .fix and .command == .run] | all' <<<"$facts"
}

@test "a wrong, permanent neighbour entry" {
  cluster 2
  ip -n "$n1" neigh replace 10.8.0.2 lladdr 02:00:00:00:00:77 dev eth0 nud permanent
  check --quick
  [[ $status -eq 1 && $(finding wrong-neighbour) == *"10.8.0.2 maps to 02:00:00:00:00:77"* ]] || { finding wrong-neighbour; return 1; }
  expect 0 jq '[.findings[] | select(.code == ("no-connection", "cut-off", "one-direction", "no-network"))] | length' <<<"$facts"
}

@test "a node behind a router that translates addresses" {
  need_nft
  local node=cn-$$ router=cr-$$
  cluster 2
  nodes+=("$node" "$router")
  ip netns add "$router"
  ip netns add "$node"
  ip -n "$router" link add wan type veth peer name pr netns "$switch"
  ip -n "$switch" link set pr master switch up
  ip -n "$router" addr add 10.8.0.50/24 dev wan
  ip -n "$router" link add lan type veth peer name eth0 netns "$node"
  ip -n "$router" addr add 192.168.9.1/24 dev lan
  ip -n "$node" addr add 192.168.9.3/24 dev eth0
  for link in "$router wan" "$router lan" "$node lo" "$node eth0"; do ip -n "${link% *}" link set "${link#* }" up; done
  ip -n "$node" route add default via 192.168.9.1
  at "$router" sysctl -qw net.ipv4.ip_forward=1
  at "$router" nft -f - <<<'table ip t { chain c { type nat hook postrouting priority 100; oifname wan masquerade; }; }'
  nodes=("${nodes[@]:0:2}" "$node")
  check --quick
  nodes+=("$router")
  [[ $(finding address-translation) == "connections from $node arrive from 10.8.0.50, which $node does not have: NAT" ]] || { finding address-translation; return 1; }
  expect 0 jq '[.findings[] | select(.code == ("no-way-in", "one-direction", "no-connection"))] | length' <<<"$facts"
}

@test "an address on a bridge over the card, without a default route: net fix settles on it" {
  local node
  cluster 2
  for node in "$n1" "$n2"; do
    ip -n "$node" addr flush dev eth0
    ip -n "$node" link add br0 type bridge
    ip -n "$node" link set eth0 master br0
    ip -n "$node" addr add "10.8.0.${node:1:1}/24" dev br0
    ip -n "$node" link set br0 up
  done
  await link_up "$n1" br0
  await link_up "$n2" br0
  run ringup net fix --dry-run --ssh 'ip netns exec' --nodes "${nodes[@]}"
  [[ ${lines[0]} == *br0* ]] || { echo "$output"; return 1; }
}
