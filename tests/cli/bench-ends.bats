#!/usr/bin/env bats
# bench-ends.bats - ringup bench that is interrupted, or whose ranks are killed, leaves nothing.
# needs: cpu
# tests: src/cli/cmd_bench.c src/cli/scoreboard.c src/bench tests/lib/bench.bash src/launch

load ../lib/helper
load ../lib/await
load ../lib/bench

setup() { bench_setup; }

@test "beside a hog, which is gone afterwards" {
  # Others may run the same test: the Python, which nobody needs, tells this one's.
  run timeout 200 ringup bench allreduce -n 2 -i 2 --sizes 8 --python "$BATS_TEST_TMPDIR/none" --hog 1 --check --json
  expect_status 0
  [[ $(field wrong | sort -u) == 0 ]]
  not pgrep -f -- "$BATS_TEST_TMPDIR/none --hog"
}

# ranks - the processes of the contest and of its launcher, but not of what started them.
ranks() {
  pgrep -f -- "^[^ ]*ringup (run|bench) .*--join=$TMPDIR" || true
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
  timeout 300 ringup bench allreduce -n "$1" -i 10000000 --sizes 64K >"$out" 2>&1 3>&- &
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

# switches - of each rank: its state, and how often it has slept so far.
switches() {
  local p
  for p in $(ranks); do
    awk -v p="$p" '/^State/ { state = $2 } /ctxt_switches/ { n += $2 } END { print p, state, n }' "/proc/$p/status"
  done
}

# idle - do all of them sleep, and has none woken up in a while?
idle() {
  local before
  before=$(switches)
  sleep 0.3
  [[ -n $before && $(switches) == "$before" && $before != *" "[RD]" "* ]]
}

# kill_third [between] - kill rank 2 of a bench at work; between two orders: while the bench stands
# still, all ranks have answered the one and wait for the other.
kill_third() {
  local p victim='' bench status=0
  endless 3
  # The head comes when all ranks have come.
  await lines 2 "$out"
  for p in $(ranks); do
    ! rank "$p" 2 || victim=$p
  done
  [[ -n $victim ]]
  bench=$(pgrep -P "$pid")
  if [[ ${1:-} == between ]]; then
    kill -STOP "$bench"
    await idle
  fi
  kill -KILL "$victim"
  [[ ${1:-} != between ]] || kill -CONT "$bench"
  wait "$pid" || status=$?
  [[ $status -eq 3 ]]
  grep -qx 'ringup bench: ringup: rank 2: it has ended' "$out" || { cat "$out"; return 1; }
  await none_left
  [[ -z $(leftovers) ]]
}

@test "a rank that is killed is named, and nothing is left" {
  kill_third
}

@test "a rank that is killed between two orders is, too" {
  kill_third between
}
