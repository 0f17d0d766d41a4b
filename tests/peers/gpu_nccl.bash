#!/usr/bin/env bash
# gpu_nccl.bash - one command, under four minutes: the back end nccl on a real GPU.
#
# usage: gpu_nccl.bash OUT [STEP...]
#
# Has not been run on a GPU yet.  Run it from the root of a tree that is built in $BUILD (build), with
# tests/device/conform and tests/fault/strike.  $NCCL_OWN is the folder of the framework's libnccl.so.2, which is looked
# for if it is empty; $NCCL_SHARED that of NCCL 2.30 or later, which allows several ranks on one GPU; slim_nccl.py
# makes one of 40 MB from the wheel.  Without it the steps of several ranks are left out, and without torch for CUDA
# those of horovod.torch.  Each step has a time limit (238 s in all), 2 s later it is killed, and writes OUT/STEP.txt as
# it goes; OUT/summary.txt has a line for each.  STEP, such as 30 or 12-own-torch-1, runs only those steps.
set -uo pipefail

out=${1:?usage: gpu_nccl.bash OUT [STEP...]}
only=("${@:2}")
root=$PWD
build=$root/${BUILD:-build}
conform=$build/tests/device/conform
strike=$build/tests/fault/strike
for program in "$conform" "$strike" "$build/ringup"; do
  [[ -x $program ]] && continue
  echo "gpu_nccl.bash: $program is not built" >&2
  echo "  run: make -C ${BUILD:-build} all tests/device/conform tests/fault/strike" >&2
  exit 2
done
mkdir -p "$out"
: >"$out/summary.txt"
export PATH=$build:$PATH RINGUP_BACKEND=nccl NCCL_MULTI_RANK_GPU_ENABLE=1 RINGUP_LIBRARY=$build/.libs/libringup.so.0
base=${LD_LIBRARY_PATH:-}

