#!/usr/bin/env bats
# start.bats - jobs that cannot start, or barely: F25, F26, F33, F34, F41, F45.
# proves: P16 of docs/RELIABILITY.md
# needs: waits
# tests: src/api src/backend src/base src/coll src/engine src/host src/launch src/wire src/cli/cmd_run.c tests/fault tests/lib/fault.bash

load ../lib/helper
load ../lib/fault

setup() { fault_setup; }
teardown() { fault_teardown; }

shim=$PWD/tests/fault/.libs/libshim.so

# need_shim - skip where nothing can be preloaded.
need_shim() {
  [[ -e $shim ]] || skip "no shim: $shim"
  not grep -q -e '-fsanitize' "${builddir:-.}/config.log" || skip "a sanitizer wants to be first"
}

# solo RANK SIZE - a rank that nobody launched, in the background.
solo() {
  mkdir -p -m 700 meet
  RINGUP_RANK=$1 RINGUP_SIZE=$2 RINGUP_MEET=$PWD/meet RINGUP_JOB=solo \
    timeout 100 "$loop" -n 20 >"solo.$1.${3:-}" 2>&1 3>&- &
}

@test "F25 a rank that does not come is named, where the launcher hosts the meeting" {
  export RINGUP_START_TIMEOUT_MS=2500
  begin -np 4 --no-prefix -- bash -c '[[ $RINGUP_RANK != [12] ]] || exec sleep 1000
    : >"here.$RINGUP_RANK" && until [[ -e here.0 && -e here.3 ]]; do sleep 0.05; done; exec "$0"' "$loop"
  end
  expect_status 3
  [[ $(grep -cE '^error -1 .* -9 .*ranks 1, 2 of 4 did not join within [0-9.]+ s' out) -eq 2 ]]
}

@test "F25 and where rank 0 does" {
  export RINGUP_START_TIMEOUT_MS=1500
  solo 0 3
  solo 2 3
  wait
  grep -qE '^error -1 .* -9 .*ranks? 1(, 2)? of 3 did not join within [0-9.]+ s' solo.0. ||
    { cat solo.*; return 1; }
  grep -qE '^error -1 ' solo.2.
}

# connected PID - has a child of it a connection to another process?
connected() {
  local child=none
  read -r child _ <"/proc/$1/task/$1/children" || true
  ss -Htnp state established | grep -q "pid=$child,"
}

@test "F25 of two ranks 1 one is refused, and the job runs" {
  command -v ss >/dev/null || skip "ss is not installed"
  local first second
  export RINGUP_START_TIMEOUT_MS=90000
  solo 0 3
  solo 1 3 a
  first=$!
  await connected "$first"
  # It may be that the other one goes, and then it comes in; so it tries for as long as it may.
  RINGUP_START_TIMEOUT_MS=1000 solo 1 3 b
  second=$!
  wait "$second" || true
  solo 2 3
  wait
  [[ $(cat solo.* | grep -c '^done') -eq 3 && $(cat solo.1.b | grep -c '^error -1') -eq 1 ]] || { cat solo.*; return 1; }
}

@test "F25 a rank that dies while the job starts" {
  # If they waited, it would be in vain.
  export RINGUP_START_TIMEOUT_MS=3600000
  begin -np 3 --no-prefix -- bash -c '[[ $RINGUP_RANK != 1 ]] || exit 9; exec "$0"' "$loop"
  end
  expect_status 9
}

@test "F26 no port left is an error with a reason, and jobs side by side do not meet" {
  [[ $EUID -eq 0 ]] && unshare -n true 2>/dev/null || skip "needs root and network namespaces"
  run timeout 60 unshare -n bash -c "ip link set lo up
    echo 40000 40001 >/proc/sys/net/ipv4/ip_local_port_range
    exec ringup run -np 4 --no-prefix -x RINGUP_BACKEND=tcp -- '$loop' -n 20"
  [[ $status -eq 3 && $output == *'Address already in use'* || $output == *'assign requested address'* ]] || { echo "$status $output"; return 1; }
  (ringup run -np 2 --no-prefix -- "$loop" -n 200 >other 2>&1)&
  begin -np 2 --no-prefix -- "$loop" -n 200
  end
  wait
  [[ $(cat out other | grep -c '^done') -eq 4 ]]
}

@test "a host that does not reach itself is told of its loopback, not of a firewall" {
  [[ $EUID -eq 0 ]] && unshare -n true 2>/dev/null || skip "needs root and network namespaces"
  local way said id rule='table inet t { chain c { type filter hook input priority 0; tcp flags syn'
  while IFS='|' read -r way id said; do
    [[ $way != *nft* ]] || command -v nft >/dev/null || continue
    RINGUP_START_TIMEOUT_MS=4000 run timeout 60 unshare -n bash -c "$way
      exec ringup run -np 2 --no-prefix -- '$loop' -n 20"
    [[ $status -eq 3 && $output == *"$said"* && $output != *firewall* ]] ||
      { echo "$way: $status $output"; return 1; }
    ringup diagnose - <<<"$output" >told || true
    grep -qw "$id" told || { cat told; return 1; }
  done <<EOF
:|R19|the loopback interface of this host is down: ip link set lo up
ip link set lo up; ip addr del 127.0.0.1/8 dev lo|R19|this host has no 127.0.0.1: ip addr add
ip link set lo up; nft '$rule reject with tcp reset; }; }'|R20|or rules of this host reject what it sends to itself
ip link set lo up; nft '$rule drop; }; }'|R20|rules of this host drop what it sends to itself
EOF
}

