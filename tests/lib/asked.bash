# shellcheck shell=bash disable=SC2034,SC2154
# asked.bash - compare real libraries in $here (space.bash) with what `ringup net explain` says about them.
#
# What a library did is told as "expect" in tests/net/cases.h.  RINGUP_TEST_RECORD names a
# file to which every machine asked is appended as a case.

# asker_start - for setup_file: a process that loads NCCL and torch once and asks them in forks.
asker_start() {
  settings_hide "$BATS_FILE_TMPDIR/settings"
  mkfifo "$BATS_FILE_TMPDIR/requests" "$BATS_FILE_TMPDIR/answers"
  "${unsettled[@]}" "${RINGUP_TEST_PYTHON:-python3}" -I "$src/tests/net/ask_many.py" "$BATS_FILE_TMPDIR"/{requests,answers} \
    >"$BATS_FILE_TMPDIR/asker.log" 2>&1 3>&- &
  export RINGUP_TEST_ASKER=$!
}

# asker_stop - for teardown_file: end it.
asker_stop() {
  [[ -n ${RINGUP_TEST_ASKER:-} ]] || return 0
  kill "$RINGUP_TEST_ASKER" || true
  wait "$RINGUP_TEST_ASKER" 2>/dev/null || true
}

# asker WORD... - let it carry that out (ask_many.py); what the library said is in $BATS_TEST_TMPDIR/log,
# and what became of it in $reply.
asker() {
  kill -0 "$RINGUP_TEST_ASKER" || { cat "$BATS_FILE_TMPDIR/asker.log"; return 1; }
  printf '%s\0' "$(($# + 1))" "$1" "$BATS_TEST_TMPDIR/log" "${@:2}" 1<>"$BATS_FILE_TMPDIR/requests"
  read -rt 300 reply <>"$BATS_FILE_TMPDIR/answers" || { echo "no answer: $*"; return 1; }
  [[ $reply == "done 0" ]] || { echo "$1: $reply" && cat "$BATS_TEST_TMPDIR/log" "$BATS_FILE_TMPDIR/asker.log" && return 1; }
}

