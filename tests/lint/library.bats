#!/usr/bin/env bats
# library.bats - what was built: exported symbols, needed libraries, hardening.
# proves: P17 of docs/RELIABILITY.md
# needs: cpu
# tests: src configure.ac Makefile.am

load ../lib/helper

setup() {
  lib=${builddir:-$src}/.libs/libringup.so.0
  [[ -e $lib ]] || skip "the library is not built"
  command -v readelf >/dev/null || skip "readelf is not installed"
}

@test "the library exports what ringup.h and api_launcher.h declare, and nothing else" {
  diff <(readelf --dyn-syms -W "$lib" | awk '$7 != "UND" && $5 == "GLOBAL" && $4 == "FUNC" { sub(/@.*/, "", $8); print $8 }' | sort -u) \
       <(grep -ohE '^RINGUP_(API|EXPORT) .*\(' "$src/src/ringup.h" "$src/src/api/api_launcher.h" | grep -oE 'ringup_[a-z_]+\(' | tr -d '(' | sort -u)
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

# base/proc.c gives a child the default dispositions again, before it becomes another program.
@test "the library installs no signal handler, and no send can raise SIGPIPE" {
  local top folders=()
  not grep -qE ' (sigaction|sigset|bsd_signal|sysv_signal|__sysv_signal|signalfd)(@|$)' <(readelf --dyn-syms -W "$lib" | awk '$7 == "UND" { print " " $8 }')
  for top in base host nicpick wire coll trace backend engine api; do folders+=("$src/src/$top"); done
  run grep -rnE '\<signal\(' "${folders[@]}" --include='*.c'
  [[ $output == "$src/src/base/proc.c:"*"signal(s, SIG_DFL);" && ${#lines[@]} -eq 1 ]] || { echo "$output"; return 1; }
  # A call may go on over the next line.
  run awk '
    FNR == 1 { call = "" }
    /(^|[^a-z_])(send|sendto|sendmsg)\(/ && !/^[ \t]*(\*|\/\*)/ { call = FILENAME ":" FNR ": "; left = 3 }
    call != "" { call = call $0; if (/MSG_NOSIGNAL/) call = ""; else if (!--left || /;$/) { print call; call = "" } }' \
    $(grep -rlE '\<(send|sendto|sendmsg)\(' "${folders[@]}" --include='*.c')
  echo "$output"
  [[ $status -eq 0 && -z $output ]]
}

@test "no search path is built in but the file's own place" {
  local file
  for file in "$lib" "$builddir/ringup"; do
    not grep -E 'RPATH|RUNPATH.*[^N]/|RUNPATH.*\[/' <<<"$(readelf -d "$file" | sed 's|ORIGIN/\.\./share/ringup/lib\]|ORIGIN]|')"
  done
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
