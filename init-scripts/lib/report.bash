# shellcheck shell=bash
# report.bash - the summary that a person reads at the end.

declare -A result seconds reason
declare -a all warnings

# report_row NAME TEXT - one line; names in bold where the terminal can.
report_row() {
  [[ -z $2 ]] || printf '  %s%-11s%s %s\n' "$bold" "$1" "$plain" "$2"
}

# report_verdict WORD TEXT - one line that begins with ok or not, in colour.
report_verdict() {
  local colour=$red
  [[ $2 != *" agreed"* ]] || colour=$green
  report_row "$1" "$colour$2$plain"
}

# report_times - print how long each step that ran took.
report_times() {
  local step text=
  for step in "${all[@]}"; do
    [[ ${seconds[$step]:-0} =~ ^0(\.[0-4].*)?$ ]] || text+="${text:+, }${step#*-} ${seconds[$step]} s"
  done
  report_row time "$text"
}

# report_known NAME STEP KEY - a line for what that step found out.
report_known() {
  known "$2" "$3"
  report_row "$1" "$REPLY"
}

# report_wire NAME - a line for the sums over shm or tcp.
report_wire() {
  local ranks
  known 70-verify ranks; ranks=$REPLY
  known 70-verify "$1_gbps"
  report_verdict "$1" "$ranks ranks agreed on every sum, $REPLY GB/s"
}

# report_steps - print a line for each step that failed, was skipped or was not reached.
report_steps() {
  local step
  for step in "${all[@]}"; do
    case ${result[$step]:-waiting} in
      failed | timed_out) report_row "${step#*-}" "$red${result[$step]/_/ }: ${reason[$step]}$plain" ;;
      skipped) report_row "${step#*-}" "${yellow}skipped: ${reason[$step]}$plain" ;;
    esac
  done
}

# report_text COLOUR RESULT HINT - print the summary; COLOUR is 1 or empty.
report_text() {
  local bold='' plain='' red='' green='' yellow='' gb text warning host version other
  if [[ -n $1 ]]; then
    bold=$'\e[1m' plain=$'\e[0m' red=$'\e[31m' green=$'\e[32m' yellow=$'\e[33m'
  fi
  slurp /proc/sys/kernel/hostname; host=${REPLY%$'\n'}
  known 30-build version '(not built)'
  version=$REPLY text=${2/_/ }
  known 50-frameworks other; known 55-rebuild other "$REPLY"; other=$REPLY
  known 50-frameworks path
  [[ -z $other ]] || text+=", but $REPLY uses $other, not ringup"
  printf '\n%sringup %s on %s: %s%s\n\n' "$bold" "$version" "$host" "$text" "$plain"
  known 10-detect platform; text=$REPLY
  known 10-detect runtime; text+=${REPLY:+ $REPLY}
  known 10-detect role single; [[ $REPLY == single ]] || text+=" $REPLY"
  known 10-detect system; text+=${REPLY:+, $REPLY}
  known 10-detect arch; text+=${REPLY:+, $REPLY}
  known 10-detect cores; text+=${REPLY:+, $REPLY cores}
  known 10-detect memory_mb 0; gb=$REPLY
  printf -v gb '%d.%d' $(( gb / 1024 )) $(( gb % 1024 * 10 / 1024 ))
  # of a run that failed before, nothing is known
  [[ $gb == 0.0 ]] || text+=", $gb GiB"
  report_row node "$text"
  known 20-toolchain compiler; text=${REPLY:+built with $REPLY}
  known 20-toolchain cache "$text"; text=${REPLY:+, $REPLY}
  known 30-build source
  case $REPLY in wheel) text=', from a wheel' ;; installed) text=', as it was installed' ;; esac
  known 40-install release; report_row engine "${REPLY:+$REPLY$text}"
  report_known python 50-frameworks python
  report_known frameworks 50-frameworks frameworks
  report_row horovod "$other"
  known_package; report_row package "$REPLY"
  report_known network 60-network chosen
  known 70-verify ranks
  if [[ -n $REPLY ]]; then
    report_wire shm
    report_wire tcp
    known 70-verify training; report_verdict training "$REPLY"
  fi
  report_steps
  for warning in "${warnings[@]}"; do report_row warning "$yellow$warning$plain"; done
  report_times
  report_row next "$3"
  echo
}
