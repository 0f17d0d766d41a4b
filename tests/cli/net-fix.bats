#!/usr/bin/env bats
# net-fix.bats - ringup net fix: on this machine's interfaces, and on machines that are recorded.
# needs: cpu
# tests: src/cli/cmd_net_fix.c src/cli/settled.c src/nicpick src/host src/base src/settle tests/lib/machine.bash

load ../lib/helper
load ../lib/machine

# some_interface - the name of one that could be settled on here, or skip.
some_interface() {
  local name
  name=$(ringup net fix --dry-run --json --root "$BATS_TEST_TMPDIR" | jq -r '.interface // empty') || true
  [[ -n $name && $name != lo ]] || skip "this machine has no network to settle"
  printf '%s\n' "$name"
}

# sums DIR - every name, mode and content below DIR.
sums() {
  (cd "$1" && find . -printf '%p %m %y\n' | sort && find . -type f -print0 | sort -z | xargs -0r cat)
}

@test "fix: there, again, and back" {
  command -v jq >/dev/null || skip "jq is not installed"
  local root=$BATS_TEST_TMPDIR/root name before settled
  name=$(some_interface)
  mkdir -p "$root/etc/openmpi" "$root/databricks/spark/conf"
  printf 'a = 1' >"$root/etc/openmpi/openmpi-mca-params.conf"
  before=$(sums "$root")
  run ringup net fix --root "$root" --interface "$name"
  expect_status 0
  expect_line "+++ $root/etc/nccl.conf"
  expect_line "--- $root/etc/openmpi/openmpi-mca-params.conf"
  expect_line "configured $name for NCCL, Open MPI, Gloo and Horovod"
  grep -qx "NCCL_SOCKET_IFNAME==$name" "$root/etc/nccl.conf"
  grep -qx "btl_tcp_if_include = $name" "$root/etc/openmpi/openmpi-mca-params.conf"
  grep -qx "oob_tcp_if_include = $name" "$root/etc/openmpi/openmpi-mca-params.conf"
  bash -c '. "$1" && [[ $GLOO_SOCKET_IFNAME == "$2" && $HOROVOD_GLOO_IFACE == "$2" ]]' _ \
    "$root/etc/profile.d/ringup.sh" "$name"
  grep -qx "export GLOO_SOCKET_IFNAME=$name" "$root/databricks/spark/conf/spark-env.sh"
  [[ -z $(grep -r exclude "$root") ]]
  settled=$(sums "$root")
  run ringup net fix --root "$root" --interface "$name"
  expect_status 0
  expect_line "nothing to change: settled already, $name"
  [[ $(sums "$root") == "$settled" ]]
  run ringup net fix --root "$root" --undo
  expect_status 0
  [[ $(sums "$root") == "$before" ]]
}

@test "fix: what is settled is what explain then says" {
  command -v jq >/dev/null || skip "jq is not installed"
  local root=$BATS_TEST_TMPDIR/root name
  name=$(some_interface)
  mkdir -p "$root/etc/openmpi"
  env -u NCCL_SOCKET_IFNAME ringup net fix --root "$root"
  # shellcheck source=/dev/null
  . "$root/etc/profile.d/ringup.sh"
  HOME=/nonexistent RINGUP_ROOT=$root run bash -c "ringup net explain --json |
    jq -r '[.libraries[].roles[].picks[].interface, .choice.interface] | unique[]'"
  [[ $output == "$name" ]]
}

