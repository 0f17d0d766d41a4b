#!/usr/bin/env bats
# doctor.bats - ringup doctor says what is wrong with a node, why, and what to do.
# needs: cpu
# tests: src/cli/cmd_doctor.c src/doctor src/detect src/rebuild src/host src/base src/backend/nccl_lib.c src/wire/discover.c tests/lib/node.bash tests/lib/schema.py docs/doctor.schema.json compat/versions.tsv
# shellcheck disable=SC2154

load ../lib/helper
load ../lib/node

setup() { mkdir -p "$node"; }

# doctor STATUS ARG... - `ringup doctor --json` of the tree, kept in $json.
doctor() {
  command -v jq >/dev/null || skip "jq is not installed"
  run ringup doctor --root "$node" --json "${@:2}"
  expect_status "$1"
  json=$output
  described
}

# described - $json keeps to the schema of the manual.
described() {
  python3 "$src/tests/lib/schema.py" "$src/docs/doctor.schema.json" <<<"$json"
}

# ours VERSION - the Python package of ringup in $site, as this release has it.
ours() {
  dist ringup 0.1.0
  cp -r "$src"/compat/python/{ringup,ringup_torch,horovod,sparkdl} "$site"
}

# stamp PYTHON FRAMEWORK VERSION - what the package in $site was installed for.
stamp() {
  printf '{"schema":1,"engine":"ringup","version":"0.1.0","python":{"path":"%s","version":"3.11"},
    "frameworks":{"%s":"%s"}}\n' "$@" >"$site/ringup/build.json"
}

@test "a page about this machine: every section, and a verdict that the status repeats" {
  run ringup doctor
  [[ $status -le 1 ]]
  local s
  for s in engine frameworks drift network limits gpus init; do
    grep -qE "^$s +(good|note|bad)  " <<<"$output" || { echo "no $s"; echo "$output"; return 1; }
  done
  if [[ $status -eq 0 ]]; then expect_line healthy; else grep -qE '^[0-9]+ problems?$' <<<"$output"; fi
}

@test "--json keeps to its schema, and the check sees each change that is more than an addition" {
  local report change
  command -v jq >/dev/null || skip "jq is not installed"
  report=$(ringup doctor --json --report || [[ $? -eq 1 ]])
  json=$report
  [[ $(jq '.findings + .brief | length' <<<"$json") -gt 9 ]]
  described
  for change in 'del(.healthy)' '.findings[0].state = "fine"' '.findings[0].why = 1' '.findings[0].since = ""' \
    '.schema = "ringup.doctor/2"' '.horovod = {}' '.brief[0].title = null' '.horovod = [{}]'; do
    json=$(jq -c "$change" <<<"$report")
    run described
    [[ $status -eq 1 && ${lines[0]} == '$'* ]] || { echo "$change: $output"; return 1; }
  done
}

@test "an empty tree has nothing that is bad" {
  doctor 0
  expect_json '[.schema, .healthy, .horovod]' '["ringup.doctor/1",true,[]]'
  expect_json '[.findings[].section] | unique | length' 7
}

@test "a tree that is not there is a failure, not an illness" {
  run ringup doctor --root "$node/none"
  expect_status 3
}

@test "nothing is written: a second look finds the same" {
  python_at /opt/py 3.11
  ours
  find "$node" | sort >"$BATS_TEST_TMPDIR/before"
  doctor 0
  find "$node" | sort | diff "$BATS_TEST_TMPDIR/before" -
}

@test "JAX is served from 0.5 on" {
  python_at /usr 3.11
  dist jax 0.4.38
  mkdir -p "$site/jax"
  ours
  doctor 0
  expect_json '[.findings[] | select(.section == "frameworks")][0] | [.state, .text, .todo]' \
    '["note","jax 0.4.38 of /usr/bin/python3.11: ringup needs JAX 0.5 or later","/usr/bin/python3.11 -m pip install --upgrade jax"]'
  mv "$site/jax-0.4.38.dist-info" "$site/jax-0.5.0.dist-info"
  sed -i s/0.4.38/0.5.0/ "$site/jax-0.5.0.dist-info/METADATA"
  doctor 0
  expect_json '[.findings[] | select(.section == "frameworks")][0].text' \
    '"jax 0.5.0 of /usr/bin/python3.11: works with ringup 0.1.0"'
}

@test "a framework that changed since: the sentence and the one command" {
  python_at /usr 3.11
  dist torch 2.13.0
  mkdir -p "$site/torch"
  ours
  stamp /usr/bin/python3.11 torch 2.13.0
  doctor 0
  expect_json '[.findings[] | select(.section == "drift") | .state]' '["good"]'
  expect_json '[.findings[] | select(.section == "frameworks")][0].text' \
    '"torch 2.13.0 of /usr/bin/python3.11: works with ringup 0.1.0"'
  mv "$site/torch-2.13.0.dist-info" "$site/torch-2.14.1.dist-info"
  sed -i s/2.13.0/2.14.1/ "$site/torch-2.14.1.dist-info/METADATA"
  doctor 1
  expect_json '[.findings[] | select(.state == "bad") | .text, .todo]' \
    '["torch was 2.13.0 when ringup was built for /usr/bin/python3.11, and is 2.14.1 now","ringup rebuild --engine ringup --python /usr/bin/python3.11"]'
  run ringup doctor --root "$node"
  expect_status 1
  expect_line '1 problem'
  rm -r "$site"/torch*
  doctor 1
  expect_json '[.findings[] | select(.state == "bad") | .text]' \
    '["torch was 2.13.0 when ringup was built for /usr/bin/python3.11, and is gone now"]'
}

@test "a Horovod that ringup rebuild has made is told by its stamp, another by its own note" {
  python_at /usr 3.11
  dist torch 2.14.1
  dist horovod 0.28.1
  mkdir -p "$site/torch" "$site/horovod/torch"
  : >"$site/horovod/torch/mpi_lib_v2.so"
  echo '{"torch": "2.13.0"}' >"$site/horovod/metadata.json"
  doctor 1
  expect_json '[.findings[] | select(.section == "drift") | .text, .todo]' \
    '["torch was 2.13.0 when horovod was built for /usr/bin/python3.11, and is 2.14.1 now","ringup rebuild --engine horovod --python /usr/bin/python3.11"]'
  echo '{"schema":1,"engine":"horovod","version":"0.28.1","python":{"path":"/usr/bin/python3.11","version":"3.11"},"frameworks":{"torch":"2.14.1"}}' \
    >"$site/horovod/ringup-build.json"
  doctor 0
  expect_json '[.findings[] | select(.section == "drift") | .state]' '["good"]'
  # What it was built in spite of, and Keras, whose 3 is averaged only by what is edited for it.
  dist keras 3.15.1
  mkdir -p "$site/keras"
  echo '{"schema":1,"engine":"horovod","version":"0.28.1","python":{"path":"/usr/bin/python3.11","version":"3.11"},"frameworks":{"torch":"2.14.1","keras":"2.15.0"},"accepted":["CVE-1","a b;c"]}' \
    >"$site/horovod/ringup-build.json"
  doctor 1
  expect_json '[.findings[] | select(.section == "drift") | .text, .todo]' \
    '["keras was 2.15.0 when horovod was built for /usr/bin/python3.11, and is 3.15.1 now","ringup rebuild --engine horovod --python /usr/bin/python3.11 --accept CVE-1 --accept '\''a b;c'\''"]'
}

@test "a package of another release is drift, too" {
  python_at /usr 3.11
  ours
  echo '# another' >>"$site/ringup/job.py"
  doctor 1
  expect_json '[.findings[] | select(.state == "bad") | .text]' \
    '["its package ringup belongs to another release"]'
}

