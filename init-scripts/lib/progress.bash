# shellcheck shell=bash
# progress.bash - show the progress of a long step: a changing line on a terminal, otherwise a line every 30 seconds.

# is_live FD - is it a terminal on which a line can be written anew?
is_live() { [[ -t $1 && ${TERM:-dumb} != dumb ]]; }

# progress_last LOG - set REPLY to the last line in LOG, fit to be shown, or to nothing.
progress_last() {
  local line
  REPLY=$(tail -c 2048 -- "$1" 2>/dev/null | tr -d '\0' | tr '\r' '\n') || REPLY=''
  line=${REPLY##*$'\n'}
  # a line whose beginning is not here may begin within a password
  [[ $line != "$REPLY" || ${#line} -lt 2048 ]] || line=''
  while [[ $line =~ ^(.*://)[^/@\ *]+@(.*)$ ]]; do line="${BASH_REMATCH[1]}***@${BASH_REMATCH[2]}"; done
  line=${line//[!\ -~]/ }
  REPLY=${line#"${line%%[! ]*}"}
}

# progress_line WIDTH - set REPLY to what is shown now: seconds since `began`, and the end of `log`.
progress_line() {
  local -i seconds
  uptime
  seconds=$(( REPLY - began ))
  progress_last "$log"
  REPLY="$seconds s${REPLY:+: $REPLY}"
  REPLY=${REPLY:0:$1}
}

# progress_pause SECONDS - let them pass; 1 at once when stdin is closed.
progress_pause() {
  local rc=0
  read -rt "$1" || rc=$?
  (( rc > 128 ))
}

# progress_show STEP LOG - show what LOG comes to for as long as stdin is open, which the runner holds.
progress_show() {
  local STEP=$1 log=$2 rows columns pause=${RINGUP_TEST_PROGRESS_S:-30}
  local -i began
  trap '' INT TERM
  uptime; began=$REPLY
  if ! is_live 2; then
    while progress_pause "$pause"; do progress_line 160; log info "$REPLY"; done
    return 0
  fi
  read -r rows columns < <(stty size <&2 2>/dev/null) || true
  [[ ${rows:-0} != 0 && ${columns:-} =~ ^[1-9][0-9]{1,3}$ ]] || columns=80
  while progress_pause 1; do
    progress_line $(( columns - ${#STEP} - 3 ))
    printf '\r\e[K%s: %s' "$STEP" "$REPLY" >&2
  done
  printf '\r\e[K' >&2
}

# progress_begin STEP LOG - show how it gets on.  Called after what it tells of has been started, so
# that nothing else holds the pipe whose end ends it.
progress_begin() { exec {progress_fd}> >(progress_show "$1" "$2" >/dev/null); progress_pid=$!; }

# progress_end - that is over.
progress_end() {
  [[ -n ${progress_fd:-} ]] || return 0
  exec {progress_fd}>&-
  [[ -z ${progress_pid:-} ]] || wait "$progress_pid" || true
  progress_fd='' progress_pid=''
}
