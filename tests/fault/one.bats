#!/usr/bin/env bats
# one.bats - what becomes of a job on one host when something breaks: F1-F6, F24, F48.
# proves: P1 P3 P5 P9 P17 of docs/RELIABILITY.md
# needs: waits
# tests: src/api src/backend src/base src/coll src/engine src/host src/launch src/wire src/cli/cmd_run.c src/engine/watch.c src/engine/heartbeat.c src/engine/deadlock.c tests/fault tests/lib/fault.bash

load ../lib/helper
load ../lib/fault

setup() { fault_setup; }
teardown() { fault_teardown; }

# kill_one NP BYTES [OPTION] - kill -9 of rank 1 among NP while they combine BYTES.
kill_one() {
  begin -np "$1" --no-prefix -- "$loop" -b "$2" "${@:3}"
  await said "$1" ready
  local at
  sleep 0.0$((RANDOM % 9))
  at=$("$strike" 9 "$(pid_of 1)")
  end
  [[ $status -eq 137 ]]
  blamed $(($1 - 1)) 1 -5 died
  no_signal_deaths 1
  grep -qE "^ringup run: rank 1 \(pid $(pid_of 1)\) on .* was killed by signal 9" err
  took=$(after "$at" error) what="kill -9, $1 ranks, $2 bytes${3+ gathered}${RINGUP_BACKEND:+, $RINGUP_BACKEND}"
  noted
  await nothing_left
}

@test "F1 a killed rank: a typed error on every survivor, in shared memory" {
  fault=1
  no_clock
  local size
  for size in $(long 50 4 4096 65536 1048576 67108864); do kill_one 4 "$size"; done
  kill_one 4 4
  kill_one 4 4096
  kill_one 4 1048576
  kill_one 2 16777216
  unset RINGUP_LIVENESS RINGUP_STALL_CHECK
  kill_one 4 65536
}

@test "F1 a rank is killed while the kernel copies between two: the same" {
  fault=1
  no_clock
  export RINGUP_SINGLE_COPY=on
  local _
  for _ in $(long 100 1); do kill_one 2 4194304 -a; done
  kill_one 2 16777216 -a
  kill_one 2 131072 -a
}

@test "F2 a killed rank, over TCP" {
  fault=2
  no_clock
  export RINGUP_BACKEND=tcp
  local size
  for size in $(long 50 4 4096 65536 1048576 67108864); do kill_one 4 "$size"; done
  kill_one 4 4
  kill_one 4 1048576
  kill_one 4 65536
}

# in_force NAME - a setting's value, as ranks take it.
in_force() { ringup env | awk -v name="RINGUP_$1" '$1 == name { print $2 }'; }

# frozen_for MS - each error tells that it came after that time, and not before.
frozen_for() {
  local s
  for s in $(grep '^error' out | sed -nE 's/.*has not moved for ([0-9.]+) s.*/\1/p'); do
    awk -v s="$s" -v ms="$1" 'BEGIN { exit !(s * 1000 >= ms) }' || { echo "after $s s, not $1 ms"; return 1; }
  done
}

# freeze NP BYTES [OPTION] - SIGSTOP of rank 1.
freeze() {
  begin -np "$1" --no-prefix -- "$loop" -b "$2" "${@:3}"
  await said "$1" ready
  local at
  at=$("$strike" 19 "$(pid_of 1)")
  await said $(($1 - 1)) error
  end
  # Its own: the launcher has killed it.
  [[ $status -eq 137 ]]
  blamed $(($1 - 1)) 1 -5 'has not moved for [0-9.]+ s: it is stopped \(state T\)$'
  [[ $(grep -cE "rank 1 \(process $(pid_of 1) on .*\) has not moved for [0-9.]+ s: it is stopped" err) -eq 1 ]]
  [[ $(grep -m 1 '^ringup run: ' err) =~ ^"ringup run: rank 1 (pid $(pid_of 1)) on ".*" has not moved for "[0-9.]+" s: it is stopped (state T)"$ ]]
  frozen_for "$(in_force FREEZE_MS)"
  took=$(after "$at" error) what="SIGSTOP, $1 ranks, $2 bytes${3+ gathered}"
  noted
  await nothing_left
}

@test "F4 a frozen rank: one warning, then an error on all others; the launcher kills it" {
  fault=4
  freeze 4 4096
  freeze 2 4194304
  RINGUP_SINGLE_COPY=on freeze 2 16777216 -a
}

@test "F4 the first rank frozen" {
  begin -np 3 --no-prefix -- "$loop" -b 64
  await said 3 ready
  "$strike" 19 "$(pid_of 0)"
  await said 2 error
  end
  blamed 2 0 -5 'has not moved'
  [[ $(grep -cE "warn: rank 0 \(process $(pid_of 0) on .*\) has not moved" err) -eq 1 ]]
  await nothing_left
}

@test "F4 a rank that freezes without a warning before: the error says why" {
  export RINGUP_FREEZE_WARN_MS=0
  begin -np 2 --no-prefix -- "$loop" -b 64
  await said 2 ready
  "$strike" 19 "$(pid_of 1)"
  await said 1 error
  end
  blamed 1 1 -5 'has not moved for [0-9.]+ s: it is stopped \(state T\)$'
  await nothing_left
}

@test "F5 a rank that is stopped for a while does no harm" {
  local n
  export RINGUP_FREEZE_WARN_MS=300 RINGUP_FREEZE_MS=60000
  begin -np 3 --no-prefix -- "$loop" -b 65536 -u enough -p 5
  await said 3 ready
  for ((n = 1; n <= (RINGUP_TEST_LONG ? 27 : 2); n++)); do
    "$strike" 19 "$(pid_of 2)"
    await warned 2 'has not moved' "$n"
    "$strike" 18 "$(pid_of 2)"
    await warned 2 'is back' "$n"
  done
  all_is_well 3
}