@test "the names of one Python are one Python" {
  venv_at /opt/env /usr 3.11
  : >"$node/opt/env/bin/python3.11"
  mkdir -p "$node/usr/bin"; : >"$node/usr/bin/python3.11"
  dist torch 2.13.0
  mkdir -p "$site/torch"
  ours
  stamp /opt/env/bin/python3 torch 2.13.0
  doctor 0
  expect_json '[.findings[] | select(.section == "drift") | .state]' '["good"]'
  # The same, asked for through a link to the environment.
  ln -s env "$node/opt/current"
  doctor 0 --python /opt/current/bin/python3
}

@test "what a user may not read is not said to be another release" {
  # Root without its right to read everything is a user like others to the files of others.
  local look=(setpriv --bounding-set=-dac_override,-dac_read_search)
  "${look[@]}" true 2>/dev/null || skip "needs root and setpriv"
  command -v jq >/dev/null || skip "jq is not installed"
  look+=(ringup doctor --root "$node" --json)
  python_at /opt/py 3.11
  ours
  mkdir -p "$site/ringup/__pycache__"
  chown 65534 "$site/ringup/__pycache__"
  chmod 700 "$site/ringup/__pycache__"
  run "${look[@]}"
  expect_status 0
  # Of the package itself: said so, and not called another release.
  chown 65534 "$site"/ringup/job.py
  chmod 600 "$site"/ringup/job.py
  run "${look[@]}"
  expect_status 1
  json=$output
  expect_json '[.findings[] | select(.state == "bad") | .text]' '["this user cannot read its package ringup"]'
  chown 65534 "$site/ringup"
  chmod 700 "$site/ringup"
  run "${look[@]}"
  expect_status 1
  json=$output
  expect_json '[.findings[] | select(.state == "bad") | .text]' '["this user cannot read its package ringup"]'
}

@test "bytecode of a release that only root may read does not make a package another release" {
  local look=(setpriv --bounding-set=-dac_override,-dac_read_search)
  "${look[@]}" true 2>/dev/null || skip "needs root and setpriv"
  python_at /opt/py 3.11
  ours
  # A release of which root has run something under umask 077.
  mkdir "$BATS_TEST_TMPDIR/release"
  cp -r "$src/compat" "$BATS_TEST_TMPDIR/release"
  mkdir -p "$BATS_TEST_TMPDIR/release/compat/python/ringup/__pycache__"
  chown 65534 "$BATS_TEST_TMPDIR/release/compat/python/ringup/__pycache__"
  chmod 700 "$BATS_TEST_TMPDIR/release/compat/python/ringup/__pycache__"
  run "${look[@]}" env RINGUP_TEST_DATA="$BATS_TEST_TMPDIR/release" ringup doctor --root "$node"
  expect_status 0
}

@test "a stamp that is damaged, hostile or huge is drift, not trust" {
  python_at /usr 3.11
  ours
  local bad
  for bad in '' '{' '[]' '{"schema":1}' '{"schema":9,"engine":"x","version":"1"}' \
    '{"schema":1,"engine":"ringup","version":"\u001b[31m"}'; do
    printf '%s' "$bad" >"$site/ringup/build.json"
    doctor 1
    expect_json '[.findings[] | select(.state == "bad")] | length' 1
  done
  head -c 2000000 /dev/zero >"$site/ringup/build.json"
  doctor 1
  ln -sf /etc/passwd "$site/ringup/build.json"
  doctor 0 # below the root there is none
}

@test "MPI: missing and stale modules are drift, one without mpi.h is a note" {
  local lib=$node/opt/ringup/current/lib/ringup mpi=$node/opt/openmpi-5
  mkdir -p "$lib" "$mpi/include" "$mpi/lib" "$mpi/bin"
  printf '#define OMPI_MAJOR_VERSION 5\n#define OMPI_MINOR_VERSION 0\n#define OMPI_RELEASE_VERSION 11\n' \
    >"$mpi/include/mpi.h"
  : >"$mpi/lib/libmpi.so"; : >"$mpi/bin/mpicc"; : >"$mpi/bin/mpirun"
  doctor 1
  expect_json '[.findings[] | select(.state == "bad") | .text, .todo]' \
    '["Open MPI 5.0.11 has no module: it has not been built yet","ringup rebuild --engine ringup"]'
  : >"$lib/ringup-mpi-openmpi.so"
  doctor 0
  expect_json '[.findings[].text | select(startswith("back ends"))]' \
    '["back ends: self, node, tcp; with RINGUP_BACKEND=mpi: Open MPI 5.0.11"]'
  rm "$lib/ringup-mpi-openmpi.so"
  echo '{"schema":1,"engine":"ringup","version":"0.1.0","mpi":[{"flavour":"openmpi","version":"5.0.11","library":"/opt/openmpi-5/lib/libmpi.so","module":"ringup-mpi-openmpi-5.0.11.so"}]}' \
    >"$lib/modules.json"
  doctor 1
  expect_json '[.findings[] | select(.state == "bad") | .text]' \
    '["Open MPI 5.0.11 has no module: the file is gone"]'
  : >"$lib/ringup-mpi-openmpi-5.0.11.so"
  doctor 0
  rm "$mpi/bin/mpicc" "$lib"/*
  doctor 0
  expect_json '[.findings[] | select(.section == "engine" and .state == "note") | .why] | any(contains("mpicc"))' true
}

@test "how ringup-init ended: well, badly, unreadably" {
  mkdir -p "$node/var/lib/ringup"
  echo '{"result":"ok","written":"2026-01-01T00:00:00Z"}' >"$node/var/lib/ringup/status.json"
  doctor 0
  expect_json '[.findings[] | select(.section == "init") | .text]' '["ringup-init: ok, 2026-01-01T00:00:00Z"]'
  echo '{"result":"failed","written":"2026-01-01T00:00:00Z","cause":"no network","hint":"plug it in"}' \
    >"$node/var/lib/ringup/status.json"
  doctor 1
  expect_json '[.findings[] | select(.section == "init") | .text, .todo]' \
    '["ringup-init failed at 2026-01-01T00:00:00Z: no network","plug it in"]'
  echo nonsense >"$node/var/lib/ringup/status.json"
  doctor 1
}

@test "check-build answers for each Python what horovodrun asks" {
  python_at /usr 3.11
  dist torch 2.13.0
  mkdir -p "$site/torch"
  run ringup doctor --root "$node" --check-build
  expect_status 1
  ours
  run ringup doctor --root "$node" --check-build
  expect_status 0
  expect_line 'ringup 0.1.0 for /usr/bin/python3.11'
  expect_line '    [X] PyTorch'
  expect_line '    [ ] TensorFlow'
  expect_line '    [ ] MPI'
  expect_line '    [X] Gloo'
  doctor 0
  expect_json '.horovod[0] | [.engine, .controllers.MPI, .operations.NCCL]' '["ringup",false,false]'
}

@test "what cannot be told of a Horovod without running it is a question mark" {
  python_at /usr 3.11
  dist torch 2.13.0
  dist horovod 0.28.1
  mkdir -p "$site/torch" "$site/horovod/torch"
  : >"$site/horovod/torch/mpi_lib_v2.so"
  run ringup doctor --root "$node" --check-build
  expect_status 0
  expect_line '    [X] PyTorch'
  expect_line '    [?] Gloo'
  expect_line '    [?] NCCL'
}

@test "too small a /dev/shm is bad, and says what ends with SIGBUS" {
  unshare --mount true 2>/dev/null || skip "needs a mount namespace"
  run unshare --mount bash -c 'mount -t tmpfs -o size=64m tmpfs /dev/shm && ringup doctor'
  expect_status 1
  grep -qE '^ +bad   shared memory: 64 MiB' <<<"$output"
  grep -q 'SIGBUS' <<<"$output"
}

@test "few open files are bad" {
  run bash -c 'ulimit -n 256; ringup doctor'
  expect_status 1
  grep -qE '^ +bad   open files: 256' <<<"$output"
}

# gpus DRIVER - two GPUs and that driver.
gpus() {
  mkdir -p "$node"/proc/driver/nvidia/gpus/0000:{3b,86}:00.0
  echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  $1  Sun Mar 16 20:36:30 UTC 2025" >"$node/proc/driver/nvidia/version"
  lib libcuda.so.1
}

# lib NAME - a library of that name where the loader looks.
lib() {
  mkdir -p "$node/usr/lib/x86_64-linux-gnu"
  cp /usr/lib/x86_64-linux-gnu/libm.so.6 "$node/usr/lib/x86_64-linux-gnu/$1" 2>/dev/null || skip "no library to copy"
}

@test "GPUs: a torch without CUDA is a note, one that needs a newer driver is bad" {
  python_at /opt/py 3.11
  gpus 525.105.17
  dist torch 2.9.1+cpu
  mkdir -p "$site/torch"
  printf "__version__ = '2.9.1+cpu'\ncuda = None\n" >"$site/torch/version.py"
  run ringup doctor --root "$node"
  grep -q 'note  torch 2.9.1+cpu of .* was built without CUDA' <<<"$output"
  rm -r "$site"/torch*
  cuda_torch 2.9.1+cu128 12.8
  run ringup doctor --root "$node"
  not grep -q 'needs driver' <<<"$output"
  rm -r "$site"/torch*
  cuda_torch 2.9.1+cu130 13.0
  run ringup doctor --root "$node"
  expect_status 1
  grep -q 'bad   torch 2.9.1+cu130 of .* needs driver 580.65.06 for CUDA 13.0; this node has 525.105.17' <<<"$output"
}

@test "a libcuda of another driver than the kernel's module is bad, but for NVIDIA's own folder of newer ones" {
  python_at /opt/py 3.11
  gpus 550.54.15
  rm "$node/usr/lib/x86_64-linux-gnu/libcuda.so.1"
  lib libcuda.so.535.161.08
  ln -s libcuda.so.535.161.08 "$node/usr/lib/x86_64-linux-gnu/libcuda.so.1"
  run ringup doctor --root "$node"
  expect_status 1
  grep -q 'bad   /.*/libcuda.so.1 belongs to driver 535.161.08, but the kernel module is 550.54.15' <<<"$output"
  mv "$node/usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08" "$node/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15"
  ln -sf libcuda.so.550.54.15 "$node/usr/lib/x86_64-linux-gnu/libcuda.so.1"
  run ringup doctor --root "$node"
  expect_status 0
  mkdir -p "$node/usr/local/cuda/compat" "$node/etc"
  mv "$node"/usr/lib/x86_64-linux-gnu/libcuda.so.* "$node/usr/local/cuda/compat"
  mv "$node/usr/local/cuda/compat/libcuda.so.550.54.15" "$node/usr/local/cuda/compat/libcuda.so.575.57.08"
  ln -sf libcuda.so.575.57.08 "$node/usr/local/cuda/compat/libcuda.so.1"
  echo /usr/local/cuda/compat >"$node/etc/ld.so.conf"
  run ringup doctor --root "$node"
  expect_status 0
}

