#!/usr/bin/env bats
# net.bats - ringup net

load ../lib/helper

# machine INTERFACE... - write a snapshot to $BATS_TEST_TMPDIR/node.json; each
# INTERFACE is NAME:TYPE:FLAGS:ADDRESS/PREFIX:METRIC, METRIC - for no default route.
machine() {
  local i=1 name type flags addr metric
  local ifs='{"index":1,"name":"lo","type":"loopback","flags":["UP","RUNNING","LOOPBACK"]}'
  local addrs='{"interface":1,"address":"127.0.0.1","prefix":8,"scope":"host"}' routes=''
  for _ in "$@"; do
    i=$((i + 1))
    IFS=: read -r name type flags addr metric <<<"$1"
    shift
    ifs+=",{\"index\":$i,\"name\":\"$name\",\"type\":\"$type\",\"flags\":[\"${flags//,/\",\"}\"]}"
    addrs+=",{\"interface\":$i,\"address\":\"${addr%/*}\",\"prefix\":${addr#*/}}"
    [[ $metric == - ]] ||
      routes+="${routes:+,}{\"to\":\"0.0.0.0\",\"prefix\":0,\"interface\":$i,\"metric\":$metric}"
  done
  printf '{"schema":"ringup.net.snapshot/1","interfaces":[%s],"addresses":[%s],"routes":[%s]}\n' \
    "$ifs" "$addrs" "$routes" >"$BATS_TEST_TMPDIR/node.json"
}

# ask FILTER [OPTION...] - explain the machine as JSON and filter it with jq.
ask() {
  command -v jq >/dev/null || skip "jq is not installed"
  local filter=$1
  shift
  run bash -c 'ringup net explain --json "${@:2}" | jq -r "$1"' _ "$filter" \
    --from "$BATS_TEST_TMPDIR/node.json" "$@"
}

@test "explain: an idle docker0 is nobody's but Open MPI's" {
  machine eth0:physical:UP,RUNNING:10.0.0.5/24:100 docker0:bridge:UP:172.17.0.1/16:-
  ask '.libraries[] | .library as $l | .roles[] | "\($l) \(.role) \([.picks[].interface] | join(" "))"'
  expect_status 0
  expect_line 'nccl bootstrap eth0'
  expect_line 'nccl net eth0'
  expect_line 'openmpi btl eth0 docker0'
  expect_line 'openmpi oob eth0 docker0'
  expect_line 'horovod nic eth0 docker0'
  ask '.choice.interface, .choice.address, (.choice.error == null)'
  [[ $output == $'eth0\n10.0.0.5\ntrue' ]]
}

@test "explain: every interface has a rule in every library" {
  machine eth0:physical:UP,RUNNING:10.0.0.5/24:100 docker0:bridge:UP:172.17.0.1/16:-
  ask '[.libraries[].interfaces[], .choice.interfaces[] | select(.rule == "" or .name == "")] | length'
  [[ $output == 0 ]]
  ask '[.libraries[] | .interfaces | length] | unique[]'
  [[ $output == 3 ]]
}

@test "explain: a setting changes the pick, and says what it shadows" {
  local root=$BATS_TEST_TMPDIR/root
  mkdir -p "$root/etc"
  echo NCCL_SOCKET_IFNAME=no-such-nic >"$root/etc/nccl.conf"
  command -v jq >/dev/null || skip "jq is not installed"
  RINGUP_ROOT=$root NCCL_SOCKET_IFNAME==lo run bash -c "ringup net explain --json --lib nccl |
    jq -r '.libraries[0] | .roles[0].picks[0].interface, (.settings[] | .source, .shadows[].value)'"
  [[ $output == $'lo\nenvironment\nno-such-nic' ]]
  RINGUP_ROOT=$root run bash -c "ringup net explain --json --lib nccl |
    jq -r '.libraries[0] | .roles[0].error, .settings[].source'"
  [[ $output == *no-such-nic*/etc/nccl.conf:1 ]]
}

@test "explain: a tie is refused with the way out, and status 1" {
  machine eth0:physical:UP,RUNNING:10.0.0.5/24:- eth1:physical:UP,RUNNING:10.0.1.5/24:-
  run ringup net explain --from "$BATS_TEST_TMPDIR/node.json"
  expect_status 1
  [[ $output == *"RINGUP_INTERFACE=eth0 or RINGUP_INTERFACE=eth1"* ]]
  run ringup net explain --from "$BATS_TEST_TMPDIR/node.json" --peer 10.0.1.9
  expect_status 1
}

@test "explain: a recorded route to the peer decides" {
  machine eth0:physical:UP,RUNNING:10.0.0.5/24:0 eth1:physical:UP,RUNNING:10.0.1.5/24:-
  sed -i 's|"routes":\[|&{"to":"10.0.1.0","prefix":24,"interface":3},|' "$BATS_TEST_TMPDIR/node.json"
  ask .choice.interface --peer 10.0.1.9
  [[ $output == eth1 ]]
  ask .choice.interface
  [[ $output == eth0 ]]
}

@test "explain: RINGUP_INTERFACE that does not exist names those that do" {
  RINGUP_INTERFACE=no-such-nic run ringup net explain
  expect_status 1
  [[ $output == *"no-such-nic: no such interface; there are: "* ]]
}

@test "explain: without colour where nobody sees it" {
  run ringup net explain
  [[ $output != *$'\033'* ]]
  command -v script >/dev/null || skip "script(1) is not installed"
  run env -u NO_COLOR TERM=xterm script -qec 'ringup net explain' /dev/null
  [[ $output == *$'\033[1m'* ]]
  run env NO_COLOR=1 TERM=xterm script -qec 'ringup net explain' /dev/null
  [[ $output != *$'\033'* ]]
}

@test "record and explain: this machine and its recording say the same" {
  ringup net record >"$BATS_TEST_TMPDIR/node.json"
  ringup net explain --json >"$BATS_TEST_TMPDIR/live.json" || true
  ringup net explain --json --from "$BATS_TEST_TMPDIR/node.json" >"$BATS_TEST_TMPDIR/then.json" || true
  cmp "$BATS_TEST_TMPDIR/live.json" "$BATS_TEST_TMPDIR/then.json"
}

@test "explain: a recording that is none" {
  echo '{"schema": "other"}' >"$BATS_TEST_TMPDIR/node.json"
  run ringup net explain --from "$BATS_TEST_TMPDIR/node.json"
  expect_status 3
  [[ $output == *"schema is not ringup.net.snapshot/1" ]]
  run ringup net explain --from "$BATS_TEST_TMPDIR"
  expect_status 3
  run ringup net explain --from "$BATS_TEST_TMPDIR/absent"
  expect_status 3
}

@test "explain: wrong usage" {
  run ringup net explain --lib ncc
  expect_status 2
  [[ $output == *"did you mean nccl?"* ]]
  run ringup net explain --peer somewhere
  expect_status 3
  run ringup net explain surplus
  expect_status 2
  run ringup net
  expect_status 2
}
