#!/usr/bin/env bats
# rebuild.bats - ringup rebuild builds, proves, replaces and takes back, also when it is killed.
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

# build STATUS ARG... - rebuild the small engine for the small torch.
build() {
  local want=$1
  shift
  run --separate-stderr ringup rebuild --engine horovod --python "$venv" --without-mpi "$@"
  expect_status "$want" || { echo "$stderr"; tail -n 20 "$BATS_TEST_TMPDIR"/log 2>/dev/null; return 1; }
}

# version - of the horovod that Python takes, "none" without one.
version() {
  "$venv/bin/python" -c 'import horovod; print(horovod.__version__)' 2>/dev/null || echo none
}

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

@test "an advisory has to be accepted by its name, before anything is done" {
  build 1 --source "$sdist"
  [[ $stderr == *"TEST-1"*"--accept TEST-1"* && $(version) == 0.1 ]]
  [[ ! -e $site/.ringup-rebuild ]]
  RINGUP_ACCEPT='TEST-10 XTEST-1' build 1 --source "$sdist" --offline
  RINGUP_ACCEPT='TEST-1' build 1 --source "$sdist" --offline --accept TEST-2
  RINGUP_ACCEPT='CVE-1,test-1 X' build 0 --source "$sdist" --offline --json
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
  build 0 --source "$sdist" --accept TEST-1
  grep -q '^env .*++' "$calls"
  grep -q '^cmake' "$calls"
  grep -q '^python' "$calls"
  ringup rebuild --engine horovod --python "$venv" --undo >/dev/null
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
  echo 'bad torch>=9: it never worked; take torch 8' >>"$data/recipes/horovod-0.28.1.recipe"
  build 1 --accept TEST-1 --source "$sdist"
  [[ $stderr == *"it never worked"* && ! -e $calls ]]
}

# for_all_users - the same environment, of a Python and in a folder that any user can reach.
for_all_users() {
  local there
  ((EUID == 0)) || skip "only root can be somebody else"
  command -v setpriv >/dev/null || skip "setpriv is not installed"
  /usr/bin/python3 -c 'import venv, ensurepip' 2>/dev/null || skip "/usr/bin/python3 makes no venv"
  setpriv --reuid=64717 --regid=64717 --clear-groups env test -x "$BATS_TEST_TMPDIR" ||
    chmod 755 "${BATS_TEST_TMPDIR%/*}" "$BATS_RUN_TMPDIR"
  /usr/bin/python3 -m venv "$BATS_TEST_TMPDIR/other"
  there=("$BATS_TEST_TMPDIR"/other/lib/python3*/site-packages)
  # one setuptools, not two in one folder
  rm -rf "${there[0]}"/{setuptools,pkg_resources,_distutils_hack,distutils-precedence}*
  cp -r "$site"/{setuptools,pkg_resources,_distutils_hack,distutils-precedence,wheel,packaging,torch,horovod}* \
    "${there[0]}/" 2>/dev/null || true
  venv=$BATS_TEST_TMPDIR/other site=${there[0]}
}

@test "folders of packages that this user cannot write are told of at once" {
  for_all_users
  local as=(setpriv --reuid=64999 --regid=64999 --clear-groups env TMPDIR=/tmp)
  "${as[@]}" ringup --version >/dev/null || skip "another user cannot run this build"
  for engine in 'horovod --accept=TEST-1' ringup; do
    read -ra words <<<"$engine"
    run "${as[@]}" ringup rebuild --python "$venv" --without-mpi --engine "${words[@]}"
    expect_status 1
    [[ $output == *"$site cannot be written"* && $(version) == 0.1 ]]
  done
}

# because REASON STATUS ARG... - with --json it fails by that reason, with a sentence and a hint,
# and what was there is there.
because() {
  local want=$1 status=$2
  shift 2
  build "$status" --json "$@"
  [[ $(jq -r '[.result, .reason, (.error, .hint | length > 4)] | join(" ")' <<<"$output") == \
    "failed $want true true" && $(version) == 0.1 ]] || { echo "$output"; return 1; }
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
  [[ $(jq -r '[.reason, .error] | join(" ")' <<<"$output") == "space "*"MiB free, which needs"* ]]
}

