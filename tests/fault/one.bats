#!/usr/bin/env bats
# one.bats - what becomes of a job on one host when something breaks: F1-F6, F24, F48.

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
  blamed $(($1 - 1)) 1 -5
  no_signal_deaths 1
  grep -qE "^ringup run: rank 1 \(pid $(pid_of 1)\) on .* was killed by signal 9" err
  took=$(after "$at" error) what="kill -9, $1 ranks, $2 bytes${3+ gathered}${RINGUP_BACKEND:+, $RINGUP_BACKEND}"
  within 1000
  [[ -z $(left) ]]
}

@test "F1 a killed rank: a typed error on every survivor, in shared memory" {
  fault=1
  local size
  for size in $(long 200 4 4096 65536 1048576 67108864); do kill_one 4 "$size"; done
  kill_one 4 4
  kill_one 4 4096
  kill_one 4 1048576
  kill_one 2 16777216
  promised 100
}

@test "F1 a rank is killed while the kernel copies between two: the same" {
  fault=1
  export RINGUP_SINGLE_COPY=on
  local _
  for _ in $(long 100 1); do kill_one 2 4194304 -a; done
  kill_one 2 16777216 -a
  kill_one 2 131072 -a
  promised 100
}

@test "F2 a killed rank, over TCP" {
  fault=2
  export RINGUP_BACKEND=tcp
  local size
  for size in $(long 200 4 4096 65536 1048576 67108864); do kill_one 4 "$size"; done
  kill_one 4 4
  kill_one 4 1048576
  kill_one 4 65536
  promised 100
}

# freeze NP BYTES LIMIT_MS [OPTION] - SIGSTOP of rank 1.
freeze() {
  begin -np "$1" --no-prefix -- "$loop" -b "$2" "${@:4}"
  await said "$1" ready
  local at
  at=$("$strike" 19 "$(pid_of 1)")
  await said $(($1 - 1)) error
  end
  [[ $status -eq 3 ]]
  blamed $(($1 - 1)) 1 -5
  grep -qE "has not moved for [0-9.]+ s: it is stopped \(state T\)$" out
  [[ $(grep -cE "rank 1 \(process $(pid_of 1) on .*\) has not moved for [0-9.]+ s: it is stopped" err) -eq 1 ]]
  grep -qE "^ringup run: rank 1 \(pid $(pid_of 1)\) on .* is stopped$" err
  took=$(after "$at" error) what="SIGSTOP, $1 ranks, $2 bytes${4+ gathered}"
  within $((RINGUP_TEST_LONG ? 13000 : $3))
  [[ -z $(left) ]]
}

@test "F4 a frozen rank: one warning, then an error on all others; the launcher kills it" {
  fault=4
  freeze 4 4096 6000
  freeze 2 4194304 6000
  RINGUP_SINGLE_COPY=on freeze 2 16777216 6000 -a
}

@test "F4 the first rank frozen" {
  begin -np 3 --no-prefix -- "$loop" -b 64
  await said 3 ready
  "$strike" 19 "$(pid_of 0)"
  await said 2 error
  end
  blamed 2 0 -5
  [[ $(grep -cE 'has not moved' err) -eq 1 ]]
  [[ -z $(left) ]]
}

@test "F5 a rank that is stopped for a while does no harm" {
  begin -np 3 --no-prefix -- "$loop" -b 65536 -n $((400 + 3600 * ${RINGUP_TEST_LONG:-0})) -p 5
  await said 3 ready
  for _ in 1 2 $(long 25 1 1); do
    "$strike" 19 "$(pid_of 2)"
    sleep 0.8
    "$strike" 18 "$(pid_of 2)"
    sleep 0.2
  done
  end
  expect_status 0
  [[ $(awk '$1 == "done" { print $6 }' out | sort -u | wc -l) -eq 1 ]]
  said 3 "done"
}

@test "F5 a whole job that is stopped and goes on does no harm" {
  begin -np 3 --no-prefix -- "$loop" -b 65536 -n 300 -p 5
  await said 3 ready
  kill -TSTP "$launcher"
  sleep 3
  kill -CONT "$launcher"
  end
  expect_status 0
  said 3 "done"
}

@test "F6 a tensor that one rank never submits: who is missing, by name" {
  export RINGUP_STALL_ABORT_MS=0
  begin -np 4 --no-prefix -- "$loop" -s 2
  await said 4 ready
  await grep -q stalled err
  grep -qE "allreduce skipped has stalled for [0-9.]+ s: ranks 0, 1, 3 of 4 wait for rank 2 \(process $(pid_of 2) on " err
  [[ $(grep -c stalled err) -eq 1 ]]
  kill -TERM "$launcher"
  end
  expect_status 143
  [[ -z $(left) ]]
}

@test "F6 and the job ends, if asked" {
  fault=6 what="stall, with abort"
  begin -np 3 --no-prefix -x RINGUP_STALL_WARN_MS=500 -x HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=2 -- "$loop" -s 0
  await said 3 ready
  local at
  at=$(awk '$1 == "ready" && $4 > m { m = $4 } END { print m }' out)
  await said 2 error
  blamed 2 0 -11
  took=$(after "$at" error)
  within 6000
  kill -TERM "$launcher"
  end
  # Doubling times: at 0.5 s and 1 s.
  [[ $(grep -c 'allreduce skipped has stalled' err) -le 3 ]]
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
  RINGUP_LIVENESS_PROFILE=fast timeout 60 ringup run -np 2 -- "$loop" -n 2000 2>err | head -n 1 >/dev/null
  rc=${PIPESTATUS[0]}
  set -o pipefail
  [[ $rc -eq 0 || $rc -eq 141 ]] || { echo "status $rc"; cat err; return 1; }
  not grep -q 'signal 13' err
  [[ -z $(left) ]]
}

@test "F49 with liveness off a debugger may hold a rank" {
  begin -np 2 --no-prefix -x RINGUP_LIVENESS=off -- "$loop" -n 100 -p 5
  await said 2 ready
  "$strike" 19 "$(pid_of 1)"
  sleep 4
  "$strike" 18 "$(pid_of 1)"
  end
  expect_status 0
  said 2 "done"
  not grep -q 'has not moved' err
}

# switches PID - how often its threads have given the processor away.
switches() {
  awk '/^voluntary_ctxt_switches/ { n += $2 } END { print n }' /proc/"$1"/task/*/status
}

@test "an idle rank wakes as often as its heart beats, and no more" {
  begin -np 3 --no-prefix -x RINGUP_LIVENESS_PROFILE=default -- "$loop" -w 60000
  await said 3 ready
  sleep 1
  local before after_
  before=$(switches "$(pid_of 1)")
  sleep 4
  after_=$(switches "$(pid_of 1)")
  echo "# idle for 4 s: $((after_ - before)) context switches of 8 beats" >&3
  ((after_ - before <= 10))
  kill -TERM "$launcher"
  end
}
