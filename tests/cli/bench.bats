#!/usr/bin/env bats
# bench.bats - ringup bench: what may be asked for, how it is shown, how ranks are started.
# needs: cpu
# tests: src/cli/cmd_bench.c src/cli/scoreboard.c src/bench tests/lib/bench.bash src/launch src/wire

load ../lib/helper
load ../lib/await
load ../lib/bench

setup() { bench_setup; }

@test "the table is in columns, a line a size" {
  bench allreduce -np 2 --sizes 8,1M --check
  expect_status 0
  [[ ${lines[0]} == "allreduce, 2 ranks on 1 node, back end node;"* ]]
  [[ $(awk 'NR > 1 { print NF }' <<<"$output" | sort -u) == 11 ]]
  grep -qE '^ +8 +2 +f32 +sum +out .* 0$' <<<"$output"
  grep -qE '^ +1M +262144 +f32 +sum +out .* 0$' <<<"$output"
}

@test "sizes are whole elements, and of all blocks together in an allgather" {
  bench allreduce -n 2 --sizes 10,1K --json
  [[ $(field bytes | xargs) == "8 1024" && $(field count | xargs) == "2 256" ]]
  bench allgather -n 2 --sizes 1,1K --json
  [[ $(field bytes | xargs) == "8 1024" && $(field count | xargs) == "1 128" ]]
}

@test "ranges of sizes, by a factor" {
  bench allreduce -n 2 --sizes 64:4K:8 --json
  [[ $(field bytes | uniq | xargs) == "64 512 4096" ]]
  bench allreduce -n 2 -b 1K -e 5K -f 2 --json
  [[ $(field bytes | uniq | xargs) == "1024 2048 4096" ]]
}

@test "bandwidths follow from the size and the time" {
  bench allreduce -n 2 --sizes 64K --json
  awk -v b="$(field bytes)" -v t="$(field us)" -v a="$(field algbw_gbs)" -v c="$(field busbw_gbs)" \
    'BEGIN { d = b / t / 1000; exit !(a > .99 * d && a < 1.01 * d && c > .99 * a && c < 1.01 * a) }'
  bench allreduce -n 4 --sizes 64K --json
  awk -v a="$(field algbw_gbs)" -v c="$(field busbw_gbs)" \
    'BEGIN { exit !(c > 1.49 * a && c < 1.51 * a) }'
}

@test "a full disk under stdout ends it, with the reason" {
  [[ -c /dev/full ]] || skip "no /dev/full"
  local words
  for words in "-n 1" "-n 2" "-n 2 --json"; do
    run bash -c 'timeout 200 ringup bench allreduce -i 3 --sizes 8 "$@" >/dev/full' sh $words
    expect_status 3
    [[ $output == *'stdout: No space left on device'* ]]
  done
}

@test "one rank needs no other" {
  bench allreduce -n 1 --sizes 64 --check --json
  expect_status 0
  [[ $(field backend) == self && $(field ranks) == 1 && $(field wrong) == 0 ]]
}

@test "under ringup run it is one of the ranks" {
  run timeout 200 ringup run -np 2 --no-prefix -- ringup bench allreduce -i 3 --sizes 64 --check --json
  expect_status 0
  [[ $(field ranks) == 2 && $(field wrong) == 0 ]]
  run timeout 200 ringup run -np 2 -- ringup bench allreduce -n 3
  expect_status 2
  [[ $output == *"--ranks=3, but ringup run has started 2"* ]]
}

@test "under mpirun it is one of the ranks" {
  [[ -x ${RINGUP_TEST_MPIRUN:-} ]] || skip "mpirun is not installed"
  run timeout 200 "$RINGUP_TEST_MPIRUN" --allow-run-as-root --oversubscribe -np 2 \
    "$(command -v ringup)" bench allreduce -i 3 --sizes 64 --check --json
  [[ $status -eq 0 ]] || { echo "$output"; return 1; }
  [[ $(field ranks) == 2 && $(field wrong) == 0 ]]
}

@test "what cannot be asked is refused with status 2" {
  local words
  for words in dance "allreduce --sizes 8,x" "allreduce --sizes 0" "allreduce --sizes ," \
    "allreduce --dtype f8" "allreduce --op mean" "allreduce --backend carrier" "allreduce -n 0" \
    "allreduce -i -1" "allreduce -i 2147483647" "allreduce --groups 3" "allreduce --groups 0,2/1" "allreduce --uneven" "broadcast --uneven" "barrier --uneven" "bert --uneven" "allreduce --members 0" "allreduce --members 257" "alltoall --members 2" "broadcast --members 2" "resnet50 --members 2" "allreduce --in-place maybe" "alltoall --in-place yes" \
    "reducescatter --op adasum" "allreduce --groups 2x" "allreduce --sizes 8:4:2" "allreduce -b 8 -e 64 -f 1" "allreduce barrier" "allreduce --frequency 3" ""; do
    # shellcheck disable=SC2086
    run timeout 200 ringup bench $words
    [[ $status -eq 2 && -n $output ]] || { echo "$words: $status $output"; return 1; }
  done
}

@test "options may follow the collective, --help too" {
  run timeout 200 ringup bench allreduce --help
  expect_status 0
  [[ $output == "usage: ringup bench"* ]]
}

@test "a rank that cannot start is a failure, and nothing is left" {
  run env RINGUP_START_TIMEOUT_MS=2000 timeout 200 ringup bench allreduce -n 2 --backend self
  [[ $status -eq 3 ]] || { echo "$status $output"; return 1; }
  [[ $output == *"self serves one rank, not 2"* ]]
}
