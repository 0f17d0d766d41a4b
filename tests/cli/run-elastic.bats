#!/usr/bin/env bats
# run-elastic.bats - ringup run, when ranks are lost and added
# proves: E1 E2 E3 of docs/RELIABILITY.md
# needs: waits
# tests: src/launch src/wire src/engine/context.c src/api src/cli/cmd_run.c src/cli/cmd_rankd.c tests/programs/regroup.c tests/lib/elastic.bash tests/lib/launcher.bash

load ../lib/helper
load ../lib/await
load ../lib/launcher
load ../lib/elastic

setup() { elastic_setup; }
teardown() { launcher_teardown; }

@test "a rank is killed: the others meet again in their processes, and it is replaced" {
  local kept
  elastic -np 4 --min-np 2
  await met 1 4
  kept=$(pid_of 1 0)
  kill -KILL "$(pid_of 1 2)"
  await complete 4
  ends 0
  told "rank 2 (pid $(pid_of 1 2)) on $(uname -n) was killed by signal 9 (Killed)"
  [[ $(pid_of 2 0) == "$kept" && $(pid_of 2 1) == "$(pid_of 1 1)" && $(pid_of 2 2) == "$(pid_of 1 3)" ]]
  # The new one has the free slot, and so a device that nobody else uses.
  grep -q 'generation [23] rank 3 of 4 local 2 of 4' out
}

@test "rank 0 is killed: the next one takes its place" {
  elastic -np 3 --min-np 1
  await met 1 3
  kill -KILL "$(pid_of 1 0)"
  await complete 3
  ends 0
  [[ $(pid_of 2 0) == "$(pid_of 1 1)" ]]
}

@test "two ranks are killed at once" {
  elastic -np 4 --min-np 1
  await met 1 4
  kill -STOP "$launcher" # or it could tell the others of the one before the other is dead
  kill -KILL "$(pid_of 1 1)" "$(pid_of 1 3)"
  await gone "$(pid_of 1 1)" "$(pid_of 1 3)"
  kill -CONT "$launcher"
  await complete 4
  ends 0
  [[ $(pid_of 2 0) == "$(pid_of 1 0)" && $(pid_of 2 1) == "$(pid_of 1 2)" ]]
}

@test "one rank is left, and goes on" {
  elastic -np 2 --min-np 1 --blacklist-cooldown-range 3600,3600
  await met 1 2
  kill -KILL "$(pid_of 1 0)"
  await met 2 1
  ends 0
}

@test "a rank that ends with a status is replaced as well" {
  echo 5 >quit.1
  elastic -np 2 --min-np 1
  await told "rank 1 (pid "
  await complete 2
  ends 0
  grep -q 'rank 1 (pid [0-9]*) on .* exited with status 5' out
}

@test "a process is one rank at a time" {
  touch twice stop
  run ringup run -np 2 --min-np 1 -- "$regroup" .
  expect_status 0
  [[ $(grep -c 'again: -3 ringup_init: this process already is a rank of the elastic job' <<<"$output") -eq 2 ]]
  grep -q 'generation 1 rank 1 of 2' <<<"$output"
}

@test "a child of a rank is no rank" {
  touch child stop
  run ringup run -np 2 --min-np 1 -- "$regroup" .
  expect_status 0
  [[ $(grep -c 'child [0-9]*: -[0-9]* .*a program that a rank starts is not a rank' <<<"$output") -eq 2 ]]
  not grep -q 'generation 2' <<<"$output"
}

@test "no more resets than were allowed" {
  elastic -np 3 --min-np 1 --reset-limit 0
  await met 1 3
  kill -KILL "$(pid_of 1 1)"
  over 137
  told "the ranks have met again 0 times, the limit of --reset-limit"
}

@test "too few ranks for too long end the job" {
  elastic -np 3 --min-np 3 --elastic-timeout 1 --blacklist-cooldown-range 3600,3600
  await met 1 3
  kill -KILL "$(pid_of 1 1)"
  over 137
  told "2 ranks are ready after 1 s, at least 3 are needed"
}

@test "a frozen rank is named by what the others say of it, killed and replaced" {
  local frozen
  RINGUP_FREEZE_MS=300 RINGUP_FREEZE_WARN_MS=0 elastic -np 3 --min-np 1
  await met 1 3
  frozen=$(pid_of 1 1)
  kill -STOP "$frozen"
  await grep -qE "^ringup run: rank 1 \(pid $frozen\) on .* has not moved for [0-9.]+ s: it is stopped \(state T\)$" out
  await complete 3
  ends 0
  [[ -z $(marked) ]]
}

