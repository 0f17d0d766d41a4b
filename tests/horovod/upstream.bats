#!/usr/bin/env bats
# upstream.bats - Horovod's own tests, fetched for the run, do what tests/horovod/expected.tsv says.
# needs: cpu
# tests: compat/python src/api src/engine src/backend src/wire src/launch src/cli/horovodrun.c src/cli/hvdopts.c tests/horovod

load ../lib/helper

# ask ARG... - run these of Horovod's tests; a skip where they, or what they need, cannot be had.
ask() {
  run python3 "$src/tests/horovod/ask.py" --work "$BATS_FILE_TMPDIR/work" "$@"
  [[ $status -ne 77 ]] || skip "$(sed -n 's/^skipped: //p' <<<"$output")"
  echo "$output"
  [[ $status -eq 0 ]]
}

@test "two ranks: collectives, process sets, the optimizer, the timeline" {
  ask --ranks 2 parallel
}

@test "four ranks" {
  ask --ranks 4 parallel
}

@test "launcher, services, elastic states: what starts no ranks" {
  ask single
}

@test "horovod.run(), horovodrun, elastic jobs" {
  ask integration
}
