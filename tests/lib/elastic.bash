# shellcheck shell=bash disable=SC2034,SC2154
# elastic.bash - start `ringup run` of the program regroup in the background, and count its messages; after launcher.bash.

regroup=$PWD/tests/programs/regroup

# elastic_setup - as launcher_setup; ranks are started here.
elastic_setup() {
  launcher_setup
  within=()
}

# elastic ARG... - start `ringup run ARG... regroup .`, by the words of ${within[@]}; sets $timer and $launcher.
elastic() {
  launch "${within[@]}" ringup run "$@" -- "$regroup" . >out 2>&1
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
