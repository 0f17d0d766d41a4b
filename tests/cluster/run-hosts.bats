#!/usr/bin/env bats
# run-hosts.bats - ringup run on several hosts: network namespaces, and ssh or what stands for it.
# proves: E2 F7 of docs/RELIABILITY.md
# needs: waits root-net
# tests: src/launch src/wire src/engine/context.c src/nicpick/own.c src/cli/cmd_run.c src/cli/cmd_rankd.c compat/python/ringup tests/py/elastic_job_of_a_rank.py tests/programs/regroup.c tests/programs/ends.c tests/lib/elastic.bash tests/lib/launcher.bash tests/lib/nodes.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/nodes
load ../lib/await
load ../lib/launcher
load ../lib/elastic

sum=$PWD/tests/programs/sum
ends=$PWD/tests/programs/ends

setup() {
  elastic_setup
  nodes_setup
  cluster 3
  within=(ip netns exec "$n1")
  export RINGUP_SSH='ip netns exec' RUN_TEST=$BATS_TEST_TMPDIR
}

teardown() {
  launcher_teardown
  nodes_teardown
}

# on NODE - numbers of the ranks there.
on() {
  local pid
  for pid in $(marked); do
    [[ $(cat "/proc/$pid/comm" 2>/dev/null) != regroup || $(ip netns identify "$pid" 2>/dev/null) != "$1" ]] || echo "$pid"
  done
}

# run_from_1 ARG... - `ringup run ARG...` on the first node.
run_from_1() {
  run "${within[@]}" ringup run "$@"
}

@test "ranks of two other hosts meet, add up, and know where they are" {
  run_from_1 -H "$n2:2,$n3:1" -- "$sum"
  expect_status 0
  expect_line "[0] rank 0 of 3: all agree; tcp, local 0 of 2, host 0 of 2"
  expect_line "[2] rank 2 of 3: all agree; tcp, local 0 of 1, host 1 of 2"
}

@test "this host and another, from a file; variables, folder and interface are the same" {
  printf '# two hosts\nlocalhost slots=1\n%s slots=2 # the other\n' "$n2" >hosts
  COLOUR=green run_from_1 --hostfile hosts --network-interfaces ib0,eth0 -- \
    sh -c 'echo $RINGUP_RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $HOROVOD_CROSS_RANK/$HOROVOD_CROSS_SIZE $COLOUR $MASTER_ADDR $PWD $RINGUP_INTERFACE'
  expect_status 0
  expect_line "[0] 0 0/1 0/2 green 10.8.0.1 $PWD ib0,eth0"
  expect_line "[2] 2 1/2 1/2 green 10.8.0.1 $PWD ib0,eth0"
}

