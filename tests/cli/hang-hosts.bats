#!/usr/bin/env bats
# hang-hosts.bats - ringup hang: jobs on several hosts
# shellcheck disable=SC2154
# needs: waits root-net
# tests: src/hang src/cli/cmd_hang.c src/probe/agents.c

load ../lib/helper
load ../lib/await
load ../lib/launcher
load ../lib/fault
load ../lib/hosts
load ../lib/machines

# fail TEXT - show it, and fail.
fail() {
  echo "$*"
  return 1
}

hangs=$PWD/tests/programs/hangs

setup() {
  launcher_setup
  fault_setup
  machines_up
}
# The client of ssh outlives its server, whose namespace is taken away without a word.
teardown() {
  if [[ -n ${job_pid:-} ]]; then
    pkill -KILL -P "$job_pid" || true
    kill "$job_pid" 2>/dev/null || true
  fi
  hosts_teardown
}

# job KIND RANK - three ranks, one on each host, of which one hangs so; started on the first.
job() {
  on_machine 1 timeout 100 env RINGUP_DEADLOCK_MS=0 RINGUP_SSH="$ssh_words" \
    ringup run -H 10.9.0.1:1,10.9.0.2:1,10.9.0.3:1 -- "$hangs" "$1" "$2" "$PWD/hung" >out 2>&1 3>&- &
  job_pid=$!
  await test -e hung
  sleep 1.5
}

# verdict VERDICT RANK - that is what the output says.
verdict() {
  [[ $(jq -c '.jobs[0] | [.verdict, .culprits]' <<<"$output") == "[\"$1\",[$2]]" ]] || fail "not $1 of $2: $output"
}

@test "the launcher's host asks the others: the rank is named wherever it is" {
  job sleep 2
  run on_machine 1 ringup hang --wait 2 --timeout 25 --json
  expect_status 1
  verdict late 2
  [[ $(jq -c '[.jobs[0].hosts[] | .name]' <<<"$output") == '["10.9.0.2","10.9.0.3"]' ]]
  [[ $(jq -r '.jobs[0].text' <<<"$output") == *"rank 2 on m3 (process "*"It is asleep in "* ]]
}

@test "a rank that is stopped elsewhere; a host that does not answer is named, and not waited for" {
  job stop 1
  run on_machine 1 ringup hang --wait 2 --timeout 25 --json
  expect_status 1
  verdict stopped 1
  drop "$c" input
  run on_machine 1 ringup hang --wait 2 --timeout 25
  expect_status 1
  [[ $output == *"rank 1 on m2 (process "*") is stopped"*"host 10.9.0.3: "* ]] || fail "$output"
  [[ $output == *"run: ssh m2 kill -CONT "* ]] || fail "$output"
}

@test "hosts that are named are asked from where the launcher is not; one without the job says so" {
  job sleep 0
  printf '%s\n' 10.9.0.1 10.9.0.3 >hosts
  run on_machine 2 ringup hang --wait 2 --timeout 25 --json --hostfile hosts --ssh "$ssh_words"
  expect_status 1
  verdict late 0
  run on_machine 2 ringup hang --wait 2 --timeout 25
  expect_status 3
  [[ $output == *"all ranks on the sampled hosts wait in "*"not seen: 2 of 3 ranks, on other hosts"*"run: ringup hang --hostfile FILE"* ]] || fail "$output"
}

@test "a healthy job on several hosts: no alarm" {
  job busy 0
  run on_machine 1 ringup hang --wait 2 --timeout 25 --json
  expect_status 0
}
