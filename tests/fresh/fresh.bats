#!/usr/bin/env bats
# fresh.bats - a stranger's first hour: a fresh Debian 12, a clone, the README's first command.
# needs: root-net
# tests: init-scripts configure.ac bootstrap README.md

# Long (minutes) and needs root, debootstrap and a Debian mirror, so it runs only
# with RINGUP_TEST_FRESH=1.  The mirror is the one of this machine's own apt.

load ../lib/helper

# mirror - print the address this machine's apt has for its main packages.
mirror() {
  apt-get indextargets --format '$(CREATED_BY) $(COMPONENT) $(RELEASE) $(REPO_URI)' 2>/dev/null |
    awk '$1 == "Packages" && $2 == "main" && $3 == "bookworm" { print $4; exit }'
}

# inside CMD ARG... - run in the tree, in its own mounts, processes and network of this machine.
inside() {
  unshare --mount --pid --fork --kill-child --mount-proc="$tree/proc" bash -c '
    mount --make-rprivate / && tree=$1 && shift
    mount --bind /dev "$tree/dev" && mount -t tmpfs none "$tree/dev/shm" && mount -t tmpfs none "$tree/run"
    mount -t sysfs -o ro none "$tree/sys"
    exec chroot "$tree" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"' bash "$tree" "$@"
}

# same_apt - let the tree's apt use what this machine's does: sources, keys, proxies, certificates.
same_apt() {
  local d
  for d in etc/apt usr/share/keyrings etc/ssl/certs usr/local/share/ca-certificates usr/share/ca-certificates; do
    [[ -e /$d ]] || continue
    mkdir -p "$tree/$d"
    cp -rL --no-clobber "/$d/." "$tree/$d/" 2>/dev/null || true
  done
  rm -f "$tree"/etc/apt/sources.list.d/* "$tree/etc/apt/sources.list"
  printf 'deb %s bookworm main\n' "$(mirror)" >"$tree/etc/apt/sources.list"
  cp -L /etc/resolv.conf /etc/hosts "$tree/etc/"
}

# listing - print every file of the clone with its size and time.
listing() { find "$tree/ringup" -printf '%P %s %T@ %m %u\n' | sort; }

# hindrance - print why this cannot run here, or nothing.
hindrance() {
  if [[ ${RINGUP_TEST_FRESH:-} != 1 ]]; then
    echo "takes minutes; RINGUP_TEST_FRESH=1 runs it"
  elif ((EUID != 0)); then
    echo "needs root, to make a system in a folder"
  elif ! command -v debootstrap >/dev/null; then
    echo "debootstrap is not installed"
  elif ! unshare --mount --pid --fork true 2>/dev/null; then
    echo "no namespaces here"
  elif [[ -z $(mirror) ]]; then
    echo "apt of this machine knows no mirror of Debian 12"
  fi
}

setup() {
  [[ -z $HINDRANCE ]] || skip "$HINDRANCE"
}

setup_file() {
  HINDRANCE=$(hindrance)
  export HINDRANCE
  [[ -z $HINDRANCE ]] || return 0
  export tree=$BATS_FILE_TMPDIR/tree
  debootstrap --variant=minbase bookworm "$tree" "$(mirror)" >"$BATS_FILE_TMPDIR/debootstrap.log" 2>&1 ||
    { tail -n 20 "$BATS_FILE_TMPDIR/debootstrap.log"; return 1; }
  same_apt
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
  run unshare --net bash -c "$(declare -f inside); tree=$tree; inside /ringup/init-scripts/ringup-init"
  expect_status 21
  [[ $output == *"does not reach its mirror"* ]]
}
