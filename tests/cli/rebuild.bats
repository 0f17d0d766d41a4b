#!/usr/bin/env bats
# rebuild.bats - ringup rebuild: what is refused, what fails, and what it says of it; what was there stays.
# needs: cpu
# tests: src/cli/cmd_rebuild.c src/rebuild src/detect src/base tests/lib/engine.bash
# shellcheck disable=SC2030,SC2031,SC2154

load ../lib/helper
load ../lib/engine

bats_require_minimum_version 1.5.0

setup_file() { engine_setup_file; }

setup() {
  engine_setup
  command -v jq >/dev/null || skip "jq is not installed"
}

teardown() { engine_teardown; }

@test "an engine that there is no recipe for, and what does not go together, is wrong usage" {
  run ringup rebuild --engine horowod
  expect_status 2
  run ringup rebuild --engine horovod --undo --dry-run
  expect_status 2
  run ringup rebuild --engine ringup --accept TEST-1
  expect_status 2
  run ringup rebuild --engine horovod --jobs -1
  expect_status 2
}

@test "an advisory has to be accepted by its name, before anything is done" {
  build 1 --source "$sdist"
  [[ $stderr == *"TEST-1"*"--accept TEST-1"* && $(version) == 0.1 ]]
  [[ ! -e $site/.ringup-rebuild ]]
  RINGUP_ACCEPT='TEST-10 XTEST-1' build 1 --source "$sdist" --offline
  RINGUP_ACCEPT='TEST-1' build 1 --source "$sdist" --offline --accept TEST-2
  RINGUP_ACCEPT='CVE-1,test-1 X' build 0 --source "$sdist" --offline --json
  # Which is one object, with the proofs.
  [[ $(jq -r '[.schema, .engine, .result, .reason, .error, .proofs[0].framework, .proofs[0].error] | join(" ")' <<<"$output") == \
    "ringup.rebuild/1 horovod done   torch " ]]
}

# watch_programs - compilers are started by env, CMake is asked for its version, and each start of
# the environment's Python runs its .pth: $calls tells of all three.
watch_programs() {
  stub env 'exec /usr/bin/env "$@"'
  stub cmake "PATH=${PATH#"$BATS_TEST_TMPDIR/bin:"}; exec cmake \"\$@\""
  printf 'import os; open("%s", "a").write("python\\n")\n' "$calls" >"$site/watched.pth"
}

@test "what can be seen to be in the way is told before a compiler or a Python is started" {
  watch_programs
  echo 'int broken(' >>"$sources/small.c"
  build 1 --source "$sources" --accept TEST-1
  grep -q '^env .*++' "$calls"
  grep -q '^cmake' "$calls"
  grep -q '^python' "$calls"
  rm "$calls"
  build 1 --source "$sdist"
  [[ $stderr == *"--accept TEST-1"* && ! -e $calls ]]
  build 1 --accept TEST-1 --offline
  [[ $stderr == *"--source"*"pip download"* && ! -e $calls ]]
  build 1 --accept TEST-1 --source /nonexistent.tar.gz
  [[ $stderr == *"/nonexistent.tar.gz: No such file"* && ! -e $calls ]]
  mkfifo "$BATS_TEST_TMPDIR/fifo"
  build 1 --accept TEST-1 --source "$BATS_TEST_TMPDIR/fifo"
  [[ $stderr == *"neither a file nor a folder"* && ! -e $calls ]]
  build 1 --accept TEST-1 --source "$sdist" --for mxnet
  [[ $stderr == *"mxnet is not installed"* && ! -e $calls ]]
  engine_pack '{"when": "torch>=9", "why": "it never worked", "instead": "take torch 8"}'
  build 1 --accept TEST-1 --source "$sdist"
  [[ $stderr == *"it never worked"* && ! -e $calls ]]
}

@test "folders of packages that this user cannot write are told of at once" {
  for_all_users
  local as=(setpriv --reuid=64999 --regid=64999 --clear-groups env TMPDIR=/tmp)
  "${as[@]}" ringup --version >/dev/null || skip "another user cannot run this build"
  for engine in 'horovod --accept=TEST-1' ringup; do
    read -ra words <<<"$engine"
    run "${as[@]}" ringup rebuild --python "$venv" --without-mpi --engine "${words[@]}"
    expect_status 1
    [[ $output == *"$site is not writable"* && $(version) == 0.1 ]]
  done
}

