#!/usr/bin/env bats
# top.bats - ringup top: counts of a running job, the slow rank, metrics
# needs: waits
# tests: src/hang/meter.c src/cli/cmd_top.c src/engine/observer.c src/wire/observe.c tests/programs/hangs.c

load ../lib/helper
load ../lib/await
load ../lib/launcher

hangs=$PWD/tests/programs/hangs

setup() { launcher_setup; }
teardown() { launcher_teardown; }

# begun - has rank 0 counted operations?
begun() {
  [[ $(ringup top --once --interval 0.5 --json "$launcher" 2>/dev/null | jq '.ranks[0].operations // 0') -gt 0 ]]
}

@test "the table names the slow rank, JSON has rates, metrics are Prometheus'" {
  launch ringup run -np 3 -- "$hangs" uneven 1 >out 2>&1
  await begun
  run ringup top --once --interval 3 --json --metrics job.prom "$launcher"
  expect_status 0
  [[ $(jq -c '[.size, (.ranks | length)]' <<<"$output") == "[3,3]" ]]
  jq -e '[.ranks[] | .operations_per_s > 0 and .bytes_per_s > 0] | all' <<<"$output"
  grep -q '^ringup_operations_total{job=".*",rank="2",host="..*"} [1-9]' job.prom
  grep -q '^# TYPE ringup_last_operation_seconds gauge' job.prom
  [[ $(tail -c 1 job.prom | od -An -tx1) == " 0a" ]]
  run ringup top --once --interval 1 "$launcher"
  expect_status 0
  [[ ${lines[1]} == RANK*OPS/S* && ${#lines[@]} -eq 5 ]]
}

@test "a rank that the others wait for all the time is the slow one" {
  RINGUP_DEADLOCK_MS=0 launch ringup run -np 3 -- "$hangs" sleep 1 "$PWD/hung" >out 2>&1
  await test -e hung
  sleep 1.2
  run ringup top --once --interval 1.5 --json "$launcher"
  [[ $(jq .slowest <<<"$output") == 1 ]]
  [[ $(jq -r '.ranks[0].in' <<<"$output") == "allreduce grad.second" ]]
}

@test "without a job it says so, and wrong options are refused" {
  sleep 100 3>&- &
  run ringup top --once $!
  kill $!
  expect_status 3
  run ringup top --json
  expect_status 2
  run ringup top --interval 0.1 --once
  expect_status 2
}
