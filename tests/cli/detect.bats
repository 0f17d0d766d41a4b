#!/usr/bin/env bats
# detect.bats - ringup detect finds what is there and survives what is broken.
# needs: cpu
# tests: src/cli/cmd_detect.c src/detect src/base src/backend/nccl_lib.c tests/lib/node.bash
# shellcheck disable=SC2030,SC2031,SC2154

load ../lib/helper
load ../lib/node

setup() { mkdir -p "$node"; }

@test "an empty tree has nothing, and that is said" {
  run ringup detect --root "$node"
  expect_status 0
  expect_line "no frameworks found: no Python 3; install one, or name it with --python"
}

@test "a Python without frameworks: what to do next" {
  python_at /usr 3.11
  run ringup detect --root "$node"
  expect_status 0
  expect_line "no frameworks found; make an environment and install one: python3 -m venv /opt/venv && /opt/venv/bin/pip install torch (Debian: after apt-get install python3-venv); or name its Python with --python"
}

@test "the object has its eight keys, always" {
  detect
  expect_json keys '["compilers","cuda","engines","frameworks","mpi","nccl","problems","pythons"]'
  expect_json '[.frameworks, .problems, .cuda.driver]' '[[],[],null]'
}

@test "torch by pip: version, ABI, compiler, standard, CUDA" {
  need_cxx
  python_at /usr/local 3.10
  dist torch 2.1.0+cu121
  library "$site/torch/lib/libc10.so" c10 0
  printf "__version__ = '2.1.0+cu121'\ncuda: Optional[str] = '12.1'\n" >"$site/torch/version.py"
  detect
  expect_json '.frameworks | length' 1
  expect_json '.frameworks[0] | [.name, .version, .cxx11_abi, .cxx_standard, .cuda, .installer, .python]' \
    '["torch","2.1.0+cu121",0,17,"12.1","pip","/usr/local/bin/python3.10"]'
  expect_json '.frameworks[0].location' '"/usr/local/lib/python3.10/site-packages/torch"'
  expect_json '.frameworks[0].compiler | test("^(gcc|clang) [0-9]+\\.[0-9.]+$")' true
  expect_json '.problems' '[]'
}

@test "the compiler is the one that built the library" {
  need_cxx
  [[ $("$cxx" --version) == *"Free Software Foundation"* ]] || skip "$cxx is not gcc"
  python_at /usr 3.11
  dist torch 2.7.0
  library "$site/torch/lib/libc10.so" c10 1
  detect
  expect_json '.frameworks[0] | [.compiler, .cxx11_abi]' "[\"gcc $("$cxx" -dumpfullversion)\",1]"
  expect_json '.frameworks[0].needs.glibcxx | test("^3\\.4\\.")' true
}

@test "TensorFlow, Keras, JAX and MXNet" {
  need_cxx
  python_at /usr 3.9
  dist tensorflow-cpu 2.9.1
  library "$site/tensorflow/libtensorflow_framework.so.2" tensorflow 1
  dist keras 2.9.0
  dist tf-keras 2.17.0
  dist jax 0.4.30
  dist jaxlib 0.4.30
  dist mxnet-cu112 1.9.1
  mkdir "$site"/{keras,tf_keras,jax,jaxlib}
  library "$site/mxnet/libmxnet.so" mxnet 0
  detect
  expect_json '[.frameworks[] | [.name, .version, .cxx11_abi, .cxx_standard, .cuda]]' \
    '[["tensorflow","2.9.1",1,14,null],["keras","2.9.0",null,null,null],["tf_keras","2.17.0",null,null,null],["jax","0.4.30",null,null,null],["jaxlib","0.4.30",null,null,null],["mxnet","1.9.1",0,null,"11.2"]]'
}

@test "CUDA of TensorFlow is what its build noted" {
  python_at /usr 3.11
  dist tensorflow 2.17.0 'Requires-Dist: nvidia-cuda-runtime-cu12 (==12.3.101) ; extra == "and-cuda"'
  mkdir -p "$site/tensorflow/python/platform"
  echo "build_info = OrderedDict([('cuda_version', '12.3.2'), ('is_cuda_build', True)])" \
    >"$site/tensorflow/python/platform/build_info.py"
  detect
  expect_json '.frameworks[0].cuda' '"12.3.2"'
  echo "build_info = OrderedDict([('is_cuda_build', False)])" >"$site/tensorflow/python/platform/build_info.py"
  detect
  expect_json '.frameworks[0].cuda' null
}

