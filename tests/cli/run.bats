#!/usr/bin/env bats
# run.bats - ringup run
# proves: F28 F31 of docs/RELIABILITY.md
# needs: waits
# tests: src/cli/cmd_run.c src/launch src/launch/crew.c src/launch/output.c src/launch/ending.c src/wire/discover.c src/base tests/programs/whereami.c tests/lib/launcher.bash

load ../lib/helper
load ../lib/await
load ../lib/launcher

whereami=$PWD/tests/programs/whereami

setup() { launcher_setup; }
teardown() { launcher_teardown; }

# background ARG... - start `ringup run ARG...`; sets $timer and $launcher.
background() {
  launch ringup run "$@" >out 2>err
}

# lines N FILE... - do the files have N lines together?
lines() {
  local n=$1
  shift
  [[ $(cat "$@" 2>/dev/null | wc -l) -eq $n ]]
}

# guard_of PID - the guard among its children.
guard_of() {
  local c
  for c in $(cat "/proc/$1/task/$1/children"); do
    [[ $(cat "/proc/$c/comm") != ringup-guard ]] || echo "$c"
  done
}

# other_guard PID OLD - has it another guard than OLD?
other_guard() {
  local now
  now=$(guard_of "$1")
  [[ -n $now && $now != "$2" ]]
}

# said TEXT - has the launcher said so?
said() {
  grep -qF "ringup run: $1" err
}

# A rank with a child in its session and one in another; all note their number.
family='echo $$ >>pids; sleep 300 & echo $! >>pids; setsid sh -c "echo \$\$ >>pids; exec sleep 300" & wait'

@test "output has the rank in front, each stream on its own" {
  ringup run -np 3 -- sh -c 'echo "out $RINGUP_RANK"; echo "err $RINGUP_RANK" >&2' >out 2>err
  [[ $(sort out) == "[0] out 0"$'\n'"[1] out 1"$'\n'"[2] out 2" ]]
  [[ $(sort err) == "[0] err 0"$'\n'"[1] err 1"$'\n'"[2] err 2" ]]
}

@test "the command needs no --, and keeps its own options" {
  run ringup run -n 1 echo -n -np 7 --no-prefix
  expect_status 0
  expect_line "[0] -np 7 --no-prefix"
}

@test "a name of mpirun's that is none here starts nothing, and is told" {
  local word
  for word in -machinefile -host -oversubscribe; do
    run ringup run -np 2 "$word" hosts touch started
    expect_status 2
    [[ $output == *"unknown option $word"* && ! -e started ]]
  done
}

@test "ranks are told who they are in ringup's, Horovod's and torch's words" {
  run ringup run -np 2 -- sh -c 'echo $RINGUP_RANK/$RINGUP_SIZE $RINGUP_LOCAL_RANK/$RINGUP_LOCAL_SIZE \
    $HOROVOD_RANK/$HOROVOD_SIZE $HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE $HOROVOD_CROSS_RANK/$HOROVOD_CROSS_SIZE \
    $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR'
  expect_status 0
  expect_line "[0] 0/2 0/2 0/2 0/2 0/1 0/2 0/2 127.0.0.1"
  expect_line "[1] 1/2 1/2 1/2 1/2 0/1 1/2 1/2 127.0.0.1"
}

@test "the library finds its rank" {
  run ringup run -np 2 --no-prefix "$whereami"
  expect_status 0
  grep -q '^source=ringup run rank=1 size=2 local_rank=1 local_size=2 spans=0 key=ringup run\.' <<<"$output"
}

@test "an outer launcher's ranks are forgotten" {
  OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 PMIX_RANK=3 PMI_RANK=3 SLURM_PROCID=3 RANK=3 WORLD_SIZE=8 \
    OMPI_MCA_btl=self TORCHELASTIC_RUN_ID=x RINGUP_RANK=3 RINGUP_SIZE=8 \
    run ringup run -np 1 -- sh -c 'env; exec "$0"' "$whereami"
  expect_status 0
  not grep -E '^\[0\] (OMPI_COMM|PMI|SLURM_PROCID|TORCHELASTIC)' <<<"$output"
  expect_line "[0] OMPI_MCA_btl=self"
  expect_line "[0] RANK=0"
  grep -q '^\[0\] source=ringup run rank=0 size=1' <<<"$output"
}

