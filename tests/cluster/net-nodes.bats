#!/usr/bin/env bats
# net-nodes.bats - `ringup net fix --nodes`: one network for all nodes, on all of them or on none.
# needs: waits root-net
# tests: src/nicpick src/probe src/detect/netfacts.c src/settle src/host src/base src/cli/cmd_net*.c tests/lib/hosts.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts

setup() {
  command -v jq >/dev/null || skip "jq is not installed"
  fault_setup
}
teardown() { cluster_down; }

# fix [OPTION...] NODE... - settle them from n1, as a user there would.
fix() { run at n1 ringup net fix --ssh /run/nodes/rsh "$@"; }

# written N - what N nodes have in files of settings, in one text.
written() {
  local k
  for ((k = 1; k <= $1; k++)); do
    at "n$k" bash -c 'cd /etc && ls -d nccl.conf openmpi profile.d 2>/dev/null; ls -A openmpi profile.d 2>/dev/null
      cat nccl.conf openmpi/openmpi-mca-params.conf profile.d/ringup.sh environment 2>/dev/null' || true
  done
}

# takes NODE - the interfaces that NCCL, Open MPI, Gloo and Horovod would take there after a login.
takes() {
  at "$1" bash -lc 'PATH=$1; ringup net explain --json' _ "$PATH" |
    jq -r '[.libraries[] | select(.library | IN("nccl", "openmpi", "gloo", "horovod")).roles[].picks[].interface] | unique | join(" ")'
}

@test "all nodes are settled and verified, a second time nothing changes, undo takes it back" {
  cluster_up 3 docker
  before=$(written 3)
  [[ $(takes n2) == *docker0* ]]
  fix --dry-run --nodes n1 n2 n3
  expect_status 0
  # Nodes to which the same is done are told together.
  expect_line 'n1, n2, n3: eth0'
  expect_line '+NCCL_SOCKET_IFNAME==eth0'
  [[ $output != *"configured "* && $(written 3) == "$before" ]]
  fix --nodes n1,n2,n3
  expect_status 0
  expect_line 'configured 3 of 3 nodes for NCCL, Open MPI, Gloo and Horovod'
  local k
  for k in 1 2 3; do [[ $(takes "n$k") == eth0 ]]; done
  settled=$(written 3)
  fix --nodes n1 n2 n3
  expect_status 0
  expect_line 'n1, n2, n3: eth0: nothing to change'
  [[ $(written 3) == "$settled" ]]
  fix --undo --nodes n1 n2 n3
  expect_status 0
  expect_line 'removed from 3 of 3 nodes'
  [[ $(written 3) == "$before" ]]
}

# users - write `user-rsh NODE WORD...`, which logs in as nobody, and `sudo`, by which nobody becomes root.
users() {
  room bash -c 'cat >/run/nodes/sudo && chmod +x /run/nodes/sudo' <<'EOT'
#!/bin/bash
[[ $1 == -n ]] || { echo 'sudo: a password is required' >&2; exit 1; }
exec setpriv --reuid=0 --regid=0 --clear-groups -- "${@:2}"
EOT
  room bash -c 'cat >/run/nodes/user-rsh && chmod +x /run/nodes/user-rsh' <<'EOT'
#!/bin/bash
exec /run/nodes/at "$1" setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+setuid,+setgid \
  --ambient-caps=+setuid,+setgid -- sh -c "${*:2}"
EOT
}

