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
  printf '%s' "$text"
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
  local bold='' plain='' red='' green='' yellow='' gb text warning
  if [[ -n $1 ]]; then
    bold=$'\e[1m' plain=$'\e[0m' red=$'\e[31m' green=$'\e[32m' yellow=$'\e[33m'
  fi
  gb=$(known 10-detect memory_mb 0)
  printf -v gb '%d.%d' $(( gb / 1024 )) $(( gb % 1024 * 10 / 1024 ))
  text=$(known 10-detect platform)$(known 10-detect runtime | sed 's/^./ &/')
  [[ $(known 10-detect role single) == single ]] || text+=" $(known 10-detect role)"
  printf '\n%sringup %s on %s: %s%s\n\n' "$bold" "$(known 30-build version '(not built)')" "$(uname -n)" "${2/_/ }" "$plain"
  report_row node "$text, $(known 10-detect system), $(known 10-detect arch), $(known 10-detect cores) cores, $gb GiB"
  text=$(known 20-toolchain cache)
  [[ -n $text ]] || text=$(known 20-toolchain compiler | sed 's/^/built with /')
  report_row engine "$(known 40-install release)${text:+, $text}"
  report_row python "$(known 50-frameworks python)"
  report_row frameworks "$(known 50-frameworks frameworks)"
  report_row package "$(known 50-frameworks package)"
  report_row network "$(known 60-network chosen)"
  text=$(known 70-verify ranks)
  if [[ -n $text ]]; then
    report_verdict "shm" "$text ranks agreed on every sum, $(known 70-verify shm_gbps) GB/s"
    report_verdict "tcp" "$text ranks agreed on every sum, $(known 70-verify tcp_gbps) GB/s"
    report_verdict training "$(known 70-verify training)"
  fi
  report_steps
  for warning in "${warnings[@]}"; do report_row warning "$yellow$warning$plain"; done
  report_row time "$(report_times)"
  report_row next "$3"
  echo
}
