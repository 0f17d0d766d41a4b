#!/usr/bin/env bats
# check.bats - `ringup net check` between nodes that are network namespaces, broken in every way.

load ../lib/helper

setup() {
  [[ $EUID -eq 0 ]] && ip netns add "cprobe$$" 2>/dev/null || skip "needs root and ip netns"
  ip netns del "cprobe$$"
  command -v jq >/dev/null || skip "jq is not installed"
  switch=cs$$ nodes=()
  ip netns add "$switch"
  ip -n "$switch" link add switch type bridge
  ip -n "$switch" link set switch up
}

teardown() {
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
    ip -n "$n" addr add "10.8.0.$i/24" dev eth0
    ip -n "$n" link set lo up
    ip -n "$n" link set eth0 up
  done
  n1=c1-$$ n2=c2-$$ n3=c3-$$
  for n in "${nodes[@]}"; do running "$n"; done
}

# running NODE - wait until its card has a carrier.
running() {
  local i
  for i in {1..1000}; do
    [[ $(ip -n "$1" link show eth0) != *"state UP"* ]] || return 0
    sleep 0.02
  done
  ip -n "$1" link show eth0
  return 1
}

# check [OPTION...] - all nodes; what it prints is in $facts, its status in $status.
check() {
  status=0
  facts=$(timeout 120 ringup net check --json --timeout "${patience:-60}" --ssh "${starter:-ip netns exec}" "$@" "${nodes[@]}" \
    2>"$BATS_TEST_TMPDIR/err") || status=$?
  [[ -n $facts ]] || { cat "$BATS_TEST_TMPDIR/err"; return 1; }
}

