#!/usr/bin/env bats
# ptx.bats - the PTX in the library is what NVRTC makes of kernels.cu, and assembles for every GPU.
# needs: cpu
# tests: src/device src/coll/scalar.h tests/device/ptx.py

load ../lib/helper

@test "the PTX is that of the source" {
  [[ -n ${RINGUP_TEST_NVRTC:-} ]] || skip "no NVRTC: tests/run gets it, or set RINGUP_TEST_NVRTC"
  python3 "$src/tests/device/ptx.py" "$RINGUP_TEST_NVRTC"
}

@test "three versions of ptxas take the PTX, for every GPU from Volta on, and nothing spills" {
  [[ -n ${RINGUP_TEST_PTXAS:-} ]] || skip "no ptxas: tests/run --shard device gets it, or set RINGUP_TEST_PTXAS"
  local -a ptxas
  IFS=: read -ra ptxas <<<"$RINGUP_TEST_PTXAS"
  [[ ${#ptxas[@]} -eq 3 ]]
  python3 "$src/tests/device/ptx.py" --assemble "${ptxas[@]}"
}
