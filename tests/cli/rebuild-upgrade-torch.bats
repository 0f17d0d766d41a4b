#!/usr/bin/env bats
# rebuild-upgrade-torch.bats - upstream's Horovod built again after torch was upgraded.
# needs: cpu
# tests: src/cli/cmd_rebuild.c src/rebuild src/detect/torch.c tests/lib/engine.bash tests/lib/real.bash tests/lib/upstream.bash
#
# This takes ten minutes of a processor and some gigabytes from the network.
# shellcheck disable=SC2030,SC2031,SC2154

load ../lib/helper
load ../lib/engine
load ../lib/real
load ../lib/upstream

bats_require_minimum_version 1.5.0

@test "torch is upgraded, then downgraded: doctor sees it, and its command builds the engine for it" {
  environment torch==2.12.0
  rebuild --without-mpi
  [[ $output == *"proved: torch 2.12.0"* ]]
  # What pip gets may be for CUDA; where a toolkit is, it is served by NCCL then.
  if ringup plan --engine horovod --python "$venv" | grep -q '^and NCCL'; then
    "$venv/bin/horovodrun" --check-build | grep -qF '[X] NCCL'
  fi
  updated torch 2.12.0 2.13.0
  [[ $output == *"proved: torch 2.13.0"* ]]
  run "$venv/bin/python" -c 'import horovod.torch'
  expect_status 0
  [[ -z $output ]]
  updated torch 2.13.0 2.12.0
  [[ $output == *"proved: torch 2.12.0"* ]]
}
