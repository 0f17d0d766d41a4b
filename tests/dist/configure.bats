#!/usr/bin/env bats
# configure.bats - what configure says when something is missing or wrong.
# needs: cpu
# tests: configure.ac bootstrap Makefile.am

load ../lib/helper

setup() {
  [[ -x $src/configure ]] || skip "there is no configure; run ./bootstrap"
  [[ ! -e $src/config.status ]] || skip "the source folder is configured itself"
  cd "$BATS_TEST_TMPDIR"
}

@test "missing libraries are named together, as packages" {
  PKG_CONFIG_LIBDIR=/nonexistent run "$src/configure" -q
  [[ $status -ne 0 ]]
  [[ $output == *"apt-get install libsodium-dev libmnl-dev libjansson-dev"* ]]
}

@test "an MPI, CUDA or NCCL that was asked for must be there" {
  run "$src/configure" -q --with-mpi=/nonexistent
  [[ $status -ne 0 && $output == *"--with-mpi=/nonexistent: no working mpicc"* ]]
  run "$src/configure" -q --without-mpi --with-cuda=/nonexistent
  [[ $status -ne 0 && $output == *"--with-cuda=/nonexistent: "* ]]
}

@test "without the optional parts it configures, and its summary says so" {
  run "$src/configure" -q --without-mpi --without-cuda --without-nccl --with-sanitizer=no
  expect_status 0
  expect_line '  MPI          no (no module; its tests will be skipped)'
  expect_line '  sanitizer    no'
  [[ $output == *'hardening    -fstack-protector-strong'* ]]
}
