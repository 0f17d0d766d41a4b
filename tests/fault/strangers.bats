#!/usr/bin/env bats
# strangers.bats - who does not belong to the job does not matter to it: F17-F23.
# needs: waits
# tests: src/wire src/launch src/base src/api src/cli/cmd_run.c tests/fault tests/lib/fault.bash

load ../lib/helper
load ../lib/fault

setup() {
  fault_setup
  stranger=${loop%loop}stranger
}
teardown() { fault_teardown; }

# meeting - where the ranks of the launcher meet.
meeting() {
  local child
  for child in $(cat "/proc/$launcher/task/$launcher/children"); do
    tr '\0' '\n' <"/proc/$child/environ" | sed -n 's/^RINGUP_MEET=//p'
  done 2>/dev/null | head -n 1
}

# met - is that known?
met() {
  [[ -n $(meeting) ]]
}

# rss PID - kilobytes in memory.
rss() {
  awk '/^VmRSS/ { print $2 }' "/proc/$1/status"
}

# knock HOW COUNT LEAST - strangers come and stay; sets them and, in a file of that name, what
# they say once LEAST have been put out.
knock() {
  "$stranger" "$(meeting)" "$2" 100000 "$1" "$3" >"said.$1" 3>&- &
  them+=($!)
}

# put_out HOW COUNT - so many have been.
put_out() {
  local n half last
  await test -s "said.$1"
  read -r n half last <"said.$1"
  echo "# $1: $n of $2 were put out, half of them after $half ms, the last after $last ms" >&3
}

# knocked HOW COUNT [LEAST] - strangers are there before the ranks come, and more of them come while
# they run; LEAST of each lot, else all, get so far as to be put out.
knocked() {
  local before them=()
  begin -np 3 --no-prefix -- bash -c 'until [[ -e go ]]; do sleep 0.02; done; exec "$0" -p 5' "$loop"
  await met
  before=$(rss "$launcher")
  knock "$1" "$2" "${3:-$2}"
  touch go
  await said 3 ready
  # 64 of them at a time, and what they send is not kept.
  (($(rss "$launcher") - before < 4096))
  put_out "$@"
  rm "said.$1"
  knock "$1" "$2" "${3:-$2}"
  put_out "$@"
  # Before the end, of which ranks that are told later may hear from those told first.
  not grep -E '^(error|wrong)' out
  kill "${them[@]}"
  kill -TERM "$launcher"
  end
  expect_status 143
}

@test "F17 noise at the meeting point, before the ranks come and while they run" {
  knocked garbage 50
}

@test "F18 strangers that stall, and send a byte at a time" {
  knocked trickle 64
}

@test "F19 announcements of two gigabytes" {
  knocked huge 50
}

@test "F20 five thousand connections" {
  # A queue of 128 is full at once: the kernel lets some of them try again seconds later.
  knocked idle 5000 1000
}

@test "F20 few descriptors: strangers are refused, ranks are not" {
  ulimit -n 256
  knocked idle 200
}

@test "F17 after the start no rank listens anywhere, and the launcher only to itself" {
  command -v ss >/dev/null || skip "ss is not installed"
  export RINGUP_BACKEND=tcp
  begin -np 3 --no-prefix -- "$loop" -p 5
  await said 3 ready
  local p
  for p in $(awk '$1 == "ready" { print $3 }' out); do
    not grep -q "pid=$p," < <(ss -Hltnup)
  done
  [[ $(ss -Hltnp | grep "pid=$launcher," | awk '{ print $4 }' | grep -vc '^127.0.0.1:') -eq 0 ]]
  kill -TERM "$launcher"
  end
}

@test "F21 F22 a rank with another job's secret, or none, is refused; the job runs" {
  begin -np 3 --no-prefix -- bash -c 'until [[ -e go ]]; do sleep 0.05; done; exec "$0" -n 100 -p 5' "$loop"
  await met
  local where
  where=$(meeting)
  head -c 32 /dev/urandom >secret
  run timeout 100 env RINGUP_MEET="$where" RINGUP_RANK=1 RINGUP_SIZE=3 RINGUP_SECRET_FD=9 \
    RINGUP_START_TIMEOUT_MS=60000 "$loop" 9<secret
  [[ $status -eq 3 && $output == *"secret"* ]] || { echo "$status $output"; return 1; }
  run timeout 100 env RINGUP_MEET="$where" RINGUP_RANK=1 RINGUP_SIZE=3 RINGUP_START_TIMEOUT_MS=60000 "$loop"
  [[ $status -eq 3 && $output == *RINGUP_SECRET_FD* ]] || { echo "$status $output"; return 1; }
  touch go
  end
  expect_status 0
  said 3 "done"
}
