# shellcheck shell=bash
# 55-rebuild.bash - build and test an engine for this node's frameworks and MPIs: `ringup rebuild`.

limits 40 1700

tool=$INIT_ROOT/opt/ringup/current/bin/ringup

# Where RINGUP_ENGINE names none, it is ringup's own, for the package that 50-frameworks has
# installed, or in the place of a Horovod that cannot be loaded.  (A tree below --root has no
# /opt/ringup to put modules into.)
noted 50-frameworks $'fact\tpackage'
engine=${RINGUP_ENGINE:-}
[[ -n $engine || -n $INIT_ROOT || -z $REPLY ]] || engine=ringup
noted 50-frameworks $'fact\thorovod'; horovod=$REPLY
noted 50-frameworks $'fact\tbroken'; broken=$REPLY
[[ -n $engine || -z $broken ]] || engine=ringup

# python - print the Python it is for.
python() {
  noted 50-frameworks $'fact\tpath'
  printf '%s\n' "$REPLY"
}

# step_inputs - which engine, for which frameworks.
step_inputs() {
  printf '%s\n' "$engine ${RINGUP_ENGINE:-}"
  [[ -n $engine ]] || return 0
  engine_current
  local fact
  for fact in path frameworks; do
    noted 50-frameworks $'fact\t'"$fact"
    printf '\n%s' "$REPLY"
  done
}

# step_done - with these inputs it was built, proved by training and put in place; what took a
# Horovod's place is still there, and none that cannot be loaded is.
step_done() {
  [[ -v marker_said ]] || return 0
  [[ $'\n'$marker_said != *$'\nfact\tother\t'* ]] || return 1
  noted 55-rebuild site
  [[ -z $REPLY || ( ${RINGUP_ENGINE:-} != ringup && -z $broken ) ]] || is_alone "$REPLY"
}

# is_alone SITE - is ringup's package there, and no other Horovod?
is_alone() {
  compgen -G "$1/ringup-*.dist-info/METADATA" >/dev/null && ! compgen -G "$1/horovod-*-info" >/dev/null
}

# replaced PYTHON SITE - ringup's package is where Horovod was: note it, and the way back.
replaced() {
  local release back="ringup rebuild --engine ringup --python $1 --undo"
  release=$(engine_current)
  tell site "$2"
  fact package "ringup ${release%-*}, replacing Horovod $horovod; $back restores it"
  [[ -z $broken ]] ||
    warn "Horovod $horovod could not be loaded by $1 ($broken); ringup replaced it, and '$back' restores it"
}

# rebuild PYTHON WORD... - `ringup rebuild`, upstream's as the user whose Python that is.
rebuild() {
  local -a who=(as_owner "$1")
  patience
  local -x RINGUP_CACHE_WAIT_MS=$(( REPLY * 1000 ))
  [[ $engine != ringup ]] || who=() # its modules are root's
  # the wheel that this script came with keeps its program and data, this script among them, only for itself
  own_program "$1"
  "${who[@]}" "${REPLY:-$tool}" rebuild --engine "$engine" --python "$@"
}

# why PYTHON REASON CAUSE HINT - stop with the code for the reason that ringup-rebuild(1) lists.
why() {
  local code=50 cause=$3 hint=$4
  # here an advisory is accepted by a setting
  if [[ $2 == advisory && $hint == --accept\ * ]]; then
    cause=${cause%: to build it anyway*} hint="to build it anyway, set RINGUP_ACCEPT=${hint#--accept }"
  fi
  case $2 in
    advisory | impossible | tools | busy | cache) code=20 ;;
    network) code=21 ;;
    source) code=30 ;;
    compile) code=40 ;;
    timeout) code=41 ;;
    prove) code=70 ;;
  esac
  stop "$code" "the engine $engine was not rebuilt: $cause" \
    "$hint; the previous state is unchanged; to retry: ringup rebuild --engine $engine --python $1"
}

# step_apply - have it rebuilt, or taken from the cache.
step_apply() {
  local p said reason cause rc=0
  local -a more=(--json)
  [[ -n $engine ]] || return 0
  p=$(python)
  if [[ ${DRY_RUN:-0} == 1 ]]; then
    log act "ringup rebuild --engine $engine --python ${p:-PYTHON}"
    return 0
  fi
  [[ -n $p ]] || stop 20 "RINGUP_ENGINE=$engine, but no Python with a framework was found" "install one, or name it in RINGUP_PYTHON"
  ! is_offline || more+=(--offline)
  said=$(rebuild "$p" "${more[@]}") || rc=$?
  printf '%s\n' "${said%%$'\n  "plan"'*}" >&2
  if (( rc )); then
    json_text reason "$said"; reason=$REPLY
    json_text error "$said"; cause=${REPLY:-ringup rebuild ended with status $rc}
    if [[ -z ${RINGUP_ENGINE:-} ]]; then
      if [[ -n $broken ]]; then
        fact other "Horovod $horovod, which cannot be loaded"
        warn "Horovod $horovod cannot be loaded by $p ($broken), and ringup could not replace it: $cause; to retry: ringup rebuild --engine ringup --python $p"
      else
        warn "the engine could not be tested with the frameworks of $p: $cause; to retry: ringup rebuild --python $p"
      fi
      return 0
    fi
    json_text hint "$said"
    why "$p" "$reason" "$cause" "${REPLY:-see the log}"
  fi
  json_text site "$said"
  [[ $engine != ringup || -z $horovod || -z $REPLY ]] || replaced "$p" "$REPLY"
  json_text site "$said"
  fact engine "$engine"
  fact said "in place${REPLY:+ in $REPLY}"
}

# step_undo - restore what was there before the last rebuild.
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