@test "MASTER_ADDR is the host of rank 0, wherever the launcher runs" {
  local port
  run_from_1 -H "$n2:1,$n3:1" --no-prefix -- sh -c 'echo $MASTER_ADDR $MASTER_PORT'
  expect_status 0
  port=${lines[0]#10.8.0.2 }
  [[ ${lines[0]} == "10.8.0.2 $port" && ${lines[1]} == "10.8.0.2 $port" && $port -gt 1023 ]]
  run_from_1 -H "$n3:1,localhost:1" --no-prefix --network-interfaces ib0,eth0 -- sh -c 'echo $MASTER_ADDR'
  expect_status 0
  [[ ${lines[0]} == 10.8.0.3 && ${lines[1]} == 10.8.0.3 ]]
}

@test "the first rank that fails ends all, on all hosts" {
  run_from_1 -H "$n2:2,$n3:2" -- sh -c '[ $RANK != 3 ] || exit 7; exec sleep 300'
  expect_status 7
  [[ $output == *"rank 3 (pid "*"exited with status 7"* && -z $(on "$n2") ]]
  run_from_1 -H "$n2:2,$n3:2" -- sh -c '[ $RANK != 1 ] || kill -KILL $$; exec sleep 300'
  expect_status 137
}

# looping STATUS RANK HOW TEXT - rank RANK of two hosts with two ranks each ends in the way HOW; the job ends with STATUS, and
# the launcher's first complaint is of RANK and TEXT.
looping() {
  RINGUP_LIVENESS_PROFILE=fast run_from_1 -H "$n2:2,$n3:2" -- "$ends" "$2" "$3"
  expect_status "$1"
  # shellcheck disable=SC2053
  [[ $(grep -m 1 '^ringup run: ' <<<"$output") == "ringup run: rank $2 (pid "*") on "*$4* ]] || { echo "$output"; return 1; }
}

@test "P6 a rank that is stopped, first of a host or not, is named, killed, and gives the status" {
  looping 137 3 signal19 'has not moved for * s: it is stopped (state T)'
  looping 137 2 signal19 'has not moved for * s: it is stopped (state T)'
  RINGUP_LIVENESS_PROFILE=fast run_from_1 -H "$n2:1,$n3:1" -- "$ends" 1 signal19
  expect_status 137
  [[ $output == *"ringup run: rank 1 (pid "*" has been silent for "*"; it was killed by signal 9 (Killed), since it was stopped (state T)"* ]]
}

@test "P6 hosts that lose each other: the first complaint says who has been silent, on which host" {
  need_nft
  RINGUP_LIVENESS_PROFILE=fast "${within[@]}" timeout 100 ringup run -H "$n2:2,$n3:2" -- "$ends" -1 none >out 2>&1 3>&- &
  local job=$! status=0
  await grep -q ready out
  drop "$n2" input 'ip saddr 10.8.0.3'
  drop "$n3" input 'ip saddr 10.8.0.2'
  wait "$job" || status=$?
  [[ $status -eq 1 ]] && grep -m 1 '^ringup run: ' out |
    grep -qE '^ringup run: rank [02] \(pid [0-9]+\) on [^ ]+ has (been silent|confirmed no data) for [0-9.]+ s towards rank [02] on ' || { cat out; return 1; }
}

@test "hosts that cannot be used are named with the reason, and nothing is started" {
  cat >starter <<EOT
#!/bin/bash
case \$1 in
key) echo "root@key: Permission denied (publickey)." >&2; exit 255 ;;
down) echo "ssh: connect to host down port 22: No route to host" >&2; exit 255 ;;
bare) echo "bash: line 1: ringup: command not found" >&2; exit 127 ;;
silent) exec sleep 1000 ;;
old) echo "ringup: unknown command rankd" >&2; exit 2 ;;
other) printf 'Welcome\nringup-rankd/2 0.0.1\n\x07\0\0\0\x08\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'; exec cat >/dev/null ;;
late) printf 'ringup-rankd/2 $(ringup --version | sed 's/.* //')\n\x14\0\0\0\x08\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'; exec cat >/dev/null ;;
torn) echo 'ringup-rankd/2 '; head -c 300000 /dev/urandom ;;
*) exec ip netns exec "\$@" ;;
esac
EOT
  chmod +x starter
  export RINGUP_SSH=$PWD/starter
  local host reason
  while IFS=: read -r host reason; do
    run_from_1 --start-timeout 2 -H "$n2:1,$host:1" -- touch started
    expect_status 3
    [[ $output == *"host $host: "*"$reason"* ]] || { echo "no $reason in: $output"; return 1; }
    [[ ! -e started ]]
  done <<EOT
key:Permission denied (publickey).; give that host this user's key (ssh-copy-id)
down:No route to host; is it up
bare:command not found; install ringup there
silent:no answer after 2 s
old:another version of ringup is installed there
other:it violates the protocol
late:its clock is
torn:
EOT
}

@test "a command that is not on the hosts, a folder that is not" {
  run_from_1 -H "$n2:1,$n3:1" -- no-such-command
  expect_status 3
  [[ $output == *": no-such-command: No such file or directory"* ]]
}

@test "a launcher that is killed leaves nothing on any host" {
  elastic -H "$n2:2,$n3:2"
  all_there() { [[ $(on "$n2" | wc -l) -eq 2 && $(on "$n3" | wc -l) -eq 2 ]]; }
  await all_there
  kill -KILL "$launcher"
  all_gone() { [[ -z $(on "$n2")$(on "$n3") ]]; }
  await all_gone
}

@test "elastic: a host joins, a rank dies, a host dies, and the others go on" {
  printf '%s:2\n' "$n1" "$n2" >hosts
  elastic -np 4 --min-np 2 --host-discovery-script 'cat hosts'
  await met 1 4
  printf '%s:2\n' "$n1" "$n2" "$n3" >hosts
  await complete 6
  # A rank of the first host: it is blacklisted, since the others have room.
  kill -KILL "$(on "$n2" | head -n 1)"
  await complete 4
  kill -KILL "$(ps -o ppid= -p "$(on "$n3" | head -n 1)")"
  await complete 2
  [[ $(on "$n1" | wc -l) -eq 2 ]]
  ends 0
  told "host $n2 is no longer used, since a rank failed there"
  told "host $n3: connection lost"
  [[ -z $(on "$n1")$(on "$n2")$(on "$n3") ]]
}

