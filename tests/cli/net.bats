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
  RINGUP_ROOT=$root NCCL_SOCKET_IFNAME="=lo" run bash -c "ringup net explain --json --lib nccl |
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

# some_interface - the name of one that could be pinned here, or skip.
some_interface() {
  local name
  name=$(ringup net explain --json | jq -r '.choice.interface // empty') || true
  [[ -n $name && $name != lo ]] || skip "this machine has no network to pin"
  printf '%s\n' "$name"
}

# sums DIR - every name, mode and content below DIR.
sums() {
  (cd "$1" && find . -printf '%p %m %y\n' | sort && find . -type f -print0 | sort -z | xargs -0r cat)
}

@test "pin: there, again, and back" {
  command -v jq >/dev/null || skip "jq is not installed"
  local root=$BATS_TEST_TMPDIR/root name before pinned
  name=$(some_interface)
  mkdir -p "$root/etc/openmpi" "$root/databricks/spark/conf"
  printf 'a = 1' >"$root/etc/openmpi/openmpi-mca-params.conf"
  before=$(sums "$root")
  run ringup net pin --root "$root" --interface "$name"
  expect_status 0
  expect_line "$root/etc/nccl.conf: made"
  expect_line "$root/etc/openmpi/openmpi-mca-params.conf: changed"
  grep -qx "NCCL_SOCKET_IFNAME==$name" "$root/etc/nccl.conf"
  grep -qx "btl_tcp_if_include = $name" "$root/etc/openmpi/openmpi-mca-params.conf"
  grep -qx "oob_tcp_if_include = $name" "$root/etc/openmpi/openmpi-mca-params.conf"
  bash -c '. "$1" && [[ $GLOO_SOCKET_IFNAME == "$2" && $HOROVOD_GLOO_IFACE == "$2" ]]' _ \
    "$root/etc/profile.d/ringup.sh" "$name"
  grep -qx "export GLOO_SOCKET_IFNAME=$name" "$root/databricks/spark/conf/spark-env.sh"
  [[ -z $(grep -r exclude "$root") ]]
  pinned=$(sums "$root")
  run ringup net pin --root "$root" --interface "$name"
  expect_status 0
  expect_line "nothing to change: pinned already, $name"
  [[ $(sums "$root") == "$pinned" ]]
  run ringup net pin --root "$root" --undo
  expect_status 0
  [[ $(sums "$root") == "$before" ]]
}

@test "pin: what is pinned is what explain then says" {
  command -v jq >/dev/null || skip "jq is not installed"
  local root=$BATS_TEST_TMPDIR/root name
  name=$(some_interface)
  mkdir -p "$root/etc/openmpi"
  env -u NCCL_SOCKET_IFNAME ringup net pin --root "$root"
  # shellcheck source=/dev/null
  . "$root/etc/profile.d/ringup.sh"
  HOME=/nonexistent RINGUP_ROOT=$root run bash -c "ringup net explain --json |
    jq -r '[.libraries[].roles[].picks[].interface, .choice.interface] | unique[]'"
  [[ $output == "$name" ]]
}

@test "pin: a dry run is a patch, and changes nothing" {
  command -v jq >/dev/null || skip "jq is not installed"
  command -v patch >/dev/null || skip "patch is not installed"
  local root=$BATS_TEST_TMPDIR/root name before
  name=$(some_interface)
  mkdir -p "$root/etc/openmpi"
  seq 9 | sed 's/^/x/' >"$root/etc/openmpi/openmpi-mca-params.conf"
  printf 'NCCL_SOCKET_IFNAME=other\nNCCL_DEBUG=INFO' >"$root/etc/nccl.conf"
  before=$(sums "$root")
  ringup net pin --root "$root" --interface "$name" --force --dry-run >"$BATS_TEST_TMPDIR/patch"
  [[ $(sums "$root") == "$before" ]]
  cp -a "$root" "$BATS_TEST_TMPDIR/other"
  ringup net pin --root "$root" --interface "$name" --force
  sed -i "s|$root|$BATS_TEST_TMPDIR/other|" "$BATS_TEST_TMPDIR/patch"
  patch -s -p0 -d / <"$BATS_TEST_TMPDIR/patch"
  diff -r "$root" "$BATS_TEST_TMPDIR/other"
  run bash -c 'ringup net pin --root "$1" --interface "$2" --dry-run 2>/dev/null' _ "$root" "$name"
  expect_status 0
  [[ -z $output ]]
}

