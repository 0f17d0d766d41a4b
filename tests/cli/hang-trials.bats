#!/usr/bin/env bats
# hang-trials.bats - ringup hang: many hangs of every kind, over every engine, and healthy jobs
# needs: waits
# tests: src/hang src/cli/cmd_hang.c src/wire/observe.c src/engine/observer.c tests/programs/hangs.c tests/programs/hangs.py

load ../lib/helper
load ../lib/await
load ../lib/launcher
load ../lib/mpi

hangs=$PWD/tests/programs/hangs
mpihangs=$PWD/tests/programs/mpihangs

setup() {
  launcher_setup
  # py-spy is in the environment of the tests' own.
  PATH=$PATH:$(dirname "$RINGUP_TEST_PYTHON")
  [[ -n ${RINGUP_TEST_LONG:-} ]] || skip "the shard hang"
  command -v eu-stack >/dev/null || skip "no eu-stack"
}
teardown() {
  # shellcheck disable=SC2046
  kill -CONT $(marked) 2>/dev/null || true
  launcher_teardown
}

# start_job COMMAND... - as launch does, with more patience: on a busy machine torch starts for minutes.
start_job() {
  RUN_TEST=$BATS_TEST_TMPDIR timeout --foreground 900 "$@" 3>&- &
  timer=$!
  until launched; do sleep 0.05; done
}

# is_python ENGINE - one of torch, whose ranks are forked off three processes that have imported it.
is_python() { [[ $1 == @(gloo|torch-ringup|horovod) ]]; }

# serve ENGINE - start these three processes, of which each is a rank of torchrun's variables.
serve() {
  local folder=$BATS_TEST_TMPDIR/$1
  mkdir -p "$folder"
  number=0
  # shellcheck disable=SC2016
  start_job bash -c 'for RANK in 0 1 2; do export RANK LOCAL_RANK=$RANK; "$@" & done; wait' - \
    env WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 TORCHELASTIC_RUN_ID=trial \
    "$RINGUP_TEST_PYTHON" "$src/tests/programs/hangs.py" "${1#torch-}" serve "$folder" >out 2>&1
}

# fork_ranks ENGINE KIND RANK - start three ranks.
fork_ranks() {
  [[ -n ${launcher:-} ]] || serve "$1"
  file=$BATS_TEST_TMPDIR/$1/$number
  echo "$2 $3 $PWD/hung $((20000 + (RANDOM * 8 + number) % 9000))" >"$file.new"
  mv "$file.new" "$file"
  number=$((number + 1))
}

# begin ENGINE KIND RANK - start three ranks of which one hangs so.
begin() {
  rm -f hung
  # Open MPI leaves its files behind when it is killed: in the test's own folder.
  export OMPI_MCA_btl_vader_backing_directory=$BATS_TEST_TMPDIR TMPDIR=$BATS_TEST_TMPDIR GLOO_SOCKET_IFNAME=lo
  export RINGUP_DEADLOCK_MS=0 PYTHONPATH=$src/compat/python RINGUP_LIBRARY=$builddir/.libs/libringup.so.0
  case $1 in
    ringup) start_job ringup run -np 3 -- "$hangs" "$2" "$3" "$PWD/hung" >out 2>&1 ;;
    openmpi) start_job "$RINGUP_TEST_OPENMPI" --allow-run-as-root --oversubscribe -np 3 "$mpihangs" "$2" "$3" "$PWD/hung" >out 2>&1 ;;
    mpich) start_job mpiexec.hydra -np 3 "$mpich" "$2" "$3" "$PWD/hung" >out 2>&1 ;;
    *) fork_ranks "$@" ;;
  esac
  await test -e hung || await test -e hung || await test -e hung || { cat out; return 1; }
  # A rank that never starts says so before the others have; pages are written twice a second.
  [[ $2 == absent ]] && is_python "$1" && sleep 2
  sleep 0.8
}

# end ENGINE - end the job; of forked ranks alone these.
end() {
  # shellcheck disable=SC2046
  kill -CONT $(marked) 2>/dev/null || true
  if is_python "$1"; then
    end_forked "$file"
    return
  fi
  kill "$launcher" 2>/dev/null || true
  launcher_teardown
  await gone "$launcher" "$timer"
}

# end_forked FILE - until all three are waited for; their own children are ended, too.
end_forked() {
  local pid r
  for ((;;)); do
    for pid in $(pgrep -P "$(pgrep -d, -P "$launcher")"); do
      # shellcheck disable=SC2046
      kill -KILL "$pid" $(pgrep -P "$pid") 2>/dev/null || true
    done
    for r in 0 1 2; do [[ -e $1.$r ]] || break; done
    [[ ! -e $1.$r ]] || return 0
    sleep 0.05
  done
}

times=${RINGUP_TEST_TRIALS:-20} RINGUP_TEST_RANK=${RINGUP_TEST_RANK:-0}

# tell WORDS... - to who watches, at once: hours pass before bats does.
tell() { echo "# $(date +%T) load $(cut -d' ' -f1 /proc/loadavg): $*" | tee -a "$BATS_FILE_TMPDIR/table" >&3; }

# trial ENGINE KIND RANK - is the right rank named?  In a circle of receives all are.
trial() {
  local wanted="[$3]" good=1
  [[ $2 != circle ]] || wanted="[0,1,2]"
  begin "$@" || return
  run ringup hang --json --wait 1.5 "$launcher"
  [[ $status == 1 && $(jq -c '.jobs[0].culprits' <<<"$output") == "$wanted" ]] ||
    { good=0; tell "$1 $2, rank $3: $(jq -c '[.jobs[0] | .verdict, .culprits, .text, .unseen]' <<<"$output")"; }
  end "$1"
  ((good))
}

