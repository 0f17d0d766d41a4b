#!/usr/bin/env bats
# arm.bats - the innermost loops on arm64: cross-compiled, and run where qemu is.

load ../lib/helper

# Unit tests of pure arithmetic: they need no library of the other architecture.
# loops_on_arm TEST - build tests/unit/TEST for arm64 and run it.
loops_on_arm() {
  command -v aarch64-linux-gnu-gcc >/dev/null || skip "no compiler for arm64"
  aarch64-linux-gnu-gcc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -ffp-contract=off \
    -static -I"$src/src" -I"$src/tests" -o "$BATS_TEST_TMPDIR/$1" "$src/tests/unit/$1.c" \
    "$src"/src/coll/{loops,reduce,copy,adasum}.c -lm
  command -v qemu-aarch64 >/dev/null || skip "it compiles; no qemu-aarch64 to run it"
  timeout 300 qemu-aarch64 "$BATS_TEST_TMPDIR/$1"
}

@test "half precision on arm64" {
  loops_on_arm test_loops
}

@test "copies on arm64" {
  loops_on_arm test_copy
}

@test "sums on arm64, every type and operation" {
  loops_on_arm test_reduce
}

@test "Adasum on arm64, the same bits" {
  loops_on_arm test_adasum
}
