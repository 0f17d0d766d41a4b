#!/usr/bin/env bats
# net-slow.bats - networks and ranks that are slow, which a job on two hosts bears: F13-F15.
# needs: waits root-net
# tests: src/api src/backend src/base src/coll src/engine src/host src/wire tests/fault tests/lib/fault.bash tests/lib/hosts.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts

setup() {
  fault_setup
  hosts_setup
}
teardown() { hosts_teardown; }

# right N - N ranks have ended in peace.
right() {
  await said "$1" "done"
  wait
  not grep -qE '^(error|wrong)' out
}

# One of so many packets is lost, counted; in the long form, by chance, and a segment may be lost a
# dozen times in a row.
@test "F13 a network that loses 1, 5 and 20 of 100 packets is slow and right" {
  need_nft
  local every turns=60 how=inc
  export RINGUP_LIVENESS_PROFILE=default
  ((RINGUP_TEST_LONG == 0)) || { export RINGUP_LOST_MS=60000 && how=random; }
  for every in 100 20 5; do
    drop "$a" input "iifname \"eth0\" numgen $how mod $every < 1"
    [[ $every -ne 5 ]] || turns=15
    spread -b 4096 -n $turns
    right 4
    heal "$a" input
  done
}

@test "F14 a rank that reads slowly is not dead, however full the sockets" {
  # It runs for a tenth of a second at a time; together that is longer than a silent peer is given,
  # 3 s or 15.  That it is stopped is no matter here.
  export RINGUP_FREEZE_MS=600000 RINGUP_STALL_ABORT_MS=0
  spread -b 16777216 -u enough
  local slow i
  slow=$(pid_of 3)
  for ((i = 0; i < (RINGUP_TEST_LONG ? 40 : 12); i++)); do
    "$strike" 19 "$slow"
    sleep 0.4
    "$strike" 18 "$slow"
    sleep 0.1
  done
  touch enough
  right 4
}

@test "F15 a thin line is slow and right" {
  command -v tc >/dev/null || skip "tc is not installed"
  ip netns exec "$a" tc qdisc add dev eth0 root tbf rate 4mbit burst 32kbit latency 400ms ||
    skip "no token bucket"
  # Half a second for each turn, so that all take longer than a silent peer is given.
  spread -b 262144 -n $((RINGUP_TEST_LONG ? 40 : 13))
  right 4
}