@test "CUDA by a required runtime where nothing else tells" {
  python_at /usr 3.11
  dist torch 2.6.0 'Requires-Dist: nvidia-cuda-runtime-cu12==12.4.127; platform_system == "Linux" and platform_machine == "x86_64"'
  mkdir "$site/torch"
  detect
  expect_json '.frameworks[0].cuda' '"12.4"'
}

@test "conda: metadata in conda-meta, CUDA in the build string" {
  python_at /opt/conda 3.11
  mkdir -p "$node/opt/conda/conda-meta" "$site/torch"
  : >"$node/opt/conda/conda-meta/pytorch-2.1.0-py3.11_cuda12.1_cudnn8.9.2_0.json"
  : >"$node/opt/conda/conda-meta/python-3.11.5-h955ad1f_0.json"
  : >"$node/opt/conda/conda-meta/history"
  detect
  expect_json '.frameworks[] | [.name, .version, .cuda, .installer]' '["torch","2.1.0","12.1","conda"]'
  expect_json '.pythons[] | [.kind, .version]' '["conda","3.11.5"]'
}

@test "a distribution package: dist-packages, library among the system's" {
  need_cxx
  python_at /usr 3.11
  site=$node/usr/lib/python3/dist-packages
  mkdir -p "$site/torch/lib"
  printf 'Metadata-Version: 2.1\nName: torch\nVersion: 1.13.1\n' >"$site/torch-1.13.1.egg-info"
  library "$node/usr/lib/x86_64-linux-gnu/libc10.so.1.13" c10 1
  detect
  expect_json '.frameworks[] | [.version, .cxx11_abi, .cxx_standard, .installer, .library]' \
    '["1.13.1",1,14,"distribution","/usr/lib/x86_64-linux-gnu/libc10.so.1.13"]'
}

@test "a package that nobody installed has its own files to tell the version" {
  python_at /usr/local 3.12
  mkdir "$site/torch"
  : >"$site/torch/__init__.py"
  echo "__version__ = '2.4.0a0+gitd990dad'" >"$site/torch/version.py"
  detect
  expect_json '.frameworks[] | [.version, .installer, .distribution]' '["2.4.0a0+gitd990dad","none",null]'
}

@test "a virtual environment sees its own packages, and the system's when it says so" {
  python_at /usr 3.11
  dist keras 3.0.0
  mkdir "$site/keras"
  venv_at /databricks/python3 /usr 3.11
  dist torch 2.0.1
  mkdir "$site/torch"
  detect --python /databricks/python3
  expect_json '[.pythons[] | [.path, .kind, .version, .base_prefix]]' \
    '[["/databricks/python3/bin/python3","venv","3.11.4","/usr"]]'
  expect_json '[.frameworks[].name]' '["torch"]'
  venv_at /databricks/python3 /usr 3.11 true
  detect --python /databricks/python3/bin/python3
  expect_json '[.frameworks[].name]' '["torch","keras"]'
}

@test "folders that .pth files add count, code in them does not run" {
  python_at /usr/local 3.11
  mkdir -p "$node/srv/more/keras" "$site/near/jax"
  printf 'import os; os.system("touch %s/ran")\n# no\n/srv/more\nnear\n/nowhere\n' "$node" >"$site/more.pth"
  local first=$site
  site=$node/srv/more dist keras 3.1.0
  site=$first/near dist jax 0.5.0
  detect
  expect_json '[.frameworks[] | [.name, .location]]' \
    '[["keras","/srv/more/keras"],["jax","/usr/local/lib/python3.11/site-packages/near/jax"]]'
  expect_json .problems '[]'
  [[ ! -e $node/ran ]]
}

@test "every Python once, however many links lead to it" {
  python_at /usr 3.11
  python_at /opt/pyenv/versions/3.12.1 3.12
  ln -s usr/bin "$node/bin"
  mkdir -p "$node/usr/local/bin"
  ln -s /usr/bin/python3.11 "$node/usr/local/bin/python"
  detect
  expect_json '[.pythons[].version]' '["3.11","3.12"]'
}

