# shellcheck shell=bash
# 70-verify.bash - test sums and training with four ranks, and the network to other nodes.

limits 70 240
optional 30

tool=$INIT_ROOT/opt/ringup/current/bin/ringup
shared=$INIT_ROOT/opt/ringup/current/share/ringup
ranks=4
prove_s=$(( 120 * ${INIT_PACE:-1} ))
[[ ! ${RINGUP_PROVE_MS:-} =~ ^[1-9][0-9]{3,8}$ ]] || prove_s=$(( RINGUP_PROVE_MS / 1000 ))
watcher='' changes=''

# step_inputs - the release, what it stands on, and this boot: the proof is about
# this machine as it runs now.
step_inputs() {
  engine_current
  slurp /proc/sys/kernel/random/boot_id
  printf '\n%s' "$REPLY"
  peers
  facts 50-frameworks
  facts 55-rebuild
  facts 60-network
}

# step_done - proved once with these inputs is proved.
step_done() { :; }

# allreduce BACKEND - print its bandwidth in GB/s.  The command compares every element of
# every sum; that it was asked for this back end and these ranks is not taken on trust.
allreduce() {
  local said again why
  where_log; again="$REPLY; try: ringup bench allreduce -n $ranks --backend $1 --check"
  heard 0 "$tool" bench allreduce -n "$ranks" --backend "$1" --sizes 1M --check --json ||
    { why=$REPLY; stop 70 "an allreduce of $ranks ranks over $1 failed: $why" "$again"; }
  [[ $(json_of backend "$said") == "$1" && $(json_of ranks "$said") == "$ranks" && $(json_of wrong "$said") == 0 ]] ||
    stop 70 "ringup bench over $1 did not report $ranks ranks with correct sums" "$again"
  printf '%.2f\n' "$(json_of busbw_gbs "$said")"
}

# trainer - print the Python that trains: the one with ringup's package, else any with ctypes.
trainer() {
  local p
  noted 50-frameworks $'fact\tpath'; p=$REPLY
  noted_package
  if [[ -n $p && -n $REPLY ]]; then
    printf '%s\n' "$p"
  else
    command -v python3 || true
  fi
}

# train PYTHON - a few steps on different data per rank; weights compared bit for bit; sets said, or REPLY
# to why it failed.  The package is the installed release's own where PYTHON has none.
train() {
  local -a where=(env RINGUP_LIBRARY="$INIT_ROOT/opt/ringup/current/lib/libringup.so.0")
  as_owner "$1" "$1" -I -c 'import ringup.job' 2>/dev/null || where+=(PYTHONPATH="$shared/compat/python")
  heard "$prove_s" as_owner "$1" timeout --kill-after=10 "$prove_s" "$tool" run --no-prefix -np "$ranks" -- "${where[@]}" "$1" "$shared/init-scripts/lib/train_check.py"
}

# peers - print the nodes of the cluster, one a line, as the user or a scheduler names them.
peers() {
  [[ -n ${RINGUP_PEERS:-}${SLURM_JOB_NODELIST:-}${LSB_HOSTS:-} || -r ${PBS_NODEFILE:-} ]] || return 0
  if [[ -n ${RINGUP_PEERS:-} ]]; then
    tr -s ' ,\t' '\n' <<<"$RINGUP_PEERS"
  elif [[ -n ${SLURM_JOB_NODELIST:-} ]]; then
    scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null || true
  elif [[ -r ${PBS_NODEFILE:-} ]]; then
    cat -- "$PBS_NODEFILE"
  elif [[ -n ${LSB_HOSTS:-} ]]; then
    tr -s ' ' '\n' <<<"$LSB_HOSTS"
  fi | awk 'NF && !seen[$1]++ { print $1 }'
}

# is_ready PEER SECONDS - has it ringup, now or soon?  1: not yet, 2: ssh does not work without asking.
is_ready() {
  local deadline rc
  uptime; deadline=$((REPLY + $2))
  while :; do
    rc=0
    timeout 10 ssh -n -o BatchMode=yes -o ConnectTimeout=5 -- "$1" test -x "$tool" >/dev/null 2>&1 || rc=$?
    (( rc > 1 )) && return 2
    uptime
    (( rc == 0 || REPLY >= deadline )) && return "$rc"
    sleep 3
  done
}