@test "AMD's GPUs are counted, and a torch without ROCm is a note" {
  local d=$node/sys/class/kfd/kfd/topology/nodes
  mkdir -p "$d"/{0,1,2}
  echo 0 >"$d/0/gpu_id"
  echo 51101 | tee "$d/1/gpu_id" >"$d/2/gpu_id"
  python_at /opt/py 3.11
  cuda_torch 2.9.1+cu128 12.8
  run ringup doctor --root "$node"
  expect_status 0
  grep -q 'gpus  *good  2 AMD GPUs' <<<"$output"
  grep -q 'note  torch 2.9.1+cu128 of .* was built without ROCm' <<<"$output"
  rm -r "$site"/torch*
  cuda_torch 2.9.1+rocm6.4 ''
  run ringup doctor --root "$node"
  not grep -q 'without ROCm' <<<"$output"
}

@test "Keras 3 beside TensorFlow 2.15, and a plug-in of JAX of another version than jaxlib, are bad" {
  python_at /opt/py 3.11
  dist tensorflow 2.15.1
  dist keras 2.15.0
  dist jaxlib 0.5.3
  dist jax_cuda12_plugin 0.5.3
  mkdir -p "$site"/{tensorflow,keras,jaxlib}
  run ringup doctor --root "$node"
  expect_status 0
  mv "$site/keras-2.15.0.dist-info" "$site/keras-3.10.0.dist-info"
  sed -i s/2.15.0/3.10.0/ "$site/keras-3.10.0.dist-info/METADATA"
  mv "$site/jax_cuda12_plugin-0.5.3.dist-info" "$site/jax_cuda12_plugin-0.4.36.dist-info"
  run ringup doctor --root "$node"
  expect_status 1
  grep -q 'bad   keras 3.10.0 of .* does not fit TensorFlow 2.15.1, which needs keras 2' <<<"$output"
  grep -q "fix: .*-m pip install 'keras==2\.\*'" <<<"$output"
  grep -q 'bad   jax-cuda12-plugin 0.4.36 of .* does not fit jaxlib 0.5.3' <<<"$output"
}

@test "a jaxlib newer than jax, and a required package that is missing or too old, are bad" {
  python_at /opt/py 3.11
  dist jax 0.4.30
  dist jaxlib 0.4.30
  dist torch 2.9.1
  mkdir -p "$site"/{jax,jaxlib,torch}
  # under the line that ends the headers is free text
  printf '%s\n' 'Requires-Dist: typing-extensions >=4.10.0' 'Requires-Dist: pyreadline3; sys_platform == "win32"' '' \
    'Requires-Dist: nothing' >>"$site/torch-2.9.1.dist-info/METADATA"
  run ringup doctor --root "$node"
  expect_status 1
  grep -q 'bad   torch 2.9.1 of .* cannot be imported: typing-extensions is not installed' <<<"$output"
  not grep -qE 'pyreadline|nothing|newer than jax' <<<"$output"
  dist typing_extensions 4.7.1
  touch "$site/typing_extensions.py"
  mv "$site/jaxlib-0.4.30.dist-info" "$site/jaxlib-0.4.31.dist-info"
  sed -i s/0.4.30/0.4.31/ "$site/jaxlib-0.4.31.dist-info/METADATA"
  run ringup doctor --root "$node"
  expect_status 1
  grep -q 'bad   typing-extensions 4.7.1 of .* does not fit torch 2.9.1, which requires typing-extensions>=4.10.0' <<<"$output"
  grep -q 'bad   jaxlib 0.4.31 of .* is newer than jax 0.4.30' <<<"$output"
  grep -q "fix: .*-m pip install 'jaxlib==0.4.30'" <<<"$output"
}

