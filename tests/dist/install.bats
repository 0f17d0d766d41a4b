#!/usr/bin/env bats
# install.bats - make install, make uninstall, and a program that uses what was installed.
# needs: cpu
# tests: configure.ac Makefile.am ringup.pc.in src docs completion init-scripts compat

load ../lib/helper

read -ra cc <<<"${CC:-cc}" # it may be "ccache gcc"

# mk ARG... - make in the build folder, independent of the make that runs this test.
mk() {
  env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$builddir" "$@"
}

setup_file() {
  [[ -e ${builddir:-/nonexistent}/Makefile ]] || skip "there is no build folder"
  export dest=$BATS_FILE_TMPDIR/dest
  mk install DESTDIR="$dest" >"$BATS_FILE_TMPDIR/log" 2>&1 || {
    cat "$BATS_FILE_TMPDIR/log" >&2
    return 1
  }
}

setup() {
  prefix=$dest$(sed -n 's/^prefix = //p' "$builddir/Makefile")
}

@test "install puts everything in its place" {
  local f
  for f in bin/ringup bin/horovodrun include/ringup.h share/man/man1/ringup.1 share/man/man1/ringup-env.1 \
    share/man/man3/ringup_api.3 share/bash-completion/completions/{ringup,horovodrun}; do
    [[ -s $prefix/$f ]] || { echo "missing: $f"; return 1; }
  done
  [[ -n $(find "$dest" -name libringup.so.0) ]]
  [[ -n $(find "$dest" -name ringup.pc) ]]
  [[ $("$prefix/bin/ringup" --version) == "$(ringup --version)" ]]
}

