#!/usr/bin/env bats
# rebuild-ends.bats - ringup rebuild that is killed or interrupted, or that meets another: the old engine is whole.
# needs: cpu
# tests: src/cli/cmd_rebuild.c src/rebuild src/detect src/base tests/lib/engine.bash
# shellcheck disable=SC2030,SC2031,SC2154

load ../lib/helper
load ../lib/await
load ../lib/engine

bats_require_minimum_version 1.5.0

setup_file() { engine_setup_file; }

setup() {
  engine_setup
  command -v jq >/dev/null || skip "jq is not installed"
}

teardown() { engine_teardown; }

@test "killed at any step, the next run has the old engine whole, and builds" {
  local at killed=0
  for at in 1 3 6; do
    RINGUP_TEST_KILL_AT=$at run ringup rebuild --engine horovod --python "$venv" --without-mpi \
      --source "$sdist" --accept TEST-1
    [[ $status -eq 137 ]] || break
    killed=$((killed + 1))
    run ringup rebuild --engine horovod --python "$venv" --undo
    [[ $(version) == 0.1 && ! -e $venv/bin/horovodrun ]] || { echo "killed at $at: $(version)"; return 1; }
  done
  ((killed >= 2))
  build 0 --source "$sdist" --accept TEST-1
  [[ $(version) == 0.28.1 ]]
}

# compiling - has a build of the small engine begun?
compiling() {
  pgrep -f "$venv/bin/python.* setup.py|$venv/bin/python.*pip wheel" >/dev/null
}

# none_left - does no Python of the environment run?
none_left() {
  not pgrep -f "$venv/bin/python" >/dev/null
}

@test "killed while compiling, nothing of it goes on, and what it left is used by nobody" {
  local pid
  echo 'import time; time.sleep(600)' >>"$sources/setup.py"
  ringup rebuild --engine horovod --python "$venv" --without-mpi --source "$sources" \
    --accept TEST-1 >/dev/null 2>&1 3>&- &
  pid=$!
  await compiling
  kill -9 "$pid"
  wait "$pid" || true
  await none_left
  [[ $(version) == 0.1 ]]
  build 0 --source "$sdist" --accept TEST-1
}

@test "two at once for one Python: the second is told, and does the first no harm" {
  local pid
  printf 'import os, time\nwhile os.path.exists("%s/wait"): time.sleep(0.1)\n' "$BATS_TEST_TMPDIR" >>"$sources/setup.py"
  touch "$BATS_TEST_TMPDIR/wait"
  ringup rebuild --engine horovod --python "$venv" --without-mpi --source "$sources" --accept TEST-1 \
    >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  pid=$!
  await compiling
  run -1 --separate-stderr ringup rebuild --engine horovod --python "$venv" --without-mpi --source "$sources" \
    --accept TEST-1 --json
  [[ $(jq -r .reason <<<"$output") == busy ]]
  # Nor one that works elsewhere, but would install into the same folder.
  mkdir "$BATS_TEST_TMPDIR/elsewhere"
  TMPDIR=$BATS_TEST_TMPDIR/elsewhere run -1 --separate-stderr ringup rebuild --engine horovod --python "$venv" \
    --without-mpi --source "$sources" --accept TEST-1 --json
  [[ $(jq -r .reason <<<"$output") == busy ]]
  rm "$BATS_TEST_TMPDIR/wait"
  wait "$pid" || { cat "$BATS_TEST_TMPDIR/out"; return 1; }
  [[ $(version) == 0.28.1 ]]
  output=$(cat "$BATS_TEST_TMPDIR/out")
}

@test "interrupted while compiling, it leaves nothing but its log, and ends by that signal" {
  local pid signal got
  echo 'import time; time.sleep(600)' >>"$sources/setup.py"
  for signal in TERM INT HUP; do
    # bash ignores SIGINT in what it starts in the background
    env --default-signal=INT ringup rebuild --engine horovod --python "$venv" --without-mpi --source "$sources" \
      --accept TEST-1 >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
    pid=$!
    await compiling
    kill -"$signal" "$pid"
    got=0
    wait "$pid" || got=$?
    output=$(cat "$BATS_TEST_TMPDIR/err")
    [[ $got -eq $((128 + $(kill -l "$signal"))) && $output == *"the previous engine is still in place"* ]] ||
      { echo "$signal: $got: $output"; return 1; }
    none_left
    [[ $(version) == 0.1 && ! -e $site/.ringup-rebuild && -z $(ls -A "$TMPDIR") ]] || { ls -A "$TMPDIR"; return 1; }
    engine_teardown
  done
}
