# shellcheck shell=bash
# 20-toolchain.bash - compiler, make and libraries, from the distribution.

limits 20 900

# what a clone needs and a release tarball does not: autotools
need=''
[[ $(source_kind) != clone ]] || need=clone

# step_inputs - what is needed.
step_inputs() { pkg_table "$need"; }

# step_done - nothing is missing.
step_done() {
  local missing
  missing=$(pkg_missing "$need")
  [[ -z $missing ]]
}

# step_apply - install what is missing.
step_apply() {
  local -a missing
  mapfile -t missing < <(pkg_missing "$need")
  if (( ${#missing[@]} )) && [[ -n $INIT_ROOT ]]; then
    stop 20 "missing on this machine: ${missing[*]}" "--root installs no packages; install them here first"
  fi
  (( ! ${#missing[@]} )) || pkg_install "${missing[@]}"
  [[ ${DRY_RUN:-0} == 1 ]] || fact compiler "$("${CC:-gcc}" --version | head -n 1)"
}