@test "--json: what has failed has a word, which the manual explains" {
  because advisory 1 --source "$sdist"
  [[ $(jq -r .hint <<<"$output") == "--accept TEST-1" ]]
  because network 1 --accept TEST-1 --offline
  because source 1 --accept TEST-1 --source /nonexistent.tar.gz
  because impossible 1 --accept TEST-1 --for mxnet
  run --separate-stderr ringup rebuild --engine horovod --python /nonexistent --json
  expect_status 3
  [[ $(jq -r .reason <<<"$output") == system && $stderr == *"ringup rebuild: "* ]]
  local word words
  words=$(sed -n 's/^\tX([A-Z]*, "\([a-z]*\)".*/\1/p' "$src/src/rebuild/reason.h")
  [[ $(wc -w <<<"$words") -ge 14 ]]
  for word in $words; do
    grep -qx "\.It Li $word" "$src/docs/man/ringup-rebuild.1" || { echo "not in the manual: $word"; return 1; }
  done
}

@test "--json: a disk without room is one of the reasons" {
  unshare -m mount -t tmpfs none "$TMPDIR" 2>/dev/null || skip "no right to mount anything"
  run --separate-stderr unshare -m sh -c 'mount -t tmpfs -o size=64m none "$TMPDIR" && exec "$@"' sh \
    ringup rebuild --engine horovod --python "$venv" --without-mpi --json --source "$sdist" --accept TEST-1
  expect_status 1
  [[ $(jq -r '[.reason, .error] | join(" ")' <<<"$output") == "space "*"MiB free, but this needs "*": free some space"* ]]
  run --separate-stderr unshare -m sh -c 'mount -t tmpfs -o size=64k none "$TMPDIR" && exec "$@"' sh \
    ringup rebuild --engine ringup --python "$venv" --without-mpi --json
  expect_status 1
  [[ $(jq -r '[.reason, .error] | join(" ")' <<<"$output") == "space "*"0 MiB free, but this needs "*": free some space, or set TMPDIR"* ]]
}

@test "a release with another SHA-256 is not unpacked" {
  cp "$sdist" "$BATS_TEST_TMPDIR/other.tar.gz"
  echo more >>"$BATS_TEST_TMPDIR/other.tar.gz"
  build 1 --source "$BATS_TEST_TMPDIR/other.tar.gz" --accept TEST-1
  [[ $stderr == *"SHA-256"* && $(version) == 0.1 ]]
}

@test "sources that the recipe does not know are not built" {
  echo 'something else' >"$sources/edited.txt"
  build 1 --source "$sources" --accept TEST-1
  [[ $stderr == *"not the sources that the recipe knows"* && $(version) == 0.1 ]]
}

@test "a build that fails says the first error, keeps the log, and what was there works" {
  echo 'int broken(' >"$sources/small.c"
  because compile 1 --source "$sources" --accept TEST-1
  [[ $(jq -r .error <<<"$output") == *"the build failed"*"error:"* ]]
  grep -q 'int broken' "$(jq -r .log <<<"$output")"
}

@test "an engine that averages nothing is refused, and what was there works" {
  sed -i 's/^AVERAGES = True/AVERAGES = False/' "$sources/horovod/torch.py"
  because prove 1 --source "$sources" --accept TEST-1
  [[ $(jq -r .error <<<"$output") == *"different weights"* ]]
}

@test "torch without headers is refused before anything is unpacked" {
  [[ ! -e /usr/include/torch/extension.h ]] || skip "this machine has them for all"
  rm -r "$site/torch/include"
  because tools 1 --source "$sdist" --accept TEST-1
  [[ $(jq -r .error <<<"$output") == *"no headers"* ]]
}

@test "offline without --source says what to get, at once" {
  build 1 --accept TEST-1 --offline
  [[ $stderr == *"--source"*"pip download"* && $(version) == 0.1 ]]
}

@test "--dry-run says what would be done, and does nothing" {
  build 0 --dry-run
  [[ $output == *"would build horovod 0.28.1"* && $(version) == 0.1 && ! -e $site/.ringup-rebuild ]]
}

