#!/usr/bin/env bats
# scenes-pages.bats - the commands of README.md and docs/network.md print what the pages say.
# needs: waits root-net
# tests: README.md docs/network.md src/nicpick src/probe src/detect/netfacts.c src/settle src/diagnose src/host src/base src/cli/cmd_net*.c src/cli/cmd_diagnose.c tests/lib/scenes.bash tests/lib/hosts.bash tests/lib/real.bash tests/net/allreduce.c

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/real
load ../lib/scenes

setup() { scenes_setup; }
teardown() { cluster_down; }

# examples FILE DIR - the commands of its console blocks as DIR/BLOCK.N.cmd, what they print as .want.
examples() {
  mkdir "$2"
  awk -v out="$2/" '
    /^```console/ { block++; on = 1; next }
    /^```/ { on = 0 }
    on && /^\$ / { f = sprintf("%s%02d.%02d", out, block, ++n); print substr($0, 3) >(f ".cmd"); printf "" >(f ".want"); next }
    on { print >(f ".want") }' "$1"
}

# alike TEXT PATTERN - is it the text, where "..." stands for anything?
alike() {
  local pattern
  pattern=$(sed 's/[][\\*?()+@!|]/\\&/g; s/\.\.\./*/g' <<<"$2")
  # shellcheck disable=SC2053
  [[ $1 == $pattern ]]
}

# example FILE COMMAND-FILE - does it print what the page says?
example() {
  local want
  # What mpirun says before, and in how many lines, is not the page's.
  want=$(sed 's/job\.log:[0-9]*/job.log:.../' "${2%.cmd}.want")
  start n1 example bash "$PWD/$2"
  finish example
  # A slow path may be found besides: that depends on what else this machine does.
  output=$(sed '1s/ (and [0-9]* more)$//' <<<"$output" | awk '
    /^warning: (a round trip from|[0-9.]+ [MG]B\/s from) / { slow = 1 }
    !slow { print }
    /^$/ { slow = 0 }')
  # Whether mpirun also tells of the daemons that it ends is a race of its own.
  output=${output%%$'\n\n'echoes of it, left out: *}
  ! alike "$output" "$want" || return 0
  printf '%s: %s\nexpected:\n%s\nprinted:\n%s\n' "$1" "$(cat "$2")" "$want" "$output"
  head -n 5 hung.log
  return 1
}

# fresh_pair - two nodes with docker0, ssh and a program `job`; on n1 what that said as job.log.
fresh_pair() {
  cluster_down
  cluster_up 2 docker
  ssh_up 2
  room cp "$job" /run/nodes/n1/login/job
  room cp "$job" /run/nodes/n2/login/job
  if [[ ! -e hung.log ]]; then
    start n1 job mpirun --host n1,n2 -np 2 ./job
    says 'accepted a TCP connection from what appears to be a'
    words job >hung.log
  fi
  room tee /run/nodes/n1/login/job.log <hung.log >/dev/null
}

@test "README.md, docs/network.md: every command prints what the page says" {
  need_mpi
  need_ssh
  local f cmd block
  for f in README.md docs/network.md; do
    rm -rf examples
    examples "$src/$f" examples
    block=''
    for cmd in examples/*.cmd; do
      [[ ${cmd%%.*} == "$block" ]] || fresh_pair
      block=${cmd%%.*}
      example "$f" "$cmd"
    done
  done
}