@test "a user who is not root is told so, and sudo on the nodes does it" {
  cluster_up 2 docker
  users
  before=$(written 2)
  run at n1 ringup net fix --ssh /run/nodes/user-rsh --nodes n1 n2
  expect_status 3
  [[ $output == *"only root may write /etc/nccl.conf: sudo, or --ssh 'ssh %h sudo -n'"* ]] || { echo "$output"; return 1; }
  [[ $(written 2) == "$before" ]]
  # the lines, which a user may have in files of their own, are shown without root
  run at n1 ringup net fix --ssh /run/nodes/user-rsh --dry-run --nodes n1 n2
  expect_status 0
  expect_line '+NCCL_SOCKET_IFNAME==eth0'
  expect_line '+export GLOO_SOCKET_IFNAME=eth0'
  [[ $(written 2) == "$before" ]]
  run at n1 ringup net fix --ssh '/run/nodes/user-rsh %h /run/nodes/sudo -n' --nodes n1 n2
  expect_status 0
  expect_line 'configured 2 of 2 nodes for NCCL, Open MPI, Gloo and Horovod'
  [[ $(takes n2) == eth0 ]]
  run at n1 ringup net fix --ssh '/run/nodes/user-rsh %h /run/nodes/sudo -n' --undo --nodes n1 n2
  expect_status 0
  [[ $(written 2) == "$before" ]]
}

@test "a pin is written on all nodes, and undo takes it back" {
  cluster_up 2 docker
  before=$(written 2)
  fix --pin --nodes n1 n2
  expect_status 0
  local k plugin
  for k in 1 2; do
    plugin=$(at "n$k" sed -n 's/^NCCL_ENV_PLUGIN=//p' /etc/nccl.conf)
    at "n$k" test -e "$plugin"
    # What a variable says does not count any more.
    [[ $(at "n$k" env NCCL_SOCKET_IFNAME=^docker0 ringup net explain --lib nccl --version 2.32.3 --json |
      jq -r '.libraries[0].roles[0].picks[].interface') == eth0 ]]
  done
  fix --undo --nodes n1 n2
  expect_status 0
  [[ $(written 2) == "$before" ]]
}

@test "names that differ: each node gets its own, and Open MPI the network" {
  cluster_up 3 names
  fix --json --nodes n1,n2 n3
  expect_status 0
  [[ $(jq -c '[.network, .changed, [.nodes[] | [.name, .interface, .address, .settled, .error]]]' <<<"$output") == \
    '["10.77.0.0/24",true,[["n1","eth0","10.77.0.1",true,null],["n2","ens5","10.77.0.2",true,null],["n3","eth0","10.77.0.3",true,null]]]' ]]
  at n2 grep -qx NCCL_SOCKET_IFNAME==ens5 /etc/nccl.conf
  [[ $(at n2 cat /etc/openmpi/openmpi-mca-params.conf /etc/profile.d/ringup.sh 2>/dev/null) == *"if_include"*10.77.0.0/24* ]]
  [[ $(takes n2) == ens5 && $(takes n3) == eth0 ]]
}

@test "two networks that tie are not guessed; whoever decides is heard, if the network carries" {
  cluster_up 2 management
  local k
  for k in 1 2; do
    at "n$k" ip route del default
    # Nothing says which of the two the nodes' names mean.
    at "n$k" bash -c "echo 127.0.0.1 localhost >/etc/hosts"
  done
  before=$(written 2)
  fix --nodes n1 n2
  expect_status 1
  [[ $output == *"--network=CIDR"* || $output == *"--interface="* ]]
  [[ $(written 2) == "$before" ]]
  # Its routes say that it leads there, and nothing arrives.
  fix --network 192.168.50.0/24 --nodes n1 n2
  expect_status 1
  [[ $output == *"cannot reach 192.168.50."*"nothing was written"* ]]
  [[ $(written 2) == "$before" ]]
  fix --network 10.77.0.0/24 --nodes n1 n2
  expect_status 0
  [[ $(takes n1) == eth0 && $(takes n2) == eth0 ]]
}

@test "a node that cannot be asked: nothing is written anywhere, unless --force" {
  cluster_up 2 docker
  before=$(written 2)
  fix --nodes n1 n2 n9
  expect_status 1
  [[ $output == *"n9: "*"nothing was written: --force continues without it"* ]]
  [[ $(written 2) == "$before" ]]
  fix --force --nodes n1 n2 n9
  expect_status 1
  [[ $output == *"ringup net fix: n9: no agent started"* ]]
  expect_line 'configured 2 of 3 nodes for NCCL, Open MPI, Gloo and Horovod'
  [[ $(takes n1) == eth0 && $(takes n2) == eth0 ]]
}

