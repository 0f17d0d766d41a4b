#!/usr/bin/env bats
# arm.bats - every source of the library compiles for arm64, without a warning.

load ../lib/helper

# Headers of libraries are the same on all machines; they come from this one, but the
# compiler's own and libc's must not: those are arm64's.
setup() {
  command -v aarch64-linux-gnu-gcc >/dev/null || skip "no compiler for arm64"
  [[ -e ${builddir:-/nonexistent}/config.h ]] || skip "there is no build folder"
  local name dir
  mkdir "$BATS_TEST_TMPDIR/include"
  for name in sodium.h sodium jansson.h jansson_config.h libmnl; do
    for dir in /usr/include "/usr/include/$(uname -m)-linux-gnu"; do
      [[ ! -e $dir/$name ]] || ln -sf "$dir/$name" "$BATS_TEST_TMPDIR/include/$name"
    done
  done
}

# on_arm FILE... - compile, throw the result away.
on_arm() {
  local f
  for f; do
    aarch64-linux-gnu-gcc -std=gnu11 -D_GNU_SOURCE -DPKGLIBDIR='"lib"' -DRINGUP_DATA='"data"' -O2 -Wall \
      -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wwrite-strings -Werror \
      -I"$src/src" -I"$builddir" -isystem "$BATS_TEST_TMPDIR/include" -c -o /dev/null "$f" || return 1
  done
}

@test "base, wire and host" {
  on_arm "$src"/src/base/*.c "$src"/src/wire/*.c "$src"/src/host/*.c
}

@test "loops, back ends, engine and interface" {
  local f
  local -a files=()
  for f in "$src"/src/coll/*.c "$src"/src/backend/*.c "$src"/src/engine/*.c "$src"/src/api/*.c; do
    # A module against some MPI's header is built where that is.
    grep -q 'include <mpi.h>' "$f" || files+=("$f")
  done
  on_arm "${files[@]}"
}

@test "the command" {
  on_arm "$src"/src/{nicpick,detect,rebuild,launch,probe,bench,cli}/*.c
}