@test "fix: a dry run is a patch, and changes nothing" {
  command -v jq >/dev/null || skip "jq is not installed"
  command -v patch >/dev/null || skip "patch is not installed"
  local root=$BATS_TEST_TMPDIR/root name before
  name=$(some_interface)
  mkdir -p "$root/etc/openmpi"
  seq 9 | sed 's/^/x/' >"$root/etc/openmpi/openmpi-mca-params.conf"
  printf 'NCCL_SOCKET_IFNAME=other\nNCCL_DEBUG=INFO' >"$root/etc/nccl.conf"
  before=$(sums "$root")
  ringup net fix --root "$root" --interface "$name" --force --dry-run >"$BATS_TEST_TMPDIR/patch"
  [[ $(sums "$root") == "$before" ]]
  cp -a "$root" "$BATS_TEST_TMPDIR/other"
  ringup net fix --root "$root" --interface "$name" --force
  sed -i "s|$root|$BATS_TEST_TMPDIR/other|" "$BATS_TEST_TMPDIR/patch"
  patch -s -p0 -d / <"$BATS_TEST_TMPDIR/patch"
  diff -r "$root" "$BATS_TEST_TMPDIR/other"
  run bash -c 'ringup net fix --root "$1" --interface "$2" --dry-run 2>/dev/null' _ "$root" "$name"
  expect_status 0
  [[ -z $output ]]
}

@test "fix: somebody else's setting is reported, and kept" {
  command -v jq >/dev/null || skip "jq is not installed"
  local root=$BATS_TEST_TMPDIR/root name before
  name=$(some_interface)
  mkdir -p "$root/etc"
  echo NCCL_SOCKET_IFNAME=other >"$root/etc/nccl.conf"
  before=$(sums "$root")
  run ringup net fix --root "$root" --interface "$name"
  expect_status 1
  [[ $output == *"$root/etc/nccl.conf:1: NCCL_SOCKET_IFNAME=other"* ]]
  [[ $output == *"--force"* ]]
  [[ $(sums "$root") == "$before" ]]
  ringup net fix --root "$root" --interface "$name" --force
  ringup net fix --root "$root" --undo
  [[ $(sums "$root") == "$before" ]]
}

@test "fix: an interface that does not exist" {
  run ringup net fix --root "$BATS_TEST_TMPDIR" --interface no-such-nic
  expect_status 1
  [[ $output == *"ringup net fix: --interface=no-such-nic: no such interface; this host has "* ]]
  [[ -z $(ls -A "$BATS_TEST_TMPDIR") ]]
}

@test "fix: a variable that beats the files is named, and the answer is no" {
  command -v jq >/dev/null || skip "jq is not installed"
  local root=$BATS_TEST_TMPDIR/root name
  name=$(some_interface)
  mkdir "$root"
  NCCL_SOCKET_IFNAME=^docker0 run ringup net fix --root "$root" --interface "$name"
  expect_status 1
  expect_line "ringup net fix: NCCL will not use $name in its current state: environment: NCCL_SOCKET_IFNAME=^docker0 overrides the setting"
  grep -qx "NCCL_SOCKET_IFNAME==$name" "$root/etc/nccl.conf"
  run env -u NCCL_SOCKET_IFNAME ringup net fix --root "$root" --interface "$name"
  expect_status 0
}

# mounted OPTIONS SCRIPT - run SCRIPT in a mount namespace with a tmpfs at $BATS_TEST_TMPDIR/m.
mounted() {
  [[ $EUID -eq 0 ]] || skip "needs root to mount"
  mkdir -p "$BATS_TEST_TMPDIR/m"
  unshare --mount --propagation private true 2>/dev/null || skip "needs a mount namespace"
  run unshare --mount --propagation private bash -c '
    mount -t tmpfs -o "$1" tmpfs "$2" && cd "$2" && bash -c "$3"' _ "$1" "$BATS_TEST_TMPDIR/m" "$2"
}

