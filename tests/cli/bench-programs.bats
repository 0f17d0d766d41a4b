#!/usr/bin/env bats
# bench-programs.bats - programs of tests/peers that run contests on hosts, in a container, and for tables.
# needs: cpu root-net
# tests: src/cli/cmd_bench.c src/cli/scoreboard.c src/bench tests/lib/bench.bash src/backend src/engine src/wire tests/peers

# The ranks of a contest are the program player.
load ../lib/helper
load ../lib/await
load ../lib/bench

setup() { bench_setup; }

@test "on two hosts, MPI too" {
  [[ $EUID -eq 0 ]] && ip netns add "probe$$" 2>/dev/null || skip "needs root and ip netns"
  ip netns del "probe$$"
  need_openmpi
  run timeout 300 "$src/tests/peers/nodes.bash" "$src/tests/peers/contest.py" allreduce -np 4 -i 2 --sizes 8,100K \
    --check --json --peer openmpi
  expect_status 0
  [[ $(field nodes | sort -u) == 2 && $(grep -o '"wrong":[0-9a-z]*' <<<"$output" | sort -u) == '"wrong":0' ]]
  # On three, of which two have two ranks each.
  run timeout 300 "$src/tests/peers/nodes.bash" --hosts 3 "$src/tests/peers/contest.py" allreduce -np 5 -i 2 --sizes 8,100K \
    --check --json --peer openmpi
  expect_status 0
  [[ $(field nodes | sort -u) == 3 && $(grep -o '"wrong":[0-9a-z]*' <<<"$output" | sort -u) == '"wrong":0' ]]
  [[ $(grep -c '"name":"openmpi"' <<<"$output") -ge 2 ]]
}

@test "in a cgroup, which is gone afterwards" {
  local top=/sys/fs/cgroup
  if [[ -d $top/cpu ]]; then
    top+=/cpu
  else
    grep -qsw cpu "$top/cgroup.subtree_control" || skip "no cgroup here shares processors"
  fi
  [[ $EUID -eq 0 ]] && mkdir "$top/probe$$" 2>/dev/null || skip "needs root, and cgroups that can be made"
  rmdir "$top/probe$$"
  run timeout 200 "$src/tests/peers/container.bash" "$src/tests/peers/contest.py" allreduce -np 2 -i 2 --sizes 8 --hog 1 --check --json
  expect_status 0
  [[ $(field wrong | sort -u) == 0 && -z $(find /sys/fs/cgroup -maxdepth 2 -name 'ringup-bench.*') ]]
}

@test "the program that makes all tables makes some" {
  [[ -x ${RINGUP_TEST_PYTHON:-} ]] || skip "no python3"
  command -v mpicc.mpich >/dev/null || skip "MPICH is not installed"
  run timeout 300 "$RINGUP_TEST_PYTHON" "$src/tests/peers/table.py" --rows barrier-2,idle --seconds 0
  expect_status 0
  [[ $output == *"| Barrier, 2 ranks | best peer |"* ]]
  grep -qE '^\| Memory of an idle rank .* < 8 MiB: yes \|$' <<<"$output"
  # Nobody works, and hardly anything wakes up.
  [[ $(grep -cE '^\| [01] \| .* \| [0-9]+\.[0-9] \| 0\.[0-9] % \|$' <<<"$output") -eq 2 ]]
  run timeout 200 "$RINGUP_TEST_PYTHON" "$src/tests/peers/table.py" --rows nonsense
  expect_status 2
}

# at_work PID - does this steps.py run a job, under a quota if there are any?
at_work() {
  if [[ $quota == 0 ]]; then grep -q 'round 1$' "$BATS_TEST_TMPDIR/err"; else grep -qs . /sys/fs/cgroup/cpu/ringup-steps-"$1"/cgroup.procs; fi
}

@test "steps under a quota and beside children are measured, and nothing is left" {
  [[ -x ${RINGUP_TEST_PYTHON:-} ]] || skip "no python3"
  command -v mpicc.mpich >/dev/null || skip "MPICH is not installed"
  local quota=0 quotas=0 children=2 rows=4
  if [[ $EUID -eq 0 && -w /sys/fs/cgroup/cpu/cpu.cfs_quota_us ]]; then quota=1 quotas=1; fi
  if long_form; then quotas=0,$quota children=0,2 rows=8; fi
  # Of half a second a quota's periods are a fifth, which is all that there can be more.
  run timeout 300 "$RINGUP_TEST_PYTHON" "$src/tests/peers/steps.py" --ringup "$builddir/ringup" --seconds 0.5 \
    --rounds 1 --compute 100 --quotas "$quotas" --children "$children"
  expect_status 0
  # Whoever has one processor's worth of time has no more.
  awk -F ' *[|] *' '$2 == 1 && $8 > 1.3 { exit 1 }' <<<"$output"
  [[ $(grep -cE '^\| [0-9.]+ \| (ringup|MPICH) \| [1-9]' <<<"$output") -eq $rows ]] || {
    echo "$output"
    return 1
  }
  # Nor if it is told to end in the middle; the group is called after its process.
  "$RINGUP_TEST_PYTHON" "$src/tests/peers/steps.py" --ringup "$builddir/ringup" --seconds 300 --quotas "$quota" \
    >/dev/null 2>"$BATS_TEST_TMPDIR/err" 3>&- &
  local pid=$!
  await at_work "$pid"
  kill "$pid"
  wait "$pid" || true
  [[ -z $(compgen -G "/sys/fs/cgroup/*/ringup-steps-$pid" || true) ]]
}

@test "what idle ranks cost can be measured" {
  local cpu
  run timeout 200 python3 "$src/tests/peers/idle.py" --ringup "$(command -v ringup)" -n 2 --seconds 1
  expect_status 0
  [[ $(field rss_kib | wc -l) -eq 2 ]]
  for cpu in $(field cpu_percent); do
    [[ ${cpu%.*} -lt 50 ]] # a spinning rank has 100
  done
}
