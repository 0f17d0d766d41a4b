#!/usr/bin/env bats
# bench-results.bats - what ringup bench --check finds right: every collective in every form.
# needs: cpu
# tests: src/cli/cmd_bench.c src/cli/scoreboard.c src/bench tests/lib/bench.bash src/api src/backend src/coll src/engine src/wire

load ../lib/helper
load ../lib/bench

setup() { bench_setup; }

@test "every collective is right, over shared memory and over connections" {
  local c b
  for c in allreduce broadcast allgather reducescatter alltoall barrier; do
    for b in node tcp; do
      bench "$c" -n 3 --backend "$b" --sizes 4,100,70000 --check --json
      expect_status 0
      [[ $(field collective | sort -u) == "$c" && $(field backend | sort -u) == "$b" ]]
      [[ $(field wrong | sort -u) == 0 ]]
      [[ $(field ranks | sort -u) == 3 && $(field nodes | sort -u) == 1 ]]
    done
  done
}

# Without the long form a third of the pairs, along diagonals: of each type two operations or
# more, of each operation types of all kinds, of Adasum two; test_reduce has them all.
@test "every type and operation is right" {
  local t o i=0 j
  for t in u8 i8 u16 i16 i32 i64 f16 bf16 f32 f64 bool; do
    i=$((i + 1)) j=0
    for o in sum average min max product adasum; do
      j=$((j + 1))
      long_form || (((i + j) % 3 == 0)) || continue
      case $t-$o in
        bool-average | [ui]*-adasum | bool-adasum) # there is none
          bench allreduce -n 2 -d "$t" --op "$o"
          expect_status 2
          continue
          ;;
      esac
      bench allreduce -n 2 -d "$t" --op "$o" --sizes 8,3000 --check --json
      expect_status 0
      [[ $(field dtype | sort -u) == "$t" && $(field op | sort -u) == "$o" && $(field wrong | sort -u) == 0 ]] ||
        { echo "$output"; return 1; }
    done
  done
}

@test "blocks of different lengths are right, also where some ranks have none" {
  local c n b rows
  for c in allgather reducescatter alltoall; do
    for n in 2 3; do
      rows=$((n + n / 2))
      for b in node tcp; do
        bench "$c" -n "$n" --backend "$b" --uneven --sizes 4,8,12,100,70000 --check --json
        expect_status 0
        [[ $(field uneven | sort -u) == true && $(field wrong | sort -u) == 0 ]] || { echo "$output"; return 1; }
        [[ $(field bytes | uniq | xargs) == "4 8 12 96 $((70000 / 4 / rows * rows * 4))" ]]
      done
    done
  done
  bench alltoall -n 2 --uneven --sizes 4K --check
  expect_status 0
  [[ ${lines[0]} == "alltoall, 2 ranks on 1 node, uneven blocks, back end node;"* ]]
  bench allgather -n 2 --sizes 8 --json
  [[ $(field uneven | sort -u) == false && $(field members | sort -u) == 1 ]]
}

@test "blocks of different lengths, in groups of different sizes" {
  local c
  for c in allgather reducescatter alltoall; do
    bench "$c" -n 4 --uneven --groups 0,1/1,2,3/2 --sizes 4,70000 --check --json
    expect_status 0
    [[ $(field groups | sort -u) == 3 && $(field wrong | sort -u) == 0 ]]
  done
}

@test "a large all-to-all among many is right, alone and in groups at once" {
  local n how
  for n in 3 5; do
    for how in '' --uneven '--groups 0,1,2/0,1,2'; do
      # shellcheck disable=SC2086 # several words
      bench alltoall -n "$n" -i 2 $how --sizes 100K,400K,7M --check --json
      expect_status 0
      [[ $(field wrong | sort -u) == 0 && $(field bytes | sort -u | wc -l) == 3 ]] || { echo "$output"; return 1; }
    done
  done
}

@test "an all-to-all is passed on between more hosts than are all connected" {
  # Over connections each rank counts as a host; two of these 67 lean on others.
  bench alltoall -n 67 --backend tcp -i 1 --uneven --sizes 300,20K --check --json
  expect_status 0
  [[ $(field ranks | sort -u) == 67 && $(field wrong | sort -u) == 0 ]] || { echo "$output"; return 1; }
}

