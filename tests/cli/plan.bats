#!/usr/bin/env bats
# plan.bats - ringup plan decides what to build, from trees of nodes and from this one.
# needs: cpu
# tests: src/cli/cmd_plan.c src/rebuild src/detect src/base tests/lib/node.bash tests/lib/real.bash
# shellcheck disable=SC2030,SC2031,SC2154

load ../lib/helper
load ../lib/node
load ../lib/real
bats_require_minimum_version 1.5.0

setup() { mkdir -p "$node/etc" "$node/usr/bin"; }

# plan STATUS ARG... - `ringup plan --json` of the tree, kept in $json.
plan() {
  local want=$1
  shift
  command -v jq >/dev/null || skip "jq is not installed"
  run --separate-stderr ringup plan --root "$node" --json "$@"
  expect_status "$want"
  json=$output
}

# debian - the tree is a Debian 12 with apt-get.
debian() {
  printf 'ID=debian\nVERSION_ID="12"\n' >"$node/etc/os-release"
  : >"$node/usr/bin/apt-get"
}

# gcc_at N - g++-N in the tree.
gcc_at() {
  mkdir -p "$node/usr/lib/gcc/x86_64-linux-gnu/$1.2.0"
  : >"$node/usr/bin/gcc-$1"
  : >"$node/usr/bin/g++-$1"
  : >"$node/usr/lib/gcc/x86_64-linux-gnu/$1.2.0/cc1plus"
}

@test "an empty tree: nothing to build, and not for horovod" {
  run --separate-stderr ringup plan --root "$node"
  expect_status 0
  expect_line "ringup $(sed -n 's/^AC_INIT(\[ringup\], \[\(.*\)\])/\1/p' "$src/configure.ac"), without Python"
  plan 1 --engine horovod
  expect_json '[.possible, .why_not]' '[false,"no framework that Horovod supports is installed"]'
}

@test "the decision comes first, then its reasons, then what was rejected" {
  need_cxx
  debian
  gcc_at 12
  gcc_at 8
  python_at /usr 3.11
  dist torch 2.13.0+cpu
  library "$site/torch/lib/libc10.so" c10 1
  run --separate-stderr ringup plan --root "$node" --engine horovod
  expect_status 0
  [[ ${lines[0]} == "horovod 0.28.1 for Python 3.11, /usr/bin/python3.11" ]] || { echo "$output"; return 1; }
  [[ $(grep -nE '^(BUILDS|with |FOR|build environment|NOT)' <<<"$output" | sed 's/^[0-9]*:\([^ ]*\).*/\1/' | tr '\n' ' ') == \
    "BUILDS with FOR build NOT " ]] || { echo "$output"; return 1; }
  expect_line "with gcc 12.2.0, /usr/bin/g++-12, as C++17 of the new ABI"
  expect_line "  CXX=/usr/bin/g++-12"
  grep -qE '^gcc 8.2.0 \(/usr/bin/g\+\+-8\) +torch 2.13.0\+cpu supports gcc from 9.4$' <<<"$output"
  grep -q '^CVE-2024-10190: ' <<<"$output"
}

@test "what is not possible: why, what would be, exit status 1" {
  python_at /usr 3.11
  dist torch 2.13.0
  mkdir "$site/torch"
  run --separate-stderr ringup plan --root "$node" --engine horovod
  expect_status 1
  expect_line "not possible: no C++ compiler"
  expect_line "fix: install one: apt-get install g++"
}

@test "a compiler that the distribution has is planned to be installed" {
  need_cxx
  debian
  python_at /usr 3.11
  dist torch 2.13.0
  library "$site/torch/lib/libc10.so" c10 1
  plan 0 --engine horovod
  expect_json '[.compiler.installed, .compiler.cxx, .packages[].name]' '[false,"/usr/bin/g++-12","g++-12"]'
  run --separate-stderr ringup plan --root "$node" --engine horovod
  grep -qF 'with gcc 12, /usr/bin/g++-12 (to be installed)' <<<"$output"
}