# check_peers - is the network between all nodes in order?  Of a scheduler's nodes, which all run
# this, the first one asks.
check_peers() {
  local self peer rc verdict began wait=45
  local -a nodes
  self=$(uname -n)
  mapfile -t nodes < <(peers)
  if [[ ${#nodes[@]} -gt 0 && -n ${RINGUP_PEERS:-} && " ${nodes[*]%%.*} " != *" ${self%%.*} "* ]]; then
    nodes=("$self" "${nodes[@]}")
  fi
  if (( ${#nodes[@]} < 2 )); then
    fact peers "skipped: no other node is known"
    return 0
  elif [[ ${nodes[0]%%.*} != "${self%%.*}" || $(node_role) == executor ]]; then
    fact peers "skipped: the driver, or ${nodes[0]}, checks the network"
    return 0
  fi
  uptime; began=$REPLY
  for peer in "${nodes[@]}"; do
    rc=0
    is_ready "$peer" "$wait" || rc=$?
    case $rc in
      1) fact peers "skipped: $peer has no $tool yet"; return 0 ;;
      2) fact peers "skipped: ssh to $peer asks for a password or fails"; return 0 ;;
    esac
    # Who was waited for has had its time; so have the others.
    uptime
    (( REPLY - began < 60 )) || wait=0
  done
  rc=0
  verdict=$(timeout "$(( 90 * ${INIT_PACE:-1} ))" "$tool" net check --quick --ringup "$tool" "${nodes[@]}") || rc=$?
  printf '%s\n' "$verdict" >&2
  verdict=${verdict%%$'\n'*}
  (( rc != 124 )) || verdict="the check did not finish within $(( 90 * ${INIT_PACE:-1} )) s"
  where_log
  (( rc == 0 )) || stop 71 "the network between ${#nodes[@]} nodes: ${verdict:-the check failed}" \
    "$REPLY; try: ringup net check ${nodes[*]}"
  fact peers "$verdict"
}

# watch_network - take note of what happens to the network until this process ends, in a file
# that has no name by then: nobody has to remove it, however this ends.
watch_network() {
  local file out
  file=$(mktemp "$INIT_STATE/.watch.XXXXXX.new") # of which folders() rids a run that was killed here
  exec {changes}<"$file"
  exec {out}>"$file"
  rm -f -- "$file"
  "$tool" net watch --for 300 1>&"$out" 2>/dev/null &
  watcher=$!
  exec {out}>&-
  trap 'kill "$watcher" 2>/dev/null || true' EXIT
}

# report_network - what has happened, beside that the watch began.
report_network() {
  local line
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  while IFS= read -r line; do
    warn "the network changed during the check: ${line#* }"
  done < <(grep -v ' watching [0-9]* interfaces$' <&"$changes" | grep -v ' no library would pick another interface$' | head -n 3)
}

# step_apply - verify, and tell what the network does meanwhile.
step_apply() {
  if [[ ${DRY_RUN:-0} == 1 ]]; then
    log act "allreduce of $ranks ranks over shared memory and TCP; a few steps of training; ringup net check of all nodes"
    return 0
  fi
  [[ -x $tool ]] || die "ringup is not installed yet"
  watch_network
  verify_ranks
  check_peers
  report_network
}

# not_trained PYTHON - stop: the training failed, and REPLY tells why.
not_trained() {
  local why=$REPLY
  where_log
  case $why in
    'rank '[0-9]*) stop 70 "$ranks ranks trained with $1 and got different or wrong weights: $why" "$REPLY" ;;
    'it did not end within'*) stop 70 "the training of $ranks ranks with $1: $why" \
      "$REPLY; RINGUP_PROVE_MS=$(( prove_s * 3000 )) allows more time" ;;
    *) stop 70 "the training of $ranks ranks with $1 failed: $why" "$REPLY" ;;
  esac
}

# verify_ranks - add up over both wires, then train.
verify_ranks() {
  local python said gbps
  gbps=$(allreduce node)
  number shm_gbps "$gbps"
  gbps=$(allreduce tcp)
  number tcp_gbps "$gbps"
  number ranks "$ranks"
  python=$(trainer)
  if [[ -z $python || ! -r $shared/compat/python/ringup/__init__.py ]]; then
    fact training "skipped: no Python on this node"
    return 0
  fi
  log info "$ranks ranks train with $python"
  train "$python" || not_trained "$python"
  number train_step_ms "$(json_of step_ms "$said")"
  fact training "$ranks ranks agreed bit for bit after $(json_of steps "$said") steps of $(json_of framework "$said"), $(json_of step_ms "$said") ms each"
}
