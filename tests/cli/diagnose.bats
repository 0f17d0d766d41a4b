#!/usr/bin/env bats
# diagnose.bats - ringup diagnose
# needs: cpu
# tests: src/cli/cmd_diagnose.c src/diagnose tests/diagnose

load ../lib/helper

logs=$src/tests/diagnose/logs

# ids LOG... - the signatures that are found, in their order; sets $status.
ids() {
  command -v jq >/dev/null || skip "jq is not installed"
  run bash -c 'set -o pipefail; ringup diagnose --json "$@" | jq -r "[.findings[].signature] | join(\" \")"' _ "$@"
}

# node NAME ADDRESS - a snapshot of a node with eth0 and docker0.
node() {
  cat >"$BATS_TEST_TMPDIR/$1.json" <<EOF
{"schema":"ringup.net.snapshot/1","hostname":"$1","interfaces":[
 {"index":2,"name":"eth0","type":"physical","flags":["UP","RUNNING"]},
 {"index":3,"name":"docker0","type":"bridge","flags":["UP"]}],
 "addresses":[{"interface":2,"address":"$2","prefix":24},{"interface":3,"address":"172.17.0.1","prefix":16}]}
EOF
}

@test "each recorded log shows its cause first" {
  local log want
  while read -r log want; do
    ids "$logs/$log.log"
    [[ $status -eq 1 && $output == "$want" ]] || { echo "$log: $output, not $want"; return 1; }
  done <<'EOF'
openmpi-docker0 M1 M4
openmpi-docker0-one M1
openmpi-both-lists M9 M8
openmpi-wrong-network M7 M4
openmpi-no-length M7 M1
openmpi-unknown-name M6 M8
openmpi-names-differ M10 M11 M13
openmpi-exclude M5
openmpi-firewall-oob M12 M13
openmpi-firewall-btl M4
openmpi-nat M3
gloo-docker0 G3
gloo-loopback G2
gloo-refused G5
gloo-store-dropped G7
gloo-store-wrong G8
horovod-dropped H4
nccl-refused N6 N7 N8
nccl-victims N1
nccl-same-gpu N42 T1
ringup-killed R1
ringup-stall R5
ringup-host-refused R13
ringup-host-lost R14
ringup-stuck R15
ringup-too-few R16
ringup-few-slots R17
ringup-silent R4
ringup-unconfirmed R12
ringup-link-down R11
ringup-unplugged R11
ringup-no-address R11
ringup-cut-off R11
EOF
}