@test "fix: a pin names the plug-in of the tree, and beats a variable; without it the pin goes" {
  command -v jq >/dev/null || skip "jq is not installed"
  local root=$BATS_TEST_TMPDIR/root name lib=/opt/ringup/current/lib/libnccl-env-ringup.so
  name=$(some_interface)
  mkdir -p "$root/etc"
  run ringup net fix --root "$root" --interface "$name" --pin
  expect_status 3
  [[ $output == *"libnccl-env-ringup.so is missing"* && ! -e $root/etc/nccl.conf ]]
  mkdir -p "$root/${lib%/*}"
  cp "$builddir/.libs/libnccl-env-ringup.so" "$root$lib"
  NCCL_SOCKET_IFNAME=^docker0 run ringup net fix --root "$root" --interface "$name" --pin
  expect_status 0
  grep -qx "NCCL_ENV_PLUGIN=$lib" "$root/etc/nccl.conf"
  NCCL_SOCKET_IFNAME=^docker0 RINGUP_ROOT=$root HOME=/nonexistent run bash -c \
    "ringup net explain --json --lib nccl | jq -c '.libraries[0].roles[0] | [.picks[].interface, .unknown]'"
  [[ $output == "[\"$name\",null]" ]] || { echo "$output"; return 1; }
  NCCL_SOCKET_IFNAME=^docker0 run ringup net fix --root "$root" --interface "$name"
  expect_status 1
  [[ $output == *"environment: NCCL_SOCKET_IFNAME=^docker0 overrides the setting"* ]]
  not grep -q NCCL_ENV_PLUGIN "$root/etc/nccl.conf"
}

@test "fix: a read-only /etc is left as it is" {
  command -v jq >/dev/null || skip "jq is not installed"
  local name
  name=$(some_interface)
  mounted size=1m "
    mkdir -p etc/profile.d && mount -t tmpfs -o ro tmpfs etc/profile.d
    ringup net fix --root \"\$PWD\" --interface $name; echo \"status \$?\"; find . -type f"
  expect_line "status 3"
  [[ $output == *"/etc/profile.d/ringup.sh: Read-only file system"* ]]
  [[ ${lines[-1]} == "status 3" ]]
}

@test "fix: a full disk leaves nothing half-written" {
  command -v jq >/dev/null || skip "jq is not installed"
  local name
  name=$(some_interface)
  mounted size=64k "
    mkdir -p etc/openmpi && echo a=1 >etc/openmpi/openmpi-mca-params.conf
    cat /dev/zero >fill 2>/dev/null; truncate -s -4096 fill
    ringup net fix --root \"\$PWD\" --interface $name; echo \"status \$?\"
    cat etc/openmpi/openmpi-mca-params.conf; find etc"
  expect_line "status 3"
  [[ $output == *"No space left on device"* ]]
  [[ $output == *$'status 3\na=1\netc\netc/openmpi\netc/openmpi/openmpi-mca-params.conf' ]]
}

@test "fix --nodes: each node is asked, and one that cannot be asked is a reason not to write" {
  command -v jq >/dev/null || skip "jq is not installed"
  local login=$BATS_TEST_TMPDIR/login
  printf '%s\n' '#!/bin/sh' '[ "$1" != gone ] || { echo no route >&2; exit 255; }' shift 'exec sh -c "$*"' >"$login"
  chmod +x "$login"
  # settles NODES [OPTION...] - "NAME: FILES: ERROR" of each.
  settles() {
    run bash -c 'ringup net fix --undo --dry-run --json --ssh "$1" --nodes "${@:2}" 2>/dev/null' _ "$login" "$@"
    output=$(jq -r '.nodes[] | "\(.name): \(any(.files[]; .path == "/etc/nccl.conf")): \(.error)"' <<<"$output")
  }
  settles a,b
  expect_status 0
  [[ $output == $'a: true: null\nb: true: null' ]]
  settles a,gone
  expect_status 3
  [[ $output == $'a: true: null\ngone: false: no agent started: no route' ]]
  settles gone,b --force
  expect_status 1
  [[ $output == $'gone: false: no agent started: no route\nb: true: null' ]]
}

@test "fix: wrong usage" {
  run ringup net fix --undo --force
  expect_status 2
  run ringup net fix --root relative
  expect_status 2
  run ringup net fix surplus
  expect_status 2
}
