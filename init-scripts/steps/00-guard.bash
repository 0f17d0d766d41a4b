# shellcheck shell=bash
# 00-guard.bash - may this run here: rights, room, files that can be written.

limits 2 30

# step_inputs - nothing: it is looked at afresh each time.
step_inputs() { :; }

# trouble - print "CODE<tab>CAUSE<tab>NEXT" for the first thing in the way, or nothing.
trouble() {
  local dir mb
  # A node that has all of it already may well have become read-only since.
  [[ ! -e $INIT_STATE/state/40-install ]] || return 0
  for dir in etc opt usr/local var; do
    can_write "$INIT_ROOT/$dir" ||
      printf '50\t%s\t%s\n' "$INIT_ROOT/$dir is not writable: read-only, or another user's" "remount it read-write, or run this when the image is built"
  done
  mb=$(space_mb "$INIT_STATE")
  (( mb >= 200 )) ||
    printf '50\t%s\t%s\n' "only $mb MB are free below $INIT_ROOT/var; a build needs 200" "free some space (df -h, apt-get clean), then run this again"
}

# step_done - nothing is in the way.
step_done() {
  local found
  found=$(trouble)
  [[ -z $found ]]
}

# step_apply - say what is in the way; it cannot be done, only explained.
step_apply() {
  local found code cause next
  found=$(trouble)
  if [[ -n $found ]]; then
    IFS=$'\t' read -r code cause next <<<"$found"
    stop "$code" "$cause" "$next"
  fi
}