# differences EXPECT - of these roles from those that `ringup net explain` printed on stdin.
differences() {
  jq -c --argjson expect "$1" '
    def plain: sub("%.*"; "");
    (.libraries[0].roles | map({(.role): .}) | add) as $said |
    $expect | to_entries[] | .key as $role | .value as $real | $said[$role] as $r |
    [$r.picks[] | [.interface, (.address | plain)]] as $picks |
    (if $real.refuses then [$r.error != null and ($real.result == null or $real.result == $r.error.result)]
     elif $r.error then [false]
     elif $real.picks then [$real.picks == $picks]
     elif $real.pairs then [$real.pairs == ($picks | unique)]
     elif $real.addresses then [$real.addresses == [$picks[][1]]]
     else [$real.interfaces == ([$picks[][0]] | unique)] end) |
    select(.[0] | not) | {role: $role, real: $real, ringup: ($r.error // $picks)}'
}

# machine_now [VAR=VALUE...] - what there is in $here, as `ringup net snapshot` tells it.
machine_now() {
  inside "$@" ringup net snapshot | jq -c 'del(.sources)'
}

# agrees LIB VERSION ASK [VAR=VALUE...] - does the library do what ringup says?  ASK is a command
# that runs it with these variables and prints what it did.
agrees() {
  local lib=$1 version=$2 ask=$3 before after real said i
  shift 3
  after=$(machine_now "$@")
  # Links settle when the kernel likes; what was asked in between counts for nothing.
  for i in {1..10}; do
    before=$after
    real=$("$ask" "$@") || return 1
    real=$(jq -sc add <<<"$real")
    after=$(machine_now "$@")
    [[ $before != "$after" ]] || break
  done
  printf '%s\n' "$after" >"$BATS_TEST_TMPDIR/machine.json"
  [[ -z ${RINGUP_TEST_RECORD:-} ]] ||
    jq -c --arg lib "$lib" --arg version "$version" --argjson expect "$real" \
      '{id: "by-chance", lib: $lib, version: $version, machine: ., expect: $expect}' \
      <<<"$after" >>"$RINGUP_TEST_RECORD"
  said=$(inside ringup net explain --json --lib "$lib" --version "$version" \
    --snapshot "$BATS_TEST_TMPDIR/machine.json") || true # a refusal is status 1
  said=$(differences "$real" <<<"$said")
  [[ -n $said ]] || return 0
  printf '%s %s with: %s\n%s\nthe machine: %s\n' "$lib" "$version" "$*" "$said" "$after"
  return 1
}

# told ROLE WORD LINE... - {ROLE: {WORD: [LINE...]}}, or that it refuses if there is no line; a
# line "a b" becomes ["a","b"].
told() {
  jq -nc --arg role "$1" --arg word "$2" '
    [$ARGS.positional[] | if test(" ") then split(" ") else . end] as $list |
    {($role): (if $list == [] then {refuses: true} else {($word): $list} end)}' --args "${@:3}"
}

# mpi_log [VAR=VALUE...] - let a rank of $mpirun say what it takes, in $BATS_TEST_TMPDIR/log.
mpi_log() {
  # Some of these jobs are meant to fail, and a wrong pick may hang.
  inside "$@" "${mpi_env[@]}" timeout -k 1 60 "$mpirun" --allow-run-as-root --oversubscribe -np 1 --mca pml ob1 \
    --mca btl tcp,self --mca btl_base_verbose 100 "$mpi_oob" oob_base_verbose 100 "$job" \
    </dev/null >"$BATS_TEST_TMPDIR/log" 2>&1 || mpi_status=$?
  [[ -s $BATS_TEST_TMPDIR/log ]]
}

# mpi_oob - the addresses that mpirun publishes, by that log.
mpi_oob() {
  sed -n 's/.*oob:tcp:init adding \(.*\) to our list.*/\1/p' "$BATS_TEST_TMPDIR/log" | awk '!seen[$0]++'
}

# ask_mpi4, ask_mpi5 [VAR=VALUE...] - what Open MPI does; without control connections mpirun ends
# before any rank looks for its own.
ask_mpi4() {
  local -a oob btl mpi_env=()
  local mpirun=mpirun mpi_oob=--mca mpi_status=0
  mpi_log "$@" || return 1
  mapfile -t oob < <(mpi_oob)
  mapfile -t btl < <(sed -n 's/.*btl:tcp: using ipv[46] interface //p' "$BATS_TEST_TMPDIR/log" | LC_ALL=C sort -u)
  told oob addresses "${oob[@]}"
  ((${#oob[@]} == 0)) || told btl interfaces "${btl[@]}"
}

ask_mpi5() {
  local -a oob btl mpi_env=("LD_LIBRARY_PATH=$mpi5/lib")
  local mpirun=$mpi5/bin/mpirun mpi_oob=--prtemca mpi_status=0
  mpi_log "$@" || return 1
  mapfile -t oob < <(mpi_oob)
  # Modules that it made and then gave up are not exchanged.
  ! grep -qa 'btl: tcp: exchange:' "$BATS_TEST_TMPDIR/log" ||
    mapfile -t btl < <(sed -nE 's/.*btl:tcp: 0x[0-9a-f]+: if (.*) kidx .* addr (.*) IPv[46] .*/\1 \2/p' \
      "$BATS_TEST_TMPDIR/log" | LC_ALL=C sort -u)
  if ((${#oob[@]})); then
    told oob addresses "${oob[@]}"
    told btl pairs "${btl[@]}"
  else
    jq -nc '{oob: {refuses: true, result: $ARGS.positional[0]}}' --jsonargs "$mpi_status"
  fi
}

# nccl_log [VAR=VALUE...] - let NCCL set up its bootstrap, in $BATS_TEST_TMPDIR/log.
nccl_log() {
  asker nccl "$here" "$nccl" "PATH=$PATH" "HOME=$BATS_TEST_TMPDIR" "TMPDIR=$BATS_TEST_TMPDIR" LC_ALL=C "$@" \
    NCCL_DEBUG=INFO
}

# nccl_bootstrap - "INTERFACE ADDRESS" by that log, or nothing.  An alias has a colon of its own.
nccl_bootstrap() {
  sed -n 's/%[^<]*//; /Bootstrap *: Using /p' "$BATS_TEST_TMPDIR/log" |
    sed -nE 's/.*Using ([^:]+:[0-9]+):([0-9.]+)<[0-9]+>$/\1 \2/p; t; s/.*Using ([^:]+):(.*)<[0-9]+>$/\1 \2/p'
}

# ask_nccl [VAR=VALUE...] - what NCCL's bootstrap does: its log rather than the id, for with
# NCCL_COMM_ID the id holds that.
ask_nccl() {
  local result pick
  nccl_log "$@" >&2 || return 1
  result=$(sed -n 's/^refuses //p' "$BATS_TEST_TMPDIR/log")
  pick=$(nccl_bootstrap)
  if [[ -n $result ]]; then
    jq -nc '{bootstrap: {refuses: true, result: $ARGS.positional[0]}}' --jsonargs "$result"
  elif [[ -n $pick ]]; then
    told bootstrap picks "$pick"
  else
    cat "$BATS_TEST_TMPDIR/log" >&2
    return 1
  fi
}

# ask_ucx [VAR=VALUE...] - the devices that UCX's tcp has after UCX_NET_DEVICES and UCX_TLS.
ask_ucx() {
  local -a devices
  inside "$@" timeout 60 ucx_info -p -u t >"$BATS_TEST_TMPDIR/log" 2>&1 || true
  mapfile -t devices < <(sed -nE 's,.*resource +[0-9]+ .* tcp/([^ ]+).*,\1,p' "$BATS_TEST_TMPDIR/log" | LC_ALL=C sort -u)
  told tcp interfaces "${devices[@]}"
}

# ask_fabric [VAR=VALUE...] - the interfaces and addresses that libfabric's tcp offers, in its order.
ask_fabric() {
  local -a offers
  inside "$@" timeout 60 fi_info -p tcp -v >"$BATS_TEST_TMPDIR/log" 2>&1 || true
  mapfile -t offers < <(awk '/ src_addr: / { sub(/.*:\/\//, ""); sub(/:0$/, ""); gsub(/[][]|%.*/, ""); address = $0 }
    /fi_domain_attr/ { domain = 1 }
    domain && / name: / { offer = $2 " " address; domain = 0; if (!seen[offer]++) print offer }' "$BATS_TEST_TMPDIR/log")
  told tcp picks "${offers[@]}"
}

# gloo_log HOSTS VALUE... - let it listen on a host with that line in /etc/hosts, for each
# GLOO_SOCKET_IFNAME, in $BATS_TEST_TMPDIR/log.
gloo_log() {
  rm -rf "$BATS_TEST_TMPDIR/gloo"
  mkdir "$BATS_TEST_TMPDIR/gloo"
  printf '127.0.0.1 localhost\n%s\n' "$1" >"$BATS_TEST_TMPDIR/hosts"
  asker gloo "$here" "$BATS_TEST_TMPDIR/hosts" "$BATS_TEST_TMPDIR/gloo" "${@:2}" || {
    [[ $reply != "no "* ]] || skip "${reply#no }"
    return 1
  }
}

# same_gloo HOSTS VALUE... - does Gloo listen where ringup says, for each GLOO_SOCKET_IFNAME?
same_gloo() {
  local hosts=$1 v said real=$BATS_TEST_TMPDIR/real model=$BATS_TEST_TMPDIR/model
  shift
  gloo_log "$hosts" "$@" || return 1
  # Gloo may warn there of what it does.
  grep -a '^[^|]*|' "$BATS_TEST_TMPDIR/log" >"$real"
  for v in "$@"; do
    if [[ $v == - ]]; then
      said=$(named "$hosts" ringup net explain --json --lib gloo) || true # a tie is status 1
    else
      said=$(named "$hosts" env GLOO_SOCKET_IFNAME="$v" ringup net explain --json --lib gloo) || true
    fi
    jq -r --arg v "$v" '.libraries[0].roles[0] |
      "\($v)|\(if .error then "refuses" else [.picks[].address] | unique | join(" ") end)"' <<<"$said"
  done >"$model"
  diff "$real" "$model" || {
    echo "with hosts: $hosts (< Gloo, > ringup)"
    return 1
  }
}

# finding CODE [VAR=VALUE...] - what lint says of that kind, or nothing.
finding() {
  inside "${@:2}" ringup net lint --json |
    jq -c --arg c "$1" '[.findings[] | select(.code == $c)][0] | select(. != null)'
}

# cured_gloo CODE VALUE - lint says CODE of GLOO_SOCKET_IFNAME=VALUE, with which Gloo does not take
# 10.0.1.5, and with lint's line it does.
cured_gloo() {
  local said line
  said=$(finding "$1" "GLOO_SOCKET_IFNAME=$2")
  [[ -n $said ]] || { echo "no $1: $2"; return 1; }
  line=$(jq -r '.fix // empty' <<<"$said")
  line=$(bash -c "${line/export /printf %s }")
  gloo_log '127.0.1.1 node' "$2" "${line#*=}" || return 1
  grep -a '^[^|]*|' "$BATS_TEST_TMPDIR/log" >"$BATS_TEST_TMPDIR/real"
  [[ $(head -n 1 "$BATS_TEST_TMPDIR/real") != *'|10.0.1.5' && $(tail -n 1 "$BATS_TEST_TMPDIR/real") == "${line#*=}|10.0.1.5" ]] || {
    echo "not cured by $line: $2"
    cat "$BATS_TEST_TMPDIR/log"
    return 1
  }
}
