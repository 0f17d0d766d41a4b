#!/usr/bin/env bats
# rebuild-real.bats - upstream's Horovod got, edited and configured for a real torch.
# needs: cpu
# tests: src/cli/cmd_rebuild.c src/rebuild src/detect/torch.c src/detect/tensorflow.c src/detect/keras.c tests/lib/engine.bash tests/lib/real.bash
#
# To compile it takes minutes of processors, which rebuild-torch.bats and rebuild-upgrade-*.bats do, in a
# shard.  Here all is done but that: upstream's release is got, edited by the recipe and configured for
# the torch that is here.  rebuild-done.bats builds, installs and proves a small engine by the same code, and modules.bats has
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
  if [[ $(jq .plan.possible <<<"$output") == false ]]; then
    json=$(ringup detect --json --python "$python")
    [[ $(jq '[.frameworks[] | select(.name == "torch" and .cuda)] | length' <<<"$json") == 0 ]] ||
      skip "this torch is built for CUDA, whose toolkit is not here; RINGUP_TEST_TORCH names another"
  fi
  expect_status 1
  [[ $(jq -r '[.result, .reason, .error] | join(" ")' <<<"$output") == "failed compile the build failed: CMake Error: not built, on purpose" ]] || {
    echo "$stderr"
    jq -c '[.result, .reason, .error, .hint]' <<<"$output"
    [[ ! -f $log ]] || tail -n 40 "$log"
    return 1
  }
  rm "$log"
  [[ ! -e $site/horovod && ! -e $site/.ringup-rebuild ]]
  [[ $(jq -c '.plan | [.mpi, .env.HOROVOD_WITH_MPI, .env.HOROVOD_WITHOUT_MPI]' <<<"$output") == '[[],null,"1"]' ]]
  # The plan has asked a compiler what torch's headers want.
  [[ $(jq -c '.plan | [.possible, .compiler.installed, .cxx_standard >= 17, .frameworks[0].cxx_standard_by,
    ([.disagreements[] | select(.about | test("ABI"))] | length)]' <<<"$output") == '[true,true,true,"probe",0]' ]]
  # What frameworks share and Gloo, and what includes torch's headers, are compiled as torch wants.
  read -r abi standard < <(jq -r '.plan | [.cxx11_abi, .cxx_standard] | join(" ")' <<<"$output")
  grep -qE "^CXX_FLAGS = .*-D_GLIBCXX_USE_CXX11_ABI=$abi .*-std=[a-z]+\+\+$standard( |\$)" "$flags" || { echo "$abi $standard" && cat "$flags" && return 1; }
  not grep -E '^CXX_FLAGS = .*-std=[a-z]+\+\+1[14]$' "$flags"
  [[ $(jq -r '.plan.edits | length' <<<"$output") -gt 8 ]]
  grep -qF "import sysconfig; print(sysconfig.get_paths()['include'])" "$edited/horovod/torch/CMakeLists.txt"
  [[ $(grep -cF 'def zero_grad(self, *args, **named):' "$edited/horovod/torch/optimizer.py") -eq 2 ]]
  grep -qx 'from shutil import which as find_executable' "$edited/horovod/runner/js_run.py"
}
