#!/usr/bin/env bats
# net-lint.bats - ringup net snapshot and ringup net lint
# needs: cpu
# tests: src/cli/cmd_net_lint.c src/cli/cmd_net_snapshot.c src/nicpick src/host src/base

load ../lib/helper

setup() {
  command -v jq >/dev/null || skip "jq is not installed"
  root=$BATS_TEST_TMPDIR/root
  mkdir -p "$root/etc"
  export RINGUP_ROOT=$root HOME=/nonexistent
  unset "${!NCCL_@}" "${!GLOO_@}" "${!OMPI_MCA_@}"
}

# node FILTER - a snapshot of a small machine, changed by a filter of jq, in $node.
node() {
  node=$BATS_TEST_TMPDIR/node.json
  jq -n '{schema: "ringup.net.snapshot/1",
    interfaces: [{index: 1, name: "lo", type: "loopback", flags: ["UP", "RUNNING", "LOOPBACK"]},
      {index: 2, name: "eth0", type: "physical", flags: ["UP", "RUNNING"]}],
    addresses: [{interface: 1, address: "127.0.0.1", prefix: 8}, {interface: 2, address: "10.0.0.5", prefix: 24}],
    routes: [{to: "0.0.0.0", prefix: 0, interface: 2}]}' | jq "$1" >"$node"
}

@test "lint: a machine in order" {
  node .
  run ringup net lint --snapshot "$node"
  expect_status 0
  expect_line 'no findings'
  run ringup net lint --snapshot "$node" --json
  expect_status 0
  [[ $(jq -c . <<<"$output") == '{"schema":"ringup.net.lint/1","findings":[]}' ]]
}

@test "lint: file and line, what it says, what to write, and why" {
  printf '# by hand\nNCCL_SOCKET_IFNAME=^docker0\r\n' >"$root/etc/nccl.conf"
  run ringup net lint
  expect_status 1
  [[ $output == *"/etc/nccl.conf:2: error: "*"[form-cr]"*"fix:    NCCL_SOCKET_IFNAME=^docker0"*"why:    "* ]]
  [[ $output != *$'\r'* ]]
  run bash -c "ringup net lint --json | jq -c '.findings[] | select(.code == \"form-cr\") | [.severity, .where, .setting, .line, .fix]'"
  [[ $output == '["error","/etc/nccl.conf:2","NCCL_SOCKET_IFNAME","NCCL_SOCKET_IFNAME=^docker0\r","NCCL_SOCKET_IFNAME=^docker0"]' ]]
}

@test "lint: scripts that set the environment are read and not run" {
  mkdir -p "$root/etc/profile.d" "$root/spark/conf" "$root/databricks/spark/conf"
  printf 'PATH=/bin\nNCCL_SOCKET_IFNAME="^docker0"\n' >"$root/etc/environment"
  printf '#!/bin/sh\nexport GLOO_SOCKET_IFNAME==lo\ntouch %s\n' "$root/run" >"$root/etc/profile.d/job.sh"
  echo 'export GLOO_SOCKET_IFNAME=unread0' >"$root/etc/profile.d/not-read.csh"
  echo 'export OMPI_MCA_btl_tcp_if_include=10.0.0.5/32 # ours' >"$root/spark/conf/spark-env.sh"
  echo "export UCX_NET_DEVICES=\$(cat $root/run)" >"$root/databricks/spark/conf/spark-env.sh"
  SPARK_HOME=/spark run ringup net lint
  expect_status 1
  [[ $output == *"/etc/environment:2: error: "*"NCCL_SOCKET_IFNAME="* ]]
  [[ $output == *"/etc/profile.d/job.sh:2: error: "*"[gloo-syntax]"*"fix:    export GLOO_SOCKET_IFNAME="* ]]
  [[ $output == *"/spark/conf/spark-env.sh:1: error: "*"[ompi-everything]"* ]]
  [[ $output == *"/databricks/spark/conf/spark-env.sh:1: note: "*"[shell-unknown]"* ]]
  [[ $output != *unread0* && ! -e $root/run ]]
}

@test "lint: the line for a variable is one for a shell" {
  node '.sources = [{path: "environment", grammar: "environment",
    lines: [{line: 0, text: "NCCL_SOCKET_IFNAME=^docker0"}]}] |
    .settings = [{name: "NCCL_SOCKET_IFNAME", value: "^docker0", source: "environment"}]'
  run ringup net lint --snapshot "$node"
  expect_status 1
  expect_line '    fix:    export NCCL_SOCKET_IFNAME==eth0'
}

@test "lint: a note alone is no reason for status 1" {
  node '.sources = [{path: "environment", grammar: "environment", lines: [{line: 0, text: "NCCL_SOCKET_IFNAME==eth0"}]},
    {path: "/etc/nccl.conf", grammar: "nccl", lines: [{line: 1, text: "NCCL_SOCKET_IFNAME=eth0"}]}]'
  run ringup net lint --snapshot "$node"
  expect_status 0
  [[ $output == *"environment: note: "*"[shadow]"* ]]
}

