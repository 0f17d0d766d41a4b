#!/usr/bin/env bats
# fresh.bats - a stranger's first hour: a fresh Debian 12, a clone, the README's first command.
# needs: root-net
# tests: init-scripts configure.ac bootstrap README.md

# Long (minutes) and needs root, debootstrap and a Debian mirror, so it runs only
# with RINGUP_TEST_FRESH=1.  The mirror is the one of this machine's own apt.

load ../lib/helper
load ../lib/tree

# inside CMD ARG... - run in the tree.
inside() { tree_inside "$tree" "$@"; }

# listing - print every file of the clone with its size and time.
listing() { find "$tree/ringup" -printf '%P %s %T@ %m %u\n' | sort; }

setup() {
  [[ -z $HINDRANCE ]] || skip "$HINDRANCE"
}

setup_file() {
  HINDRANCE=$(tree_hindrance)
  export HINDRANCE
  [[ -z $HINDRANCE ]] || return 0
  export tree=$BATS_FILE_TMPDIR/tree
  tree_make bookworm "$tree"
  mkdir "$tree/ringup"
  git -C "$src" archive HEAD 2>/dev/null | tar -x -C "$tree/ringup" ||
    cp -r "$src"/. "$tree/ringup"
  listing >"$BATS_FILE_TMPDIR/listing"
}

teardown_file() {
  [[ -z ${tree:-} ]] || rm -rf --one-file-system "$tree"
}

@test "the first command ends with four ranks that agree" {
  run inside /ringup/init-scripts/ringup-init
  echo "$output" | tail -n 60
  expect_status 0
  [[ $output == *"shm "*"4 ranks agreed"* && $output == *"tcp "*"4 ranks agreed"* ]]
  [[ $output == *"4 ranks agreed bit for bit"* ]]
}

@test "the second time it has nothing to do, and shows the same" {
  run inside /ringup/init-scripts/ringup-init
  expect_status 0
  [[ $output == *"4 ranks agreed"* && $output != *" info  "* ]]
}

@test "the clone is as it was" {
  [[ $(listing) == "$(cat "$BATS_FILE_TMPDIR/listing")" ]]
}

@test "ringup is on PATH, and programs compile and link against it" {
  run inside bash -c 'cd /tmp && ringup --version &&
    printf "#include <ringup.h>\n#include <stdio.h>\nint main(void) { puts(ringup_version()); return 0; }\n" >v.c &&
    gcc v.c $(pkg-config --cflags --libs ringup) -o v && ./v && gcc v.c -lringup -o w && ./w'
  expect_status 0
}

@test "what root installed can be read by others" {
  run inside setpriv --reuid=65534 --clear-groups ringup detect --json
  expect_status 0
  run inside setpriv --reuid=65534 --clear-groups cat /var/lib/ringup/status.json
  expect_status 0
}

@test "killed in the middle and run again, it ends well" {
  inside /ringup/init-scripts/ringup-init --undo
  inside timeout --signal=KILL 8 /ringup/init-scripts/ringup-init || true
  run inside /ringup/init-scripts/ringup-init
  expect_status 0
  [[ $output == *"4 ranks agreed"* ]]
}

@test "a tarball and the one-file script do the same" {
  inside /ringup/init-scripts/ringup-init --undo
  inside bash -c 'cd /ringup && mkdir /tmp/d && cp -r . /tmp/d/s && cd /tmp/d/s && ./bootstrap >/dev/null 2>&1 &&
    ./configure -q && make -s dist' >"$BATS_TEST_TMPDIR/dist.log" 2>&1 || { tail "$BATS_TEST_TMPDIR/dist.log"; return 1; }
  sh "$src/init-scripts/bundle.sh" >"$tree/root/ringup-init.sh"
  run inside bash -c 'f=$(echo /tmp/d/s/ringup-*.tar.xz) && RINGUP_SOURCE=$f \
    RINGUP_SOURCE_SHA256=$(sha256sum <"$f" | cut -c 1-64) bash /root/ringup-init.sh'
  expect_status 0
  [[ $output == *"4 ranks agreed"* ]]
}

@test "a compiler that an engine needs comes from apt, beside what there is, and nothing else changes" {
  # chosen - what the alternatives are, and gcc.
  chosen() { ls -l "$tree/etc/alternatives"; readlink "$tree/usr/bin/gcc"; }
  [[ -z $(compgen -G "$tree/usr/bin/*g++*") ]] || skip "there is a g++ already"
  local d=$tree/usr/local/lib/python3.11/dist-packages before
  mkdir -p "$d/torch/include/torch" "$d/torch-2.13.0.dist-info"
  printf 'Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n' >"$d/torch-2.13.0.dist-info/METADATA"
  echo pip >"$d/torch-2.13.0.dist-info/INSTALLER"
  echo "__version__ = '2.13.0'" >"$d/torch/version.py"
  touch "$d/torch/__init__.py" "$d/torch/include/torch/extension.h"
  before=$(chosen)
  # It ends where no Horovod can come of it: this is no release.
  run inside ringup rebuild --engine horovod --for torch --without-mpi --accept CVE-2024-10190 --source /etc/hosts
  expect_status 1
  [[ $output == *"install compilers"* && -n $(compgen -G "$tree/usr/bin/g++-*") && ! -e $tree/usr/bin/g++ ]]
  [[ $(chosen) == "$before" ]]
  rm -r "$d/torch" "$d/torch-2.13.0.dist-info"
}

@test "undo leaves nothing but packages and logs" {
  run inside /ringup/init-scripts/ringup-init --undo
  expect_status 0
  [[ ! -e $tree/opt/ringup && ! -e $tree/var/lib/ringup && ! -e $tree/etc/nccl.conf ]]
  [[ -z $(find "$tree/usr/local" -type l -lname '*ringup*') ]]
}

@test "no network: a sentence, and the documented status" {
  rm -rf "$tree"/var/lib/apt/lists/* && inside apt-get remove -y -q make >/dev/null 2>&1
  run unshare --net bash -c "$(declare -f tree_inside); tree_inside $tree /ringup/init-scripts/ringup-init"
  expect_status 21
  [[ $output == *"cannot reach"* ]]
}
