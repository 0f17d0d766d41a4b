#!/usr/bin/env bats
# rebuild-real.bats - upstream's Horovod really built for real frameworks, and trained with.
# needs: cpu
# tests: src/cli/cmd_rebuild.c src/rebuild src/detect/torch.c src/detect/tensorflow.c src/detect/keras.c tests/lib/engine.bash tests/lib/real.bash
#
# To compile it takes minutes of processors, which is for the long form.  Without it all is done but
# that: upstream's release is got, edited by the recipe and configured for the torch that is here.
# rebuild-done.bats builds, installs and proves a small engine by the same code, and modules.bats has
# the same proof train with the torch that is here.
# shellcheck disable=SC2030,SC2031,SC2154

load ../lib/helper
load ../lib/engine
load ../lib/real

bats_require_minimum_version 1.5.0

setup() {
  command -v cmake g++ >/dev/null || skip "no cmake or no g++"
  export TMPDIR=${TMPDIR:-/tmp}
  venv=$BATS_TEST_TMPDIR/venv
}

# cmake_stub - CMake configures, and fails when it is to build: the flags of the compiler are in
# $flags then, and the sources as they have been edited in $edited.
cmake_stub() {
  local real
  real=$(command -v cmake)
  flags=$BATS_TEST_TMPDIR/record/flags edited=$BATS_TEST_TMPDIR/record/edited
  mkdir -m 777 "$BATS_TEST_TMPDIR/record"
  stub cmake "case \" \$* \" in *' --build '*) ;; *) exec $real \"\$@\" ;; esac
cat \$(find . -name flags.make) >$flags
cp -r \$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' CMakeCache.txt) $edited
echo 'CMake Error: not built, on purpose'
exit 1"
  install -m 666 /dev/null "$calls"
}

