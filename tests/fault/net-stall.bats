#!/usr/bin/env bats
# net-stall.bats - a tensor that some ranks of two hosts never submit, and a rank that leaves: F6.
# proves: P5 of docs/RELIABILITY.md
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

@test "F6 a tensor that one rank never submits: the root names all who wait, and who does not" {
  local lazy others
  for lazy in 0 2 3; do
    others=$(printf '%s\n' 0 1 2 3 | grep -v "$lazy" | paste -sd, | sed 's/,/, /g')
    RINGUP_STALL_WARN_MS=1000 RINGUP_STALL_ABORT_MS=3500 spread -s "$lazy"
    await said 3 error
    [[ $(grep -cE "^error [0-9] [0-9]+ [0-9]+ -11 allreduce skipped has stalled for [0-9.]+ s: ranks ($others|1-3|0-2) of 4 wait for rank $lazy \(process $(pid_of "$lazy") on " out) -eq 3 ]] ||
      { cat out err; return 1; }
    grep -qE "^ringup: rank 0: warn: allreduce skipped has stalled" err
    not grep -qE "^ringup: rank [123]: warn: allreduce skipped" err
    "$strike" 9 "$(pid_of "$lazy")"
    wait
  done
}

@test "all ranks of two hosts wait, one under another name: a deadlock" {
  RINGUP_DEADLOCK_MS=2000 spread -o 2
  await said 4 error
  [[ $(grep -cE '^error [0-3] [0-9]+ [0-9]+ -12 deadlock: all 4 ranks have waited for 2 s: ranks 0, 1, 3 for allreduce skipped, rank 2 for allreduce other; ranks match operations by name: use one name on all ranks$' out) -eq 4 ]] ||
    { cat out err; return 1; }
  wait
}

@test "F6 two names in a group of two hosts, while other ranks compute: both names, and what ends it" {
  RINGUP_STALL_WARN_MS=1000 spread_many 6 -o 2 -g 1,2,4,5
  await grep -q 'allreduce skipped has stalled' err
  await grep -q 'warn: nothing ends a stalled job: set RINGUP_STALL_ABORT_MS=' err
  grep -qE "rank 1: warn: allreduce skipped has stalled for [0-9.]+ s: ranks 1, 4, 5 of 6 wait for rank 2 \(process $(pid_of 2) on [^;]*; rank 1 calls it skipped, rank 2 calls it other: ranks match operations by name: use one name on all ranks$" err ||
    { cat out err; return 1; }
  not grep -q '^error' out
  "$strike" 9 "$(pid_of 0)" "$(pid_of 1)" "$(pid_of 2)" "$(pid_of 3)" "$(pid_of 4)" "$(pid_of 5)"
  wait
}

@test "a rank leaves that is not its host's first, while that one computes: the other host hears at once" {
  # Without heartbeats nothing else would make that host's first rank look.
  RINGUP_LIVENESS=off spread -s 2 -l 3
  await said 2 error
  [[ $(grep -cE "^error [01] [0-9]+ [0-9]+ -[0-9]+ allreduce '[a-z]+': rank 3 has left the job\$" out) -eq 2 ]] || { cat out err; return 1; }
  not grep -qE '^(error|done) 2 ' out
  "$strike" 9 "$(pid_of 2)"
  wait
}

@test "F6 in a group of two ranks per host: the waiting and the missing, as the world counts" {
  local lazy others
  for lazy in 1 2 5; do
    others=$(printf '%s\n' 1 2 4 5 | grep -v "$lazy" | paste -sd, | sed 's/,/, /g')
    RINGUP_STALL_WARN_MS=1000 RINGUP_STALL_ABORT_MS=3500 spread_many 6 -s "$lazy" -g 1,2,4,5
    await said 3 error
    [[ $(grep -cE "^error [0-9] [0-9]+ [0-9]+ -11 allreduce skipped has stalled for [0-9.]+ s: ranks $others of 6 wait for rank $lazy \(process $(pid_of "$lazy") on " out) -eq 3 ]] ||
      { cat out err; return 1; }
    grep -qE "^ringup: rank 1: warn: allreduce skipped has stalled" err
    not grep -qE "^ringup: rank [02-5]: warn: allreduce skipped" err
    "$strike" 9 "$(pid_of "$lazy")" "$(pid_of 0)" "$(pid_of 3)"
    wait
  done
}