@test "healthy logs, verbose ones too, show nothing" {
  local log
  for log in "$src"/tests/diagnose/healthy/*.log; do
    run ringup diagnose "$log"
    expect_status 0
    [[ $output == "no known problem in $log ("* ]] || { echo "$output"; return 1; }
  done
  run ringup diagnose --json "$src"/tests/diagnose/healthy/*.log
  expect_status 0
}

@test "what no signature knows is shown with file and line, and the status is 1" {
  command -v jq >/dev/null || skip "jq is not installed"
  printf '%s\n' 'all is well' '[rank3]: Traceback (most recent call last):' "[rank3]: KeyError: 'gizmo'" \
    "[rank5]: KeyError: 'gizmo'" "[rank3]: ValueError: follows from it" >"$BATS_TEST_TMPDIR/log"
  run ringup diagnose "$BATS_TEST_TMPDIR/log"
  expect_status 1
  [[ ${lines[0]} == "unrecognized error (first one logged by this process) [any, X2]" ]]
  expect_line "  where     $BATS_TEST_TMPDIR/log:3, 2 times, ranks 3,5"
  expect_line "  evidence  [rank3]: KeyError: 'gizmo'"
  [[ $output != *ValueError* ]]
  run bash -c 'ringup diagnose --json "$1" | jq -c "[.findings[] | .signature, .line, .ranks, .reason]"' _ "$BATS_TEST_TMPDIR/log"
  [[ $output == '["X2",3,[3,5],null]' ]] || { echo "$output"; return 1; }
}

@test "a result tells the line before that is its reason" {
  printf '%s\n' 'ssh: Could not resolve hostname node-9: Name or service not known' \
    'ORTE was unable to reliably start one or more daemons.' >"$BATS_TEST_TMPDIR/log"
  run ringup diagnose "$BATS_TEST_TMPDIR/log"
  expect_status 1
  [[ ${lines[0]} == *"[ssh, S1]" ]]
  expect_line "  run       getent hosts node-9"
  expect_line "  why       line 1: ssh: Could not resolve hostname node-9: Name or service not known"
}

@test "a job that hung until it was killed: what made it hang comes first; one that was killed alone, the kill" {
  local killed='./job.sh: line 3:  4711 Killed                  mpirun ./a.out'
  { cat "$src/tests/diagnose/logs/openmpi-docker0-one.log"; echo "$killed"; } >"$BATS_TEST_TMPDIR/hung.log"
  run ringup diagnose --json "$BATS_TEST_TMPDIR/hung.log"
  [[ $(jq -r '.findings[0].signature' <<<"$output") == M1 && $(jq -r '.findings[-1].signature' <<<"$output") == K8 ]]
  { echo "$killed"; cat "$src/tests/diagnose/logs/openmpi-docker0-one.log"; } >"$BATS_TEST_TMPDIR/killed.log"
  run ringup diagnose --json "$BATS_TEST_TMPDIR/killed.log"
  [[ $(jq -r '.findings[0].signature' <<<"$output") == K8 ]]
}

@test "a check of the network is offered only where the network is the cause" {
  printf '%s\n' 'bash: orted: command not found' 'ORTE was unable to reliably start one or more daemons.' >"$BATS_TEST_TMPDIR/log"
  run ringup diagnose "$BATS_TEST_TMPDIR/log"
  [[ ${lines[0]} == *"[ssh, S3]" && $output == *M13* && $output != *"ringup net check"* ]] || { echo "$output"; return 1; }
  run ringup diagnose - <<<"requests.exceptions.ConnectionError: HTTPSConnectionPool(host='h', port=443): Max retries exceeded with url: /m.bin"
  [[ $output != *"ringup net check"* ]] || { echo "$output"; return 1; }
  run ringup diagnose - <<<'ORTE was unable to reliably start one or more daemons.'
  expect_line "  run       ringup net check --hostfile HOSTS"
}

@test "a job that went on after complaints ended well: they are notes, and the status is 0" {
  { echo 'ERROR:ckpt:could not write /ckpt/1.pt, trying again'; printf 'step %s loss 1.0\n' 1 2 3 4 5; } >"$BATS_TEST_TMPDIR/log"
  run ringup diagnose "$BATS_TEST_TMPDIR/log"
  expect_status 0
  [[ ${lines[0]} == "1 complaint, but the job continued" ]]
  run bash -c 'ringup diagnose --json "$1" | jq -r "[.outcome, .processes[0].step] | join(\" \")"' _ "$BATS_TEST_TMPDIR/log"
  [[ $output == "well 5" ]]
  echo 'Traceback (most recent call last):' >>"$BATS_TEST_TMPDIR/log"
  echo "KeyError: 'x'" >>"$BATS_TEST_TMPDIR/log"
  run ringup diagnose "$BATS_TEST_TMPDIR/log"
  expect_status 1
  [[ ${lines[0]} == *"[any, X2]" && ${lines[2]} == *"KeyError: 'x'" ]] || { echo "$output"; return 1; }
}

@test "rules of a user: found first, read from --rules and from the folder of the user; a wrong one is told" {
  printf '%s\n' 'rule: frob-1' 'library: frob' 'kind: setting' 'text: frobd: no gizmo {value}' 'cause: frobd has no gizmo' 'fix: install one' \
    'explains: S1' >"$BATS_TEST_TMPDIR/a.rules"
  printf '%s\n' 'ssh: Could not resolve hostname n9: Name or service not known' 'frobd: no gizmo 7' >"$BATS_TEST_TMPDIR/log"
  run ringup diagnose --rules "$BATS_TEST_TMPDIR/a.rules" "$BATS_TEST_TMPDIR/log"
  expect_status 1
  [[ ${lines[0]} == "frobd has no gizmo (7) [frob, frob-1]" ]] || { echo "$output"; return 1; }
  expect_line "  why       line 2: frobd: no gizmo 7"
  mkdir -p "$BATS_TEST_TMPDIR/config/ringup/rules"
  cp "$BATS_TEST_TMPDIR/a.rules" "$BATS_TEST_TMPDIR/config/ringup/rules"
  XDG_CONFIG_HOME=$BATS_TEST_TMPDIR/config run ringup diagnose "$BATS_TEST_TMPDIR/log"
  [[ ${lines[0]} == *"[frob, frob-1]" ]] || { echo "$output"; return 1; }
  echo 'frob: x' >>"$BATS_TEST_TMPDIR/a.rules"
  run ringup diagnose --rules "$BATS_TEST_TMPDIR/a.rules" "$BATS_TEST_TMPDIR/log"
  expect_status 3
  [[ $output == *"a.rules:8: \"frob\" is not one of"* ]] || { echo "$output"; return 1; }
  run ringup diagnose --list-rules
  expect_status 0
  [[ ${lines[0]} == "rule: N1" ]]
}

@test "an unknown error comes with a rule to begin with, which then knows it" {
  echo 'ValueError: 17 gizmos are gone from the shelf' >"$BATS_TEST_TMPDIR/log"
  run ringup diagnose "$BATS_TEST_TMPDIR/log"
  expect_line "  text: ValueError: {errno} gizmos are gone from the shelf"
  grep -E '^  (rule|kind|text|cause|fix): ' <<<"$output" | sed 's/^  //' >"$BATS_TEST_TMPDIR/my.rules"
  run ringup diagnose --rules "$BATS_TEST_TMPDIR/my.rules" "$BATS_TEST_TMPDIR/log"
  [[ ${lines[0]} == "CAUSE [user, my-1]" ]] || { echo "$output"; return 1; }
}

@test "--compare shows the lines that a good run never has" {
  printf 'step %s loss 1.0\n' 1 2 3 4 >"$BATS_TEST_TMPDIR/good"
  printf '%s\n' 'step 9 loss 7' 'queue 3 is growing' 'queue 4 is growing' >"$BATS_TEST_TMPDIR/log"
  run ringup diagnose --compare "$BATS_TEST_TMPDIR/good" "$BATS_TEST_TMPDIR/log"
  expect_line "1 kind of lines that $BATS_TEST_TMPDIR/good does not contain"
  expect_line "  $BATS_TEST_TMPDIR/log:2: queue 3 is growing (2 times)"
  run bash -c 'ringup diagnose --json --compare "$1/good" "$1/log" | jq -c "[.new[] | .line, .count]"' _ "$BATS_TEST_TMPDIR"
  [[ $output == '[2,2]' ]]
}

@test "echoes are left out and counted, and are told when they are all there is" {
  command -v jq >/dev/null || skip "jq is not installed"
  run bash -c 'ringup diagnose --json "$1" | jq -r "[.echoes[] | .signature, .count] | join(\" \")"' _ "$logs/nccl-victims.log"
  [[ $output == "N16 2 G6 1" ]] || { echo "$output"; return 1; }
  run ringup diagnose - <<<'node-2:51:51 [0] NCCL WARN socketProgress: Connection closed by remote peer node-1<5>'
  expect_status 1
  [[ $output == "a peer's process ended; this rank is a victim [NCCL, N16]"* ]]
}

@test "the cause is the first line; evidence, fix and run follow" {
  run ringup diagnose "$logs/openmpi-unknown-name.log"
  expect_status 1
  [[ ${lines[0]} == *"(ens5) [Open MPI, M6]" ]]
  expect_line "  where     $logs/openmpi-unknown-name.log:3, host node-2"
  expect_line "  run       ringup net fix"
}

@test "JSON is what ringup-diagnose(1) says" {
  command -v jq >/dev/null || skip "jq is not installed"
  run bash -c 'ringup diagnose --json "$1" | jq -e ".schema == \"ringup.diagnose/1\" and (.findings[0] |
    .signature == \"M1\" and .library == \"openmpi\" and .line == 13 and .count == 1 and (.cause, .proof, .remedy, .file | length > 0) and
    .evidence == .proof and .fix == .remedy and .run == .command and .why == .reason and
    .command == \"ringup net fix\" and .hosts == [\"node-1\"])"' _ "$logs/openmpi-docker0.log"
  expect_status 0
}

@test "addresses are looked up in the nodes' snapshots" {
  node node-1 10.20.0.1
  node node-2 10.20.0.2
  run ringup diagnose -s "$BATS_TEST_TMPDIR/node-1.json" -s "$BATS_TEST_TMPDIR/node-2.json" "$logs/openmpi-docker0-one.log"
  expect_status 1
  [[ ${lines[0]} == *"172.17.0.1 is docker0 of node-1 and docker0 of node-2: of every node [Open MPI, M1]" ]]
  run ringup diagnose -s "$BATS_TEST_TMPDIR/node-1.json" -s "$BATS_TEST_TMPDIR/node-2.json" "$logs/gloo-refused.log"
  [[ $output == *"10.20.0.1 is eth0 of node-1"* ]]
  # A path that ends in a shared address is no matter of firewalls.
  run ringup diagnose -s "$BATS_TEST_TMPDIR/node-1.json" -s "$BATS_TEST_TMPDIR/node-2.json" - \
    <<<'node-2:1:2 [0] NCCL INFO connect to 172.17.0.1<40001> returned Connection refused, retrying'
  [[ ${lines[0]} == "several nodes have this address"*"[NCCL, N7]" ]]
  expect_line "  run       ringup net fix"
  # Where the log names several hosts, all of them are settled together.
  run ringup diagnose -s "$BATS_TEST_TMPDIR/node-1.json" -s "$BATS_TEST_TMPDIR/node-2.json" - <<'EOT'
node-2:1:2 [0] NCCL INFO connect to 172.17.0.1<40001> returned Connection refused, retrying
node-1:1:2 [0] NCCL INFO connect to 172.17.0.1<40001> returned Connection refused, retrying
EOT
  expect_line "  run       ringup net fix --nodes node-2 node-1"
}

@test "several logs: each is read, and counts add up" {
  command -v jq >/dev/null || skip "jq is not installed"
  cp "$logs/openmpi-docker0-one.log" "$BATS_TEST_TMPDIR/a"
  cp "$logs/openmpi-docker0-one.log" "$BATS_TEST_TMPDIR/b"
  cd "$BATS_TEST_TMPDIR"
  run bash -c 'ringup diagnose --json a b | jq -c ".findings[0] | [.count, .files, .file, .line]"'
  [[ $output == '[4,2,"a",2]' ]] || { echo "$output"; return 1; }
}

@test "marks of ranks are seen through, also within a message" {
  sed 's/^/[1,3]<stderr>:/' "$logs/openmpi-unknown-name.log" >"$BATS_TEST_TMPDIR/tagged"
  run ringup diagnose "$BATS_TEST_TMPDIR/tagged"
  expect_status 1
  [[ ${lines[0]} == *"(ens5) [Open MPI, M6]" ]]
  expect_line "  where     $BATS_TEST_TMPDIR/tagged:3, rank 3, host node-2"
}

@test "lines that were broken elsewhere are still read" {
  tr ' \n' '\n ' <"$logs/openmpi-docker0-one.log" >"$BATS_TEST_TMPDIR/broken"
  ids "$BATS_TEST_TMPDIR/broken"
  [[ $output == M1 ]]
}

@test "compressed logs, as files and as streams" {
  local pack
  for pack in gzip bzip2 xz zstd; do
    command -v "$pack" >/dev/null || continue
    "$pack" -c <"$logs/gloo-docker0.log" >"$BATS_TEST_TMPDIR/log"
    ids "$BATS_TEST_TMPDIR/log"
    [[ $status -eq 1 && $output == G3 ]] || { echo "$pack: $output"; return 1; }
    run bash -c 'cat "$1" | ringup diagnose -' _ "$BATS_TEST_TMPDIR/log"
    expect_status 1
    head -c 60 "$BATS_TEST_TMPDIR/log" >"$BATS_TEST_TMPDIR/cut"
    run ringup diagnose "$BATS_TEST_TMPDIR/cut"
    expect_status 3
    [[ $output == *"$pack cannot unpack all of it"* ]] || { echo "$output"; return 1; }
  done
}

@test "what cannot be read is told, and the rest is read" {
  run ringup diagnose "$BATS_TEST_TMPDIR/none"
  expect_status 3
  [[ $output == *"$BATS_TEST_TMPDIR/none: open: No such file or directory"* ]]
  run ringup diagnose "$BATS_TEST_TMPDIR"
  expect_status 3
  [[ $output == *"name the logs inside"* ]]
  run ringup diagnose "$BATS_TEST_TMPDIR/none" "$logs/gloo-docker0.log"
  expect_status 3
  [[ $output == *"[Gloo, G3]"* && $output == *"No such file"* ]]
  run ringup diagnose
  expect_status 2
}

@test "hostile bytes: nothing reaches the terminal, nothing is run on" {
  printf '\033]0;x\007\000 NCCL WARN \033[31mBootstrap : no socket interface found\033[2J\r\000\377\302\233\n' >"$BATS_TEST_TMPDIR/log"
  run ringup diagnose "$BATS_TEST_TMPDIR/log"
  expect_status 1
  [[ $output == *"[NCCL, N1]"* ]]
  not grep -q $'[\001-\010\016-\037\177]' <<<"$output"
  # A host's name that would be more than a name in a shell.
  printf -- '-----\nunable to complete a TCP connection\n Local host: $(reboot)\n Remote host: -x\n' >"$BATS_TEST_TMPDIR/log"
  run ringup diagnose "$BATS_TEST_TMPDIR/log"
  expect_line "  run       ringup net check --hostfile HOSTS"
}

@test "lines of 50 MB and more, and nothing but beginnings, take little memory and bounded time" {
  local what
  for what in 'x' 'connect to ' $'connect to 1.1.1.1<1> returned\n' 'invalid value was given for a This ' $'\n' '\0'; do
    run bash -c 'readelf -d "$(command -v ringup)" | grep -q san.so || ulimit -v 65536
      printf "%.0s$1" {1..50000} >"$2"
      while (($(wc -c <"$2") < 50000000)); do cat "$2" "$2" "$2" "$2" >"$2.more"; mv "$2.more" "$2"; done
      # Of the processor'"'"'s time, which nobody else can take.
      ulimit -t 60 && exec ringup diagnose "$2"' _ "$what" "$BATS_TEST_TMPDIR/big"
    rm -f "$BATS_TEST_TMPDIR/big"
    expect_status 0
  done
}

@test "what is typed reaches the terminal without what it would obey" {
  local esc=$'\e]0;x\a' words
  for words in "diagnose --$esc" "diagnose $esc $esc" "net lint $esc" "net fix $esc" "net check $esc" "$esc"; do
    run bash -c 'IFS=" "; ringup $1 2>&1' _ "$words"
    ((status >= 1 && status <= 3))
    [[ $output != *[$'\e\a']* ]] || { echo "$words"; return 1; }
  done
}

@test "--status tells what no log says: the job failed, or it ended well" {
  printf '[0] step %d loss 1\n' 1 2 3 >log
  printf 'input deck: missing section MESH\ntraining finished\n' >>log
  run ringup diagnose log
  [[ $status -eq 0 ]]
  run ringup diagnose --status 2 log
  [[ $status -eq 1 && ${lines[0]} == "the job ended with status 2; the log does not show why"* ]]
  [[ ${lines[2]} == *"missing section MESH" ]]
  run ringup diagnose --status 137 log
  [[ $status -eq 1 && ${lines[0]} == "signal 9 ended the job; the log does not show why"* ]]
  printf 'KeyError: 1\n' >>log
  ids --status 2 log
  [[ $status -eq 1 && $output == X2 ]] || { echo "$output"; return 1; }
  run ringup diagnose --status 0 log
  [[ $status -eq 0 && ${lines[0]} == "1 complaint, but the job continued" ]]
}

@test "one rank that ends in another way than all others is a finding" {
  printf '[%d] step 1 loss 1\n' 0 1 2 >log
  printf '[1] input deck: missing section MESH\n[2] training finished[2] \n[0] training finished\n' >>log
  ids log
  [[ $status -eq 1 && $output == X6 ]] || { echo "$output"; return 1; }
  # Of two ranks one alone may write that line; and a rank may still be at its steps.
  sed -i '/^\[2\]/d' log
  ids log
  [[ $status -eq 0 && -z $output ]] || { echo "$output"; return 1; }
}

@test "a record's field is a rank, an error's end is shown, and a folded sentence whole" {
  local r
  for ((r = 0; r < 3; r++)); do
    printf 'time=09:00 level=info rank=%d step=1 loss=1\n' $r
    ((r == 1)) || printf 'time=09:01 level=info rank=%d step=9 loss=1\n' $r
  done >log
  run ringup diagnose log
  [[ $status -eq 1 && ${lines[0]} == "rank 1 stopped after step 1"* ]]
  printf 'E1122 10:00:00 1 pod.go:3] %0200d: add cmd: no address is left\n' 7 >log
  run ringup diagnose log
  [[ ${lines[2]} == *" ... "*": add cmd: no address is left" ]]
  {
    printf -- '-%.0s' {1..74}
    printf '\nmpirun was unable to launch the specified application as it could not\nchange to the specified working directory:\n\n'
    printf -- '-%.0s' {1..74}
    echo
  } >log
  run ringup diagnose log
  [[ ${lines[2]} == *"could not change to the specified working directory:" ]]
}
