#!/usr/bin/env bats
# rebuild-torch.bats - upstream's Horovod really built for two versions of torch, and trained with.
# needs: cpu
# tests: src/cli/cmd_rebuild.c src/rebuild src/detect/torch.c src/detect/tensorflow.c src/detect/keras.c tests/lib/engine.bash tests/lib/real.bash tests/lib/upstream.bash
#
# This takes a quarter of an hour of processors and some gigabytes from the network.
# shellcheck disable=SC2030,SC2031,SC2154

load ../lib/helper
load ../lib/engine
load ../lib/real
load ../lib/upstream

bats_require_minimum_version 1.5.0

@test "torch 2.13, which unedited Horovod does not compile with" {
  environment "${RINGUP_TEST_TORCH:-torch==2.13.0}"
  rebuild --without-mpi
  [[ $output == *"proved: torch 2.13.0"*"over gloo"* ]]
  "$venv/bin/horovodrun" --check-build | grep -qF '[X] PyTorch'
  [[ $(stat -c %s "$venv"/lib/python3*/site-packages/horovod/torch/mpi_lib_v2*.so) -lt 4000000 ]]
}

@test "the distribution's torch, over Gloo and Open MPI, built as nobody" {
  /usr/bin/python3 -c 'import torch' 2>/dev/null || skip "/usr/bin/python3 has no torch"
  command -v mpicxx >/dev/null || skip "no mpicxx"
  chmod 755 "$BATS_TEST_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_RUN_TMPDIR"
  /usr/bin/python3 -m venv --system-site-packages "$venv" || skip "no venv"
  rebuild
  [[ $output == *"proved: torch"*"over gloo"*"proved: torch"*"over mpi"* ]]
  [[ $stderr != *"built as root"* ]]
}
