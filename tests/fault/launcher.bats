#!/usr/bin/env bats
# launcher.bats - signals to launchers, their death, and what is left: F27 to F32.
# proves: P1 P6 P7 P8 of docs/RELIABILITY.md
# needs: waits
# tests: src/api src/backend src/base src/engine src/host src/launch src/wire src/cli/cmd_run.c tests/fault tests/lib/fault.bash

load ../lib/helper
load ../lib/fault

setup() {
  fault_setup
  export TMPDIR=$PWD/tmp
  mkdir tmp
  own_shm
}
teardown() {
  local group
  fault_teardown
  for group in /sys/fs/cgroup/{,memory/,freezer/}ringup.$$.*; do
    [[ ! -e $group ]] || await rmdir "$group" 2>/dev/null || true
  done
}

# own_shm - from now on `ringup run` has the folder shm as its /dev/shm, if we may do that: other
# tests have theirs.
own_shm() {
  mkdir shm bin
  [[ $EUID -eq 0 ]] && unshare -m true 2>/dev/null || return 0
  # shellcheck disable=SC2016
  printf '#!/bin/bash\nexec unshare -m bash -c %q _ %q %q "$@"\n' 'mount --bind "$1" /dev/shm && exec "${@:2}"' \
    "$PWD/shm" "$(command -v ringup)" >bin/ringup
  chmod +x bin/ringup
  PATH=$PWD/bin:$PATH
}

# ranks - the processes of all that are ready.
ranks() {
  awk '$1 == "ready" { print $3 }' out
}

# traces - what could be left over: named shared memory, temporary files.  Sockets have
# no names in any file system and go with their processes.
traces() {
  find shm "$TMPDIR" -mindepth 1
}

# killed_launcher NP - kill -9 of `ringup run`, and all is gone.
killed_launcher() {
  local at gone
  begin -np "$1" --no-prefix -- "$loop" -b 65536
  await said "$1" ready
  # shellcheck disable=SC2046
  read -r at gone < <("$strike" 9 "$launcher" -- $(ranks))
  took=$(((gone - at) / 1000000)) what="kill -9 of ringup run, $1 ranks"
  noted
  end
  await nothing_left
  [[ -z $(traces) ]]
}

@test "F27 the launcher is killed: so are the ranks, and nothing is left" {
  fault=27
  no_clock
  killed_launcher 4
  killed_launcher 1
  killed_launcher 3
}

@test "F27 mpirun is killed: the ranks notice and end" {
  [[ -n ${RINGUP_TEST_MPIRUN:-} ]] || skip "no mpirun"
  fault=27 what="kill -9 of mpirun, 3 ranks"
  local at gone
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout --foreground 100 \
    "$RINGUP_TEST_MPIRUN" --oversubscribe -np 3 "$loop" -p 10 >out 2>err 3>&- &
  timer=$!
  await said 3 ready
  launcher=$(cat "/proc/$timer/task/$timer/children")
  # shellcheck disable=SC2046
  read -r at gone < <("$strike" 9 "${launcher% }" -- $(ranks))
  took=$(((gone - at) / 1000000))
  noted
  end
  await nothing_left
}

# signalled NAME STATUS - a signal to `ringup run` ends all, with 128 + its number.
signalled() {
  local at gone
  # Those that had to be killed would be so after an hour.
  begin -np 3 --grace 3600 --no-prefix -- "$loop" -b 4096
  await said 3 ready
  # shellcheck disable=SC2046
  read -r at gone < <("$strike" "$(kill -l "$1")" "$launcher" -- $(ranks))
  took=$(((gone - at) / 1000000)) what="SIG$1"
  noted
  end
  expect_status "$2"
  await nothing_left
}

@test "F28 SIGTERM, SIGINT and SIGHUP to the launcher end the job, with 128 + the signal" {
  fault=28
  signalled TERM 143
  signalled INT 130
  signalled HUP 129
}

@test "F30 everything is killed at once, and the next job starts; nothing piles up" {
  local i n=5
  [[ ${RINGUP_TEST_LONG:-0} != 1 ]] || n=100
  for ((i = 0; i < n; i++)); do
    begin -np 4 --no-prefix -- "$loop" -b 4096
    await said 4 ready
    # shellcheck disable=SC2046
    "$strike" 9 "$launcher" $(ranks) -- $(ranks)
    end
  done
  await nothing_left
  [[ -z $(traces) ]]
  begin -np 4 --no-prefix -- "$loop" -n 20
  end
  expect_status 0
}

