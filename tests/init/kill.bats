#!/usr/bin/env bats
# kill.bats - ringup-init killed at every boundary of every step, and run again.
# needs: cpu
# tests: init-scripts tests/lib/release.bash

# Between one boundary and the next the runner starts a program: `timeout` for what a step does
# or looks at, `mv` for a marker or the status.  Those in front of PATH here are the real ones,
# but for the one before which the runner is killed.

load ../lib/helper
load ../lib/release

setup() {
  command -v setsid >/dev/null && command -v ps >/dev/null || skip "setsid or ps is not installed"
  release_setup
  RINGUP_SOURCE_SHA256=$(sha256sum <"$RINGUP_SOURCE" | cut -c 1-64)
  export RINGUP_SOURCE_SHA256
  shims
}

# shims - the programs in front of PATH.
shims() {
  local name
  mkdir "$T/shims"
  for name in mv timeout; do
    # builders start with an empty environment; what they do has no INIT_PID and is not counted
    printf '#!/bin/bash\nreal=%s\n[[ -n ${INIT_PID:-} && -e %s/fatal ]] || exec "$real" "$@"\n%s\n' "$(command -v "$name")" "$T" '
read -r n <"'"$T"'/calls"
echo $((++n)) >"'"$T"'/calls"
read -r fatal <"'"$T"'/fatal"
[[ $n == "$fatal" ]] || exec "$real" "$@"
echo "${*: -2}" >"'"$T"'/last"
case ${0##*/} in
  mv) kill -9 -- "-$INIT_PID" ;; # all at once, as when the power fails
  timeout) kill -9 "$INIT_PID" ;; # the runner alone: what it started must end by itself
esac
exit 1' >"$T/shims/$name"
  done
  chmod +x "$T"/shims/*
}

# alive SESSION - is any process of it?  (Who is dead may wait for whoever buries orphans here.)
alive() { ps -o stat= -s "$1" | grep -qv '^Z'; }

# killed - run ringup-init in a session of its own, of which nothing is left; sets killed to its status.
killed() {
  local i leader
  killed=0
  PATH=$T/shims:$PATH setsid "$init" --root "$root" >"$T/out" 2>&1 3>&- &
  leader=$!
  wait "$leader" 2>/dev/null || killed=$?
  for ((i = 0; i < 3000; i++)); do
    alive "$leader" || break
    sleep 0.02
  done
  not alive "$leader" || { ps -f -s "$leader"; echo "left${1:+ $1}"; exit 1; }
  flock -n "$root/run/ringup/init.lock" true || { echo "locked${1:+ $1}"; exit 1; }
  [[ ! -e $state/status.json || $(tail -c 2 "$state/status.json") == '}' ]] || { cat "$state/status.json"; exit 1; }
}

# killed_before N - ringup-init, in a session of its own, killed before the Nth program; 1: it was
# not, for it ended before.
killed_before() {
  echo 0 >"$T/calls"
  echo "$1" >"$T/fatal"
  killed "before $1"
  rm "$T/fatal"
  (( killed != 0 )) || return 1
  (( killed == 137 )) || { cat "$T/out"; echo "status $killed before $1"; exit 1; }
}

# settled - the tree, without times and process numbers; and without what was there before, of
# which the one that is killed has done a part.
settled() {
  (
    cd "$root" && find . \( -path ./run -o -path ./var/log \) -prune -o -printf '%P %m %l\n' | sort
    find . \( -path ./run -o -path ./var/log \) -prune -o -type f -print | sort | while IFS= read -r f; do
      printf '== %s\n' "$f"
      grep -qI . "$f" || { sha256sum <"$f" && continue; } # no text, such as a library
      sed -E '/^ ?(seconds|before|fresh)\t/d; s/"seconds": [^,]*,//; /"(started|written|pid)":/d; /^  time  /d' "$f"
    done
  )
}

# clean - no half of anything is left.
clean() {
  local left
  left=$(find "$root" \( -name '.*.new' -o -name .new -o -name 'ringup-init.*' -not -path '*/opt/*' \))
  [[ -z $left ]] || { echo "left: $left"; return 1; }
}

# undisturbed - what a run leaves that nobody kills, in $want.
undisturbed() {
  release_installed
  want=$(settled)
  again fresh
}

@test "killed at each boundary of each step in turn, it goes on and ends with the same tree" {
  local name n boundaries=0
  undisturbed
  shims
  for name in "$T"/init-scripts/steps/*.bash; do
    name=${name##*/} name=${name%.bash}
    # 1: before it is said to run, 2: before it is applied, ... until it has its marker
    for ((n = 1; ; n++)); do
      [[ ! -e $state/state/$name ]] || break
      killed_before "$n" || break
      ((++boundaries))
    done
    [[ -e $state/state/$name ]] || { cat "$T/out"; echo "$name was never done"; return 1; }
  done
  # and between the last marker and the end
  for ((n = 1; n < 20; n++)); do
    killed_before "$n" || break
    ((++boundaries))
  done
  echo "$boundaries boundaries"
  ((boundaries >= 40))
  run "$init" --root "$root"
  expect_status 0
  diff <(echo "$want") <(settled)
  clean
}

