#!/usr/bin/env bats
# threads.bats - what starts threads is run under ThreadSanitizer, and nothing else is.
# needs: cpu
# tests: src tests/unit tests/whole tests/device tests/local.mk

load ../lib/helper

# listed VARIABLE... - the programs that these variables of tests/local.mk name.
listed() {
  local name
  for name; do
    awk -v name="$name" '
      $1 == name && $2 ~ /^[+]?=$/ { on = 1 }
      on { for (i = 1; i <= NF; i++) if (sub(/^%reldir%\//, "", $i)) print $i }
      !/\\$/ { on = 0 }' "$src/tests/local.mk"
  done | sort
}

# starts_threads PROGRAM - can it? Who links the function may call it.
starts_threads() {
  local file=$builddir/tests/$1
  [[ ! -e $builddir/tests/${1%/*}/.libs/${1##*/} ]] || file=$builddir/tests/${1%/*}/.libs/${1##*/}
  readelf --dyn-syms -W "$file" | awk '$7 == "UND" && $8 ~ /^pthread_create(@|$)/ { found = 1 } END { exit !found }'
}

@test "THREADED_TESTS has each program that can start threads, and no other" {
  local program
  command -v readelf >/dev/null || skip "readelf is not installed"
  [[ -x ${builddir:-/nonexistent}/tests/unit/test_clock ]] || skip "the tests are not built"
  ! readelf --dyn-syms -W "$builddir/tests/unit/test_clock" | grep -qE '__[at]san_init' || skip "this is a sanitizer's build"
  diff <(listed THREADED_TESTS) \
    <(for program in $(listed UNIT_TESTS WHOLE_TESTS DEVICE_OWN FAKEGPU_TESTS); do ! starts_threads "$program" || echo "$program"; done | sort)
}
