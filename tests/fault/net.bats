#!/usr/bin/env bats
# net.bats - what becomes of a job on two hosts when the network breaks: F3, F7-F9, F12, F16.
# proves: P2 P4 of docs/RELIABILITY.md
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

@test "F3 a rank that is killed on one host is named on both" {
  fault=3 what="kill -9 on the other host"
  no_clock
  local at
  for _ in 1 2 3; do
    spread -b 65536
    at=$("$strike" 9 "$(pid_of 3)")
    await said 3 error
    wait
    blamed 3 3 -5 died
    took=$(after "$at" error)
    noted
  done
}

# leader_killed RANK - kill the leader of a host, which would tell the other host of it: there two ranks know
# only that its connection has ended, and the one that is left on its host that its process has.
leader_killed() {
  local at
  no_clock
  spread -b 65536
  at=$("$strike" 9 "$(pid_of "$1")")
  await said 3 error
  wait
  blamed 3 "$1" -5 died
  blamed 2 "$1" -5 "died or was cut off"
  took=$(after "$at" error)
  noted
}

@test "F3 rank 0, which leads its host and the job, is killed: named on both hosts" {
  fault=3 what="kill -9 of the first leader"
  leader_killed 0
}

@test "F3 the rank that leads the other host is killed: named on both hosts" {
  fault=3 what="kill -9 of the other leader"
  leader_killed 2
}

@test "F7 a partition while data is under way: an error on both sides, which tells how long it was silent" {
  need_nft
  fault=7 what="partition, data under way"
  spread -b 1048576
  local at
  at=$(partition)
  both_sides "$at"
  # A warning comes before that, unless a rank had no processor for so long.
  [[ $(grep -cE '^error .* (has been silent|has confirmed no data) for' out) -eq 4 ]] || { cat out err; return 1; }
}

@test "F7 a partition between two of three hosts, which hear each other by data alone" {
  need_nft
  fault=7 what="two of three hosts"
  trio -b 1048576
  local at
  part
  at=$("$strike" 0)
  both_sides "$at" 3
  grep -q 'rank [12] .* has confirmed no data for' err
}

@test "F7 a network that carries what is small and nothing else" {
  need_nft
  fault=7 what="large packets lost"
  spread -b 1048576
  local at
  drop "$a" input 'iifname "eth0" meta length > 300'
  at=$("$strike" 0)
  both_sides "$at"
  [[ $(grep -c '^error .* has confirmed no data for .* drops large packets (MTU)' out) -eq 4 ]] || { cat out err; return 1; }
}

@test "F8 a partition while nothing is under way" {
  need_nft
  fault=8 what="partition, idle"
  spread -w $((RINGUP_TEST_LONG ? 19000 : 6000))
  local at
  at=$(partition)
  await said 4 error
  wait
  # They hear of it at their next operation; that it was noticed in time, the log says.
  [[ $(grep -cE '^error [0-9] [0-9]+ [0-9]+ -5 .*silent for [0-9.]+ s' out) -eq 4 ]]
}

@test "F9 packets are lost in one direction only" {
  need_nft
  fault=9 what="drop one way"
  spread -b 65536
  local at
  drop "$a" input 'iifname "eth0"'
  at=$("$strike" 0)
  both_sides "$at"
}

@test "F12 connections are reset both ways: both sides hear of it at once" {
  need_nft
  fault=12 what="TCP reset"
  # Heartbeats go out and no silence is judged: a host whose data have all arrived when the other one
  # is reset learns of it by the answer to the next heartbeat.
  export RINGUP_LOST_MS=3600000 RINGUP_LOST_WARN_MS=0 RINGUP_FREEZE_MS=0 RINGUP_FREEZE_WARN_MS=0
  export RINGUP_STALL_CHECK=off
  spread -b 65536
  local at host
  at=$("$strike" 0)
  for host in "$a" "$b"; do
    ip netns exec "$host" nft -f - <<'EOT'
table inet f {
  chain i { type filter hook input priority 0; iifname "eth0" tcp flags & rst == 0 reject with tcp reset; }
}
EOT
  done
  both_sides "$at"
  not grep -q silent out
}

@test "F16 a host loses power: the other notices" {
  need_nft
  fault=16 what="power loss of a host"
  spread -b 65536
  local at
  at=$(partition)
  # Both at once: neither lives to see the other die.
  "$strike" 19 "$(pid_of 2)" "$(pid_of 3)"
  "$strike" 9 "$(pid_of 2)" "$(pid_of 3)"
  both_sides "$at" 2
}
