#!/usr/bin/env bats
# bench-ends.bats - a contest that is interrupted, or whose ranks are killed, leaves nothing.
# needs: cpu
# tests: src/bench tests/peers tests/lib/bench.bash src/launch

# The ranks of a contest are the program player.
load ../lib/helper
load ../lib/await
load ../lib/bench

setup() {
  bench_setup
  command -v python3 >/dev/null || skip "python3 is not installed"
}

@test "beside a hog, which is gone afterwards" {
  private_tmp
  run timeout 200 "$src/tests/peers/contest.py" allreduce -n 2 -i 2 --sizes 8 --hog 1 --check --json
  expect_status 0
  [[ $(field wrong | sort -u) == 0 ]]
  not pgrep -f -- "while True: pass $TMPDIR"
}

# ranks - the processes of the contest and of its launcher, but not of what started them.
ranks() {
  pgrep -f -- "player join $TMPDIR" || true
}

# started N - are there N such processes, or more?
started() {
  [[ $(ranks | wc -w) -ge $1 ]]
}

# none_left - is there none any more?
none_left() {
  [[ -z $(ranks) ]]
}

# endless RANKS - start a contest of so many, for as long as it is let, into the file out; sets $pid.
endless() {
  private_tmp
  out=$BATS_TEST_TMPDIR/out
  timeout 300 "$src/tests/peers/contest.py" allreduce -n "$1" -i 10000000 --sizes 64K >"$out" 2>&1 3>&- &
  pid=$!
}

@test "an interrupted contest leaves nothing" {
  endless 2
  await started 3
  kill "$pid"
  wait "$pid" || true
  await none_left
  [[ -z $(leftovers) ]]
}

# rank PID N - is this process rank N?
rank() {
  grep -qz "^RINGUP_RANK=$2\$" "/proc/$1/environ" 2>/dev/null
}

@test "a rank that is killed is named, and nothing is left" {
  local p victim='' status=0
  endless 3
  # The head comes when all ranks have come.
  await lines 1 "$out"
  for p in $(ranks); do
    ! rank "$p" 2 || victim=$p
  done
  [[ -n $victim ]]
  kill -KILL "$victim"
  wait "$pid" || status=$?
  [[ $status -eq 3 ]]
  grep -qx 'contest.py: ringup: rank 2: it has ended' "$out" || { cat "$out"; return 1; }
  await none_left
  [[ -z $(leftovers) ]]
}
