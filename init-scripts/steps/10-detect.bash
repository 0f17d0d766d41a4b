# shellcheck shell=bash
# 10-detect.bash - detect the node's platform, role, system and memory.
# (Python and frameworks come with 50-frameworks, from `ringup detect`: there is no command yet.)

limits 10 30

# step_inputs - all of what is found, so a change is noticed.
step_inputs() { findings; }

# findings - print KEY<tab>VALUE for everything that can be known now.
findings() {
  local role
  role=$(node_role)
  node_memory MemTotal
  printf '%s\t%s\n' platform "$(node_platform)" runtime "$(node_runtime)" role "$role" \
    system "$(node_system)" arch "$(node_arch)" cores "$(nproc)" \
    address "${DB_CONTAINER_IP:-}" driver "${DB_DRIVER_IP:-}" \
    memory_mb "$REPLY"
}

# step_done - what was written down is still true, or the inputs would differ.
step_done() { :; }

# step_apply - write it down.
step_apply() {
  local key value found
  [[ $(uname -s) == Linux ]] || die "this system is $(uname -s), not Linux"
  case $(node_arch) in
    x86_64 | aarch64) ;;
    *) warn "ringup has not been tested on $(node_arch)" ;;
  esac
  found=$(findings) # not in the loop's <(...), whose failure nobody sees
  while IFS=$'\t' read -r key value; do
    case $key in
      cores | memory_mb) number "$key" "$value" ;;
      *) fact "$key" "$value" ;;
    esac
  done <<<"$found"
}