@test "what the user has set for all ranks stays" {
  MASTER_PORT=29511 MASTER_ADDR=localhost OMP_NUM_THREADS=7 run ringup run -np 2 --no-prefix -- \
    sh -c 'echo $MASTER_ADDR $MASTER_PORT $OMP_NUM_THREADS'
  expect_status 0
  expect_line "localhost 29511 7"
}

@test "torch's port is the job's alone, on all addresses" {
  [[ -x ${RINGUP_TEST_PYTHON:-} ]] || skip "no python3"
  cat >port.py <<'EOT'
import errno, os, socket

port = int(os.environ["MASTER_PORT"])
for host in ("127.0.0.1", "127.0.0.2", ""):
    with socket.socket() as other:
        try:
            other.bind((host, port))
            print("given away on", host)
        except OSError as e:
            print("kept" if e.errno == errno.EADDRINUSE else e)
with socket.socket() as store:
    store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    store.bind(("", port))
    store.listen()
    print("listens")
EOT
  run ringup run -np 1 --no-prefix -- "$RINGUP_TEST_PYTHON" port.py
  expect_status 0
  [[ $output == $'kept\nkept\nkept\nlistens' ]] || { echo "$output"; return 1; }
}

@test "OMP_NUM_THREADS shares the cores out" {
  run ringup run -np 64 --no-prefix -- sh -c '[ "$OMP_NUM_THREADS" -ge 1 ] && [ "$OMP_NUM_THREADS" -le $(nproc --all) ]'
  expect_status 0
}

@test "-x sets variables, last word" {
  run ringup run -np 1 -x A=1 -x 'B=a b=c' --export RANK=5 --no-prefix -- sh -c 'echo "$A|$B|$RANK"'
  expect_status 0
  expect_line '1|a b=c|5'
}

@test "-x VAR that is not set is warned of, -x nonsense refused" {
  run ringup run -np 1 -x NOT_SET_ANYWHERE true
  expect_status 0
  [[ $output == *"NOT_SET_ANYWHERE: this variable is not set"* ]]
  run ringup run -np 1 -x '1A=2' true
  expect_status 2
  run ringup run -np 1 -x RINGUP_RANK=2 true
  expect_status 2
}

@test "all options that are told by variables at a time" {
  run ringup run -np 1 --no-prefix --start-timeout 5 --network-interfaces lo --timeline-filename t.json \
    --timeline-mark-cycles -x A=1 -- sh -c 'env | grep -E "^(A|RINGUP_(START|INTERFACE|TIMELINE).*)=" | sort'
  expect_status 0
  [[ ${lines[*]} == "A=1 RINGUP_INTERFACE=lo RINGUP_START_TIMEOUT_MS=5000 RINGUP_TIMELINE=t.json RINGUP_TIMELINE_MARK_CYCLES=1" ]]
}

@test "the secret is in no environment and no argument list" {
  ringup run -np 2 -- sh -c 'cat /proc/self/environ /proc/$PPID/cmdline | tr "\0" "\n"; od -An -tx1 -v /dev/fd/$RINGUP_SECRET_FD | tr -d " \n" >secret.$RINGUP_RANK' >out
  cmp secret.0 secret.1
  [[ $(wc -c <secret.0) -eq 64 ]]
  not grep -qiF "$(cat secret.0)" out
  [[ $(od -An -tx1 -v out | tr -d ' \n') != *"$(cat secret.0)"* ]]
}

@test "status 0 if all succeed, else that of the first that failed" {
  run ringup run -np 4 true
  expect_status 0
  run ringup run -np 4 -- sh -c '[ $RINGUP_RANK != 2 ] || exit 7; exec sleep 60'
  expect_status 7
  grep -qE '^ringup run: rank 2 \(pid [0-9]+\) on .* exited with status 7$' <<<"$output"
  not grep -qE 'rank [013] ' <<<"$output"
}

@test "a rank that is killed by -9 is named and ends the job, and nobody waits for the grace" {
  background -np 4 --grace 3000 -- sh -c 'echo $$ >pid.$RINGUP_RANK; exec sleep 300'
  await lines 4 pid.0 pid.1 pid.2 pid.3
  kill -KILL "$(cat pid.2)"
  local rc=0
  wait "$timer" || rc=$?
  [[ $rc -eq 137 ]]
  grep -qE "^ringup run: rank 2 \(pid $(cat pid.2)\) on .* was killed by signal 9 \(Killed\)$" err
  expect_ending
  gone $(cat pid.*)
}

