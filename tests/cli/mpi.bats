#!/usr/bin/env bats
# mpi.bats - the back end mpi, with a real Open MPI and a real MPICH.

load ../lib/helper

# launch KIND N PROGRAM ARG... - as N ranks of Open MPI or MPICH, also as root and with
# more ranks than cores.
launch() {
  local kind=$1 n=$2
  shift 2
  case $kind in
    openmpi)
      timeout -k 5 "${limit:-200}" "$RINGUP_TEST_OPENMPI" --allow-run-as-root --oversubscribe \
        -x RINGUP_BACKEND -x RINGUP_MPI -x RINGUP_INTERFACE -np "$n" "$@"
      ;;
    mpich) timeout -k 5 "${limit:-200}" "$RINGUP_TEST_MPICH" -np "$n" "$@" ;;
  esac
}

# needs KIND - skip unless ringup was built with this MPI, and its mpirun is there.
needs() {
  local runner=RINGUP_TEST_${1^^}
  [[ -e ${builddir:-.}/.libs/ringup-mpi-$1.so ]] || skip "configured without $1"
  [[ -x ${!runner:-} ]] || skip "the mpirun of $1 is not installed"
  programs=$PWD/tests/programs
}

# all_right N TEXT - N lines of the output are "rank R of N: TEXT", one for each rank.
all_right() {
  local r
  for ((r = 0; r < $1; r++)); do
    grep -qE "rank $r of $1: $2" <<<"$output" || { printf 'rank %s:\n%s\n' "$r" "$output"; return 1; }
  done
}

setup() {
  local v
  for v in $(compgen -e | grep -E '^(RINGUP_(RANK|SIZE|LOCAL|MEET|SECRET|JOB|MPI)|HOROVOD_|OMPI_|PMI|SLURM_|TORCHELASTIC_|RANK$|WORLD_SIZE$|LOCAL_RANK$|MASTER_)'); do
    unset "$v"
  done
  export RINGUP_BACKEND=mpi RINGUP_MPI='' RINGUP_INTERFACE=''
}

# plans KIND - every kind of plan, type and operation, with 2, 3 and 4 ranks.
plans() {
  local n
  needs "$1"
  for n in 2 3 4; do
    RINGUP_MPI=$builddir/.libs/ringup-mpi-$1.so run launch "$1" "$n" "$programs/mpiplans"
    expect_status 0
    not grep -E '^not ok' <<<"$output"
    all_right "$n" 'all right'
  done
}

@test "every collective, type and operation over Open MPI, to the bit" { plans openmpi; }
@test "every collective, type and operation over MPICH, to the bit" { plans mpich; }

# jobs KIND - whole jobs of a program that knows nothing of MPI.
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
  [[ $status -ne 0 && $output == *"MPI was initialised for one thread only"* ]]
  run launch "$1" 2 "$programs/$2" early
  [[ $status -ne 0 && $output == *"sum: "*"MPI_Finalize was called before ringup_fini"* ]]
  if [[ $1 == openmpi ]]; then export RINGUP_MPI=mpich; else export RINGUP_MPI=openmpi; fi
  run launch "$1" 2 "$programs/$2"
  [[ $status -ne 0 && $output == *"but this process uses "* ]]
}

@test "Open MPI: one thread, an early MPI_Finalize, the wrong MPI" { refused openmpi mpijob; }
@test "MPICH: one thread, an early MPI_Finalize, the wrong MPI" { refused mpich mpijob_mpich; }

# killed KIND - the others name a rank that dies.  Both launchers would end them at once
# if they knew, so the shell that they started stays a while.
killed() {
  needs "$1"
  run launch "$1" 3 bash -c '"$0" "$@" || sleep 3' "$programs/sum" die
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

# apart KIND - ranks in user namespaces of their own count as hosts: the agreement goes over
# connections, the data through MPI, and that of UCX over TCP.
apart() {
  needs "$1"
  unshare --user --map-root-user true 2>/dev/null || skip "user namespaces are not allowed"
  limit=40 UCX_TLS=tcp,self RINGUP_INTERFACE=lo run launch "$1" 3 unshare --user --map-root-user "$programs/sum"
  [[ $status -eq 124 ]] && endless "$1" || expect_status 0
  all_right 3 'all agree; mpi, local 0 of 1, host . of 3'
  UCX_TLS=tcp,self RINGUP_INTERFACE=lo RINGUP_BACKEND='' run launch "$1" 3 unshare --user --map-root-user "$programs/sum"
  expect_status 0
  not grep -q 'all agree; mpi' <<<"$output"
}

@test "between hosts over Open MPI, and only if asked for" { apart openmpi; }
@test "between hosts over MPICH, and only if asked for" { apart mpich; }

@test "without an MPI launcher it refuses, and says what to do" {
  RINGUP_MPI='' run timeout 60 ringup run -np 2 -- "$PWD/tests/programs/sum"
  [[ $status -ne 0 && $output == *"no MPI launcher started this process; use mpirun"* ]]
  RINGUP_MPI=lam run timeout 60 ringup run -np 2 -- "$PWD/tests/programs/sum"
  [[ $status -ne 0 && $output == *"RINGUP_MPI=lam: openmpi, mpich or a path to a module"* ]]
  RINGUP_MPI=/nonexistent.so run timeout 60 ringup run -np 2 -- "$PWD/tests/programs/sum"
  [[ $status -ne 0 && $output == *"RINGUP_MPI=/nonexistent.so: there is no such file"* ]]
}

@test "what is no module of this version is not used" {
  RINGUP_MPI=$(find "$builddir/.libs" -name 'libringup.so.0.*' | head -n 1) \
    run timeout 60 ringup run -np 2 -- "$PWD/tests/programs/sum"
  [[ $status -ne 0 && $output == *"belongs to another version of ringup"* ]]
}

@test "the library itself does not need MPI" {
  command -v readelf >/dev/null || skip "readelf is not installed"
  run readelf -d "$builddir/.libs/libringup.so.0"
  [[ $output != *libmpi* ]]
}
