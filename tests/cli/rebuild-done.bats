#!/usr/bin/env bats
# rebuild-done.bats - ringup rebuild builds, proves, replaces and takes back, from wherever it gets the sources.
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

@test "built from a release file, proved by training, in place and known to pip; then undone" {
  build 0 --source "$sdist" --accept TEST-1 --offline
  [[ $(version) == 0.28.1 && $output == *"proved: torch 9.1"*"in place"* ]]
  [[ $(jq -c .accepted "$site/horovod/ringup-build.json") == '["TEST-1"]' ]]
  "$venv/bin/python" -m pip show -f horovod | grep -qF horovod/ringup-build.json
  [[ -x $venv/bin/horovodrun && -e $site/horovod/ringup-build.json ]]
  [[ $("$venv/bin/python" -c 'import horovod._small as s; print(s.__file__)') == "$site"/* ]]
  run ringup rebuild --engine horovod --python "$venv" --undo
  expect_status 0
  [[ $(version) == 0.1 && ! -e $venv/bin/horovodrun && ! -e $site/.ringup-rebuild ]]
  run ringup rebuild --engine horovod --python "$venv" --undo
  expect_status 1
}

# offered - an index of packages has the release.
offered() {
  mkdir -p "$BATS_TEST_TMPDIR/index/horovod"
  cp "$sdist" "$BATS_TEST_TMPDIR/index/horovod/"
  printf '<a href="%s">%s</a>\n' "${sdist##*/}" "${sdist##*/}" >"$BATS_TEST_TMPDIR/index/horovod/index.html"
  export PIP_INDEX_URL=file://$BATS_TEST_TMPDIR/index
}

@test "from an index: only what has the recipe's SHA-256" {
  offered
  build 0 --accept TEST-1
  [[ $(version) == 0.28.1 ]]
  echo more >>"$BATS_TEST_TMPDIR/index/horovod/${sdist##*/}"
  build 1 --accept TEST-1 --json
  [[ $(jq -r '[.reason, .error] | join(" ")' <<<"$output") == "source pip could not download"* && $(version) == 0.28.1 ]]
  export PIP_INDEX_URL=file:///nowhere
  build 1 --accept TEST-1 --json
  [[ $(jq -r .reason <<<"$output") == network ]]
}

@test "from an index, into an environment without build tools, which stays without" {
  offered
  export PIP_FIND_LINKS=$BATS_TEST_TMPDIR/wheels
  engine_wheels "$PIP_FIND_LINKS" || skip "no setuptools and packaging to be had as files"
  rm -rf "$site"/{setuptools,wheel,packaging}*
  build 0 --accept TEST-1
  [[ $(version) == 0.28.1 && ! -e $site/setuptools ]]
}

@test "where ringup's own package was, there is Horovod, and pip knows of one of them" {
  [[ -e $src/compat/install ]] || skip "no compat/install"
  rm -rf "$site"/horovod*
  "$src/compat/install" --python "$venv/bin/python" >/dev/null
  build 0 --source "$sdist" --accept TEST-1
  [[ $(version) == 0.28.1 && $stderr == *"--undo restores it"* ]]
  [[ ! -e $site/ringup ]]
  not "$venv/bin/python" -m pip show -q ringup 2>/dev/null
  ringup rebuild --engine horovod --python "$venv" --undo
  "$venv/bin/python" -m pip show -q ringup
  not "$venv/bin/python" -m pip show -q horovod 2>/dev/null
  [[ -e $site/ringup/__init__.py && -e $site/horovod/__init__.py ]]
}

@test "a second environment takes it from the cache, compiles nothing, and proves it again" {
  command -v openssl >/dev/null || skip "openssl is not installed"
  openssl genpkey -algorithm ed25519 -out "$BATS_TEST_TMPDIR/key" 2>/dev/null || skip "no ed25519"
  export RINGUP_CACHE_KEY=$BATS_TEST_TMPDIR/key
  cp -al "$venv" "$BATS_TEST_TMPDIR/first"
  build 0 --source "$sdist" --accept TEST-1 --cache "$BATS_TEST_TMPDIR/cache"
  [[ $output != *"from the cache"* && $(version) == 0.28.1 ]]
  rm -rf "$venv"
  cp -al "$BATS_TEST_TMPDIR/first" "$venv"
  build 0 --source "$sdist" --accept TEST-1 --cache "$BATS_TEST_TMPDIR/cache"
  [[ $output == *"proved: torch"*"from the cache"* && $(version) == 0.28.1 ]]
  not grep -q 'pip wheel' "$(sed -n 's/^log: //p' <<<"$stderr")"
}

@test "where root builds, it does so as nobody, and what belongs to a user is done as that user" {
  [[ -e $(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h ]] ||
    skip "/usr/bin/python3 has no Python.h"
  for_all_users
  echo 'print("built by", os.getuid())' >>"$sources/setup.py"
  build 0 --source "$sources" --accept TEST-1
  grep -q 'built by 64717' "$(sed -n 's/^log: //p' <<<"$stderr")"
  chown -R 64718:64718 "$venv" "$TMPDIR"
  build 0 --source "$sources" --accept TEST-1
  [[ $(stat -c %u "$site/horovod") == 64718 ]]
}
