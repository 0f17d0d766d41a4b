#!/usr/bin/env bats
# mpi-plans.bats - every kind of plan of the back end mpi, over a real Open MPI and a real MPICH.
# needs: cpu
# tests: src/backend/mpi.c src/backend/mpi_find.c src/backend/mpi_module.c src/backend/pieces.c src/coll tests/programs/mpiplans.c tests/lib/mpi.bash

load ../lib/helper
load ../lib/mpi

setup() { mpi_setup; }

# plans KIND - every kind of plan, type and operation, with 2, 3 and 4 ranks; mpiplans.c says of
# which pairs of types and operations the long form has more lengths.
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