# expect_ending - the launcher has told the others to end, and none had to be killed.
expect_ending() {
  grep -qx 'ringup run: ending the other ranks\?' err
  not grep -q 'is killed$' err
}

@test "the others have a second to say what they think of it, before they are told to end" {
  local rank='if [ $RINGUP_RANK = 0 ]; then
      echo $$ >zero
      until [ -e ready ]; do sleep 0.02; done
      date +%s%N >died
      kill -SEGV $$
    fi
    trap "told=\$(date +%s%N)" TERM
    touch ready
    until [ -s died ]; do sleep 0.02; done
    while [ -z "$told" ]; do sleep 0.02; done
    echo "rank 0 is gone, and so am I after $(((told - $(cat died)) / 1000000)) ms"
    exit 1'
  run timeout 200 ringup run -np 2 --grace 3000 -- bash -c "$rank"
  expect_status 139
  expect_line "ringup run: ending the other rank"
  [[ $(sed -n 's/^\[1\] rank 0 is gone.* after \([0-9]*\) ms$/\1/p' <<<"$output") -ge 1000 ]] || { echo "$output"; return 1; }
}

@test "a rank that ignores SIGTERM is killed after the grace" {
  run timeout 200 ringup run -np 2 --grace 1 -- sh -c 'if [ $RINGUP_RANK = 0 ]; then until [ -e deaf ]; do sleep 0.02; done; exit 3; fi
    trap "" TERM; touch deaf; while :; do sleep 0.1; done'
  expect_status 3
  grep -qE '^ringup run: rank 1 \(pid [0-9]+\) on [^ ]+ did not end when told to and is killed$' <<<"$output"
}

@test "a rank that has gone over to another's process group is killed, too" {
  [[ -x ${RINGUP_TEST_PYTHON:-} ]] || skip "no python3"
  RUN_TEST=$BATS_TEST_TMPDIR run timeout 200 ringup run -np 2 --grace 1 -- "$RINGUP_TEST_PYTHON" -c '
import os, signal, sys, time
def wait(path):
    while not os.path.exists(path) or not os.path.getsize(path):
        time.sleep(.02)
    return open(path).read()
if os.environ["RINGUP_RANK"] == "0":
    open("zero", "w").write(str(os.getpid()))
    wait("one")
    sys.exit(7)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setpgid(0, int(wait("zero")))
open("one", "w").write(str(os.getpid()))
time.sleep(300)'
  expect_status 7
  expect_line "ringup run: rank 1 (pid $(cat one)) on $(uname -n) did not end when told to and is killed"
  not grep -q 'cannot be killed' <<<"$output"
  gone "$(cat one)"
}

@test "a rank that has become another user's is given up with the reason" {
  [[ $EUID -eq 0 ]] && setpriv --reuid 65534 --clear-groups true || skip "needs root and setpriv"
  local rank
  rank='[[ $RINGUP_RANK == 1 ]] || { until [[ -s one ]]; do sleep 0.02; done; exit 7; }
    exec setpriv --reuid 65534 --clear-groups sh -c "echo $$ >&3; exec sleep 300" 3>one'
  RUN_TEST=$BATS_TEST_TMPDIR run timeout 200 setpriv --inh-caps -kill --bounding-set -kill \
    "$(command -v ringup)" run -np 2 --grace 1 -- bash -c "$rank"
  expect_status 7
  expect_line "ringup run: rank 1 (pid $(cat one)) on $(uname -n) cannot be killed: Operation not permitted; given up"
}

@test "--timeout ends the job with status 124" {
  run ringup run -np 2 --timeout 1 sleep 60
  expect_status 124
  expect_line "ringup run: not finished after 1 s: ending the job"
}

@test "a rank that ends well does not end the others" {
  run timeout 60 ringup run -np 2 -- sh -c 'if [ $RINGUP_RANK = 0 ]; then echo $$ >zero; exit; fi
    until [ -s zero ] && ! kill -0 $(cat zero) 2>/dev/null; do sleep 0.02; done; echo last'
  expect_status 0
  expect_line "[1] last"
}

@test "kill -9 of the launcher leaves nothing of the ranks and what they started" {
  background -np 3 -- bash -c "$family"
  await lines 9 pids
  kill -KILL "$launcher"
  await gone $(cat pids)
  await gone "$launcher"
  wait "$timer" || true
  none() { [[ -z $(marked) ]]; }
  await none
}