@test "lint: a name of 2,000 bytes, and control characters" {
  local long
  long=$(printf 'e%.0s' {1..2000})
  NCCL_SOCKET_IFNAME=$long run ringup net lint
  expect_status 1
  [[ $output == *'[nccl-long-name]'* ]]
  NCCL_SOCKET_IFNAME=$'\033[31m"x' run ringup net lint
  expect_status 1
  [[ $output != *$'\033'* ]]
  NCCL_SOCKET_IFNAME=$'\xff"' run ringup net lint --json
  expect_status 1
  jq -e . <<<"$output" >/dev/null
}

@test "snapshot: its judgement is the machine's" {
  printf 'NCCL_SOCKET_IFNAME="eth0"\n' >"$root/etc/nccl.conf"
  export GLOO_SOCKET_IFACE=eth0
  ringup net snapshot -o "$BATS_TEST_TMPDIR/node.json"
  ringup net lint --json >"$BATS_TEST_TMPDIR/live" || [[ $? == 1 ]]
  ringup net lint --json --snapshot "$BATS_TEST_TMPDIR/node.json" >"$BATS_TEST_TMPDIR/then" || [[ $? == 1 ]]
  cmp "$BATS_TEST_TMPDIR/live" "$BATS_TEST_TMPDIR/then"
  [[ $(jq -r '[.findings[].code] | index("form-quotes"), index("unknown-name") | . != null' "$BATS_TEST_TMPDIR/then") == $'true\ntrue' ]]
  [[ $(stat -c %a "$BATS_TEST_TMPDIR/node.json") == 600 ]]
  [[ $(ringup net snapshot | jq -c .) == "$(jq -c . "$BATS_TEST_TMPDIR/node.json")" ]]
}

@test "snapshot: no secret leaves the machine" {
  printf 'API_TOKEN=s3cret\n# NCCL_SOCKET_IFNAME=s3cret\nNCCL_RAS_ADDR=http://me:s3cret@host:80\n' >"$root/etc/nccl.conf"
  export NCCL_SOCKET_MAGIC=s3cret AWS_SECRET_ACCESS_KEY=s3cret HOROVOD_SECRET_KEY=s3cret
  run ringup net snapshot
  expect_status 0
  [[ $output != *s3cret* && $output == *'http://me:******@host:80'* ]]
}

@test "snapshot: a full disk leaves nothing" {
  run ringup net snapshot -o /dev/full/x
  expect_status 3
  run ringup net snapshot -o "$BATS_TEST_TMPDIR"
  expect_status 3
  run bash -c 'ringup net snapshot >/dev/full'
  expect_status 3
}

@test "lint: what is no snapshot" {
  local bad
  for bad in '' '[]' '{' '{"schema":"ringup.net.snapshot/9"}' '{"schema":"ringup.net.snapshot/1","sources":[7]}' \
    '{"schema":"ringup.net.snapshot/1","interfaces":[{"index":1,"name":"\u001b[31m"},{}]}'; do
    printf '%s' "$bad" >"$BATS_TEST_TMPDIR/bad.json"
    run ringup net lint --snapshot "$BATS_TEST_TMPDIR/bad.json"
    expect_status 3
    [[ $output == "ringup net lint: $BATS_TEST_TMPDIR/bad.json: "* && $output != *$'\033'* ]]
  done
  run ringup net lint surplus
  expect_status 2
}

@test "200 interfaces with 1,000 addresses take a fraction of a second of processor time" {
  command -v jq >/dev/null || skip "jq is not installed"
  jq -n '{schema: "ringup.net.snapshot/1", hostname: "node",
    interfaces: [{index: 1, name: "lo", type: "loopback", flags: ["UP", "RUNNING", "LOOPBACK"]},
      (range(199) | {index: (. + 2), name: "eth\(.)", type: "physical", flags: ["UP", "RUNNING"]})],
    addresses: [range(1000) | {interface: (. % 199 + 2), label: "eth\(. % 199)", address: "10.\(. / 250 | floor).\(. % 250).5", prefix: 24}],
    routes: [range(1000) | {to: "10.\(. / 250 | floor).\(. % 250).0", prefix: 24, interface: (. % 199 + 2), metric: 0}]}' \
    >"$BATS_TEST_TMPDIR/large.json"
  run bash -c 'ulimit -t 1; ringup net lint --snapshot "$1"' _ "$BATS_TEST_TMPDIR/large.json"
  ((status <= 1)) || { echo "status $status"; return 1; }
  run bash -c 'ulimit -t 1; ringup net explain --json --snapshot "$1"' _ "$BATS_TEST_TMPDIR/large.json"
  ((status <= 1)) || { echo "status $status"; return 1; }
}
