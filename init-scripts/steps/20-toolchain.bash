# shellcheck shell=bash
# 20-toolchain.bash - take the engine from the cache, or install compiler, make and libraries to build it; a wheel needs neither.

limits 20 1500

# needs - print what for: wheel, which brings all; run, if somebody has built it; clone, which a release
# does without: autotools.
needs() {
  local kind
  kind=$(source_kind)
  case $kind in
    wheel | installed) echo wheel ;;
    *) if [[ -n $(engine_ready) ]]; then echo run; else echo "${kind/#[^c]*/build}"; fi ;;
  esac
}

# step_inputs - what is needed to build, and the cache.
step_inputs() {
  pkg_table "$(source_kind)"
  printf '%s\n' "${RINGUP_CACHE:-}"
}

# missing - print what is missing; what the engine brings with it is not.
missing() {
  local PKG_SPARE
  PKG_SPARE=$(engine_ready)
  PKG_SPARE=${PKG_SPARE:+$PKG_SPARE/lib/spare}
  pkg_missing "$(needs)"
}

# step_done - nothing is missing.
step_done() {
  local missing
  missing=$(missing)
  [[ -z $missing ]]
}

# install - what is missing.
install() {
  local -a missing
  mapfile -t missing < <(missing)
  if (( ${#missing[@]} )) && [[ -n $INIT_ROOT ]]; then
    stop 20 "missing on this machine: ${missing[*]}" "--root installs no packages; install them on this machine first"
  fi
  (( ! ${#missing[@]} )) || pkg_install "${missing[@]}"
}

# step_apply - look into the cache; install what is missing.
step_apply() {
  if [[ $(needs) == wheel ]]; then
    install
    return 0
  elif [[ -z $(engine_ready) ]]; then
    [[ -z ${RINGUP_CACHE:-} || -n $INIT_ROOT ]] || command -v openssl >/dev/null || pkg_install openssl
    ! engine_obtain || fact cache "taken from $RINGUP_CACHE"
  fi
  install
  [[ ${DRY_RUN:-0} == 1 ]] || ! command -v "${CC:-gcc}" >/dev/null || fact compiler "$("${CC:-gcc}" --version | head -n 1)"
}
