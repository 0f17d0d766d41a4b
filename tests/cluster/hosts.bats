#!/usr/bin/env bats
# hosts.bats - a job across hosts: network namespaces joined by a cable.

load ../lib/helper

sum=$PWD/tests/programs/sum

setup() {
  [[ $EUID -eq 0 ]] && ip netns add "probe$$" 2>/dev/null || skip "needs root and ip netns"
  ip netns del "probe$$"
  a=a$$ b=b$$
  ip netns add "$a"
  ip netns add "$b"
  ip link add eth0 netns "$a" type veth peer name eth0 netns "$b"
  ip -n "$a" addr add 10.9.0.1/24 dev eth0
  ip -n "$b" addr add 10.9.0.2/24 dev eth0
  for host in "$a" "$b"; do
    ip -n "$host" link set lo up
    ip -n "$host" link set eth0 up
    # A trap: the same address on every host, on a bridge that leads nowhere.
    ip -n "$host" link add docker0 type bridge
    ip -n "$host" addr add 172.17.0.1/16 dev docker0
    ip -n "$host" link set docker0 up
  done
  # The kernel notices a carrier in its own time.
  for host in "$a" "$b"; do
    for _ in {1..50}; do
      [[ $(ip -n "$host" link show eth0) != *"state UP"* ]] || break
      sleep 0.1
    done
  done
  meet=$BATS_TEST_TMPDIR/meet
  mkdir -m 700 "$meet"
  pids=()
}

teardown() {
  local pid
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
  [[ -z ${a:-} ]] || { ip netns del "$a"; ip netns del "$b"; }
}

# start HOST RANK SIZE [ARG...] - one rank in the background, its output in rank.N.
start() {
  local host=$1 rank=$2 size=$3
  shift 3
  RINGUP_RANK=$rank RINGUP_SIZE=$size RINGUP_MEET=$meet RINGUP_JOB=hosts$$ \
    RINGUP_START_TIMEOUT_MS=30000 \
    timeout 60 ip netns exec "$host" "$sum" "$@" >"$BATS_TEST_TMPDIR/rank.$rank" 2>&1 &
  pids+=($!)
}

# finish RANK... - wait for these; sets status to the last failure, output to all they said.
finish() {
  local rank
  status=0
  for rank; do
    wait "${pids[rank]}" || status=$?
  done
  output=$(cat "$BATS_TEST_TMPDIR"/rank.*)
}

@test "two hosts with two ranks each agree, over the cable and not the bridge" {
  start "$a" 0 4
  start "$a" 1 4
  start "$b" 2 4
  start "$b" 3 4
  finish 0 1 2 3
  expect_status 0
  expect_line "rank 0 of 4: all agree; tcp, local 0 of 2, host 0 of 2"
  expect_line "rank 1 of 4: all agree; tcp, local 1 of 2, host 0 of 2"
  expect_line "rank 2 of 4: all agree; tcp, local 0 of 2, host 1 of 2"
  expect_line "rank 3 of 4: all agree; tcp, local 1 of 2, host 1 of 2"
}

@test "uneven hosts agree" {
  start "$a" 0 3
  start "$b" 1 3
  start "$a" 2 3
  finish 0 1 2
  expect_status 0
  expect_line "rank 2 of 3: all agree; tcp, local 1 of 2, host 0 of 2"
}

@test "a group has ranks of both hosts" {
  start "$a" 0 4 group
  start "$a" 1 4 group
  start "$b" 2 4 group
  start "$b" 3 4 group
  finish 0 1 2 3
  expect_status 0
  [[ $(grep -c "all agree" <<<"$output") -eq 4 ]]
}

@test "a rank that is killed on one host is named on both" {
  start "$a" 0 4 die
  start "$a" 1 4 die
  start "$b" 2 4 die
  start "$b" 3 4 die
  finish 0 1 2
  expect_status 3
  [[ $(grep -c 'a peer is gone: .*rank 3 (process' <<<"$output") -eq 3 ]] || {
    printf '%s\n' "$output"
    return 1
  }
}

@test "ranks that disagree hear it on both hosts" {
  start "$a" 0 2 differ
  start "$b" 1 2 differ
  finish 0 1
  expect_status 0
  [[ $(grep -c 'differ: .*rank 0 wants a sum of 10 f32, rank 1 a sum of 11 f32' <<<"$output") -eq 2 ]]
}
