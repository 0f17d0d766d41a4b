#!/usr/bin/env bats
# bench-peers.bats - ringup beside Open MPI, MPICH, Gloo and through torch: all play, and all are judged.
# needs: cpu
# tests: src/bench tests/peers tests/lib/bench.bash src/launch compat/python tests/lib/real.bash

# The ranks of a contest are the program player.
load ../lib/helper
load ../lib/bench
load ../lib/real

setup() {
  bench_setup
  command -v python3 >/dev/null || skip "python3 is not installed"
}

# beside_openmpi WORD... - bench beside Open MPI: both sizes are measured, ours are right, and the
# peer's where it looks, which is at sums.
beside_openmpi() {
  local theirs=null
  [[ $1 == allgather || $1 == alltoall ]] || theirs=0
  run timeout 200 "$src/tests/peers/contest.py" "$@" -n 3 -i 1 --sizes 4,70000 --check --json --peer openmpi
  expect_status 0
  [[ $(players | sort -u) == "0 openmpi $theirs" && $(players | wc -l) -ge 2 ]] || { echo "$output"; return 1; }
}

# each NAME VALUE... - the values of a field in all lines.
each() {
  [[ $(field "$1" | sort -u | xargs) == "${*:2}" ]] || { echo "$1: $output"; return 1; }
}

# Each form with each collective that has it, in one job what goes together.
@test "blocks of different lengths, tensors that go together, and in place, beside MPI" {
  need_openmpi
  beside_openmpi alltoall --uneven
  each uneven true
  local c
  for c in allgather reducescatter; do
    beside_openmpi "$c" --uneven --members 3 --in-place both
    each uneven true
    each members 3
    each in_place false true
  done
  beside_openmpi allreduce --members 3 --in-place yes
  each members 3
  each in_place true
}

# The forms one by one.
@test "each form of a collective by itself, beside MPI" {
  need_openmpi
  long_form || skip "takes long: tests/run --shard bench"
  local words
  for words in "allgather --uneven" "reducescatter --uneven" "alltoall --uneven" "allreduce --members 3" \
    "allreduce --members 3 --in-place yes" "allgather --members 3" "reducescatter --members 3" \
    "reducescatter --uneven --members 3" "allgather --in-place yes" "allgather --uneven --in-place yes" \
    "reducescatter --in-place yes" "reducescatter --uneven --in-place yes" "reducescatter --members 2 --in-place yes"; do
    # shellcheck disable=SC2086 # several words
    beside_openmpi $words
  done
}

@test "buffers that others can reach are given back in between, beside a peer" {
  command -v mpicc.mpich >/dev/null || skip "MPICH is not installed"
  # Both have to give their buffers back in between.
  run timeout 200 "$src/tests/peers/contest.py" allreduce -n 2 -i 2 --sizes 32M --check --json --peer mpich
  expect_status 0
  [[ $(grep -o '"wrong":[0-9a-z]*' <<<"$output" | sort -u) == '"wrong":0' ]]
}

@test "MPI takes part, both kinds, and nothing is left" {
  command -v mpicc.openmpi mpicc.mpich >/dev/null || skip "Open MPI and MPICH are not both installed"
  private_tmp
  run timeout 300 "$src/tests/peers/contest.py" allreduce -np 2 -i 2 --sizes 8,300K --check --json --peer openmpi,openmpi-tuned,mpich
  expect_status 0
  [[ $(grep -c '"name":"openmpi".*"name":"openmpi-tuned".*"name":"mpich"' <<<"$output") -ge 2 ]]
  [[ $(grep -o '"wrong":[0-9a-z]*' <<<"$output" | sort -u) == '"wrong":0' ]]
  [[ $(grep -o '"ratio":[0-9.e+-]*' <<<"$output" | wc -l) -ge 6 ]]
  # Open MPI itself may leave its own session directory.
  [[ -z $(leftovers | grep -v ompi) ]] || { leftovers; return 1; }
}

# Without the long form: a type that MPI has not, one where an operation has another name, and one
# where it has not.
@test "a peer that has no such type or operation is left out, and the others play" {
  command -v mpicc.openmpi mpicc.mpich >/dev/null || skip "Open MPI and MPICH are not both installed"
  local t o
  for t in bool f16 u16; do
    for o in max product adasum; do
      [[ $o != adasum || $t == f16 ]] || continue
      long_form || [[ "f16-adasum bool-max u16-product" == *$t-$o* ]] || continue
      run timeout 200 "$src/tests/peers/contest.py" allreduce -n 2 -i 1 -d "$t" --op "$o" --sizes 8,5000 --check --json \
        --peer openmpi,mpich
      expect_status 0
      if [[ $t == f16 ]]; then
        [[ $output == *"openmpi is left out: "*"mpich is left out: "*'"peers":[]'* ]]
      else
        [[ $(grep -c '"name":"openmpi".*"name":"mpich"' <<<"$output") -ge 2 ]]
      fi || { echo "$t $o: $output"; return 1; }
    done
  done
}

