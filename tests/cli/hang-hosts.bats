#!/usr/bin/env bats
# hang-hosts.bats - ringup hang: jobs on several hosts
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
# needs: waits root-net
# tests: src/hang src/cli/cmd_hang.c src/probe/agents.c

load ../lib/helper
load ../lib/await
load ../lib/launcher
load ../lib/fault
load ../lib/hosts
load ../lib/machines
load ../lib/mpi

hangs=$PWD/tests/programs/hangs
mpihangs=$PWD/tests/programs/mpihangs

setup() {
  # py-spy is in the environment of the tests' own; servers of ssh have this PATH, too.
  PATH=$PATH:$(dirname "$RINGUP_TEST_PYTHON")
  launcher_setup
  fault_setup
  machines_up
}
# The client of ssh outlives its server, whose namespace is taken away without a word.
teardown() {
  end_jobs
  hosts_teardown
}

job_pids=()

# end_jobs - and their ranks, on all hosts.
end_jobs() {
  local pid k
  for pid in "${job_pids[@]}"; do
    pkill -KILL -P "$pid" || true
    kill "$pid" 2>/dev/null || true
  done
  for k in 1 2 3; do
    # shellcheck disable=SC2046
    kill -KILL $(processes_of "$k") 2>/dev/null || true
  done
  ((!${#job_pids[@]})) || wait "${job_pids[@]}" 2>/dev/null || true
  job_pids=()
}

# processes_of K - numbers, here, of all processes on machine K but its first, the server of ssh.
processes_of() {
  local pid
  for pid in $(ip netns pids "$(machine "$1")" 2>/dev/null); do
    grep -qsP '^NSpid:\t\d+\t(?!1$)' "/proc/$pid/status" && echo "$pid"
  done
}

machine() { printf '%s\n' "$a" "$b" "$c" | sed -n "$1p"; }

# start KIND RANK [LAUNCHER] - three ranks, one on each host, of which one hangs so; launched on the first, or another.
start() {
  on_machine "${3:-1}" timeout 300 env RINGUP_DEADLOCK_MS=0 RINGUP_LIVENESS=off RINGUP_SSH="$ssh_words" \
    ringup run -H 10.9.0.1:1,10.9.0.2:1,10.9.0.3:1 -- "$hangs" "$1" "$2" "$PWD/hung.$1" >"out.$1" 2>&1 3>&- &
  job_pids+=($!)
}

# job KIND RANK - the same, and wait until it hangs.
job() {
  start "$1" "$2"
  await test -e "hung.$1"
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
  # Rank 2 is on a host that is not in the list, and is not taken for dead.
  echo 10.9.0.1 >hosts
  run on_machine 2 ringup hang --wait 2 --timeout 25 --json --hostfile hosts --ssh "$ssh_words"
  expect_status 1
  verdict late 0
  run on_machine 2 ringup hang --wait 2 --timeout 25
  expect_status 3
  [[ $output == *"all ranks on the sampled hosts wait in allreduce grad.second; not sampled: ranks 0, 2"*"not seen: 2 of 3 ranks, on other hosts"*"run: ringup hang --hostfile FILE"* ]] || fail "$output"
}

@test "a healthy job on several hosts: no alarm" {
  job busy 0
  run on_machine 1 ringup hang --wait 2 --timeout 25 --json
  expect_status 0
}

# right KIND RANK [PROGRAM] - is the rank named, and its host and process, in the job of that program?  In a circle all are.
right() {
  local verdict=late culprits="[$2]" pid
  local -A verdicts=([stop]=stopped [skip]=odd [branch]=odd [circle]=circle [absent]=initialisation)
  verdict=${verdicts[$1]:-$verdict}
  [[ $1 != circle ]] || culprits='[0,1,2]'
  found=$(jq -c --arg kind "${3:-$hangs} $1 " '.jobs[] | select(.command | contains($kind))' <<<"$output")
  [[ $(jq -c .culprits <<<"$found") == "$culprits" ]] || return 1
  # Of others than ringup, stacks tell less of the reason.
  [[ -n ${3:-} || $(jq -r .verdict <<<"$found") == "$verdict" ]] || return 1
  [[ $1 != circle ]] || return 0
  pid=$(jq --argjson rank "$2" '.rows[] | select(.rank == $rank) | .pid' <<<"$found")
  [[ $(jq -r .text <<<"$found") == *"rank $2 on m$(($2 + 1)) (process $pid) "* ]] || return 1
  [[ $(on_machine "$(($2 + 1))" cat "/proc/$pid/cmdline" | tr '\0' ' ') == *"${3:-$hangs} $1 "* ]]
}

kinds=(sleep spin stop skip branch circle absent)

@test "each kind of hang at once: rank, host and process are right" {
  command -v eu-stack >/dev/null || skip "no eu-stack"
  local kind i=0
  for kind in "${kinds[@]}"; do start "$kind" $((i++ % 3)); done
  for kind in "${kinds[@]}"; do await test -e "hung.$kind"; done
  sleep 1.5
  run on_machine 1 ringup hang --wait 2 --timeout 40 --json
  expect_status 1
  i=0
  for kind in "${kinds[@]}"; do right "$kind" $((i++ % 3)) || fail "$kind: $found"; done
}

# start_by_hand KIND COMMAND - three ranks of a shell's command that has $1 as its rank, each started by ssh, by a script
# on the first host.
start_by_hand() {
  cat >by-hand <<EOT
rank() { $2; }
for r in 1 2; do
  $ssh_words 10.9.0.\$((r + 1)) "\$(declare -f rank); rank \$r" &
done
rank 0 &
wait
EOT
  on_machine 1 timeout 300 bash "$PWD/by-hand" >"out.$1" 2>&1 3>&- &
  job_pids+=($!)
}

# reboot K - machine K loses its network and all processes but the server of ssh, without a farewell; then it is back.
reboot() {
  local host
  host=$(machine "$1")
  ip netns exec "$host" bash -c 'echo 1 >/proc/sys/net/ipv4/tcp_orphan_retries'
  drop "$host" input
  drop "$host" output
  # shellcheck disable=SC2046
  kill -KILL $(processes_of "$1")
  await no_connections "$host"
  heal "$host" input
  heal "$host" output
}

# no_connections HOST - does its kernel have no connection of TCP that could still speak?  Others listen, or are over.
no_connections() {
  [[ -z $(ip netns exec "$1" awk 'FNR > 1 && $4 != "0A" && $4 != "06"' /proc/net/tcp) ]]
}

@test "a host that was started anew has no process of its rank, which has died; one that is down is named" {
  start_by_hand sleep 'RINGUP_RANK=$1 RINGUP_SIZE=3 RINGUP_JOB=hand RINGUP_DEADLOCK_MS=0 RINGUP_LIVENESS=off RINGUP_STALL_ABORT_MS=0'" \
    RINGUP_MEET=$PWD/meet exec $hangs sleep 2 $PWD/hung.sleep"
  await test -e hung.sleep
  sleep 1.5
  drop "$b" input
  run on_machine 1 ringup hang --wait 1 --timeout 8
  expect_status 1
  [[ $output == *"rank 2 on m3 (process "*"host 10.9.0.2: "* ]] || fail "$output"
  heal "$b" input
  reboot 3
  run on_machine 1 ringup hang --wait 2 --timeout 25 --json
  expect_status 1
  verdict dead 2
  [[ $(jq -r '.jobs[0].text' <<<"$output") == "  rank 2 on m3 (process "*") has died; the other ranks wait for it"* ]] || fail "$output"
  [[ $(jq -r '.jobs[0].hosts[1].silent' <<<"$output") == "no process of this job runs there" ]] || fail "$output"
}

# ---- the long form ----

times=${RINGUP_TEST_TRIALS:-20}

# tell WORDS... - to who watches, at once.
tell() { echo "# $(date +%T) load $(cut -d' ' -f1 /proc/loadavg): $*" >&3; }

# start_horovod KIND RANK, start_gloo KIND RANK - the same with horovod.torch, by ringup run, or torch.distributed, by hand.
start_horovod() {
  on_machine 1 timeout 300 env RINGUP_DEADLOCK_MS=0 RINGUP_LIVENESS=off RINGUP_SSH="$ssh_words" \
    ringup run -H 10.9.0.1:1,10.9.0.2:1,10.9.0.3:1 -- env PYTHONPATH="$src/compat/python" RINGUP_LIBRARY="$builddir/.libs/libringup.so.0" \
    "$RINGUP_TEST_PYTHON" "$src/tests/programs/hangs.py" horovod "$1" "$2" "$PWD/hung.$1" >"out.$1" 2>&1 3>&- &
  job_pids+=($!)
}
start_gloo() {
  start_by_hand "$1" 'RANK=$1 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.9.0.1 TORCHELASTIC_RUN_ID=hand'" \
    MASTER_PORT=$((20000 + RANDOM % 9000)) GLOO_SOCKET_IFNAME=eth0 exec $RINGUP_TEST_PYTHON $src/tests/programs/hangs.py gloo $1 $2 $PWD/hung.$1"
}

# start_openmpi KIND RANK - the same with Open MPI's mpirun, which starts its daemons by ssh.
start_openmpi() {
  on_machine 1 timeout 300 env OMPI_MCA_plm_rsh_agent="$ssh_words" OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=eth0 \
    OMPI_MCA_oob_tcp_if_include=eth0 OMPI_MCA_orte_tmpdir_base="$PWD" TMPDIR="$PWD" "$RINGUP_TEST_OPENMPI" --allow-run-as-root -np 3 \
    --host 10.9.0.1:1,10.9.0.2:1,10.9.0.3:1 "$mpihangs" "$1" "$2" "$PWD/hung.$1" >"out.$1" 2>&1 3>&- &
  job_pids+=($!)
}

# start_mpich KIND RANK - the same with MPICH's mpiexec.
start_mpich() {
  printf '#!/bin/sh\nexec %s "$@"\n' "$ssh_words" >ssh-words
  chmod +x ssh-words
  on_machine 1 timeout 300 mpiexec.hydra -launcher ssh -launcher-exec "$PWD/ssh-words" -iface eth0 -np 3 \
    -hosts 10.9.0.1:1,10.9.0.2:1,10.9.0.3:1 "$mpich" "$1" "$2" "$PWD/hung.$1" >"out.$1" 2>&1 3>&- &
  job_pids+=($!)
}

# trial START KIND RANK LAUNCHER [PROGRAM] - is the right rank named, with its host?
trial() {
  local good=1
  rm -f "hung.$2"
  "$1" "${@:2}"
  await_for 250 test -e "hung.$2" || { tell "$2 does not start: $(cat "out.$2")"; end_jobs; return 1; }
  # A rank that never starts says so before the others have.
  [[ $2 != absent ]] || sleep "$([[ -n ${5:-} ]] && echo 15 || echo 2)"
  sleep 1.5
  run on_machine "$4" ringup hang --wait 2 --timeout 25 --json
  right "$2" "$3" "${5:-}" || { good=0; tell "$1 $2, rank $3, asked on m$4: $(jq -c '[.jobs[] | .verdict, .culprits, .text, .unseen, .hosts]' <<<"$output" 2>/dev/null || echo "status $status: $output")"; }
  end_jobs
  ((good))
}

# rounds START PROGRAM KIND... - of each kind, by turns, whatever fails; with `start` the launcher is on each host in turn.
rounds() {
  local start=$1 program=$2 launcher_on kind i failed=0
  local -A good=()
  shift 2
  for ((i = 0; i < times; i++)); do
    launcher_on=1
    [[ $start != start ]] || launcher_on=$((1 + i / 3 % 3))
    for kind; do
      if trial "$start" "$kind" $((i % 3)) "$launcher_on" "$program"; then
        good[$kind]=$((${good[$kind]:-0} + 1))
      else
        failed=1
      fi
    done
    tell "$start, right of $((i + 1)): $(for kind; do echo "$kind ${good[$kind]:-0}"; done | paste -sd,)"
  done
  ((!failed))
}

@test "rounds of each kind on three hosts, the launcher on each of them" {
  [[ $RINGUP_TEST_LONG == 1 ]] || skip "the shard hang"
  rounds start '' "${kinds[@]}"
}

need_torch() {
  [[ $RINGUP_TEST_LONG == 1 ]] || skip "the shard hang"
  "$RINGUP_TEST_PYTHON" -c 'import torch' || skip "no torch"
  command -v py-spy >/dev/null || skip "no py-spy"
}

@test "rounds of horovod.torch on three hosts" {
  need_torch
  rounds start_horovod "hangs.py horovod" sleep stop absent
}

@test "rounds of torch.distributed with gloo on three hosts, started by ssh" {
  need_torch
  rounds start_gloo "hangs.py gloo" sleep stop absent
}

@test "rounds of Open MPI on three hosts" {
  [[ $RINGUP_TEST_LONG == 1 ]] || skip "the shard hang"
  [[ -x $mpihangs ]] || skip "no MPI"
  rounds start_openmpi "$mpihangs" sleep spin stop branch circle absent
}

@test "rounds of MPICH on three hosts" {
  [[ $RINGUP_TEST_LONG == 1 ]] || skip "the shard hang"
  mpich_program
  rounds start_mpich "$mpich" sleep spin stop branch circle absent
}