@test "a framework whose library does not show its C++ ABI is asked for it" {
  run --separate-stderr ringup plan --engine horovod --python "$venv" --json
  [[ $(jq -c '.frameworks[0] | [.cxx11_abi, .cxx11_abi_by]' <<<"$output") == '[1,"table"]' ]]
  printf 'print("welcome", end="")\ndef compiled_with_cxx11_abi(): return False\n' >>"$site/torch/__init__.py"
  run --separate-stderr ringup plan --engine horovod --python "$venv" --json
  [[ $(jq -c '.frameworks[0] | [.cxx11_abi, .cxx11_abi_by]' <<<"$output") == '[0,"probe"]' ]]
  [[ $(jq -r '.disagreements[].about' <<<"$output") == *"C++ ABI of torch 9.1"* ]]
  [[ ! -e $site/torch/__pycache__ ]]
}

@test "a dry run looks at what it can look at, writes nothing, and asks for no acceptance" {
  local before
  # dry STATUS - a dry run ends so, and leaves the environment as it was.
  dry() {
    before=$(cd "$venv" && find . -not -name '*.pyc' -not -name __pycache__ | sort | cksum)
    run --separate-stderr ringup rebuild --engine horovod --dry-run --without-mpi --python "$venv" --source "$sdist"
    expect_status "$1"
    [[ $(cd "$venv" && find . -not -name '*.pyc' -not -name __pycache__ | sort | cksum) == "$before" && $(version) == *0.1 ]]
  }
  dry 0
  # What runs at each start of this Python prints where Horovod's build reads.
  echo 'import sys; print("welcome to this platform")' >"$site/banner.pth"
  dry 1
  [[ $stderr == *'prints "welcome to this platform" to stdout at each start'* ]]
  rm "$site/banner.pth"
  # A Python without its headers.
  echo 'import sysconfig as s; s.get_paths = lambda *a, g=s.get_paths, **k: dict(g(*a, **k), include="/nonexistent")' >"$site/headers.pth"
  dry 1
  [[ $stderr == *"/nonexistent/Python.h is missing"* ]]
  rm "$site/headers.pth"
  if unshare --mount true 2>/dev/null; then
    run --separate-stderr unshare --mount sh -c 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"' sh "$site" \
      ringup rebuild --engine horovod --dry-run --without-mpi --python "$venv" --source "$sdist"
    expect_status 1
    [[ $stderr == *"is not writable, because its file system is read-only"* && $stderr != *"or run this as root"* ]]
    run --separate-stderr unshare --mount sh -c 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"' sh "$site" \
      ringup rebuild --engine ringup --dry-run --python "$venv"
    expect_status 1
  fi
}

@test "what a rebuild would lose is said before it begins" {
  local dir=$site/horovod/torch
  # linked NAME - the extension that is there needs this library.
  linked() {
    local -a cc
    read -ra cc <<<"${CC:-cc}" # it may be "ccache gcc"
    mkdir -p "$dir"
    echo 'int x;' | "${cc[@]}" -shared -fPIC -Wl,-soname,"$1" -x c -o "$BATS_TEST_TMPDIR/$1" -
    echo 'extern int x; int *y = &x;' | "${cc[@]}" -shared -fPIC -x c -o "$dir/mpi_lib_v2.so" - -x none "$BATS_TEST_TMPDIR/$1"
  }
  linked libnccl.so.2
  run --separate-stderr ringup rebuild --engine horovod --dry-run --without-mpi --python "$venv" --source "$sdist"
  expect_status 0
  [[ $stderr == *"was built for GPUs, with NCCL; its replacement is not"* ]]
  run --separate-stderr ringup rebuild --engine ringup --dry-run --without-mpi --python "$venv"
  [[ $stderr == *"was built for GPUs, with NCCL"* ]]
  linked libmpi.so.40
  run --separate-stderr ringup rebuild --engine horovod --dry-run --without-mpi --json --python "$venv" --source "$sdist"
  expect_status 0
  [[ $(jq -r '.notes[]' <<<"$output") == *"is linked with MPI; its replacement is not"* ]]
  [[ $(jq -r '.notes[]' <<<"$output") != *NCCL* ]]
  # In a real run it stands before the first step of the work.
  run ringup rebuild --engine horovod --without-mpi --python "$venv" --source "$BATS_TEST_TMPDIR" --accept TEST-1 --offline
  expect_status 1
  linked libm.so.6
  run --separate-stderr ringup rebuild --engine horovod --dry-run --without-mpi --python "$venv" --source "$sdist"
  [[ $stderr != *"in its place"* ]]
}
