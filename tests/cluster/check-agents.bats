#!/usr/bin/env bats
# check-agents.bats - agents of `ringup net check` that die, lie or are many, and strangers at their doors.
# needs: waits root-net
# tests: src/probe src/detect/netfacts.c src/settle src/nicpick src/host src/base src/cli/cmd_net.c src/cli/cmd_net_check.c src/cli/cmd_net_agent.c tests/lib/nodes.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/nodes

setup() { nodes_setup; }
teardown() { nodes_teardown; }

@test "agents that are missing, silent, dying, lying: an error each, and the others are checked" {
  cluster 2
  cat >starter <<EOT
#!/bin/bash
case \$1 in
missing) echo "bash: ringup: command not found" >&2; exit 127 ;;
silent) exec sleep 1000 ;;
torn) echo 'ringup-agent/1 {"op":"facts","facts":{' && exec cat >/dev/null ;;
older) echo 'ringup-agent/0 hello' && exec cat >/dev/null ;;
liar) echo 'ringup-agent/1 {"op":"facts","facts":{"schema":"ringup.net.check/1","seconds":0,"nodes":[{"name":"x"}]},"listens":[{"address":"999","port":-1},7]}' && exec cat >/dev/null ;;
rude) printf '\033[31mno\033[0m\n' >&2; exit 1 ;;
*) exec ip netns exec "\$@" ;;
esac
EOT
  chmod +x starter
  starter=$PWD/starter nodes+=(missing silent torn older liar rude) patience=12
  check
  nodes=("$n1" "$n2")
  [[ $status -eq 1 ]]
  expect open paths "$n1" "$n2"
  expect open paths "$n2" "$n1"
  expect 'no agent started: bash: ringup: command not found' jq -r '.nodes[] | select(.name == "missing").error' <<<"$facts"
  expect 'its agent does not answer' jq -r '.nodes[] | select(.name == "silent").error' <<<"$facts"
  expect 'the agent sent an invalid message' jq -r '.nodes[] | select(.name == "torn").error' <<<"$facts"
  expect 'the agent has another version' jq -r '.nodes[] | select(.name == "older").error' <<<"$facts"
  expect 'its agent did not answer after trying connections' jq -r '.nodes[] | select(.name == "liar").error' <<<"$facts"
  expect 'no agent started: ?[31mno?[0m' jq -r '.nodes[] | select(.name == "rude").error' <<<"$facts"
  await no_agents
}

@test "an agent goes when nobody wants to know any more" {
  cluster 2
  # One that says nothing keeps the others waiting.
  printf '#!/bin/bash\n[[ $1 != silent ]] || exec cat >/dev/null\nexec ip netns exec "$@"\n' >starter
  chmod +x starter
  ringup net check --json --ssh "$PWD/starter" "${nodes[@]}" silent >/dev/null 2>&1 3>&- &
  await agents_run
  kill -KILL $!
  await no_agents
}

# agents_run - is there one on each node?
agents_run() {
  local n
  for n in "${nodes[@]}"; do [[ -n $(ip netns pids "$n") ]] || return 1; done
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
  [[ $(ip netns exec "$n2" timeout 60 bash -c "exec 3<>/dev/tcp/10.8.0.1/$port; head -c 64 /dev/zero >&3; cat <&3" | wc -c) -eq 0 ]]
  not grep -q "$(printf '%064d' 7)" <(for p in $(ip netns pids "$n1"); do tr '\0' '\n' <"/proc/$p/cmdline"; tr '\0' '\n' <"/proc/$p/environ"; done)
  # Nothing that a break-in could use: no rights are left to it.
  grep -q '^CapEff:.0000000000000000' "/proc/$(ip netns pids "$n1" | tail -n 1)/status"
  eval "exec ${agent[1]}>&-"
  wait "$pid"
}

# tests/peers/check_nodes.py measures; here it is enough that nothing waits for each in turn.
@test "16 nodes, all pairs: time does not grow with their number" {
  cluster 16
  check --quick
  expect 720 jq '[.paths[] | select((.address | startswith("10.8.")) and .state == "open" and (.port.kind | test("^(ephemeral|registered|store)$")))] | length' <<<"$facts"
  expect 240 jq '[.paths[] | select((.address | startswith("10.")) and .latency_us.median > 0)] | length' <<<"$facts"
}

@test "16 nodes whose ports are filtered: nobody waits for each in turn" {
  cluster 16
  local n
  for n in "${nodes[@]}"; do wall "$n" "tcp flags & (syn|ack) == syn drop"; done
  # One after the other, 45 addresses and ports of 3.3 s each would take two minutes and a half; what
  # has not been tried after eight seconds is not said to be filtered.
  check
  [[ $status -eq 1 ]]
  expect 720 jq '[.paths[] | select((.address | startswith("10.8.")) and .state == "filtered" and (.port.kind | test("^(ephemeral|registered|store)$")))] | length' <<<"$facts"
  expect '[]' jq -c '[.nodes[] | select(.error)]' <<<"$facts"
}
