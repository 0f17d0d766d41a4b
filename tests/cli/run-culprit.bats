#!/usr/bin/env bats
# run-culprit.bats - the launcher names the rank that failed first, and ends with its status
# proves: P6 of docs/RELIABILITY.md
# needs: cpu
# tests: src/cli/cmd_run.c src/launch src/engine src/wire src/api tests/programs/ends.c tests/lib/launcher.bash

load ../lib/helper
load ../lib/await
load ../lib/launcher

ends=$PWD/tests/programs/ends

setup() { launcher_setup; }
teardown() { launcher_teardown; }

# named STATUS TEXT COMMAND... - the command ends with this status, and its first complaint begins with rank TEXT.
named() {
  local status=$1 text=$2 rc=0 said
  shift 2
  RUN_TEST=$BATS_TEST_TMPDIR timeout 100 "$@" >out 2>err || rc=$?
  said=$(grep -m 1 '^ringup run: ' err)
  [[ $rc -eq $status && $said == "ringup run: rank $text"* ]] ||
    { echo "$*: status $rc, expected $status; said \"$said\", expected rank $text"; return 1; }
}

# Each way to fail, the launcher's status, and what is said of the rank.
ways='exit3 3 exited with status 3
_exit4 4 exited with status 4
exit0 1 exited with status 0 during the job, without ringup_fini()
_exit0 1 exited with status 0 during the job, without ringup_fini()
abort 134 was killed by signal 6 (Aborted)
signal11 139 was killed by signal 11 (Segmentation fault)
signal9 137 was killed by signal 9 (Killed)
fini5 5 exited with status 5
tell6 6 exited with status 6'

# all_ways RANK THEN LAUNCHER... - in each way.
all_ways() {
  local rank=$1 then=$2 how status text count=0
  shift 2
  while read -r how status text; do
    named "$status" "$rank (pid" "$@" "$ends" "$rank" "late:$how" "$then" || return 1
    grep -qF "$text" err || { cat err; return 1; }
    count=$((count + 1))
  done <<<"$ways"
  [[ $count -eq 9 ]]
}

@test "the rank that failed first is named, in each way, by a launcher that looks last" {
  all_ways 0 exit1 ringup run -np 3 --
  all_ways 2 exit1 ringup run -np 3 --
}

@test "also if the others end by a signal, or in order" {
  all_ways 1 abort ringup run -np 3 --
  all_ways 1 fini1 ringup run -np 3 --
}

@test "also of ranks that rank daemons have started" {
  all_ways 0 fini1 ringup run -np 4 -H localhost:2,127.0.0.1:2 --
  all_ways 3 abort ringup run -np 4 -H localhost:2,127.0.0.1:2 --
}

@test "also by horovodrun" {
  all_ways 1 exit1 horovodrun -np 3
}

@test "a rank that left in order with status 0 is told as the reason" {
  named 1 "" ringup run -np 3 -- "$ends" 1 late:fini0 exit1
  grep -q '^ringup run: rank [02] (pid .*) on .* exited with status 1: rank 1 (pid .*) on .* had left the job before, with status 0$' err
}

@test "a rank that left because of nobody, and ends well, ends no job" {
  RUN_TEST=$BATS_TEST_TMPDIR run timeout 100 ringup run -np 2 -- "$ends" 1 fini0 fini0
  expect_status 0
}
