# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# node.bash - make the tree of a node with frameworks, for `ringup detect --root`.

node=$BATS_TEST_TMPDIR/node

# python_at PREFIX X.Y - a Python: the program and its folder of packages ($site).
python_at() {
  site=$node$1/lib/python$2/site-packages
  mkdir -p "$node$1/bin" "$site"
  : >"$node$1/bin/python$2"
  ln -sfn "python$2" "$node$1/bin/python3"
}

# venv_at PREFIX BASE X.Y [true] - a virtual environment; with `true` it sees the system's.
venv_at() {
  site=$node$1/lib/python$3/site-packages
  mkdir -p "$node$1/bin" "$site"
  ln -sfn "$2/bin/python$3" "$node$1/bin/python3"
  printf 'home = %s/bin\ninclude-system-site-packages = %s\nversion = %s.4\n' \
    "$2" "${4:-false}" "$3" >"$node$1/pyvenv.cfg"
}

# dist NAME VERSION [LINE]... - metadata in $site, as pip writes it.
dist() {
  local d=$site/${1//-/_}-$2.dist-info
  mkdir -p "$d"
  printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$1" "$2" >"$d/METADATA"
  [[ $# -lt 3 ]] || printf '%s\n' "${@:3}" >>"$d/METADATA"
  echo pip >"$d/INSTALLER"
}

# library FILE NAMESPACE ABI - a shared library that exports functions on std::string.
library() {
  mkdir -p "${1%/*}"
  printf '#include <string>\nnamespace %s { std::string shout(const std::string &s) { return s + "!"; } }\n' \
    "$2" >"$BATS_TEST_TMPDIR/library.cc"
  "$cxx" -shared -fPIC -O1 -D_GLIBCXX_USE_CXX11_ABI="$3" -o "$1" "$BATS_TEST_TMPDIR/library.cc"
}

# nccl_at FILE VERSION CUDA - a libnccl.so.2 that says so.
nccl_at() {
  command -v gcc >/dev/null || skip "gcc is not installed"
  mkdir -p "${1%/*}"
  printf 'const char v[] __attribute__((used)) = "NCCL version %s+cuda%s"; int ncclA(void) { return 0; } int ncclGetVersion(int *v) { return !v; }' "$2" "$3" |
    gcc -shared -fPIC -Wl,-soname,libnccl.so.2 -o "$1" -x c -
}

# cuda_torch VERSION CUDA - a torch for that CUDA in $site, as far as it is read.
cuda_torch() {
  dist torch "$1"
  mkdir -p "$site/torch/lib"
  : >"$site/torch/__init__.py"
  printf "__version__ = '%s'\ncuda = '%s'\n" "$1" "$2" >"$site/torch/version.py"
}

# torch_needs [LIBRARY]... - the library of the torch in $site that is for CUDA, and what it needs.
torch_needs() { needing "$site/torch/lib/libtorch_cuda.so" "$@"; }

# needing FILE [LIBRARY]... - a library that needs these, and finds NCCL's wheel two folders above.
needing() {
  echo 'int ncclA(void) __attribute__((weak)); int f(void) { return ncclA(); }' |
    gcc -shared -fPIC -o "$1" -Wl,--no-as-needed "${@:2}" -Wl,-rpath,'$ORIGIN/../../nvidia/nccl/lib' -x c -
}

# cuda_jax VERSION - a JAX for CUDA 12 in $site.
cuda_jax() {
  dist jax "$1"
  dist jaxlib "$1"
  dist jax_cuda12_plugin "$1"
  mkdir -p "$site"/{jax,jaxlib,jax_cuda12_plugin}
}

# need_cxx - skip where no C++ compiler is; sets $cxx.
need_cxx() {
  cxx=$(command -v "${CXX:-g++}") || skip "no C++ compiler to make libraries with"
  echo 'int main() {}' >"$BATS_TEST_TMPDIR/try.cc"
  "$cxx" -o "$BATS_TEST_TMPDIR/try" "$BATS_TEST_TMPDIR/try.cc" 2>/dev/null || skip "$cxx does not compile"
}

# detect ARG... - `ringup detect --json` of the tree, kept in $json.
detect() {
  command -v jq >/dev/null || skip "jq is not installed"
  run ringup detect --root "$node" --json "$@"
  expect_status 0
  json=$output
}

# expect_json FILTER VALUE - what jq makes of $json, in compact form.
expect_json() {
  local got
  command -v jq >/dev/null || skip "jq is not installed"
  got=$(jq -c "$1" <<<"$json")
  [[ $got == "$2" ]] || {
    printf '%s\n  is       %s\n  expected %s\n%s\n' "$1" "$got" "$2" "$json"
    return 1
  }
}
