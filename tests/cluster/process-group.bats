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

# agents SCRIPT - torchrun on both hosts, with a rank on each and one restart; sets codes.
agents() {
  local host
  pids=() codes=()
  for host in "$a" "$b"; do
    OMP_NUM_THREADS=1 RINGUP_LIBRARY=$builddir/.libs/libringup.so.0 PYTHONPATH=$src/compat/python \
      PYTHONDONTWRITEBYTECODE=1 TMPDIR=$PWD TORCH_FR_DUMP_TEMP_FILE=$PWD/trace_ TORCHELASTIC_LOG_DIR=$PWD \
      timeout 250 ip netns exec "$host" "$python" -m torch.distributed.run --nnodes 2 --nproc-per-node 1 \
      --max-restarts 1 --rdzv-backend c10d --rdzv-endpoint 10.9.0.1:29417 --rdzv-conf is_host="$([[ $host == "$a" ]] && echo 1 || echo 0)" \
      --local-addr "$(at "$host" hostname -I | cut -d' ' -f1)" "$1" >"agent.$host" 2>&1 3>&- &
    pids+=("$!")
  done
  for host in 0 1; do
    wait "${pids[host]}" && codes+=(0) || codes+=("$?")
  done
  pids=()
}

@test "torchrun --nnodes 2 starts the ranks of both hosts again, with all their groups" {
  [[ ${RINGUP_TEST_LONG:-0} == 1 ]] || skip "two agents of torchrun are in the long form: RINGUP_TEST_LONG=1"
  cat >restarted.py <<'EOT'
import os
import signal
import torch
import torch.distributed as dist
import ringup_torch
ringup_torch.register()
dist.init_process_group("ringup")
t = torch.ones(1)
group = dist.new_group()
dist.all_reduce(t)
dist.all_reduce(t, group=group)
if dist.get_rank() == 1 and not os.path.exists("killed"):
    open("killed", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(t, group=group)
dist.all_reduce(t)
print(f"done: {t.item()} of {dist.get_world_size()}", flush=True)
dist.destroy_process_group()
EOT
  agents restarted.py
  [[ ${codes[*]} == "0 0" ]] || { tail -n 30 agent.*; return 1; }
  [[ -e killed && $(cat agent.* | grep -c "^done: 16.0 of 2$") == 2 ]] || { tail -n 30 agent.*; return 1; }
  grep -q "PeerLost: allreduce[^:]*: rank 1 (process " agent.* || { tail -n 30 agent.*; return 1; }
}