@test "a node that cannot write, or where somebody says otherwise: nothing is written anywhere" {
  cluster_up 3 docker
  before=$(written 3)
  at n2 mount -t tmpfs -o ro none /etc/profile.d
  fix --nodes n1 n2 n3
  expect_status 3
  [[ $output == *"ringup net fix: n2: its agent says: "*"Read-only file system"*"nothing was written"* ]]
  at n2 umount /etc/profile.d
  [[ $(written 3) == "$before" ]]
  at n3 bash -c 'echo NCCL_SOCKET_IFNAME=other >/etc/nccl.conf'
  before=$(written 3)
  fix --nodes n1 n2 n3
  expect_status 1
  expect_line 'ringup net fix: n3: /etc/nccl.conf:1: NCCL_SOCKET_IFNAME=other'
  [[ $(written 3) == "$before" ]]
  fix --force --nodes n1 n2 n3
  expect_status 0
  fix --undo --nodes n1 n2 n3
  [[ $(written 3) == "$before" ]]
}

# agent NODE - an agent there; say writes to it, and hear reads a line of it.
agent() {
  coproc agent { exec nsenter -t "$room_pid" -n -m -p /run/nodes/at "$1" ringup net agent 2>&1; }
  agent_pid=$agent_PID
  # Bash forgets its own of these as soon as the agent has ended.
  exec {from_agent}<&"${agent[0]}" {to_agent}>&"${agent[1]}"
  eval "exec ${agent[0]}<&- ${agent[1]}>&-"
}
say() { echo "ringup-agent/1 $1" >&"$to_agent"; }
hear() { read -r -t 80 line <&"$from_agent"; }
leave() {
  exec {to_agent}>&-
  cat <&"$from_agent" >/dev/null
  exec {from_agent}<&-
  wait "$agent_pid" || true
}

stage='{"op":"stage","interface":"eth0","network":null,"force":false,"dry_run":false}'

@test "who is left before all have written takes back what it wrote; who is told to keeps it" {
  cluster_up 1
  before=$(written 1)
  agent n1
  say "$stage"
  hear
  [[ $line == *'"op":"staged"'* && $(written 1) == "$before" ]]
  say '{"op":"commit"}'
  hear
  [[ $line == *'"op":"committed"'* ]]
  at n1 grep -qx NCCL_SOCKET_IFNAME==eth0 /etc/nccl.conf
  leave
  [[ $(written 1) == "$before" ]]
  agent n1
  say "$stage" && hear && say '{"op":"commit"}' && hear && say '{"op":"keep"}' && hear
  [[ $line == *'"op":"kept"'* ]]
  leave
  at n1 grep -qx NCCL_SOCKET_IFNAME==eth0 /etc/nccl.conf
}

@test "an agent writes nothing but names, in the right order, and not where it listens" {
  cluster_up 1
  before=$(written 1)
  local bad
  for bad in "${stage/eth0/a\\nNCCL_DEBUG=INFO}" "${stage/eth0/..\/x}" "${stage/null/\"10.0.0.0\/8;id\"}" \
    "${stage/\"eth0\"/7}" "${stage/eth0/$(printf 'e%.0s' {1..200})}" '{"op":"commit"}' '{"op":"keep"}' \
    '{"op":"stage"}' '{"op":"write","path":"/etc/passwd"}'; do
    agent n1
    say "$bad"
    hear
    [[ $line == *'"op":"error"'* ]] || { echo "$bad: $line"; return 1; }
    leave
    [[ $(written 1) == "$before" ]]
  done
  agent n1
  say '{"op":"hello","secret":"'"$(printf '%064d' 7)"'","node":0,"names":["a"],"port":45000}'
  hear
  [[ $line == *'"op":"facts"'* ]]
  say "$stage"
  hear
  [[ $line == *'"op":"error"'* ]]
  leave
  [[ $(written 1) == "$before" ]]
}
