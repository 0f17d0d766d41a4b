#!/usr/bin/env bats
# by-hand.bats - `ringup net check --agent`: agents that people start, and strangers at that door.
# needs: waits root-net
# tests: src/probe src/detect/netfacts.c src/settle src/base src/cli/cmd_net.c src/cli/cmd_net_check.c src/cli/cmd_net_agent.c tests/lib/hosts.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts

setup() {
  command -v jq >/dev/null || skip "jq is not installed"
  fault_setup
}
teardown() {
  local p
  for p in "${began[@]:-}"; do [[ -z $p ]] || kill "$p" 2>/dev/null || true; done
  cluster_down
}

# begin [OPTION...] NODE... - a check on n1 that waits; sets line (what to paste), where and secret.
began=()
begin() {
  at n1 ringup net check --json --quick --agent "$@" >facts 2>said 3>&- &
  began+=($!)
  await grep -q -- --connect said
  line=$(sed -n 's/^ *\(echo .*\)/\1/p' said)
  where=${line##* }
  secret=${line#echo }
  secret=${secret%% *}
}

# paste NODE [WORD...] - what a person does there.
paste_on() {
  at "$1" sh -c "$line ${*:2}" >"$1.agent" 2>&1 3>&- &
  began+=($!)
}

# ended - wait for the check; sets status.
ended() {
  status=0
  wait "${began[0]}" || status=$?
}

# ended_well - wait for the check, which has found nothing but perhaps slow paths.
ended_well() {
  ended
  ((status <= 1)) && level facts >level && ringup net check --from "$PWD/level" >judged ||
    { cat said judged facts; return 1; }
}

@test "one line pasted on each node, and all is checked" {
  cluster_up 3
  begin n1 n2 third
  paste_on n1
  paste_on n2
  paste_on n3 --name third
  ended_well
  [[ $(jq -c '[.nodes[] | [.name, .hostname, .error]]' facts) == '[["n1","n1",null],["n2","n2",null],["third","n3",null]]' ]]
  [[ $(jq '[.paths[] | select(.address | startswith("10.77.")) | .state] | unique == ["open"]' facts) == true ]]
  # The secret is in nobody's command line or environment, and good for this check alone.
  run at n2 sh -c "$line"
  expect_status 3
}

@test "strangers: garbage, silence, a wrong secret, a crowd; who belongs there comes in all the same" {
  cluster_up 2
  begin n1 n2
  local i port=${where##*:} host=${where%:*}
  [[ $host == 10.77.0.1 ]]
  for i in {1..70}; do
    at n2 timeout 60 bash -c "exec 3<>/dev/tcp/$host/$port; cat <&3" >/dev/null 2>&1 3>&- &
    began+=($!)
  done
  for i in 1 2 3; do
    at n2 timeout 60 bash -c "exec 3<>/dev/tcp/$host/$port; head -c 100000 /dev/urandom >&3; cat <&3" >/dev/null 2>&1 3>&- &
    began+=($!)
  done
  run at n2 sh -c "echo $(printf '%064d' 1) | ringup net agent --connect $where"
  expect_status 3
  run at n2 sh -c "echo $(printf '%064d' 1)00 | ringup net agent --connect $where"
  expect_status 3
  [[ $output == *"not the secret that"* ]]
  run at n2 sh -c "$line --name n7"
  expect_status 3
  [[ $output == *"no node of this check is named n7; use --name=NODE"* ]]
  paste_on n1
  await grep -q joined n1.agent
  run at n2 sh -c "$line --name n1"
  expect_status 3
  [[ $output == *"n1 is here already"* ]]
  not grep -q "$secret" <(for p in $(room ps -eo pid=); do room cat "/proc/$p/cmdline" "/proc/$p/environ" 2>/dev/null | tr '\0' '\n' | grep -v '^sh$\|^echo '; done)
  paste_on n2
  ended_well
}

@test "who does not come is named, and the wait is bounded" {
  cluster_up 2
  begin --timeout 3 n1 n2
  paste_on n1
  ended
  [[ $status -eq 1 ]]
  [[ $(jq -r '.nodes[1].error' facts) == 'no agent was started there in time' ]]
  grep -q 'within 3 seconds' said
}