# wanted NAME - is it among the steps that were asked for?
wanted() {
  local part
  ((${#only[@]})) || return 0
  for part in "${only[@]}"; do [[ $1 != "$part" && $1 != "$part"-* ]] || return 0; done
  return 1
}

# step NAME SECONDS COMMAND... - run it within that time, with all that it starts; what it says is in OUT/NAME.txt.
step() {
  local name=$1 limit=$2 status=0 since=${EPOCHREALTIME/./} job clock
  wanted "$name" || return 0
  shift 2
  # In a process group of its own, so that nothing that hangs stays on the GPU.
  set -m
  "$@" >"$out/$name.txt" 2>&1 3>&- &
  job=$!
  (sleep "$limit" && kill -TERM -- "-$job" && sleep 2 && kill -KILL -- "-$job") 2>/dev/null &
  clock=$!
  set +m
  wait "$job" || status=$?
  kill -TERM -- "-$clock" 2>/dev/null
  wait "$clock" 2>/dev/null
  printf '%-28s status %3d  %6d ms\n' "$name" "$status" $(((${EPOCHREALTIME/./} - since) / 1000)) | tee -a "$out/summary.txt"
}

# left_out STEPS REASON - say that these steps do not run.
left_out() { echo "left out: $1: $2" | tee -a "$out/summary.txt"; }

# with FOLDER COMMAND... - with the libnccl.so.2 of that folder.
with() { LD_LIBRARY_PATH=$1${base:+:$base} "${@:2}"; }

# ranks N ARG... - N ranks of conform.
ranks() { exec timeout --foreground 100 ringup run -np "$1" --no-prefix -- "$conform" "${@:2}"; }

# find_own - print the folder of the libnccl.so.2 that torch brought, or that the loader knows.
find_own() {
  python3 -c 'import nvidia.nccl, os; print(os.path.join(list(nvidia.nccl.__path__)[0], "lib"))' 2>/dev/null && return
  ldconfig -p 2>/dev/null | sed -n 's|.*libnccl\.so\.2 .*=> \(.*\)/libnccl\.so\.2$|\1|p' | head -n 1
}

# facts - the GPU, its driver and the libraries.
facts() {
  nvidia-smi 2>&1 | head -n 20
  echo "NCCL of the framework: ${own:-none}; to share a GPU: ${shared:-none}"
  python3 -c 'import torch; print("torch", torch.__version__, torch.version.cuda, torch.cuda.nccl.version())' 2>&1 | tail -n 1
  uname -srm
  nproc
}

# pid_of FILE RANK JOB - its process, once that has begun; in vain if the launcher JOB has ended.
pid_of() {
  local _
  for _ in {1..200}; do
    awk -v r="$2" '$1 == "ready" && $2 == r { print $3; found = 1 } END { exit !found }' "$1" 2>/dev/null && return
    kill -0 "$3" 2>/dev/null || return
    sleep 0.1
  done
  return 1
}

# breaks SIGNAL - rank 1 of 2 gets it while both add up; what the other says, and when, is the result.
breaks() {
  local said=$out/ranks.$1.txt pid job
  RINGUP_LOST_MS=1000 RINGUP_LIVENESS_PROFILE=fast timeout --foreground 40 ringup run -np 2 --no-prefix -- "$conform" fault 20 >"$said" 2>&1 &
  job=$!
  pid=$(pid_of "$said" 1 "$job") || { cat "$said"; kill "$job"; return 1; }
  echo "struck $("$strike" "$1" "$pid")"
  for _ in {1..100}; do
    ! grep -q '^error 0 ' "$said" || break
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null
  wait "$job"
  cat "$said"
  grep -q "^error 0 [0-9]* [0-9]* -5 allreduce 'gradient': rank 1 " "$said"
}

# ras - what NCCL's own service says of a job in which one rank stands still; a fixture for `ringup diagnose`.
ras() {
  local said=$out/ranks.ras.txt pid job
  RINGUP_LIVENESS=off timeout --foreground 30 ringup run -np 2 --no-prefix -- "$conform" fault 15 >"$said" 2>&1 &
  job=$!
  pid=$(pid_of "$said" 1 "$job") || { cat "$said"; kill "$job"; return 1; }
  kill -STOP "$pid"
  sleep 2
  exec 4<>/dev/tcp/127.0.0.1/28028 || { kill -KILL "$pid"; wait "$job"; return 1; }
  printf 'verbose status\n' >&4
  timeout 12 cat <&4
  exec 4>&-
  kill -KILL "$pid"
  wait "$job"
  true
}

# trains N SETTING PROGRAM ARG... - N ranks of a program of tests/peers that uses horovod.torch, by the Python that has torch.
trains() {
  exec env PYTHONPATH="$root/compat/python" "$2" timeout --foreground 100 horovodrun -np "$1" python3 "$root/tests/peers/$3" "${@:4}"
}

# steps_of_resnet N SETTING - horovod.torch beside DDP, whose ranks meet in a folder.
steps_of_resnet() {
  local meet=$out/meet.$$
  rm -rf "$meet"
  mkdir -p "$meet"
  trains "$1" "$2" gpu_resnet.py "$meet"
}

# explain STEP STATUS - what a failed step said last, and what to do next.
explain() {
  echo "$1 failed: $([[ $2 -eq 143 || $2 -eq 137 || $2 -eq 124 ]] && echo "not done in time" || echo "status $2"). $out/$1.txt ends:"
  tail -n 5 "$out/$1.txt" | sed 's/^/    /'
  echo "  to see more, run the same command with NCCL_DEBUG=INFO RINGUP_LOG_LEVEL=debug in front and $1 behind OUT"
}

own=${NCCL_OWN:-$(find_own)}
shared=${NCCL_SHARED:-}
pace=${PACE_BYTES:-268435456}
torch=$(python3 -c 'import torch; print("yes" if torch.cuda.is_available() else "")' 2>/dev/null)
step 00-facts 8 facts
if [[ -n $own ]]; then
  step 10-own-all-1 20 with "$own" ranks 1 all
  step 11-own-pace-1 12 with "$own" ranks 1 pace "$pace"
  [[ -z $torch ]] || step 12-own-torch-1 15 trains 1 RINGUP_BACKEND=nccl gpu_train.py
else
  left_out "10 to 12" "no libnccl.so.2 found; set NCCL_OWN to its folder"
fi
if [[ -n $shared ]]; then
  step 20-all-2 20 with "$shared" ranks 2 all
  step 21-all-4 20 with "$shared" ranks 4 all
  step 22-schedule-3 10 with "$shared" ranks 3 schedule 1 300
  step 23-aborts-3 10 with "$shared" ranks 3 aborts
  step 24-jax-2 10 with "$shared" ranks 2 jax "$build/.libs/libringup_jax.so"
  [[ -z $torch ]] || step 25-torch-2 20 trains 2 "RINGUP_NCCL=$shared/libnccl.so.2" gpu_train.py
  # DDP is to share the GPU, too: torch then has the same NCCL.
  [[ -z $torch ]] || step 26-resnet-2 26 steps_of_resnet 2 "LD_PRELOAD=$shared/libnccl.so.2"
  step 30-kill 12 with "$shared" breaks 9
  step 31-stop 14 with "$shared" breaks 19
  step 40-pace-2 18 with "$shared" ranks 2 pace "$pace"
  step 41-idle-2 6 with "$shared" ranks 2 idle 2
  step 50-ras 17 with "$shared" ras
else
  left_out "20 to 50" "set NCCL_SHARED to the folder of an NCCL 2.30 or later (slim_nccl.py)"
fi
[[ -n $torch ]] || left_out "12, 25, 26" "python3 has no torch for CUDA"
grep -h 'wrong$' "$out"/*.txt | sort | uniq -c
failed=0
while read -r name _ status _; do
  [[ $name == [0-9]* && $name != 00-facts && $name != 50-ras && $status -ne 0 ]] || continue
  failed=1
  explain "$name" "$status"
done <"$out/summary.txt"
cat "$out/summary.txt"
((failed == 0))
