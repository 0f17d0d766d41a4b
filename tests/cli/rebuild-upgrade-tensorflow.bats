#!/usr/bin/env bats
# rebuild-upgrade-tensorflow.bats - upstream's Horovod built again after TensorFlow or Keras was upgraded.
# needs: cpu
# tests: src/cli/cmd_rebuild.c src/rebuild src/detect/tensorflow.c src/detect/keras.c tests/lib/engine.bash tests/lib/real.bash tests/lib/upstream.bash
#
# This takes ten minutes of a processor and some gigabytes from the network.
# shellcheck disable=SC2030,SC2031,SC2154

load ../lib/helper
load ../lib/engine
load ../lib/real
load ../lib/upstream

bats_require_minimum_version 1.5.0

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
