#!/usr/bin/env bats
# discover.bats - ranks are found under real launchers.
# needs: cpu
# tests: src/wire/discover.c src/wire/discover.h tests/programs/whereami.c tests/lib/real.bash

load ../lib/helper
load ../lib/real

whereami=$PWD/tests/programs/whereami

# mpi ARG... - Open MPI, also as root and with more ranks than cores.
mpi() {
  command -v mpirun >/dev/null || skip "mpirun is not installed"
  [[ $(mpirun --version 2>/dev/null) == *"Open MPI"* ]] || skip "mpirun is not Open MPI's"
  timeout 200 mpirun --allow-run-as-root --oversubscribe "$@"
}

# alone - forget what an outer launcher may have set.
alone() {
  local v
  for v in $(compgen -e | grep -vE '^RINGUP_TEST_' | grep -E '^(RINGUP|HOROVOD|OMPI|PMI|PMIX|SLURM|TORCHELASTIC)_|^(RANK|WORLD_SIZE|MASTER_ADDR)$'); do
    unset "$v"
  done
}

setup() { alone; }

@test "a process that nobody launched is rank 0 of 1" {
  run "$whereami"
  expect_status 0
  expect_line "source=none rank=0 size=1 local_rank=-1 local_size=-1 spans=0 key="
}

@test "mpirun -np 4: four ranks, one key" {
  mpi --version >/dev/null
  run mpi -np 4 "$whereami"
  expect_status 0
  local r
  for r in 0 1 2 3; do
    grep -q "^source=Open MPI rank=$r size=4 local_rank=$r local_size=4 spans=0 key=openmpi ." <<<"$output"
  done
  [[ $(grep -o 'key=.*' <<<"$output" | sort -u | wc -l) -eq 1 ]]
}

@test "two mpirun at a time have different keys" {
  mpi --version >/dev/null
  # The first two in one TMPDIR may be in each other's way: each makes the same folder there.
  mkdir "$BATS_TEST_TMPDIR/first"
  TMPDIR=$BATS_TEST_TMPDIR/first mpi -np 1 "$whereami" >"$BATS_TEST_TMPDIR/a" &
  mpi -np 1 "$whereami" >"$BATS_TEST_TMPDIR/b"
  wait $!
  grep -q 'key=openmpi .' "$BATS_TEST_TMPDIR/a"
  not cmp -s "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/b"
}

@test "mpirun with the variables of an older torch job is refused" {
  mpi --version >/dev/null
  RANK=0 WORLD_SIZE=1 MASTER_ADDR=h run mpi -np 2 "$whereami"
  [[ $status -ne 0 ]]
  grep -q 'OMPI_COMM_WORLD_RANK=.* RANK=0 and WORLD_SIZE=1: unset' <<<"$output"
}

@test "torchrun's environment" {
  RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 GROUP_WORLD_SIZE=1 \
    MASTER_ADDR=127.0.0.1 MASTER_PORT=29501 TORCHELASTIC_RUN_ID=x TORCHELASTIC_RESTART_COUNT=0 \
    run "$whereami"
  expect_status 0
  expect_line "source=torchrun rank=1 size=2 local_rank=1 local_size=2 spans=0 key=torchrun 127.0.0.1 29501 x 0"
}

@test "half a pair is refused with both names" {
  OMPI_COMM_WORLD_RANK=0 run "$whereami"
  expect_status 3
  expect_line "whereami: OMPI_COMM_WORLD_RANK is set but OMPI_COMM_WORLD_SIZE is not: a rank needs both; set it, or unset OMPI_COMM_WORLD_RANK"
}

@test "mpiexec of MPICH: three ranks, one key" {
  command -v mpiexec.hydra >/dev/null || skip "MPICH is not installed"
  run timeout 200 mpiexec.hydra -np 3 "$whereami"
  expect_status 0
  local r
  for r in 0 1 2; do
    grep -q "^source=MPI (PMI) rank=$r size=3 local_rank=$r local_size=3 spans=0 key=hydra ." <<<"$output"
  done
  [[ $(grep -o 'key=.*' <<<"$output" | sort -u | wc -l) -eq 1 ]]
}

@test "torchrun itself: two ranks, one key" {
  local python=${RINGUP_TEST_PYTHON:-python3}
  has_torch "$python" distributed/run.py || skip "torch is not installed for $python"
  # It leaves a folder for logs behind.
  TMPDIR=$BATS_TEST_TMPDIR run timeout 200 "$python" -m torch.distributed.run --nproc-per-node 2 --no-python "$whereami"
  expect_status 0
  grep -q '^source=torchrun rank=0 size=2 local_rank=0 local_size=2 spans=0 key=torchrun ' <<<"$output"
  grep -q '^source=torchrun rank=1 size=2 local_rank=1 local_size=2 spans=0 key=torchrun ' <<<"$output"
  [[ $(grep -o 'key=.*' <<<"$output" | sort -u | wc -l) -eq 1 ]]
}
