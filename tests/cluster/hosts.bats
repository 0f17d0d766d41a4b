#!/usr/bin/env bats
# hosts.bats - a job across hosts: network namespaces joined by a cable.
# needs: cpu root-net
# tests: src/api src/backend src/base src/coll src/engine src/host src/wire src/bench src/cli/cmd_bench.c tests/programs tests/whole/test_any.c tests/whole/test_p2p_job.c tests/lib/hosts.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts

sum=$PWD/tests/programs/sum

setup() {
  need_namespaces
  a=a$$ b=b$$
  ip netns add "$a"
  ip netns add "$b"
  ip -n "$a" link add eth0 type veth peer name eth0 netns "$b"
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
  for host in "$a" "$b"; do await link_up "$host"; done
  meet=$BATS_TEST_TMPDIR/meet
  mkdir -m 700 "$meet"
  pids=()
  more=()
  program=("$sum")
}

teardown() {
  local pid
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
  [[ -z ${a:-} ]] || { ip netns del "$a"; ip netns del "$b"; }
  local n
  for n in "${more[@]:-}"; do [[ -z $n ]] || ip netns del "$n"; done
}

# plug N - so many more hosts, each plugged into a switch: more[1] to more[N].
plug() {
  local n i
  more=("s$$")
  ip netns add "s$$"
  ip -n "s$$" link add switch type bridge
  ip -n "s$$" link set switch up
  for ((i = 1; i <= $1; i++)); do
    n=h$$-$i
    ip netns add "$n"
    more+=("$n")
    ip -n "$n" link add eth0 type veth peer name "port$i" netns "s$$"
    ip -n "s$$" link set "port$i" master switch up
    ip -n "$n" addr add "10.9.1.$i/24" dev eth0
    ip -n "$n" link set lo up
    ip -n "$n" link set eth0 up
  done
  for n in "${more[@]:1}"; do await link_up "$n"; done
}

# start HOST RANK SIZE [ARG...] - one rank of $program in the background, output in rank.N.
start() {
  local host=$1 rank=$2 size=$3
  shift 3
  RINGUP_RANK=$rank RINGUP_SIZE=$size RINGUP_MEET=$meet RINGUP_JOB=hosts$$ \
    RINGUP_START_TIMEOUT_MS=${RINGUP_START_TIMEOUT_MS:-30000} \
    timeout 100 ip netns exec "$host" "${program[@]}" "$@" >"$BATS_TEST_TMPDIR/rank.$rank" 2>&1 &
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

# job HOST... [-- ARG...] - a job anew, of a rank of $program on each host, until it has ended.
job() {
  local hosts=() rank
  while (($#)) && [[ $1 != -- ]]; do
    hosts+=("$1")
    shift
  done
  pids=()
  rm -rf "$meet"
  mkdir -m 700 "$meet"
  for rank in "${!hosts[@]}"; do
    start "${hosts[rank]}" "$rank" "${#hosts[@]}" "${@:2}"
  done
  finish "${!hosts[@]}"
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

@test "a meeting place may be named from where the ranks are" {
  cd "$BATS_TEST_TMPDIR"
  meet=./meet
  start "$a" 0 2
  start "$b" 1 2
  finish 0 1
  expect_status 0
}

@test "the first rank says how many sockets there are to each host" {
  RINGUP_SOCKETS=1 start "$a" 0 2
  RINGUP_SOCKETS=3 start "$b" 1 2
  finish 0 1
  expect_status 0
}

@test "a rank of the second host joins while all others go on" {
  local layout
  for layout in "$a $b $b" "$a $a $b $b"; do
    # shellcheck disable=SC2086 # words
    set -- $layout
    job "$@" -- join
    expect_status 0
    [[ $(grep -c "all agree" <<<"$output") -eq $# ]]
  done
}

@test "whatever a job may do, with several ranks a host and some that join" {
  local layout
  program=("$PWD/tests/whole/test_any")
  for layout in "$a $b $b" "$b $a $b $a" "$a $a $a $b"; do
    # shellcheck disable=SC2086 # words
    set -- $layout
    job "$@" -- 1 3
    expect_status 0
    [[ $(grep -c "tcp: 3 lots from 1 on, 0 wrong" <<<"$output") -eq $# ]]
  done
}

@test "messages go from each rank to each, with several ranks a host" {
  local layout
  program=("$PWD/tests/whole/test_p2p_job")
  for layout in "$a $b $b" "$b $a $b $a" "$a $a $b $b $a"; do
    # shellcheck disable=SC2086 # words
    set -- $layout
    job "$@"
    expect_status 0
    [[ $(grep -c "tcp: 0 wrong" <<<"$output") -eq $# ]]
  done
}

@test "a firewall between two hosts is named on all" {
  command -v nft >/dev/null || skip "nft is not installed"
  local verdict said
  plug 3
  for verdict in "reject with tcp reset" drop; do
    ip netns exec "${more[2]}" nft -f - <<<"
      table inet wall {
        chain in {
          type filter hook input priority 0
          ip saddr 10.9.1.3 tcp flags syn / syn,ack $verdict
        }
      }"
    RINGUP_START_TIMEOUT_MS=8000 job "${more[@]:1}"
    expect_status 3
    [[ $verdict == drop ]] && said='rank 1 of 3 did not connect within .* at 10.9.1.2:.*no answer' ||
      said='rank 1: 10.9.1.2:.*Connection refused.*firewall'
    [[ $(grep -c "rank 2: $said" <<<"$output") -eq 3 ]] || {
      printf '%s\n' "$output"
      return 1
    }
    ip netns exec "${more[2]}" nft delete table inet wall
  done
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
  [[ $(grep -c 'differ: .*rank 0 wants an allreduce (sum) of 10 f32, rank 1 an allreduce (sum) of 11 f32' <<<"$output") -eq 2 ]]
}

@test "three ranks on one host and one on the other: every collective is right" {
  local kind
  for kind in allreduce allgather broadcast alltoall reducescatter; do
    program=(ringup bench "$kind" --check --sizes '8,4K,300K,3M' --iterations 3)
    job "$a" "$b" "$a" "$a"
    expect_status 0
  done
}

@test "four hosts with one rank each: every collective is right" {
  local kind
  plug 4
  for kind in allreduce allgather broadcast alltoall reducescatter; do
    program=(ringup bench "$kind" --check --sizes '8,4K,300K,3M' --iterations 3)
    job "${more[@]:1}"
    expect_status 0
  done
}

@test "eight hosts, two of them with two ranks: every collective is right" {
  local kind
  plug 8
  for kind in allreduce allgather broadcast alltoall reducescatter; do
    program=(ringup bench "$kind" --check --json --sizes '80,4K,300K' --iterations 2)
    job "${more[@]:1}" "${more[@]:1:2}"
    expect_status 0
    [[ $(grep -c '"ranks":10,"nodes":8,.*"wrong":0[,}]' "$BATS_TEST_TMPDIR/rank.0") -ge 3 ]] || {
      cat "$BATS_TEST_TMPDIR"/rank.*
      return 1
    }
  done
}

@test "halves are summed in f32 between hosts, with several sockets" {
  program=(env RINGUP_SOCKETS=3 ringup bench allreduce --check --dtype bf16 --sizes '2,4K,1M' --iterations 3)
  start "$a" 0 3
  start "$a" 1 3
  start "$b" 2 3
  finish 0 1 2
  expect_status 0
}
