#!/usr/bin/env bats
# net-blip.bats - a network that is away for a while, which a job on several hosts survives: F10.
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

# missed - has each of the two hosts told that it does not hear the other?
missed() {
  grep -qE 'warn: rank 0 .* has been silent for' err && grep -qE 'warn: rank 2 .* has been silent for' err
}

@test "F10 a short partition is survived, and the results are right" {
  need_nft
  export RINGUP_LOST_MS=60000
  spread -b 262144 -u enough -p 2
  partition
  await missed
  sleep $((RINGUP_TEST_LONG ? 10 : 0))
  heal "$a" input
  heal "$a" output
  survived 4
}

@test "F10 a link that is away for long is survived where a minute is allowed" {
  export RINGUP_LOST_MS=60000
  spread -b 1048576 -u enough -p 100
  ip -n "$b" link set eth0 down
  # Longer than the default of the profile allows: 3 s, or 15.
  sleep $((RINGUP_TEST_LONG ? 18 : 5))
  ip -n "$b" link set eth0 up
  survived 4
}

@test "F10 a short partition between two of three hosts" {
  need_nft
  export RINGUP_LOST_MS=60000 RINGUP_STALL_ABORT_MS=0
  trio -b 262144 -u enough -p 2
  part
  await grep -q 'has confirmed no data' err
  sleep $((RINGUP_TEST_LONG ? 5 : 0))
  heal "$b" input
  heal "$c" input
  survived 3
}
