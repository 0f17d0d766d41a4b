# shellcheck shell=bash disable=SC2034,SC2154
# mpi.bash - start programs with the real Open MPI and the real MPICH that ringup was built with.

# mpi_setup - the back end mpi, and an environment without other launchers' words.
mpi_setup() {
  local v
  for v in $(compgen -e | grep -E '^(RINGUP_(RANK|SIZE|LOCAL|MEET|SECRET|JOB|MPI)|HOROVOD_|OMPI_|PMI|SLURM_|TORCHELASTIC_|RANK$|WORLD_SIZE$|LOCAL_RANK$|MASTER_)'); do
    unset "$v"
  done
  export RINGUP_BACKEND=mpi RINGUP_MPI='' RINGUP_INTERFACE=''
  # There may be more ranks than processors, and one that waits is not to keep another from work.
  export OMPI_MCA_mpi_yield_when_idle=1 MPIR_CVAR_POLLS_BEFORE_YIELD=1
}

# needs KIND - skip unless ringup was built with this MPI, and its mpirun is there; sets $programs.
needs() {
  local runner=RINGUP_TEST_${1^^}
  [[ -e ${builddir:-.}/.libs/ringup-mpi-$1.so ]] || skip "configured without $1"
  [[ -x ${!runner:-} ]] || skip "the mpirun of $1 is not installed"
  programs=$PWD/tests/programs
}

# launcher KIND N PROGRAM ARG... - sets $launch to what starts N ranks of Open MPI or MPICH, also
# as root and with more ranks than cores.
launcher() {
  launch=(timeout -k 5 200)
  case $1 in
    openmpi)
      launch+=("$RINGUP_TEST_OPENMPI" --allow-run-as-root --oversubscribe
        -x RINGUP_BACKEND -x RINGUP_MPI -x RINGUP_INTERFACE -np "$2")
      ;;
    mpich) launch+=("$RINGUP_TEST_MPICH" -np "$2") ;;
  esac
  launch+=("${@:3}")
}

# launch KIND N PROGRAM ARG... - start it and wait until it has ended.
launch() {
  local launch
  launcher "$@"
  "${launch[@]}"
}

# all_right N TEXT - lines of the output are "rank R of N: TEXT", one for each rank.
all_right() {
  local r
  for ((r = 0; r < $1; r++)); do
    grep -qE "rank $r of $1: $2" <<<"$output" || { printf 'rank %s:\n%s\n' "$r" "$output"; return 1; }
  done
}

# mpich_program - set $mpich to tests/programs/hangs.c, compiled for MPICH; or skip.
mpich_program() {
  command -v mpicc.mpich mpiexec.hydra >/dev/null || skip "no MPICH"
  mpich=$BATS_FILE_TMPDIR/mpichhangs
  [[ -x $mpich ]] || mpicc.mpich -DWITH_MPI -O2 -g -o "$mpich" "$src/tests/programs/hangs.c"
}