# checked_within SECONDS - does a check take no longer?  Two may be disturbed by others.
checked_within() {
  local try
  for try in 1 2 3; do
    check
    ! jq -e --argjson most "$1" '.seconds < $most' <<<"$facts" >/dev/null || return 0
    echo "try $try: $(jq .seconds <<<"$facts") s, expected less than $1"
  done
  gist
  return 1
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

@test "all is open, measured, and nothing is left on any node" {
  cluster 3
  check
  local a b
  for a in "$n1" "$n2" "$n3"; do
    for b in "$n1" "$n2" "$n3"; do
      [[ $a == "$b" ]] || expect open paths "$a" "$b"
    done
  done
  expect 6 jq '[.paths[] | select((.address | startswith("10.")) and .latency_us.median > 0 and .bandwidth_mbs > 0 and .mtu.df == 1472 and .mtu.segment)] | length' <<<"$facts"
  expect '["ephemeral","registered","store"]' jq -c '[.paths[].port.kind] | unique' <<<"$facts"
  expect eth0 jq -r --arg f "$n1" --arg t "$n2" '[.paths[] | select(.from == $f and .to == $t and .address == "10.8.0.2") | .via] | unique[]' <<<"$facts"
  expect 10.8.0.1 jq -r --arg f "$n1" --arg t "$n2" '[.paths[] | select(.from == $f and .to == $t and .address == "10.8.0.2") | .source] | unique[]' <<<"$facts"
  expect true jq '[.nodes[] | .error == null and (.snapshot.interfaces | length) > 1 and (.uses | length) > 3] | all' <<<"$facts"
  expect "" agents
}

@test "--quick leaves bandwidth out" {
  cluster 2
  check --quick
  expect 0 jq '[.paths[] | select(.bandwidth_mbs)] | length' <<<"$facts"
  expect 2 jq '[.paths[] | select((.address | startswith("10.")) and .latency_us.min > 0)] | length' <<<"$facts"
}

@test "refused: a firewall that resets" {
  cluster 3
  wall "c2-$$" "tcp dport 1024-65535 tcp flags & (syn|ack) == syn reject with tcp reset"
  check
  [[ $status -eq 1 ]]
  expect refused paths "$n1" "$n2"
  expect open paths "$n2" "$n1"
  expect open paths "$n1" "$n3"
  expect ECONNREFUSED jq -r --arg t "$n2" '[.paths[] | select(.to == $t and .state == "refused" and (.address | startswith("10."))) | .errno] | unique[]' <<<"$facts"
  jq -e --arg n "$n2" '.nodes[] | select(.name == $n) | .firewall[0] | contains("reject with tcp reset")' <<<"$facts"
}

@test "filtered: a firewall that drops, in one direction" {
  cluster 3
  wall "c2-$$" "ip saddr 10.8.0.1 tcp flags & (syn|ack) == syn drop"
  checked_within 10
  [[ $status -eq 1 ]]
  expect filtered paths "$n1" "$n2"
  expect open paths "$n2" "$n1"
  expect open paths "$n3" "$n2"
}

@test "prohibited: a firewall that says so, on some ports" {
  cluster 2
  wall "c2-$$" "tcp dport 29500 reject with icmpx admin-prohibited" "tcp dport 1024 reject"
  check
  [[ $status -eq 1 ]]
  expect prohibited paths "$n1" "$n2" 10.8.0.2 store
  expect prohibited paths "$n1" "$n2" 10.8.0.2 registered
  expect open paths "$n1" "$n2" 10.8.0.2 ephemeral
}

@test "unreachable: no route" {
  cluster 3
  ip -n "$n3" addr flush dev eth0
  ip -n "$n3" addr add 10.99.0.3/24 dev eth0
  check
  [[ $status -eq 1 ]]
  expect unreachable paths "$n1" "$n3"
  expect ENETUNREACH jq -r --arg t "$n3" '[.paths[] | select(.to == $t and .address == "10.99.0.3") | .errno] | unique[]' <<<"$facts"
  expect open paths "$n1" "$n2"
}

@test "a black hole for large packets: connections stand, segments do not arrive" {
  cluster 3
  wall "c2-$$" "meta length 1400-65535 drop"
  checked_within 10
  expect open paths "$n1" "$n2"
  expect '{"link":1500,"df":1252,"segment":false}' jq -c --arg f "$n1" --arg t "$n2" \
    '.paths[] | select(.from == $f and .to == $t and .mtu and (.address | startswith("10."))).mtu' <<<"$facts"
  expect true jq -c --arg f "$n1" --arg t "$n3" '.paths[] | select(.from == $f and .to == $t and .mtu and (.address | startswith("10."))).mtu.segment' <<<"$facts"
}

@test "jumbo frames at both ends and none in between" {
  cluster 2
  ip -n "$n1" link set eth0 mtu 9000
  ip -n "$n2" link set eth0 mtu 9000
  check
  # Segments of veth's kind are let through in between; datagrams are not.
  expect '[[9000,1472]]' jq -c '[.paths[] | select(.mtu and (.address | startswith("10."))).mtu | [.link, .df]] | unique' <<<"$facts"
}

# twins - c1 to c3, of which the last two have the same address.
twins() {
  cluster 3
  ip -n "$n3" addr flush dev eth0
  ip -n "$n3" addr add 10.8.0.2/24 dev eth0
}

# taken_for NODE [permanent|reachable] - n1 sends to that one what is for their address.
taken_for() {
  ip -n "$n1" neigh replace 10.8.0.2 dev eth0 nud "${2:-permanent}" \
    lladdr "$(ip -n "$1" -j link show eth0 | jq -r '.[0].address')"
}

# told_apart - the verdict names the two, and of n1 no answer was taken for the other's.
told_apart() {
  check
  expect true jq --arg begin "10.8.0.2 is eth0 of $n2 and $n3" '.verdict | startswith($begin)' <<<"$facts"
  expect true jq --arg f "$n1" --arg a "$n2" --arg b "$n3" '
    [.paths[] | select(.from == $f and .address == "10.8.0.2")] | all(.answered == null or .answered == $a or .answered == $b) and
    all((.state == "open") == (.answered == .to))' <<<"$facts"
  [[ $status -eq 1 ]]
  expect impostor paths "$n2" "$n3"
  expect "[\"$n2\"]" jq -c --arg f "$n2" --arg t "$n3" '[.paths[] | select(.from == $f and .to == $t and .address == "10.8.0.2") | .answered] | unique' <<<"$facts"
}

@test "the same address twice: who really answered is known" {
  twins
  local right wrong
  for right in "$n2" "$n3"; do
    wrong=$n2
    [[ $right != "$n2" ]] || wrong=$n3
    taken_for "$right"
    told_apart
    expect open paths "$n1" "$right"
    expect impostor paths "$n1" "$wrong"
    expect "[\"$right\"]" jq -c --arg f "$n1" '[.paths[] | select(.from == $f and .address == "10.8.0.2") | .answered] | unique' <<<"$facts"
  done
}

@test "the same address twice: they are told apart whoever answers, and while that changes" {
  twins
  told_apart
  while sleep 0.05; do taken_for "$n2" reachable && sleep 0.05 && taken_for "$n3" reachable; done 3>&- &
  changer=$!
  told_apart
}

@test "docker0 on all nodes: each one speaks to itself" {
  cluster 2
  local n
  for n in "${nodes[@]}"; do
    ip -n "$n" link add docker0 type bridge
    ip -n "$n" addr add 172.17.0.1/16 dev docker0
    ip -n "$n" link set docker0 up
  done
  check
  [[ $status -eq 1 ]]
  expect impostor paths "$n1" "$n2" 172.17.0.1
  expect "$n1" jq -r --arg f "$n1" '[.paths[] | select(.from == $f and .address == "172.17.0.1") | .answered] | unique[]' <<<"$facts"
  expect open paths "$n1" "$n2" 10.8.0.2
}

@test "agents that are missing, silent, dying, lying: an error each, and the others are checked" {
  cluster 2
  cd "$BATS_TEST_TMPDIR"
  cat >starter <<EOT
#!/bin/bash
case \$1 in
missing) echo "bash: ringup: command not found" >&2; exit 127 ;;
silent) exec sleep 1000 ;;
dying) timeout -s KILL 1 ip netns exec $n2 "\${@:2}" ;;
torn) echo 'ringup-agent/1 {"op":"facts","facts":{' && exec cat >/dev/null ;;
older) echo 'ringup-agent/0 hello' && exec cat >/dev/null ;;

