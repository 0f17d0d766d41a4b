#!/usr/bin/env bats
# net-real-gloo.bats - real Gloo, asked in network namespaces, against `ringup net explain` and `lint`.
# needs: cpu root-net
# tests: src/nicpick src/host src/base src/cli/cmd_net*.c tests/net tests/lib/asked.bash tests/lib/space.bash tests/lib/real.bash

load ../lib/helper
load ../lib/real
load ../lib/settings
load ../lib/space
load ../lib/asked

setup_file() { asker_start; }
teardown_file() { asker_stop; }

setup() {
  here='' version=''
  space_open
}

teardown() {
  space_close
}

@test "lint: what it says of Gloo is what Gloo does, and its lines cure" {
  need_torch
  cable eth10 10.0.10.5/24
  cable eth1 10.0.1.5/24
  bridge docker0 172.17.0.1/16
  ip -n "$here" route add default via 10.0.1.1
  cured_gloo gloo-syntax =eth1
  cured_gloo gloo-unknown ETH1
  cured_gloo gloo-one-char e
  cured_gloo gloo-foreign docker0
  cured_gloo form-quotes '"eth1"'
}

@test "Gloo: names of interfaces" {
  need_torch
  cable eth0 10.0.0.5/24
  cable eth1 10.0.1.5/24
  bridge docker0 172.17.0.1/16
  same_gloo '127.0.1.1 node' - eth0 docker0 eth =eth0 eth0,eth1 e
}

@test "Gloo: the address of the host name" {
  need_torch
  cable eth0 10.0.0.5/24
  same_gloo '10.0.0.5 node' -
  same_gloo '10.99.0.5 node' -
  same_gloo '# nothing' -
}
