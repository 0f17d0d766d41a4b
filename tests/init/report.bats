#!/usr/bin/env bats
# report.bats - ringup-init report: what became of all nodes.
# needs: cpu
# tests: init-scripts tests/lib/release.bash src/cli/cmd_cache.c

load ../lib/helper
load ../lib/release

setup() {
  release_setup
  release_installed
  mkdir "$T/status"
}

# kept NAME [ROOT] - keep the status of that tree as that of the node NAME.
kept() {
  sed "s/\"host\": \"[^\"]*\"/\"host\": \"$1\"/" "${2:-$root}/var/lib/ringup/status.json" >"$T/status/$1.json"
}

# node NAME [VARIABLE=VALUE...] - run ringup-init there, and keep its status.
node() {
  mkdir -p "$T/$1"/{etc,opt,usr/local,var}
  env "${@:2}" "$init" --root "$T/$1" >/dev/null 2>&1 || true
  kept "$1" "$T/$1"
}

@test "good nodes, then one that has failed: its cause, and exit status 1" {
  local role n=0
  for role in TRUE FALSE; do
    DB_IS_DRIVER=$role "$init" --root "$root" detect
    kept "n$((++n))"
  done
  run "$init" report "$T/status"
  expect_status 0
  [[ $output == *"n1 "*driver*ok*9.9-*built*eth9* && $output == *"n2 "*executor* ]]
  expect_line '2 of 2 nodes ok, 2 built here'
  node n3 NET='no interface reaches other hosts'
  run "$init" report "$T/status"
  expect_status 1
  [[ $output == *"n3 "*failed*"no interface reaches other hosts"* ]]
  expect_line '2 of 3 nodes ok, 3 built here'
  [[ $("$init" report "$T/status" --json | python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["ok"], [(n["host"], n["code"]) for n in r["nodes"]])') == \
    "False [('n1', 0), ('n2', 0), ('n3', 60)]" ]]
}

@test "nodes with different engines are not in order" {
  kept n1
  release 9.10
  node n2 RINGUP_SOURCE="$T/ringup-9.10.tar.gz"
  run "$init" report "$T/status"
  expect_status 1
  [[ $output == *"2 of 2 nodes ok"*"2 different engines: 9.10-"*", 9.9-"* ]]
}

@test "files of others: whatever is in them, the others are shown" {
  kept n1
  printf '{"result":"ok","host":"\\u001b[31mred","steps":[{"name":7},"x",null,{"name":"10-detect","facts":[]}],"warnings":[1,"a\\nb"]}' >"$T/status/odd.json"
  printf '[[[' >"$T/status/broken.json"
  head -c 2000000 /dev/zero >"$T/status/zero.json"
  python3 -c 'print("[" * 100000)' >"$T/status/deep.json"
  printf 'null' >"$T/status/null.json"
  ln -s /nowhere "$T/status/link.json"
  run "$init" report "$T/status"
  expect_status 1
  [[ $output == *"n1 "* && $output == *"?[31mred"* && $output == *"broken"*unreadable* && $output != *$'\e'* ]]
  expect_line '2 of 7 nodes ok, 1 built here'
}

@test "no value of a status keeps the others from being shown, nor makes bad JSON of the report" {
  command -v timeout >/dev/null || skip "timeout is not installed"
  kept n1
  local value key n=0
  for key in schema result code cause hint host cluster started steps warnings; do
    for value in 5 -1e999 NaN true null '[]' '{}' '[5]' '[[]]' '{"a":1}' '"\ud800"' '[{"name":5,"seconds":1e999,"facts":[]}]' \
      '[{"name":"x-install","seconds":NaN,"facts":{"release":{"a":[NaN]}}}]'; do
      printf '{"%s":%s}' "$key" "$value" >"$T/status/$((++n)).json"
    done
  done
  mkfifo "$T/status/pipe.json"
  run timeout 300 "$init" report "$T/status"
  expect_status 1
  [[ $output == *"n1 "* && $output == *"pipe"*unreadable* && $output == *" of $((n + 2)) nodes ok"* ]]
  run timeout 300 "$init" report "$T/status" --json
  expect_status 1
  python3 -c 'import json, sys; assert len(json.loads(sys.stdin.read(), parse_constant=int)["nodes"]) == int(sys.argv[1])' \
    $((n + 2)) <<<"$output"
}

@test "no folder, no files: a sentence" {
  run "$init" report "$T/none"
  expect_status 2
  run "$init" report "$T/status"
  expect_status 1
  [[ $output == *"no status file"* ]]
}

@test "with a cache, every node leaves its status where all can read it" {
  ringup cache keygen "$T" >/dev/null
  export RINGUP_CACHE=$T/cache RINGUP_CACHE_TRUST=$T/cache.pub DB_CLUSTER_ID='0101-../x y'
  mkdir "$T/cache"
  run "$init" --root "$root"
  expect_status 0
  run "$init" report "$T/cache/status"
  expect_status 0
  [[ $output == *"$(uname -n)"* && $(ls "$T/cache/status") == 0101-.._x_y ]]
  RINGUP_ON_FAILURE=degrade NET='no interface reaches other hosts' RINGUP_INTERFACE=eth7 run "$init" --root "$root"
  run "$init" report "$T/cache/status"
  expect_status 1
  [[ $output == *degraded* ]]
}
