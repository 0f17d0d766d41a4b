#!/usr/bin/env bats
# hang.bats - ringup hang: real hangs of real jobs, and healthy ones
# needs: waits
# tests: src/hang src/cli/cmd_hang.c src/wire/observe.c src/wire/discover.c src/engine/observer.c src/engine/stall.c tests/programs/hangs.c

load ../lib/helper
load ../lib/await
load ../lib/launcher

hangs=$PWD/tests/programs/hangs
mpihangs=$PWD/tests/programs/mpihangs

setup() {
  launcher_setup
  # py-spy is in the environment of the tests' own.
  PATH=$PATH:$(dirname "$RINGUP_TEST_PYTHON")
}
teardown() {
  # A stopped rank ends only once it runs again.
  # shellcheck disable=SC2046
  [[ -z ${launcher:-} ]] || kill -CONT $(pgrep -P "$launcher") 2>/dev/null || true
  launcher_teardown
}

# job KIND [NP] [RANK] - start ranks of which one hangs so, and wait until it does.
job() {
  RINGUP_DEADLOCK_MS=0 launch ringup run -np "${2:-3}" -- "$hangs" "$1" "${3:-1}" "$PWD/hung" >out 2>&1
  await test -e hung
  # Until each rank has looked at itself once more.
  sleep 1.2
}

# ask [OPTION...] - ask about that job alone.
ask() {
  run ringup hang --wait 1.5 "$@" "$launcher"
}

# expect_culprit RANK VERDICT
expect_culprit() {
  [[ $(jq -c '.jobs[0].culprits' <<<"$output") == "[$1]" ]] || fail "not rank $1: $output"
  [[ $(jq -r '.jobs[0].verdict' <<<"$output") == "$2" ]] || fail "not $2: $output"
  expect_status 1
}

@test "a rank that sleeps is named, with what the others wait in" {
  job sleep
  ask
  expect_status 1
  [[ $output == *"rank 1 on "*" (process "*") has not started allreduce grad.second; ranks 0, 2 have waited "*" for it"* ]]
  [[ $output == *"It last started allreduce grad.first (number 21)."* ]]
  [[ ${lines[-1]} == "run: ringup hang --collect hang-1" ]]
}

@test "ranks that wait with a deadline wait, too" {
  job patient
  ask --json
  expect_culprit 1 late
}

@test "a rank that is stopped is named, and how to continue it" {
  job stop
  ask --json
  expect_culprit 1 stopped
  [[ $(jq -r '.jobs[0].run' <<<"$output") == "kill -CONT "* ]]
  # The former key stays for one release.
  jq -e '.jobs[0] | .next == .run and .fix == null' <<<"$output"
}

@test "a rank that took another branch is named" {
  job branch
  ask --json
  expect_culprit 1 odd
}

@test "a rank that never starts is named" {
  job absent
  ask --json
  expect_culprit 1 initialisation
}

@test "a circle of receives is one" {
  job circle
  ask --json
  expect_culprit 0,1,2 circle
  [[ $(jq -r '.jobs[0].fix' <<<"$output") == "reorder sends and receives "* ]]
}

@test "a job that advances unevenly does not hang" {
  launch ringup run -np 3 -- "$hangs" uneven 1 >out 2>&1
  await pgrep -P "$launcher" -x hangs
  sleep 1
  ask --json
  expect_status 0
  [[ $(jq -r '.jobs[0].verdict' <<<"$output") == advances ]]
}

