#!/usr/bin/env bats
# net.bats - ringup net
# needs: cpu
# tests: src/cli/cmd_diagnose.c src/cli/cmd_net_explain.c src/cli/cmd_net_snapshot.c src/cli/cmd_net.c src/cli/cmd_net_lint.c src/cli/cmd_net_check.c src/cli/matrix.c src/cli/opt.c src/cli/out.c src/probe src/detect/netfacts.c src/nicpick src/host src/base tests/lib/machine.bash

load ../lib/helper
load ../lib/machine

# ask FILTER [OPTION...] - explain the machine as JSON and filter it with jq.
ask() {
  command -v jq >/dev/null || skip "jq is not installed"
  local filter=$1
  shift
  run bash -c 'ringup net explain --json "${@:2}" | jq -r "$1"' _ "$filter" \
    --snapshot "$BATS_TEST_TMPDIR/node.json" "$@"
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
  expect_line 'ucx tcp eth0 lo'
  expect_line 'libfabric tcp eth0 lo lo'
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
    jq -r '.libraries[0] | .roles[0].error.message, .roles[0].error.result, .roles[0].error.why, .settings[].source'"
  [[ $output == *no-such-nic*/etc/nccl.conf:1 ]]
}

# of_lib LIB FILTER [OPTION...] - one library of the machine, filtered with jq.
of_lib() {
  ask ".libraries[0] | $2" --lib "$1" "${@:3}"
}

@test "explain: each version has rules of its own" {
  machine docker0:bridge:UP:172.17.0.1/16:- eth0:physical:UP,RUNNING:10.0.0.5/24:100
  of_lib openmpi .version
  [[ $output == 5.* ]]
  machine docker0:bridge:UP:172.17.0.1/16:-
  of_lib nccl '.roles[0].picks[0].interface' --version 2.27.7
  [[ $output == docker0 ]]
  of_lib nccl '.roles[0].picks[0].interface, (.interfaces[] | select(.name == "docker0").rule)' --version 2.28.3
  [[ $output == $'lo\nskipped: not RUNNING, which NCCL checks since 2.28.3' ]]
  of_lib ucx '.roles[0].picks[].interface' --version 1.15
  [[ $output == lo ]]
}

@test "explain: a refusal has the library's number and words, and no picks" {
  machine eth0:physical:UP,RUNNING:10.0.0.5/24:100
  sed -i 's|"routes"|"settings":[{"name":"NCCL_SOCKET_IFNAME","value":"ens5"},{"name":"OMPI_MCA_btl_tcp_if_include","value":"ens5"}],&|' \
    "$BATS_TEST_TMPDIR/node.json"
  of_lib nccl '.roles[0] | "\(.picks | length) \(.error.result) \(.error.message)"'
  [[ $output == "0 5 invalid usage"* ]]
  of_lib nccl '.roles[0].error.result' --version 2.23.4
  [[ $output == 3 ]]
  of_lib openmpi '.roles[0] | "\(.picks | length) \(.error.result)"' --version 5.0.11
  [[ $output == "0 14" ]]
  of_lib openmpi '.roles[0] | "\(.picks | length) \(.error.result)"' --version 4.1.8
  [[ $output == "0 1" ]]
}

@test "explain: which file a version of NCCL reads" {
  command -v jq >/dev/null || skip "jq is not installed"
  local home=$BATS_TEST_TMPDIR/home
  mkdir "$home"
  printf 'NCCL_SOCKET_IFNAME==lo\r\n' >"$home/.nccl.conf"
  HOME=$home run bash -c "ringup net explain --json --lib nccl --version 2.30.3 |
    jq -r '.libraries[0] | .roles[0].picks[0].interface, .settings[0].value, .settings[0].source'"
  [[ $output == "lo"$'\n'"=lo"$'\n'"$home/.nccl.conf:1" ]]
  # The node may have settings of its own, in /etc/nccl.conf.
  HOME=$home run bash -c "ringup net explain --json --lib nccl --version 2.29.7 |
    jq -r '[.libraries[0].settings[] | select(.source | startswith(\"$home\"))] | length'"
  [[ $output == 0 ]]
  NCCL_CONF_FILE=$home/.nccl.conf run bash -c "ringup net explain --json --lib nccl --version 2.22.3 |
    jq -r '[.libraries[0].settings[] | select(.source | startswith(\"$home\"))] | length'"
  [[ $output == 0 ]]
  NCCL_CONF_FILE=$home/.nccl.conf run bash -c "ringup net explain --json --lib nccl --version 2.23.4 |
    jq -r '.libraries[0] | .roles[0].error.result, (.settings[] | .name)'"
  [[ $output == $'3\nNCCL_SOCKET_IFNAME\nNCCL_CONF_FILE' ]]
}

