#!/usr/bin/env bats
# limits.bats - jobs under small limits and in sandboxes: they run, or name the limit and the cure.
# needs: waits
# tests: src/base/stack.c src/base/limits.c src/base/pidend.c src/base/thread.c src/base/proc.c src/cli/main.c src/cli/horovodrun.c src/launch tests/programs/without.c

load ../lib/helper

teardown() {
  [[ -z ${group:-} || ! -d $group ]] || rmdir "$group"
}

@test "ringup and horovodrun run a job with a stack of 64 KiB" {
  run bash -c 'ulimit -s 64; ringup run -np 2 -- /bin/sh -c "ulimit -s"'
  expect_status 0
  [[ $output == $'[0] 64\n[1] 64' || $output == $'[1] 64\n[0] 64' || $output == $'64\n64' ]]
  run bash -c 'ulimit -s 64; horovodrun -np 2 true'
  expect_status 0
}

@test "a rank with too small a stack is told so" {
  run bash -c "ulimit -s 64; ringup run -np 2 -- tests/programs/sum"
  expect_status 3
  [[ $output == *'the stack of this process may grow to 64 KiB, and ringup needs 128: raise the limit before the program starts (ulimit -s 8192)'* ]]
  run bash -c "ulimit -s 128; ringup run -np 2 -- tests/programs/sum"
  expect_status 0
}

@test "too few processes for one user: the limit is named" {
  [[ $(id -u) -eq 0 ]] || skip "needs root, to be another user"
  command -v setpriv >/dev/null || skip "needs setpriv"
  # The program through a descriptor, since that user may not go through the folder of the build.
  run setpriv --reuid 54321 --regid 54321 --clear-groups \
    bash -c 'cd /; ulimit -u 3; exec -a ringup /proc/self/fd/9 run -np 8 -- sleep 60' 9<"$(command -v ringup)"
  [[ $status -ne 0 ]]
  [[ $output == *'Resource temporarily unavailable; user 54321 is limited to 3 processes and threads: raise that limit (ulimit -u)'* ]]
}

@test "too few processes in a control group: the limit is named" {
  group=/sys/fs/cgroup/pids/ringup.$$.few
  mkdir "$group" 2>/dev/null || group=/sys/fs/cgroup/ringup.$$.few
  [[ -d $group ]] || mkdir "$group" 2>/dev/null || { group='' && skip "needs a control group of its own"; }
  [[ -e $group/pids.max ]] || skip "needs the controller pids"
  echo 6 >"$group/pids.max"
  run bash -c 'echo $$ >"$0/cgroup.procs"; exec ringup run -np 8 -- sleep 60' "$group"
  [[ $status -ne 0 ]]
  [[ $output == *"Resource temporarily unavailable; control group /ringup.$$.few is limited to 6 processes and threads: raise its pids.max"* ]]
  # And by a rank, whose threads are the ones too many.
  echo 8 >"$group/pids.max"
  run bash -c 'echo $$ >"$0/cgroup.procs"; exec ringup run -np 4 -- tests/programs/sum' "$group"
  [[ $status -ne 0 ]]
  [[ $output == *"thread: Resource temporarily unavailable; control group /ringup.$$.few is limited to 8 processes"* ]]
}

@test "without pidfds a job runs, and a death is seen" {
  run tests/programs/without pidfd true
  [[ $status -ne 77 ]] || skip "no seccomp filter here"
  run tests/programs/without pidfd ringup run -np 3 -- tests/programs/sum
  expect_status 0
  run tests/programs/without pidfd ringup run -np 3 -- tests/programs/ends 1 signal9
  expect_status 137
  [[ $output == *'rank 1 '*'signal 9'* ]]
  run timeout 60 tests/programs/without pidfd ringup run -np 2 -- sh -c 'sleep 600 & exit $RINGUP_RANK'
  expect_status 1
}
