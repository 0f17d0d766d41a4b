#!/usr/bin/env bats
# check-duplicates.bats - `ringup net check` where several nodes have the same address.
# needs: waits root-net
# tests: src/probe src/detect/netfacts.c src/settle src/nicpick src/host src/base src/cli/cmd_net.c src/cli/cmd_net_check.c src/cli/cmd_net_agent.c tests/lib/nodes.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/nodes

setup() { nodes_setup; }
teardown() { nodes_teardown; }

# twins - c1 to c3, of which the last two have the same address.
twins() {
  cluster 3
  ip -n "$n3" addr flush dev eth0
  ip -n "$n3" addr add 10.8.0.2/24 dev eth0
}

# taken_for NODE [permanent|reachable] - n1 sends to that one what is for their address.
taken_for() {
  ip -n "$n1" neigh replace 10.8.0.2 dev eth0 nud "${2:-permanent}" \
    lladdr "$(ip -n "$1" -j link show eth0 | jq -r '.[0].address')"
}

# told_apart - the verdict names the two, and of n1 no answer was taken for the other's.
told_apart() {
  check
  expect true jq --arg begin "10.8.0.2 is eth0 of $n2 and $n3" '.verdict | startswith($begin)' <<<"$facts"
  expect true jq --arg f "$n1" --arg a "$n2" --arg b "$n3" '
    [.paths[] | select(.from == $f and .address == "10.8.0.2")] | all(.answered == null or .answered == $a or .answered == $b) and
    all((.state == "open") == (.answered == .to))' <<<"$facts"
  [[ $status -eq 1 ]]
  expect impostor paths "$n2" "$n3"
  expect "[\"$n2\"]" jq -c --arg f "$n2" --arg t "$n3" '[.paths[] | select(.from == $f and .to == $t and .address == "10.8.0.2") | .answered] | unique' <<<"$facts"
}

@test "the same address twice: who really answered is known" {
  twins
  local right wrong
  for right in "$n2" "$n3"; do
    wrong=$n2
    [[ $right != "$n2" ]] || wrong=$n3
    taken_for "$right"
    told_apart
    expect open paths "$n1" "$right"
    expect impostor paths "$n1" "$wrong"
    expect "[\"$right\"]" jq -c --arg f "$n1" '[.paths[] | select(.from == $f and .address == "10.8.0.2") | .answered] | unique' <<<"$facts"
  done
}

@test "the same address twice: they are told apart whoever answers, and while that changes" {
  twins
  told_apart
  while sleep 0.05; do taken_for "$n2" reachable && sleep 0.05 && taken_for "$n3" reachable; done 3>&- &
  changer=$!
  told_apart
}

@test "docker0 on all nodes: each one speaks to itself" {
  cluster 2
  local n
  for n in "${nodes[@]}"; do
    ip -n "$n" link add docker0 type bridge
    ip -n "$n" addr add 172.17.0.1/16 dev docker0
    ip -n "$n" link set docker0 up
  done
  check
  [[ $status -eq 1 ]]
  expect impostor paths "$n1" "$n2" 172.17.0.1
  expect "$n1" jq -r --arg f "$n1" '[.paths[] | select(.from == $f and .address == "172.17.0.1") | .answered] | unique[]' <<<"$facts"
  expect open paths "$n1" "$n2" 10.8.0.2
}