@test "explain: a version that is not known, or of no library" {
  run ringup net explain --lib nccl --version 2.4.8
  expect_status 2
  [[ $output == *"from 2.16 to"* ]]
  run ringup net explain --lib nccl --version 99.1
  [[ ${lines[0]} == "NCCL 99.1, by the rules of 2."*", the newest known: a guess" ]] || { echo "$output"; return 1; }
  run ringup net explain --lib nccl --version newest
  expect_status 2
  run ringup net explain --version 2.28.9
  expect_status 2
}

@test "explain: no byte of a setting reaches the terminal as a command" {
  machine eth0:physical:UP,RUNNING:10.0.0.5/24:100
  sed -i 's|"routes"|"settings":[{"name":"NCCL_SOCKET_IFNAME","value":"\\u001b[31m\\u0007","source":"\\u001b]0;x"}],&|' \
    "$BATS_TEST_TMPDIR/node.json"
  run ringup net explain --snapshot "$BATS_TEST_TMPDIR/node.json" --lib nccl
  expect_status 0
  [[ $output != *$'\033'* && $output != *$'\a'* ]]
}

@test "explain: a tie is refused with the way out, and status 1" {
  machine eth0:physical:UP,RUNNING:10.0.0.5/24:- eth1:physical:UP,RUNNING:10.0.1.5/24:-
  run ringup net explain --snapshot "$BATS_TEST_TMPDIR/node.json"
  expect_status 1
  [[ $output == *"RINGUP_INTERFACE=eth0 or RINGUP_INTERFACE=eth1"* ]]
  run ringup net explain --snapshot "$BATS_TEST_TMPDIR/node.json" --peer 10.0.1.9
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
  [[ $output == *"no-such-nic: no such interface; this host has "* ]]
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
  ringup net explain --json --snapshot "$BATS_TEST_TMPDIR/node.json" >"$BATS_TEST_TMPDIR/then.json" || true
  cmp "$BATS_TEST_TMPDIR/live.json" "$BATS_TEST_TMPDIR/then.json"
}

@test "snapshot: what goes to stdout by its name goes behind what is there" {
  cd "$BATS_TEST_TMPDIR"
  echo first >log
  ringup net snapshot -o /dev/stdout >>log
  [[ $(head -n 1 log) == first ]]
  tail -n +2 log | jq -e .schema
  # Closed, it is a file that can only be read.
  ringup net snapshot -o /dev/null >&-
}

@test "snapshot: a link named as output stays one, and a FIFO is written to" {
  cd "$BATS_TEST_TMPDIR"
  ln -s node.json link
  touch node.json
  mkfifo fifo
  timeout 200 ringup net snapshot -o link
  [[ -L link && $(<node.json) == *'"ringup.net.snapshot/1"'* ]]
  timeout 200 cat fifo >read &
  timeout 200 ringup net snapshot -o fifo
  wait $!
  [[ -p fifo && $(<read) == *'"ringup.net.snapshot/1"'* ]]
}