# warned RANK WORDS N - has a warning said that of RANK N times?
warned() {
  local n
  n=$(grep -cE "warn: rank $1 \(process $(pid_of "$1") on .*\) $2" err) || true
  [[ $n -ge $3 ]]
}

# all_is_well N - let N ranks that have waited for the file go, which they do in peace.
all_is_well() {
  touch enough
  end
  expect_status 0
  [[ $(awk '$1 == "done" { print $6 }' out | sort -u | wc -l) -eq 1 ]]
  said "$1" "done"
}

# told WORDS - how often rank 2 is said to WORDS.
told() { grep -cE "warn: rank 2 \(process [0-9]+ on .*\) $1" err || true; }

@test "F5 a rank that is back is told of once, by the rank that told that it was late" {
  export RINGUP_FREEZE_WARN_MS=1000 RINGUP_FREEZE_MS=0
  begin -np 4 --no-prefix -- "$loop" -b 64
  await said 4 ready
  "$strike" 19 "$(pid_of 2)"
  await grep -q 'warn: rank 2 .* has not moved' err
  "$strike" 18 "$(pid_of 2)"
  await grep -q 'warn: rank 2 .* is back' err
  # The others look as often as their hearts beat.
  sleep 0.5
  kill -TERM "$launcher"
  end
  (($(told "is back") <= $(told "has not moved")))
}

@test "F5 a whole job that is stopped and goes on does no harm" {
  begin -np 3 --no-prefix -- "$loop" -b 65536 -u enough -p 5
  await said 3 ready
  kill -TSTP "$launcher"
  await are_stopped
  # For longer than any of them may stand still, by the clock that goes on.
  sleep $((RINGUP_TEST_LONG ? 12 : 3))
  kill -CONT "$launcher"
  all_is_well 3
}

# are_stopped - are all that have said so much as ready?
are_stopped() {
  local p
  for p in $(awk '$1 == "ready" { print $3 }' out); do [[ $(state_of "$p") == T ]] || return 1; done
}

@test "F6 a tensor that one rank never submits: who is missing, by name" {
  begin -np 4 --no-prefix -- "$loop" -s 2
  await said 4 ready
  await grep -q 'skipped has stalled' err
  grep -qE "allreduce skipped has stalled for [0-9.]+ s: ranks 0, 1, 3 of 4 wait for rank 2 \(process $(pid_of 2) on " err
  doubling 2
  kill -TERM "$launcher"
  end
  expect_status 143
  await nothing_left
}

@test "F6 and the job ends, if asked" {
  fault=6 what="stall, with abort"
  unset RINGUP_STALL_ABORT_MS
  begin -np 3 --no-prefix -x RINGUP_STALL_WARN_MS=500 -x HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=2 -- "$loop" -s 0
  await said 3 ready
  local at
  at=$(awk '$1 == "ready" && $4 > m { m = $4 } END { print m }' out)
  await said 2 error
  blamed 2 0 -11
  took=$(after "$at" error)
  noted
  kill -TERM "$launcher"
  end
  doubling 0.5
}

@test "F24 ranks that disagree hear it all, and go on" {
  begin -np 4 --no-prefix -- "$loop" -d 3 -n 50
  end
  expect_status 0
  said 4 "done"
  [[ $(grep -cE '^error [0-9]+ [0-9]+ [0-9]+ -4 .*differs.*rank 0 wants .*, rank 3 ' out) -eq 4 ]]
}

@test "F48 nobody reads what ranks print: the ranks live" {
  set +o pipefail
  RINGUP_LIVENESS_PROFILE=default timeout 100 ringup run -np 2 -- "$loop" -n 2000 2>err | head -n 1 >/dev/null
  rc=${PIPESTATUS[0]}
  set -o pipefail
  [[ $rc -eq 0 || $rc -eq 141 ]] || { echo "status $rc"; cat err; return 1; }
  not grep -q 'signal 13' err
  await nothing_left
}

@test "F49 with liveness off a debugger may hold a rank" {
  export RINGUP_FREEZE_WARN_MS=100 RINGUP_FREEZE_MS=200
  begin -np 2 --no-prefix -x RINGUP_LIVENESS=off -- "$loop" -u enough -p 5
  await said 2 ready
  "$strike" 19 "$(pid_of 1)"
  sleep 2
  "$strike" 18 "$(pid_of 1)"
  all_is_well 2
  not grep -q 'has not moved' err
}

# switches PID - how often its threads have given the processor away.
switches() {
  awk '/^voluntary_ctxt_switches/ { n += $2 } END { print n }' /proc/"$1"/task/*/status
}

# is_calm PID - in two seconds or more, has it woken for each beat of its heart (two a second), and
# for nothing else?  Sets woken and ms.
is_calm() {
  local before began=${EPOCHREALTIME/./}
  before=$(switches "$1")
  sleep 2
  woken=$(($(switches "$1") - before))
  ms=$(((${EPOCHREALTIME/./} - began) / 1000))
  ((woken >= 1 && woken <= ms / 500 + 1))
}

@test "an idle rank wakes as often as its heart beats, and no more" {
  local woken ms
  begin -np 3 --no-prefix -x RINGUP_LIVENESS_PROFILE=default -- "$loop" -w 100000
  await said 3 ready
  # One that wakes more often does so in all of these times; what else this machine does, does not.
  await is_calm "$(pid_of 1)"
  echo "# idle for $ms ms: $woken context switches" >&3
  kill -TERM "$launcher"
  end
}
