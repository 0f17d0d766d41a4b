#!/usr/bin/env bats
# arm.bats - the innermost loops on arm64: cross-compiled, and run where qemu is.
# needs: cpu
# tests: src/coll tests/dist/loops.c tests/unit/test_loops.c tests/unit/test_copy.c tests/unit/test_reduce.c tests/unit/test_adasum.c tests/half.h tests/tap.h

load ../lib/helper

# Unit tests of pure arithmetic: they need no library of the other architecture.
# on_arm ARG... - compile for arm64.
on_arm() {
  aarch64-linux-gnu-gcc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -ffp-contract=off \
    -static -I"$src/src" -I"$src/tests" "$@"
}

# The sources of all tests are compiled once.
setup_file() {
  command -v aarch64-linux-gnu-gcc >/dev/null || return 0
  cd "$BATS_FILE_TMPDIR"
  on_arm -c "$src"/src/coll/{loops,reduce,copy,adasum}.c 2>errors || {
    cat errors
    grep -q 'internal compiler error' errors  # as gcc 14.2 of Debian 13 has
  }
}

# runs_on_arm FILE - build that test for arm64 and run it.
runs_on_arm() {
  command -v aarch64-linux-gnu-gcc >/dev/null || skip "no compiler for arm64"
  [[ -e $BATS_FILE_TMPDIR/adasum.o ]] || skip "this compiler for arm64 breaks"
  on_arm -o "$BATS_TEST_TMPDIR/test" "$src/tests/$1" "$BATS_FILE_TMPDIR"/*.o -lm
  command -v qemu-aarch64 >/dev/null || skip "it compiles; no qemu-aarch64 to run it"
  timeout 300 qemu-aarch64 "$BATS_TEST_TMPDIR/test"
}

# Every pattern with 40 factors takes long when each instruction is emulated.
@test "half precision on arm64" {
  if [[ ${RINGUP_TEST_LONG:-0} == 1 ]]; then runs_on_arm unit/test_loops.c; else runs_on_arm dist/loops.c; fi
}

@test "copies on arm64" {
  runs_on_arm unit/test_copy.c
}

@test "sums on arm64, every type and operation" {
  runs_on_arm unit/test_reduce.c
}

@test "Adasum on arm64, the same bits" {
  runs_on_arm unit/test_adasum.c
}
