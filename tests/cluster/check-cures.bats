#!/usr/bin/env bats
# check-cures.bats - the command of each finding of `ringup net check`, carried out until nothing is found.
# needs: waits root-net
# tests: src/nicpick src/probe src/detect/netfacts.c src/settle src/host src/base src/cli/cmd_net*.c tests/lib/scenes.bash tests/lib/hosts.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/scenes

setup() {
  scenes_setup
  # What the commands say is done on the nodes of the cluster.
  # shellcheck disable=SC2016
  stub ssh 'exec /run/nodes/rsh "$@"'
  # shellcheck disable=SC2016
  stub sudo 'exec "$@"'
}
teardown() { cluster_down; }

# up N [KIND] - a cluster on which ssh gives a session what /etc/environment says, as PAM does.
up() {
  local k
  cluster_up "$@"
  room bash -c 'cat >/run/nodes/pam && chmod +x /run/nodes/pam' <<'END'
#!/bin/bash
# pam NODE WORD... - as rsh, with the variables of the node's /etc/environment.
exec /run/nodes/rsh "$1" 'env $(grep -v "^#" /etc/environment)' "${@:2}"
END
  for ((k = 1; k <= $1; k++)); do at "n$k" touch /etc/environment; done
}

# ask NODE... - check them; how fast the network is, which depends on what else this machine does, is
# no finding.  Sets found, the first error or warning, or null.
ask() {
  at n1 ringup net check --json --timeout 60 --ssh /run/nodes/pam "$@" >facts || true
  level facts >level
  at n1 ringup net check --json --from "$PWD/level" >judged || true
  found=$(jq -c '[.findings[] | select(.severity != "note")][0]' judged)
}

# cures CODES NODE... - are these the findings, one after the other, each cured by its command?
cures() {
  local want=$1 command n
  local -a got=()
  shift
  while ask "$@" && [[ $found != null ]]; do
    got+=("$(jq -r .code <<<"$found")")
    command=$(jq -r .run <<<"$found")
    printf '%s\n  %s\n  run: %s\n' "$(jq -r .what <<<"$found")" "$(jq -r .why <<<"$found")" "$command"
    ((${#got[@]} <= 4)) || { echo "in circles: ${got[*]}"; return 1; }
    case $command in
      'ringup net fix') for n; do at "$n" ringup net fix >/dev/null || return 1; done ;;
      *' ip link set dev '*) at n1 bash -c "$command" || return 1 ;;
      *) echo "no cure: $command" && return 1 ;;
    esac
  done
  [[ ${got[*]} == "$want" ]] || { echo "found ${got[*]}, not $want"; return 1; }
}

# mtu N K BYTES - the card of node K of N and its port of the switch.
mtu() {
  room ip link set "port$1" mtu "$2"
  room ip -n "n$1" link set eth0 mtu "$2" gso_max_segs 1
}

@test "cures: jumbo frames that one port of the switch does not carry" {
  up 3
  black_hole 3 2
  # The node that all black holes have in common is lowered, then the others.
  cures 'mtu-black-hole mtu-mismatch' n1 n2 n3
  [[ $(at n2 cat /sys/class/net/eth0/mtu) == 1500 ]]
}

@test "cures: of two nodes both are lowered" {
  up 2
  black_hole 2 2
  cures mtu-black-hole n1 n2
}

@test "cures: one node has another MTU, and the switch carries more, or less" {
  up 3
  black_hole 3 1
  mtu 1 9000
  room ip -n n3 link set eth0 mtu 1500
  cures mtu-mismatch n1 n2 n3
  cluster_down
  up 3 names
  for k in 1 2 3; do
    room ip link set "port$k" mtu 9000
    room ip -n "n$k" link set "$(card "$k")" mtu 9000 gso_max_segs 1
  done
  room ip -n n3 link set eth0 mtu 1500
  cures 'mtu-mismatch names-differ' n1 n2 n3
}

@test "cures: docker0, an interface that leads nowhere, a name that is the loopback" {
  local kind
  for kind in docker management loopback-name; do
    up 2 "$kind"
    ask n1 n2
    cures "$(jq -r .code <<<"$found")" n1 n2
    cluster_down
  done
}
