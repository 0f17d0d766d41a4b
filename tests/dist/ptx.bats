#!/usr/bin/env bats
# ptx.bats - the PTX in the library is what NVRTC makes of kernels.cu, and assembles for every GPU.
# needs: cpu
# tests: src/device src/coll/scalar.h tests/device/ptx.py

load ../lib/helper

# The long form fetches two packages of PyPI, 50 MB, which the next run finds; none needs a GPU.
setup_file() {
  export SITE=${XDG_CACHE_HOME:-$HOME/.cache}/ringup/nvrtc-12.9.86
  [[ ! -e $SITE/done && ${RINGUP_TEST_LONG:-0} == 1 ]] || return 0
  local new
  new=$(mktemp -d "$SITE.XXXXXX") || return 0
  if timeout 500 python3 -m pip install -q --no-input --no-deps --target "$new" \
    nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-cuda-nvcc-cu12==12.9.86 >"$BATS_FILE_TMPDIR/pip.log" 2>&1; then
    touch "$new/done"
    mv -T "$new" "$SITE" 2>/dev/null || true
  fi
  rm -rf "$new"
}

@test "the PTX is that of the source" {
  [[ -e $SITE/done ]] || skip "no NVRTC: RINGUP_TEST_LONG=1 fetches it from PyPI"
  python3 "$src/tests/device/ptx.py" "$SITE"
}

@test "ptxas takes the PTX for every GPU from Volta on, and nothing spills" {
  [[ -e $SITE/done ]] || skip "no ptxas: RINGUP_TEST_LONG=1 fetches it from PyPI"
  python3 "$src/tests/device/ptx.py" --assemble "$SITE"
}
