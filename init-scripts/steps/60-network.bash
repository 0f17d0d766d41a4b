# shellcheck shell=bash
# 60-network.bash - configure one interface for NCCL, Gloo, Open MPI and Horovod: `ringup net fix`.

limits 60 60

tool=$INIT_ROOT/opt/ringup/current/bin/ringup
would='' status=0

# fix WORD... - `ringup net fix` on this node or tree.  (The command reads
# DB_CONTAINER_IP itself: who owns that address is the interface.)
fix() {
  local -a where=()
  [[ -z $INIT_ROOT ]] || where=(--root "$INIT_ROOT")
  [[ -z ${RINGUP_INTERFACE:-} || $* == *--undo* ]] || where+=(--interface "$RINGUP_INTERFACE")
  "$tool" net fix "${where[@]}" "$@"
}

# step_look - what settling would choose, and change.
step_look() {
  would='' status=0
  [[ ! -x $tool ]] || would=$(fix --dry-run --json 2>/dev/null) || status=$?
}

# chosen - print NAME ADDRESS of the interface that it settles on, or nothing.
chosen() {
  local name
  json_word interface "$would"; name=$REPLY
  json_word address "$would"
  printf '%s %s\n' "$name" "$REPLY"
}

# step_inputs - the interface that is chosen, and who says so.
step_inputs() {
  engine_current
  printf '\n%s\n' "${RINGUP_INTERFACE:-}" "${DB_CONTAINER_IP:-}"
  chosen
}

# is_settled - would settling change nothing?  (What it would change has a patch.)
is_settled() { [[ $status == 0 && -n $would && $would != *'"patch": "'* ]]; }

# step_done - that is so.
step_done() { is_settled; }

# step_apply - settle, which also verifies what each library then takes, and compare with
# what the platform says.
step_apply() {
  local said name address rc=0
  if [[ ${DRY_RUN:-0} == 1 && ! -x $tool ]]; then
    log act "ringup net fix"
    return 0
  fi
  [[ -x $tool ]] || die "ringup is not installed yet"
  if [[ ${DRY_RUN:-0} == 1 ]]; then
    fix --dry-run || (( $? == 1 ))
    return 0
  fi
  step_look
  [[ -e $INIT_STATE/state/60-network ]] || is_settled || tell fresh yes
  said=$(fix 2>&1) || rc=$?
  printf '%s\n' "$said"
  (( rc == 0 )) || { why "$rc" "$said"; return 0; }
  step_look
  read -r name address < <(chosen) || true
  if [[ -n ${DB_CONTAINER_IP:-} && -n $address && $address != "$DB_CONTAINER_IP" ]]; then
    stop 62 "ringup chooses $name ($address), but according to the platform this node has the address $DB_CONTAINER_IP" \
      "compare 'ringup net explain' with 'ip address'; choose an interface with RINGUP_INTERFACE=NAME"
  fi
  fact interface "$name"
  fact address "$address"
  fact chosen "$name${address:+, $address}; configured for NCCL, Gloo, Open MPI and Horovod"
}

# why STATUS TEXT - stop with the code that the command's words mean; a node that is
# told of no others needs no network.
why() {
  local code=60 cause
  cause=$(tail -n 1 <<<"$2")
  cause=${cause#ringup net fix: }
  if [[ $1 == 1 && $cause == *"this host has no network"* && -z ${DB_DRIVER_IP:-} && $(node_platform) == generic ]]; then
    skip "$cause"
    return 0
  fi
  case $cause in
    *" tie ("*) code=61 ;;
    *"no such interface"* | *"no usable address"* | *"is down"* | *" will not use "*) code=62 ;;
  esac
  stop "$code" "the network could not be configured: $cause" \
    "see 'ringup net fix --dry-run'; choose an interface with RINGUP_INTERFACE=NAME"
}

# step_undo - remove the settings.
step_undo() {
  [[ ! -x $tool ]] || act fix --undo
}

# step_back - a later step has failed: settings that were not there before go.
step_back() {
  noted 60-network fresh
  [[ $REPLY != yes ]] || step_undo
}
