# shellcheck shell=bash disable=SC2154
# upstream.bash - environments for which upstream's Horovod is really built.

# setup - what each of these tests needs.
setup() {
  command -v cmake g++ >/dev/null || skip "no cmake or no g++"
  export TMPDIR=${TMPDIR:-/tmp}
  venv=$BATS_TEST_TMPDIR/venv
}

# updated PACKAGE WAS IS - pip brings another; doctor says so, with the one command, which is then run.
updated() {
  local -a command
  "$venv/bin/python" -m pip install -q "$1==$3" || skip "cannot get $1 $3"
  run ringup doctor --python "$venv"
  expect_status 1
  echo "$output"
  grep -q "${1%-cpu} was $2[^ ]* when horovod was built for $venv.*, and is $3" <<<"$output"
  read -ra command < <(sed -n 's/^ *fix: *\(ringup rebuild .*\)/\1/p' <<<"$output" | grep -m 1 -F "$venv")
  [[ ${command[*]} == *"--engine horovod"*"--accept CVE-2024-10190" ]]
  built "${command[@]}" --without-mpi
}

# environment PACKAGE... - a fresh one that has these.
environment() {
  { python3 -m venv "$venv" && "$venv/bin/python" -m pip install -q "$@"; } || skip "cannot get $*"
}

# rebuild ARG... - for that environment.
rebuild() { built ringup rebuild --engine horovod --python "$venv" --accept CVE-2024-10190 "$@"; }

# built COMMAND... - run a rebuild; shows the log's end if it fails.
built() {
  run --separate-stderr "$@"
  [[ $status -eq 0 ]] || {
    echo "$stderr"
    tail -n 40 "$(sed -n 's/^log: //p' <<<"$stderr")"
    return 1
  }
  rm -f "$(sed -n 's/^log: //p' <<<"$stderr")"
}

# in_two_ranks FILE ARG... - by the horovodrun that was built.
in_two_ranks() {
  "$venv/bin/horovodrun" -np 2 -H localhost:2 --gloo --network-interfaces lo \
    "$venv/bin/python" "$@"
}
