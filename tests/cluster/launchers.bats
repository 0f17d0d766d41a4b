#!/usr/bin/env bats
# launchers.bats - the ranks of real launchers on two hosts meet by what these keep for them.
# needs: waits root-net
# tests: src/wire src/engine/context.c src/backend/mpi*.c tests/net/beside_mpi.c tests/lib/hosts.bash tests/lib/real.bash tests/lib/scenes.bash tests/py/step_of_a_rank.py

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/await
load ../lib/real
load ../lib/scenes

setup() {
  scenes_setup
  library=${RINGUP_LIBRARY:-$(dirname "$(command -v ringup)")/.libs/libringup.so.0}
  given=(RINGUP_LIBRARY="$library")
}

teardown() { cluster_down; }

# need KIND - that launcher, its compiler in $cc; or skip.
need() {
  case $1 in
  openmpi) need_mpi && cc=mpicc ;;
  openmpi5)
    need_mpi5
    given+=(OPAL_PREFIX="$mpi5" LD_LIBRARY_PATH="$mpi5/lib" PRTE_MCA_plm_ssh_agent=/run/nodes/rsh)
    cc="env OPAL_PREFIX=$mpi5 LD_LIBRARY_PATH=$mpi5/lib $mpi5/bin/mpicc"
    ;;
  mpich) need_programs mpiexec.hydra mpicc.mpich && cc=mpicc.mpich ;;
  esac
}

# launch KIND COMMAND... - four ranks of it, two on each host; sets status and output.
launch() {
  local -a words
  case $1 in
  openmpi) words=(mpirun -np 4 -H 'n1:2,n2:2' -x RINGUP_LIBRARY) ;;
  openmpi5) words=("$mpi5/bin/mpirun" -np 4 -H 'n1:2,n2:2' -x RINGUP_LIBRARY) ;;
  mpich) words=(mpiexec.hydra -launcher rsh -launcher-exec /run/nodes/rsh -hosts 'n1:2,n2:2' -n 4) ;;
  esac
  start n1 job env "${given[@]}" "${words[@]}" "${@:2}"
  finish job
}

# beside KIND STEP... - ranks that do these steps, with MPI of their own.
beside() {
  launch "$1" "$PWD/beside" "${@:2}"
  expect_status 0
  expect_line 'all steps are done'
}

# meets KIND - all ways in which ranks of that launcher meet.
meets() {
  need "$1"
  $cc -I"$src/src" -o beside "$src/tests/net/beside_mpi.c" -ldl -lpthread
  cluster_up 2
  launch "$1" ringup hello
  expect_status 0
  [[ $output == *'4 ranks on 2 hosts, back end tcp: the sum of 65536 numbers is correct'* ]]
  # Alone, again and again, from a thread, too; and with MPI in the same process, before and after.
  beside "$1" thread sum fini join sum fini
  case $1 in
  openmpi)
    beside "$1" MPI_Init join sum MPI_Allreduce fini MPI_Finalize
    beside "$1" join sum MPI_Init MPI_Allreduce fini MPI_Finalize
    ;;
  openmpi5)
    beside "$1" MPI_Init join sum MPI_Allreduce fini MPI_Finalize
    # MPI of ringup's own: this one must begin before ringup speaks to the launcher.
    launch "$1" env RINGUP_BACKEND=mpi ringup hello
    [[ $output == *'no module for this MPI'* ]] || expect_status 0
    ;;
  mpich)
    # Ranks that have spoken over UCX and come to MPI_Finalize() at different times may hang in it,
    # without ringup, too: so these do not.
    beside "$1" MPI_Init join sum fini MPI_Finalize
    beside "$1" join sum MPI_Init fini MPI_Finalize
    ;;
  esac
  launch "$1" "$PWD/beside" MPI_Init MPI_Finalize join
  [[ $status -ne 0 && $output == *'MPI_Finalize() has ended this rank'?'s connection to its launcher: call ringup_init() or hvd.init() before it'* ]]
}

@test "Open MPI 4.1: ranks on two hosts" { meets openmpi; }
@test "Open MPI 5: ranks on two hosts" { meets openmpi5; }
@test "MPICH: ranks on two hosts" { meets mpich; }

@test "a key that is made of RINGUP_SECRET, which one host lacks" {
  need openmpi
  cluster_up 2
  given+=(RINGUP_SECRET=0123456789abcdef0123456789abcdef)
  launch openmpi -x RINGUP_SECRET ringup hello
  expect_status 0
  launch openmpi sh -c 'case $(hostname) in n2) unset RINGUP_SECRET; esac; exec ringup hello'
  [[ $status -ne 0 && $output == *'rank 0 has a RINGUP_SECRET and this rank has none'* ]]
}

@test "ranks that are not all ringup's: the others give up, and say why" {
  need openmpi
  cluster_up 2
  given+=(RINGUP_START_TIMEOUT_MS=1500)
  launch openmpi -x RINGUP_START_TIMEOUT_MS sh -c '[ "$OMPI_COMM_WORLD_RANK" = 3 ] || exec ringup hello; exec sleep 60'
  [[ $status -ne 0 && $output == *'not all ranks have used the launcher'?'s store (PMIx): check that each rank of this job calls ringup_init() or hvd.init()'* ]]
}

# steps KIND - a step of training by Horovod's interface: all ranks have the same weights afterwards.
steps() {
  [[ ${RINGUP_TEST_LONG:-0} == 1 ]] || skip "a step of training under each launcher is in the long form"
  need "$1"
  need_torch
  cluster_up 2
  given+=(PYTHONPATH="$src/compat/python" PYTHONDONTWRITEBYTECODE=1)
  [[ $1 == mpich ]] || set -- "$1" -x PYTHONPATH -x PYTHONDONTWRITEBYTECODE
  launch "$@" "$python" "$src/tests/py/step_of_a_rank.py"
  expect_status 0
  [[ $(grep -c '^weights ' <<<"$output") -eq 4 && $(grep '^weights ' <<<"$output" | sort -u | wc -l) -eq 1 ]]
}

@test "Open MPI 4.1: a step of horovod.torch" { steps openmpi; }
@test "Open MPI 5: a step of horovod.torch" { steps openmpi5; }
@test "MPICH: a step of horovod.torch" { steps mpich; }