@test "tensors that go together are right, out of place and in" {
  local c n b
  for c in allreduce allgather reducescatter; do
    for n in 2 3; do
      for b in node tcp; do
        bench "$c" -n "$n" --backend "$b" --members 5 --sizes 4,100,70000 --check --json
        expect_status 0
        [[ $(field members | sort -u) == 5 && $(field wrong | sort -u) == 0 ]] || { echo "$output"; return 1; }
      done
    done
    bench "$c" -n 4 --groups 0,1/1,2,3 --members 2 --sizes 4,70000 --check --json
    expect_status 0
    [[ $(field wrong | sort -u) == 0 ]]
  done
  bench allreduce -n 2 --members 5 --in-place yes --sizes 100,70000 --check --json
  expect_status 0
  [[ $(field bytes | uniq | xargs) == "100 70000" && $(field count | uniq | xargs) == "5 3500" ]]
  [[ $(field wrong | sort -u) == 0 ]]
  bench reducescatter -n 3 --members 256 --uneven --sizes 1,1M --check
  expect_status 0
  [[ ${lines[0]} == "reducescatter, 3 ranks on 1 node, uneven blocks, 256 tensors together, back end node;"* ]]
  not grep -vE ' 0$' <<<"$(tail -n +3 <<<"$output")"
}

@test "in place, out of place and both" {
  bench allreduce -n 2 --sizes 4K --in-place both --check --json
  expect_status 0
  [[ $(field in_place | sort -u | xargs) == "false true" && $(field wrong | sort -u) == 0 ]]
  bench broadcast -n 3 --sizes 64K --in-place yes --check --json
  expect_status 0
  [[ $(field in_place | sort -u) == true && $(field wrong | sort -u) == 0 ]]
}

@test "in place where a block is in the whole" {
  local words
  for words in allgather "allgather --uneven" "allgather --members 3" reducescatter \
    "reducescatter --uneven" "reducescatter --members 3" "allgather --alloc"; do
    # shellcheck disable=SC2086
    bench $words -n 3 --sizes 4,3000,1M --in-place both --check --json
    expect_status 0
    [[ $(field in_place | sort -u | xargs) == "false true" && $(field wrong | sort -u) == 0 ]]
  done
}

@test "buffers that others can reach" {
  local c
  for c in allreduce broadcast alltoall resnet50; do
    run timeout 200 ringup bench "$c" -n 2 -i 1 --alloc --sizes 8,32M --check --json
    expect_status 0
    [[ $(field alloc | sort -u) == true && $(field wrong | sort -u) == 0 ]]
  done
}

@test "in groups, apart and overlapping" {
  local c g
  local -A want=([2]=2 [0,1/1,2/2,3/0,1,2,3]=4)
  for g in 2 0,1/1,2/2,3/0,1,2,3; do
    for c in allreduce alltoall reducescatter; do
      bench "$c" -n 4 --groups "$g" --sizes 8,70000 --check --json
      expect_status 0
      [[ $(field wrong | sort -u) == 0 && $(field groups | sort -u) == "${want[$g]}" ]]
    done
  done
}

@test "a set of gradients is right, tensor by tensor" {
  run timeout 200 ringup bench resnet50 -n 2 -i 1 --check --json
  expect_status 0
  [[ $(field collective | sort -u) == resnet50 && $(field bytes | sort -u) == 102228128 ]]
  [[ $(field wrong | sort -u) == 0 ]]
}

@test "the gradients of BERT are right, tensor by tensor" {
  awk '/^MemAvailable/ { exit $2 < 2097152 }' /proc/meminfo || skip "needs 2 GiB of memory"
  run timeout 200 ringup bench bert -n 2 -i 1 --check --json
  expect_status 0
  [[ $(field collective) == bert && $(field bytes) == 437928960 && $(field count) == 109482240 ]]
  [[ $(field wrong) == 0 ]]
}