@test "explain: a recording that is none" {
  echo '{"schema": "other"}' >"$BATS_TEST_TMPDIR/node.json"
  run ringup net explain --snapshot "$BATS_TEST_TMPDIR/node.json"
  expect_status 3
  [[ $output == *"schema is not ringup.net.snapshot/1" ]]
  run ringup net explain --snapshot "$BATS_TEST_TMPDIR"
  expect_status 3
  run ringup net explain --snapshot "$BATS_TEST_TMPDIR/absent"
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

# on_terminal COLUMNS COMMAND... - what it prints on a terminal of so many columns, without colours.
on_terminal() {
  NO_COLOR=1 python3 -I - "$@" <<'END'
import fcntl, os, struct, sys, termios

master, slave = os.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
pid = os.fork()
if not pid:
    os.close(master)
    os.dup2(slave, 1)
    os.execvp(sys.argv[2], sys.argv[2:])
os.close(slave)
said = b""
while True:
    try:
        piece = os.read(master, 65536)
    except OSError:
        break
    if not piece:
        break
    said += piece
os.waitpid(pid, 0)
sys.stdout.write(said.decode().replace("\r", ""))
END
}

@test "explain, lint, check, diagnose: lines are folded at the terminal's width, commands are not" {
  command -v python3 >/dev/null || skip "python3 is not installed"
  local width command long
  machine eth0:physical:UP,RUNNING:10.0.0.5/24:100 docker0:bridge:UP,RUNNING:172.17.0.1/16:-
  for width in 60 100; do
    for command in "net explain --from $BATS_TEST_TMPDIR/node.json" "net lint --from $BATS_TEST_TMPDIR/node.json" \
      "net check --from $src/tests/fuzz/seeds/facts/check5.json" "diagnose $src/tests/diagnose/logs/openmpi-docker0.log"; do
      # shellcheck disable=SC2086
      on_terminal $width ringup $command >"$BATS_TEST_TMPDIR/shown"
      [[ -s $BATS_TEST_TMPDIR/shown ]]
      long=$(grep -vE '^ *([$]|fix:    |found:|where |evidence |run )' "$BATS_TEST_TMPDIR/shown" | awk -v w=$width 'length($0) > w') || true
      [[ -z $long ]] || { printf '%s in %s columns: %s\n' "$command" "$width" "$long"; return 1; }
    done
  done
  # Elsewhere a line is a line.
  [[ $(ringup net lint --from "$BATS_TEST_TMPDIR/node.json" | awk 'length($0) > 100' | wc -l) -gt 0 ]]
}

@test "explain, lint: --from reads a machine; its former name is accepted and not shown" {
  machine eth7:physical:UP,RUNNING:10.0.0.5/24:100
  local c long
  for c in explain lint; do
    run ringup net $c --from "$BATS_TEST_TMPDIR/node.json"
    long=$output
    run ringup net $c --snapshot "$BATS_TEST_TMPDIR/node.json"
    [[ $output == "$long" ]]
    run ringup net $c -s "$BATS_TEST_TMPDIR/node.json"
    [[ $output == "$long" ]]
    run ringup net $c --help
    [[ $output == *--from=FILE* && $output != *snapshot=* ]]
    run ringup help --list-options net $c
    [[ $output == *--from* && $output != *snapshot* ]]
  done
  ringup help --list-options net | grep -qx -- --snapshot
}

@test "explain: an env plug-in that a snapshot has, and what ringup's own would answer" {
  command -v jq >/dev/null || skip "jq is not installed"
  machine eth0:physical:UP,RUNNING:10.0.0.5/24:100 eth1:physical:UP,RUNNING:10.0.1.5/24:-
  local node=$BATS_TEST_TMPDIR/node.json own=$BATS_TEST_TMPDIR/own.json
  # said FILE VERSION - [picks, is it unknown?, what it would be otherwise]
  said() {
    ringup net explain --json --lib nccl --version "$2" --from "$1" |
      jq -c '.libraries[0].roles[0] | [[.picks[].interface], .unknown != null, .otherwise[0]?.interface]'
  }
  jq '.env_plugins = [{name: "libnccl-env.so", path: "/lib/libnccl-env.so", loads: true, takes: ["v1"]}] |
    .pins = [{name: "NCCL_SOCKET_IFNAME", value: "=eth1", source: "/etc/nccl.conf:2", via: "pinned"}]' "$node" >"$own"
  [[ $(said "$own" 2.28.9) == '[[],true,"eth0"]' ]]
  [[ $(said "$own" 2.27.7) == '[["eth0"],false,null]' ]]
  run ringup net explain --lib nccl --version 2.28.9 --from "$own"
  [[ $output == *"bootstrap unknown: the env plug-in /lib/libnccl-env.so overrides the environment"* && $output != *" + eth0"* ]]
  jq '.env_plugins[0].ringup = true' "$own" >"$node"
  [[ $(said "$node" 2.28.9) == '[["eth1"],false,null]' && $(said "$node" 2.27.7) == '[["eth0"],false,null]' ]]
}