@test "a release whose removal was cut short is not taken for a whole one" {
  undisturbed
  shims
  # the real one, but that it removes a part of a release only before all is over
  printf '#!/bin/bash\nfor d; do
  [[ -L $d || ! -d $d/share || ! -e %s/cut ]] || { %s -rf "$d/share"; kill -9 -- "-$INIT_PID"; kill -9 0; }
done\nexec %s "$@"' "$T" "$(command -v rm)" "$(command -v rm)" >"$T/shims/rm"
  chmod +x "$T/shims/rm"
  mkdir -p "$root/usr/local/lib/pkgconfig"
  touch "$T/cut" "$root/usr/local/lib/pkgconfig/ringup.pc" # somebody's: what was installed is taken back
  killed
  ((killed == 137))
  rm "$T/cut"
  [[ -z $(find "$root" -type l) ]]
  rm "$root/usr/local/lib/pkgconfig/ringup.pc"
  run "$init" --root "$root"
  expect_status 0
  diff <(echo "$want") <(settled)
  clean
}

@test "a tree that is moved to another file system is there whole or not at all" {
  far=$(mktemp -d /dev/shm/ringup-move.XXXXXX) || skip "no /dev/shm"
  mkdir -p "$far/tree" "$T/to"
  echo a >"$far/tree/a" && echo b >"$far/tree/b"
  move() {
    PATH=$T/shims:$PATH bash -c 'set -euo pipefail; source "$1"; move_tree "$2" "$3"' \
      bash "$T/init-scripts/lib/file.bash" "$far/tree" "$T/to/tree"
  }
  # the real ones, but that a part is all they copy before the end
  printf '#!/bin/bash\n[[ -e %s/cut ]] || exec %s "$@"\nmkdir -p "${*: -1}"; echo a >"${*: -1}/a"; kill -9 "$PPID"\n' \
    "$T" "$(command -v cp)" >"$T/shims/cp"
  printf '#!/bin/bash\n[[ -e %s/cut && ${*: -2:1} == %s/* ]] || exec %s "$@"\nexec cp "$@"\n' "$T" "$far" "$(command -v mv)" >"$T/shims/mv"
  chmod +x "$T/shims/cp"
  touch "$T/cut"
  status=0
  move || status=$?
  there=$(ls "$far/tree"; ls "$T/to")
  rm "$T/cut"
  again=0
  move || again=$?
  left=$(ls -A "$far")
  rm -rf "$far"
  [[ $status == 137 && $there == $'a\nb' ]] || { echo "$status: $there"; return 1; }
  [[ $again == 0 && -z $left && $(ls -A "$T/to") == tree && $(cat "$T/to/tree/a" "$T/to/tree/b") == $'a\nb' ]]
}

@test "killed at any one boundary, the next run alone ends with the same tree" {
  local name n
  rm "$T"/init-scripts/steps/*
  for name in 10-a 20-b 30-c; do
    printf '# shellcheck shell=bash\n# %s.bash - test.\nlimits 40 60\nstep_inputs() { echo "%s"; }\nstep_done() { [[ -s $INIT_ROOT/etc/%s ]]; }
step_apply() { fact colour "%s"; echo "%s" | write_file "$INIT_ROOT/etc/%s" 644; }\nstep_commit() { rm -f "$INIT_ROOT/etc/none"; }\n' \
      "$name" "$name" "$name" "$name" "$name" "$name" >"$T/init-scripts/steps/$name.bash"
  done
  run "$init" --root "$root"
  expect_status 0
  want=$(settled)
  for ((n = 1; ; n++)); do
    rm -rf "$root"
    mkdir -p "$root"/{etc,opt,usr/local,var}
    killed_before "$n" || break
    run "$init" --root "$root"
    expect_status 0
    diff <(echo "$want") <(settled) || { echo "killed before program $n: $(cat "$T/last")"; return 1; }
    clean
  done
  echo "$n boundaries"
  ((n > 18))
}

@test "killed inside a step, where it changes something, the next run ends well" {
  local at
  undisturbed
  shims
  # the real ones, but for the first time that this step starts that program
  for at in cp tar ln chmod mktemp find; do
    printf '#!/bin/bash\nif [[ "${STEP:-} ${0##*/}" == "$(cat %s/fatal_in 2>/dev/null)" && -n ${INIT_PID:-} ]]; then
  rm %s/fatal_in; kill -9 "$INIT_PID"; fi\nexec %s "$@"\n' "$T" "$T" "$(command -v "$at")" >"$T/shims/$at"
    chmod +x "$T/shims/$at"
  done
  for at in '30-build cp' '30-build tar' '40-install cp' '40-install find' '40-install chmod' '40-install ln' '70-verify mktemp'; do
    echo "$at" >"$T/fatal_in"
    killed "in $at"
    ((killed == 137)) && [[ ! -e $T/fatal_in ]] || { cat "$T/out"; echo "status $killed in $at"; return 1; }
  done
  run "$init" --root "$root"
  expect_status 0
  diff <(echo "$want") <(settled)
  clean
}
