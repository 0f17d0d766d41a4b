#!/usr/bin/env bats
# tiers.bats - the gate, the shards and the budgets of tests/run agree with what there is.
#
# needs: cpu
# tests: tests Makefile.am

load ../lib/helper

setup_file() {
  [[ ! -e ${builddir:-/nowhere}/Makefile ]] || env -u MAKEFLAGS -u MAKEOVERRIDES make -s -C "$builddir" list-tests >"$BATS_FILE_TMPDIR/list"
}

setup() {
  list=$BATS_FILE_TMPDIR/list
  [[ -s $list ]] || skip "no build: make check sets builddir"
}

@test "every SHARD_ variable is in SHARDS or LONG_SHARDS, and names tests that exist" {
  local kind name tree test program
  while read -r name; do
    grep -qE "^(shard|long) $name " "$list" || { echo "SHARD_$name is in no list"; return 1; }
  done < <(sed -n 's/^SHARD_\([a-z_]*\) *=.*/\1/p' "$src/tests/local.mk" | tr _ -)
  while read -r kind name tree test; do
    [[ $tree == gcc || $tree == asan || $tree == tsan ]] || { echo "shard $name: no build $tree"; return 1; }
    # A program of another folder's source has a line that names it.
    program=${test#tests/} program=${program//\//_}
    [[ -e $src/$test || -e $src/$test.c ]] || grep -q "^%canon_reldir%_${program}_SOURCES = " "$src/tests/local.mk" ||
      { echo "shard $name: no $test"; return 1; }
  done < <(grep -E '^(shard|long) ' "$list")
}

@test "what a shard does at length, the gate does briefly, but what SHARD_ONLY names" {
  local kind name tree test
  while read -r kind name tree test; do
    grep -qxE "gate $tree $test|only $test" "$list" || { echo "shard $name: $test is not in the gate"; return 1; }
  done < <(grep -E '^(shard|long) ' "$list")
}

@test "what a file does at length, some shard does" {
  local f
  while read -r f; do
    [[ $f == */tests/lint/tiers.bats ]] && continue
    grep -qE "^(shard|long) [a-z-]+ [a-z]+ ${f#"$src"/}\$" "$list" || { echo "no shard has $f"; return 1; }
  done < <(grep -rlE 'RINGUP_TEST_LONG|\blong_form\b' "$src/tests" --include='*.bats' --include='test_*.py')
}

@test "every kind of test has a budget" {
  local kind
  for kind in $(sed -n 's,^gate gcc tests/\([a-z]*\)/.*,\1,p' "$list" | sort -u) asan tsan compile distcheck; do
    grep -qE "^$kind [0-9]" "$src/tests/budgets" || { echo "tests/budgets has no line for $kind"; return 1; }
  done
}
