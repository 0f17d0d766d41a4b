# shellcheck shell=bash disable=SC2034,SC2154
# hosts.bash - two hosts: network namespaces joined by a cable that can be cut.

# hosts_setup - make namespaces $a and $b with 10.9.0.1 and .2 on eth0; or skip.
hosts_setup() {
  if [[ $EUID -ne 0 ]] || ! ip netns add "probe$$" 2>/dev/null; then
    skip "needs root and ip netns"
  fi
  ip netns del "probe$$"
  a=fa$$ b=fb$$
  ip netns add "$a"
  ip netns add "$b"
  ip link add eth0 netns "$a" type veth peer name eth0 netns "$b"
  ip -n "$a" addr add 10.9.0.1/24 dev eth0
  ip -n "$b" addr add 10.9.0.2/24 dev eth0
  local host
  for host in "$a" "$b"; do
    ip -n "$host" link set lo up
    ip -n "$host" link set eth0 up
  done
  for host in "$a" "$b"; do
    await link_up "$host"
  done
  mkdir -m 700 meet
}

# link_up HOST - has eth0 there a carrier?
link_up() {
  [[ $(ip -n "$1" link show eth0) == *"state UP"* ]]
}

# hosts_teardown - end what runs there, and the namespaces.
hosts_teardown() {
  fault_teardown
  [[ -z ${a:-} ]] || { ip netns del "$a"; ip netns del "$b"; } 2>/dev/null || true
}

# on HOST RANK SIZE ARG... - start a looping rank there in the background.
on() {
  local host=$1 rank=$2 size=$3
  shift 3
  RINGUP_RANK=$rank RINGUP_SIZE=$size RINGUP_MEET=$PWD/meet RINGUP_JOB=net$$ \
    RINGUP_START_TIMEOUT_MS=30000 \
    timeout 100 ip netns exec "$host" "$loop" "$@" >>out 2>>err 3>&- &
}

# spread ARG... - four ranks, 0 and 1 on $a, 2 and 3 on $b, all ready.
spread() {
  rm -rf out err meet
  mkdir -m 700 meet
  on "$a" 0 4 "$@"
  on "$a" 1 4 "$@"
  on "$b" 2 4 "$@"
  on "$b" 3 4 "$@"
  await said 4 ready
}

# need_nft - skip where packets cannot be dropped.
need_nft() {
  command -v nft >/dev/null || skip "nft is not installed"
}

# drop HOST HOOK [RULE...] - drop what RULE matches (all) on its way "input" or "output".
drop() {
  local host=$1 hook=$2
  shift 2
  ip netns exec "$host" nft -f - <<EOT
table inet fault_$hook {
  chain c { type filter hook $hook priority 0; ${*:-oifname != "lo" iifname != "lo"} drop; }
}
EOT
}

# heal HOST HOOK - let everything through again.
heal() {
  ip netns exec "$1" nft delete table inet "fault_$2"
}