# all_trials ENGINE KIND... - and all are tried, by turns, whatever fails.
all_trials() {
  local engine=$1 kind i failed=0
  local -A right=()
  shift
  for ((i = 0; i < times; i++)); do
    for kind; do
      if trial "$engine" "$kind" $(((i + RINGUP_TEST_RANK) % 3)); then right[$kind]=$((${right[$kind]:-0} + 1)); else failed=1; fi
    done
    for kind; do echo "$kind ${right[$kind]:-0}"; done | tell "$engine, right of $((i + 1)): $(paste -sd,)"
  done
  ((!failed))
}

# healthy ENGINE KIND - looks at a job that advances; sets quiet and all.
healthy() {
  local i
  begin "$1" "$2" 1 || return
  for ((i = 0; i < times; i++)); do
    look "$@" --wait 1.5 "$launcher"
  done
  end "$1"
}

# look ENGINE KIND OPTION... - is there no alarm?
look() {
  run ringup hang --json "${@:3}"
  all=$((all + 1))
  if [[ $status != 1 ]]; then
    quiet=$((quiet + 1))
  else
    tell "$1 $2: $(jq -c '[.jobs[] | .verdict, .culprits, .text]' <<<"$output")"
  fi
}

# edges ENGINE - looks at jobs that start and end meanwhile.
edges() {
  local i
  for ((i = 0; i < times; i++)); do
    begin "$1" short 1 || return
    sleep "0.$((i % 10))"
    look "$1" "at an edge" --wait 1 "$launcher"
    end "$1"
  done
}

# looks ENGINE... - at healthy jobs of each, of each kind.
looks() {
  local engine kind all quiet failed=0
  for engine; do
    for kind in busy uneven checkpoint edges; do
      quiet=0 all=0
      if [[ $kind == edges ]]; then edges "$engine"; else healthy "$engine" "$kind"; fi || failed=1
      tell "$engine $kind: no alarm in $quiet of $all looks"
      ((quiet == all)) || failed=1
    done
    [[ ! -v file ]] || { kill "$launcher" && launcher_teardown && launcher=''; }
  done
  ((!failed))
}

need_torch() {
  "$RINGUP_TEST_PYTHON" -c 'import torch' || skip "no torch"
  command -v py-spy >/dev/null || skip "no py-spy"
}

@test "ringup: seven kinds" {
  all_trials ringup sleep spin stop skip branch circle absent
}

@test "Open MPI: six kinds" {
  [[ -x $mpihangs ]] || skip "no MPI"
  all_trials openmpi sleep spin stop branch circle absent
}

@test "MPICH: six kinds" {
  mpich_program
  all_trials mpich sleep spin stop branch circle absent
}

@test "torch.distributed with gloo: seven kinds" {
  need_torch
  all_trials gloo sleep spin stop branch circle loader absent
}

# A barrier beside an allreduce is no hang there, but an error that names the rank.
@test "torch.distributed, the back end ringup: six kinds" {
  need_torch
  all_trials torch-ringup sleep spin stop circle loader absent
}

@test "horovod.torch: seven kinds" {
  need_torch
  all_trials horovod sleep spin stop skip branch loader absent
}

@test "healthy jobs in C: no alarm" {
  mpich_program
  looks ringup openmpi mpich
}

@test "healthy jobs of torch: no alarm" {
  need_torch
  looks gloo torch-ringup horovod
}

# median_step FILE WINDOW... - the median step in windows "from until" of microseconds, and of how many. Steps that have
# waited for a processor are left out, those that take thrice as long as the fastest tenth: on a machine with other work
# they are half of all, and say nothing of a look.
median_step() {
  local steps=$1
  shift
  printf '%s\n' "$@" | awk 'NR == FNR { from[NR] = $1; until[NR] = $2; n = NR; next }
    { for (i = 1; i <= n; i++) if ($1 >= from[i] && $1 + $2 <= until[i]) print $2 }' - "$steps" | sort -n |
    awk '{ v[NR] = $1 } END { for (n = NR; v[n] > 3 * v[int(NR / 10) + 1]; n--) {}; print v[int((n + 1) / 2)], n }'
}

now_us() { awk '{ printf "%.0f\n", $1 * 1e6 }' /proc/uptime; }

@test "a look costs a job less than a hundredth of its steps' time" {
  local i from looked=() alone=() a b
  start_job ringup run -np 2 -- "$hangs" steps 1 "$PWD/hung" >out 2>&1
  await test -e hung
  for ((i = 0; i < times; i++)); do
    from=$(now_us)
    ringup hang "$launcher" >/dev/null
    looked+=("$from $(now_us)")
    from=$(now_us)
    sleep 5.1
    alone+=("$from $(now_us)")
  done
  kill "$launcher"
  a=$(median_step hung.steps "${looked[@]}")
  b=$(median_step hung.steps "${alone[@]}")
  tell "median step in us, and steps: looked at $a, alone $b; ratio $(awk "BEGIN { split(\"$a\", x, \" \"); split(\"$b\", y, \" \"); printf \"%.4f\", x[1] / y[1] }")"
  awk "BEGIN { split(\"$a\", x, \" \"); split(\"$b\", y, \" \"); exit !(x[2] > 500 && y[2] > 500 && x[1] / y[1] < 1.01) }"
}