@test "kill -9 of the guard is noticed, and then kill -9 of the launcher leaves nothing either" {
  local guard
  background -np 2 -- sh -c "$family"
  await lines 6 pids
  guard=$(guard_of "$launcher")
  kill -KILL "$guard"
  await said 'the guard of this job was killed and has been replaced'
  kill -KILL "$launcher"
  mapfile -t pids <pids
  await gone "${pids[@]}"
  await gone "$launcher"
}

@test "so it is with the guard of a rank daemon" {
  local guard daemon
  background -np 2 -H localhost:1,127.0.0.1:1 -- sh -c "$family"
  await lines 6 pids
  for daemon in $(cat "/proc/$launcher/task/$launcher/children"); do
    guard=$(guard_of "$daemon")
    kill -KILL "$guard"
    await other_guard "$daemon" "$guard"
  done
  kill -KILL "$launcher" $(cat "/proc/$launcher/task/$launcher/children")
  mapfile -t pids <pids
  await gone "${pids[@]}"
}

@test "and nothing of a job within the job" {
  background -np 1 -- ringup run -np 2 -- bash -c "$family"
  await lines 6 pids
  kill -KILL "$launcher"
  await gone $(cat pids)
  wait "$timer" || true
  none() { [[ -z $(marked) ]]; }
  await none
}

@test "SIGINT is passed on and ends everything with 130, and nobody waits for the grace" {
  background -np 3 --grace 3000 -- bash -c "$family"
  await lines 9 pids
  local rc=0
  kill -INT "$launcher"
  wait "$timer" || rc=$?
  [[ $rc -eq 130 ]]
  gone $(cat pids)
}

@test "a second signal ends at once ranks that ignore the first" {
  background -np 2 --grace 3000 -- bash -c 'trap "" INT; trap "echo $$ >>told" TERM; echo $$ >>pids; while :; do sleep 0.1; done'
  await lines 2 pids
  kill -TERM "$launcher"
  await lines 2 told
  kill -INT "$launcher"
  local rc=0
  wait "$timer" || rc=$?
  [[ $rc -eq 143 ]]
  gone $(cat pids)
}

@test "SIGINT ends ranks that ignore it, and SIGTERM, in two seconds" {
  background -np 2 --grace 3000 -- bash -c 'trap "" INT TERM; echo $$ >>pids; while :; do sleep 0.1; done'
  await lines 2 pids
  local rc=0 start=${EPOCHREALTIME/./}
  kill -INT "$launcher"
  wait "$timer" || rc=$?
  [[ $rc -eq 130 ]]
  ((${EPOCHREALTIME/./} - start > 1900000))
  gone $(cat pids)
}

