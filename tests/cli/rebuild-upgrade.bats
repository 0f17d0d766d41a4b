#!/usr/bin/env bats
# rebuild-upgrade.bats - upstream's Horovod built again after a framework was upgraded.
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

@test "TensorFlow 2.15 with Keras 2 is upgraded to 2.21 with Keras 3, then Keras alone: all is averaged" {
  environment tensorflow-cpu==2.15.1
  rebuild --without-mpi
  [[ $output == *"proved: tensorflow 2.15"*"proved: keras"* ]]
  updated tensorflow-cpu 2.15.1 2.21.0
  [[ $output == *"proved: tensorflow 2.21"*"proved: keras"* ]]
  keras=$("$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("keras"))')
  updated keras "$keras" 3.12.0
  [[ $output == *"proved: keras"* ]]
  run in_two_ranks "$src/tests/py/keras_of_a_rank.py" "$BATS_TEST_TMPDIR"
  [[ $(grep -c ':ok check_' <<<"$output") -eq 14 && $output != *"not ok"* ]]
  # Without our edits it would average nothing, which the proof sees.
  sed -i 's/    if keras3.is_optimizer(optimizer):/    if False:/' \
    "$venv"/lib/python3*/site-packages/horovod/_keras/__init__.py
  mkdir "$BATS_TEST_TMPDIR/proof" "$BATS_TEST_TMPDIR/out"
  cp "$src"/src/rebuild/proofs/*.py "$BATS_TEST_TMPDIR/proof"
  # The callbacks would fail, and nothing is to but the averages.
  sed -i '/BroadcastGlobal/d; s/^ *hvd.callbacks.MetricAverage.*/[])/' \
    "$BATS_TEST_TMPDIR/proof/prove_keras.py"
  in_two_ranks "$BATS_TEST_TMPDIR/proof/prove_keras.py" "$BATS_TEST_TMPDIR/out"
  [[ $(grep -oh '"weights": "[0-9a-f]*"' "$BATS_TEST_TMPDIR"/out/rank-*.json | sort -u | wc -l) -eq 2 ]]
}
