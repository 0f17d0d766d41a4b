#!/usr/bin/env bats
# deaths.bats - ranks are killed at any time, by every launcher and binding: who is named, what is left.
# needs: waits
# proves: P1 P6 P8 of docs/RELIABILITY.md
# tests: src compat/python tests/fault

load ../lib/helper

setup() {
  [[ -n ${RINGUP_TEST_LONG:-} ]] || skip "RINGUP_TEST_LONG is not set"
  export RINGUP_TEST_LOOP=$PWD/tests/fault/loop PYTHONPATH=$src/compat/python
  export RINGUP_LIBRARY=${builddir:-$PWD}/.libs/libringup.so.0
}

# deaths PYTHON BINDING LAUNCHER... - ten trials with each launcher; skipped where none of them can be tried.
deaths() {
  local python=$1 binding=$2 launcher tried=0 rc
  shift 2
  for launcher; do
    rc=0
    RINGUP_TEST_PYTHON=$python python3 "$src/tests/fault/deaths.py" --trials "${RINGUP_TEST_TRIALS:-10}" "$launcher" "$binding" >said 2>&1 || rc=$?
    sed 's/^/# /' said >&3
    [[ $rc -eq 0 || $rc -eq 77 ]] || return 1
    tried=$((tried + !rc))
  done
  ((tried)) || skip "$(tail -n 1 said)"
}

@test "programs in C" { deaths "${RINGUP_TEST_PYTHON:-python3}" c ringup torchrun mpirun; }
@test "horovod.torch" { deaths "${RINGUP_TEST_PYTHON:-python3}" horovod_torch ringup torchrun mpirun; }
@test "torch.distributed" { deaths "${RINGUP_TEST_PYTHON:-python3}" torch_distributed ringup torchrun; }
@test "TensorFlow" { deaths "${RINGUP_TEST_TENSORFLOW_221:-python3}" tensorflow ringup mpirun; }
@test "JAX" { deaths "${RINGUP_TEST_TENSORFLOW_221:-python3}" jax ringup mpirun; }

@test "Spark" {
  [[ -n ${RINGUP_TEST_SPARK:-} ]] || skip "no pyspark"
  PYTHONPATH+=:$RINGUP_TEST_SPARK
  deaths "${RINGUP_TEST_PYTHON:-python3}" horovod_torch spark
}