@test "a rank that does not come to the meeting is ended" {
  local frozen
  RINGUP_LIVENESS=off elastic -np 3 --min-np 1 --elastic-timeout 1 --grace 1
  await met 1 3
  frozen=$(pid_of 1 1)
  kill -STOP "$frozen"
  kill -KILL "$(pid_of 1 2)"
  await told "rank 1 (pid $frozen) on $(uname -n) is ended: it did not come to the meeting within 1 s"
  await complete 3
  ends 0
  [[ -z $(marked) ]]
}

@test "all ranks fail: the status is that of the first, and nobody tries for ever" {
  run ringup run -np 3 --min-np 2 -- sh -c 'exit 7'
  expect_status 7
  # Two of three are too few to go on without: the third may be ended before it fails.
  [[ $(grep -c 'exited with status 7' <<<"$output") == [23] ]]
}

@test "a command that is not there ends the job" {
  run ringup run -np 2 --min-np 1 -- no-such-command
  expect_status 3
  [[ $output == *"no-such-command: No such file or directory"* ]]
}

@test "ranks that never meet may end well" {
  run ringup run -np 3 --min-np 1 -- sh -c 'echo $RINGUP_RANK of $RINGUP_SIZE, elastic $HOROVOD_ELASTIC'
  expect_status 0
  expect_line "[2] 2 of 3, elastic 1"
}

@test "rank 0 reads what the launcher would" {
  echo work >input
  run ringup run -np 2 --min-np 1 -- cat <input
  expect_status 0
  [[ $output == "[0] work" ]]
}

@test "slots that a script finds are filled, and the ranks choose the moment" {
  echo localhost:2 >hosts
  elastic -np 2 --min-np 1 --host-discovery-script 'cat hosts'
  await met 1 2
  echo localhost:4 >hosts
  await complete 4
  ends 0
  # Two are added, and met at once.
  met 2 4
  [[ $(pid_of 2 0) == "$(pid_of 1 0)" && $(pid_of 2 1) == "$(pid_of 1 1)" ]]
}

@test "a host that the script no longer names is left, and never more ranks than were wanted" {
  printf '%s\n' localhost:2 127.0.0.1:2 >hosts
  elastic -np 2 --min-np 1 --max-np 3 --host-discovery-script 'cat hosts'
  await met 1 3
  echo 127.0.0.1:2 >hosts
  await complete 2
  ends 0
  not grep -q 'was killed\|exited with' out
  grep -q 'is ended: host localhost is no longer part of the job' out
}

@test "a script that fails is told once, and the hosts that are known stay" {
  echo localhost:2 >hosts
  elastic -np 2 --min-np 1 --host-discovery-script 'echo x >>asked; cat hosts'
  await met 1 2
  rm hosts
  await told "host discovery script echo x >>asked; cat hosts: it ended with status 1; the job keeps the hosts that it has"
  asked_again() { [[ $(wc -l <asked) -ge $1 ]]; }
  await asked_again $(($(wc -l <asked) + 2))
  ends 0
  [[ $(grep -c 'it ended with status 1' out) -eq 1 ]]
  met 1 2
}

@test "a script that prints nothing, or a host's other name, changes nothing" {
  local was
  echo 127.0.0.1:2 >hosts
  elastic -np 2 --min-np 1 --host-discovery-script 'echo x >>asked; cat hosts'
  await met 1 2
  asked_again() { [[ $(wc -l <asked) -ge $((was + 3)) ]]; }
  : >hosts
  await told "host discovery script echo x >>asked; cat hosts: it printed no host; the job keeps the hosts that it has"
  was=$(wc -l <asked)
  await asked_again
  echo localhost:2 >hosts
  was=$(wc -l <asked)
  await asked_again
  ends 0
  met 1 2
  not grep -q 'generation 2\|is ended' out
}

@test "the script names other hosts alone: their ranks take the state over" {
  echo 127.0.0.1:2 >hosts
  elastic -np 2 --min-np 1 --host-discovery-script 'cat hosts'
  await met 1 2
  echo 127.0.0.2:2 >hosts
  replaced() { complete 2 && grep -q 'is ended: host 127.0.0.1 is no longer part of the job' out; }
  await replaced
  ends 0
  [[ $(pid_of 2 0) == "$(pid_of 1 0)" ]]
  not grep -q 'was killed\|exited with' out
}

@test "a rank fails while others start: the only one that has the state goes on" {
  echo 127.0.0.1:2 >hosts
  elastic -np 2 --min-np 1 --host-discovery-script 'cat hosts'
  await met 1 2
  touch late
  printf '%s\n' 127.0.0.1:2 127.0.0.2:2 >hosts
  started() { [[ $(grep -c '^.*late pid' out) -eq 2 ]]; }
  await started
  kill -KILL "$(pid_of 1 1)"
  await met 2 1
  rm late
  await complete 3
  ends 0
  told "host 127.0.0.1 is no longer used, since a rank failed there"
  [[ $(pid_of 2 0) == "$(pid_of 1 0)" && $(pid_of 3 0) == "$(pid_of 1 0)" ]]
}

