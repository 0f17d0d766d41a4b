#!/usr/bin/env bats
# mpi.bats - the back end mpi, with a real Open MPI and a real MPICH: whole jobs, and refusals.
# needs: cpu
# tests: src/backend src/engine src/wire src/api tests/programs/mpijob.c tests/programs/sum.c tests/lib/mpi.bash

load ../lib/helper
load ../lib/await
load ../lib/mpi

setup() { mpi_setup; }

# jobs_of KIND - whole jobs of a program that knows nothing of MPI.
jobs_of() {
  local n
  needs "$1"
  for n in 2 4; do
    run launch "$1" "$n" "$programs/sum"
    expect_status 0
    all_right "$n" "all agree; mpi, local . of $n"
  done
}

@test "a program without MPI of its own, started by Open MPI's mpirun" { jobs_of openmpi; }
@test "a program without MPI of its own, started by MPICH's mpirun" { jobs_of mpich; }

# owner KIND PROGRAM - a program that has called MPI_Init itself, and goes on using MPI.
owner() {
  local mode
  needs "$1"
  for mode in plain reversed; do
    run launch "$1" 3 "$programs/$2" "$mode"
    expect_status 0
    all_right 3 'right, mpi'
  done
  run launch "$1" 4 "$programs/$2" half
  expect_status 0
  all_right 2 'right, mpi'
  # MPI_Init after ringup_init: by ringup if asked for, else by the program.
  run launch "$1" 3 "$programs/$2" later
  expect_status 0
  all_right 3 'right, mpi'
  RINGUP_BACKEND='' run launch "$1" 3 "$programs/$2" later
  expect_status 0
  all_right 3 'right, node'
}

@test "a program with an Open MPI of its own, whose ranks are not ours" { owner openmpi mpijob; }
@test "a program with an MPICH of its own, whose ranks are not ours" { owner mpich mpijob_mpich; }

# refused KIND PROGRAM - what MPI does not allow is said, and nothing hangs.
refused() {
  needs "$1"
  run launch "$1" 2 "$programs/$2" single
  [[ $status -ne 0 && $output == *"MPI was initialized for one thread only"* ]]
  run launch "$1" 2 "$programs/$2" early
  [[ $status -ne 0 && $output == *"sum: "*"MPI_Finalize was called before ringup_fini"* ]]
  if [[ $1 == openmpi ]]; then export RINGUP_MPI=mpich; else export RINGUP_MPI=openmpi; fi
  run launch "$1" 2 "$programs/$2"
  [[ $status -ne 0 && $output == *"but this process uses "* ]]
}

@test "Open MPI: one thread, an early MPI_Finalize, the wrong MPI" { refused openmpi mpijob; }
@test "MPICH: one thread, an early MPI_Finalize, the wrong MPI" { refused mpich mpijob_mpich; }

# killed KIND - the others name a rank that dies.  Both launchers would end them at once
# if they knew, so the shells that they started stay until all three have said all.
killed() {
  needs "$1"
  mkdir "$BATS_TEST_TMPDIR/over"
  run launch "$1" 3 bash -c '"$1" die
    : >"$0/$$"
    for ((i = 0; i < 6000; i++)); do
      set -- "$0"/*
      [[ $# -lt 3 ]] || exit 1
      sleep 0.02
    done
    echo in vain' "$BATS_TEST_TMPDIR/over" "$programs/sum"
  grep -qE 'rank 0: .*: a peer is gone: .*rank 2' <<<"$output" || { echo "$output"; return 1; }
  grep -qE 'rank 1: .*: a peer is gone: .*rank 2' <<<"$output"
}

@test "a rank that dies under Open MPI is named" { killed openmpi; }
@test "a rank that dies under MPICH is named" { killed mpich; }

# endless KIND - MPI_Finalize may never come back: MPICH before 4.2 over nothing but TCP, where
# a rank that has closed its connections no longer answers those that close theirs.  A program
# of MPI_Init, MPI_Allreduce and MPI_Finalize hangs in four runs of five.
endless() {
  [[ $1 == mpich ]] && "$RINGUP_TEST_MPICH" --version |
    awk '$1 == "Version:" { split($2, v, "."); exit !(v[1] < 4 || v[1] == 4 && v[2] < 2) }'
}

# told FILE PID - have three ranks said that all is right, or has the launcher ended?
told() {
  [[ $(grep -c 'all agree; mpi' "$1") -ge 3 ]] || ! kill -0 "$2" 2>/dev/null
}

# apart KIND - ranks in user namespaces of their own count as hosts: the agreement goes over
# connections, the data through MPI, and that of UCX over TCP.
apart() {
  local launch pid out=$BATS_TEST_TMPDIR/out
  needs "$1"
  unshare --user --map-root-user true 2>/dev/null || skip "user namespaces are not allowed"
  export RINGUP_INTERFACE=lo UCX_TLS=tcp,self
  launcher "$1" 3 unshare --user --map-root-user "$programs/sum"
  "${launch[@]}" >"$out" 2>&1 3>&- &
  pid=$!
  await told "$out" "$pid" || { cat "$out"; return 1; }
  # The results are there; nobody waits for an end that may never come.
  ! endless "$1" || kill "$pid" 2>/dev/null || true
  status=0
  wait "$pid" || status=$?
  output=$(<"$out")
  endless "$1" || expect_status 0
  all_right 3 'all agree; mpi, local 0 of 1, host . of 3'
  RINGUP_BACKEND='' run launch "$1" 3 unshare --user --map-root-user "$programs/sum"
  expect_status 0
  not grep -q 'all agree; mpi' <<<"$output"
}

@test "between hosts over Open MPI, and only if asked for" { apart openmpi; }
@test "between hosts over MPICH, and only if asked for" { apart mpich; }

@test "without an MPI launcher it refuses, and says what to do" {
  RINGUP_MPI='' run timeout 200 ringup run -np 2 -- "$PWD/tests/programs/sum"
  [[ $status -ne 0 && $output == *"no MPI launcher started this process; use mpirun"* ]]
  RINGUP_MPI=lam run timeout 200 ringup run -np 2 -- "$PWD/tests/programs/sum"
  [[ $status -ne 0 && $output == *"RINGUP_MPI=lam: openmpi, mpich or a path to a module"* ]]
  RINGUP_MPI=/nonexistent.so run timeout 200 ringup run -np 2 -- "$PWD/tests/programs/sum"
  [[ $status -ne 0 && $output == *"RINGUP_MPI=/nonexistent.so: no such file"* ]]
}

@test "what is no module of this version is not used" {
  RINGUP_MPI=$(find "$builddir/.libs" -name 'libringup.so.0.*' | head -n 1) \
    run timeout 200 ringup run -np 2 -- "$PWD/tests/programs/sum"
  [[ $status -ne 0 && $output == *"belongs to another version of ringup"* ]]
}

@test "the library itself does not need MPI" {
  command -v readelf >/dev/null || skip "readelf is not installed"
  run readelf -d "$builddir/.libs/libringup.so.0"
  [[ $output != *libmpi* ]]
}
