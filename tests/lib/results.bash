# shellcheck shell=bash disable=SC2154
# results.bash - tests/run: counts, costs and failures of a run, and the report that ends it.

passed=0 failed=0 skipped=0
skips=() failures=() flaky=()
# What failed, for the end of the output: names of files that show_failure() wrote.
shown=()
# Lines "KIND NAME WALL CPU" of all that ran, and the CPU seconds of the calibration loop.
costs=()
loop=''
machine_before=0

# say WORD... - a line of progress with the time since the start.
say() { printf '%3d:%02d  %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

# is_required - must everything that tests need be there?
is_required() { [[ ${CI:-} == true || ${RINGUP_TEST_REQUIRE:-} == 1 ]]; }

# result pass|fail|skip NAME [REASON] - count one result of this script's own.
result() {
  case $1 in
    pass) passed=$((passed + 1)) ;;
    fail) failed=$((failed + 1)) failures+=("$2${3:+: $3}") ;;
    skip) skipped=$((skipped + 1)) skips+=("$2: $3") ;;
  esac
  say "$1: $2${3:+ ($3)}"
}

# lacking NAME REASON - a failure where everything is required, else a skip.
lacking() {
  if is_required; then result fail "$1" "$2"; else result skip "$1" "$2"; fi
}

# cost KIND NAME WALL CPU - note the seconds that something took.
cost() { costs+=("$1 $2 $3 $4"); }

# calibrate - set $loop to the CPU seconds that a fixed loop takes here: the least of three.
calibrate() {
  local TIMEFORMAT=%U i x best='' took tries=3
  while ((tries--)); do
    took=$({ time for ((i = 0, x = 1; i < 300000; i++)); do ((x = (x * 1103515245 + 12345) % 2147483648)); done; } 2>&1)
    [[ -n $best ]] && awk "BEGIN { exit !($best <= $took) }" || best=$took
  done
  loop=$best
}

# machine_seconds - print the CPU seconds that this machine has spent since it started.
machine_seconds() {
  awk -v hz="$(getconf CLK_TCK)" '$1 == "cpu" { printf "%.1f\n", ($2 + $3 + $4 + $7 + $8) / hz; exit }' /proc/stat
}

# show_failure TITLE COMMAND LOG [ENVIRONMENT...] - keep for the end what a person needs to see of a failure.
show_failure() {
  local title=$1 command=$2 log=$3 file
  shift 3
  file=$work/failure.${#shown[@]}
  shown+=("$file")
  {
    printf -- '----- %s\n' "$title"
    printf 'alone        %s\n' "$command"
    printf 'environment  %s\n' "$@"
    # The failed points with their diagnostics, which ranks print before; of sanitizers, all they say.
    awk '/^not ok|^Bail out|Sanitizer|runtime error:/ { printf "%s", before; left = 25 }
      /^ok / { left = 0; before = "" }
      /^# rank / && left <= 0 { before = before $0 "\n" }
      left-- > 0 { before = ""; print }' "$log" | cut -c 1-400 | sed -n 1,120p
    printf -- '... its last lines:\n'
    tail -n 30 "$log" | cut -c 1-400
  } >"$file"
}

# costs_part table|over - print that part of the costs of all that ran.
costs_part() {
  ((${#costs[@]})) || return 0
  printf '%s\n' "${costs[@]}" |
    awk -v part="$1" -v loop="$loop" -v budgets="$here/tests/budgets" -f "$here/tests/lib/costs.awk"
}

# report - skips, costs, failures with all that is known of them, and the counts as the last line.
report() {
  local line total
  total=$(awk "BEGIN { printf \"%.0f\", $(machine_seconds) - $machine_before }")
  if ((${#skips[@]})); then
    printf '\nskipped:\n'
    printf '  %s\n' "${skips[@]}" | sort | uniq -c | sed 's/^ *1  */  /'
  fi
  costs_part table
  if ((${#shown[@]})); then
    printf '\nwhat is known of each failure:\n'
    cat "${shown[@]}"
  fi
  if ((${#flaky[@]})); then
    printf '\nflaky:\n'
    printf '  %s\n' "${flaky[@]}"
  fi
  if ((${#failures[@]})); then
    printf '\nfailed:\n'
    for line in "${failures[@]}"; do
      printf '  %s\n' "$line"
    done
  fi
  printf '\n'
  costs_part over
  printf '%d minutes %d seconds; this machine spent %d CPU seconds (loop %s)\n' \
    $((SECONDS / 60)) $((SECONDS % 60)) "$total" "${loop:--}"
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
}
