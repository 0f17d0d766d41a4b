#!/usr/bin/env bats
# loads.bats - a Horovod that the loader would refuse is called ill, one that it takes is not; nothing is run.
# needs: cpu
# tests: src/cli/cmd_doctor.c src/cli/cmd_detect.c src/doctor src/detect src/base tests/lib/node.bash
# shellcheck disable=SC2154

load ../lib/helper
load ../lib/node

# A node with torch, whose libc10.so has the new C++ ABI, and with Horovod's notes.
setup() {
  need_cxx
  command -v jq >/dev/null || skip "jq is not installed"
  python_at /opt/env 3.11
  dist torch 2.7.1
  dist horovod 0.28.1
  mkdir -p "$site/horovod/torch" "$node/usr/lib"
  extension=$site/horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so
  library "$site/torch/lib/libc10.so" c10 1
}

# shared FILE SOURCE [WORD...] - a shared library of that C++.
shared() {
  printf '%s\n' "$2" >"$BATS_TEST_TMPDIR/shared.cc"
  "$cxx" -shared -fPIC -o "$1" "$BATS_TEST_TMPDIR/shared.cc" "${@:3}"
}

# versions FILE SONAME VERSION... - a library that gives these symbol versions; in each a function vN.
versions() {
  local v i=0 map='' code=''
  for v in "${@:3}"; do
    map+="$v { global: v$i; };"$'\n'
    code+="extern \"C\" int v$i() { return $i; }"$'\n'
    i=$((i + 1))
  done
  printf '%s' "$map" >"$BATS_TEST_TMPDIR/map"
  shared "$1" "$code" -nostdlib "-Wl,-soname,$2" "-Wl,--version-script=$BATS_TEST_TMPDIR/map"
}

# expect_loads - torch is served, and nothing is wrong.
expect_loads() {
  run ringup doctor --root "$node" --json
  expect_status 0
  json=$output
  expect_json '[.findings[] | select(.section == "frameworks") | .text]' \
    '["torch 2.7.1 of /opt/env/bin/python3.11: works with Horovod 0.28.1"]'
  run ringup doctor --root "$node" --check-build
  expect_line '    [X] PyTorch'
}

# expect_fault TEXT [ARGUMENTS] - it is said, by doctor, by detect and by --check-build, that it cannot be loaded, and
# why; and how it is built again.
expect_fault() {
  local again=${2:---python /opt/env/bin/python3.11 --for torch}
  run ringup doctor --root "$node" --json
  expect_status 1
  json=$output
  expect_json '[.findings[] | select(.state == "bad") | .text, .todo]' \
    "[\"torch 2.7.1 of /opt/env/bin/python3.11: Horovod 0.28.1 cannot be loaded\",\"ringup rebuild --engine horovod $again\"]"
  grep -qF -- "$1" <<<"$(jq -r '.findings[] | select(.state == "bad") | .why' <<<"$json")" || {
    echo "not said: $1"
    echo "$output"
    return 1
  }
  detect
  grep -qF -- "$1" <<<"$(jq -r '.engines[].extensions[].fault' <<<"$json")"
  grep -qF -- "cannot be loaded" <<<"$(jq -r '.problems[].reason' <<<"$json")"
  run ringup doctor --root "$node" --check-build
  expect_line '    [ ] PyTorch'
}

@test "libraries: missing, found where the loader looks, missing behind another" {
  shared "$node/usr/lib/libmpi.so.40" 'extern "C" int MPI_Init() { return 0; }' -Wl,-soname,libmpi.so.40
  shared "$extension" 'extern "C" int MPI_Init(); extern "C" int PyInit_x() { return MPI_Init(); }' "$node/usr/lib/libmpi.so.40"
  expect_loads
  mkdir "$node/usr/lib/mpi"
  mv "$node/usr/lib/libmpi.so.40" "$node/usr/lib/mpi"
  expect_fault 'it needs libmpi.so.40, which the loader cannot find'
  mkdir "$node/etc"
  echo /usr/lib/mpi >"$node/etc/ld.so.conf"
  expect_loads
  # What it needs needs something itself.
  shared "$BATS_TEST_TMPDIR/libopen-rte.so.40" 'extern "C" int rte() { return 0; }' -Wl,-soname,libopen-rte.so.40
  shared "$node/usr/lib/mpi/libmpi.so.40" 'extern "C" int rte(); extern "C" int MPI_Init() { return rte(); }' \
    -Wl,-soname,libmpi.so.40 "$BATS_TEST_TMPDIR/libopen-rte.so.40"
  expect_fault 'it needs libmpi.so.40, which needs libopen-rte.so.40, which the loader cannot find'
}

@test "libraries beside the extension, by \$ORIGIN, and those that the framework has loaded" {
  mkdir "$site/horovod.libs"
  shared "$site/horovod.libs/libx-1f.so.1" 'extern "C" int x() { return 0; }' -Wl,-soname,libx-1f.so.1
  # shellcheck disable=SC2016
  shared "$extension" 'extern "C" int x(); extern "C" int PyInit_x() { return x(); }' "$site/horovod.libs/libx-1f.so.1" \
    '-Wl,-rpath,$ORIGIN/../../horovod.libs' -Wl,--enable-new-dtags
  expect_loads
  shared "$site/torch/lib/libtorch.so" 'extern "C" int t() { return 0; }' -Wl,-soname,libtorch.so
  shared "$extension" 'extern "C" int t(); extern "C" int PyInit_x() { return t(); }' "$site/torch/lib/libtorch.so"
  expect_loads
  rm "$site/torch/lib/libtorch.so"
  expect_fault 'it needs libtorch.so,'
}

