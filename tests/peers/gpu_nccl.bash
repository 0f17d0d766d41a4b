#!/usr/bin/env bash
# gpu_nccl.bash - one command: the back end nccl on a real GPU.
# SPDX-License-Identifier: Apache-2.0
#
# usage: gpu_nccl.bash OUT [STEP...]
#
# Has not been run on a GPU yet.  Run the one in the folder that gpu_stage.bash fills; or the one of a source tree, with
# the path of its build folder in $BUILD (build), in which tests/device/conform and tests/fault/strike are made, too.
#
# OUT gets two files: summary.txt, a line for each step, and results.tgz, with what each step printed and NCCL's logs.
# Both are complete after each step, so that nothing is lost if this script is ended.  STEP, such as 30 or 12-torch-1,
# runs only those steps.  The exit status is 0 if no step has failed, 1 if one has, and 2 if this cannot work.
#
#   BUDGET_S     the seconds that all steps may take together (240); those that are left then are left out
#   NCCL_OWN     the folder of the framework's libnccl.so.2; it is looked for if this is empty
#   NCCL_SHARED  the folder of NCCL 2.30 or later, which allows several ranks on one GPU; by default what gpu_stage.bash
#                has packed.  Without it, steps of several ranks are left out
#   TORCH=cpu    run torch's steps also if it sees no GPU
set -uo pipefail
ulimit -c 0

out=${1:?usage: gpu_nccl.bash OUT [STEP...]}
only=("${@:2}")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "${BUILD:-$root/build}" && pwd) || exit 2
budget=${BUDGET_S:-240}
conform=$build/tests/device/conform
strike=$build/tests/fault/strike
fakes=$build/tests/fakegpu
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
scratch=$(mktemp -d) || exit 2
said=$scratch/steps
mkdir "$said"
job='' clock=''
summary=$out/summary.txt
: >"$summary"

# keep - pack what there is so far; what was packed before stays until this is whole.
keep() { tar -C "$said" -czf "$out/.results" . 2>/dev/null && mv "$out/.results" "$out/results.tgz"; }

# members - process and program of all that a step has started; each rank has a process group of its own.
members() {
  local pid
  grep -lzF "NCCL_DEBUG_FILE=$said/" /proc/[0-9]*/environ 2>/dev/null | grep -o '[0-9]*' | while read -r pid; do
    echo "$pid $(cat "/proc/$pid/comm" 2>/dev/null)"
  done
}

# end_all - end what is left of a step.
end_all() {
  local pid program
  [[ -z $job ]] || kill -KILL -- "-$job" 2>/dev/null
  members | while read -r pid program; do
    [[ $program != @(conform|python*|ringup|horovodrun|timeout) ]] || kill -KILL "$pid" 2>/dev/null
  done
}

# finish - whatever ends this script: nothing of it goes on, and what it has found is kept.
finish() {
  [[ -z $clock ]] || kill -KILL -- "-$clock" 2>/dev/null
  end_all
  keep
  rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# tell TEXT - for the summary.
tell() { printf '%s\n' "$*" | tee -a "$summary"; }

# cannot WHAT CURE - it makes no sense to begin.
cannot() {
  printf 'gpu_nccl.bash: %s\n  %s\n' "$1" "$2" | tee -a "$summary" >&2
  exit 2
}

# The programs find their libraries wherever this folder is, whatever path they were linked with.
base=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH=$base PATH=$root/bin:$build:$PATH
export RINGUP_BACKEND=nccl RINGUP_LIBRARY=$build/.libs/libringup.so.0 NCCL_MULTI_RANK_GPU_ENABLE=1
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME-lo} NCCL_RAS_ADDR=${NCCL_RAS_ADDR:-127.0.0.1:28028}
export NCCL_DEBUG=${NCCL_DEBUG:-INFO} NCCL_DEBUG_SUBSYS=${NCCL_DEBUG_SUBSYS:-INIT,ENV} NCCL_DEBUG_FILE=$said/nccl.%p.log
export PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1 PYTHONDONTWRITEBYTECODE=1
# The loader might find an installed one.
[[ -e $RINGUP_LIBRARY ]] || cannot "there is no $RINGUP_LIBRARY" "run the copy that tests/peers/gpu_stage.bash makes"
for program in "$build/ringup" "$conform" "$strike"; do
  [[ -x $program ]] || cannot "$program is not built" "run: make -C ${BUILD:-build} all tests/device/conform tests/fault/strike"
  missing=$(ldd "$program" | grep 'not found') &&
    cannot "$program does not find: $(awk '{ printf "%s ", $1 }' <<<"$missing")" "run the copy that tests/peers/gpu_stage.bash makes"
