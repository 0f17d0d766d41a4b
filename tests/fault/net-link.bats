#!/usr/bin/env bats
# net-link.bats - what becomes of a job when the link of one host goes: F11.
# proves: P4 of docs/RELIABILITY.md
# needs: waits root-net
# tests: src/api src/backend src/base src/coll src/engine src/host src/wire tests/fault tests/lib/fault.bash tests/lib/hosts.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts

setup() {
  fault_setup
  hosts_setup
}
teardown() { hosts_teardown; }

@test "F11 the link goes down, the address goes, the card goes: whose is said" {
  local at way there
  fault=11
  for way in "link set eth0 down" "addr flush dev eth0" "link del eth0"; do
    there='no interface of this host has 10.9.0.2 any more'
    [[ $way != link\ set\ * ]] || there='eth0 (10.9.0.2) is down on this host'
    what=$way
    spread -b 65536
    at=$("$strike" 0)
    # shellcheck disable=SC2086
    ip -n "$b" $way
    both_sides "$at"
    [[ $(grep -cE '^error [23] ' out) -eq $(grep -E '^error [23] ' out | grep -cF "; $there") ]] || { cat out; return 1; }
    [[ $way != link\ set\ * ]] ||
      [[ $(grep -E '^error [01] ' out | grep -cF '; eth0 (10.9.0.1) has no link on this host') -eq 2 ]] || { cat out; return 1; }
    # So do the warnings before that; a rank that had no processor for so long gives none.
    [[ $(grep -cE 'warn: rank [01] .* has been silent' err) -eq $(grep -E 'warn: rank [01] .* has been silent' err | grep -cF "; $there") ]] ||
      { cat err; return 1; }
    ip -n "$b" link del eth0 2>/dev/null || true
    ip -n "$a" link del eth0 2>/dev/null || true
    [[ $way != link\ del* ]] || break
    ip -n "$a" link add eth0 type veth peer name eth0 netns "$b"
    ip -n "$a" addr add 10.9.0.1/24 dev eth0
    ip -n "$b" addr add 10.9.0.2/24 dev eth0
    ip -n "$a" link set eth0 up
    ip -n "$b" link set eth0 up
    await link_up "$a"
    await link_up "$b"
  done
}

@test "F11 the link goes down, and the kernel gives up before we do: whose is said, too" {
  ip netns exec "$b" ss -K dst 10.9.0.99 >/dev/null 2>&1 || skip "this kernel ends no connections (ss -K)"
  fault=11 what="link down, connections ended"
  # The other host hears nothing, and has to find that out.
  export RINGUP_LOST_MS=10000
  spread -b 65536
  local at
  at=$("$strike" 0)
  ip -n "$b" link set eth0 down
  ip netns exec "$b" ss -K dst 10.9.0.1 >/dev/null
  both_sides "$at"
  [[ $(grep -E '^error [23] ' out | grep -cF 'died or was cut off; eth0 (10.9.0.2) is down on this host') -eq 2 ]] || { cat out; return 1; }
}
