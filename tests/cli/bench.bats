#!/usr/bin/env bats
# bench.bats - ringup bench

load ../lib/helper

setup() {
  local v
  for v in $(compgen -e | grep -E '^(RINGUP|HOROVOD|OMPI|PMI|PMIX|SLURM|TORCHELASTIC)_|^(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)$' | grep -v '^RINGUP_TEST_'); do
    unset "$v"
  done
}

# bench ARG... - at most a minute of it, few samples.
bench() {
  run timeout 60 ringup bench -i 3 "$@"
}

# field NAME - of each line of JSON in $output.
field() {
  sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" <<<"$output"
}

@test "every collective is right, over shared memory and over connections" {
  local c b
  for c in allreduce broadcast allgather barrier; do
    for b in node tcp; do
      bench "$c" -n 3 --backend "$b" --sizes 4,100,70000 --check --json
      expect_status 0
      [[ $(field collective | sort -u) == "$c" && $(field backend | sort -u) == "$b" ]]
      [[ $(field wrong | sort -u) == 0 ]]
      [[ $(field ranks | sort -u) == 3 && $(field nodes | sort -u) == 1 ]]
    done
  done
}

@test "every type and operation is right" {
  local t o
  for t in u8 i8 i32 i64 f16 bf16 f32 f64; do
    for o in sum average min max product; do
      bench allreduce -n 2 -d "$t" --op "$o" --sizes 8,3000 --check --json
      expect_status 0
      [[ $(field dtype | sort -u) == "$t" && $(field op | sort -u) == "$o" && $(field wrong | sort -u) == 0 ]] ||
        { echo "$output"; return 1; }
    done
  done
}

@test "sizes are whole elements, and of all blocks together in an allgather" {
  bench allreduce -n 2 --sizes 10,1K --json
  [[ $(field bytes | xargs) == "8 1024" && $(field count | xargs) == "2 256" ]]
  bench allgather -n 2 --sizes 1,1K --json
  [[ $(field bytes | xargs) == "8 1024" && $(field count | xargs) == "1 128" ]]
}

@test "bandwidths follow from the size and the time" {
  bench allreduce -n 2 --sizes 64K --json
  awk -v b="$(field bytes)" -v t="$(field us)" -v a="$(field algbw_gbs)" -v c="$(field busbw_gbs)" \
    'BEGIN { d = b / t / 1000; exit !(a > .99 * d && a < 1.01 * d && c > .99 * a && c < 1.01 * a) }'
  bench allreduce -n 4 --sizes 64K --json
  awk -v a="$(field algbw_gbs)" -v c="$(field busbw_gbs)" \
    'BEGIN { exit !(c > 1.49 * a && c < 1.51 * a) }'
}

@test "the table is in columns, one line a size" {
  bench allreduce -n 2 --sizes 8,1M --check
  expect_status 0
  [[ ${lines[0]} == "allreduce, 2 ranks on 1 host, back end node;"* ]]
  [[ $(awk 'NR > 1 { print NF }' <<<"$output" | sort -u) == 10 ]]
  [[ ${#lines[@]} -eq 4 && ${lines[3]} == *1048576*262144*f32*sum*0 ]]
}

@test "one rank needs no other" {
  bench allreduce -n 1 --sizes 64 --check --json
  expect_status 0
  [[ $(field backend) == self && $(field ranks) == 1 && $(field wrong) == 0 ]]
}

@test "under ringup run it is one of the ranks" {
  run timeout 60 ringup run -np 2 --no-prefix -- ringup bench allreduce -i 3 --sizes 64 --check --json
  expect_status 0
  [[ $(field ranks) == 2 && $(field wrong) == 0 ]]
  run timeout 60 ringup run -np 2 -- ringup bench allreduce -n 3
  expect_status 2
  [[ $output == *"--ranks=3, but ringup run has started 2"* ]]
}

@test "under mpirun it is one of the ranks" {
  [[ -x ${RINGUP_TEST_MPIRUN:-} ]] || skip "mpirun is not installed"
  run timeout 60 "$RINGUP_TEST_MPIRUN" --allow-run-as-root --oversubscribe -np 2 \
    "$(command -v ringup)" bench allreduce -i 3 --sizes 64 --check --json
  [[ $status -eq 0 ]] || { echo "$output"; return 1; }
  [[ $(field ranks) == 2 && $(field wrong) == 0 ]]
}

@test "what cannot be asked is refused with status 2" {
  local words
  for words in alltoall "allreduce --sizes 8,x" "allreduce --sizes 0" "allreduce --sizes ," \
    "allreduce --dtype f8" "allreduce --op mean" "allreduce --backend carrier" "allreduce -n 0" \
    "allreduce -i -1" "allreduce barrier" "allreduce --frequency 3" ""; do
    # shellcheck disable=SC2086
    run timeout 60 ringup bench $words
    [[ $status -eq 2 && -n $output ]] || { echo "$words: $status $output"; return 1; }
  done
}

@test "options may follow the collective, --help too" {
  run timeout 60 ringup bench allreduce --help
  expect_status 0
  [[ $output == "usage: ringup bench"* ]]
}

@test "a rank that cannot start is a failure, and nothing is left" {
  run env RINGUP_START_TIMEOUT_MS=2000 timeout 60 ringup bench allreduce -n 2 --backend self
  [[ $status -eq 3 ]] || { echo "$status $output"; return 1; }
  [[ $output == *"self serves one rank, not 2"* ]]
}
