#!/usr/bin/env bats
# library.bats - what was built: exported symbols, needed libraries, hardening.
# needs: cpu
# tests: src configure.ac Makefile.am

load ../lib/helper

setup() {
  lib=${builddir:-$src}/.libs/libringup.so.0
  [[ -e $lib ]] || skip "the library is not built"
  command -v readelf >/dev/null || skip "readelf is not installed"
}

@test "the library exports what ringup.h declares, and nothing else" {
  diff <(readelf --dyn-syms -W "$lib" | awk '$7 != "UND" && $5 == "GLOBAL" && $4 == "FUNC" { sub(/@.*/, "", $8); print $8 }' | sort -u) \
       <(grep -oE '^RINGUP_(API|EXPORT) .*\(' "$src/src/ringup.h" | grep -oE 'ringup_[a-z_]+\(' | tr -d '(' | sort -u)
}

@test "the library needs only what the data path needs" {
  local need
  for need in $(readelf -d "$lib" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $need in
      libsodium.so.* | libmnl.so.* | libc.so.6 | libm.so.6 | ld-linux* | libpthread.so.0 | libatomic.so.1) ;;
      lib[atu]*san.so.*) ;;
      *) echo "needs $need"; return 1 ;;
    esac
  done
}

@test "the library and the command are hardened" {
  readelf -d "$lib" | grep -q san.so && skip "this is a sanitizer's build"
  readelf -lW "$lib" | grep -q GNU_RELRO
  readelf -d "$lib" | grep -qE 'BIND_NOW|FLAGS.*NOW'
  readelf -d "$builddir/ringup" | grep -qE 'BIND_NOW|FLAGS.*NOW'
  readelf -lW "$lib" | grep GNU_STACK | grep -qv 'RWE'
}

@test "no search path is built in" {
  ! readelf -d "$lib" | grep -qE 'RPATH|RUNPATH'
}

@test "the env plug-in of NCCL exports its two interfaces, and needs the C library alone" {
  local plugin=${lib%/*}/libnccl-env-ringup.so need
  [[ $(readelf --dyn-syms -W "$plugin" | awk '$7 != "UND" && $5 == "GLOBAL" { print $8 }' | sort | xargs) == \
    "ncclEnvPlugin_v1 ncclEnvPlugin_v2" ]]
  for need in $(readelf -d "$plugin" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    [[ $need == libc.so.6 || $need == ld-linux* || $need == lib[atu]*san.so.* || $need == lib@(pthread|m|gcc_s).so.* ]] ||
      { echo "needs $need"; return 1; }
  done
  ! readelf -d "$plugin" | grep -qE 'RPATH|RUNPATH'
}