@test "elastic, in Python: a rank of another host is killed, and nothing that was committed is lost" {
  command -v python3 >/dev/null && command -v jq >/dev/null || skip "no python3, or no jq"
  export PYTHONPATH=$src/compat/python PYTHONDONTWRITEBYTECODE=1
  export RINGUP_LIBRARY=${RINGUP_LIBRARY:-$(dirname "$(command -v ringup)")/.libs/libringup.so.0}
  run_from_1 -np 3 --min-np 2 -H "$n1:1,$n2:1,$n3:1" -- python3 "$src/tests/py/elastic_job_of_a_rank.py" \
    "$(jq -nc --arg events "$PWD/events" '{events: $events, steps: 20, until: 2, end: [[5, 1, "kill"]]}')"
  expect_status 0
  expect_line "ringup run: host $n2 is no longer used, since a rank failed there"
  # Rank 0 stayed in its process, and both have the sum of the ranks of all steps.
  jq -es '[.[] | select(.what == "done")] as $done | [.[] | select(.what == "begin" and .generation == 1)] as $first |
    ($done | length) == 2 and ($done | all(.size == 2 and .weights == [.sizes, .sizes, .sizes] and .reset > 0)) and
    ($done | map(.sizes) | unique | length) == 1 and
    ([$done[] | select(.rank == 0).pid] == [$first[] | select(.rank == 0).pid])' events || { cat events; return 1; }
}

@test "elastic: a cable is cut, and what is beyond is given up" {
  printf '%s:1\n' "$n1" "$n2" "$n3" >hosts
  RINGUP_LOST_MS=600 RINGUP_LOST_WARN_MS=0 elastic -np 3 --min-np 2 --elastic-timeout 5 --host-discovery-script 'cat hosts'
  await met 1 3
  ip -n "$n3" link set eth0 down
  printf '%s:1\n' "$n1" "$n2" >hosts
  await complete 2
  [[ -n $(pid_of 2 0) && $(pid_of 2 0) == "$(pid_of 1 0)" ]]
  ends 0
}

@test "with a real sshd" {
  [[ -x /usr/sbin/sshd ]] && command -v ssh >/dev/null || skip "no sshd"
  local port=22022
  ssh-keygen -q -t ed25519 -N '' -f host_key
  ssh-keygen -q -t ed25519 -N '' -f key
  cp key.pub authorized
  cat >sshd_config <<EOT
Port $port
ListenAddress 10.8.0.2
HostKey $PWD/host_key
AuthorizedKeysFile $PWD/authorized
PidFile $PWD/sshd.pid
StrictModes no
UsePAM no
PermitRootLogin yes
EOT
  mkdir -p /run/sshd
  # In the foreground: as a daemon it writes down its process a moment after it has left.
  ip netns exec "$n2" /usr/sbin/sshd -D -f "$PWD/sshd_config" -E "$PWD/sshd.log" 3>&- &
  local sshd=$!
  await grep -qs 'Server listening' sshd.log
  mkdir home
  export -n RINGUP_SSH
  unset RINGUP_SSH
  cat >ssh <<EOT
#!/bin/sh
exec $(command -v ssh) -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=$PWD/known "\$@"
EOT
  chmod +x ssh
  PATH=$PWD:$PATH run_from_1 -H 10.8.0.1:1,10.8.0.2:2 --ssh-port "$port" --ssh-identity-file "$PWD/key" -- "$sum"
  local first=$status said=$output
  PATH=$PWD:$PATH run_from_1 -H 10.8.0.2:2 --ssh-port "$port" -- true
  kill "$sshd"
  [[ $status -eq 3 && $output == *"Permission denied"*"ssh-copy-id"* ]] || { echo "$output"; return 1; }
  status=$first output=$said
  expect_status 0
  expect_line "[0] rank 0 of 3: all agree; tcp, local 0 of 1, host 0 of 2"
  expect_line "[2] rank 2 of 3: all agree; tcp, local 1 of 2, host 1 of 2"
}