@test "a library in LD_LIBRARY_PATH that lacks what torch needs is bad; with an RPATH torch is safe" {
  command -v gcc >/dev/null || skip "gcc is not installed"
  local d=$BATS_TEST_TMPDIR/live how want
  mkdir -p "$d"/{old,py/bin,py/include} "$d/py/lib/python3.11/site-packages"/{torch/lib,nvidia/nccl/lib}
  touch "$d/py/bin/python3.11"
  chmod +x "$d/py/bin/python3.11"
  ln -s python3.11 "$d/py/bin/python3"
  site=$d/py/lib/python3.11/site-packages
  echo 'int ncclA(void){return 0;} int ncclCommRegister(void){return 0;}' |
    gcc -shared -fPIC -Wl,-soname,libnccl.so.2 -o "$site/nvidia/nccl/lib/libnccl.so.2" -x c -
  echo 'int ncclA(void){return 0;}' | gcc -shared -fPIC -Wl,-soname,libnccl.so.2 -o "$d/old/libnccl.so.2" -x c -
  touch "$site/torch/__init__.py"
  printf "__version__ = '2.9.1+cu128'\ncuda = '12.8'\n" >"$site/torch/version.py"
  for how in enable disable; do
    echo 'int ncclCommRegister(void); int f(void){return ncclCommRegister();}' |
      gcc -shared -fPIC -o "$site/torch/lib/libtorch_cuda.so" -Wl,-rpath,'$ORIGIN/../../nvidia/nccl/lib' -Wl,--$how-new-dtags \
        -x c - -x none "$site/nvidia/nccl/lib/libnccl.so.2"
    want=0
    [[ $how != enable ]] || want=1
    run env LD_LIBRARY_PATH="$d/old:${LD_LIBRARY_PATH:-}" ringup doctor --python "$d/py"
    [[ $(grep -cE 'bad   torch 2.9.1.cu128 of .* cannot be imported' <<<"$output") -eq $want ]]
    [[ $(grep -cF "libtorch_cuda.so needs ncclCommRegister; LD_LIBRARY_PATH puts $d/old/libnccl.so.2" <<<"$output") -eq $want ]]
  done
  run ringup doctor --python "$d/py"
  not grep -q 'cannot be imported' <<<"$output"
}

@test "NCCL's wheel of another CUDA, without a symbol that torch needs, is bad wherever it lies" {
  command -v gcc >/dev/null || skip "gcc is not installed"
  python_at /opt/py 3.11
  cuda_torch 2.9.1+cu128 12.8
  mkdir -p "$site/nvidia/nccl/lib"
  # nccl FUNCTION... - the library with these.
  nccl() {
    printf 'int %s(void) { return 0; }\n' "$@" |
      gcc -shared -fPIC -Wl,-soname,libnccl.so.2 -o "$site/nvidia/nccl/lib/libnccl.so.2" -x c -
  }
  nccl ncclA ncclMemFree
  echo 'int ncclMemFree(void); int f(void) { return ncclMemFree(); }' |
    gcc -shared -fPIC -o "$site/torch/lib/libtorch_cuda.so" -Wl,-rpath,'$ORIGIN/../../nvidia/nccl/lib' \
      -x c - -x none "$site/nvidia/nccl/lib/libnccl.so.2"
  doctor 0
  nccl ncclA
  doctor 1
  expect_json '[.findings[] | select(.state == "bad") | .text, .why, .todo]' \
    '["torch 2.9.1+cu128 of /opt/py/bin/python3.11 cannot be imported","libtorch_cuda.so needs ncclMemFree, which /opt/py/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2 lacks","/opt/py/bin/python3.11 -m pip install --force-reinstall torch==2.9.1+cu128"]'
}

@test "a library of CUDA that torch needs is bad where it is not found, as with torch in lib64 and its wheels in lib" {
  command -v gcc >/dev/null || skip "gcc is not installed"
  local lib64=$node/opt/py/lib64/python3.11/site-packages cudnn=$BATS_TEST_TMPDIR/libcudnn.so.9
  python_at /opt/py 3.11
  cuda_torch 2.9.1+cu128 12.8
  mkdir -p "$lib64" "$site/nvidia/cudnn/lib"
  echo 'int a(void) { return 0; }' | gcc -shared -fPIC -Wl,-soname,libcudnn.so.9 -o "$cudnn" -x c -
  cp "$cudnn" "$site/nvidia/cudnn/lib"
  # without a path, as torch's import finds it beside itself
  echo 'int a(void); int f(void) { return a(); }' | gcc -shared -fPIC -o "$site/torch/lib/libtorch_cuda.so" -x c - -x none "$cudnn"
  doctor 0
  mv "$site"/torch* "$lib64"
  doctor 1
  expect_json '[.findings[] | select(.state == "bad") | .text, .why]' \
    '["torch 2.9.1+cu128 of /opt/py/bin/python3.11 cannot be imported","libtorch_cuda.so needs libcudnn.so.9, which is not where the loader looks"]'
}

@test "NumPy 2 beside a torch or a TensorFlow that was built with NumPy 1 is bad" {
  python_at /opt/py 3.11
  dist torch 2.2.2
  dist tensorflow 2.18.0
  dist numpy 1.26.4
  mkdir -p "$site"/{torch,tensorflow,numpy}
  doctor 0
  mv "$site/numpy-1.26.4.dist-info" "$site/numpy-2.1.0.dist-info"
  doctor 1
  expect_json '[.findings[] | select(.state == "bad") | .text, .todo]' \
    '["numpy 2.1.0 of /opt/py/bin/python3.11 does not fit torch 2.2.2, which was built with numpy 1","/opt/py/bin/python3.11 -m pip install '\''numpy<2'\''"]'
}

@test "a torchvision for another torch, and a processor without AVX, are bad" {
  python_at /opt/py 3.11
  dist torch 2.6.0+cpu
  dist torchvision 0.21.0 'Requires-Dist: numpy' 'Requires-Dist: torch==2.6.0'
  dist torchaudio 2.6.0 'Requires-Dist: torch (==2.6.0)'
  dist torchmetrics 1.0.0 'Requires-Dist: torch>=2.0.0'
  mkdir -p "$site"/{torch,tensorflow} "$node/proc"
  doctor 0
  sed -i s/torch==2.6.0/torch==2.8.0/ "$site/torchvision-0.21.0.dist-info/METADATA"
  doctor 1
  expect_json '[.findings[] | select(.state == "bad") | .text, .todo]' \
    '["torchvision 0.21.0 of /opt/py/bin/python3.11 was built for torch 2.8.0, and this is 2.6.0+cpu","/opt/py/bin/python3.11 -m pip install --upgrade --force-reinstall torchvision torch==2.6.0"]'
  rm -r "$site"/torch*
  dist tensorflow 2.15.1
  printf 'processor\t: 0\nflags\t\t: fpu sse4_1 avx avx2\n' >"$node/proc/cpuinfo"
  doctor 0
  sed -i s/avx.*// "$node/proc/cpuinfo"
  doctor 1
  expect_json '[.findings[] | select(.state == "bad") | .text]' \
    '["tensorflow 2.15.1 of /opt/py/bin/python3.11 cannot be imported: this processor has no AVX"]'
}

@test "GPUs that this user, or this control group, may not open are bad, with the group" {
  ((EUID == 0)) && unshare --mount bash -c 'mount -t tmpfs none /tmp && mknod /tmp/x c 1 3' 2>/dev/null && [[ -d /proc/driver ]] ||
    skip "no namespaces, or no device files, here"
  mkdir "$BATS_TEST_TMPDIR/dev"
  # opened MODE CMD... - doctor by that command, where /dev has the files of a GPU with that mode.
  opened() {
    run unshare --mount bash -c 'set -e; mode=$1; shift; mount -t tmpfs none /proc/driver
      mkdir -p /proc/driver/nvidia/gpus/0000:3b:00.0
      echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.10.1  Sun" >/proc/driver/nvidia/version
      mount -t tmpfs none "$1"; cd "$1"; shift
      mkdir -m 1777 shm
      for d in null zero urandom; do mknod -m 666 $d c 1 $(stat -c 0x%T /dev/$d); done
      for d in nvidia0 nvidiactl nvidia-uvm; do mknod -m $mode $d c 1 3; chgrp video $d; done
      mount --move . /dev; cd /; exec "$@"' bash "$1" "$BATS_TEST_TMPDIR/dev" "${@:2}"
  }
  opened 666 ringup doctor
  not grep -q '^ *bad .*/dev/nvidia' <<<"$output"
  opened 660 setpriv --reuid=64987 --clear-groups env USER=trainer HOME=/tmp "$(command -v ringup)" doctor
  expect_status 1
  grep -q 'bad   this user cannot open /dev/nvidiactl, which belongs to the group video' <<<"$output"
}