@test "F33 /dev/shm small, full, read-only or absent: shared memory all the same" {
  [[ $EUID -eq 0 ]] && unshare -m true 2>/dev/null || skip "needs root and mount namespaces"
  local way
  for way in 'mount -t tmpfs -o size=64k none /dev/shm' \
    'mount -t tmpfs -o size=64k none /dev/shm; head -c 1M /dev/zero >/dev/shm/full 2>/dev/null || true' \
    'mount -t tmpfs -o ro none /dev/shm' \
    'mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9; mknod -m 666 /dev/zero c 1 5'; do
    run timeout 60 unshare -m bash -ec "$way; exec ringup run -np 3 --no-prefix -- '$loop' -n 50 -b 65536"
    [[ $status -eq 0 && $(grep -c '^done' <<<"$output") -eq 3 ]] || { echo "$way: $status $output"; return 1; }
  done
}

@test "F33 a limit for files, which holds for shared memory, too: all ranks say so, at once" {
  # If they waited, it would be in vain.
  export RINGUP_START_TIMEOUT_MS=3600000
  begin -np 3 --no-prefix -- bash -c 'ulimit -f 1000 && exec "$0"' "$loop"
  end
  expect_status 3
  [[ $(grep -c 'ulimit -f' out) -eq 3 ]] || { cat out; return 1; }
}

@test "F34 the disk is full where the output goes: the job goes on" {
  [[ $EUID -eq 0 ]] && unshare -m true 2>/dev/null || skip "needs root and mount namespaces"
  mkdir logs
  run timeout 60 unshare -m bash -c "mount -t tmpfs -o size=16k none logs
    exec ringup run -np 2 -o logs -- bash -c 'head -c 200000 /dev/zero | tr \"\\0\" x; exec \"\$0\" -n 50' '$loop'"
  [[ $(grep -oE 'done [01] [0-9]+' <<<"$output" | wc -l) -eq 2 ]] || { tail -c 2000 <<<"$output"; return 1; }
  grep -qE 'ringup run: .*(No space|space left|cannot write)' <<<"$output"
}

@test "F41 the wall clock jumps by an hour, forth and back: nothing happens" {
  need_shim
  local v
  # An hour is longer than that, and nothing else is.
  for v in FREEZE_WARN FREEZE LOST_WARN LOST STALL_WARN STALL_ABORT; do export "RINGUP_${v}_MS=600000"; done
  begin -np 3 --no-prefix -x LD_PRELOAD="$shim" -x RINGUP_TEST_CLOCK=3600 -- "$loop" -n 1000 -p 2
  end
  expect_status 0
  said 3 "done"
  not grep -qE 'silent|has not moved|stalled' err
  # It does jump: date(1) sees it.
  for _ in {1..2}; do
    LD_PRELOAD=$shim RINGUP_TEST_CLOCK=3600 bash -c 'for i in {1..60}; do printf "%(%s)T\n" -1; done'
  done | sort -n | awk 'NR == 1 { first = $1 } END { exit !($1 - first >= 3599) }'
}

# sweep KIND STEP [ARG...] - let each STEPth call of KIND fail, in rank 1.
sweep() {
  local kind=$1 step=$2 total i
  shift 2
  rm -f count
  begin -np 2 --no-prefix "$@" -x LD_PRELOAD="$shim" -x RINGUP_TEST_COUNT="$PWD/count" -- "$loop" -n 20
  end
  expect_status 0
  total=$(awk -v k="$kind" '$1 == k && $2 > m { m = $2 } END { print m + 0 }' count)
  # In the short form a dozen of them.
  if [[ ${RINGUP_TEST_LONG:-0} != 1 ]]; then step=$((total / 12 + 1)); fi
  # Some of these calls come when others wait for this rank: they do until they time out.
  local -x RINGUP_START_TIMEOUT_MS=3000
  for ((i = 1; i <= total; i += step)); do
    begin -np 2 --no-prefix "$@" -x LD_PRELOAD="$shim" -x RINGUP_TEST_FAIL="$kind:$i" -x RINGUP_TEST_FAIL_RANK=1 -- "$loop" -n 20
    end
    # Done all the same, or an error that is told; 5 is the test's own lack of memory.
    [[ $status -eq 0 || $status -eq 3 || $status -eq 5 ]] && not grep -q 'by signal' err || {
      echo "$kind $i of $total: status $status"
      cat out err
      return 1
    }
  done
  echo "# F45 $kind: every ${step}th of $total calls" >&3
}

@test "F45 memory, a thread, a mapping that is refused is an error, not an end" {
  need_shim
  local step=2
  [[ ${RINGUP_TEST_LONG:-0} != 1 ]] || step=1
  sweep alloc $step
  sweep thread 1
  sweep memfd 1
  sweep mmap 1
}

@test "F45 over TCP" {
  need_shim
  local step=23
  [[ ${RINGUP_TEST_LONG:-0} != 1 ]] || step=1
  sweep alloc $step -x RINGUP_BACKEND=tcp
  sweep thread 1 -x RINGUP_BACKEND=tcp
}

@test "F45 a launcher that cannot fork says so and ends what it has started" {
  need_shim
  local i
  for i in 1 2 3 4; do
    run timeout 30 env RINGUP_TEST_FAIL="fork:$i" LD_PRELOAD="$shim" ringup run -np 3 --no-prefix -- sleep 0.3
    [[ $status -eq 3 && $output == *'Resource temporarily unavailable'* || $status -eq 0 ]] || { echo "$i: $status $output"; return 1; }
    [[ -z $(left) ]]
  done
}
