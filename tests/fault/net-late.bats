#!/usr/bin/env bats
# net-late.bats - a network that is back, and data that is under way again later than all else: F10.
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

# apart - is one connection of $b about to try to reach $a again, and another long after it?
apart() {
  at "$b" ss -tino | grep -oE 'timer:\(on,[0-9.]+(ms|sec)' | sed -E 's/.*,//; s/ms/ 1/; s/sec/ 1000/' |
    awk '{ t = $1 * $2; if (NR == 1 || t < least) least = t; if (t > most) most = t }
      END { exit !(least < 700 && most - least > 6000) }'
}

# When the kernel tries which connection again is its own affair: with so much time allowed, each ten
# seconds in the end.  What is cut earlier tries again at other times.
@test "F10 data that is under way again later than all else has not stalled" {
  need_nft
  export RINGUP_LOST_MS=120000 RINGUP_LOST_WARN_MS=1000 RINGUP_STALL_ABORT_MS=4000
  spread -b 262144 -u enough -p 2
  drop "$a" input 'iifname "eth0" meta length > 300'
  sleep 0.7
  drop "$a" input
  drop "$b" input
  sleep 10
  # Else all may come back at the same time, which is right, too.
  ! await_for 30 apart || echo "# data comes last" >&3
  heal "$a" input
  heal "$b" input
  survived 4
}