@test "GPUs on the bus: without the kernel's module bad, with another's driver named, without any driver a note" {
  local d=$node/sys/bus/pci/devices/0000:3b:00.0
  # gpu STATE TEXT - the first finding about GPUs.
  gpu() { expect_json '[.findings[] | select(.section == "gpus")][0] | .state, .text' "$(printf '"%s"\n"%s"' "$@")"; }
  mkdir -p "$d" "$node/sys/bus/pci/drivers/nouveau"
  echo 0x10de >"$d/vendor"
  echo 0x040300 >"$d/class"
  doctor 0
  gpu good 'no GPUs'
  echo 0x030200 >"$d/class"
  doctor 0
  gpu note '1 NVIDIA GPU, but no NVIDIA driver'
  lib libcuda.so.570.10.1
  ln -s libcuda.so.570.10.1 "$node/usr/lib/x86_64-linux-gnu/libcuda.so.1"
  doctor 1
  gpu bad "1 NVIDIA GPU, but the kernel module nvidia is not loaded"
  ln -s ../../../../bus/pci/drivers/nouveau "$d/driver"
  doctor 1
  gpu bad "1 NVIDIA GPU, but the kernel module nvidia is not loaded; the driver in use is nouveau"
}

@test "GPUs: a torch for a CUDA that has no programs for them is bad" {
  python_at /opt/py 3.11
  gpus 580.65.06
  # model NAME CUDA STATUS - doctor's status for a torch of that CUDA and such GPUs.
  model() {
    printf 'Model: \t\t %s\nIRQ:   \t\t 83\n' "$1" >"$node/proc/driver/nvidia/gpus/0000:3b:00.0/information"
    rm -rf "$site"/torch*
    cuda_torch "2.9.1+cu$2" "$2"
    doctor "$3"
  }
  model 'NVIDIA GeForce RTX 5070 Ti' 12.1 1
  expect_json '[.findings[] | select(.state == "bad") | .text]' \
    '["NVIDIA GeForce RTX 5070 Ti needs CUDA 12.8 or later, and torch 2.9.1+cu12.1 of /opt/py/bin/python3.11 is for CUDA 12.1"]'
  model 'NVIDIA GeForce RTX 5070 Ti' 12.8 0
  model 'Quadro RTX 5000' 11.3 0
  model 'NVIDIA H200' 11.7 1
  model 'Tesla V100-SXM2-32GB' 12.9 0
  model 'Tesla V100-SXM2-32GB' 13.0 1
  model 'NVIDIA Some Other' 11.0 0
}

@test "CUDA_VISIBLE_DEVICES that names no GPU is bad, one that hides all a note" {
  ((EUID == 0)) && unshare --mount true 2>/dev/null && [[ -d /proc/driver ]] || skip "no namespaces here"
  # seen LIST - doctor, where there is one GPU and that list.
  seen() {
    run unshare --mount bash -c 'mount -t tmpfs none /proc/driver && mkdir -p /proc/driver/nvidia/gpus/0000:3b:00.0 &&
      echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.10.1  Sun" >/proc/driver/nvidia/version &&
      CUDA_VISIBLE_DEVICES=$1 exec ringup doctor' bash "$1"
    grep -q '^gpus  *good  1 GPU, driver 570.10.1' <<<"$output"
  }
  seen 1
  grep -q 'bad   CUDA_VISIBLE_DEVICES=1 hides all of the 1 GPU' <<<"$output"
  seen ''
  grep -q 'note  CUDA_VISIBLE_DEVICES= hides all of the 1 GPU' <<<"$output"
  for list in 0 0,1 GPU-5a1b; do
    seen "$list"
    not grep -q CUDA_VISIBLE_DEVICES <<<"$output"
  done
}

@test "GPUs: JAX and TensorFlow without what they need for them are notes, with the command" {
  python_at /opt/py 3.11
  gpus 570.10.1
  dist jax 0.6.1
  dist jaxlib 0.6.1
  dist tensorflow 2.15.1
  mkdir -p "$site"/{jax,jaxlib,nvidia/{cudnn,cuda_runtime}/lib,tensorflow/python/platform}
  # notes - what is said of the frameworks' ways to the GPUs.
  notes() {
    doctor 0
    jq -r '.findings[] | select(.section == "gpus" and .state == "note" and (.text | test("NCCL|nccl") | not)) | "\(.text); \(.todo)"' <<<"$json"
  }
  info() { printf 'build_info = {%s}\n' "$1" >"$site/tensorflow/python/platform/build_info.py"; }
  info "'cuda_version': '12.2', 'cudnn_version': '8', 'is_cuda_build': True"
  run notes
  expect_line "jax 0.6.1 of /opt/py/bin/python3.11 was installed without CUDA's plug-in; /opt/py/bin/python3.11 -m pip install --upgrade 'jax[cuda12]', unless you train on processors"
  expect_line "tensorflow 2.15.1 of /opt/py/bin/python3.11 finds no libcudart.so.12 and libcudnn.so.8; /opt/py/bin/python3.11 -m pip install 'tensorflow[and-cuda]==2.15.1'"
  : >"$site/nvidia/cuda_runtime/lib/libcudart.so.12"
  lib libcudnn.so.8
  dist jax_cuda12_plugin 0.6.1
  mkdir -p "$site/jax_cuda12_plugin"
  run notes
  [[ -z $output ]] || { echo "$output"; return 1; }
  info "'is_cuda_build': False"
  run notes
  expect_line "tensorflow 2.15.1 of /opt/py/bin/python3.11 was built without CUDA; /opt/py/bin/python3.11 -m pip install 'tensorflow[and-cuda]', unless you train on processors"
}

@test "GPUs: device files that are missing are bad, fewer than GPUs a note; NVSwitches need a fabric manager" {
  gpus 570.10.1
  mkdir -p "$node"/{dev,usr/bin,proc/driver/nvidia-nvswitch/devices}
  doctor 0
  touch "$node"/dev/nvidia{0,1,ctl}
  doctor 1
  expect_json '[.findings[] | select(.state == "bad") | .text]' '["/dev/nvidia-uvm is missing"]'
  touch "$node/dev/nvidia-uvm"
  doctor 0
  expect_json '[.findings[] | select(.section == "gpus" and .state == "note") | .text]' '[]'
  rm "$node/dev/nvidia1"
  touch "$node/proc/driver/nvidia-nvswitch/devices/0000:c1:00.0"
  doctor 0
  expect_json '[.findings[] | select(.section == "gpus" and .state == "note") | .text]' \
    '["1 of 2 GPUs have a device file","the GPUs use 1 NVSwitch, but nv-fabricmanager is not installed"]'
  touch "$node/usr/bin/nv-fabricmanager"
  rm "$node/dev/nvidia0"
  doctor 1
  expect_json '[.findings[] | select(.section == "gpus" and .state != "good") | .text]' '["/dev/nvidia0 is missing"]'
}