@test "a script that has never worked is a mistake" {
  run ringup run -np 2 --min-np 1 --host-discovery-script 'exit 4' -- true
  expect_status 3
  [[ $output == *"host discovery script exit 4: it ended with status 4"* ]]
  run ringup run -np 2 --min-np 1 --host-discovery-script 'echo "a b c"' -- true
  expect_status 3
  [[ $output == *"b: not of the form HOST slots=N or HOST:N"* ]]
}

@test "a host on which a rank fails is blacklisted if the others have room" {
  elastic -np 4 --min-np 2 -H localhost:2,127.0.0.1:2
  await met 1 4
  kill -KILL "$(pid_of 1 1)"
  await complete 2
  ends 0
  told "host localhost is no longer used, since a rank failed there"
  [[ $(pid_of 2 0) == "$(pid_of 1 2)" && $(pid_of 2 1) == "$(pid_of 1 3)" ]]
}

@test "and comes back after its cooldown" {
  elastic -np 4 --min-np 2 -H localhost:2,127.0.0.1:2 --blacklist-cooldown-range 1,1
  await met 1 4
  kill -KILL "$(pid_of 1 1)"
  await complete 4
  ends 0
  told "host localhost is no longer used for a while, since a rank failed there"
}

@test "a host whose daemon is lost is lost with its ranks" {
  elastic -np 4 --min-np 2 -H localhost:2,127.0.0.1:2
  await met 1 4
  kill -KILL "$(ps -o ppid= -p "$(pid_of 1 3)")"
  await complete 2
  ends 0
  told "host 127.0.0.1: connection lost"
  [[ -z $(marked) ]]
}

@test "a launcher that has nothing to do sleeps, whatever its standard input is" {
  local how samples
  sleeps() { [[ $(sed 's/.*) \(.\).*/\1/' "/proc/$launcher/stat") == S ]]; }
  for how in '-np 2' '-np 2 --min-np 1' '-np 2 -H localhost:2'; do
    rm -f here.*
    # shellcheck disable=SC2016,SC2086 # the ranks' variable; options
    launch ringup run $how -- sh -c 'touch here.$RINGUP_RANK; exec sleep 1000' < <(echo a line that nobody reads)
    await test -e here.0
    await test -e here.1
    samples=0
    for _ in {1..40}; do
      ! sleeps || samples=$((samples + 1))
      sleep 0.01
    done
    # One that is woken by its input for ever runs, or wants to, in all of them.
    [[ $samples -ge 10 ]] || { echo "$how: asleep in $samples of 40 samples"; return 1; }
    kill -TERM "$launcher"
    wait "$timer" || true
  done
}

@test "a launcher that is killed leaves nothing" {
  elastic -np 3 --min-np 1
  await met 1 3
  kill -KILL "$launcher"
  nothing() { [[ -z $(marked) ]]; }
  await nothing
}

@test "signals to the launcher end all ranks" {
  elastic -np 3 --min-np 1
  await met 1 3
  kill -TERM "$launcher"
  over 143
  [[ -z $(marked) ]]
}

@test "each rank writes a file, also one that comes later" {
  elastic -np 2 --min-np 1 -o logs
  await met 1 2
  kill -KILL "$(pid_of 1 1)"
  await complete 2
  ends 0
  grep -q 'generation 1 rank 1' logs/rank.1/stdout
  grep -q "pid $(sed -n 's/.* rank 1 of 2 .* pid //p' out | tail -n 1)\$" logs/rank.2/stdout
}

@test "options that do not go together are named" {
  run ringup run -np 2 --max-np 3 true
  expect_status 2
  expect_line "ringup run: --max-np needs an elastic job: add --min-np"
  run ringup run -np 2 --min-np 3 true
  expect_status 2
  run ringup run -np 4 --min-np 1 --max-np 3 true
  expect_status 2
  run ringup run -np 2 -H a --hostfile b true
  expect_status 2
  run ringup run -np 2 -H a --host-discovery-script b true
  expect_status 2
  run ringup run -np 2 --ssh-port 22 true
  expect_status 2
  run ringup run -np 2 --min-np 1 --blacklist-cooldown-range 0,5 true
  expect_status 2
  run ringup run -np 2 --min-np 1 --blacklist-cooldown-range 5 true
  expect_status 2
  run ringup run -np 3 -H localhost:1,127.0.0.1:1 true
  expect_status 3
  [[ $output == *"3 ranks, but the hosts have 2 slots"* ]]
  run ringup run -H 'localhost;reboot' true
  expect_status 2
}