done
version=$(ringup --version 2>&1) || cannot "ringup does not run: $version" "build it on a system with the same C library, or an older one"

# wanted NAME - is it among the steps that were asked for?
wanted() {
  local part
  ((${#only[@]})) || return 0
  for part in "${only[@]}"; do [[ $1 != "$part" && $1 != "$part"-* ]] || return 0; done
  return 1
}

# settings - what the environment says to NCCL, CUDA, ringup and the loader.
settings() { env | grep -E '^(NCCL|CUDA|FAKE|RINGUP|HOROVOD|LD_|XLA|JAX)' | sort; }

# look_at JOB - what a job that hangs waits for, and where.
look_at() {
  local pid program
  echo "--- not done in time"
  timeout -k 1 12 ringup hang -w 1 "$1"
  timeout -k 1 5 nvidia-smi
  members | while read -r pid program; do
    [[ $program == @(conform|python*) ]] || continue
    timeout -k 1 3 eu-stack -m -p "$pid" </dev/null | head -n 80
    # Python prints its own stacks.
    [[ $program == conform ]] || kill -ABRT "$pid"
  done
  sleep 1
}

# step NAME SECONDS COMMAND... - run it within that time, with all that it starts.
step() {
  local name=$1 limit=$2 status=0 since=${EPOCHREALTIME/./} rest=$((budget - SECONDS))
  wanted "$name" || return 0
  shift 2
  ((rest >= 3)) || { left_out "$name" "the $budget s of BUDGET_S are over"; return 0; }
  ((limit <= rest)) || limit=$rest
  { printf '$'; printf ' %q' "$@"; printf '\n'; settings; echo "---"; } >"$said/$name.txt"
  # In a process group of its own, so that nothing that hangs stays on the GPU.
  set -m
  "$@" >>"$said/$name.txt" 2>&1 </dev/null 3>&- &
  job=$!
  (sleep "$limit" && look_at "$job" >>"$said/$name.txt" 2>&1 && kill -TERM -- "-$job" && sleep 2 && kill -KILL -- "-$job") 2>/dev/null 3>&- &
  clock=$!
  set +m
  { wait "$job" || status=$?; } 2>/dev/null
  kill -KILL -- "-$clock" 2>/dev/null
  { wait "$clock"; } 2>/dev/null
  end_all
  job='' clock=''
  tell "$(printf '%-24s status %3d  %6d ms' "$name" "$status" $(((${EPOCHREALTIME/./} - since) / 1000)))"
  # What was reached or measured.
  sed -nE 's/^(\[[0-9]+\]<stdout>:)?((goal|result): .*)/    \2/p' "$said/$name.txt" | tee -a "$summary"
  ((status == 0)) || explain "$name" "$status"
  keep
  return "$status"
}

# explain STEP STATUS - what a failed step said last.
explain() {
  local file
  {
    case $2 in
      124 | 134 | 137 | 143) echo "    $1 was not done in time; it ends:" ;;
      *) echo "    $1 failed; it ends:" ;;
    esac
    for file in "$said/$1.txt" "$said/$1".*.txt; do
      [[ ! -s $file ]] || sed '1,/^---$/d' "$file" | tail -n 15 | cut -c 1-300 | sed 's/^/    | /'
    done
  } | tee -a "$summary"
}

# left_out STEPS REASON - say that these steps do not run.
left_out() { tell "left out: $1: $2"; }

# with FOLDER COMMAND... - with the libnccl.so.2 of that folder.
with() { LD_LIBRARY_PATH=$1:$base "${@:2}"; }

# ranks N ARG... - N ranks of conform.
ranks() { exec timeout --foreground 200 ringup run -np "$1" --no-prefix -- "$conform" "${@:2}"; }

# find_own - print the folder of the libnccl.so.2 that the framework brought, or that the loader knows.
find_own() {
  timeout 30 python3 -c 'import nvidia.nccl, os; print(os.path.join(list(nvidia.nccl.__path__)[0], "lib"))' 2>/dev/null && return
  ldconfig -p 2>/dev/null | sed -n 's|.*libnccl\.so\.2 .*=> \(.*\)/libnccl\.so\.2$|\1|p' | head -n 1
}

# unpack FILE - print a folder with the libnccl.so.2 that gpu_stage.bash packed.
unpack() {
  mkdir -p "$scratch/nccl"
  { xz -dc "$1" 2>/dev/null || python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' "$1"; } \
    >"$scratch/nccl/libnccl.so.2" && echo "$scratch/nccl"
}

# version_of FOLDER - the version of its NCCL, as a number.
version_of() {
  timeout 60 python3 -c 'import ctypes, sys
v = ctypes.c_int()
ctypes.CDLL(sys.argv[1] + "/libnccl.so.2").ncclGetVersion(ctypes.byref(v))
print(v.value)' "$1"
}

# facts - the machine, its GPU, driver and libraries; the first use of torch, which may take long.
facts() {
  echo "ringup $version"
  uname -srm
  echo "$(nproc) processors"
  ldd --version | head -n 1
  df -h /dev/shm /tmp
  getent ahosts localhost
  ldconfig -p | grep -E 'libcuda|libnccl'
  timeout 20 nvidia-smi | head -n 20
  echo "NCCL of the framework: ${own:-none} $([[ -z $own ]] || with "$own" version_of "$own"); to share a GPU: ${shared:-none} ${shared:+$shared_version}"
  # In the library that was made smaller, the code of one kind of GPU is left.
  ! command -v cuobjdump >/dev/null || [[ -z $shared ]] || timeout 20 cuobjdump --list-elf "$shared/libnccl.so.2" | grep -o 'sm_[0-9a-z]*' | sort | uniq -c
  python3 -c 'import torch
print("result: torch", torch.__version__, "CUDA", torch.version.cuda, "sees a GPU:", torch.cuda.is_available())
if torch.cuda.is_available():
    x = torch.ones(64, 64, device="cuda")
    print(float((x @ x).sum()), float(torch.conv2d(x[None, None], x[None, None, :3, :3]).sum()))
    print(torch.cuda.get_device_name(), "NCCL", torch.cuda.nccl.version())'
  true
}

# pid_of FILE RANK JOB - its process, once that has begun; in vain if the launcher JOB has ended.
pid_of() {
  local _
  for _ in {1..400}; do
    awk -v r="$2" '$1 == "ready" && $2 == r { print $3; found = 1 } END { exit !found }' "$1" 2>/dev/null && return
    kill -0 "$3" 2>/dev/null || return
    sleep 0.1
  done
  return 1
}

# goal WHAT MORE_MS LIMIT_MS TOOK_MS - was it reached?
goal() {
  echo "goal: $1 at most $2 ms after the limit of $3 ms: $([[ -n $4 && $4 -le $(($2 + $3)) ]] && echo reached || echo missed), ${4:-none} ms"
}

# breaks SIGNAL LIMIT_MS - rank 1 of 2 gets it while both add up: the other names it, soon after the limit.
breaks() {
  local lines=$said/break.$1.txt pid run at took
  RINGUP_LOST_MS=1000 RINGUP_FREEZE_MS=1000 RINGUP_LIVENESS_PROFILE=fast \
    timeout --foreground 100 ringup run -np 2 --no-prefix -- "$conform" fault 50 >"$lines" 2>&1 &
  run=$!
  pid=$(pid_of "$lines" 1 "$run") || { cat "$lines"; kill "$run"; return 1; }
  at=$("$strike" "$1" "$pid")
  for _ in {1..200}; do
    ! grep -q '^error 0 ' "$lines" || break
    sleep 0.05
  done
  kill -KILL "$pid" 2>/dev/null
  wait "$run"
  cat "$lines"
  took=$(awk -v at="$at" '$1 == "error" && $2 == 0 { printf "%d", ($4 - at) / 1e6 }' "$lines")
goal "signal $1 to a rank: an error on the other" 200 "$2" "$took"
  grep -q "^error 0 [0-9]* [0-9]* -5 allreduce 'gradient': rank 1 " "$lines" && ((took <= $2 + 3000))
}

# survives - rank 1 of 3 is killed: the two others compute again, in the same processes.
survives() {
  local lines=$said/elastic.txt pid run
  timeout --foreground 100 ringup run -np 3 --min-np 2 --no-prefix -- "$conform" fault 50 >"$lines" 2>&1 &
  run=$!
  pid=$(pid_of "$lines" 1 "$run") || { cat "$lines"; kill "$run"; return 1; }
  "$strike" 9 "$pid"
  wait "$run"
  cat "$lines"
  [[ $(grep -cE '^again [0-9]+ [0-9]+ [0-9]+ 0 of' "$lines") -ge 2 ]]
}

# late - the GPU of the last of two ranks does not go on for 4 s: both hear of it, and the other one when
# RINGUP_DEVICE_MS is over, or soon after.
late() {
  local lines=$said/late.txt rank took=()
  RINGUP_DEVICE_MS=1000 timeout --foreground 60 ringup run -np 2 --no-prefix -- "$conform" late 4 >"$lines" 2>&1
  cat "$lines"
  for rank in 0 1; do
    took[rank]=$(sed -n "s/^error $rank .* -11 .*'gradient'.* \[\([0-9]*\) ms\]$/\1/p" "$lines")
    goal "a GPU that stands still: an error on rank $rank" 200 1000 "${took[rank]}"
  done
  [[ -n ${took[0]} && -n ${took[1]} ]] && ((took[0] <= 3000 && took[1] <= 10000))
}

# refused - a driver that may not compile the kernels: an error that says so.
refused() {
  local lines=$said/no-jit.txt
  CUDA_DISABLE_PTX_JIT=1 CUDA_CACHE_DISABLE=1 timeout --foreground 60 ringup run -np 1 --no-prefix -- "$conform" all >"$lines" 2>&1
  tail -n 30 "$lines"
  grep -q "the driver cannot compile this library's kernels" "$lines"
}

# idle - ranks that have nothing to do take no time of a processor: less than 10 ms in 2 s.
idle() {
  local lines=$said/idle.txt
  timeout --foreground 60 ringup run -np 2 --no-prefix -- "$conform" idle 2 >"$lines" 2>&1
  cat "$lines"
  awk '$1 == "idle" { n++; if ($5 > most) most = $5 }
    END { printf "goal: less than 10 ms of a processor in 2 idle seconds: %s, %s ms\n", n == 2 && most < 10 ? "reached" : "missed", most; exit n != 2 || most >= 100 }' "$lines"
}

# ras_open - open descriptor 4 to a rank whose RAS service answers: all ranks of a host have the same port, and the
# kernel gives a connection also to one that stands still.
ras_open() {
  local _ answer
  for _ in {1..20}; do
    if { exec 4<>"/dev/tcp/${NCCL_RAS_ADDR%:*}/${NCCL_RAS_ADDR##*:}"; } 2>/dev/null; then
      printf 'client protocol 2\n' >&4
      read -r -t 1 answer <&4 && [[ $answer == *PROTOCOL* ]] && return
      exec 4>&-
    else
      sleep 0.2
    fi
  done
  return 1
}

# ras_ask FILE COMMAND... - what the service says to these commands.
ras_ask() {
  ras_open || return
  printf '%s\n' "${@:2}" >&4
  timeout 20 cat <&4 | sed '1 { /^OK$/d }' >"$1"
  exec 4>&-
  [[ -s $1 ]]
}

# ras - what NCCL's own service says of a job in which one rank stands still: fixtures for `ringup diagnose`.
ras() {
  local lines=$said/ras-job.txt pid run
  RINGUP_LIVENESS=off timeout --foreground 90 ringup run -np 2 --no-prefix -- "$conform" fault 60 >"$lines" 2>&1 &
  run=$!
  pid=$(pid_of "$lines" 1 "$run") || { cat "$lines"; kill "$run"; return 1; }
  kill -STOP "$pid"
  sleep 1
  if ras_ask "$said/ras.text" 'verbose status' && ras_ask "$said/ras.json" 'set format json' 'verbose status'; then
    echo "result: RAS: $(wc -l <"$said/ras.text") lines of text, $(wc -c <"$said/ras.json") bytes of JSON"
    head -n 60 "$said/ras.text"
    timeout 20 ringup hang -w 1 --ras "$NCCL_RAS_ADDR"
  else
    echo "result: RAS: no answer"
  fi
  timeout 20 ringup hang -w 1 "$pid"
  kill -KILL "$pid"
  wait "$run"
  true
}

# trains N SETTING PROGRAM ARG... - N ranks of a program in Python, such as one that uses horovod.torch.
trains() {
  exec env PYTHONPATH="$root/compat/python:$root/tests/py" RINGUP_TEST_RESULTS="$said" "$2" \
    timeout --foreground 300 horovodrun -np "$1" python3 "$root/tests/$3" "${@:4}"
}

# steps_of_resnet N SETTING - horovod.torch beside DDP, whose ranks meet in a folder.
steps_of_resnet() {
  mkdir -p "$scratch/meet"
  trains "$1" "$2" peers/gpu_resnet.py "$scratch/meet"
}

# torch_survives SETTING - horovod.torch's own elastic training: rank 1 of 3 is killed.
torch_survives() {
  env PYTHONPATH="$root/compat/python" "$1" timeout --foreground 200 horovodrun -np 3 --min-np 2 python3 "$root/tests/peers/gpu_elastic.py" >"$said/torch-elastic.txt" 2>&1
  cat "$said/torch-elastic.txt"
  [[ $(grep -c 'trained on, 2 ranks alike' "$said/torch-elastic.txt") -eq 2 ]]
}

# torch_mixes SETTING - torch's NCCL beside ringup in one process group, with a rank that is killed.
torch_mixes() {
  mkdir -p "$scratch/meet"
  env PYTHONPATH="$root/compat/python" TORCH_FR_DUMP_TEMP_FILE="$said/mixed-trace-" "$1" timeout --foreground 200 horovodrun -np 2 python3 "$root/tests/peers/gpu_mixed.py" "$scratch/meet" >"$said/torch-mixed.txt" 2>&1
  cat "$said/torch-mixed.txt"
  grep -q 'result: rank 0 is through' "$said/torch-mixed.txt"
}

# runs_jax SETTING - the tests of ringup.jax, two ranks on one GPU.
runs_jax() {
  export RINGUP_TEST_JAX=cuda JAX_PLATFORMS=cuda,cpu CUDA_VISIBLE_DEVICES=0 XLA_PYTHON_CLIENT_PREALLOCATE=false
  trains 2 "$1" py/jax_of_a_rank.py
}

# examines - `ringup doctor` on this machine; its findings are no failure, but it has to come to its end.
examines() {
  local status=0
  env -u NCCL_SOCKET_IFNAME ringup doctor || status=$?
  echo "result: ringup doctor: status $status"
  ((status < 3))
}

# counted FILE - how many checks its ranks have made, and with what result.
counted() { sed -n 's/^\(rank [0-9]* of [0-9]*\) on GPU [0-9]*: \(.* checks, .* wrong\)$/\1: \2/p' "$1" | sort; }

# alike - the same programs on the stand-ins of tests/fakegpu make the same checks with the same result.
alike() {
  local name version args differ=0
  while read -r name version args; do
    [[ -f $said/$name.txt ]] || continue
    # shellcheck disable=SC2086
    (FAKE_CUDA=devices=1 LD_LIBRARY_PATH=$fakes/cuda:$fakes/nccl-$version:$build/.libs ranks $args) >"$said/fake.$name.txt" 2>&1
    if diff <(counted "$said/$name.txt") <(counted "$said/fake.$name.txt") && [[ -n $(counted "$said/$name.txt") ]]; then
      echo "$name: as on the stand-ins"
    else
      echo "result: $name: the GPU differs from the stand-ins"
      differ=1
    fi
  done <<END
10-own-all-1 2.28.9 1 all
20-all-2 2.30.7 2 all
25-aborts-3 2.30.7 3 aborts
26-capture-2 2.30.7 2 capture
50-schedule-3 2.30.7 3 schedule 1 300
51-xla-2 2.30.7 2 jax $build/.libs/libringup_jax.so
END
  ((differ == 0)) && echo "result: the GPU does as the stand-ins do"
}

own=${NCCL_OWN:-$(find_own)}
shared=${NCCL_SHARED:-}
[[ -n $shared || ! -f $root/nccl.xz ]] || shared=$(unpack "$root/nccl.xz") || cannot "$root/nccl.xz cannot be unpacked" "run tests/peers/gpu_stage.bash again"
if [[ -n $shared ]]; then
  [[ -f $shared/libnccl.so.2 ]] || cannot "$shared has no libnccl.so.2" "set NCCL_SHARED to the folder of NCCL 2.30 or later"
  shared=$(realpath "$shared")
  shared_version=$(with "$shared" version_of "$shared") || cannot "$shared/libnccl.so.2 cannot be loaded" "make it again: tests/peers/gpu_stage.bash"
  ((shared_version >= 23000)) || cannot "$shared/libnccl.so.2 is NCCL $shared_version, which refuses two ranks on one GPU" "set NCCL_SHARED to the folder of NCCL 2.30 or later"
fi
pace=${PACE_BYTES:-268435456}
step 00-facts 90 facts
torch=''
! grep -q 'sees a GPU: True' "$said/00-facts.txt" 2>/dev/null || torch=yes
# Also if step 00 was not asked for.
[[ -n $torch || -f $said/00-facts.txt ]] || torch=$(timeout 90 python3 -c 'import torch; print("yes" if torch.cuda.is_available() else "")' 2>/dev/null)
[[ -n $torch || ${TORCH:-} != cpu ]] || torch=cpu
jax=$(timeout 30 python3 -c 'import importlib.util as u; print("yes" if u.find_spec("jax") and u.find_spec("optax") else "")' 2>/dev/null)

own=${own:-$shared}
[[ -n $own ]] || left_out "10 and 40" "no libnccl.so.2 of a framework found; set NCCL_OWN to its folder"
[[ -z $own ]] || step 10-own-all-1 60 with "$own" ranks 1 all
if [[ -n $shared ]]; then
  # Some machines refuse one of NCCL's ways to share memory; what works is kept.
  step 20-all-2 60 with "$shared" ranks 2 all ||
    for way in NCCL_CUMEM_ENABLE=0 NCCL_P2P_DISABLE=1; do
      export "${way?}"
      step "20-all-2-$way" 60 with "$shared" ranks 2 all && {
        mv "$said/20-all-2.txt" "$said/20-all-2-failed.txt" && cp "$said/20-all-2-$way.txt" "$said/20-all-2.txt"
        break
      }
      unset "${way%=*}"
    done
  step 21-kill-2 60 with "$shared" breaks 9 0
  step 22-stop-2 60 with "$shared" breaks 19 1000
  step 23-elastic-3 60 with "$shared" survives
  step 24-late-2 45 with "$shared" late
  step 25-aborts-3 45 with "$shared" ranks 3 aborts
  step 26-capture-2 45 with "$shared" ranks 2 capture
  step 27-no-jit-1 45 with "$shared" refused
else
  left_out "20 to 27, 31 to 34, 41 to 53 and 60 to 70" "set NCCL_SHARED to the folder of NCCL 2.30 or later, or see gpu_stage.bash"
fi
[[ -n $torch ]] || left_out "30 to 34, 60 and 61" "python3 has no torch that sees a GPU"
[[ -z $torch ]] || step 30-torch-1 90 with "${own:-/none}" trains 1 RINGUP_BACKEND=nccl peers/gpu_train.py
if [[ -n $torch && -n $shared ]]; then
  # torch, too, then has this NCCL; or it has its own beside it.
  step 31-torch-2 90 trains 2 "LD_PRELOAD=$shared/libnccl.so.2" peers/gpu_train.py
  step 32-torch-elastic-3 90 torch_survives "LD_PRELOAD=$shared/libnccl.so.2"
  step 33-two-nccls-2 90 trains 2 "RINGUP_NCCL=$shared/libnccl.so.2" peers/gpu_train.py
  step 34-mixed-2 90 torch_mixes "LD_PRELOAD=$shared/libnccl.so.2"
fi
[[ -z $own ]] || step 40-own-pace-1 45 with "$own" ranks 1 pace "$pace"
if [[ -n $shared ]]; then
  step 41-pace-2 45 with "$shared" ranks 2 pace "$pace"
  step 42-idle-2 30 with "$shared" idle
  step 50-schedule-3 45 with "$shared" ranks 3 schedule 1 300
  step 51-xla-2 45 with "$shared" ranks 2 jax "$build/.libs/libringup_jax.so"
fi
step 52-doctor 45 examines
if [[ -n $shared ]]; then
  step 53-ras 90 with "$shared" ras
  [[ -z $torch ]] || step 60-resnet-2 120 steps_of_resnet 2 "LD_PRELOAD=$shared/libnccl.so.2"
  [[ $torch != yes ]] || step 61-torch-tests-2 120 trains 2 "LD_PRELOAD=$shared/libnccl.so.2" py/gpu_of_a_rank.py
  [[ -n $jax ]] || left_out "62" "python3 has no jax, or no optax"
  [[ -z $jax ]] || step 62-jax-2 120 runs_jax "LD_PRELOAD=$shared/libnccl.so.2"
  step 70-all-4 90 with "$shared" ranks 4 all
fi
[[ ! -e $fakes/cuda/libcuda.so.1 ]] || step 80-stand-ins 60 alike
failed=$(grep -cE '^[0-9].* status +[1-9]' "$summary")
tell "$(grep -cE '^[0-9].* status +0 ' "$summary") steps passed, $failed failed, $(grep -c '^left out: ' "$summary") left out; $SECONDS s; see $out/results.tgz"
((failed == 0))