@test "ECC: errors that could not be corrected are bad, corrected ones a note, none good, no counter no finding" {
  local edac=$node/sys/devices/system/edac/mc ras=$node/sys/devices/pci0/ras
  # ecc - the findings about it.
  ecc() { jq -c '[.findings[] | select(.text | contains("ECC")) | .state, .text]' <<<"$json"; }
  doctor 0
  [[ $(ecc) == '[]' ]]
  mkdir -p "$edac"/{mc0,mc1} "$ras" "$node/sys/class/drm/card0"
  echo 0 | tee "$edac"/mc{0,1}/{ue,ce}_count >/dev/null
  doctor 0
  [[ $(ecc) == '["good","main memory: no ECC errors since this node started"]' ]]
  echo 17 >"$edac/mc1/ce_count"
  doctor 0
  [[ $(ecc) == '["note","main memory: 17 ECC errors were corrected"]' ]]
  echo 1 >"$edac/mc0/ue_count"
  ln -s ../../../devices/pci0 "$node/sys/class/drm/card0/device"
  printf '%s\n' 'ue: 0' 'ce: 1' >"$ras/umc_err_count"
  printf '%s\n' 'ue: 0' 'ce: 0' >"$ras/gfx_err_count"
  doctor 1
  [[ $(ecc) == '["note","AMD GPUs: 1 ECC error was corrected","bad","main memory: 1 uncorrectable ECC error"]' ]]
}

@test "Xids in the kernel's log: those of hardware are bad, with the number, those of programs a note" {
  ((EUID == 0)) && unshare --mount true 2>/dev/null || skip "no namespaces here"
  # told LINE... - doctor, where the kernel's log has these lines.
  told() {
    printf '%s\n' "$@" >"$BATS_TEST_TMPDIR/kmsg"
    run unshare --mount bash -c 'mount --bind "$1" /dev/kmsg && exec ringup doctor' bash "$BATS_TEST_TMPDIR/kmsg"
  }
  [[ -e /dev/kmsg ]] || skip "no /dev/kmsg here"
  told '6,1,1000,-;eth0: link becomes ready' '4,2,2000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python3, MMU Fault'
  grep -q 'note  the kernel log has 1 Xid; the last one is 31, on PCI:0000:3b:00: pid=7' <<<"$output"
  not grep -q 'hardware fault' <<<"$output"
  told '4,2,2000,-;NVRM: Xid (PCI:0000:3b:00): 63, Row remapping' '4,3,3000,-;NVRM: Xid (PCI:0000:86:00): 79, GPU has fallen off the bus.'
  expect_status 1
  grep -q 'bad   the kernel log has 2 Xids for hardware faults; the last one is 79, on PCI:0000:86:00: GPU has fallen off the bus' <<<"$output"
  grep -q 'why: the GPU fell off the bus' <<<"$output"
  told '4,2,2000,-;NVRM: Xid (PCI:0000:3b:00): 48, pid=7, name=python3, DBE (double bit error)'
  grep -q 'why: an uncorrectable ECC error' <<<"$output"
  told '6,1,1000,-;eth0: link becomes ready'
  not grep -q Xid <<<"$output"
}

@test "a removed VIRTUAL_ENV is named, and an editable torch is no broken installation" {
  mkdir -p "$BATS_TEST_TMPDIR/env"
  run env VIRTUAL_ENV="$BATS_TEST_TMPDIR/gone" ringup doctor
  grep -q "note  $BATS_TEST_TMPDIR/gone: VIRTUAL_ENV names this environment, which was removed" <<<"$output"
  python_at /opt/py 3.11
  dist torch 2.9.1
  mkdir -p "$node/srv/pytorch/torch"
  printf '{"url":"file:///srv/pytorch","dir_info":{"editable":true}}' >"$site/torch-2.9.1.dist-info/direct_url.json"
  printf "__version__ = '2.9.1'\n" | tee "$node/srv/pytorch/torch/__init__.py" >"$node/srv/pytorch/torch/version.py"
  run ringup doctor --root "$node"
  grep -q 'torch 2.9.1 of ' <<<"$output"
  not grep -qE 'is not there|not complete' <<<"$output"
}

@test "which NCCL a job loads, by file and by what the file tells, not by the notes of two wheels" {
  python_at /opt/py 3.11
  cuda_torch 2.9.1+cu128 12.8
  dist nvidia_nccl_cu12 2.27.5
  dist nvidia_nccl_cu13 2.28.9
  nccl_at "$site/nvidia/nccl/lib/libnccl.so.2" 2.27.5 12.9
  torch_needs "$site/nvidia/nccl/lib/libnccl.so.2"
  run ringup doctor --root "$node"
  grep -q "good  torch 2.9.1+cu128 of .* loads NCCL 2.27.5, .*/nvidia/nccl/lib/libnccl.so.2: libtorch_cuda.so needs it" <<<"$output"
  run ringup detect --root "$node"
  [[ $(grep -c '^NCCL ' <<<"$output") -eq 1 ]]
  grep -q '^NCCL  *2.27.5 ' <<<"$output"
  grep -q 'problem: .*both nvidia-nccl-cu1. .* and another NCCL wheel installed this file, which is NCCL 2.27.5' <<<"$output"
}

@test "an NCCL for a CUDA that the driver is too old for, though the framework's own is not" {
  python_at /opt/py 3.11
  cuda_torch 2.9.1+cu128 12.8
  nccl_for() { nccl_at "$site/nvidia/nccl/lib/libnccl.so.2" 2.28.9 "$1"; }
  nccl_for 12.9
  torch_needs "$site/nvidia/nccl/lib/libnccl.so.2"
  said='NCCL 2.28.9 of torch 2.9.1+cu128 of /opt/py/bin/python3.11 needs driver 580.65.06 for CUDA 13.0; this node has 570.10.1'
  nccl_for 13.0
  gpus 570.10.1
  run ringup doctor --root "$node"
  grep -qF "bad   $said" <<<"$output" || { echo "$output"; return 1; }
  gpus 580.65.06
  run ringup doctor --root "$node"
  not grep -qF 'needs driver' <<<"$output"
  gpus 570.10.1
  nccl_for 12.9
  run ringup doctor --root "$node"
  not grep -qF 'needs driver' <<<"$output"
}

# live - a Python on this node, $python; $site is its folder of packages.
live() {
  python_at /opt/py 3.11
  python=$node/opt/py/bin/python3
  chmod +x "$python"
}

# on_nccl [NAME=VALUE]... - doctor for a job on the back end nccl, on this node.
on_nccl() {
  run env RINGUP_BACKEND=nccl "$@" ringup doctor --no-import --python "$node/opt/py"
}

# says STATE TEXT [WHY] - doctor said so, with that reason below it.
says() {
  local line after
  line=$(printf '%-4s  %s' "$1" "$2")
  after=$(grep -F -A1 "$line" <<<"$output") && [[ -z ${3:-} || $after == *"why: $3"* ]] ||
    { echo "no $line: ${3:-}"; echo "$output"; return 1; }
}

