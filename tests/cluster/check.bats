#!/usr/bin/env bats
# check.bats - `ringup net check` between nodes that are network namespaces, broken in every way.
# needs: waits root-net
# tests: src/probe src/detect/netfacts.c src/settle src/nicpick src/host src/base src/cli/cmd_net.c src/cli/cmd_net_check.c src/cli/cmd_net_agent.c tests/lib/nodes.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/nodes

setup() { nodes_setup; }
teardown() { nodes_teardown; }

@test "all is open, measured, and nothing is left on any node" {
  cluster 3
  check
  local a b
  for a in "$n1" "$n2" "$n3"; do
    for b in "$n1" "$n2" "$n3"; do
      [[ $a == "$b" ]] || expect open paths "$a" "$b"
    done
  done
  expect 6 jq '[.paths[] | select((.address | startswith("10.")) and .latency_us.median > 0 and .bandwidth_mbs > 0 and .mtu.df == 1472 and .mtu.segment)] | length' <<<"$facts"
  expect '["ephemeral","registered","rendezvous","sample 1","sample 2","sample 3","sample 4","sample 5","sample 6","store"]' jq -c '[.paths[].port.kind] | unique' <<<"$facts"
  expect eth0 jq -r --arg f "$n1" --arg t "$n2" '[.paths[] | select(.from == $f and .to == $t and .address == "10.8.0.2") | .via] | unique[]' <<<"$facts"
  expect 10.8.0.1 jq -r --arg f "$n1" --arg t "$n2" '[.paths[] | select(.from == $f and .to == $t and .address == "10.8.0.2") | .source] | unique[]' <<<"$facts"
  expect true jq '[.nodes[] | .error == null and (.snapshot.interfaces | length) > 1 and (.uses | length) > 3] | all' <<<"$facts"
  await no_agents
}

@test "--quick leaves bandwidth out" {
  cluster 2
  check --quick
  expect 0 jq '[.paths[] | select(.bandwidth_mbs)] | length' <<<"$facts"
  expect 2 jq '[.paths[] | select((.address | startswith("10.")) and .latency_us.min > 0)] | length' <<<"$facts"
}

@test "refused: a firewall that resets" {
  cluster 3
  wall "c2-$$" "tcp dport 1024-65535 tcp flags & (syn|ack) == syn reject with tcp reset"
  check
  [[ $status -eq 1 ]]
  expect refused paths "$n1" "$n2"
  expect open paths "$n2" "$n1"
  expect open paths "$n1" "$n3"
  expect ECONNREFUSED jq -r --arg t "$n2" '[.paths[] | select(.to == $t and .state == "refused" and (.address | startswith("10."))) | .errno] | unique[]' <<<"$facts"
  jq -e --arg n "$n2" '.nodes[] | select(.name == $n) | .firewall[0] | contains("reject with tcp reset")' <<<"$facts"
}

@test "filtered: a firewall that drops, in one direction" {
  cluster 3
  wall "c2-$$" "ip saddr 10.8.0.1 tcp flags & (syn|ack) == syn drop"
  check
  [[ $status -eq 1 ]]
  expect filtered paths "$n1" "$n2"
  expect open paths "$n2" "$n1"
  expect open paths "$n3" "$n2"
}

@test "prohibited: a firewall that says so, on some ports" {
  cluster 2
  wall "c2-$$" "tcp dport 29500 reject with icmpx admin-prohibited" "tcp dport 1024 reject"
  check
  [[ $status -eq 1 ]]
  expect prohibited paths "$n1" "$n2" 10.8.0.2 store
  expect prohibited paths "$n1" "$n2" 10.8.0.2 registered
  expect open paths "$n1" "$n2" 10.8.0.2 ephemeral
}

@test "unreachable: no route" {
  cluster 3
  ip -n "$n3" addr flush dev eth0
  ip -n "$n3" addr add 10.99.0.3/24 dev eth0
  check
  [[ $status -eq 1 ]]
  expect unreachable paths "$n1" "$n3"
  expect ENETUNREACH jq -r --arg t "$n3" '[.paths[] | select(.to == $t and .address == "10.99.0.3") | .errno] | unique[]' <<<"$facts"
  expect open paths "$n1" "$n2"
}

@test "a black hole for large packets: connections stand, segments do not arrive" {
  cluster 3
  wall "c2-$$" "meta length 1400-65535 drop"
  check
  expect open paths "$n1" "$n2"
  expect '{"link":1500,"df":1252,"segment":false}' jq -c --arg f "$n1" --arg t "$n2" \
    '.paths[] | select(.from == $f and .to == $t and .mtu and (.address | startswith("10."))).mtu' <<<"$facts"
  expect true jq -c --arg f "$n1" --arg t "$n3" '.paths[] | select(.from == $f and .to == $t and .mtu and (.address | startswith("10."))).mtu.segment' <<<"$facts"
}

@test "jumbo frames at both ends and none in between" {
  cluster 2
  ip -n "$n1" link set eth0 mtu 9000
  ip -n "$n2" link set eth0 mtu 9000
  check
  # Segments of veth's kind are let through in between; datagrams are not.
  expect '[[9000,1472]]' jq -c '[.paths[] | select(.mtu and (.address | startswith("10."))).mtu | [.link, .df]] | unique' <<<"$facts"
}
