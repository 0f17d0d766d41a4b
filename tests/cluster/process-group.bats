#!/usr/bin/env bats
# process-group.bats - process groups of torch over two hosts, found by the machines alone.
# needs: cpu root-net
# tests: src/api src/backend src/engine src/wire compat/python tests/py/process_group_of_a_rank.py tests/py/process_group_ends_of_a_rank.py tests/lib/hosts.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/real

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  need_torch
  [[ -e $builddir/.libs/libringup.so.0 ]] || skip "the library is not built"
  hosts_setup
  pids=()
}

teardown() {
  local pid
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
  hosts_teardown
}

# ranks SCRIPT ARG... - three ranks, two of them on $a; sets codes to how they ended.  A launcher that
# is wrong about hosts, as TorchDistributor is, tells each that it is alone on its own.
ranks() {
  local rank host
  pids=() codes=()
  for rank in 0 1 2; do
    host=$a
    ((rank < 2)) || host=$b
    RINGUP_RANK=$rank RINGUP_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 OMP_NUM_THREADS=1 \
      RINGUP_LIBRARY=$builddir/.libs/libringup.so.0 PYTHONPATH=$src/compat/python \
      PYTHONDONTWRITEBYTECODE=1 RINGUP_TEST_RESULTS=$PWD TORCH_FR_DUMP_TEMP_FILE=$PWD/trace_ TORCHINDUCTOR_CACHE_DIR=$PWD/inductor \
      timeout 250 ip netns exec "$host" "$python" "$src/tests/py/$1" "${@:2}" >"out.$rank" 2>&1 3>&- &
    pids+=("$!")
  done
  for rank in 0 1 2; do
    wait "${pids[rank]}" && codes+=(0) || codes+=("$?")
  done
  pids=()
}

@test "collectives, messages, groups and DDP over two hosts" {
  ranks process_group_of_a_rank.py sums_of_every_type_and_shape broadcasts gathers_and_scatters \
    exchanges messages_of_every_type a_ring_in_which_all_send_first tags_and_any_source \
    groups_come_and_go ddp_trains_as_one_process_does
  [[ ${codes[*]} == "0 0 0" ]] || { tail -n 20 out.*; return 1; }
}

@test "a rank of the other host that is killed is named" {
  ranks process_group_ends_of_a_rank.py killed
  [[ ${codes[*]} == "0 0 137" ]] || { tail -n 20 out.*; return 1; }
  [[ $(<rank.0) == *PeerLost*"rank 2 "* && $(<rank.1) == *PeerLost*"rank 2 "* ]]
}