@test "of a job that advances by its pages no stack is taken" {
  mkdir bin
  printf '#!/bin/sh\necho taken >>%s/taken\n' "$PWD" | tee bin/eu-stack >bin/py-spy
  chmod +x bin/*
  launch ringup run -np 3 -- "$hangs" uneven 1 >out 2>&1
  await pgrep -P "$launcher" -x hangs
  sleep 1
  PATH=$PWD/bin:$PATH run ringup hang --wait 3.2 "$launcher"
  expect_status 0
  [[ ! -e taken ]]
  kill "$launcher"
  await gone "$launcher"
  job sleep
  PATH=$PWD/bin:$PATH run ringup hang --wait 3.2 "$launcher"
  expect_status 1
  [[ -e taken ]]
}

@test "a rank that spins is named by its stack, and otherwise not at once" {
  job spin
  ask --json --no-stacks
  expect_status 3
  command -v eu-stack >/dev/null || skip "no eu-stack"
  ask --json
  expect_culprit 1 late
  [[ $output == *compute_for_ever* ]]
}

@test "Open MPI: the rank that is elsewhere is named by its stack" {
  command -v eu-stack >/dev/null || skip "no eu-stack"
  [[ -x $mpihangs ]] || skip "no MPI"
  launch env TMPDIR="$BATS_TEST_TMPDIR" OMPI_MCA_btl_vader_backing_directory="$BATS_TEST_TMPDIR" mpirun --allow-run-as-root --oversubscribe -np 3 "$mpihangs" branch 1 "$PWD/hung" >out 2>&1
  await test -e hung
  sleep 0.5
  ask --json
  expect_culprit 1 odd
}

@test "--collect keeps stacks, states and the verdict, without environments" {
  TORCH_FR_DUMP_TEMP_FILE=$PWD/dump_ job sleep
  for r in 0 1; do echo "{\"version\": \"2.10\", \"entries\": []}" >"dump_$r"; done
  touch -d '2020-01-01' dump_1
  SECRET_WORD=xyzzy ask --collect kept
  expect_status 1
  [[ $(jq -r .verdict kept/job-1/verdict.json) == late ]]
  grep -q '^Name:.*hangs' kept/job-1/rank-1.state
  [[ $(tail -n 2 kept/job-1/rank-0.operations) == *" s ago: allreduce grad.first (number 21)"*" s ago: allreduce grad.second (number 21)" ]]
  [[ $(tail -n 1 kept/job-1/rank-1.operations) == *" s ago: allreduce grad.first (number 21)" ]]
  [[ -s kept/job-1/rank-1.stack || -s kept/job-1/missing ]]
  [[ -z $(grep -rl RINGUP_MEET= kept) ]]
  # Of another job, or none.
  cmp dump_0 kept/job-1/trace_rank_0
  [[ ! -e kept/job-1/trace_rank_1 && ! -e kept/job-1/trace_rank_2 ]]
  run ringup hang --wait 0 --collect kept "$launcher"
  expect_status 3
}

@test "--collect keeps the report of NCCL RAS, of versions that may be asked" {
  free_port
  # A library with NCCL's name and version; ringup itself answers in its place.
  nccl() { echo "const char said[] = \"NCCL version $1 \"; const char room[64] = \"x\";" | cc -shared -fPIC -x c -o libnccl.so.2 -; }
  nccl 2.28.9
  # A rank that is stopped does not end this job.
  RINGUP_RAS=$port RINGUP_FREEZE_MS=0 job sleep
  LD_PRELOAD=$PWD/libnccl.so.2 NCCL_RAS_ADDR=127.0.0.1:$port sh -c 'seq 20000; echo done >&2; exec sleep 100' >said 2>complaint 3>&- &
  user=$!
  await grep -q done complaint
  run ringup hang --wait 0.5 --collect kept "$user"
  jq -e '.communicators[0].ranks_count == 3' kept/job-1/ras
  # Of a long output the end.
  tail -c 65536 said | cmp - kept/job-1/rank-*.stdout
  cmp complaint kept/job-1/rank-*.stderr
  kill "$user"
  nccl 2.27.3
  LD_PRELOAD=$PWD/libnccl.so.2 NCCL_RAS_ADDR=127.0.0.1:$port sleep 100 3>&- &
  user=$!
  await grep -q libnccl "/proc/$user/maps"
  run ringup hang --wait 0.5 --collect careful "$user"
  kill "$user"
  grep -q '^ras: a RAS query corrupts memory' careful/job-1/missing
  [[ ! -e careful/job-1/ras ]]
}

@test "a page of another version is refused, and nothing else is believed" {
  run ringup hang --wait x
  expect_status 2
  run ringup hang 0
  expect_status 2
  run ringup hang $((1 << 20 | 1))
  expect_status 3
}

@test "two answers of NCCL RAS are two looks; one alone does not tell" {
  poll() {
    jq -n --argjson n "$1" '{nccl_version: "2.30.7", communicators: [{hash: "0xaa", size: 3, ranks: [range(3) | {rank: ., host: "10.0.0.7", pid: (. + 10), status: {init_state: 0}, collective_counts: {AllReduce: ($n - (if . == 2 then 1 else 0 end))}}]}]}'
  }
  poll 41 >a.json
  poll 41 >b.json
  poll 99 >c.json
  run ringup hang --json a.json b.json
  expect_culprit 2 behind
  run ringup hang a.json c.json
  expect_status 0
  run ringup hang a.json
  expect_status 3
}

# free_port - of 127.0.0.1; sets port.
free_port() {
  port=$((20000 + RANDOM % 10000))
  while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
}

# ncclras WORDS... - say these lines to the port, and print what is answered.
ncclras() {
  exec 5<>"/dev/tcp/127.0.0.1/$port"
  printf '%s\n' "$@" >&5
  timeout 10 cat <&5
  exec 5>&-
}

# behind N - does the port say that N ranks have launched what the late one has not?
behind() { ncclras STATUS | grep -q "^  $1 ranks have launched up to operation "; }

@test "a job of ringup answers as NCCL RAS does, if it is asked to" {
  free_port
  RINGUP_RAS=$port job sleep
  await behind 2
  run ringup hang --wait 1 --json --ras "127.0.0.1:$port"
  expect_culprit 1 behind
  [[ $(jq -r '.jobs[0].operation' <<<"$output") == "AllReduce "* ]]
  ncclras "CLIENT PROTOCOL 2" "SET FORMAT json" STATUS | tail -n +3 >a.json
  jq -e '.communicators | length == 1 and (.[0].ranks | length == 3 and (.[0].pid != .[1].pid) and .[1].collective_counts.AllReduce == .[0].collective_counts.AllReduce - 1)' a.json
  ncclras STATUS >a.txt
  grep -q '^  2 ranks have launched up to operation ' a.txt
  grep -q '^  Rank 1 has launched up to operation .* managed by process ' a.txt
  run ringup hang --json a.txt a.txt
  expect_culprit 1 behind
  # A stopped process is given connections, too; the client asks again.
  pid=$(jq '.communicators[0].ranks[2].pid' a.json)
  kill -STOP "$pid"
  is_silent() {
    run ringup hang --wait 1 --json --ras "127.0.0.1:$port"
    [[ $(jq -r '.jobs[0].verdict' <<<"$output") == silent ]]
  }
  await is_silent
  expect_culprit 2 silent
  RINGUP_RAS=70000 run timeout 20 ringup run -np 1 -- "$hangs" short 0
  [[ $status -ne 0 && $output == *"RINGUP_RAS=70000: not a port"* ]]
}

@test "flight records of a folder: the rank that skipped one is named; what is no record is told" {
  for r in 0 1 2; do
    jq -n --argjson r $r '{version: "2.10", entries: [range(if $r == 1 then 2 else 3 end) | {process_group: ["0", "default_pg"], collective_seq_id: (. + 1), profiling_name: "gloo:all_reduce", input_sizes: [[8]], input_dtypes: ["Float"], state: "scheduled", retired: (. < 2)}]}' >"trace_rank_$r.json"
  done
  run ringup hang .
  expect_status 1
  [[ $output == *"rank 1 has not started all_reduce [8] Float (number 3 of 3) of default_pg; ranks 0, 2 wait for it"* ]]
  echo "job failed" >log_7
  run ringup hang log_7
  expect_status 3
  [[ $output == "ringup hang: log_7: not a flight record, nor an NCCL log: run ringup diagnose log_7" ]]
}

@test "logs of NCCL: the rank that never came is named, of packed logs, too" {
  for r in 0 2; do
    echo "node-a:1$r:17 [$r] NCCL INFO ncclCommInitRank comm 0x5$r rank $r nranks 3 cudaDev $r nvmlDev $r busId 10 commId 0xaa - Init START" >"nccl-$r.log"
  done
  gzip nccl-2.log
  run ringup hang nccl-0.log nccl-2.log.gz
  expect_status 1
  [[ $output == *"rank 1 has not reached initialization of communicator 00000000000000aa"* ]]
  # The logs stop there: the job may still start, and may hang.
  run ringup diagnose nccl-0.log nccl-2.log.gz
  expect_status 1
  [[ $output == *"if the job hangs, this is where NCCL waits:"*"rank 1 has not reached initialization"* ]]
  { ringup diagnose --json nccl-0.log nccl-2.log.gz || true; } | jq -e '.nccl | contains("rank 1 has not")'
}

# other_user COMMAND... - run it as a user who owns nothing.
other_user() { setpriv --reuid=64719 --regid=64719 --clear-groups "$@"; }

@test "a user learns whose process it is, and which of the user's own are hidden" {
  other_user test -x "$(type -P ringup)" || skip "needs root and setpriv"
  job sleep
  run other_user ringup hang --wait 0 "$launcher"
  expect_status 3
  [[ $output == *"process $launcher belongs to another user: run sudo ringup hang $launcher"* ]]
  run other_user ringup hang --wait 0
  expect_status 0
  [[ $output == "no job of this user runs on this host" ]]
  # A process with more rights than its user's others hides its memory and environment.
  setpriv --reuid=64719 --regid=64719 --clear-groups --inh-caps=+net_raw --ambient-caps=+net_raw sleep 60 3>&- &
  hidden=$!
  await grep -q "^CapEff:.*2000" "/proc/$hidden/status"
  run other_user ringup hang --wait 0
  [[ $output == *"not seen: no permission to inspect 1 of your processes"*"run: sudo ringup hang" ]] || fail "$output"
  run other_user ringup hang --wait 0 "$hidden"
  kill "$hidden"
  expect_status 3
  [[ $output == *"not seen: no permission to inspect 1 process, such as $hidden"*"run: sudo ringup hang" ]] || fail "$output"
}

@test "without ptrace it judges by the pages, and says that it cannot see stacks" {
  without=$(dirname "$hangs")/without
  "$without" ptrace true || skip "no seccomp"
  job sleep
  run "$without" ptrace ringup hang --wait 1 "$launcher"
  expect_status 1
  [[ $output == *"rank 1 on "*" has not started allreduce grad.second"*"not seen: stacks: this "*" may not attach to processes (ptrace)"* ]] || fail "$output"
  kill "$launcher"
  await gone "$launcher"
  rm hung
  job spin
  run "$without" ptrace ringup hang --wait 1 --json "$launcher"
  expect_status 3
  [[ $(jq -r '.jobs[0].verdict' <<<"$output") == unknown ]]
  [[ $(jq -r '.jobs[0].unseen' <<<"$output") == "stacks: "*"(ptrace)" ]]
  [[ $(jq -r '.jobs[0] | .fix // .run' <<<"$output") == @(sudo ringup hang|start the container with --cap-add SYS_PTRACE) ]]
}

@test "--hang-after ends a job that hangs, and keeps why" {
  RINGUP_DEADLOCK_MS=0 run timeout 60 ringup run -np 3 --hang-after 2s -- "$hangs" sleep 1 "$PWD/hung"
  expect_status 143
  [[ $output == *"rank 1 on "*" has not started allreduce grad.second"*"ringup run: ending the job, which has hung for 2 s"* ]]
  [[ $(jq -c .culprits hang-*/job-1/verdict.json) == "[1]" ]]
  run ringup run -np 1 --hang-after 0 -- true
  expect_status 2
}