@test "F31 ranks that ignore SIGTERM are killed after the grace" {
  begin -np 2 --grace 1 -- bash -c 'trap "" TERM; echo ready; exec "$0" -b 64' "$loop"
  await grep -q 'ready 0' out
  await grep -q 'ready 1' out
  kill -TERM "$launcher"
  end
  expect_status 143
  [[ $(grep -cE '^ringup run: rank [01] .* did not end when told to and is killed$' err) -eq 2 ]] || { cat err; return 1; }
  await nothing_left
}

# helped RANK - a rank whose launcher is a node's helper: orted, as far as its name goes.
helped() {
  mkdir -p -m 700 meet "node.$1"
  cp "$BASH" "node.$1/orted"
  RINGUP_RANK=$1 RINGUP_SIZE=2 RINGUP_MEET=$PWD/meet RINGUP_JOB=helped RINGUP_BACKEND=tcp \
    "node.$1/orted" -c 'echo helper "$1" $$; "$0" -b 4096; exit' "$loop" "$1" >"out.$1" 2>>err 3>&- &
}

@test "F29 a node's helper is killed: all ranks hear which, and end" {
  local pid=1 rank
  helped 0
  helped 1
  for rank in 0 1; do await grep -q '^ready' "out.$rank"; done
  pid=$(awk '$1 == "helper" { print $3 }' out.1)
  kill -KILL "$pid"
  for rank in 0 1; do
    await grep -qE "^error $rank .* orted \\(process $pid on $(uname -n)\\), which had started this job's ranks there, died\$" "out.$rank"
  done
  await nothing_left
}

# hung - is the rank in the state of a process that the kernel does not give back?
hung() {
  [[ $(state_of "$(pid_of 1)") == D ]]
}

@test "F31 a rank that hangs in the kernel is named, with where, and given up" {
  local group=/sys/fs/cgroup/freezer/ringup.$$.hung pid
  [[ -w ${group%/*}/cgroup.procs ]] && mkdir "$group" || skip "needs a freezer of version 1"
  begin -np 2 --grace 1 --no-prefix -- "$loop" -b 64
  await said 2 ready
  pid=$(pid_of 1)
  echo "$pid" >"$group/cgroup.procs"
  echo FROZEN >"$group/freezer.state"
  await hung
  kill -TERM "$launcher"
  end
  echo THAWED >"$group/freezer.state"
  expect_status 143
  grep -qE "^ringup run: rank 1 \\(pid $pid\\) on $(uname -n) did not end when told to and is killed\$" err
  grep -qE "^ringup run: rank 1 \\(pid $pid\\) on $(uname -n) cannot be killed: it hangs in the kernel \\(state D(, in [a-z_]+)?\\); given up\$" err
  await nothing_left
}

@test "F32 a rank takes more memory than there is: the survivors and the launcher say so" {
  local room path where
  small_room "room.$$" 256 || skip "needs a control group for memory"
  not grep -q -e '-fsanitize' "${builddir:-.}/config.log" || skip "a sanitizer takes too much memory itself"
  mkdir caged
  printf '#!/bin/sh\necho $$ >%s/cgroup.procs\nexec %s "$@"\n' "$room" "$(command -v ringup)" >caged/ringup
  chmod +x caged/ringup
  where="out of memory in control group $path \\(256 MiB\\)"
  PATH=$PWD/caged:$PATH begin -np 3 --no-prefix -- "$loop" -b 4096 -m 1
  end
  expect_status 137
  blamed 2 1 -5
  [[ $(grep -cE "^error .* rank 1 .* died; $where\$" out) -eq 2 ]]
  grep -qE "^ringup run: rank 1 \\(pid $(pid_of 1)\\) on $(uname -n) was killed by signal 9 \\(Killed\\); $where\$" err
  await nothing_left
}

@test "F44 a rank without /proc is a rank all the same" {
  [[ $EUID -eq 0 ]] && unshare -m true 2>/dev/null || skip "needs root and mount namespaces"
  begin -np 2 --no-prefix -- unshare -m bash -c 'mount -t tmpfs none /proc && exec "$0" -n 50' "$loop"
  end
  expect_status 0
  said 2 "done"
}
