#!/usr/bin/env bats
# search.bats - every fuzz target searches for a while, from its seeds, and finds nothing.
#
# needs: cpu
# tests: tests/fuzz src

load ../lib/helper

@test "every fuzz target searches and finds nothing" {
  command -v clang >/dev/null || skip "clang is not installed"
  run nice make -C "$builddir" -j"$(nproc)" fuzz FUZZ_SECONDS="${RINGUP_TEST_FUZZ_SECONDS:-5}"
  expect_status 0
}