@test "what is hidden is a problem, what is imported is listed" {
  python_at /usr 3.11
  dist torch 1.13.0
  mkdir "$site/torch"
  site=$node/root/.local/lib/python3.11/site-packages
  mkdir -p "$site/torch"
  dist torch 2.2.0
  detect
  expect_json '[.frameworks[].version]' '["2.2.0"]'
  expect_json '[.problems[].reason]' '["torch 1.13.0 is hidden by the one in /root/.local/lib/python3.11/site-packages, which this user installed: set PYTHONNOUSERSITE=1, or uninstall it"]'
}

@test "two distributions that claim one folder" {
  python_at /usr 3.11
  dist tensorflow 2.15.0
  dist tensorflow-cpu 2.16.1
  mkdir "$site/tensorflow"
  detect
  expect_json '.frameworks | length' 1
  expect_json '[.problems[].reason | test("both tensorflow")]' '[true]'
}

@test "CUDA, driver, NCCL" {
  python_at /usr 3.11
  dist nvidia-nccl-cu12 2.20.5
  mkdir -p "$site/nvidia/nccl/lib" "$node/usr/local/cuda-12.4/bin" "$node/proc/driver/nvidia/gpus/0000:00:1e.0" \
    "$node/usr/lib/x86_64-linux-gnu" "$node/usr/include"
  : >"$site/nvidia/nccl/lib/libnccl.so.2"
  : >"$node/usr/local/cuda-12.4/bin/nvcc"
  ln -s cuda-12.4 "$node/usr/local/cuda"
  echo '{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}' >"$node/usr/local/cuda-12.4/version.json"
  echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5' >"$node/proc/driver/nvidia/version"
  ln -s libnccl.so.2.21.5 "$node/usr/lib/x86_64-linux-gnu/libnccl.so.2"
  : >"$node/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5"
  printf '#define NCCL_MAJOR 2\n#define NCCL_MINOR 18\n#define NCCL_PATCH 3\n' >"$node/usr/include/nccl.h"
  detect
  expect_json .cuda '{"toolkits":[{"path":"/usr/local/cuda-12.4","version":"12.4.1","nvcc":"/usr/local/cuda-12.4/bin/nvcc"}],"driver":{"version":"550.54.15","library":null,"library_version":null},"gpu_count":1}'
  expect_json '[.nccl[] | [.version, .source]]' '[["2.21.5","system"],["2.20.5","/usr/bin/python3.11"]]'
  expect_json '[.problems[].reason]' '["this header is for NCCL 2.18.3, but /usr/lib/x86_64-linux-gnu/libnccl.so.2 is NCCL 2.21.5"]'
}