@test "CUDA 12.4 where the default is gcc 14: the distribution's g++ within nvcc's limit" {
  debian
  gcc_at 14
  python_at /usr 3.11
  dist torch 2.6.0+cu124
  mkdir -p "$site/torch/lib" "$node/usr/local/cuda-12.4/bin" "$node/usr/include" "$node/usr/lib/x86_64-linux-gnu"
  echo '{"cuda": {"version": "12.4.1"}}' >"$node/usr/local/cuda-12.4/version.json"
  : >"$node/usr/local/cuda-12.4/bin/nvcc"
  printf '#define NCCL_MAJOR 2\n#define NCCL_MINOR 21\n#define NCCL_PATCH 5\n' >"$node/usr/include/nccl.h"
  ln -s libnccl.so.2.21.5 "$node/usr/lib/x86_64-linux-gnu/libnccl.so.2"
  : >"$node/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5"
  plan 0 --engine horovod
  expect_json '[.cuda.version, .nccl.version, .compiler.cxx, .cxx11_abi, .env.CUDAHOSTCXX]' \
    '["12.4.1","2.21.5","/usr/bin/g++-12",0,"/usr/bin/g++-12"]'
  expect_json '[.rejected[] | select(.what | test("gcc 14")).why]' '["nvcc of CUDA 12.4.1 supports gcc up to 13"]'
  rm "$node/usr/bin/apt-get"
  plan 1 --engine horovod
  expect_json '.why_not | test("nvcc of CUDA 12.4.1 supports gcc up to 13")' true
  expect_json '.nearest | test("^CUDA 12.8 supports gcc 14")' true
}

@test "a fake /databricks: its Python, and ringup's modules for its MPI" {
  python_at /usr 3.11
  venv_at /databricks/python3 /usr 3.11
  dist torch 2.0.1
  mkdir -p "$site/torch" "$node/usr/lib/x86_64-linux-gnu/openmpi/include"
  printf '#define OMPI_MAJOR_VERSION 4\n#define OMPI_MINOR_VERSION 1\n#define OMPI_RELEASE_VERSION 2\n' \
    >"$node/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h"
  : >"$node/usr/bin/mpicc.openmpi"
  gcc_at 11
  plan 0
  expect_json '[.python.path, [.build[].what], .compiler.cc]' \
    '["/databricks/python3/bin/python3",["ringup-mpi-openmpi-4.1.2.so","Python package ringup"],"/usr/bin/gcc-11"]'
}

@test "words that are none" {
  run ringup plan --root "$node" --engine gloo
  expect_status 2
  run --separate-stderr ringup plan --root "$node" --for torhc
  expect_status 2
  [[ $stderr == *"is torch meant"* ]]
}

# Of the live node.

# real_python - a virtual environment of this node in $venv, and its $site.
real_python() {
  python3 -c 'import venv' 2>/dev/null || skip "no python3 that makes virtual environments"
  venv=$BATS_TEST_TMPDIR/venv
  python3 -m venv --without-pip "$venv"
  site=$(echo "$venv"/lib/python3*/site-packages)
}

# torch_of ABI COMPILER [STANDARD] - a torch in $site: its library was built by COMPILER, as it says,
# and its headers want C++STANDARD.
torch_of() {
  command -v objcopy >/dev/null || skip "objcopy is not installed"
  rm -rf "$site"/torch*
  dist torch "$([[ $1 == 1 ]] && echo 2.13.0 || echo 2.5.1)"
  library "$site/torch/lib/libc10.so" c10 "$1"
  printf 'GCC: (GNU) %s\0' "$2" >"$BATS_TEST_TMPDIR/comment"
  objcopy --remove-section .comment --add-section .comment="$BATS_TEST_TMPDIR/comment" "$site/torch/lib/libc10.so"
  mkdir -p "$site/torch/include/ATen"
  printf '#if __cplusplus < %sL\n#error too old\n#endif\n#include <string>\nnamespace c10 { std::string shout(const std::string &); }\n' \
    "$(case ${3:-17} in 17) echo 201703 ;; 20) echo 202002 ;; esac)" >"$site/torch/include/ATen/ATen.h"
}

# live STATUS ARG... - `ringup plan --json` of this node for $venv, kept in $json.
live() {
  local want=$1
  shift
  command -v jq >/dev/null || skip "jq is not installed"
  mkdir -p "$BATS_TEST_TMPDIR/tmp"
  TMPDIR=$BATS_TEST_TMPDIR/tmp run --separate-stderr ringup plan --python "$venv" --json "$@"
  expect_status "$want"
  json=$output
  [[ -z $(ls -A "$BATS_TEST_TMPDIR/tmp") ]] || { ls -R "$BATS_TEST_TMPDIR/tmp"; return 1; }
}

