# shellcheck shell=bash disable=SC2034
# launcher.bash - start `ringup run` in the background, find its processes and end them; after await.bash.

# launcher_setup - no job's and no other launcher's variables, a folder of the test's own.
launcher_setup() {
  local v
  for v in $(compgen -e | grep -vE '^RINGUP_TEST_' | grep -E '^(RINGUP|HOROVOD|OMPI|PMI|PMIX|SLURM|TORCHELASTIC)_|^(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|OMP_NUM_THREADS)$'); do
    unset "$v"
  done
  cd "$BATS_TEST_TMPDIR" || return
  launcher='' timer=''
}

# marked - numbers of the processes that carry this test's mark in their environment.
marked() {
  grep -lzxF "RUN_TEST=$BATS_TEST_TMPDIR" /proc/[0-9]*/environ 2>/dev/null | grep -o '[0-9]*' || true
}

# launcher_teardown - a test that fails half-way leaves nothing behind either.
launcher_teardown() {
  local pid
  for pid in $(marked); do
    kill -KILL "$pid" 2>/dev/null || true
  done
}

# launch COMMAND... - start it in the background, with the mark and 200 seconds at most; sets $timer and $launcher.
launch() {
  RUN_TEST=$BATS_TEST_TMPDIR timeout --foreground 200 "$@" 3>&- &
  timer=$!
  await launched
}

# launched - is the launcher there, or gone already?  Sets $launcher.
launched() {
  launcher=$(cat "/proc/$timer/task/$timer/children" 2>/dev/null) || true
  launcher=${launcher% }
  [[ -n $launcher ]] || gone "$timer"
}

# gone PID... - none of them is alive; a zombie is not.
gone() {
  local p
  for p; do
    [[ ! -e /proc/$p/stat ]] || [[ $(sed 's/.*) \(.\).*/\1/' "/proc/$p/stat" 2>/dev/null) == [ZX] ]] || return 1
  done
}

# small_room NAME MIB - make a control group with so little memory, of whichever version; sets room and path.
small_room() {
  path=/ringup.$1
  if [[ -w /sys/fs/cgroup/memory/cgroup.procs ]]; then
    room=/sys/fs/cgroup/memory$path
    mkdir "$room" && echo $(($2 << 20)) >"$room/memory.limit_in_bytes" || return 1
    echo $(($2 << 20)) >"$room/memory.memsw.limit_in_bytes" 2>/dev/null || true
  else
    room=/sys/fs/cgroup$path
    [[ -w ${room%/*}/cgroup.procs ]] && mkdir "$room" && [[ -e $room/memory.max ]] || return 1
    echo $(($2 << 20)) >"$room/memory.max"
    echo 0 >"$room/memory.swap.max" 2>/dev/null || true
  fi
}