liar) echo 'ringup-agent/1 {"op":"facts","facts":{"schema":"ringup.net.check/1","seconds":0,"nodes":[{"name":"x"}]},"listens":[{"address":"999","port":-1},7]}' && exec cat >/dev/null ;;
rude) printf '\033[31mno\033[0m\n' >&2; exit 1 ;;
*) exec ip netns exec "\$@" ;;
esac
EOT
  chmod +x starter
  starter=$PWD/starter nodes+=(missing silent torn older liar rude) patience=8
  checked_within 25
  nodes=("$n1" "$n2")
  [[ $status -eq 1 ]]
  expect open paths "$n1" "$n2"
  expect open paths "$n2" "$n1"
  expect 'there is no agent: bash: ringup: command not found' jq -r '.nodes[] | select(.name == "missing").error' <<<"$facts"
  expect 'its agent does not answer' jq -r '.nodes[] | select(.name == "silent").error' <<<"$facts"
  expect 'the agent says something unintelligible' jq -r '.nodes[] | select(.name == "torn").error' <<<"$facts"
  expect 'the agent is of another version' jq -r '.nodes[] | select(.name == "older").error' <<<"$facts"
  expect 'its agent has not come back from trying connections' jq -r '.nodes[] | select(.name == "liar").error' <<<"$facts"
  expect 'there is no agent: ?[31mno?[0m' jq -r '.nodes[] | select(.name == "rude").error' <<<"$facts"
  expect "" agents
}

@test "an agent goes when nobody wants to know any more" {
  cluster 2
  timeout -s KILL 1 ringup net check --json --ssh "ip netns exec" "${nodes[@]}" >/dev/null 2>&1 &
  wait $! || true
  local i
  for i in {1..400}; do
    [[ -n $(agents) ]] || return 0
    sleep 0.05
  done
  agents
  return 1
}

@test "a stranger gets no answer from an agent, and the secret is in no command line" {
  cluster 2
  coproc agent { ip netns exec "$n1" ringup net agent 2>&1; }
  local pid=$agent_PID hello line port
  hello='{"op":"hello","secret":"'$(printf '%064d' 7)'","node":0,"names":["a","b"],"port":45000}'
  echo "ringup-agent/1 $hello" >&"${agent[1]}"
  read -r -t 60 line <&"${agent[0]}"
  [[ $line == 'ringup-agent/1 {"op":"facts"'* ]]
  port=$(jq -r '[.listens[] | select(.address == "10.8.0.1")][0].port' <<<"${line#* }")
  [[ $(ip netns exec "$n2" timeout 10 bash -c "exec 3<>/dev/tcp/10.8.0.1/$port; head -c 64 /dev/zero >&3; cat <&3" | wc -c) -eq 0 ]]
  not grep -q "$(printf '%064d' 7)" <(for p in $(ip netns pids "$n1"); do tr '\0' '\n' <"/proc/$p/cmdline"; tr '\0' '\n' <"/proc/$p/environ"; done)
  # Nothing that a break-in could use: no rights are left to it.
  grep -q '^CapEff:.0000000000000000' "/proc/$(ip netns pids "$n1" | tail -n 1)/status"
  eval "exec ${agent[1]}>&-"
  wait "$pid"
}

# tests/peers/check_nodes.py measures; here it is enough that nothing waits for each in turn.
@test "16 nodes, all pairs: time does not grow with their number" {
  cluster 16
  checked_within 30
  expect 720 jq '[.paths[] | select((.address | startswith("10.8.")) and .state == "open")] | length' <<<"$facts"
  expect 240 jq '[.paths[] | select((.address | startswith("10.")) and .latency_us.median > 0)] | length' <<<"$facts"
}

@test "16 nodes whose ports are filtered: nobody waits for each in turn" {
  cluster 16
  local n
  for n in "${nodes[@]}"; do wall "$n" "tcp flags & (syn|ack) == syn drop"; done
  # One after the other, 45 addresses and ports of 3.3 s each would take two minutes and a half.
  checked_within 30
  [[ $status -eq 1 ]]
  expect 720 jq '[.paths[] | select((.address | startswith("10.8.")) and .state == "filtered")] | length' <<<"$facts"
  expect '[]' jq -c '[.nodes[] | select(.error)]' <<<"$facts"
}
