#!/usr/bin/env bats
# scenes.bats - jobs that hang for their network, with Gloo and NCCL: reproduced, and cured.
# needs: cpu root-net
# tests: src/nicpick src/probe src/detect/netfacts.c src/settle src/diagnose src/host src/base src/cli/cmd_net*.c src/cli/cmd_diagnose.c tests/lib/scenes.bash tests/lib/hosts.bash tests/lib/real.bash tests/net tests/peers/gloo_allreduce.py

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/real
load ../lib/scenes

setup() { scenes_setup; }
teardown() { cluster_down; }

# gone PID - has this process ended?
gone() { ! kill -0 "$1" 2>/dev/null; }

@test "a test that is killed leaves no node behind" {
  (
    cluster_up 2
    printf '%s\n' "$room_pid" >room.pid
    exec sleep 100 3>&-
  ) &
  started[test]=$!
  await test -s room.pid
  kill -KILL "${started[test]}"
  await gone "$(cat room.pid)"
}

# gloo K N - rank K of N of torch.distributed, on its node as from a login shell; named rank.K.
gloo() {
  start "n$(($1 + 1))" "rank.$1" env RANK="$1" WORLD_SIZE="$2" MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
    bash -lc 'exec "$@"' _ "$python" "$src/tests/peers/gloo_allreduce.py" 8
}

@test "Gloo listens on 127.0.1.1 where that is the host's name: one rank fails, the other hangs" {
  need_torch
  local failed=0
  cluster_up 2 loopback-name
  gloo 0 2
  gloo 1 2
  # Who connects to whom depends on the ports; the other one waits.
  await grep -q 'connectFullMesh failed.*Connection refused, remote=\[127\.0\.1\.1\]' rank.0.log rank.1.log
  ! grep -q 'connectFullMesh failed' rank.1.log || failed=1
  finish "rank.$failed"
  [[ $status -ne 0 && $status -ne 124 ]]
  hangs "rank.$((1 - failed))"
  diagnosed "rank.$failed" G2 G5
  # Each node says what is wrong with it.
  [[ $(picks n2 gloo pair) == 127.0.1.1 ]]
  on_all 2 ringup net fix
  gloo 0 2
  gloo 1 2
  finish rank.0
  expect_status 0
  finish rank.1
  expect_status 0
}

# nccl VAR=VALUE... - the interface and address of NCCL's bootstrap on n1, with these set.
nccl() {
  at n1 env "$@" NCCL_DEBUG=INFO "$python" -I "$src/tests/net/ask_nccl.py" "$nccl" 2>&1 |
    sed -nE 's/.*Bootstrap: Using ([^:]+):(.*)<[0-9]+>$/\1 \2/p'
}

@test "NCCL_SOCKET_IFNAME=^docker0 makes NCCL take the loopback" {
  need_nccl
  cluster_up 1 docker
  [[ $(nccl NCCL_SOCKET_IFNAME=^docker0) == 'lo 127.0.0.1' ]]
  [[ $(picks n1 nccl bootstrap NCCL_SOCKET_IFNAME=^docker0) == 127.0.0.1 ]]
  # What everybody means by it is a name, and lint says which.
  run at n1 env NCCL_SOCKET_IFNAME=^docker0 ringup net lint
  expect_status 1
  expect_line '    fix:    export NCCL_SOCKET_IFNAME==eth0'
  [[ $(nccl NCCL_SOCKET_IFNAME==eth0) == 'eth0 10.77.0.1' ]]
  at n1 ringup net fix
  [[ $(nccl) == 'eth0 10.77.0.1' ]]
}

@test "IPv6 alone: NCCL takes it, and explain says so" {
  need_nccl
  cluster_up 2 ipv6
  [[ $(nccl) == "eth0 $(picks n1 nccl bootstrap)" ]]
}
