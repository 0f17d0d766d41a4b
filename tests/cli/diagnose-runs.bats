#!/usr/bin/env bats
# diagnose-runs.bats - real jobs that end in every way under every launcher: what diagnose says first.
# needs: waits
# tests: src/diagnose src/cli/cmd_diagnose.c tests/diagnose/ends.py
#
# outcomes.txt and runs.txt have recorded logs of the same jobs; this file in its long form shows that launchers still
# say these things.  Launchers that are not part of the test environments are named by RINGUP_TEST_ACCELERATE,
# RINGUP_TEST_DEEPSPEED and RINGUP_TEST_HORORUN; srun is tried where it reaches a cluster.

load ../lib/helper
load ../lib/await

setup() {
  local v
  for v in $(compgen -e | grep -vE '^RINGUP_TEST_|^SLURM_CONF$' | grep -E '^(RINGUP|HOROVOD|OMPI|PMI|PMIX|SLURM|TORCHELASTIC)_|^(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)$'); do
    unset "$v"
  done
  cd "$BATS_TEST_TMPDIR" || return 1
  ends=$src/tests/diagnose/ends.py
  python=${RINGUP_TEST_PYTHON:-$(command -v python3)}
  [[ -n $python ]] || skip "there is no Python"
}

# only_long - skip in the gate.
only_long() { [[ ${RINGUP_TEST_LONG:-0} == 1 ]] || skip "long"; }

# ends HOW COMMAND... - run the job, and read its log.
ends() {
  local how=$1
  shift
  timeout -k 5 60 "$@" "$python" "$ends" "$how" >log 2>&1 || true
  run ringup diagnose log
}

# every COMMAND... - each way to end: what the program wrote is in the first finding.
every() {
  local how want
  while read -r how want; do
    ends "$how" "$@"
    if [[ $how == well ]]; then
      [[ $status -eq 0 ]] || { echo "$how: $output"; cat log; return 1; }
    else
      [[ $status -eq 1 && "${lines[0]}${lines[2]}" == *"$want"* ]] || { echo "$how: $output"; cat log; return 1; }
    fi
  done <<<"${ways:-$all}"
}

all='well
status missing section MESH
exception KeyError
abort the heap is damaged
kill signal 9'

@test "ringup run: a status, and a job that ends well" {
  ways=$'well\nstatus missing section MESH'
  every ringup run -np 2 --
}

@test "ringup run: all ways" {
  only_long
  every ringup run -np 3 --
}

@test "horovodrun: all ways" {
  only_long
  every horovodrun -np 3
}

@test "Open MPI 4.1, with and without marks: all ways" {
  only_long
  [[ -x ${RINGUP_TEST_OPENMPI:-} ]] || skip "Open MPI is not installed"
  every "$RINGUP_TEST_OPENMPI" --allow-run-as-root --oversubscribe -np 3
  every "$RINGUP_TEST_OPENMPI" --allow-run-as-root --oversubscribe --tag-output -np 3
}

@test "Open MPI 5: all ways" {
  only_long
  [[ -x ${RINGUP_TEST_MPI5:-}/bin/mpirun ]] || skip "Open MPI 5 is not installed"
  every "$RINGUP_TEST_MPI5/bin/mpirun" --allow-run-as-root --map-by :OVERSUBSCRIBE -np 3
}

@test "MPICH: all ways but a status, of which it says nothing" {
  only_long
  [[ -x ${RINGUP_TEST_MPICH:-} ]] || skip "MPICH is not installed"
  ways=$(grep -v ^status <<<"$all")
  every "$RINGUP_TEST_MPICH" -np 3
}

@test "torchrun: all ways, and a job that is cancelled" {
  only_long
  "$python" -c 'import torch' 2>/dev/null || skip "there is no torch"
  export TMPDIR=$BATS_TEST_TMPDIR # torchrun leaves a folder behind for each run
  every_script "$python" -m torch.distributed.run --nproc-per-node 3 --rdzv-backend c10d --rdzv-endpoint localhost:0
  timeout --foreground 100 "$python" -m torch.distributed.run --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint localhost:0 "$ends" hang >log 2>&1 3>&- &
  await grep -q 'step 4' log
  kill -TERM $!
  wait $! || true
  run ringup diagnose log
  [[ $status -eq 1 && ${lines[0]} == *"a signal ended torchrun itself"* ]] || { echo "$output"; return 1; }
}