@test "every page of the manual is installed" {
  local f n
  for f in "$src"/docs/man/*.[1-9]; do
    n=${f##*/}
    [[ -s $prefix/share/man/man${n##*.}/$n ]] || { echo "missing: $n"; return 1; }
  done
}

@test "nothing that was installed tells where it was built" {
  local where
  where=$(cd "$builddir" && pwd)
  [[ ${prefix#"$dest"} != "$(cd "$src" && pwd)"/* ]] || skip "the prefix is below the sources (make distcheck)"
  # Debugging information does, as it must.
  mk install-strip DESTDIR="$BATS_TEST_TMPDIR/d" >/dev/null 2>&1
  run grep -rlF -e "$where/" -e "$(cd "$src" && pwd)/" "$BATS_TEST_TMPDIR/d"
  [[ -z $output ]] || { echo "$output"; return 1; }
}

@test "a program compiles against the installed header and library, and runs" {
  local pc lib
  pc=$(find "$dest" -name ringup.pc) lib=$(dirname "$(find "$dest" -name libringup.so.0)")
  readelf -d "$lib/libringup.so.0" | grep -q 'lib[at]san' && skip "this is a sanitizer's build"
  cat >"$BATS_TEST_TMPDIR/x.c" <<'EOF'
#include <ringup.h>
#include <stdio.h>
int main(void) { puts(ringup_version()); return 0; }
EOF
  # shellcheck disable=SC2046 # flags are words
  "${cc[@]}" -std=c99 -Wall -Wextra -Werror -pedantic -o "$BATS_TEST_TMPDIR/x" "$BATS_TEST_TMPDIR/x.c" \
    $(PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$dest PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
      PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --cflags --libs ringup)
  [[ $(ringup --version) == "ringup $(LD_LIBRARY_PATH=$lib "$BATS_TEST_TMPDIR/x")+"* ]]
}

@test "what a static library needs is told, and enough" {
  local pc static=$BATS_TEST_TMPDIR/static
  pc=$(find "$dest" -name ringup.pc)
  # What --enable-static installs as libringup.a.
  [[ -e $builddir/src/libcore.a ]] || { echo "there are no objects of the library"; return 1; }
  readelf -d "$(find "$dest" -name libringup.so.0)" | grep -q 'lib[at]san' && skip "this is a sanitizer's build"
  mkdir "$static"
  cp "$builddir/src/libcore.a" "$static/libringup.a"
  cat >"$BATS_TEST_TMPDIR/x.c" <<'EOF'
#include <ringup.h>
int main(void) { struct ringup *r; return ringup_init(0, &r) ? 1 : (ringup_fini(r), 0); }
EOF
  # shellcheck disable=SC2046 # flags are words
  "${cc[@]}" -I"$prefix/include" -o "$BATS_TEST_TMPDIR/x" "$BATS_TEST_TMPDIR/x.c" \
    $(PKG_CONFIG_PATH=${pc%/*} pkg-config --define-variable=libdir="$static" --static --libs ringup)
  not grep -q libringup <<<"$(readelf -d "$BATS_TEST_TMPDIR/x")"
  "$BATS_TEST_TMPDIR/x"
}

@test "the examples compile as they say, and run" {
  local pc lib doc f
  pc=$(find "$dest" -name ringup.pc) lib=$(dirname "$(find "$dest" -name libringup.so.0)")
  doc=$(dirname "$(find "$dest" -name average.c)")
  readelf -d "$lib/libringup.so.0" | grep -q 'lib[at]san' && skip "this is a sanitizer's build"
  for f in "$src"/docs/examples/*.c; do
    cmp "$f" "$doc/${f##*/}"
    f=${f##*/} f=${f%.c}
    # shellcheck disable=SC2046 # flags are words
    "${cc[@]}" -std=c99 -Wall -Wextra -Werror -pedantic -o "$BATS_TEST_TMPDIR/$f" "$doc/$f.c" \
      $(PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$dest PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
        PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --cflags --libs ringup)
  done
  export LD_LIBRARY_PATH=$lib
  cd "$BATS_TEST_TMPDIR"
  run timeout 60 "$prefix/bin/ringup" run -np 4 ./average
  expect_status 0
  [[ $(grep -c ': 1.5 2.5 3.5$' <<<"$output") -eq 4 ]]
  run timeout 60 "$prefix/bin/ringup" run -np 3 ./gather
  expect_status 0
  [[ $output == *"from rank 0: 42"*"from rank 1: 52 53"*"from rank 2: 62 63 64"* ]]
  run timeout 60 "$prefix/bin/ringup" run -np 4 ./groups
  expect_status 0
  [[ $output == *"rank 2 is 1 of 2 in its group: 2"* && $output == *"rank 1 is 0 of 2 in its group: 4"* ]]
  run timeout 60 "$prefix/bin/ringup" run -np 3 ./together
  expect_status 0
  [[ $output == *"row 0 changes by 0.5"*"row 1 changes by 0.5"*"row 101 changes by 1"*"row 2 changes by 0.5"* ]]
  run timeout 60 "$prefix/bin/ringup" run -np 3 ./route
  expect_status 0
  [[ $output == *"rank 1 has been sent 20 numbers, the first by rank 0: 1"* ]]
  [[ $output == *"the first number of rank 1's part was sent 3 times"* ]]
  run timeout 60 "$prefix/bin/ringup" run -np 3 ./pipeline
  expect_status 0
  [[ $output == *"batch 0 comes to 3"*"batch 3 comes to 12"* ]]
  run timeout 60 "$prefix/bin/ringup" run -np 3 ./uneven
  expect_status 0
  [[ $output == *"rank 0, step 0: 3"* && $output == *"rank 2, step 1: 2"* && $output == *"rank 2, step 2: 1"* ]]
  [[ $(grep -c 'rank 2 was the last$' <<<"$output") -eq 3 ]]
}

@test "the modules for MPI lie where the library looks for them" {
  local lib m
  lib=$(dirname "$(find "$dest" -name libringup.so.0)")
  for m in "$builddir"/.libs/ringup-mpi-*.so; do
    [[ -e $m ]] || skip "configured without MPI"
    [[ -e $lib/ringup/${m##*/} ]] || { echo "missing: ringup/${m##*/}"; return 1; }
  done
}

@test "the header is C++ as well" {
  command -v g++ >/dev/null || skip "g++ is not installed"
  echo '#include <ringup.h>' | g++ -x c++ -std=c++11 -Wall -Wextra -Werror -pedantic -fsyntax-only \
    -I"$prefix/include" -
}

@test "uninstall takes back what install put there" {
  cp -a "$dest" "$BATS_TEST_TMPDIR/d"
  mk uninstall DESTDIR="$BATS_TEST_TMPDIR/d" >/dev/null 2>&1
  run find "$BATS_TEST_TMPDIR/d" ! -type d
  [[ -z $output ]] || { echo "$output"; return 1; }
}