@test "a release with another SHA-256, and one that leads out of its folder, are not unpacked" {
  cp "$sdist" "$BATS_TEST_TMPDIR/other.tar.gz"
  echo more >>"$BATS_TEST_TMPDIR/other.tar.gz"
  build 1 --source "$BATS_TEST_TMPDIR/other.tar.gz" --accept TEST-1
  [[ $stderr == *"SHA-256"* && $(version) == 0.1 ]]
  ln -s /etc "$sources/escape"
  engine_pack
  because source 1 --source "$sdist" --accept TEST-1
  [[ $(jq -r .error <<<"$output") == *"neither a file nor a folder"* ]]
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
  [[ $(jq -r '[.reason, .error] | join(" ")' <<<"$output") == "source pip could not get"* && $(version) == 0.28.1 ]]
  export PIP_INDEX_URL=file:///nowhere
  build 1 --accept TEST-1 --json
  [[ $(jq -r .reason <<<"$output") == network ]]
}

@test "from an index, into an environment without build tools, which stays without" {
  offered
  export PIP_FIND_LINKS=$venv/wheels
  rm -r "$site"/{setuptools,wheel,packaging}*
  build 0 --accept TEST-1
  [[ $(version) == 0.28.1 && ! -e $site/setuptools ]]
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

@test "--json is one object, with the proofs" {
  build 0 --source "$sdist" --accept TEST-1 --json
  [[ $(jq -r '[.schema, .engine, .result, .reason, .error, .proofs[0].framework, .proofs[0].error] | join(" ")' <<<"$output") == \
    "ringup.rebuild/1 horovod done   torch " ]]
}

@test "where ringup's own package was, there is Horovod, and pip knows of one of them" {
  [[ -e $src/compat/install ]] || skip "no compat/install"
  rm -rf "$site"/horovod*
  "$src/compat/install" --python "$venv/bin/python" >/dev/null
  build 0 --source "$sdist" --accept TEST-1
  [[ $(version) == 0.28.1 && $stderr == *"--undo brings it back"* ]]
  [[ ! -e $site/ringup ]]
  not "$venv/bin/python" -m pip show -q ringup 2>/dev/null
  ringup rebuild --engine horovod --python "$venv" --undo
  "$venv/bin/python" -m pip show -q ringup
  not "$venv/bin/python" -m pip show -q horovod 2>/dev/null
  [[ -e $site/ringup/__init__.py && -e $site/horovod/__init__.py ]]
}

@test "killed at any step, the next run has the old engine whole, and builds" {
  local at killed=0
  for at in 1 3 6; do
    RINGUP_TEST_KILL_AT=$at run ringup rebuild --engine horovod --python "$venv" --without-mpi \
      --source "$sdist" --accept TEST-1
    [[ $status -eq 137 ]] || break
    killed=$((killed + 1))
    run ringup rebuild --engine horovod --python "$venv" --undo
    [[ $(version) == 0.1 && ! -e $venv/bin/horovodrun ]] || { echo "killed at $at: $(version)"; return 1; }
  done
  ((killed >= 2))
  build 0 --source "$sdist" --accept TEST-1
  [[ $(version) == 0.28.1 ]]
}

@test "killed while compiling, nothing of it goes on, and what it left is used by nobody" {
  local pid
  echo 'import time; time.sleep(600)' >>"$sources/setup.py"
  ringup rebuild --engine horovod --python "$venv" --without-mpi --source "$sources" \
    --accept TEST-1 >/dev/null 2>&1 3>&- &
  pid=$!
  for _ in {1..300}; do
    pgrep -f "$venv/bin/python.* setup.py|$venv/bin/python.*pip wheel" >/dev/null && break
    sleep 0.1
  done
  kill -9 "$pid"
  wait "$pid" || true
  for _ in {1..100}; do
    pgrep -f "$venv/bin/python" >/dev/null || break
    sleep 0.1
  done
  not pgrep -f "$venv/bin/python"
  [[ $(version) == 0.1 ]]
  build 0 --source "$sdist" --accept TEST-1
}

@test "two at once for one Python: the second is told, and does the first no harm" {
  local pid
  printf 'import os, time\nwhile os.path.exists("%s/wait"): time.sleep(0.1)\n' "$BATS_TEST_TMPDIR" >>"$sources/setup.py"
  touch "$BATS_TEST_TMPDIR/wait"
  ringup rebuild --engine horovod --python "$venv" --without-mpi --source "$sources" --accept TEST-1 \
    >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  pid=$!
  for _ in {1..300}; do
    pgrep -f "$venv/bin/python.* setup.py|$venv/bin/python.*pip wheel" >/dev/null && break
    sleep 0.1
  done
  run -1 --separate-stderr ringup rebuild --engine horovod --python "$venv" --without-mpi --source "$sources" \
    --accept TEST-1 --json
  [[ $(jq -r .reason <<<"$output") == busy ]]
  # Nor one that works elsewhere, but would install into the same folder.
  mkdir "$BATS_TEST_TMPDIR/elsewhere"
  TMPDIR=$BATS_TEST_TMPDIR/elsewhere run -1 --separate-stderr ringup rebuild --engine horovod --python "$venv" \
    --without-mpi --source "$sources" --accept TEST-1 --json
  [[ $(jq -r .reason <<<"$output") == busy ]]
  rm "$BATS_TEST_TMPDIR/wait"
  wait "$pid" || { cat "$BATS_TEST_TMPDIR/out"; return 1; }
  [[ $(version) == 0.28.1 ]]
  output=$(cat "$BATS_TEST_TMPDIR/out")
}

@test "interrupted while compiling, it leaves nothing but its log, and ends by that signal" {
  local pid signal got
  echo 'import time; time.sleep(600)' >>"$sources/setup.py"
  for signal in TERM INT HUP; do
    # bash ignores SIGINT in what it starts in the background
    env --default-signal=INT ringup rebuild --engine horovod --python "$venv" --without-mpi --source "$sources" \
      --accept TEST-1 >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
    pid=$!
    for _ in {1..300}; do
      pgrep -f "$venv/bin/python.* setup.py|$venv/bin/python.*pip wheel" >/dev/null && break
      sleep 0.1
    done
    kill -"$signal" "$pid"
    got=0
    wait "$pid" || got=$?
    output=$(cat "$BATS_TEST_TMPDIR/err")
    [[ $got -eq $((128 + $(kill -l "$signal"))) && $output == *"what was there before is in place"* ]] ||
      { echo "$signal: $got: $output"; return 1; }
    not pgrep -f "$venv/bin/python"
    [[ $(version) == 0.1 && ! -e $site/.ringup-rebuild && -z $(ls -A "$TMPDIR") ]] || { ls -A "$TMPDIR"; return 1; }
    engine_teardown
  done
}

@test "a second environment takes it from the cache, compiles nothing, and proves it again" {
  command -v openssl >/dev/null || skip "openssl is not installed"
  openssl genpkey -algorithm ed25519 -out "$BATS_TEST_TMPDIR/key" 2>/dev/null || skip "no ed25519"
  export RINGUP_CACHE_KEY=$BATS_TEST_TMPDIR/key
  cp -a "$venv" "$BATS_TEST_TMPDIR/first"
  build 0 --source "$sdist" --accept TEST-1 --cache "$BATS_TEST_TMPDIR/cache"
  [[ $output != *"from the cache"* && $(version) == 0.28.1 ]]
  rm -rf "$venv"
  cp -a "$BATS_TEST_TMPDIR/first" "$venv"
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
