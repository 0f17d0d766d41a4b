# shellcheck shell=bash disable=SC2016,SC2154
# tree.bash - a bare system in a folder, for tests of a newcomer's steps.

# tree_mirror SUITE - print the address this machine's apt has for its main packages; all suites are there.
tree_mirror() {
  apt-get indextargets --format '$(CREATED_BY) $(COMPONENT) $(RELEASE) $(REPO_URI)' 2>/dev/null |
    awk '$1 == "Packages" && $2 == "main" && $3 == "bookworm" { print $4; exit }'
}

# tree_hindrance - print why there can be none here, or nothing.
tree_hindrance() {
  if [[ ${RINGUP_TEST_FRESH:-} != 1 ]]; then
    echo "takes minutes; RINGUP_TEST_FRESH=1 runs it"
  elif ((EUID != 0)); then
    echo "needs root, to make a system in a folder"
  elif ! command -v debootstrap >/dev/null; then
    echo "debootstrap is not installed"
  elif ! unshare --mount --pid --fork true 2>/dev/null; then
    echo "no namespaces here"
  elif [[ -z $(tree_mirror) ]]; then
    echo "apt of this machine knows no mirror of Debian 12"
  fi
}

# tree_make SUITE DIR [PACKAGE,...] - a minimal system, with this machine's way to the mirror.
tree_make() {
  local d
  debootstrap --variant=minbase ${3:+--include="$3"} "$1" "$2" "$(tree_mirror)" >"$BATS_FILE_TMPDIR/debootstrap.log" 2>&1 ||
    { tail -n 20 "$BATS_FILE_TMPDIR/debootstrap.log"; return 1; }
  # nothing of this machine may be below a folder that will be removed
  umount -q "$2/proc" "$2/sys" || true
  for d in etc/apt usr/share/keyrings etc/ssl/certs usr/local/share/ca-certificates usr/share/ca-certificates; do
    [[ -e /$d ]] || continue
    mkdir -p "$2/$d"
    cp -rL --no-clobber "/$d/." "$2/$d/" 2>/dev/null || true
  done
  rm -f "$2"/etc/apt/sources.list.d/* "$2/etc/apt/sources.list"
  printf 'deb %s %s main\n' "$(tree_mirror)" "$1" >"$2/etc/apt/sources.list"
  cp -L /etc/resolv.conf /etc/hosts "$2/etc/"
}

# tree_inside DIR CMD ARG... - run in the tree, in its own mounts, processes and network of this machine.
tree_inside() {
  unshare --mount --pid --fork --kill-child --mount-proc="$1/proc" bash -c '
    mount --make-rprivate / && tree=$1 && shift
    mount --bind /dev "$tree/dev" && mount -t tmpfs none "$tree/dev/shm" && mount -t tmpfs none "$tree/run"
    mount -t sysfs -o ro none "$tree/sys"
    exec chroot "$tree" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"' bash "$@"
}
