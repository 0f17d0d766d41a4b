#!/usr/bin/env bats
# bundle.bats - ringup-init as one file: it behaves like the tree, and damaged it does nothing.
# needs: cpu
# tests: init-scripts tests/lib/release.bash

load ../lib/helper
load ../lib/release
load ../lib/await

setup() {
  release_setup
  # made once: it is the same each time, says the second test
  [[ -s $BATS_FILE_TMPDIR/one.sh ]] || sh "$src/init-scripts/bundle.sh" >"$BATS_FILE_TMPDIR/one.sh"
  cp "$BATS_FILE_TMPDIR/one.sh" "$T/one.sh"
}

@test "the bundle is one file that keeps 8 KiB of 64 free, and behaves like the tree" {
  [[ $(wc -c <"$T/one.sh") -le $((65536 - 8192)) ]]
  diff <(bash "$T/one.sh" --list) <("$init" --list)
  run bash "$T/one.sh" no-such-step
  expect_status 2
  run bash "$T/one.sh" --root "$root"
  expect_status 0
  [[ $output == *"4 ranks agreed"* ]]
  run bash "$T/one.sh" --root "$root"
  expect_status 0
  RINGUP_SORCE=x run bash "$T/one.sh" --root "$root"
  expect_status 2
  bash -s -- --list <"$T/one.sh" | diff - <("$init" --list)
  [[ ${SHELLCHECK:-:} == : ]] || "$SHELLCHECK" "$T/one.sh"
}

# code FILE - what bash makes of it: its functions, and its lines outside of them but comments.
code() {
  env -i bash -c 'INIT_HERE=/ INIT_ROOT="" PATH=; . "$0" >/dev/null 2>&1; declare -f' "$1"
  sed -n '/^[ \t]*#/!p' "$1"
}

@test "the bundle holds the sources without their comments, and the same sources give the same bytes" {
  local part
  sh "$src/init-scripts/bundle.sh" | cmp - "$T/one.sh"
  bash "$T/one.sh" --unpack "$T/in it"
  cd "$src/init-scripts"
  for part in lib/*.bash steps/*.bash; do
    [[ $(code "$part" | wc -l) -gt 20 ]]
    diff <(code "$part") <(code "$T/in it/$part")
    diff <(sed -n 1,2p "$part") <(sed -n 1,2p "$T/in it/$part")
  done
  diff <(sed -n '/^[ \t]*#/!p' ringup-init) <(sed -n '/^[ \t]*#/!p' "$T/in it/ringup-init")
  diff <(./ringup-init --help) <("$T/in it/ringup-init" --help)
  cmp lib/cluster.py "$T/in it/lib/cluster.py"
  [[ $(ls "$T/in it") == $'lib\nringup-init\nsettings\nsteps' ]]
  diff <(cd "$T/in it" && find lib steps -type f | sort) <(find lib steps -type f ! -name train_check.py | sort)
}

@test "a bundle that was damaged says so and runs nothing" {
  # the same length, and still gzip and base64
  awk 'length == 100 && !done && ++n == 20 { $0 = substr($0, 1, 50) (substr($0, 51, 1) == "A" ? "B" : "A") substr($0, 52); done = 1 } { print }' \
    "$T/one.sh" >"$T/other.sh"
  not cmp -s "$T/one.sh" "$T/other.sh"
  run bash "$T/other.sh" --root "$root"
  expect_status 2
  [[ $output == *"SHA-256 of its archive is wrong"* && -z $(ls -A "$root/opt") ]]
}

@test "a bundle that was cut anywhere runs nothing" {
  size=$(wc -c <"$T/one.sh")
  export TMPDIR=$T/tmp
  mkdir "$TMPDIR" "$T/empty"
  for cut in 1000 2000 2500 $((size / 4)) $((size / 2)) $((size * 3 / 4)) $((size - 200)) $((size - 20)) \
    $((size - 12)) $((size - 9)) $((size - 6)) $((size - 4)) $((size - 3)); do
    head -c "$cut" "$T/one.sh" >"$T/cut.sh"
    run bash "$T/cut.sh" --root "$T/empty"
    [[ $status -ne 0 || $cut -lt 2100 ]]
    [[ -z $(ls -A "$T/empty" "$TMPDIR" | grep -v : ) ]]
  done
}

# unpacked PID - the folders where the bundle that runs as PID may be; others may run beside it.
unpacked() { ls -d /run/ringup/ringup-init."$1".d "$TMPDIR"/ringup-init."$1".d 2>/dev/null | grep .; }

@test "the bundle leaves nothing behind, killed or not" {
  local bundle end
  export TMPDIR=$T/tmp
  mkdir -p "$TMPDIR"
  bash "$T/one.sh" --list >/dev/null 3>&- &
  bundle=$!
  wait "$bundle"
  not unpacked "$bundle"
  bash "$T/one.sh" --root "$root" >/dev/null 2>&1 3>&- &
  bundle=$!
  end=$((SECONDS + 120))
  while [[ ! -e $state/status.json ]] && ((SECONDS < end)); do sleep 0.05; done
  unpacked "$bundle"
  kill -9 "$bundle"
  wait "$bundle" 2>/dev/null || true
  # What it ran ends by itself, and has the lock until then.
  is_free() {
    run bash "$T/one.sh" --root "$root"
    [[ $status -ne 3 || $output != *" holds "* ]]
  }
  await is_free
  expect_status 0
  [[ -z $(ls -A "$TMPDIR") ]]
  not unpacked "$bundle"
}