@test "the NCCL that a job of each framework would load: which, why, and what is wrong with it" {
  local wheel=/opt/py/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2
  python_at /opt/py 3.11
  cuda_torch 2.9.1+cu128 12.8
  cuda_jax 0.6.1
  dist keras 3.0
  mkdir "$site/keras"
  nccl_at "$node$wheel" 2.28.9 13.0
  torch_needs "$node$wheel"
  detect
  expect_json '[.frameworks[] | select(.name != "jaxlib") | [.name, .nccl.why]]' \
    '[["torch","libtorch_cuda.so needs it"],["keras",null],["jax","its wheel is beside the framework"]]'
  expect_json '.frameworks[0].nccl' \
    "{\"library\":\"$wheel\",\"version\":\"2.28.9\",\"cuda\":\"13.0\",\"why\":\"libtorch_cuda.so needs it\",\"flaw\":null,\"second\":false,\"fault\":null}"
  expect_json '[.frameworks[] | select(.name == "keras").nccl]' '[null]'
  torch_needs
  mkdir -p "$node/proc/driver/nvidia"
  echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.10.1  Tue Mar  5' >"$node/proc/driver/nvidia/version"
  detect
  expect_json '.frameworks[0].nccl | [.second, .fault]' '[true,"needs driver 580.65.06 for CUDA 13.0; this node has 570.10.1"]'
  nccl_at "$node$wheel" 2.17.1 12.1
  torch_needs "$node$wheel"
  run ringup detect --root "$node"
  grep -qE "^JOB WITH +NCCL +PYTHON +LIBRARY +WHY" <<<"$output"
  grep -qE "^torch +2.17.1 +/opt/py/bin/python3.11 +$wheel +libtorch_cuda.so needs it; RINGUP_BACKEND=nccl needs NCCL 2.18 or later" <<<"$output"
  [[ $(grep -cE '^jax(lib)? +2.17.1' <<<"$output") -eq 1 ]]
  RINGUP_NCCL=/none detect
  expect_json '.frameworks[0].nccl.why' '"libtorch_cuda.so needs it"'
  # Only JAX loads jaxlib's.
  dist tensorflow 2.15.1
  mkdir -p "$site/tensorflow/python/platform"
  echo "build_info = {'cuda_version': '12.2'}" >"$site/tensorflow/python/platform/build_info.py"
  nccl_at "$node/usr/lib64/libnccl.so.2" 2.21.5 12.4
  needing "$site/jaxlib/xla_extension.so" "$node/usr/lib64/libnccl.so.2"
  detect
  expect_json '[.frameworks[] | select(.name == "jax" or .name == "tensorflow") | [.name, .nccl.why, .nccl.version]]' \
    '[["tensorflow","its wheel is beside the framework","2.17.1"],["jax","xla_extension.so needs it","2.21.5"]]'
  needing "$site/tensorflow/libtensorflow_cc.so.2" "$node$wheel"
  detect
  expect_json '[.frameworks[] | select(.name == "tensorflow").nccl.why]' '["libtensorflow_cc.so.2 needs it"]'
  rm -r "$site"/{nvidia,tensorflow*,jaxlib/*} "$node/usr/lib64"
  run ringup detect --root "$node"
  grep -qE '^jax +- +/opt/py/bin/python3.11 +- +there is no libnccl.so.2' <<<"$output"
  chmod +x "$node/opt/py/bin/python3.11"
  nccl_at "$BATS_TEST_TMPDIR/other/libnccl.so.2" 2.30.7 12.9
  RINGUP_NCCL=$BATS_TEST_TMPDIR/other/libnccl.so.2 run ringup detect --python "$node/opt/py"
  grep -qE "^torch +2.30.7 .*RINGUP_NCCL names it" <<<"$output"
}

@test "Open MPI and MPICH side by side, as Debian has them" {
  mkdir -p "$node"/usr/lib/x86_64-linux-gnu/openmpi/include "$node"/usr/include/x86_64-linux-gnu/mpich \
    "$node"/usr/bin "$node"/etc/alternatives
  printf '#define OMPI_MAJOR_VERSION 4\n#define OMPI_MINOR_VERSION 1\n#define OMPI_RELEASE_VERSION 4\n' \
    >"$node/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h"
  echo '#define MPICH_VERSION "4.0.2"' >"$node/usr/include/x86_64-linux-gnu/mpich/mpi.h"
  : >"$node/usr/bin/mpirun.openmpi"
  : >"$node/usr/bin/mpicc.openmpi"
  : >"$node/usr/bin/mpirun.mpich"
  ln -s /etc/alternatives/mpirun "$node/usr/bin/mpirun"
  ln -s /usr/bin/mpirun.openmpi "$node/etc/alternatives/mpirun"
  detect
  expect_json '[.mpi[] | [.flavour, .version, .mpirun, .mpicc]]' \
    '[["openmpi","4.1.4","/usr/bin/mpirun.openmpi","/usr/bin/mpicc.openmpi"],["mpich","4.0.2","/usr/bin/mpirun.mpich",null]]'
}

@test "compilers: versions by their folders, one entry each" {
  mkdir -p "$node"/usr/bin "$node"/usr/lib/gcc/x86_64-linux-gnu/12 "$node"/usr/lib/gcc/x86_64-linux-gnu/9 \
    "$node"/usr/lib/llvm-14/bin "$node"/usr/lib/llvm-14/lib/clang/14.0.6
  cd "$node/usr/bin"
  : >x86_64-linux-gnu-gcc-12
  : >x86_64-linux-gnu-g++-12
  : >x86_64-linux-gnu-gcc-9
  : >../lib/gcc/x86_64-linux-gnu/12/cc1plus
  : >../lib/llvm-14/bin/clang
  ln -s clang ../lib/llvm-14/bin/clang++
  ln -s x86_64-linux-gnu-gcc-12 gcc-12
  ln -s x86_64-linux-gnu-g++-12 g++-12
  ln -s gcc-12 gcc
  ln -s g++-12 g++
  ln -s x86_64-linux-gnu-gcc-9 gcc-9
  ln -s ../lib/llvm-14/bin/clang clang-14
  ln -s ../lib/llvm-14/bin/clang++ clang++-14
  detect
  expect_json '[.compilers[] | [.family, .version, .cc, .cxx, .default]] | sort' \
    '[["clang","14.0.6","/usr/bin/clang-14","/usr/bin/clang++-14",false],["gcc","12","/usr/bin/gcc-12","/usr/bin/g++-12",true],["gcc","9","/usr/bin/gcc-9",null,false]]'
  expect_json .problems '[]'
  rm ../lib/gcc/x86_64-linux-gnu/12/cc1plus
  detect
  expect_json '[.problems[].reason]' '["cannot compile C++: its cc1plus is missing"]'
}

@test "engines: ours, and a Horovod that was built for another torch" {
  python_at /usr 3.11
  dist torch 2.2.0
  dist horovod 0.28.1
  dist ringup 0.1.0
  mkdir -p "$site"/torch "$site"/ringup "$site"/horovod/{torch,tensorflow} "$node"/usr/local/lib/pkgconfig
  : >"$site/horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so"
  echo '{"torch": "2.1.0"}' >"$site/horovod/metadata.json"
  : >"$node/usr/local/lib/libringup.so.0"
  printf 'Name: ringup\nVersion: 0.1.0\n' >"$node/usr/local/lib/pkgconfig/ringup.pc"
  detect
  expect_json '[.engines[] | [.name, .version, .python]]' \
    '[["ringup","0.1.0",null],["horovod","0.28.1","/usr/bin/python3.11"],["ringup","0.1.0","/usr/bin/python3.11"]]'
  expect_json '[.engines[].extensions[] | [.framework, .built_for]]' '[["torch","2.1.0"]]'
  expect_json '[.problems[].reason]' '["built for torch 2.1.0, but 2.2.0 is installed: rebuild it"]'
}

@test "a huge METADATA is not read" {
  python_at /usr 3.11
  dist torch 2.1.0
  mkdir "$site/torch"
  truncate -s 1G "$site/torch-2.1.0.dist-info/METADATA"
  detect
  expect_json '.frameworks[].version' '"2.1.0"'
  expect_json '[.problems[].reason][0]' '"larger than 4194304 bytes; ignored"'
}

@test "a FIFO, a loop and a folder in place of files neither hang nor end the search" {
  python_at /usr 3.11
  dist torch 2.1.0
  dist keras 3.0.0
  dist jax 0.4.0
  mkdir -p "$site"/torch/lib "$site"/keras "$site"/jax "$site"/torch/version.py
  rm "$site"/*.dist-info/METADATA
  mkfifo "$site/torch-2.1.0.dist-info/METADATA"
  ln -s METADATA "$site/keras-3.0.0.dist-info/METADATA"
  mkdir "$site/jax-0.4.0.dist-info/METADATA"
  mkfifo "$site/torch/lib/libc10.so"
  timeout 200 ringup detect --root "$node" >/dev/null
  detect
  expect_json '[.frameworks[] | [.name, .version]]' '[["torch","2.1.0"],["keras","3.0.0"],["jax","0.4.0"]]'
  expect_json '[.problems[] | select(.reason == "not a regular file")] | length' 3
  expect_json '[.problems[] | select(.reason | test("symbolic links"))] | length' 1
}

@test "a library that is no library, or is cut off, is a problem with a reason" {
  need_cxx
  python_at /usr 3.11
  dist torch 2.1.0
  dist tensorflow 2.15.0
  library "$site/torch/lib/libc10.so" c10 1
  truncate -s 3000 "$site/torch/lib/libc10.so"
  mkdir "$site/tensorflow"
  echo 'not a library' >"$site/tensorflow/libtensorflow_framework.so.2"
  detect
  expect_json '[.frameworks[] | [.name, .cxx11_abi, .compiler]]' '[["tensorflow",null,null],["torch",null,null]]'
  expect_json '.problems | length' 2
}

@test "a library of another size than RECORD says" {
  need_cxx
  python_at /usr 3.11
  dist torch 2.7.0
  library "$site/torch/lib/libc10.so" c10 1
  echo 'torch/lib/libc10.so,sha256=abc,12' >"$site/torch-2.7.0.dist-info/RECORD"
  detect
  expect_json '.frameworks[].cxx11_abi' 1
  expect_json '[.problems[].reason | test("RECORD lists 12")]' '[true]'
  printf 'torch/__init__.py,sha256=abc,12\ntorch/lib/lib' >"$site/torch-2.7.0.dist-info/RECORD"
  detect
  expect_json '[.problems[].reason | test("^damaged")]' '[true]'
}

@test "control characters and bytes that are no UTF-8 reach neither terminal nor JSON" {
  python_at /usr 3.11
  dist torch 2.1.0
  printf 'Name: torch\nVersion: 2.1\033[31m0\n' >"$site/torch-2.1.0.dist-info/METADATA"
  mkdir -p "$site/torch" "$node"/opt/$'e\xffvil\033[2J'/bin "$node"/opt/$'e\xffvil\033[2J'/lib/python3.9
  : >"$node"/opt/$'e\xffvil\033[2J'/bin/python3.9
  detect
  expect_json '.frameworks[].version' '"2.1.0"'
  [[ $json != *$'\033'* && $json == *'/opt/e?vil?[2J/bin/python3.9'* ]]
  run ringup detect --root "$node"
  expect_status 0
  [[ $output != *$'\033'* ]]
}

@test "links of the tree do not lead out of it" {
  python_at /usr 3.11
  mkdir "$BATS_TEST_TMPDIR/outside" "$BATS_TEST_TMPDIR/outside/torch"
  : >"$BATS_TEST_TMPDIR/outside/torch/__init__.py"
  echo "__version__ = '6.6.6'" >"$BATS_TEST_TMPDIR/outside/torch/version.py"
  ln -s "$BATS_TEST_TMPDIR/outside/torch" "$site/torch"
  ln -s ../../../../../../outside/torch "$site/keras"
  detect
  expect_json .frameworks '[]'
}

@test "the environment of the live node does not count in a tree" {
  python_at /usr 3.11
  VIRTUAL_ENV=/usr PATH=$PATH:/nowhere detect
  expect_json '.pythons | length' 1
}

@test "no Python at --python is a failure that says what to name" {
  run ringup detect --root "$node" --python /usr/bin/python3
  expect_status 3
  expect_line "ringup detect: /usr/bin/python3: not a Python 3; name the program, such as /usr/bin/python3, or an environment's folder"
}

@test "a script in the place of a Python is not passed over for another, and one that cannot be reached is told apart" {
  local shims=$BATS_TEST_TMPDIR/shims real
  mkdir "$shims"
  printf '#!/bin/sh\nexec /nowhere/python3 "$@"\n' >"$shims/python3"
  chmod +x "$shims/python3"
  for real in python3 "$shims/python3"; do
    PATH=$shims:$PATH run ringup detect --python "$real"
    expect_status 3
    expect_line "ringup detect: $shims/python3: this is a script; name the Python that it starts, which $real -c 'import sys; print(sys.executable)' prints"
  done
  if ((EUID != 0)); then skip "needs root, to be a user who may not"; fi
  mkdir -p "$BATS_TEST_TMPDIR/closed/bin" "$BATS_TEST_TMPDIR/env/bin"
  chmod 700 "$BATS_TEST_TMPDIR/closed"
  ln -s "$BATS_TEST_TMPDIR/closed/bin/python3" "$BATS_TEST_TMPDIR/env/bin/python3"
  local -a other=(setpriv --reuid=64719 --regid=64719 --clear-groups)
  "${other[@]}" test -d "$BATS_TEST_TMPDIR/env/bin" -a -x "$(command -v ringup)" || skip "another user reaches nothing here"
  run "${other[@]}" ringup detect --python "$BATS_TEST_TMPDIR/env"
  expect_status 3
  [[ $output == *"env/bin/python3: Permission denied: this user cannot access it"* ]]
}

@test "an environment is named by its folder, wherever that is; one whose Python has gone, too" {
  cd "$BATS_TEST_TMPDIR"
  for name in env 'an "é" b'; do
    python3 -m venv --without-pip "$name" || skip "no venv"
    run ringup detect --python "$name"
    expect_status 0
    [[ $output == *"$PWD/$name/bin/python3"* ]]
    ln -sf /nowhere/python3 "$name/bin/python3"
    rm -f "$name"/bin/python3.*
    run ringup detect --python "$name"
    expect_status 3
    [[ $output == *"$name: its Python "*" was removed; recreate the environment"* ]]
  done
}

@test "a root that is not there is a failure" {
  run ringup detect --root "$node/nowhere"
  expect_status 3
}

@test "RINGUP_PYTHON and RINGUP_ROOT are defaults" {
  venv_at /v /usr 3.11
  python_at /usr 3.11
  RINGUP_ROOT=$node RINGUP_PYTHON=/v run ringup detect --json
  expect_status 0
  json=$output
  expect_json '[.pythons[].kind]' '["venv"]'
}

# The distribution names a build for CUDA without what torch says behind the +.
@test "a real torch is described as it describes itself" {
  local py=${RINGUP_TEST_PYTHON:-python3} want
  command -v jq >/dev/null || skip "jq is not installed"
  want=$("$py" -c 'import torch; print(torch.__version__.split("+")[0], int(torch._C._GLIBCXX_USE_CXX11_ABI), torch.version.cuda, torch.__file__)' 2>/dev/null) ||
    skip "$py has no torch"
  run ringup detect --json --python "$py"
  expect_status 0
  json=$output
  [[ $(jq -r '.frameworks[] | select(.name == "torch") | "\(.version | split("+")[0]) \(.cxx11_abi) \(.cuda // "None") \(.location)/__init__.py"' \
    <<<"$json") == "$want" ]] || { echo "expected $want in $json"; return 1; }
  expect_json '.frameworks[] | select(.name == "torch").compiler | test("^(gcc|clang) [0-9]")' true
  expect_json '[.problems[] | select(.path | test("/torch"))]' '[]'
}

@test "versions are those of the files: an import shows them, whatever a distribution says" {
  python_at /opt/env 3.11
  dist torch 2.0.1
  dist torch 2.7.1
  mkdir -p "$site/torch"
  echo "__version__ = '2.7.1'" >"$site/torch/version.py"
  detect
  expect_json '[.frameworks[] | [.name, .version]]' '[["torch","2.7.1"]]'
  expect_json '[.problems[].reason]' '["both torch 2.0.1 and torch 2.7.1 claim to have installed it"]'
  rm -r "$site/torch-2.7.1.dist-info"
  detect
  expect_json '[.frameworks[] | [.name, .version]]' '[["torch","2.7.1"]]'
  expect_json '.problems | length' 1
  grep -qF 'its files belong to torch 2.7.1, but torch-2.0.1.dist-info says 2.0.1' <<<"$json"
  # Less or more of one version is no difference.
  local pair
  for pair in '2.0.1+cpu 2.0.1' '2.0.1 2.0.1+cpu' '2.0.1 2.0.1.dev20260101' '2.0.1 2.0.1a0'; do
    rm -r "$site"/torch-*
    dist torch "${pair#* }"
    echo "__version__ = '${pair% *}'" >"$site/torch/version.py"
    detect
    expect_json .problems '[]'
    expect_json '.frameworks[0].version' "\"${pair#* }\""
  done
}

@test "a framework is found by whatever has brought it" {
  python_at /opt/env 3.11
  local name
  for name in tensorflow_cpu tensorflow_intel tf_nightly_cpu tf-nightly; do
    dist "$name" 2.15.1
    mkdir -p "$site/tensorflow"
    detect
    expect_json '[.frameworks[] | [.name, .version, .distribution]]' "[[\"tensorflow\",\"2.15.1\",\"${name//_/-}\"]]"
    rm -r "${site:?}"/*
  done
  # Of a name that nobody knows: its RECORD, or its top_level.txt, tells.
  dist our-torch-build 2.9.0
  mkdir "$site/torch"
  : >"$site/torch/__init__.py"
  detect
  expect_json '[.frameworks[] | [.name, .version]]' '[["torch",null]]'
  echo 'torch/__init__.py,sha256=x,0' >"$site/our_torch_build-2.9.0.dist-info/RECORD"
  detect
  expect_json '[.frameworks[] | [.name, .version, .distribution]]' '[["torch","2.9.0","our-torch-build"]]'
  rm "$site/our_torch_build-2.9.0.dist-info/RECORD"
  printf 'functorch\ntorch\n' >"$site/our_torch_build-2.9.0.dist-info/top_level.txt"
  detect
  expect_json '[.frameworks[] | [.name, .version, .distribution]]' '[["torch","2.9.0","our-torch-build"]]'
  printf 'functorch\ntorchvision\n' >"$site/our_torch_build-2.9.0.dist-info/top_level.txt"
  detect
  expect_json '[.frameworks[] | [.name, .version]]' '[["torch",null]]'
}

@test "an editable install is where its source is" {
  python_at /opt/env 3.11
  dist torch 2.9.0a0
  echo '{"url": "file:///src/pytorch", "dir_info": {"editable": true}}' >"$site/torch-2.9.0a0.dist-info/direct_url.json"
  mkdir -p "$node/src/pytorch/torch"
  echo "__version__ = '2.9.0a0+git123'" >"$node/src/pytorch/torch/version.py"
  detect
  expect_json '[.frameworks[] | [.name, .version, .location]]' '[["torch","2.9.0a0","/src/pytorch/torch"]]'
  expect_json .problems '[]'
  rm -r "$node/src"
  detect
  expect_json .frameworks '[]'
  expect_json '[.problems[].reason]' '["torch 2.9.0a0 is listed as installed, but this folder is missing"]'
}

@test "PYTHONPATH hides what is installed, and an activated environment that is gone is told" {
  local v=$BATS_TEST_TMPDIR/env
  command -v jq >/dev/null || skip "jq is not installed"
  mkdir -p "$v"/{bin,lib/python3.11/site-packages} "$BATS_TEST_TMPDIR/mine/torch"
  : >"$v/bin/python3.11"
  ln -s python3.11 "$v/bin/python3"
  printf 'home = /usr/bin\nversion = 3.11.2\n' >"$v/pyvenv.cfg"
  site=$v/lib/python3.11/site-packages
  dist torch 2.7.1
  mkdir "$site/torch"
  : >"$BATS_TEST_TMPDIR/mine/torch/__init__.py"
  echo "__version__ = '2.0.1'" >"$BATS_TEST_TMPDIR/mine/torch/version.py"
  json=$(PYTHONPATH=/nowhere ringup detect --json --python "$v")
  expect_json '[.frameworks[].version]' '["2.7.1"]'
  expect_json .problems '[]'
  json=$(PYTHONPATH=/nowhere:$BATS_TEST_TMPDIR/mine ringup detect --json --python "$v")
  expect_json '[.frameworks[].version]' '["2.0.1"]'
  grep -qF "torch is hidden by the one in $BATS_TEST_TMPDIR/mine, which is in PYTHONPATH" <<<"$json"
  json=$(VIRTUAL_ENV=$BATS_TEST_TMPDIR/gone ringup detect --json)
  jq -e '.problems[] | select(.path | endswith("/gone")) | .reason | startswith("VIRTUAL_ENV names this environment")' <<<"$json"
}

@test "a free-threaded Python, Red Hat's lib64, and environments of platforms are found" {
  python_at /opt/free 3.13
  mv "$node/opt/free/lib/python3.13" "$node/opt/free/lib/python3.13t"
  mv "$node/opt/free/bin/python3.13" "$node/opt/free/bin/python3.13t"
  ln -sfn python3.13t "$node/opt/free/bin/python3"
  python_at /azureml-envs/sklearn 3.10
  python_at /opt/conda/miniconda3 3.12
  python_at /usr 3.9
  site=$node/usr/local/lib64/python3.9/site-packages
  dist torch 2.8.0
  mkdir -p "$site/torch"
  detect
  expect_json '[.pythons[] | [.path, .version]] | sort' \
    '[["/azureml-envs/sklearn/bin/python3.10","3.10"],["/opt/conda/miniconda3/bin/python3.12","3.12"],["/opt/free/bin/python3.13t","3.13t"],["/usr/bin/python3.9","3.9"]]'
  expect_json '[.frameworks[] | [.name, .version, .python]]' '[["torch","2.8.0","/usr/bin/python3.9"]]'
}

@test "of many folders that .pth files add, the first are searched, and the rest is a problem" {
  local i
  python_at /usr 3.11
  for i in {1..30}; do
    mkdir -p "$node/more/$i"
    echo "/more/$i" >>"$site/all.pth"
  done
  site=$node/more/20 dist torch 2.8.0
  mkdir -p "$node/more/20/torch"
  detect
  expect_json '[.frameworks[].name]' '["torch"]'
  expect_json '[.problems[] | tostring | test("too many package folders")] | any' true
}
