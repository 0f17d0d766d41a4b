# shellcheck shell=bash disable=SC2034,SC2154
# fault.bash - start ranks that loop, break something, and read what they print.

loop=$PWD/tests/fault/loop
strike=$PWD/tests/fault/strike

# fault_setup - a folder, an environment without other launchers' words, short limits.
fault_setup() {
  local v
  for v in $(compgen -e | grep -vE '^RINGUP_TEST_' | grep -E '^(RINGUP|HOROVOD|OMPI|PMI|PMIX|SLURM|TORCHELASTIC)_|^(RANK|WORLD_SIZE)$'); do
    unset "$v"
  done
  cd "$BATS_TEST_TMPDIR" || return 1
  export FAULT_TEST=$BATS_TEST_TMPDIR
  export RINGUP_TEST_LONG=${RINGUP_TEST_LONG:-0}
  # A stall ends the job only in tests that ask for that: on a busy machine an operation may take seconds.
  [[ $RINGUP_TEST_LONG == 1 ]] || export RINGUP_LIVENESS_PROFILE=fast RINGUP_STALL_ABORT_MS=0
  launcher='' timer=''
}

# long N WORD... - in the long form, all words N times; in the short one, none.
long() {
  local n=$1
  shift
  [[ ${RINGUP_TEST_LONG:-0} == 1 ]] || return 0
  while ((n-- > 0)); do printf '%s\n' "$@"; done
}

# marked - numbers of the processes that this test has started, directly or not.
marked() {
  grep -lzxF "FAULT_TEST=$BATS_TEST_TMPDIR" /proc/[0-9]*/environ 2>/dev/null |
    grep -o '[0-9]*' | grep -vxF -e "$$" -e "$BASHPID" | while read -r p; do
    [[ $(state_of "$p") == [ZX-] ]] || echo "$p"
  done
}

# state_of PID - the letter of ps(1); "-" if there is no such process.
state_of() {
  local s
  s=$(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null) || true
  echo "${s:--}"
}

# ours PID - is it the loop, the launcher or what they started?
ours() {
  local exe
  exe=$(readlink "/proc/$1/exe" 2>/dev/null) || return 1
  [[ $exe == */fault/loop || $exe == */device/conform || $exe == */ringup || $exe == */mpirun || $exe == */orted ||
    $exe == */orterun || $exe == */timeout || $exe == */sleep ]]
}

# left - what is left of the test's processes.
left() {
  local p
  for p in $(marked); do
    ! ours "$p" || echo "$p"
  done
}

# nothing_left - has everything gone?
nothing_left() {
  [[ -z $(left) ]]
}

# fault_teardown - whatever happened, nothing is left behind.
fault_teardown() {
  local p
  for p in $(left); do kill -KILL "$p" 2>/dev/null || true; done
}

# begin ARG... - start `ringup run ARG...` in the background; sets $launcher and $timer.
begin() {
  timeout --foreground 100 ringup run "$@" >out 2>err 3>&- &
  timer=$!
  await begun
  launcher=$(cat "/proc/$timer/task/$timer/children" 2>/dev/null) || true
  launcher=${launcher% }
}

# begun - is the launcher there, or gone already?
begun() {
  [[ -n $(cat "/proc/$timer/task/$timer/children" 2>/dev/null) || $(state_of "$timer") == [ZX-] ]]
}

# await COMMAND... - until it succeeds; 80 seconds at most, which nothing needs by itself.
await() {
  await_for 80 "$@" || { echo "in vain: $*"; last_words; return 1; }
}

# await_for SECONDS COMMAND... - the same, and silent: its status says whether it has succeeded.
await_for() {
  local begun=$SECONDS pause=0.02 fifo=$BATS_TEST_TMPDIR/never never
  "${@:2}" && return 0
  # A read from a pipe that stays empty sleeps without a process.
  [[ -p $fifo ]] || mkfifo "$fifo"
  exec {never}<>"$fifo"
  until "${@:2}"; do
    ((SECONDS - begun <= $1)) || { exec {never}>&-; return 1; }
    read -rt "$pause" -u "$never" || true
    ((SECONDS - begun < 2)) || pause=0.1
  done
  exec {never}>&-
}

# last_words - the ends of all that the test's processes have written.
last_words() {
  local f
  for f in err out out.* *.log; do
    [[ ! -s $f ]] || { echo "$f ends:" && tail -n 8 "$f"; }
  done
}

# said N WORD - have N ranks said WORD?
said() {
  local line n=0
  while read -r line; do
    [[ $line != "$2 "* ]] || n=$((n + 1))
  done <out
  ((n >= $1))
}

# pid_of RANK - its process, once it is ready.
pid_of() {
  awk -v r="$1" '$1 == "ready" && $2 == r { print $3 }' out
}

# end - wait for the launcher; sets status.
end() {
  status=0
  wait "$timer" || status=$?
  output=$(cat out err)
}

# after NS WORD - the most milliseconds from NS to a rank's WORD.
after() {
  awk -v at="$1" -v word="$2" '$1 == word { d = ($4 - at) / 1e6; if (d > m) m = d } END { printf "%.1f\n", m }' out
}

# noted - tell people how long it took.  That is measured (measure.py, endure.py) and not tested:
# it depends on what else the machine does.
noted() {
  echo "# F$fault ${what:-}: $took ms" >&3
}

# no_clock - nothing that this test's ranks look at by the clock can end the job, or show them that
# something has ended: if they notice it, the kernel has told them.
no_clock() {
  export RINGUP_LIVENESS=off RINGUP_STALL_CHECK=off
}

# blamed N RANK CODE [WORDS] - N ranks have failed with CODE, and all name their operation, and RANK and its process,
# which did what WORDS say.
blamed() {
  local n
  n=$(grep -cE "^error [0-9]+ [0-9]+ [0-9]+ $3 [a-z ]+ ('[^']+':|#[0-9]+:|[^ ]+ has stalled) .*rank $2 \(process $(pid_of "$2") on [^)]*\)${4+ $4}" out) || true
  [[ $n -eq $1 ]] || { echo "$n of $1 blame rank $2"; cat out err; return 1; }
}

# doubling FIRST_S - has each warning that "skipped" has stalled come after twice the time of the one
# before?  So each is told once, by one rank, however long it lasts.
doubling() {
  sed -nE 's/.*warn: allreduce skipped has stalled for ([0-9.]+) s: .*/\1/p' err |
    awk -v least="$1" '$1 < 0.99 * least { bad = 1 } { least = 2 * least } END { exit bad || !NR }' || {
    cat err
    return 1
  }
}

# no_signal_deaths RANK - nobody but RANK was ended by a signal.
no_signal_deaths() {
  not grep -E 'was killed by signal' <(grep -v "rank $1 " err)
}
