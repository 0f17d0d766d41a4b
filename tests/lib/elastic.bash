# shellcheck shell=bash disable=SC2034,SC2154
# elastic.bash - start `ringup run` of the program regroup in the background, and count what it says; after await.bash.

regroup=$PWD/tests/programs/regroup

# elastic_setup - no job's variables, a folder of the test's own.
elastic_setup() {
  local v
  for v in $(compgen -e | grep -vE '^RINGUP_TEST_' | grep -E '^(RINGUP|HOROVOD)_|^(RANK|WORLD_SIZE)$'); do
    unset "$v"
  done
  cd "$BATS_TEST_TMPDIR" || return
  timer=
  within=()
}

# marked - numbers of the processes that carry this test's mark in their environment.
marked() {
  grep -lzxF "RUN_TEST=$BATS_TEST_TMPDIR" /proc/[0-9]*/environ 2>/dev/null | grep -o '[0-9]*' || true
}

# elastic_teardown - a test that fails half-way leaves nothing behind either.
elastic_teardown() {
  local pid
  for pid in $(marked); do
    kill -KILL "$pid" 2>/dev/null || true
  done
}

# elastic ARG... - start `ringup run ARG... regroup .`, by the words of ${within[@]}; sets $launcher.
elastic() {
  RUN_TEST=$BATS_TEST_TMPDIR timeout --foreground 200 "${within[@]}" ringup run "$@" -- "$regroup" . >out 2>&1 3>&- &
  timer=$!
  launcher=
  until [[ -n $launcher ]]; do
    launcher=$(cat "/proc/$timer/task/$timer/children")
    launcher=${launcher% }
    sleep 0.01
  done
}

# met GENERATION SIZE - has each rank of it said that it has met the others, and added up?
met() {
  [[ $(grep -c " generation $1 rank [0-9]* of $2 .* sum $2 " out) -eq $2 ]]
}

# complete SIZE - has a generation of that size met, the last one, and not the first?
complete() {
  local g
  g=$(sed -n 's/.* generation \([0-9]*\) rank .*/\1/p' out | sort -n | tail -n 1)
  [[ -n $g && $g -gt 1 ]] && met "$g" "$1"
}

# pid_of GENERATION RANK
pid_of() {
  sed -n "s/.* generation $1 rank $2 of .* pid //p" out
}

# ends STATUS - let the ranks stop; the job ends so.
ends() {
  touch stop
  over "$1"
}

# over STATUS - the job ends so.
over() {
  local rc=0
  wait "$timer" || rc=$?
  cat out
  [[ $rc -eq $1 ]] || { echo "status $rc, expected $1"; return 1; }
}

# told TEXT - has the launcher said so?
told() {
  grep -qF "ringup run: $1" out
}
