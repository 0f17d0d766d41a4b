# shellcheck shell=bash
# 55-rebuild.bash - an engine made, and proved, for this node's frameworks and MPIs: `ringup rebuild`.

limits 40 1700

tool=$INIT_ROOT/opt/ringup/current/bin/ringup

# Where RINGUP_ENGINE names none, it is ringup's own, for the package that 50-frameworks has
# installed.  (A tree below --root has no /opt/ringup to put modules into.)
noted 50-frameworks $'fact\tpackage'
engine=${RINGUP_ENGINE:-}
[[ -n $engine || -n $INIT_ROOT || -z $REPLY ]] || engine=ringup

# python - print the Python it is for.
python() {
  noted 50-frameworks $'fact\tpath'
  printf '%s\n' "$REPLY"
}

# step_inputs - which engine, for which frameworks.
step_inputs() {
  printf '%s\n' "$engine"
  [[ -n $engine ]] || return 0
  engine_current
  local fact
  for fact in path frameworks; do
    noted 50-frameworks $'fact\t'"$fact"
    printf '\n%s' "$REPLY"
  done
}

# step_done - with these inputs it was built, proved by training and put in place.
step_done() { :; }

# rebuild PYTHON WORD... - `ringup rebuild`, upstream's as the user whose Python that is.
rebuild() {
  local -a who=(as_owner "$1")
  [[ $engine != ringup ]] || who=() # its modules are root's
  "${who[@]}" "$tool" rebuild --engine "$engine" --python "$@"
}

# why PYTHON TEXT - stop with the code for what TEXT says has failed.
why() {
  local code=40
  if ! as_owner "$1" "$tool" plan --engine "$engine" --python "$1" >/dev/null 2>&1; then
    code=20
  else
    case $2 in
      *offline* | *"be fetched"* | *network*) code=21 ;;
      *"not proved"* | *trained* | *training*) code=70 ;;
      *"took longer"* | *"given up"* | *minutes*) code=41 ;;
      *install*) code=50 ;;
    esac
  fi
  stop "$code" "the engine $engine was not rebuilt: $2" "what was there before is in place; by hand: ringup rebuild --engine $engine --python $1"
}

# step_apply - have it rebuilt, or taken from the cache.
step_apply() {
  local p said
  local -a more=()
  [[ -n $engine ]] || return 0
  p=$(python)
  if [[ ${DRY_RUN:-0} == 1 ]]; then
    log act "ringup rebuild --engine $engine --python ${p:-of the frameworks}"
    return 0
  fi
  [[ -n $p ]] || stop 20 "RINGUP_ENGINE=$engine, but there is no Python to build it for" "install one with a framework, or name it in RINGUP_PYTHON"
  ! is_offline || more=(--offline)
  if ! said=$(rebuild "$p" "${more[@]}" 2>&1); then
    printf '%s\n' "$said" >&2
    said=$(sed -n 's/^ringup rebuild: //p' <<<"$said" | tail -n 1)
    if [[ -z ${RINGUP_ENGINE:-} ]]; then
      warn "not proved for the frameworks of $p: $said; by hand: ringup rebuild --python $p"
      return 0
    fi
    why "$p" "$said"
  fi
  printf '%s\n' "$said" >&2
  fact engine "$engine"
  fact said "$(tail -n 1 <<<"$said")"
}

# step_undo - what was there before the last rebuild.
step_undo() {
  local p
  noted 55-rebuild $'fact\tengine'
  [[ -n $REPLY ]] || return 0
  engine=$REPLY
  p=$(python)
  act rebuild "$p" --undo
}

# step_back - the same, when a later step has failed.
step_back() { step_undo; }
