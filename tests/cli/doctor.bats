#!/usr/bin/env bats
# doctor.bats - ringup doctor says what is wrong with a node, why, and what to do.
# needs: cpu
# tests: src/cli/cmd_doctor.c src/doctor src/detect src/rebuild src/host src/base tests/lib/node.bash
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
    '["note","jax 0.4.38 of /usr/bin/python3.11: ringup serves JAX 0.5 and later","/usr/bin/python3.11 -m pip install --upgrade jax"]'
  mv "$site/jax-0.4.38.dist-info" "$site/jax-0.5.0.dist-info"
  sed -i s/0.4.38/0.5.0/ "$site/jax-0.5.0.dist-info/METADATA"
  doctor 0
  expect_json '[.findings[] | select(.section == "frameworks")][0].text' \
    '"jax 0.5.0 of /usr/bin/python3.11: served by ringup 0.1.0"'
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
    '"torch 2.13.0 of /usr/bin/python3.11: served by ringup 0.1.0"'
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
    '["its package ringup is not the one of this release"]'
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
  expect_json '[.findings[] | select(.state == "bad") | .text]' '["its package ringup may not be read by this user"]'
  chown 65534 "$site/ringup"
  chmod 700 "$site/ringup"
  run "${look[@]}"
  expect_status 1
  json=$output
  expect_json '[.findings[] | select(.state == "bad") | .text]' '["its package ringup may not be read by this user"]'
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
    '["Open MPI 5.0.11 has no module: no module was built for it yet","ringup rebuild --engine ringup"]'
  : >"$lib/ringup-mpi-openmpi.so"
  doctor 0
  expect_json '[.findings[].text | select(startswith("back ends"))]' \
    '["back ends: self, node, mpi (Open MPI 5.0.11), tcp"]'
  rm "$lib/ringup-mpi-openmpi.so"
  echo '{"schema":1,"engine":"ringup","version":"0.1.0","mpi":[{"flavour":"openmpi","version":"5.0.11","library":"/opt/openmpi-5/lib/libmpi.so","module":"ringup-mpi-openmpi-5.0.11.so"}]}' \
    >"$lib/modules.json"
  doctor 1
  expect_json '[.findings[] | select(.state == "bad") | .text]' \
    '["Open MPI 5.0.11 has no module: the file is not there any more"]'
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
