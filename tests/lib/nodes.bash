# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# nodes.bash - nodes on a switch for `ringup net check`, and what it says about them; after fault.bash and hosts.bash.

# nodes_setup - a switch in a network namespace; or skip.
nodes_setup() {
  fault_setup
  need_namespaces
  command -v jq >/dev/null || skip "jq is not installed"
  switch=cs$$ nodes=()
  ip netns add "$switch"
  ip -n "$switch" link add switch type bridge
  ip -n "$switch" link set switch up
}

# nodes_teardown - remove it, and the nodes.
nodes_teardown() {
  local n
  [[ -z ${changer:-} ]] || kill "$changer"
  for n in "${switch:-}" "${nodes[@]:-}"; do
    [[ -z $n ]] || ip netns del "$n" || true
  done
}

# cluster N - nodes c1-PID ... cN-PID with 10.8.0.1 ... on eth0, all at one switch.
cluster() {
  local i n
  for ((i = 1; i <= $1; i++)); do
    n=c$i-$$
    nodes+=("$n")
    ip netns add "$n"
    # Nobody waits until the kernel is sure that an address is alone.
    ip netns exec "$n" bash -c 'for f in all default; do echo 0 >"/proc/sys/net/ipv6/conf/$f/accept_dad"; done'
    ip -n "$n" link add eth0 type veth peer name "p$i" netns "$switch"
    ip -n "$switch" link set "p$i" master switch up
    thin "$n" eth0
    ip -n "$n" addr add "10.8.0.$i/24" dev eth0
    ip -n "$n" link set lo up
    ip -n "$n" link set eth0 up
  done
  n1=c1-$$ n2=c2-$$ n3=c3-$$
  for n in "${nodes[@]}"; do await running "$n"; done
}

# thin NODE CARD - let it send half a gigabit a second: less than this machine can, so that all are
# equal, and a check that measures them leaves the processors to others.  Where that cannot be done,
# it sends what it can.
thin() {
  tc -n "$1" qdisc add dev "$2" root tbf rate 500mbit burst 256kb latency 50ms 2>/dev/null || true
}

# running NODE - has its card a carrier?
running() {
  [[ $(ip -n "$1" link show eth0) == *"state UP"* ]]
}

# check [OPTION...] - all nodes; what it prints is in $facts, its status in $status.
check() {
  status=0
  facts=$(timeout 120 ringup net check --json --timeout "${patience:-60}" --ssh "${starter:-ip netns exec}" "$@" "${nodes[@]}" \
    2>"$BATS_TEST_TMPDIR/err") || status=$?
  [[ -n $facts ]] || { cat "$BATS_TEST_TMPDIR/err"; return 1; }
}

# gist - the facts in few lines: verdict, errors, and of each path how it ended.
gist() {
  jq -r '"verdict: \(.verdict)", "seconds: \(.seconds)",
    (.nodes[] | select(.error) | "\(.name): \(.error)"),
    ([.paths[] | select(.address | startswith("10.") or startswith("172."))] | group_by([.from, .to])[] |
      "\(.[0].from) to \(.[0].to): " + ([.[] | "\(.address) \(.port.kind) \(.state)" +
        (if .errno then " \(.errno)" else "" end) +
        (if .answered and .answered != .to then " by \(.answered)" else "" end) +
        (if .mtu then " \(.mtu | tojson)" else "" end)] | join(", ")))' <<<"$facts" | head -n 24 || true
}

# paths FROM TO [ADDRESS [KIND]] - the states in which they are, each once.
paths() {
  jq -r --arg f "$1" --arg t "$2" --arg a "${3:-}" --arg k "${4:-}" '
    [.paths[] | select(.from == $f and .to == $t and (if $a == "" then .address | startswith("10.") else .address == $a end) and ($k == "" or .port.kind == $k)) | .state] | unique | join(" ")' <<<"$facts"
}

# expect WANT COMMAND... - what it prints.
expect() {
  local got
  got=$("${@:2}")
  [[ $got == "$1" ]] || { echo "got $got, expected $1 of: ${*:2}"; gist; return 1; }
}

# wall NODE RULE... - rules for what comes in by eth0.
wall() {
  command -v nft >/dev/null || skip "nft is not installed"
  local rule
  {
    echo "table inet wall { chain c {"
    echo "type filter hook input priority 0"
    for rule in "${@:2}"; do echo "iifname eth0 $rule"; done
    printf '}\n}\n'
  } | ip netns exec "$1" nft -f -
}

# agents - processes of agents in the nodes that are left.
agents() {
  local n
  for n in "${nodes[@]}"; do ip netns pids "$n"; done
}

# no_agents - are none left?
no_agents() {
  [[ -z $(agents) ]]
}
