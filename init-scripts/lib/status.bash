# shellcheck shell=bash
# status.bash - record the state of this run, as status.json and as a summary.

# The runner fills these: per step what it came to, and what it said.
declare -A result seconds reason said
declare -a all warnings

# status_json RESULT CODE CAUSE HINT - print the status as one JSON object.
status_json() {
  local step kind key value comma fcomma text
  json_string "$1"; printf '{\n  "schema": 1,\n  "result": %s,\n' "$REPLY"
  json_number "$2"; printf '  "code": %s,\n' "$REPLY"
  json_string "$3"; printf '  "cause": %s,\n' "$REPLY"
  json_string "$4"; printf '  "hint": %s,\n' "$REPLY"
  slurp /proc/sys/kernel/hostname
  json_string "${REPLY%$'\n'}"; printf '  "host": %s,\n' "$REPLY"
  json_string "$(node_cluster)"; printf '  "cluster": %s,\n' "$REPLY"
  json_string "$INIT_STARTED"; printf '  "started": %s,\n' "$REPLY"
  printf -v text '%(%Y-%m-%dT%H:%M:%SZ)T' -1
  json_string "$text"; printf '  "written": %s,\n  "pid": %s,\n  "steps": [' "$REPLY" "$$"
  comma=
  for step in "${all[@]}"; do
    json_string "$step"; printf '%s\n    { "name": %s' "$comma" "$REPLY"
    json_string "${result[$step]:-waiting}"; printf ', "result": %s' "$REPLY"
    json_number "${seconds[$step]:-}"; printf ', "seconds": %s' "$REPLY"
    json_string "${reason[$step]:-}"; printf ', "reason": %s, "facts": {' "$REPLY"
    fcomma=
    while IFS=$'\t' read -r kind key value; do
      [[ $kind == fact || $kind == number ]] || continue
      json_string "$key"; printf '%s %s: ' "$fcomma" "$REPLY"
      if [[ $kind == number ]]; then json_number "$value"; else json_string "$value"; fi
      printf '%s' "$REPLY"
      fcomma=,
    done <<<"${said[$step]:-}"
    printf ' } }'
    comma=,
  done
  printf '\n  ],\n  "warnings": ['
  comma=
  for text in "${warnings[@]}"; do
    json_string "$text"; printf '%s\n    %s' "$comma" "$REPLY"
    comma=,
  done
  printf '%s]\n}\n' "${comma:+$'\n  '}"
}

# known STEP KEY [ELSE] - set REPLY to what a step found out.
known() {
  local kind text=$'\n'${said[$1]:-}
  REPLY=${3:-}
  for kind in fact number; do
    [[ $text == *$'\n'"$kind"$'\t'"$2"$'\t'* ]] || continue
    REPLY=${text#*$'\n'"$kind"$'\t'"$2"$'\t'} REPLY=${REPLY%%$'\n'*}
  done
}

# A marker is the sum of the step's code, how long it took, what it said and, after a line
# `inputs`, what its result depended on, each line of it behind a blank.

# noted_package - set REPLY to what is said of ringup's package in the Python that is served, or to nothing.
noted_package() {
  noted 50-frameworks $'fact\tpackage'
  [[ -n $REPLY ]] || noted 55-rebuild $'fact\tpackage'
}

# known_package - the same for the runner.
known_package() {
  known 50-frameworks package
  [[ -n $REPLY ]] || known 55-rebuild package
}

# marker STEP PART - set REPLY to the code, said or inputs of its marker; 1: it has none.
marker() {
  slurp "$INIT_STATE/state/$1"
  [[ $REPLY == *$'\ninputs\n'* ]] || { REPLY=''; return 1; }
  case $2 in
    code) REPLY=${REPLY%%$'\n'*} ;;
    said) REPLY=${REPLY#*$'\n'} REPLY=${REPLY%%$'\ninputs\n'*} ;;
    inputs) REPLY=${REPLY#*$'\ninputs\n'} REPLY=${REPLY%$'\n'} ;;
  esac
}

# facts STEP - print the lines of its marker that tell facts.
facts() {
  local - line IFS=$'\n'
  marker "$1" said || true
  set -f
  for line in $REPLY; do
    [[ $line != fact$'\t'* ]] || printf '%s\n' "$line"
  done
}

# noted STEP WORDS - set REPLY to what its marker has after WORDS and a tab, or to nothing.
noted() {
  local text
  marker "$1" said || true
  text=$'\n'$REPLY REPLY=''
  [[ $text != *$'\n'"$2"$'\t'* ]] || REPLY=${text#*$'\n'"$2"$'\t'} REPLY=${REPLY%%$'\n'*}
}