@test "accelerate launch and DeepSpeed's launcher: all ways" {
  only_long
  local any=0
  if [[ -x ${RINGUP_TEST_ACCELERATE:-} ]]; then
    any=1
    every_script "$RINGUP_TEST_ACCELERATE" launch --multi_gpu --num_processes 3 --num_machines 1 --mixed_precision no --dynamo_backend no
  fi
  if [[ -x ${RINGUP_TEST_DEEPSPEED:-} ]]; then
    any=1
    PATH=${RINGUP_TEST_DEEPSPEED%/*}:$PATH every_script "$RINGUP_TEST_DEEPSPEED" --num_gpus 3
  fi
  ((any)) || skip "neither is named"
}

@test "upstream's horovodrun: all ways" {
  only_long
  [[ -x ${RINGUP_TEST_HORORUN:-} ]] || skip "RINGUP_TEST_HORORUN names none"
  every "$RINGUP_TEST_HORORUN" -np 3 --gloo
}

@test "srun, with and without marks: all ways, a job that is cancelled, and the time limit" {
  only_long
  command -v srun >/dev/null && timeout 10 scontrol ping 2>/dev/null | grep -q UP || skip "there is no Slurm"
  every srun -n 3 --overcommit
  every srun -n 3 --overcommit -l
  timeout 60 srun -n 3 --overcommit -J "ends-$$" "$python" "$ends" hang >log 2>&1 3>&- &
  await grep -q 'step 4' log
  scancel -n "ends-$$"
  wait $! || true
  run ringup diagnose log
  [[ $status -eq 1 && ${lines[0]} == *"cancel"* ]] || { echo "$output"; return 1; }
  RINGUP_TEST_HANG=120 timeout 200 srun -t 1 -n 3 --overcommit "$python" "$ends" hang >log 2>&1 || true
  run ringup diagnose log
  [[ $status -eq 1 && "${lines[0]}${lines[2]}" == *"TIME LIMIT"* ]] || { echo "$output"; return 1; }
}

# every_script COMMAND... - as every(); the launcher itself starts Python.
every_script() {
  local how want
  while read -r how want; do
    timeout -k 5 90 "$@" "$ends" "$how" >log 2>&1 || true
    run ringup diagnose log
    if [[ $how == well ]]; then
      [[ $status -eq 0 ]] || { echo "$how: $output"; return 1; }
    else
      [[ $status -eq 1 && "${lines[0]}${lines[2]}" == *"$want"* ]] || { echo "$how: $output"; cat log; return 1; }
    fi
  done <<<"$all"
}

@test "Spark: tasks that fail four times, that are retried, and that end well" {
  only_long
  [[ -d ${RINGUP_TEST_SPARK:-} ]] && command -v java >/dev/null || skip "there is no Spark"
  local how
  cat >spark.py <<'EOT'
import os
import sys

from pyspark import SparkContext, TaskContext

sc = SparkContext("local[2,4]", "ends")
sc.setLogLevel("INFO")
how = sys.argv[1]


def task(x):
    if x == 1 and (how == "exception" or (how == "retried" and TaskContext.get().attemptNumber() == 0)):
        raise KeyError("labels")
    return x


print(sum(sc.parallelize(range(4), 4).map(task).collect()))
sc.stop()
EOT
  for how in well retried exception; do
    PYTHONPATH=$RINGUP_TEST_SPARK PYSPARK_PYTHON=$python timeout 120 "$python" spark.py "$how" >log 2>&1 || true
    run ringup diagnose log
    if [[ $how == exception ]]; then
      [[ $status -eq 1 && "${lines[0]}${lines[2]}" == *"KeyError: 'labels'"* ]] || { echo "$how: $output"; return 1; }
    else
      [[ $status -eq 0 ]] || { echo "$how: $output"; return 1; }
    fi
  done
}

@test "Ray: an exception, a killed worker, and a job that ends well" {
  only_long
  [[ -d ${RINGUP_TEST_RAY:-} ]] || skip "there is no Ray"
  local how want
  cat >rays.py <<'EOT'
import os
import signal
import sys

import ray

ray.init(num_cpus=2, include_dashboard=False)
how = sys.argv[1]


@ray.remote(max_retries=0)
def task(x):
    print(f"step {x} loss 1.0", flush=True)
    if x == 1 and how == "exception":
        raise KeyError("labels")
    if x == 1 and how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return x


print(sum(ray.get([task.remote(x) for x in range(4)])))
print("training finished")
EOT
  while read -r how want; do
    PYTHONPATH=$RINGUP_TEST_RAY timeout 120 "$python" rays.py "$how" >log 2>&1 || true
    run ringup diagnose log
    if [[ $how == well ]]; then
      [[ $status -eq 0 ]] || { echo "$how: $output"; return 1; }
    else
      [[ $status -eq 1 && "${lines[0]}${lines[2]}" == *"$want"* ]] || { echo "$how: $output"; return 1; }
    fi
  done <<<$'well\nexception KeyError: \'labels\'\nkill worker'
}
