#!/usr/bin/env bats
# net-watch.bats - ringup net watch, while links, addresses and routes change for real.
# needs: waits root-net
# tests: src/nicpick src/host src/base src/cli/cmd_net.c src/cli/cmd_net_watch.c

load ../lib/helper
load ../lib/fault
load ../lib/settings

setup() {
  [[ $EUID -eq 0 ]] || skip "needs root"
  command -v jq >/dev/null || skip "jq is not installed"
  space=rw$$
  ip netns add "$space" 2>/dev/null || { space=''; skip "needs ip netns"; }
  ip -n "$space" link set lo up
  log=$BATS_TEST_TMPDIR/log
  settings_hide "$BATS_TEST_TMPDIR/settings"
}

teardown() {
  [[ -z ${watcher:-} ]] || kill "$watcher" 2>/dev/null || true
  [[ -z ${space:-} ]] || ip netns del "$space"
}

# watching [OPTION...] - start it, and wait until it listens.
watching() {
  "${unsettled[@]}" ip netns exec "$space" env -i PATH="$PATH" HOME=/nonexistent ringup net watch "$@" >"$log" 2>&1 3>&- &
  watcher=$!
  told 'watching 1 interfaces'
}

# told PATTERN - some line says so, now or later.
told() {
  await_for 80 grep -qE -- "$1" "$log" || { echo "not told: $1"; cat "$log"; return 1; }
}

@test "watch: a cable is plugged in, gets an address, and is pulled out" {
  watching
  ip -n "$space" link add eth0 type veth peer name peer0
  told ' eth0 is new, down$'
  ip -n "$space" link set peer0 up
  ip -n "$space" addr add 10.0.0.5/24 dev eth0
  ip -n "$space" link set eth0 up
  told ' eth0 has 10.0.0.5/24$'
  told ' NCCL \(bootstrap\) would now pick eth0 10.0.0.5 instead of lo 127.0.0.1$'
  ip -n "$space" route add default via 10.0.0.1
  told ' the default route by eth0 via 10.0.0.1 is new$'
  told ' no library would pick another interface$'
  ip -n "$space" link set eth0 mtu 9000
  told ' eth0 has mtu 9000, had 1500$'
  ip -n "$space" link set peer0 down
  told ' eth0 is idle, was running$'
  told ' NCCL \(bootstrap\) would now pick lo 127.0.0.1 instead of eth0 10.0.0.5$'
  ip -n "$space" link del eth0
  told ' eth0 is gone$'
  grep -qvE '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z ' "$log" && { cat "$log"; return 1; }
  kill -TERM "$watcher"
  wait "$watcher"
}

@test "watch: docker comes and goes, as JSON" {
  watching --json
  ip -n "$space" link add docker0 type bridge
  ip -n "$space" link set docker0 address 02:42:00:00:00:01
  ip -n "$space" addr add 172.17.0.1/16 dev docker0
  ip -n "$space" link set docker0 up
  told 'docker0 is idle|docker0 is new, idle'
  told 'Open MPI \(btl\) would now pick docker0 172.17.0.1'
  kill -INT "$watcher"
  wait "$watcher"
  jq -es 'all(.[]; .schema == "ringup.net.watch/1" and (.changes | length > 0) and (.time | endswith("Z")))' "$log"
}

@test "watch: ends when its time is over" {
  run timeout 80 "${unsettled[@]}" ip netns exec "$space" ringup net watch --for 1
  expect_status 0
  [[ $output == *' watching 1 interfaces' && ${#lines[@]} -eq 1 ]]
  run ringup net watch --for -1
  expect_status 2
}
