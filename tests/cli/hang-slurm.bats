#!/usr/bin/env bats
# hang-slurm.bats - ringup hang: jobs that Slurm's own srun has started, on three hosts
# shellcheck disable=SC2154
# needs: waits root-net
# tests: src/hang/remote.c src/hang/jobs.c src/probe/agents.c src/probe/roster.c src/launch/starter.c

load ../lib/helper
load ../lib/await
load ../lib/launcher
load ../lib/fault
load ../lib/hosts
load ../lib/machines

hangs=$PWD/tests/programs/hangs
PATH=$PATH:/usr/sbin

setup() {
  command -v slurmctld slurmd srun munged >/dev/null || skip "no Slurm"
  launcher_setup
  fault_setup
  machines_up
  slurm_up
}
teardown() {
  if [[ -n ${job_pid:-} ]]; then
    pkill -KILL -P "$job_pid" || true
    kill "$job_pid" 2>/dev/null || true
  fi
  ! alive "$PWD/munged.pid" || kill "$(<munged.pid)"
  hosts_teardown
}

alive() { [[ -s $1 ]] && kill -0 "$(<"$1")" 2>/dev/null; }

# slurm_up - a controller on m1 and a slurmd on each machine, with files of the test's own.
slurm_up() {
  local k
  mkdir state spool spool/m{1..3}
  # No control groups: this one begins without any.
  echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
  (umask 077 && head -c 1024 /dev/urandom >munge.key)
  munged --force --key-file="$PWD/munge.key" --socket="$PWD/munge.socket" --pid-file="$PWD/munged.pid" \
    --log-file="$PWD/munged.log" --seed-file="$PWD/munge.seed" 3>&-
  cat >slurm.conf <<EOT
ClusterName=test
SlurmctldHost=m1(10.9.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$PWD/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmctldPidFile=$PWD/slurmctld.pid
SlurmctldLogFile=$PWD/slurmctld.log
SlurmdPidFile=$PWD/slurmd.%n.pid
SlurmdLogFile=$PWD/slurmd.%n.log
SlurmdSpoolDir=$PWD/spool/%n
StateSaveLocation=$PWD/state
NodeName=m[1-3] NodeAddr=10.9.0.[1-3] CPUs=4
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE
EOT
  in_slurm 1 slurmctld
  for k in 1 2 3; do in_slurm "$k" slurmd -N "m$k" || { tail -n 15 slurmd.*.log slurmctld.log; return 1; }; done
  await idle
}

# in_slurm K COMMAND... - run it on machine K with this Slurm.
in_slurm() { on_machine "$1" env SLURM_CONF="$PWD/slurm.conf" PATH="$PATH" "${@:2}"; }

idle() { [[ $(in_slurm 1 sinfo -h -o '%D %t' 2>/dev/null) == "3 idle" ]]; }

# step KIND RANK - three ranks, one on each host, of which one hangs so.
step() {
  in_slurm 1 timeout 100 env RINGUP_MEET="$PWD/meet" RINGUP_DEADLOCK_MS=0 RINGUP_LIVENESS=off RINGUP_STALL_ABORT_MS=0 \
    srun -N3 -n3 "$hangs" "$1" "$2" "$PWD/hung" >out 2>&1 3>&- &
  job_pid=$!
  await test -e hung
  sleep 1.5
}

@test "Slurm: srun reaches the other hosts, and the rank is named wherever it is" {
  local pid
  step sleep 2
  run in_slurm 1 ringup hang --wait 2 --timeout 25 --json
  expect_status 1
  [[ $(jq -c '.jobs | map([.launcher, .verdict, .culprits])' <<<"$output") == '[["Slurm","late",[2]]]' ]]
  pid=$(jq '.jobs[0].rows[] | select(.rank == 2) | .pid' <<<"$output")
  [[ $(jq -r '.jobs[0].text' <<<"$output") == *"rank 2 on m3 (process $pid) has not started allreduce grad.second"* ]]
  [[ $(on_machine 3 cat "/proc/$pid/cmdline" | tr '\0' ' ') == "$hangs sleep 2 "* ]]
  [[ $(jq -c '[.jobs[0].hosts[] | .silent]' <<<"$output") == "[null,null,null]" ]]
  # From within the job's own allocation, whatever node that is.
  run in_slurm 2 env SLURM_JOB_ID=1 SLURM_JOB_NODELIST='m[1-3]' ringup hang --slurm --wait 2 --timeout 25 --json
  expect_status 1
  [[ $(jq -c '.jobs | map([.launcher, .verdict, .culprits])' <<<"$output") == '[["Slurm","late",[2]]]' ]] || { echo "$output"; return 1; }
}
