#!/usr/bin/env bats
# network.bats - steps 60 and 70: the interface, and the network to other nodes.
# needs: cpu
# tests: init-scripts tests/lib/release.bash

load ../lib/helper
load ../lib/release

setup() { release_setup; }

@test "Databricks: an interface that is not the platform's is exit status 62" {
  release_installed
  DB_CONTAINER_IP=10.9.9.9 run "$init" --root "$root" network
  expect_status 62
  [[ $output == *"10.9.9.9"* ]]
}

@test "no interface, a tie, a wrong name: exit status 60, 61, 62; alone on a node none is needed" {
  release_installed
  rm "$state/state/60-network" "$root/etc/nccl.conf"
  NET='no interface reaches other hosts' run "$init" --root "$root" network
  expect_status 60
  NET='eth0 and eth1 tie (a route), and a wrong guess hangs the job' run "$init" --root "$root" network
  expect_status 61
  NET='--interface=eth7: no such interface; this host has eth0' RINGUP_INTERFACE=eth7 run "$init" --root "$root" network
  expect_status 62
  NET='nothing to configure: this host has no network' NET_STATUS=1 DB_DRIVER_IP=10.1.2.1 run "$init" --root "$root" network
  expect_status 60
  NET='nothing to configure: this host has no network' NET_STATUS=1 run "$init" --root "$root" network
  expect_status 0
  [[ $output == *"skipped: nothing to configure: this host has no network"* ]]
}

# peers_fact - what the verify step says of other nodes.
peers_fact() { json 'f("verify")["peers"]'; }

@test "the network to the other nodes is checked, where they are known and ssh does not ask" {
  local self
  self=$(uname -n)
  unset RINGUP_PEERS SLURM_JOB_NODELIST PBS_NODEFILE LSB_HOSTS
  release_installed
  [[ $(peers_fact) == "skipped: no other node is known" && ! -e $T/checks ]]
  stub ssh 'exit 255'
  RINGUP_PEERS="node-b, node-c" run "$init" --root "$root"
  expect_status 0
  [[ $(peers_fact) == "skipped: ssh to $self asks for a password or fails" && ! -e $T/checks ]]
  stub ssh
  RINGUP_PEERS=node-b,node-d run "$init" --root "$root"
  expect_status 0
  [[ $(peers_fact) == "no problems between 2 nodes" ]]
  grep -qE "^net check --quick --ringup [^ ]+ $self node-b node-d\$" "$T/checks"
  # Of a scheduler's nodes the first one checks.
  LSB_HOSTS="node-b node-b $self" run "$init" --root "$root"
  expect_status 0
  [[ $(peers_fact) == "skipped: the driver, or node-b, checks the network" ]]
  printf '%s\n' "$self" "$self" node-e >"$T/nodes"
  PBS_NODEFILE=$T/nodes run "$init" --root "$root"
  expect_status 0
  [[ $(tail -n 1 "$T/checks") == *" $self node-e" ]]
}

@test "a network that is not in order: exit status 71, or degraded" {
  stub ssh
  release_installed
  VERDICT='node-b does not reach node-c' RINGUP_PEERS=node-b run "$init" --root "$root"
  expect_status 71
  [[ $(json 's["code"], s["result"], s["cause"]') == "(71, 'failed', 'the network between 2 nodes: node-b does not reach node-c')" ]]
  VERDICT='node-b does not reach node-c' RINGUP_PEERS=node-b RINGUP_ON_FAILURE=degrade run "$init" --root "$root"
  expect_status 0
  [[ $(json 's["result"]') == degraded ]]
}

@test "a link that goes down while all is verified is reported" {
  release_installed
  rm "$state/state/70-verify" "$T/watcher"
  CHANGE='eth0: it has no carrier any more' run "$init" --root "$root"
  expect_status 0
  [[ $(json '"the network changed during the check: eth0: it has no carrier any more" in s["warnings"]') == True ]]
  not kill -0 "$(cat "$T/watcher")"
}
