# shellcheck shell=bash disable=SC2016,SC2034
# settings.bash - run commands as on a node whose network settings `ringup net fix` has not written.

# settings_hide DIR - sets the array unsettled, which stands before a command that is to see /etc
# without what `ringup net fix` wrote there.  It is empty if nothing was written.  Copies of the
# files go into DIR.
settings_hide() {
  local dir=$1 f
  local -a written=()
  unsettled=()
  for f in etc/nccl.conf etc/openmpi/openmpi-mca-params.conf etc/profile.d/ringup.sh etc/environment; do
    ! grep -qs 'ringup net fix' "/$f" || written+=("$f")
  done
  if ((${#written[@]} == 0)) || [[ $EUID -ne 0 ]] || ! unshare --mount true 2>/dev/null; then
    return 0
  fi
  mkdir -p "$dir"
  (cd / && cp --parents "${written[@]}" "$dir")
  ringup net fix --undo --root "$dir" >/dev/null
  # Of a file that had nothing else in it an empty one is left.
  (cd "$dir" && touch "${written[@]}")
  # The command sees network namespaces that come later: /run/netns passes mounts on once it is one.
  ip netns add "settings$$" && ip netns del "settings$$"
  unsettled=(unshare --mount --propagation slave bash -c '
    for ((; $# > 0; )); do
      f=$1 && shift
      [[ $f != -- ]] || break
      mount --bind "$0/$f" "/$f" || exit
    done
    exec "$@"' "$dir" "${written[@]}" --)
}