@test "SIGTSTP stops the ranks, SIGCONT lets them go on" {
  background -np 2 -- bash -c 'echo $$ >>pids; while [[ ! -e go ]]; do sleep 0.05; done; echo done'
  await lines 2 pids
  stopped() { [[ $(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat") == T ]]; }
  kill -TSTP "$launcher"
  await stopped "$launcher"
  await stopped "$(head -n 1 pids)"
  kill -CONT "$launcher"
  touch go
  wait "$timer"
  [[ $(sort out) == "[0] done"$'\n'"[1] done" ]]
}

@test "SIGTERM is passed on, and ranks may use the grace" {
  background -np 2 --grace 3000 -- bash -c 'trap "sleep 0.5; echo saved; exit 0" TERM; echo $$ >>pids; while :; do sleep 0.05; done'
  await lines 2 pids
  local rc=0
  kill -TERM "$launcher"
  wait "$timer" || rc=$?
  [[ $rc -eq 143 ]]
  [[ $(sort out) == "[0] saved"$'\n'"[1] saved" ]]
  [[ $(grep -c "^ringup run: got signal 15 (Terminated) from process $$: ending the job$" err) -eq 1 ]] || { cat err; return 1; }
}

@test "SIGUSR1 reaches the ranks and leaves the launcher alone" {
  background -np 2 -- bash -c 'trap "echo told; exit 0" USR1; echo $$ >>pids; while :; do sleep 0.05; done'
  await lines 2 pids
  kill -USR1 "$launcher"
  wait "$timer"
  [[ $(sort out) == "[0] told"$'\n'"[1] told" ]]
}

@test "what a rank leaves behind is ended with the job" {
  ringup run -np 2 -- bash -c 'sleep 300 & echo $! >>pids; setsid sleep 300 & echo $! >>pids; exit 0' >/dev/null
  lines 4 pids
  gone $(cat pids)
}

@test "children that the launcher had before are spared" {
  bash -c 'sleep 300 3>&- & echo $! >old; exec ringup run -np 2 -- bash -c "setsid sleep 300 & echo \$! >>pids"'
  gone $(cat pids)
  not gone $(cat old)
  kill "$(cat old)"
}

@test "rank 0 reads stdin, the others read nothing" {
  run bash -c 'printf "one\ntwo\n" | ringup run -np 3 -- sh -c "echo \$RINGUP_RANK: \$(cat | tr \"\\n\" \" \")"'
  expect_status 0
  expect_line "[0] 0: one two"
  expect_line "[1] 1:"
  expect_line "[2] 2:"
  run bash -c 'ringup run -np 2 -- cat <&-'
  expect_status 0
  [[ -z $output ]]
}

@test "lines of twenty ranks do not mix" {
  ringup run -np 20 -- bash -c 'for i in {1..50}; do printf "%s" "$RINGUP_RANK-$i-"; printf "%0100d\n" 0; done' >out
  [[ $(wc -l <out) -eq 1000 ]]
  not grep -vqE '^\[([0-9]+)\] \1-[0-9]+-0{100}$' out
}

@test "a last line without an end is shown, and gets one" {
  ringup run -np 1 -- printf 'no end' >out
  [[ $(od -An -c out | tr -d ' ') == '[0]noend\n' ]]
  ringup run -np 1 --no-prefix -- printf 'no end' >out
  [[ $(cat out) == 'no end' && $(wc -c <out) -eq 6 ]]
}

@test "a huge line is shown in pieces and nothing is lost" {
  ringup run -np 2 -- sh -c 'head -c 1000000 /dev/zero | tr "\0" x; echo' >out
  [[ $(tr -dc x <out | wc -c) -eq 2000000 ]]
  [[ $(awk '{ if (length($0) > m) m = length($0) } END { print m }' out) -le 65540 ]]
}

@test "binary output passes unchanged, also a large one" {
  head -c 3000000 /dev/urandom >data
  ringup run -np 1 --no-prefix -- cat data >out
  cmp data out
  ringup run -np 1 --no-prefix -- sh -c 'cat data >&2' 2>err
  cmp data err
}

@test "stdout and stderr in one place do not mix within a line" {
  ringup run -np 4 -- bash -c 'for i in {1..100}; do echo "$RINGUP_RANK aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"; echo "$RINGUP_RANK bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" >&2; done' >out 2>&1
  [[ $(grep -cE '^\[([0-3])\] \1 (a{30}|b{30})$' out) -eq 800 ]]
}

@test "--output-dir keeps every byte, by rank" {
  ringup run -np 2 -o deep/logs -- sh -c 'printf "out %s" $RINGUP_RANK; echo err $RINGUP_RANK >&2' >out 2>err
  [[ $(cat deep/logs/rank.0/stdout) == "out 0" && $(cat deep/logs/rank.1/stderr) == "err 1" ]]
  [[ $(wc -c <deep/logs/rank.1/stdout) -eq 5 ]]
  grep -qxF '[1] out 1' out
}

@test "--output-dir that cannot be written is an error before anything starts" {
  echo x >file
  run ringup run -np 2 -o file/logs -- touch started
  expect_status 3
  [[ $output == "ringup run: file: "* || $output == *"file"*"Not a directory"* ]]
  [[ ! -e started ]]
}

@test "a limit for files costs output, not the job" {
  # In a file of 100 KiB there is no more room.
  local rank='head -c 300000 /dev/zero; until [[ $(cat dir/rank.$RINGUP_RANK/stdout | wc -c) -eq 102400 ]]; do sleep 0.02; done; echo alive >&2'
  run bash -c "ulimit -f 100; exec timeout 200 ringup run -np 2 -o dir -- bash -c '$rank' 2>&1 >/dev/null"
  expect_status 3
  [[ $(grep -c 'alive$' <<<"$output") -eq 2 ]]
  expect_line "ringup run: the output of the ranks is incomplete: cannot write to dir: File too large"
  expect_line "ringup run: the output of rank 1 is no longer written to dir: File too large"
  run bash -c "ulimit -f 100; timeout 200 ringup run -np 2 -- bash -c '$rank' 2>&1 >file | cat; exit \${PIPESTATUS[0]}"
  expect_status 3
  [[ $(grep -c 'alive$' <<<"$output") -eq 2 ]]
  run bash -c "ulimit -f 0; timeout 200 ringup run -np 2 -- true 2>&1 | cat; exit \${PIPESTATUS[0]}"
  expect_status 3
  expect_line "ringup run: 1 KiB of memory for the job's secret: files are limited to 0 KiB; raise that limit (ulimit -f)"
  # The ranks themselves die of it as they would without us.
  run bash -c "ulimit -f 1; timeout 200 ringup run -np 1 -- sh -c 'exec head -c 5000 /dev/zero >file' 2>&1"
  expect_status $((128 + 25))
}

@test "a reader that goes away does not hurt the ranks" {
  ringup run -np 2 -- bash -c 'for i in {1..2000}; do echo "$i"; done; echo $? >done.$RINGUP_RANK' | head -n 1
  lines 2 done.0 done.1
}

@test "an idle launcher uses no processor time" {
  background -np 2 -- sh -c 'echo $$ >>pids; exec sleep 300'
  await lines 2 pids
  local before after
  # Once it has nothing more to do, it does not wake up.
  await settled
  before=$(switches)
  sleep 1
  after=$(switches)
  kill -TERM "$launcher"
  wait "$timer" || true
  [[ $before -gt 0 && $before -eq $after ]] || { echo "$before, $after"; return 1; }
}

# switches - how often the launcher has gone to sleep, or another has taken its processor.
switches() {
  awk '/ctxt_switches/ { n += $2 } END { print n }' "/proc/$launcher/status"
}

# settled - has the launcher slept for a while?
settled() {
  local before
  before=$(switches)
  sleep 0.3
  [[ $(switches) -eq $before ]]
}

@test "mistakes are named: status 2, or 3 if the job cannot be started" {
  run ringup run
  expect_status 2
  run ringup run true
  expect_status 2
  expect_line "ringup run: -np is missing: give the number of ranks, as in -np 4"
  run ringup run -np 2
  expect_status 2
  run ringup run -np 0 true
  expect_status 2
  expect_line "ringup run: -np 0: from 1 to 65536"
  run ringup run -np two true
  expect_status 2
  run ringup run -np 2 --timeout -1 true
  expect_status 2
  run ringup run -np 2 no-such-command
  expect_status 3
  [[ $output == *"no-such-command: No such file or directory"* ]]
  run ringup run -np 2 "$BATS_TEST_TMPDIR"
  expect_status 3
}

@test "too many ranks for the limit of open files are refused beforehand" {
  ulimit -n 100
  run ringup run -np 50 -- touch started
  expect_status 3
  [[ $output == *"50 ranks need "*"ulimit -n"* ]]
  [[ ! -e started ]]
}

@test "too many processes: those that were started are ended" {
  [[ $EUID -eq 0 ]] || skip "needs root, to become a user without processes"
  command -v setpriv >/dev/null || skip "setpriv is not installed"
  chmod 777 .
  local p
  p=$(command -v ringup)
  run setpriv --reuid=54321 --regid=54321 --clear-groups bash -c \
    'test -x "$0" && "$0" help >/dev/null' "$p"
  [[ $status -eq 0 ]] || skip "another user cannot run $p"
  run setpriv --reuid=54321 --regid=54321 --clear-groups bash -c \
    'ulimit -u 12; "$0" run -np 40 -- sh -c "echo \$\$ >>pids; exec sleep 300"' "$p"
  expect_status 3
  [[ $output == *"cannot start rank "*" of 40: "* ]]
  [[ ! -s pids ]] || gone $(cat pids)
}

@test "a second job in a rank is a job of its own" {
  run ringup run -np 2 --no-prefix -- ringup run -np 2 --no-prefix "$whereami"
  expect_status 0
  [[ $(grep -c 'source=ringup run rank=1 size=2' <<<"$output") -eq 2 ]]
  [[ $(grep -o 'key=.*' <<<"$output" | sort -u | wc -l) -eq 2 ]]
}

@test "--help tells the exit statuses of a job, and no option for programs" {
  run ringup run --help
  expect_status 0
  [[ $output == *'exit status: 0 all ranks succeeded, else the status of the first that failed;'* ]]
  [[ $output != *'1 negative result'* && $output != *--parent* ]]
}