@test "pin: somebody else's setting is reported, and kept" {
  command -v jq >/dev/null || skip "jq is not installed"
  local root=$BATS_TEST_TMPDIR/root name before
  name=$(some_interface)
  mkdir -p "$root/etc"
  echo NCCL_SOCKET_IFNAME=other >"$root/etc/nccl.conf"
  before=$(sums "$root")
  run ringup net pin --root "$root" --interface "$name"
  expect_status 3
  [[ $output == *"$root/etc/nccl.conf:1: NCCL_SOCKET_IFNAME=other"* ]]
  [[ $output == *"--force"* ]]
  [[ $(sums "$root") == "$before" ]]
  ringup net pin --root "$root" --interface "$name" --force
  ringup net pin --root "$root" --undo
  [[ $(sums "$root") == "$before" ]]
}

@test "pin: an interface that does not exist" {
  run ringup net pin --root "$BATS_TEST_TMPDIR" --interface no-such-nic
  expect_status 3
  [[ $output == "ringup net pin: --interface=no-such-nic: no such interface; there are: "* ]]
  [[ -z $(ls -A "$BATS_TEST_TMPDIR") ]]
}

@test "pin: a variable that beats the files is named" {
  command -v jq >/dev/null || skip "jq is not installed"
  local root=$BATS_TEST_TMPDIR/root name
  name=$(some_interface)
  mkdir "$root"
  NCCL_SOCKET_IFNAME=^docker0 run ringup net pin --root "$root" --interface "$name"
  expect_status 0
  expect_line 'ringup net pin: environment: NCCL_SOCKET_IFNAME=^docker0 beats what is written here'
}

# mounted OPTIONS SCRIPT - run SCRIPT in a mount namespace with a tmpfs at $BATS_TEST_TMPDIR/m.
mounted() {
  [[ $EUID -eq 0 ]] || skip "needs root to mount"
  mkdir -p "$BATS_TEST_TMPDIR/m"
  unshare --mount --propagation private true 2>/dev/null || skip "needs a mount namespace"
  run unshare --mount --propagation private bash -c '
    mount -t tmpfs -o "$1" tmpfs "$2" && cd "$2" && bash -c "$3"' _ "$1" "$BATS_TEST_TMPDIR/m" "$2"
}

@test "pin: a read-only /etc is left as it is" {
  command -v jq >/dev/null || skip "jq is not installed"
  local name
  name=$(some_interface)
  mounted size=1m "
    mkdir -p etc/profile.d && mount -t tmpfs -o ro tmpfs etc/profile.d
    ringup net pin --root \"\$PWD\" --interface $name; echo \"status \$?\"; find . -type f"
  expect_line "status 3"
  [[ $output == *"/etc/profile.d/ringup.sh: Read-only file system"* ]]
  [[ ${lines[-1]} == "status 3" ]]
}

@test "pin: a full disk leaves nothing half-written" {
  command -v jq >/dev/null || skip "jq is not installed"
  local name
  name=$(some_interface)
  mounted size=64k "
    mkdir -p etc/openmpi && echo a=1 >etc/openmpi/openmpi-mca-params.conf
    cat /dev/zero >fill 2>/dev/null; truncate -s -4096 fill
    ringup net pin --root \"\$PWD\" --interface $name; echo \"status \$?\"
    cat etc/openmpi/openmpi-mca-params.conf; find etc"
  expect_line "status 3"
  [[ $output == *"No space left on device"* ]]
  [[ $output == *$'status 3\na=1\netc\netc/openmpi\netc/openmpi/openmpi-mca-params.conf' ]]
}

@test "pin: wrong usage" {
  run ringup net pin --undo --force
  expect_status 2
  run ringup net pin --root relative
  expect_status 2
  run ringup net pin surplus
  expect_status 2
}