@test "why a job loads that NCCL: its framework, the wheel, the loader, RINGUP_NCCL, LD_PRELOAD, or none" {
  local torch='torch 2.9.1+cu128 of /opt/py/bin/python3.11' jax='jax 0.6.1 of /opt/py/bin/python3.11' other=$BATS_TEST_TMPDIR/other/libnccl.so.2
  live
  cuda_torch 2.9.1+cu128 12.8
  cuda_jax 0.6.1
  nccl_at "$site/nvidia/nccl/lib/libnccl.so.2" 2.27.5 12.9
  torch_needs "$site/nvidia/nccl/lib/libnccl.so.2"
  run ringup doctor --root "$node"
  says good "$torch loads NCCL 2.27.5, /opt/py/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2: libtorch_cuda.so needs it"
  says good "$jax loads NCCL 2.27.5, /opt/py/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2: its wheel is beside the framework"
  not grep -qE 'jaxlib .* NCCL|two copies' <<<"$output"
  # Variables belong to this node, not to a tree.
  RINGUP_NCCL=$other RINGUP_BACKEND=nccl run ringup doctor --root "$node"
  says good "$torch loads NCCL 2.27.5"
  nccl_at "$node/usr/lib64/libnccl.so.2" 2.21.5 12.4
  rm -r "$site/nvidia"
  run ringup doctor --root "$node"
  says good "$jax loads NCCL 2.21.5, /usr/lib64/libnccl.so.2: the loader finds it"
  rm "$node/usr/lib64/libnccl.so.2"
  run ringup doctor --root "$node"
  says note "$torch finds no libnccl.so.2" "with RINGUP_BACKEND=nccl initialization fails"
  grep -qF 'fix: /opt/py/bin/python3.11 -m pip install nvidia-nccl-cu12, or set RINGUP_NCCL to the file' <<<"$output"
  nccl_at "$other" 2.30.7 12.9
  on_nccl RINGUP_NCCL="$other"
  says good "jax 0.6.1 of $python loads NCCL 2.30.7, $other: RINGUP_NCCL names it"
  on_nccl RINGUP_NCCL="$other.none"
  says bad "jax 0.6.1 of $python finds no libnccl.so.2: RINGUP_NCCL names $other.none, which does not exist"
  grep -qF 'fix: unset RINGUP_NCCL, or correct it' <<<"$output"
  on_nccl LD_PRELOAD="/none/libx.so $other"
  says good "jax 0.6.1 of $python loads NCCL 2.30.7, $other: LD_PRELOAD names it"
}

@test "a torch with NCCL linked into it, or another one than RINGUP_NCCL's: two copies in a process" {
  local torch='torch 2.9.1+cu128 of' other=$BATS_TEST_TMPDIR/other/libnccl.so.2 \
    why='a process with RINGUP_BACKEND=nccl then has two copies of NCCL: this one and the framework'
  live
  cuda_torch 2.9.1+cu128 12.8
  nccl_at "$site/nvidia/nccl/lib/libnccl.so.2" 2.27.5 12.9
  nccl_at "$other" 2.30.7 12.9
  torch_needs
  run ringup doctor --root "$node"
  says good "$torch /opt/py/bin/python3.11 loads NCCL 2.27.5, /opt/py/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2: its wheel is beside the framework" "$why"
  torch_needs "$site/nvidia/nccl/lib/libnccl.so.2"
  on_nccl RINGUP_NCCL="$other"
  says good "$torch $python loads NCCL 2.30.7" "$why"
  on_nccl RINGUP_NCCL="$site/nvidia/nccl/lib/libnccl.so.2"
  says good "$torch $python loads NCCL 2.27.5"
  not grep -q 'two copies' <<<"$output"
}

@test "an NCCL older than 2.18, or none: a note, and bad with RINGUP_BACKEND=nccl" {
  live
  cuda_torch 2.9.1+cu128 12.8
  nccl_at "$site/nvidia/nccl/lib/libnccl.so.2" 2.17.9 12.1
  torch_needs "$site/nvidia/nccl/lib/libnccl.so.2"
  run ringup doctor --no-import --python "$node/opt/py"
  says note "torch 2.9.1+cu128 of $python loads NCCL 2.17.9" \
    'RINGUP_BACKEND=nccl needs NCCL 2.18 or later; the default, through host memory, needs none'
  on_nccl RINGUP_BACKEND=tcp,nccl
  says bad "torch 2.9.1+cu128 of $python loads NCCL 2.17.9" 'RINGUP_BACKEND=nccl needs NCCL 2.18 or later'
  grep -qF 'fix: set RINGUP_NCCL to the libnccl.so.2 of a later NCCL, or unset RINGUP_BACKEND' <<<"$output"
  nccl_at "$site/nvidia/nccl/lib/libnccl.so.2" 2.18.0 12.1
  on_nccl
  says good "torch 2.9.1+cu128 of $python loads NCCL 2.18.0"
  rm -r "$site"/{nvidia,torch*}
  on_nccl RINGUP_NCCL=/none
  says bad "a program without a framework finds no libnccl.so.2: RINGUP_NCCL names /none, which does not exist"
  nccl_at "$BATS_TEST_TMPDIR/other/libnccl.so.2" 2.30.7 12.9
  on_nccl LD_LIBRARY_PATH="$BATS_TEST_TMPDIR/other:${LD_LIBRARY_PATH:-}"
  says good "a program without a framework loads NCCL 2.30.7, $BATS_TEST_TMPDIR/other/libnccl.so.2: the loader finds it"
  RINGUP_BACKEND=tcp run ringup doctor --no-import --python "$node/opt/py"
  not grep -q 'a program without' <<<"$output"
  # Any library in these packages leads a job to the wheel.
  dist nvidia_nccl_cu12 2.27.5
  nccl_at "$site/nvidia/nccl/lib/libnccl.so.2" 2.27.5 12.9
  on_nccl
  not grep -q 'a program without a framework finds' <<<"$output"
}

@test "a RINGUP_BACKEND that names no back end" {
  local list
  for list in NCCL ' nccl' nccl,,tcp; do
    run env RINGUP_BACKEND="$list" ringup doctor
    expect_status 1
    [[ $output == *"bad   RINGUP_BACKEND="*": no such back end; available: self, node, mpi, tcp and nccl"* ]] || fail "$output"
  done
  run env RINGUP_BACKEND=node,tcp ringup doctor
  not grep -q 'no such back end' <<<"$output"
}

@test "an NCCL that does not load: a job fails, and doctor says why" {
  live
  local told=$BATS_TEST_TMPDIR/told
  # broken WHAT WHY - with that file.
  broken() {
    on_nccl RINGUP_NCCL="$told"
    expect_status 1
    says bad "a program without a framework $1" "$2"
  }
  mkdir "$told"
  broken "finds no libnccl.so.2: RINGUP_NCCL names $told, which is not a regular file" 'with RINGUP_BACKEND=nccl initialization fails'
  rmdir "$told"
  echo libnccl.so.2 >"$told"
  broken "loads NCCL of unknown version, $told: RINGUP_NCCL names it" 'it does not load: not an ELF file'
  nccl_at "$told" 2.28.9 12.9
  printf '\x01' | dd of="$told" bs=1 seek=4 conv=notrunc status=none
  broken "loads NCCL 2.28.9, $told" 'it does not load: not a 64-bit'
  nccl_at "$told" 2.28.9 12.9
  local at bytes
  read -r _ at _ _ bytes _ < <(readelf -lW "$told" | grep -w LOAD | tail -n 1)
  truncate -s "$((at + bytes - 1))" "$told"
  broken "loads NCCL 2.28.9, $told" 'it does not load: the end of the file is missing'
  cp "$builddir/.libs/libringup.so.0" "$told"
  broken "loads NCCL of unknown version, $told" 'it does not load: it has no ncclGetVersion'
  : >"$told"
  RINGUP_NCCL=$told run ringup detect --python "$node/opt/py"
  expect_status 0
}

