# shellcheck shell=bash
# 60-network.bash - one interface for NCCL, Gloo, Open MPI and Horovod, by `ringup net`.

limits 60 60

tool=$INIT_ROOT/opt/ringup/current/bin/ringup

# pin WORD... - `ringup net pin` on this node or tree.  (The command reads
# DB_CONTAINER_IP itself: who owns that address is the interface.)
pin() {
  local -a where=()
  [[ -z $INIT_ROOT ]] || where=(--root "$INIT_ROOT")
  [[ -z ${RINGUP_INTERFACE:-} ]] || where+=(--interface "$RINGUP_INTERFACE")
  "$tool" net pin "${where[@]}" "$@"
}

# chosen - print NAME ADDRESS of the interface that ringup chooses, or nothing.
chosen() {
  "$tool" net explain --json 2>/dev/null | python3 -I -c '
import json, sys
c = json.load(sys.stdin)["choice"]
print(c.get("interface") or "", c.get("address") or "")' 2>/dev/null || true
}

# step_inputs - the interface that is chosen, and who says so.
step_inputs() {
  readlink -- "$INIT_ROOT/opt/ringup/current" || true
  printf '%s\n' "${RINGUP_INTERFACE:-}" "${DB_CONTAINER_IP:-}"
  [[ ! -x $tool ]] || chosen
}

# step_done - pinning would change nothing.
step_done() {
  local would
  [[ -x $tool ]] || return 1
  would=$(pin --dry-run 2>/dev/null)
  [[ -z $would ]]
}

# step_apply - pin, and compare with what the platform says.
step_apply() {
  local said name address rc=0
  if [[ ${DRY_RUN:-0} == 1 && ! -x $tool ]]; then
    log act "ringup net pin"
    return 0
  fi
  [[ -x $tool ]] || die "ringup is not installed yet"
  if [[ ${DRY_RUN:-0} == 1 ]]; then
    pin --dry-run || (( $? == 1 ))
    return 0
  fi
  said=$(pin 2>&1) || rc=$?
  printf '%s\n' "$said"
  (( rc == 0 )) || { why "$rc" "${said#ringup net pin: }"; return 0; }
  read -r name address < <(chosen) || true
  if [[ -n ${DB_CONTAINER_IP:-} && -n $address && $address != "$DB_CONTAINER_IP" ]]; then
    stop 62 "ringup chooses $name ($address), but the platform says this node is $DB_CONTAINER_IP" \
      "compare 'ringup net explain' with 'ip address'; RINGUP_INTERFACE=NAME decides"
  fi
  fact interface "$name"
  fact address "$address"
  fact chosen "$name${address:+, $address}; pinned for NCCL, Gloo, Open MPI and Horovod"
}

# why STATUS TEXT - stop with the code that the command's words mean; a node that is
# told of no others needs no network.
why() {
  local code=60
  if [[ $1 == 1 && -z ${DB_DRIVER_IP:-} && $(node_platform) == generic ]]; then
    skip "$2"
    return 0
  fi
  case $2 in
    *" tie ("*) code=61 ;;
    *"no such interface"* | *"no usable address"* | *"is down"*) code=62 ;;
  esac
  stop "$code" "the network could not be pinned: $(tail -n 1 <<<"$2")" \
    "see 'ringup net explain'; RINGUP_INTERFACE=NAME decides"
}

# step_undo - remove the settings.
step_undo() {
  [[ ! -x $tool ]] || act pin --undo
}
