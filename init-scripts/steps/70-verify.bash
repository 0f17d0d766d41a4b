# shellcheck shell=bash
# 70-verify.bash - four ranks add up, over shared memory and over TCP, and train together.

limits 70 180

tool=$INIT_ROOT/opt/ringup/current/bin/ringup
shared=$INIT_ROOT/opt/ringup/current/share/ringup
ranks=4

# step_inputs - the release, what it stands on, and this boot: the proof is about
# this machine as it runs now.
step_inputs() {
  readlink -- "$INIT_ROOT/opt/ringup/current" || true
  cat /proc/sys/kernel/random/boot_id
  grep -s $'^fact\t' "$INIT_STATE/state/50-frameworks" "$INIT_STATE/state/60-network" || true
}

# step_done - proved once with these inputs is proved.
step_done() { :; }

# allreduce BACKEND - print its bandwidth in GB/s.  The command compares every element of
# every sum; that it was asked for this back end and these ranks is not taken on trust.
allreduce() {
  local said again="see the log; try: ringup bench allreduce -n $ranks --backend $1 --check"
  said=$("$tool" bench allreduce -n "$ranks" --backend "$1" --sizes 1M --check --json) ||
    stop 70 "$ranks ranks did not agree over $1" "$again"
  printf '%s\n' "$said" >&2
  [[ $(json_of backend "$said") == "$1" && $(json_of ranks "$said") == "$ranks" && $(json_of wrong "$said") == 0 ]] ||
    stop 70 "ringup bench did not report $ranks ranks without a wrong sum over $1" "$again"
  printf '%.2f\n' "$(json_of busbw_gbs "$said")"
}

# trainer - print the Python that trains: the one with ringup's package, else any with ctypes.
trainer() {
  local p
  p=$(sed -n $'s/^fact\tpath\t//p' "$INIT_STATE/state/50-frameworks" 2>/dev/null) || true
  if [[ -n $p ]] && grep -qs $'^fact\tpackage' "$INIT_STATE/state/50-frameworks"; then
    printf '%s\n' "$p"
  else
    command -v python3 || true
  fi
}

# train PYTHON - a few steps on different data per rank; weights compared bit for bit.
# The package is the installed release's own where PYTHON has none.
train() {
  local -a where=(env RINGUP_LIBRARY="$INIT_ROOT/opt/ringup/current/lib/libringup.so.0")
  as_owner "$1" "$1" -I -c 'import ringup.job' 2>/dev/null || where+=(PYTHONPATH="$shared/compat/python")
  as_owner "$1" timeout 120 "$tool" run --no-prefix -np "$ranks" -- "${where[@]}" "$1" "$shared/init-scripts/lib/train_check.py"
}

# step_apply - add up over both wires, then train.
step_apply() {
  local python said gbps
  if [[ ${DRY_RUN:-0} == 1 ]]; then
    log act "allreduce of $ranks ranks over shared memory and TCP; a few steps of training"
    return 0
  fi
  [[ -x $tool ]] || die "ringup is not installed yet"
  gbps=$(allreduce node)
  number shm_gbps "$gbps"
  gbps=$(allreduce tcp)
  number tcp_gbps "$gbps"
  number ranks "$ranks"
  python=$(trainer)
  if [[ -z $python || ! -r $shared/compat/python/ringup/__init__.py ]]; then
    fact training "skipped: no Python on this node"
    return 0
  fi
  said=$(train "$python") || stop 70 "$ranks ranks trained and did not get the same, right weights" "see the log"
  printf '%s\n' "$said"
  number train_step_ms "$(json_of step_ms "$said")"
  fact training "$ranks ranks agreed bit for bit after $(json_of steps "$said") steps of $(json_of framework "$said"), $(json_of step_ms "$said") ms each"
}
