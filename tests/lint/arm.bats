#!/usr/bin/env bats
# arm.bats - every source of the library compiles for arm64, without a warning.
# needs: cpu
# tests: src

# What differs there is found by reading: types, instructions, system calls, char's sign.  So all is
# read, and what names a processor is compiled; RINGUP_TEST_LONG=1 compiles all of it, for the
# warnings that only an optimizer has.

load ../lib/helper

# Headers of libraries are the same on all machines; they come from this one, but the
# compiler's own and libc's must not: those are arm64's.
setup_file() {
  local name dir
  for name in sodium.h sodium jansson.h jansson_config.h libmnl; do
    for dir in /usr/include "/usr/include/$(uname -m)-linux-gnu"; do
      [[ ! -e $dir/$name ]] || ln -sf "$dir/$name" "$BATS_FILE_TMPDIR/$name"
    done
  done
}

setup() {
  command -v aarch64-linux-gnu-gcc >/dev/null || skip "no compiler for arm64"
  [[ -e ${builddir:-/nonexistent}/config.h ]] || skip "there is no build folder"
  # as gcc 14.2 of Debian 13 does
  ! on_arm -fsyntax-only "$src/src/coll/loops.c" 2>&1 | grep -q 'internal compiler error' ||
    skip "this compiler for arm64 breaks on src/coll/loops.c"
}

# on_arm ARG... - the compiler for arm64, with the flags of the project.
on_arm() {
  aarch64-linux-gnu-gcc -std=gnu11 -D_GNU_SOURCE -DLIB_FROM_BIN='"../lib"' -O2 -Wall \
    -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wwrite-strings -Werror \
    -I"$src/src" -I"$builddir" -isystem "$BATS_FILE_TMPDIR" "$@"
}

# compiled FILE... - each compiles; the result is thrown away.
compiled() {
  local f
  for f; do
    on_arm -c -o /dev/null "$f" || return 1
  done
}

# A module against some MPI's header is built where that is.
# sources PATTERN... - print these files of src but for those.
sources() { (cd "$src/src" && grep -L 'include <mpi.h>' $*) | sed "s|^|$src/src/|"; }

@test "every source is valid for arm64" {
  local -a files
  mapfile -t files < <(sources '*/*.c')
  ((${#files[@]} > 200))
  if [[ ${RINGUP_TEST_LONG:-0} == 1 ]]; then
    compiled "${files[@]}"
  else
    on_arm -fsyntax-only "${files[@]}"
  fi
}

@test "what names a processor compiles for arm64" {
  local -a files
  mapfile -t files < <(grep -lE '__aarch64__|__x86_64__|__asm__|asm volatile' "$src"/src/*/*.c)
  [[ " ${files[*]} " == *"/coll/copy.c "*"/coll/loops.c "* ]]
  compiled "${files[@]}"
}
