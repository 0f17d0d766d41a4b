#!/usr/bin/env bats
# configure.bats - what configure says when something is missing or wrong.
# needs: cpu
# tests: configure.ac bootstrap Makefile.am

load ../lib/helper

# Where nothing is missing it is run once; what it has found out about the compiler then the others
# need not find out again, but libraries they look for themselves.
setup_file() {
  [[ -x $src/configure && ! -e $src/config.status ]] || return 0
  mkdir "$BATS_FILE_TMPDIR/whole"
  cd "$BATS_FILE_TMPDIR/whole"
  echo 0 >status
  "$src/configure" -q -C --without-mpi --without-cuda --without-nccl --with-sanitizer=no >output 2>&1 ||
    echo "$?" >status
  grep -vE '^(pkg_cv_|ac_cv_env_)' config.cache >"$BATS_FILE_TMPDIR/cache" || true
}

setup() {
  [[ -x $src/configure ]] || skip "there is no configure; run ./bootstrap"
  [[ ! -e $src/config.status ]] || skip "the source folder is configured itself"
  cd "$BATS_TEST_TMPDIR"
  cp "$BATS_FILE_TMPDIR/cache" .
}

@test "without the optional parts it configures, and its summary says so" {
  output=$(<"$BATS_FILE_TMPDIR/whole/output") status=$(<"$BATS_FILE_TMPDIR/whole/status")
  expect_status 0
  expect_line '  MPI          no (no module; its tests will be skipped)'
  expect_line '  sanitizer    no'
  [[ $output == *'hardening    -fstack-protector-strong'* ]]
}

@test "missing libraries are named together, as packages" {
  PKG_CONFIG_LIBDIR=/nonexistent run "$src/configure" -q --cache-file=cache
  [[ $status -ne 0 ]]
  [[ $output == *"apt-get install libsodium-dev libmnl-dev libjansson-dev"* ]]
}

@test "an MPI, CUDA or NCCL that was asked for must be there" {
  run "$src/configure" -q --cache-file=cache --with-mpi=/nonexistent
  [[ $status -ne 0 && $output == *"--with-mpi=/nonexistent: no working mpicc"* ]]
  run "$src/configure" -q --cache-file=cache --without-mpi --with-cuda=/nonexistent
  [[ $status -ne 0 && $output == *"--with-cuda=/nonexistent: "* ]]
}

@test "without a shared library there is nothing to load, so that is refused" {
  run "$src/configure" -q --cache-file=cache --disable-shared
  [[ $status -ne 0 && $output == *"--disable-shared: Python and MPI load libringup.so"* ]]
}
