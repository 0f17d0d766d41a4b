#!/usr/bin/env bats
# plan.bats - ringup plan decides what to build, from trees of nodes and from this one.
# shellcheck disable=SC2030,SC2031,SC2154

load ../lib/helper
load ../lib/node

setup() { mkdir -p "$node/etc" "$node/usr/bin"; }

# plan STATUS ARG... - `ringup plan --json` of the tree, kept in $json.
plan() {
  local want=$1
  shift
  command -v jq >/dev/null || skip "jq is not installed"
  run --separate-stderr ringup plan --root "$node" --json "$@"
  expect_status "$want"
  json=$output
}

# debian - the tree is a Debian 12 with apt-get.
debian() {
  printf 'ID=debian\nVERSION_ID="12"\n' >"$node/etc/os-release"
  : >"$node/usr/bin/apt-get"
}

# gcc_at N - g++-N in the tree.
gcc_at() {
  mkdir -p "$node/usr/lib/gcc/x86_64-linux-gnu/$1.2.0"
  : >"$node/usr/bin/gcc-$1"
  : >"$node/usr/bin/g++-$1"
  : >"$node/usr/lib/gcc/x86_64-linux-gnu/$1.2.0/cc1plus"
}

@test "an empty tree: nothing to build, and not for horovod" {
  run --separate-stderr ringup plan --root "$node"
  expect_status 0
  expect_line "ringup 0.1.0, without Python"
  plan 1 --engine horovod
  expect_json '[.possible, .why_not]' '[false,"there is no framework that horovod could be built for"]'
}