@test "frameworks of one Python that load different NCCLs: a note with RINGUP_BACKEND=nccl" {
  local other=$BATS_TEST_TMPDIR/other
  live
  cuda_torch 2.9.1+cu128 12.8
  cuda_jax 0.6.1
  nccl_at "$site/nvidia/nccl/lib/libnccl.so.2" 2.27.5 12.9
  nccl_at "$other/libnccl.so.2" 2.30.7 12.9
  torch_needs "$other/libnccl.so.2" -Wl,-rpath,"$other",--disable-new-dtags
  on_nccl
  says note "torch of $python loads NCCL 2.30.7, and jax NCCL 2.27.5"
  run ringup doctor --no-import --python "$node/opt/py"
  not grep -q 'and jax NCCL' <<<"$output"
  nccl_at "$other/libnccl.so.2" 2.27.5 12.9
  on_nccl
  not grep -q 'and jax NCCL' <<<"$output"
}

@test "RINGUP_BACKEND=nccl on a node without a driver or a GPU, and more ranks than GPUs" {
  ((EUID == 0)) && unshare --mount true 2>/dev/null && [[ -d /proc/driver ]] || skip "no namespaces here"
  live
  cuda_torch 2.9.1+cu128 12.8
  nccl_at "$site/nvidia/nccl/lib/libnccl.so.2" 2.29.7 12.9
  torch_needs "$site/nvidia/nccl/lib/libnccl.so.2"
  # with GPUS [NAME=VALUE]... - doctor, where there are so many; "": no driver.
  with() {
    run unshare --mount env RINGUP_BACKEND=nccl PYTHON="$node/opt/py" "${@:2}" bash -c 'mount -t tmpfs none /proc/driver || exit
      mkdir -p /proc/driver/nvidia/gpus
      [[ -z $1 ]] || echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.10.1  Sun" >/proc/driver/nvidia/version
      for ((i = 0; i < ${1:-0}; i++)); do mkdir "/proc/driver/nvidia/gpus/0000:3b:00.$i"; done
      [[ -z $MIG ]] || mkdir -p /proc/driver/nvidia/capabilities/gpu0/mig/gi1
      exec ringup doctor --no-import --python "$PYTHON"' bash "$1"
  }
  local who="torch 2.9.1+cu128 of $python" \
    newer='fix: use NCCL 2.30 or later with NCCL_MULTI_RANK_GPU_ENABLE=1, or start one rank per GPU'
  with ''
  # This node may have the driver's library, or AMD's GPUs.
  not grep -q 'good  no GPUs' <<<"$output" ||
    says bad 'RINGUP_BACKEND=nccl, but this node has no NVIDIA driver' 'initialization fails on all ranks'
  with 0
  says note 'RINGUP_BACKEND=nccl, but this node has no GPU' 'ranks on this node can only have tensors in host memory'
  with 2
  not grep -qE 'RINGUP_BACKEND=nccl, but|refuses' <<<"$output"
  with 2 NCCL_COMM_ID=10.0.0.1:5000
  says bad 'RINGUP_BACKEND=nccl, but NCCL_COMM_ID is set (environment)' 'it would be the address of every group'
  with 2 NCCL_COMM_ID=10.0.0.1:5000 RINGUP_BACKEND=tcp
  not grep -q 'but NCCL_COMM_ID' <<<"$output"
  with 2 SLURM_NTASKS_PER_NODE=2
  not grep -q refuses <<<"$output"
  with 2 SLURM_NTASKS_PER_NODE=3
  says bad "3 ranks share 2 GPUs, which NCCL 2.29.7 of $who refuses" 'such ranks fail to initialize'
  grep -qF "$newer" <<<"$output"
  with 2 SLURM_NTASKS_PER_NODE=3 MIG=1
  not grep -q refuses <<<"$output"
  with 1 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=4 NCCL_MULTI_RANK_GPU_ENABLE=1
  says bad "4 ranks share 1 GPU, which NCCL 2.29.7 of $who refuses"
  with 1 RINGUP_BACKEND=tcp SLURM_NTASKS_PER_NODE=3
  not grep -q refuses <<<"$output"
  with 1
  says note "NCCL 2.29.7 of $who refuses a second rank on the only GPU"
  nccl_at "$site/nvidia/nccl/lib/libnccl.so.2" 2.30.7 12.9
  with 1
  says note "NCCL 2.30.7 of $who refuses a second rank on the only GPU"
  with 1 NCCL_MULTI_RANK_GPU_ENABLE=0
  grep -qF 'fix: set NCCL_MULTI_RANK_GPU_ENABLE=1, or start one rank per GPU' <<<"$output"
  with 1 NCCL_MULTI_RANK_GPU_ENABLE=1
  not grep -q refuses <<<"$output"
  printf 'NCCL_MULTI_RANK_GPU_ENABLE=1\n' >"$BATS_TEST_TMPDIR/nccl.conf"
  with 1 NCCL_CONF_FILE="$BATS_TEST_TMPDIR/nccl.conf"
  not grep -q refuses <<<"$output"
}

@test "temporary files, few processes, a loopback that is down, a read-only /dev/shm are bad, with the cure" {
  # bad TEXT CURE CMD... - doctor, run so, says it.
  bad() {
    run "${@:3}"
    expect_status 1
    grep -qE "bad   $1" <<<"$output" && grep -qF "fix: $2" <<<"$output" || { echo "$output"; return 1; }
  }
  bad 'temporary files: TMPDIR=/none/x cannot be used' 'mkdir -p /none/x, or unset TMPDIR' env TMPDIR=/none/x ringup doctor
  bad 'processes: this user may have at most 40' 'run ulimit -u 65536' bash -c 'ulimit -u 40 && exec ringup doctor'
  ((EUID == 0)) && unshare --net --mount true 2>/dev/null || skip "no namespaces here"
  bad 'temporary files: /dev/shm has inodes for 0 more files' 'remove files there' unshare --mount bash -c '
    mount -t tmpfs -o nr_inodes=8 none /dev/shm; for i in {1..9}; do : >/dev/shm/$i; done
    TMPDIR=/dev/shm exec ringup doctor' 2>/dev/null
  bad 'the loopback interface is down' 'ip link set lo up' unshare --net ringup doctor
  bad 'shared memory: /dev/shm is read-only' 'mount -o remount,rw /dev/shm' \
    unshare --mount bash -c 'mount -t tmpfs -o ro none /dev/shm && exec ringup doctor'
}

@test "a user without a name is a note, unless the environment has one" {
  ((EUID == 0)) || skip "needs root, to be somebody else"
  local who=(setpriv --reuid=64987 --clear-groups env -u USER -u LOGNAME -u LNAME -u USERNAME)
  run "${who[@]}" ringup doctor
  grep -q 'note  the user 64987 has no name in /etc/passwd' <<<"$output"
  run "${who[@]}" USER=trainer ringup doctor
  grep -q '^limits' <<<"$output"
  not grep -q 'has no name' <<<"$output"
  run "${who[@]}" USER=trainer HOME=/root ringup doctor
  grep -q 'note  the home directory /root is not writable' <<<"$output"
}

@test "--report: a page to paste, with settings and without secrets" {
  run env NCCL_SOCKET_IFNAME=eth7 HOME="$BATS_TEST_TMPDIR" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" ringup doctor --report
  [[ $status -le 1 && ${lines[0]} == '```' && ${lines[-1]} == '```' ]]
  local t
  for t in ringup system clock machine 'free space' GPUs interface; do grep -q "^$t  *[^ ]" <<<"$output"; done
  grep -q '^setting  *NCCL_SOCKET_IFNAME=eth7, from environment' <<<"$output"
  grep -qE '^limits +' <<<"$output"
  not grep -q '127\.0\.0\.1' <<<"$output"
}
