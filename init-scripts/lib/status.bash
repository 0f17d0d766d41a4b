# shellcheck shell=bash
# status.bash - what is known about this run, as status.json and as a summary.

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
  json_string "$(uname -n)"; printf '  "host": %s,\n' "$REPLY"
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

# known STEP KEY [ELSE] - print what a step found out.
known() {
  local kind key value
  while IFS=$'\t' read -r kind key value; do
    [[ $kind == fact || $kind == number ]] && [[ $key == "$2" ]] && printf '%s' "$value" && return 0
  done <<<"${said[$1]:-}"
  printf '%s' "${3:-}"
}