# shim N SCRIPT - a gcc-N of our own, first in PATH; its C++ is SCRIPT.
shim() {
  mkdir -p "$BATS_TEST_TMPDIR/shim"
  printf '#!/bin/sh\ncase $1 in -dump*) echo %s.9.9; exit 0 ;; esac\n%s\n' "$1" "$2" >"$BATS_TEST_TMPDIR/shim/g++-$1"
  cp "$BATS_TEST_TMPDIR/shim/g++-$1" "$BATS_TEST_TMPDIR/shim/gcc-$1"
  chmod +x "$BATS_TEST_TMPDIR"/shim/*
  PATH=$BATS_TEST_TMPDIR/shim:$PATH
}

@test "a real compiler is tried, and what the headers want is found out" {
  need_cxx
  real_python
  torch_of 1 "$("$cxx" -dumpfullversion)" 20
  live 0 --engine horovod
  expect_json '[.frameworks[0] | .cxx11_abi_by, .cxx_standard, .cxx_standard_by]' '["elf",20,"probe"]'
  expect_json '.disagreements | map(select(.about | test("standard")) | [.probe, .table])' '[["20","17"]]'
  live 0 --engine horovod --no-probe
  expect_json '[.frameworks[0] | .cxx_standard, .cxx_standard_by]' '[17,"table"]'
}

@test "a compiler that ignores the ABI's flag is found out, and the next one taken" {
  need_cxx
  real_python
  torch_of 0 99.1.0
  shim 99 "exec $cxx \"\$@\" -U_GLIBCXX_USE_CXX11_ABI -D_GLIBCXX_USE_CXX11_ABI=1"
  live 0 --engine horovod --no-probe
  expect_json '.compiler.version' '"99.9.9"'
  live 0 --engine horovod
  expect_json '.compiler.version | test("^99")' false
  expect_json '[.rejected[] | select(.what | test("gcc 99")).why]' \
    '["ignores -D_GLIBCXX_USE_CXX11_ABI=0: its objects have the new C++ ABI"]'
}

@test "a compiler that is broken is found out, and the next one taken" {
  need_cxx
  real_python
  torch_of 1 99.1.0
  shim 99 'echo "g++-99: fatal error: cannot execute cc1plus" >&2; exit 1'
  live 0 --engine horovod
  expect_json '[.rejected[] | select(.what | test("gcc 99")).why]' '["does not work: cannot execute cc1plus"]'
  expect_json '.compiler.installed' true
}

@test "engine ringup runs no compiler" {
  real_python
  shim 99 "touch $BATS_TEST_TMPDIR/ran; exit 1"
  live 0
  live 0 --engine ringup --for torch || true
  [[ ! -e $BATS_TEST_TMPDIR/ran ]]
}

# loads LIBRARY... - do these load one after the other, with every name found?
loads() {
  python3 -c 'import ctypes, os, sys
for name in sys.argv[1:]:
    ctypes.CDLL(name, mode=os.RTLD_NOW | os.RTLD_GLOBAL)' "$@"
}

# framework ABI - a torch of this ABI, for which the plan has the same; made by the first that asks
# for it, and in $framework then.
framework() {
  framework=$BATS_FILE_TMPDIR/torch-$1
  [[ ! -e $framework ]] || return 0
  cxx=$(command -v g++) || skip "no g++ to build the framework with"
  real_python
  torch_of "$1" 9.3.1
  live 0 --engine horovod --for torch
  expect_json .cxx11_abi "$1"
  cp -a "$site/torch" "$framework"
}

# matrix COMPILER - framework and engine of both ABIs, really compiled, really loaded: the plan's ABI
# is the one that loads.
matrix() {
  local abi extension ext=$BATS_TEST_TMPDIR/ext outcome want
  command -v "$1" >/dev/null || skip "$1 is not installed"
  printf '#include <ATen/ATen.h>\nextern "C" size_t ask() { return c10::shout("a").size(); }\n' >"$ext.cc"
  for extension in 0 1; do
    framework "$extension"
    "$1" -shared -fPIC -std=c++17 -D_GLIBCXX_USE_CXX11_ABI=$extension -I"$framework/include" -o "$ext-$extension.so" "$ext.cc"
  done
  for abi in 0 1; do
    framework "$abi"
    for extension in 0 1; do
      outcome=fails
      ! loads "$framework/lib/libc10.so" "$ext-$extension.so" 2>"$BATS_TEST_TMPDIR/why" || outcome=loads
      [[ $abi == "$extension" ]] && want=loads || want=fails
      [[ $outcome == "$want" ]] || { echo "framework $abi, extension $extension: $outcome"; return 1; }
      [[ $outcome == loads ]] || grep -q 'undefined symbol.*shout' "$BATS_TEST_TMPDIR/why"
    done
  done
}

@test "ABI 0 and 1 against 0 and 1: g++-11" { matrix g++-11; }
@test "ABI 0 and 1 against 0 and 1: g++-12" { matrix g++-12; }
@test "ABI 0 and 1 against 0 and 1: clang++-14" { matrix clang++-14; }
@test "ABI 0 and 1 against 0 and 1: clang++-16" { matrix clang++-16; }

@test "the compiler that built a framework is the one that is chosen, of all that are here" {
  local n
  cxx=$(command -v g++) || skip "no g++"
  real_python
  for n in 11 12; do
    command -v g++-$n >/dev/null || skip "g++-$n is not installed"
    torch_of 1 $n.1.0
    live 0 --engine horovod
    expect_json '.compiler.cxx | sub(".*/"; "")' "\"g++-$n\""
  done
}