@test "torch: upstream's release is got and edited, and configured for the torch that is here" {
  local python=${RINGUP_TEST_PYTHON:-python3} site log abi standard
  command -v jq >/dev/null || skip "jq is not installed"
  has_torch "$python" || skip "$python has no torch"
  "$python" -m venv --without-pip "$venv" || skip "$python makes no environments"
  site=$(engine_site "$venv/bin/python")
  engine_site "$python" >"$site/torch.pth"
  chmod 755 "$BATS_TEST_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_RUN_TMPDIR"
  cmake_stub
  run --separate-stderr ringup rebuild --engine horovod --for torch --python "$venv" --accept CVE-2024-10190 --without-mpi --json
  log=$(jq -r .log <<<"$output")
  [[ $(jq -r .reason <<<"$output") != network ]] || skip "cannot get Horovod or what it needs"
  expect_status 1
  [[ $(jq -r '[.result, .reason, .error] | join(" ")' <<<"$output") == "failed compile the build failed: CMake Error: not built, on purpose" ]] || {
    echo "$stderr"
    tail -n 40 "$log"
    return 1
  }
  rm "$log"
  [[ ! -e $site/horovod && ! -e $site/.ringup-rebuild ]]
  # The plan has asked a compiler what torch's headers want.
  [[ $(jq -c '.plan | [.possible, .compiler.installed, .cxx_standard >= 17, .frameworks[0].cxx_standard_by,
    ([.disagreements[] | select(.about | test("ABI"))] | length)]' <<<"$output") == '[true,true,true,"probe",0]' ]]
  # What frameworks share and Gloo, and what includes torch's headers, are compiled as torch wants.
  read -r abi standard < <(jq -r '.plan | [.cxx11_abi, .cxx_standard] | join(" ")' <<<"$output")
  grep -qE "^CXX_FLAGS = .*-D_GLIBCXX_USE_CXX11_ABI=$abi .*-std=[a-z]+\+\+$standard( |\$)" "$flags"
  not grep -E '^CXX_FLAGS = .*-std=[a-z]+\+\+1[14]$' "$flags"
  [[ $(jq -r '.plan.edits | length' <<<"$output") -gt 8 ]]
  grep -qF "import sysconfig; print(sysconfig.get_paths()['include'])" "$edited/horovod/torch/CMakeLists.txt"
  [[ $(grep -cF 'def zero_grad(self, *args, **named):' "$edited/horovod/torch/optimizer.py") -eq 2 ]]
  grep -qx 'from shutil import which as find_executable' "$edited/horovod/runner/js_run.py"
}

# long - half an hour of processors and some gigabytes from the network.
long() { [[ -n ${RINGUP_TEST_LONG:-} ]] || skip "takes long: make check-long"; }

# updated PACKAGE WAS IS - pip brings another; doctor says so, with the one command, which is then run.
updated() {
  local -a command
  "$venv/bin/python" -m pip install -q "$1==$3" || skip "cannot get $1 $3"
  run ringup doctor --python "$venv"
  expect_status 1
  grep -q "${1%-cpu} was $2[^ ]* when horovod was built for $venv.*, and is $3" <<<"$output"
  read -ra command < <(sed -n 's/^ *do: *\(ringup rebuild .*\)/\1/p' <<<"$output" | grep -m 1 -F "$venv")
  [[ ${command[*]} == *"--engine horovod"*"--accept CVE-2024-10190" ]]
  built "${command[@]}" --without-mpi
}

# environment PACKAGE... - a fresh one that has these.
environment() {
  python3 -m venv "$venv" && "$venv/bin/python" -m pip install -q "$@" ||
    skip "cannot get $*"
}

# rebuild ARG... - for that environment.
rebuild() { built ringup rebuild --engine horovod --python "$venv" --accept CVE-2024-10190 "$@"; }

# built COMMAND... - run a rebuild; shows the log's end if it fails.
built() {
  run --separate-stderr "$@"
  [[ $status -eq 0 ]] || {
    echo "$stderr"
    tail -n 40 "$(sed -n 's/^log: //p' <<<"$stderr")"
    return 1
  }
  rm -f "$(sed -n 's/^log: //p' <<<"$stderr")"
}

# in_two_ranks FILE ARG... - by the horovodrun that was built.
in_two_ranks() {
  "$venv/bin/horovodrun" -np 2 -H localhost:2 --gloo --network-interfaces lo \
    "$venv/bin/python" "$@"
}

@test "torch 2.13, which unedited Horovod does not compile with" {
  long
  environment "${RINGUP_TEST_TORCH:-torch==2.13.0}"
  rebuild --without-mpi
  [[ $output == *"proved: torch 2.13.0"*"over gloo"* ]]
  "$venv/bin/horovodrun" --check-build | grep -qF '[X] PyTorch'
  [[ $(stat -c %s "$venv"/lib/python3*/site-packages/horovod/torch/mpi_lib_v2*.so) -lt 4000000 ]]
}

@test "the distribution's torch, over Gloo and Open MPI, built as nobody" {
  long
  /usr/bin/python3 -c 'import torch' 2>/dev/null || skip "/usr/bin/python3 has no torch"
  command -v mpicxx >/dev/null || skip "no mpicxx"
  chmod 755 "$BATS_TEST_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_RUN_TMPDIR"
  /usr/bin/python3 -m venv --system-site-packages "$venv" || skip "no venv"
  rebuild
  [[ $output == *"proved: torch"*"over gloo"*"proved: torch"*"over mpi"* ]]
  [[ $stderr != *"built as root"* ]]
}

@test "torch is upgraded, then downgraded: doctor sees it, and its command builds the engine for it" {
  long
  environment torch==2.12.0
  rebuild --without-mpi
  [[ $output == *"proved: torch 2.12.0"* ]]
  # What pip gets may be for CUDA; where a toolkit is, it is served by NCCL then.
  if ringup plan --engine horovod --python "$venv" | grep -q '^and NCCL'; then
    "$venv/bin/horovodrun" --check-build | grep -qF '[X] NCCL'
  fi
  updated torch 2.12.0 2.13.0
  [[ $output == *"proved: torch 2.13.0"* ]]
  run "$venv/bin/python" -c 'import horovod.torch'
  expect_status 0
  [[ -z $output ]]
  updated torch 2.13.0 2.12.0
  [[ $output == *"proved: torch 2.12.0"* ]]
}

@test "TensorFlow 2.15 with Keras 2 is upgraded to 2.21 with Keras 3, then Keras alone: all is averaged" {
  long
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
