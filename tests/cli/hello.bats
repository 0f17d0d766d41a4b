#!/usr/bin/env bats
# hello.bats - ringup hello joins whatever job there is, and knows what the sum must be.
# needs: cpu
# tests: src/cli/cmd_hello.c src/api src/engine src/wire src/launch

load ../lib/helper

setup() {
  local v
  for v in $(compgen -e | grep -E '^(RINGUP_(RANK|SIZE|LOCAL|MEET|SECRET|JOB|MPI|BACKEND)|HOROVOD_|OMPI_|PMI|SLURM_|TORCHELASTIC_|RANK$|WORLD_SIZE$|LOCAL_RANK$|MASTER_)'); do
    unset "$v"
  done
}

@test "alone it is the only rank" {
  run ringup hello -c 3
  expect_status 0
  [[ $output == "1 rank on 1 host, back end self: the sum of 3 numbers is correct ("* ]]
}

@test "ranks of ringup run add up, and rank 0 tells" {
  run ringup run -np 3 -- ringup hello --json
  expect_status 0
  [[ $(sed 's,^\[0\] ,,' <<<"$output" | jq -c '[.ranks, .hosts, .backend, .count]') == '[3,1,"node",65536]' ]]
}

@test "ranks of mpirun add up, by MPI" {
  [[ -x ${RINGUP_TEST_OPENMPI:-} && -e ${builddir:-.}/.libs/ringup-mpi-openmpi.so ]] ||
    skip "configured without Open MPI"
  export RINGUP_BACKEND=mpi
  run timeout -k 5 200 "$RINGUP_TEST_OPENMPI" --allow-run-as-root --oversubscribe -np 2 \
    -x RINGUP_BACKEND -x RINGUP_MPI="${builddir:-.}/.libs/ringup-mpi-openmpi.so" ringup hello
  expect_status 0
  grep -q '^2 ranks on 1 host, back end mpi: ' <<<"$output"
}

@test "a rank that cannot join says why and fails" {
  RINGUP_RANK=5 RINGUP_SIZE=2 run ringup hello
  expect_status 3
  grep -q '^ringup hello: ' <<<"$output"
}

@test "nothing or too much to add up is a misuse" {
  local count
  for count in 0 -1 268435457; do
    run ringup hello --count "$count"
    expect_status 2
    grep -q 'from 1 to 268435456' <<<"$output"
  done
}

@test "a single number is enough" {
  run ringup hello --count 1
  expect_status 0
  [[ $output == *"the sum of 1 number is correct"* ]]
}

@test "fewer ranks than there should be: says so and fails" {
  run ringup hello --ranks 2
  expect_status 3
  expect_line 'ringup hello: the job has 1 rank, not 2'
}