# rebuild-real.bats has horovod's.
@test "a real torch: ringup's plan" {
  local py=${RINGUP_TEST_PYTHON:-python3}
  has_torch "$py" || skip "$py has no torch"
  command -v jq >/dev/null || skip "jq is not installed"
  run --separate-stderr ringup plan --json --python "$py" --for torch
  expect_status 0
  json=$output
  expect_json '.build[-1].what' '"Python package ringup"'
}

@test "JAX: served by ringup, when it is named and when it is not; Horovod does not know it" {
  python_at /opt/env 3.11
  dist jax 0.4.30
  mkdir -p "$site/jax"
  run ringup plan --root "$node"
  grep -qF '/opt/env/bin/python3.11): jax 0.4.30' <<<"$output"
  run ringup plan --root "$node" --for jax
  grep -qF '/opt/env/bin/python3.11): jax 0.4.30' <<<"$output"
  run ringup plan --root "$node" --engine horovod --for jax
  expect_status 1
  expect_line 'not possible: Horovod does not support jax'
  expect_line 'fix: ringup plan --engine ringup'
  rm -r "$site/jax"
  run ringup plan --root "$node" --for jax
  expect_status 1
  grep -qF 'jax is not installed' <<<"$output"
}

@test "an MPI whose mpicc calls a compiler that is not here is not promised, and Horovod needs its mpicxx" {
  local v=$BATS_TEST_TMPDIR/env
  command -v jq >/dev/null || skip "jq is not installed"
  mkdir -p "$v"/{bin,include,lib/python3.11/site-packages}
  : >"$v/bin/python3.11"
  printf 'home = /usr/bin\nversion = 3.11.2\n' >"$v/pyvenv.cfg"
  ln -s python3.11 "$v/bin/python3"
  printf '#define OMPI_MAJOR_VERSION 4\n#define OMPI_MINOR_VERSION 1\n#define OMPI_RELEASE_VERSION 77\n' >"$v/include/mpi.h"
  printf '#!/bin/sh\nexec no-such-compiler-gcc "$@"\n' >"$v/bin/mpicc"
  printf '#!/bin/sh\necho "mpirun (Open MPI) 4.1.77"\n' >"$v/bin/mpirun"
  : >"$v/lib/libmpi.so.40"
  chmod +x "$v"/bin/*
  run env CONDA_PREFIX="$v" ringup plan --json --python "$v"
  json=$output
  jq -e '.rejected[] | select(.what == "Open MPI 4.1.77") | .why | test("mpicc cannot compile: .*no-such-compiler-gcc")' <<<"$json"
  # One that works, but has no mpicxx beside it.
  printf '#!/bin/sh\nexit 0\n' >"$v/bin/mpicc"
  run env CONDA_PREFIX="$v" ringup plan --json --python "$v"
  json=$output
  jq -e '[.build[].what] | index("ringup-mpi-openmpi-4.1.77.so")' <<<"$json"
  site=$v/lib/python3.11/site-packages
  dist torch 2.7.1
  mkdir "$site/torch"
  run env CONDA_PREFIX="$v" ringup plan --no-probe --json --engine horovod --python "$v"
  json=$output
  jq -e '.rejected[] | select(.what == "Open MPI 4.1.77") | .why | test("has no mpicxx|is built for one MPI")' <<<"$json"
}
