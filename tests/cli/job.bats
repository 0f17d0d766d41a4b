#!/usr/bin/env bats
# job.bats - a program that uses ringup.h, started in every way there is.
# needs: cpu
# tests: src/ringup.h src/api src/engine src/backend src/coll src/wire src/launch tests/programs/sum.c

load ../lib/helper

sum=$PWD/tests/programs/sum
mpisum=$PWD/tests/programs/mpisum

# mpi ARG... - Open MPI, also as root and with more ranks than cores.
mpi() {
  command -v mpirun >/dev/null || skip "mpirun is not installed"
  [[ $(mpirun --version 2>/dev/null) == *"Open MPI"* ]] || skip "mpirun is not Open MPI's"
  timeout 200 mpirun --allow-run-as-root --oversubscribe "$@"
}

# all_agree N - the output has a line of each of N ranks that found the right results.
all_agree() {
  local r
  for ((r = 0; r < $1; r++)); do
    grep -qE "rank $r of $1: all agree; (self|node|tcp), local $r of $1, host 0 of 1\$" <<<"$output" ||
      { printf 'rank %s is missing in:\n%s\n' "$r" "$output"; return 1; }
  done
}

# A launcher around the tests must not be found by them.
setup() {
  local v
  for v in $(compgen -e | grep -E '^(RINGUP_(RANK|SIZE|LOCAL|MEET|SECRET|JOB)|HOROVOD_|OMPI_|PMI|SLURM_|TORCHELASTIC_|RANK$|WORLD_SIZE$|LOCAL_RANK$|MASTER_)'); do
    unset "$v"
  done
}

@test "alone it is a job of one" {
  run timeout 200 "$sum"
  expect_status 0
  all_agree 1
  [[ $output == *"agree; self,"* ]]
}

@test "ringup run -np 4" {
  run timeout 200 ringup run -np 4 -- "$sum"
  expect_status 0
  all_agree 4
}

@test "ringup run -np 9, more ranks than this machine's share" {
  run timeout 200 ringup run -np 9 "$sum"
  expect_status 0
  all_agree 9
}

@test "mpirun -np 4" {
  mpi --version >/dev/null
  run mpi -np 4 "$sum"
  expect_status 0
  all_agree 4
}

@test "mpirun -np 4, with MPI_Allgather as the exchange" {
  mpi --version >/dev/null
  [[ -x $mpisum ]] || skip "configured without MPI"
  run mpi -np 4 "$mpisum"
  expect_status 0
  all_agree 4
}

@test "ranks that disagree are told so, all of them, and go on" {
  run timeout 200 ringup run -np 3 -- "$sum" differ
  expect_status 0
  [[ $(grep -c 'differ: ranks disagree about the operation: .*differ' <<<"$output") -eq 3 ]]
  [[ $output == *10*11* || $output == *11*10* ]]
  all_agree 3
}

@test "a rank that is killed is named by the others, and by the launcher" {
  run timeout 200 ringup run -np 3 -- "$sum" die
  expect_status 137
  grep -qE 'rank 0: .*: a peer is gone: .*rank 2' <<<"$output"
  grep -qE 'rank 1: .*: a peer is gone: .*rank 2' <<<"$output"
  grep -qE '^ringup run: .*rank 2.*(9|SIGKILL|[Kk]illed)' <<<"$output"
}

@test "a back end that does not exist is an error, not another one" {
  RINGUP_BACKEND=pigeon run timeout 200 "$sum"
  expect_status 3
  [[ $output == *pigeon* ]]
}

@test "a misspelt setting is a warning in a program" {
  RINGUP_FUSION_BITES=1 run timeout 200 "$sum"
  expect_status 0
  [[ $output == *"RINGUP_FUSION_BITES is not a setting"* ]]
}
