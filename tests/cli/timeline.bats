#!/usr/bin/env bats
# timeline.bats - timelines of real jobs: recorded by option and by setting, and merged.
# needs: cpu
# tests: src/trace src/engine src/cli/cmd_run.c src/cli/cmd_timeline.c src/cli/cmd_timeline_merge.c tests/programs/sum.c

load ../lib/helper

sum=$PWD/tests/programs/sum

setup() {
  unset "${!RINGUP_TIMELINE@}" "${!HOROVOD_TIMELINE@}"
  cd "$BATS_TEST_TMPDIR"
}

# events FILE FILTER - how many events of FILE the filter of jq selects; fails if it is no JSON.
events() { jq "map(select($2)) | length" "$1"; }

@test "ringup run --timeline-filename records what rank 0 does" {
  command -v jq >/dev/null || skip "jq is not installed"
  run timeout 200 ringup run -np 3 --timeline-filename t.json -- "$sum"
  expect_status 0
  [[ $(jq -r '.[0].args | keys[]' t.json) == start_time_since_epoch_in_micros ]]
  [[ $(events t.json '.ph == "B" and (.name | startswith("NEGOTIATE_ALLREDUCE"))') -gt 0 ]]
  [[ $(events t.json '.ph == "B"') == "$(events t.json '.ph == "E"')" ]]
  [[ $(events t.json '.name == "CYCLE_START"') == 0 ]]
  [[ $(ls) == t.json ]]
}

@test "--timeline-mark-cycles marks where batches begin" {
  command -v jq >/dev/null || skip "jq is not installed"
  run timeout 200 ringup run -np 2 --timeline-filename t.json --timeline-mark-cycles -- "$sum"
  expect_status 0
  [[ $(events t.json '.name == "CYCLE_START" and .s == "g"') -gt 0 ]]
  run ringup run -np 2 --timeline-mark-cycles -- true
  expect_status 2
  expect_line 'ringup run: --timeline-mark-cycles needs --timeline-filename FILE'
}

@test "Horovod's variables do the same" {
  command -v jq >/dev/null || skip "jq is not installed"
  HOROVOD_TIMELINE=h.json HOROVOD_TIMELINE_MARK_CYCLES=1 run timeout 200 ringup run -np 2 -- "$sum"
  expect_status 0
  [[ $(events h.json '.name == "CYCLE_START"') -gt 0 ]]
  HOROVOD_TIMELINE=DYNAMIC run timeout 200 ringup run -np 2 -- "$sum"
  expect_status 0
  [[ ! -e DYNAMIC && $(ls) == h.json ]]
}

@test "every rank records on request, and their files are merged" {
  command -v jq >/dev/null || skip "jq is not installed"
  RINGUP_TIMELINE=t.json RINGUP_TIMELINE_ALL=1 run timeout 200 ringup run -np 3 -- "$sum"
  expect_status 0
  run timeout 200 ringup run -np 3 --timeline-filename 'u.%r.json' -- "$sum"
  expect_status 0
  [[ $(echo *) == "t.json.0 t.json.1 t.json.2 u.0.json u.1.json u.2.json" ]]
  run ringup timeline merge -o all.json t.json.2 t.json.0 t.json.1
  expect_status 0
  [[ ${lines[0]} == RANK*HOST*EVENTS*CLOCK*AHEAD*DOUBT && ${lines[1]} == 0*same* && ${lines[3]} == 2*same* ]]
  [[ $(jq -c '[.[] | select(.ph == "B") | .tid] | unique' all.json) == '[0,1,2]' ]]
  [[ $(events all.json '.ph == "B"') == "$(events all.json '.ph == "E"')" ]]
  run ringup timeline merge --json -o all.json u.*.json
  expect_status 0
  [[ $(jq -c '[.files[] | [.rank, .clock, .cut]]' <<<"$output") == '[[0,"same",false],[1,"same",false],[2,"same",false]]' ]]
}

# More than one host, as far as the ranks know.
@test "ranks that are hosts of their own have their announcements in rank 0's file" {
  command -v jq >/dev/null || skip "jq is not installed"
  RINGUP_BACKEND=tcp run timeout 200 ringup run -np 3 --timeline-filename t.json -- "$sum"
  expect_status 0
  [[ $(jq -c '[.[] | select(.ph == "X") | .name] | unique' t.json) == '["0","1","2"]' ]]
}

@test "a file that cannot be written is said once, and the job goes on" {
  run timeout 200 ringup run -np 2 --timeline-filename nowhere/t.json -- "$sum"
  expect_status 0
  [[ $(grep -c 'warn: timeline nowhere/t.json: .*No such file' <<<"$output") -eq 1 ]]
}

@test "a disk that is full is said once, and the job goes on" {
  run timeout 200 ringup run -np 2 --timeline-filename /dev/full -- "$sum"
  expect_status 0
  [[ $(grep -c 'warn: timeline /dev/full: writing: No space left on device' <<<"$output") -eq 1 ]]
}

@test "merge refuses what is no timeline, and says where" {
  echo '{}' >no.json
  run ringup timeline merge -o all.json no.json
  expect_status 3
  expect_line 'ringup timeline merge: no.json: not a timeline: it does not begin with ['
  [[ ! -e all.json ]]
  run ringup timeline merge no.json
  expect_status 2
  run ringup timeline merge -o all.json
  expect_status 2
}