@test "a peer that is not here is left out, or an error if it was the only one" {
  need_openmpi
  stub mpirun.mpich 'exit 1'
  stub mpirun 'exit 1'
  run timeout 200 "$src/tests/peers/contest.py" allreduce -n 2 -i 1 --sizes 8 --json --peer openmpi,mpich
  expect_status 0
  [[ $output == *"mpich is left out: MPICH is not here: no mpirun.mpich"* && $output == *'"name":"openmpi"'* ]]
  run timeout 200 "$src/tests/peers/contest.py" allreduce -n 2 -i 1 --sizes 8 --json --peer mpich
  expect_status 3
  [[ $output == *"MPICH is not here"* ]]
}

@test "a peer whose results are wrong is told, by the status too" {
  need_openmpi
  cat >"$BATS_TEST_TMPDIR/wrong.c" <<'EOT'
#include <mpi.h>

int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	int rc = PMPI_Allreduce(in, out, n, type, op, comm);

	((float *)out)[n - 1] += 1;
	return rc;
}
EOT
  mpicc.openmpi -shared -fPIC "$BATS_TEST_TMPDIR/wrong.c" -o "$BATS_TEST_TMPDIR/wrong.so"
  stub mpirun.openmpi "exec $(command -v mpirun.openmpi) -x LD_PRELOAD=$BATS_TEST_TMPDIR/wrong.so \"\$@\""
  run timeout 200 "$src/tests/peers/contest.py" allreduce -n 2 -i 3 --sizes 4K --check --peer openmpi
  expect_status 1
  # Ours is right.
  grep -qE '^ +4096 .* openmpi [0-9.]+ WRONG [1-9][0-9]*$' <<<"$output" || { echo "$output"; return 1; }
  run timeout 200 "$src/tests/peers/contest.py" allreduce -n 2 -i 3 --sizes 4K --check --json --peer openmpi
  expect_status 1
  [[ $(players) == "0 openmpi "[1-9]* ]] || { echo "$output"; return 1; }
}

@test "a peer that breaks off ends the contest, and nothing is left" {
  command -v mpicc.mpich >/dev/null || skip "MPICH is not installed"
  private_tmp
  stub mpirun.mpich 'if [[ $1 == --version ]]; then echo HYDRA; else exit 7; fi'
  run timeout 200 "$src/tests/peers/contest.py" allreduce -n 2 -i 1 --sizes 8 --peer mpich
  expect_status 3
  [[ $output == *"mpich: ended before its ranks came"* && -z $(leftovers) ]]
}

@test "through torch, and beside Gloo" {
  need_torch
  run timeout 300 "$src/tests/peers/contest.py" allreduce -n 2 -i 1 --sizes 4,70000 --check --json --level torch --peer gloo \
    --python "$python"
  expect_status 0
  [[ $(field bytes | xargs) == "4 70000" && $(players | sort -u) == "0 gloo 0" ]] || { echo "$output"; return 1; }
  [[ $output != *"nothing was compared"* ]]
  # There is no way around the Python.
  run timeout 200 "$src/tests/peers/contest.py" allreduce -n 2 -i 1 --sizes 4 --level torch --python /nonexistent
  expect_status 3
}

@test "an allgather through torch, which nobody compares: that is said once" {
  need_torch
  long_form || skip "takes long: tests/run --shard bench"
  run timeout 300 "$src/tests/peers/contest.py" allgather -n 2 -i 1 --sizes 4,4K --check --json --level torch --python "$python"
  expect_status 0
  [[ $(field wrong | sort -u) == null && $(grep -c 'of this nothing was compared' <<<"$output") == 1 ]]
}

@test "a set of gradients through torch, and beside Gloo" {
  need_torch
  long_form || skip "takes long: tests/run --shard bench"
  run timeout 300 "$src/tests/peers/contest.py" resnet50 -n 2 -i 1 --check --json --level torch --peer gloo --python "$python"
  expect_status 0
  [[ $(field collective) == resnet50 && $(field bytes) == 102228128 && $(players) == "0 gloo 0" ]] || {
    echo "$output"
    return 1
  }
}
