#!/usr/bin/env bats
# launcher.bats - signals to launchers, their death, and what is left: F27, F28, F30, F31.

load ../lib/helper
load ../lib/fault

setup() {
  fault_setup
  export TMPDIR=$PWD/tmp
  mkdir tmp
}
teardown() { fault_teardown; }

# ranks - the processes of all that are ready.
ranks() {
  awk '$1 == "ready" { print $3 }' out
}

# traces - what could be left over: named shared memory, temporary files.  Sockets have
# no names in any file system and go with their processes.
traces() {
  find /dev/shm -name '*ringup*'
  find "$TMPDIR" -mindepth 1
}

# killed_launcher NP - kill -9 of `ringup run`, and all is gone.
killed_launcher() {
  local at gone
  begin -np "$1" --no-prefix -- "$loop" -b 65536
  await said "$1" ready
  # shellcheck disable=SC2046
  read -r at gone < <("$strike" 9 "$launcher" -- $(ranks))
  took=$(((gone - at) / 1000000)) what="kill -9 of ringup run, $1 ranks"
  within 1000
  end
  await nothing_left
  [[ -z $(traces) ]]
}

# nothing_left - has everything gone?
nothing_left() {
  [[ -z $(left) ]]
}

@test "F27 the launcher is killed: so are the ranks, and nothing is left" {
  fault=27
  killed_launcher 4
  killed_launcher 1
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
  within 2000
  end
  await nothing_left
}

# signalled NAME STATUS - a signal to `ringup run` ends all, with 128 + its number.
signalled() {
  local at gone
  begin -np 3 --no-prefix -- "$loop" -b 4096
  await said 3 ready
  # shellcheck disable=SC2046
  read -r at gone < <("$strike" "$(kill -l "$1")" "$launcher" -- $(ranks))
  took=$(((gone - at) / 1000000)) what="SIG$1"
  within 5500
  end
  expect_status "$2"
  nothing_left
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
  await grep -q 'ready 1' out
  local at=${EPOCHREALTIME/./}
  kill -TERM "$launcher"
  end
  expect_status 143
  ((${EPOCHREALTIME/./} - at < 5000000))
  nothing_left
}

@test "F44 a rank without /proc is a rank all the same" {
  [[ $EUID -eq 0 ]] && unshare -m true 2>/dev/null || skip "needs root and mount namespaces"
  begin -np 2 --no-prefix -- unshare -m bash -c 'mount -t tmpfs none /proc && exec "$0" -n 50' "$loop"
  end
  expect_status 0
  said 2 "done"
}
