# shellcheck shell=bash disable=SC2034,SC2154
# scenes.bash - jobs on a cluster that hang because of their network; after fault.bash and hosts.bash.

# scenes_setup - no job has been started.
scenes_setup() {
  fault_setup
  declare -gA started=()
}

# site - what a site with Open MPI has set on all its nodes: nothing about interfaces.
site=(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=/run/nodes/rsh
  OMPI_MCA_pml=ob1 OMPI_MCA_btl='^openib')

# start NODE NAME COMMAND... - in the background, three minutes at most; output to NAME.log.
start() {
  # Emptied before the job starts: its log may still have the words of an earlier job of this name.
  : >"$2.log"
  rm -f "$2.pid"
  # shellcheck disable=SC2016
  at "$1" env "${site[@]}" bash -c 'echo $$ >"$0"; exec timeout -k 1 180 "$@"' "$PWD/$2.pid" "${@:3}" \
    </dev/null >"$2.log" 2>&1 3>&- &
  started[$2]=$!
}

# words NAME - what it has said, but for races that mpirun loses on a busy machine, and tells, and
# what the shell here says of a job that it ends.
words() {
  grep -vE 'plm:rsh: Warning: setpgid.* failed in parent|ORTE_ERROR_LOG: Data unpack would read past end|lib/hosts\.bash: line [0-9]+: ' \
    "$1.log" || true
}

# finish NAME - wait for it; sets status and output.
finish() {
  status=0
  wait "${started[$1]}" || status=$?
  output=$(words "$1")
}

# hangs NAME - is it still there two seconds later?  Ends it.
hangs() {
  sleep 2
  room kill -TERM "$(cat "$1.pid")" || { echo "$1 has ended:" && cat "$1.log" && return 1; }
  finish "$1"
}

# completes COMMAND... - on n1 in good time; sets output.
completes() {
  start n1 job "$@"
  finish job
  expect_status 0
}

# picks NODE LIBRARY ROLE [VAR=VALUE...] - the addresses it would take there, as ringup says.
picks() {
  at "$1" env "${@:4}" ringup net explain --lib "$2" --json |
    jq -r --arg role "$3" '.libraries[0].roles[] | select(.role == $role) | .picks[].address'
}

# diagnosed NAME SIGNATURE... - of its log `ringup diagnose` says one of these first.
diagnosed() {
  local first
  run at n1 ringup diagnose --json "$PWD/$1.log"
  expect_status 1
  first=$(jq -r '.findings[0].signature' <<<"$output")
  [[ " ${*:2} " == *" $first "* ]] || { printf 'not %s: %s\n' "${*:2}" "$output"; return 1; }
}

# on_all N COMMAND... - on each of N nodes, which must all succeed.
on_all() {
  local n=$1 k
  shift
  for ((k = 1; k <= n; k++)); do at "n$k" "$@" || return 1; done
}

# says TEXT - has the job said so by now, or soon?  Then it hangs.
says() {
  await grep -qF "$1" job.log
  hangs job
}

# verdict STATUS PATTERN - what the first line of a check of n1, n2 and n3 is like.
verdict() {
  run at n1 ringup net check --timeout 60 --ssh /run/nodes/rsh n1 n2 n3
  first_line "$@"
}

# first_line STATUS PATTERN - is that what `run` has brought?
first_line() {
  # shellcheck disable=SC2053
  [[ $status -eq $1 && ${lines[0]} == $2 ]] || {
    printf 'status %s, expected %s: %s\nprinted:\n%s\n' "$status" "$1" "$2" "$output"
    return 1
  }
}
