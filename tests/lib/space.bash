# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# space.bash - $here, a network namespace in which libraries run, and $there, where its cables end.

# space_open - both, empty but for a loopback that is up; or skip.
space_open() {
  if [[ $EUID -ne 0 ]] || ! unshare --net --mount true 2>/dev/null; then
    skip "needs root and namespaces"
  fi
  command -v ip >/dev/null || skip "ip is not installed"
  command -v jq >/dev/null || skip "jq is not installed"
  here=rh$$ there=rt$$
  settings_hide "$BATS_TEST_TMPDIR/settings"
  space_fresh
}

# space_fresh - the same again, as if nothing had been done.
space_fresh() {
  space_close
  spaces=("$here" "$there")
  ip netns add "$here"
  ip netns add "$there"
  # Nobody can bind to an address while the kernel still looks for its double; and
  # addresses that the kernel makes up come at a time of its own.
  ip netns exec "$here" bash -c 'for f in all default; do
    echo 0 >"/proc/sys/net/ipv6/conf/$f/accept_dad"
    [[ ! -e /proc/sys/net/ipv6/conf/$f/addr_gen_mode ]] || echo 1 >"/proc/sys/net/ipv6/conf/$f/addr_gen_mode"
  done'
  ip -n "$here" link set lo up
}

# space_close - remove them.
space_close() {
  local n
  for n in "${spaces[@]:-}"; do
    [[ -z $n ]] || ip netns del "$n" || true
  done
  spaces=()
}

# cable NAME ADDRESS... - a network card of $here that is plugged in.
cable() {
  local name=$1 a
  ip -n "$here" link add "$name" type veth peer name "p-$name" netns "$there"
  ip -n "$there" link set "p-$name" up
  for a in "${@:2}"; do
    # It means something to IPv6 only.
    ip -n "$here" addr add "$a" dev "$name" nodad 2>/dev/null
  done
  ip -n "$here" link set "$name" up
  wait_running "$name"
}

# wait_running NAME - the kernel says UP a moment before it says RUNNING.
wait_running() {
  local i
  for i in {1..500}; do
    ip -n "$here" -o link show "$1" | grep -q 'state UP' && return 0
    sleep 0.02
  done
  return 1
}

# bridge NAME ADDRESS - as dockerd leaves it without containers: up and idle.
bridge() {
  ip -n "$here" link add "$1" type bridge
  ip -n "$here" link set "$1" address 02:42:00:00:00:01
  ip -n "$here" addr add "$2" dev "$1"
  ip -n "$here" link set "$1" up
}

# inside COMMAND... - in $here, with nobody's settings but those on the line.
inside() {
  "${unsettled[@]}" ip netns exec "$here" env -i PATH="$PATH" HOME="$BATS_TEST_TMPDIR" TMPDIR="$BATS_TEST_TMPDIR" LC_ALL=C "$@"
}

# named TEXT COMMAND... - in $here, on a host called node, with TEXT as its /etc/hosts.
named() {
  printf '127.0.0.1 localhost\n%s\n' "$1" >"$BATS_TEST_TMPDIR/hosts"
  inside unshare --uts --mount --propagation private bash -c '
    hostname node && mount --bind "$1" /etc/hosts && exec "${@:2}"' _ "$BATS_TEST_TMPDIR/hosts" "${@:2}"
}
