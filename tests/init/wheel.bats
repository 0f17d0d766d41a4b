#!/usr/bin/env bats
# wheel.bats - ringup-init takes a wheel, or the installation that it came with, as its engine.
# needs: cpu
# tests: init-scripts tests/lib/release.bash packaging

load ../lib/helper
load ../lib/release

# wheel FILE [NAME=PATH...] - a wheel with these files, as NAME in it.
wheel() {
  python3 - "$@" <<'EOT'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as z:
    for word in sys.argv[2:]:
        name, path = word.split("=", 1)
        item = zipfile.ZipInfo(name)
        item.external_attr = (0o100755 if name.endswith(("scripts/ringup", "/install")) else 0o100644) << 16
        z.writestr(item, open(path, "rb").read())
EOT
}

# program - what the tarball's program is, with a version.
program() { sed "s|^  \*) exit 2|  --version*) [[ ! -e $T/broken ]] \|\| { echo 'ringup: no GLIBC_2.99' >\&2; exit 1; }; echo 'ringup 9.9+1a2b3c4d' ;;\n&|" "$T/make/ringup-9.9/ringup"; }

setup() {
  release_setup
  program >"$T/ringup" && chmod +x "$T/ringup"
  echo library >"$T/library"
  data=ringup-9.9.data/data/share/ringup
  files=(ringup-9.9.data/scripts/ringup="$T/ringup" ringup/libringup.so.0="$T/library" ringup/libsodium.so.23="$T/library"
    ringup-9.9.data/scripts/ringup-init="$init" ringup/__init__.py="$T/library"
    "$data/lib/libsodium.so.23=$T/library" "$data/lib/libnccl-env-ringup.so=$T/library"
    "$data/compat/install=$T/make/ringup-9.9/compat/install"
    "$data/compat/python/ringup/__init__.py=$T/make/ringup-9.9/compat/python/ringup/__init__.py")
  export RINGUP_SOURCE=$T/ringup-9.9-py3-none-manylinux_2_28_x86_64.whl
}

@test "a wheel is taken, and nothing is built or installed for it" {
  wheel "$RINGUP_SOURCE" "${files[@]}"
  stub gcc 'exit 1'
  stub apt-get 'exit 1'
  PATH=$BATS_TEST_TMPDIR/bin:$PATH run "$init" --root "$root"
  expect_status 0
  [[ ! -e $T/builds && $output == *"from a wheel"* && $output == *"4 ranks agreed"* ]]
  [[ ! -e $calls || -z $(grep -v version "$calls") ]]
  [[ $(readlink "$root/opt/ringup/current") =~ ^9\.9-[0-9a-f]{12}$ ]]
  local top=$root/opt/ringup/current
  [[ $(stat -c %a "$top/bin/ringup" "$top/share/ringup/compat/install" "$top/lib/libringup.so.0") == $'755\n755\n644' ]]
  [[ $(readlink "$top/bin/horovodrun") == ringup && -e $top/lib/libnccl-env-ringup.so ]]
  # the loader of everybody else must not find these
  [[ ! -e $top/lib/libsodium.so.23 && ! -e $root/usr/local/lib/libsodium.so.23 && -e $top/share/ringup/lib/libsodium.so.23 ]]
  [[ $(json 's["result"], f("30-build")["source"]') == "('ok', 'wheel')" ]]
}

@test "the second run has nothing to do; another wheel replaces it; undo takes it out" {
  wheel "$RINGUP_SOURCE" "${files[@]}"
  run "$init" --root "$root"
  expect_status 0
  local first
  first=$(readlink "$root/opt/ringup/current")
  run "$init" --root "$root"
  expect_status 0
  [[ $output != *" info "* ]]
  echo '# newer' >>"$T/ringup"
  wheel "$RINGUP_SOURCE" "${files[@]}"
  run "$init" --root "$root"
  expect_status 0
  [[ $(readlink "$root/opt/ringup/current") != "$first" ]]
  # by the script of the release itself, which undo removes
  mkdir -p "$root/opt/ringup/current/share/ringup/init-scripts"
  cp -R "${init%/*}/." "$root/opt/ringup/current/share/ringup/init-scripts"
  run "$root/opt/ringup/current/share/ringup/init-scripts/ringup-init" --root "$root" --undo
  expect_status 0
  [[ ! -e $root/opt/ringup ]]
}

# refused STATUS TEXT - the wheel is not taken, for this reason, and nothing is left.
refused() {
  run "$init" --root "$root"
  expect_status "$1"
  [[ $output == *"$2"* ]] || { echo "$output"; return 1; }
  [[ ! -e $root/opt/ringup && -z $(find "$root" -name 'evil*') ]]
}

@test "a wheel that is not ringup's, damaged, hostile or for another node is refused in a sentence" {
  wheel "$RINGUP_SOURCE" ringup/__init__.py="$T/library"
  refused 30 "no program ringup is in it"
  wheel "$RINGUP_SOURCE" "${files[@]}" "$data/../../../../evil=$T/library"
  refused 30 "refusing to unpack"
  wheel "$RINGUP_SOURCE" "${files[@]}" "ringup-9.9.data/data//evil=$T/library"
  refused 30 "refusing to unpack"
  head -c 900 "$RINGUP_SOURCE" >"$T/half" && mv "$T/half" "$RINGUP_SOURCE"
  refused 30 "is not a ringup wheel with an engine"
  touch "$T/broken"
  wheel "$RINGUP_SOURCE" "${files[@]}"
  refused 30 "does not start on this node: ringup: no GLIBC_2.99"
  rm "$T/broken" "$RINGUP_SOURCE"
  refused 30 "cannot read RINGUP_SOURCE"
  wheel "$RINGUP_SOURCE" "${files[@]}"
  RINGUP_SOURCE_SHA256=$(printf '0%.0s' {1..64}) refused 30 "is not RINGUP_SOURCE_SHA256"
}

@test "the installation that ringup-init came with is its engine, wherever that is" {
  local there=$T/venv/lib/python3.11/site-packages/ringup
  mkdir -p "$T/venv/bin" "$T/venv/share/ringup/lib" "$T/venv/share/man/man1" "$there"
  cp -r "$T/init-scripts" "$T/make/ringup-9.9/compat" "$T/venv/share/ringup"
  cp "$T/ringup" "$init" "$T/venv/bin"
  cp "$T/library" "$there/libringup.so.0"
  touch "$T/venv/share/man/man1/ringup.1"
  unset RINGUP_SOURCE
  run "$T/venv/bin/ringup-init" --root "$root"
  expect_status 0
  [[ $output == *"as it was installed"* && ! -e $T/builds ]]
  local top=$root/opt/ringup/current
  [[ -x $top/bin/ringup && -e $top/lib/libringup.so.0 && -x $top/share/ringup/init-scripts/ringup-init && -e $top/share/man/man1/ringup.1 ]]
  run "$T/venv/bin/ringup-init" --root "$root"
  expect_status 0
  [[ $output != *" info "* ]]
}