@test "the command that builds it again accepts what it was built in spite of" {
  shared "$BATS_TEST_TMPDIR/libgone.so.1" 'extern "C" int gone() { return 0; }' -Wl,-soname,libgone.so.1
  shared "$extension" 'extern "C" int gone(); extern "C" int PyInit_x() { return gone(); }' "$BATS_TEST_TMPDIR/libgone.so.1"
  expect_fault 'it needs libgone.so.1'
  echo '{"schema":1,"engine":"horovod","version":"0.28.1","python":{"path":"/opt/env/bin/python3.11","version":"3.11"},"frameworks":{"torch":"2.7.1"},"accepted":["CVE-1"]}' \
    >"$site/horovod/ringup-build.json"
  expect_fault 'it needs libgone.so.1' '--python /opt/env/bin/python3.11 --accept CVE-1'
}

@test "symbol versions: one that the library does not have, whoever brings it" {
  mkdir -p "$node/usr/lib" "$BATS_TEST_TMPDIR/new"
  versions "$BATS_TEST_TMPDIR/new/libstdc++.so.6" libstdc++.so.6 GLIBCXX_3.4 GLIBCXX_3.4.9 GLIBCXX_3.4.30
  shared "$extension" 'extern "C" int v2(); extern "C" int PyInit_x() { return v2(); }' -nostdlib "$BATS_TEST_TMPDIR/new/libstdc++.so.6"
  expect_loads # the tree has no libc, so its like is not missed
  versions "$node/usr/lib/libstdc++.so.6" libstdc++.so.6 GLIBCXX_3.4 GLIBCXX_3.4.9
  expect_fault 'it needs GLIBCXX_3.4.30, but /usr/lib/libstdc++.so.6 only has versions up to GLIBCXX_3.4.9'
  cp "$BATS_TEST_TMPDIR/new/libstdc++.so.6" "$node/usr/lib"
  expect_loads
  # conda's own comes before the system's.
  mkdir "$node/opt/env/conda-meta"
  versions "$node/opt/env/lib/libstdc++.so.6" libstdc++.so.6 CXXABI_1.3 GLIBCXX_3.4 GLIBCXX_3.4.21
  expect_fault 'it needs GLIBCXX_3.4.30, but /opt/env/lib/libstdc++.so.6 only has versions up to GLIBCXX_3.4.21'
  # A library without versions is taken by the loader, with a warning.
  shared "$node/opt/env/lib/libstdc++.so.6" 'extern "C" int v2() { return 0; }' -nostdlib -Wl,-soname,libstdc++.so.6
  expect_loads
}

@test "the C++ ABI: both ways, and a framework's name that is not there any more" {
  local source='#include <string>
namespace c10 { std::string shout(const std::string &); }
extern "C" int PyInit_x() { return c10::shout("").size(); }' abi
  shared "$extension" "$source" -D_GLIBCXX_USE_CXX11_ABI=1
  expect_loads
  shared "$extension" "$source" -D_GLIBCXX_USE_CXX11_ABI=0
  expect_fault 'it was compiled with the old C++ ABI (_GLIBCXX_USE_CXX11_ABI=0), and torch 2.7.1 with the new one'
  library "$site/torch/lib/libc10.so" c10 0
  expect_loads
  shared "$extension" "$source" -D_GLIBCXX_USE_CXX11_ABI=1
  expect_fault 'it was compiled with the new C++ ABI (_GLIBCXX_USE_CXX11_ABI=1), and torch 2.7.1 with the old one'
  # The same ABI, another torch of the same version.
  library "$site/torch/lib/libc10.so" c10 1
  shared "$BATS_TEST_TMPDIR/libc10.so" 'int a;' -Wl,-soname,libc10.so
  source=${source/extern/extern int a; extern}
  source=${source/return /return a + }
  shared "$extension" "${source//shout/whisper}" -D_GLIBCXX_USE_CXX11_ABI=1 "$BATS_TEST_TMPDIR/libc10.so"
  expect_fault 'torch 2.7.1 does not define _ZN3c107whisper'
  shared "$extension" "$source" -D_GLIBCXX_USE_CXX11_ABI=1 "$BATS_TEST_TMPDIR/libc10.so"
  expect_loads
}

@test "an extension for another Python, and one of several that fits" {
  local other=$site/horovod/torch/mpi_lib_v2.cpython-38-x86_64-linux-gnu.so
  shared "$other" 'int a;'
  expect_fault 'it was built for Python 3.8 (cpython-38), not for 3.11'
  mv "$other" "$site/horovod/torch/mpi_lib_v2.cpython-36m-x86_64-linux-gnu.so"
  expect_fault 'it was built for Python 3.6 (cpython-36), not for 3.11'
  shared "$extension" 'int a;'
  expect_loads
}

@test "what is no library, and what was built for another processor" {
  echo '<html>404</html>' >"$extension"
  expect_fault 'it is not a library: not an ELF file'
  shared "$extension" 'int a;'
  cp "$(readlink -f "$(command -v bash)")" "$node/opt/env/bin/python3.11"
  expect_loads
  # e_machine, at byte 18: RISC-V.
  printf '\xf3\0' | dd of="$extension" bs=1 seek=18 conv=notrunc status=none
  expect_fault 'another type of processor'
}
