# shellcheck shell=bash disable=SC2034,SC2154
# bench.bash - run `ringup bench`, and read what it says.

# bench_setup - an environment without other launchers' words.
bench_setup() {
  local v
  for v in $(compgen -e | grep -E '^(RINGUP|HOROVOD|OMPI|PMI|PMIX|SLURM|TORCHELASTIC)_|^(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)$' | grep -v '^RINGUP_TEST_'); do
    unset "$v"
  done
}

# bench ARG... - three samples of each size.
bench() {
  run timeout 200 ringup bench -i 3 "$@"
}

# long_form - is this the long form, which leaves nothing out?
long_form() {
  [[ -n ${RINGUP_TEST_LONG:-} && $RINGUP_TEST_LONG != 0 ]]
}

# field NAME - of each line of JSON in $output.
field() {
  sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" <<<"$output"
}

# players - of each line of JSON in $output: whether ours was wrong, its peers, and whether they were.
players() {
  sed -nE 's/.*"wrong":([0-9a-z]+),"peers":\[(.*)\].*/\1 \2/p' <<<"$output" |
    sed -E 's/\{"name":"([a-z]+)"[^}]*"wrong":([0-9a-z]+)\}/\1 \2/g'
}

# need_openmpi - or skip.
need_openmpi() {
  command -v mpicc.openmpi >/dev/null || skip "Open MPI is not installed"
}

# private_tmp - all temporary files of this test lie in a $TMPDIR of its own.
private_tmp() {
  export TMPDIR=$BATS_TEST_TMPDIR/tmp
  mkdir "$TMPDIR"
}

# leftovers - print what ringup bench has left in $TMPDIR.
leftovers() {
  find "$TMPDIR" -mindepth 1
}

# lines N FILE - has the file that many lines, or more?
lines() {
  [[ $(wc -l <"$2") -ge $1 ]]
}
