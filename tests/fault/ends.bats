#!/usr/bin/env bats
# ends.bats - ways to meet x ways to end x which rank: the launcher, or a survivor, names the rank
# proves: F4 P6 of docs/RELIABILITY.md
# needs: cpu waits
# tests: src/launch src/engine src/wire src/api tests/programs/ends.c tests/lib/launcher.bash tests/py/ends_of_a_rank.py

load ../lib/helper
load ../lib/await
load ../lib/launcher

ends=$PWD/tests/programs/ends
python=$srcdir/tests/py/ends_of_a_rank.py

setup() { launcher_setup; }

teardown() {
  launcher_teardown
  local group
  for group in /sys/fs/cgroup/memory/"ringup.ends.$$."* /sys/fs/cgroup/"ringup.ends.$$."*; do
    [[ ! -d $group ]] || await rmdir "$group" 2>/dev/null
  done
}

# Each way to end, the status, and what the first line of the launcher says of the rank.
ways='exit3 3 exited with status 3
signal9 137 was killed by signal 9 (Killed)
abort 134 was killed by signal 6 (Aborted)
fini5 5 exited with status 5
exit0 1 exited with status 0 during the job, without ringup_fini()
signal19 137 has *: it*is stopped (state T)
memory 137 was killed by signal 9 (Killed); out of memory'

# no_room - where there is no control group of its own for a rank, none runs out of memory.
no_room() {
  local room
  small_room "ends.$$.0" 64 || return 0
  grep -q -e '-fsanitize' "${builddir:-.}/config.log"
}

# the_words MEET - set $words, and $before of the program, to what starts four ranks that meet in this way; of two hosts the last two are on the second.
the_words() {
  local two=(-H 'localhost:2,127.0.0.1:2') folder
  words=(ringup run -np 4) before=()
  case $1 in
    launcher) ;;
    daemons) words+=("${two[@]}") ;;
    exchange | exchange-daemons)
      folder=$(mktemp -d -p "$PWD")
      [[ $1 == exchange ]] || words+=("${two[@]}")
      words+=(-x "ENDS_EXCHANGE=$folder")
      ;;
    folder)
      folder=$(mktemp -d -p "$PWD")
      before=(env "RINGUP_MEET=$folder")
      ;;
    lobby) words+=(--min-np 4) ;;
    *) return 1 ;;
  esac
}

# one MEET HOW STATUS RANK TEXT PROGRAM... - one job: its status, and its first complaint.
one() {
  local meet=$1 how=$2 status=$3 rank=$4 text=$5 words before rc=0 said log room
  shift 5
  the_words "$meet"
  log=$(mktemp -p "$PWD")
  if [[ $how == memory ]]; then
    small_room "ends.$$.${log##*.}" 64 || { echo "no control group"; return 1; }
    words+=(-x "ENDS_ROOM=$room/cgroup.procs")
  fi
  RINGUP_LIVENESS_PROFILE=fast RINGUP_FREEZE_MS=800 RINGUP_FREEZE_WARN_MS=0 RUN_TEST=$BATS_TEST_TMPDIR \
    timeout 100 "${words[@]}" -- "${before[@]}" "$@" "$rank" "$how" >/dev/null 2>"$log" || rc=$?
  said=$(grep -m 1 '^ringup run: ' "$log") || true
  # shellcheck disable=SC2053
  [[ $rc -eq $status && $said == "ringup run: rank $rank (pid "*") on "* && $said == *$text* ]] || {
    echo "$meet, $how, rank $rank: status $rc, expected $status; said \"$said\", expected $text"
    cat "$log"
    return 1
  }
}

# matrix PROGRAM... - all ways to meet and to end; of the ranks the first, the last and the leader of the second host,
# in turn or, in the long form, each.  Four jobs at a time.  A partition is in tests/cluster/run-hosts.bats, Spark's way
# to meet in tests/fault/deaths.bats.
matrix() {
  local meet how status text rank turn=0 bad=0 pid job cells=21
  local -a running=()
  ! no_room || ways=${ways%$'\n'*} cells=18
  for meet in launcher daemons exchange exchange-daemons folder lobby; do
    while read -r how status text; do
      for rank in 0 3 2; do
        turn=$((turn + 1))
        [[ -n ${RINGUP_TEST_LONG:-} || $((turn % 3)) -eq $((turn / cells % 3)) ]] || continue
        one "$meet" "$how" "$status" "$rank" "$text" "$@" 3>&- &
        running+=($!)
        if ((${#running[@]} == 4)); then
          wait "${running[0]}" || bad=$((bad + 1))
          running=("${running[@]:1}")
        fi
      done
    done <<<"$ways"
  done
  for pid in "${running[@]}"; do wait "$pid" || bad=$((bad + 1)); done
  [[ $turn -eq $((6 * cells)) && $bad -eq 0 ]] || { echo "$bad wrong"; return 1; }
}

@test "P6 the launcher names the rank that ended first, and its status, however the ranks meet" {
  matrix "$ends"
}

@test "P6 the same of torch.distributed, whose ranks meet at torch's store" {
  [[ -n ${RINGUP_TEST_LONG:-} ]] || skip "a part of the long form: RINGUP_TEST_LONG=1"
  "$RINGUP_TEST_PYTHON" -c 'import torch.distributed' 2>/dev/null || skip "no torch here"
  export PYTHONPATH=$srcdir/compat/python PYTHONDONTWRITEBYTECODE=1 RINGUP_LIBRARY=${builddir:?}/.libs/libringup.so.0
  local how status text rank
  while read -r how status text; do
    for rank in 0 3; do
      one launcher "$how" "$status" "$rank" "$text" "$RINGUP_TEST_PYTHON" "$python"
    done
  done <<'EOT'
raise 1 exited with status 1: it aborted the job: IndexError: list index out of range
exit3 3 exited with status 3
_exit3 3 exited with status 3
signal9 137 was killed by signal 9 (Killed)
signal19 137 has not moved for *: it is stopped (state T)
memory 1 exited with status 1: it aborted the job: MemoryError
EOT
}

# of_mpirun KIND HOW - four ranks under another launcher, of which the third ends: no survivor blames another one.
of_mpirun() {
  local runner=RINGUP_TEST_${1^^} rc=0
  local -a words=("${!runner}")
  [[ $1 != openmpi ]] || words+=(--allow-run-as-root --oversubscribe)
  timeout -k 5 60 "${words[@]}" -np 4 "$ends" 2 "$2" >out 2>&1 3>&- || rc=$?
  [[ $rc -ne 0 && $rc -ne 124 && $rc -ne 137 || $2 == signal9 ]] || { echo "status $rc"; cat out; return 1; }
  grep -qE "^allreduce 'x': rank 2 \\(process [0-9]+ on .*\\) died$" out || { cat out; return 1; }
  not grep -qE "^(allreduce 'x': )?rank [013] \\(process" out
}

@test "P6 survivors name the rank under Open MPI (PMIx) and MPICH (PMI)" {
  [[ -n ${RINGUP_TEST_LONG:-} ]] || skip "a part of the long form: RINGUP_TEST_LONG=1"
  local kind runner tried=0
  for kind in openmpi mpich; do
    runner=RINGUP_TEST_${kind^^}
    [[ -x ${!runner:-} ]] || continue
    tried=1
    of_mpirun "$kind" exit3
    of_mpirun "$kind" signal9
  done
  ((tried)) || skip "neither Open MPI nor MPICH is installed"
}
