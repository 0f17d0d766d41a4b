#!/usr/bin/env bash
# gpu_stage.bash - fill a folder with all that gpu_nccl.bash needs, to carry it to a machine with a GPU.
# SPDX-License-Identifier: Apache-2.0
#
# usage: gpu_stage.bash FOLDER [LIBNCCL [ARCHITECTURE]]
#
# FOLDER then has the programs of the build folder $BUILD (build) without their debugging symbols, the libraries that a
# bare machine may lack, the Python packages and scripts, and the stand-ins of tests/fakegpu.  It needs no other file of
# this machine, and its path does not matter: bash FOLDER/tests/peers/gpu_nccl.bash OUT.
#
# LIBNCCL is the libnccl.so.2 of NCCL 2.30 or later; of its code only that for one GPU architecture is kept (90 is a
# H100's or H200's), and packed as FOLDER/nccl.xz, about 40 MB.
set -euo pipefail

folder=${1:?usage: gpu_stage.bash FOLDER [LIBNCCL [ARCHITECTURE]]}
nccl=${2:-} architecture=${3:-90} slim='' tried=''
trap 'rm -rf "$slim" "$tried"' EXIT
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "${BUILD:-$root/build}" && pwd)
programs=(ringup tests/device/conform tests/fault/strike)
stand_ins=(cuda/libcuda.so.1 nccl-2.28.9/libnccl.so.2 nccl-2.30.7/libnccl.so.2)
for file in "${programs[@]}" "${stand_ins[@]/#/tests/fakegpu/}"; do
  [[ -f $build/$file ]] || {
    echo "gpu_stage.bash: $build/$file is not built" >&2
    echo "  run: make -C ${BUILD:-build} all tests/device/conform tests/fault/strike tests/fakegpu/test_gpu" >&2
    exit 2
  }
done
[[ -z $nccl || -f $nccl ]] || { echo "gpu_stage.bash: there is no $nccl" >&2; exit 2; }
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$folder"
rm -rf build bin eu compat tests nccl.xz
mkdir -p build/.libs build/tests/{device,fault,fakegpu} bin eu compat tests/{peers,py}

for file in "${programs[@]}"; do cp "$build/$file" "build/$file"; done
ln -s ringup build/horovodrun
cp -L "$build"/.libs/{libringup.so.0,libringup_jax.so} build/.libs/
for file in "${stand_ins[@]}"; do
  mkdir -p "build/tests/fakegpu/${file%/*}"
  cp "$build/tests/fakegpu/$file" "build/tests/fakegpu/$file"
done

# needs FILE - the libraries of this machine that it loads, but for those of the C library.
needs() { ldd "$1" | awk '$3 ~ /^\// && $1 !~ /^(lib(c|m|pthread|dl|rt|resolv|gcc_s|ringup)|ld-linux.*)\.so/ { print $3 }'; }
for file in "${programs[@]}" .libs/libringup.so.0; do needs "$build/$file"; done | sort -u | xargs -rI{} cp -L {} build/.libs/

# Stacks of a job that hangs.  Its libraries are apart, so that nothing else loads them.
if tool=$(command -v eu-stack); then
  cp "$tool" eu/
  needs "$tool" | xargs -rI{} cp -L {} eu/
  # shellcheck disable=SC2016
  printf '#!/bin/sh\nd=${0%%/*}/../eu\nLD_LIBRARY_PATH=$d exec "$d/eu-stack" "$@"\n' >bin/eu-stack
  chmod +x bin/eu-stack
fi
find build eu -type f -exec strip -g {} +

cp -r "$root/compat/python" compat/
find compat -name __pycache__ -prune -exec rm -rf {} +
cp "$root"/tests/peers/{gpu_nccl.bash,gpu_mixed.py,gpu_train.py,gpu_elastic.py,gpu_resnet.py,models.py} tests/peers/
cp "$root"/tests/py/{gpu,ops,train,jax}_of_a_rank.py "$root/tests/py/checks.py" tests/py/

if [[ -n $nccl ]]; then
  slim=$(mktemp -d)
  python3 "$root/tests/peers/slim_nccl.py" "$nccl" "$architecture" "$slim/libnccl.so.2"
  version=$(python3 -c 'import ctypes, sys
v = ctypes.c_int()
ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(v))
print(v.value)' "$slim/libnccl.so.2")
  ((version >= 23000)) || { echo "gpu_stage.bash: $nccl is NCCL $version; 2.30 or later is needed" >&2; exit 2; }
  xz -6 -T0 -c "$slim/libnccl.so.2" >nccl.xz
fi
# Does the copy work, on the stand-ins?
fakes=$folder/build/tests/fakegpu tried=$(mktemp -d)
FAKE_CUDA=devices=1 NCCL_OWN=$fakes/nccl-2.28.9 NCCL_SHARED=$fakes/nccl-2.30.7 LD_LIBRARY_PATH=$fakes/cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
  bash "$folder/tests/peers/gpu_nccl.bash" "$tried" 26 >"$tried/said" 2>&1 || {
  cat "$tried/said" >&2
  echo "gpu_stage.bash: the copy does not work" >&2
  echo "  run: make -C ${BUILD:-build} all tests/device/conform tests/fault/strike tests/fakegpu/test_gpu" >&2
  exit 1
}
echo "$folder: $(find . -type f -printf '%s\n' | awk '{ n += $1 } END { printf "%.1f MiB", n / 1048576 }')${nccl:+, with NCCL $version}"
