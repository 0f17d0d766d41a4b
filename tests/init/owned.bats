#!/usr/bin/env bats
# owned.bats - ringup-init removes what it has installed, and nothing else.
# needs: cpu
# tests: init-scripts tests/lib/release.bash

load ../lib/helper
load ../lib/release

setup() { release_setup; }

# mine PATH... - what is somebody's own in the tree: names, modes, links, contents and times.
mine() {
  (cd "$root" && find "$@" -printf '%p %m %l %T@\n' | sort && find "$@" -type f -print0 | sort -z | xargs -0r sha256sum)
}

# clone DIR - a clone of ringup that is quick to build, with work that is not committed, and a folder of builds.
clone() {
  cp -r "$T/make/ringup-9.9/." "$1"
  cp -r "$T/init-scripts/." "$1/init-scripts"
  # a clone's ./ringup is what was built there, and no source
  mv "$1/ringup" "$1/ringup.sh"
  sed -i 's|cp %s/ringup $(DESTDIR)/opt/ringup/current/bin|cp %s/ringup.sh $(DESTDIR)/opt/ringup/current/bin/ringup|' "$1/configure"
  mkdir -p "$1/.git/objects" "$1/build-aux" "$1/build" "$1/src"
  touch "$1/.git/HEAD" "$1/build-aux/ar-lib" "$1/build/made" "$1/.draft.new"
  echo 'int mine;' >"$1/src/mine.c"
}

@test "a clone in the installation folder survives a run, a second run, an upgrade and undo" {
  local at=$root/opt/ringup before first n
  local -a names
  mkdir "$at"
  clone "$at"
  mapfile -t names < <(cd "$root" && printf '%s\n' opt/ringup/{*,.[!.]*})
  before=$(mine "${names[@]}")
  export RINGUP_SOURCE=
  run "$at/init-scripts/ringup-init" --root "$root"
  expect_status 0
  first=$(readlink "$at/current")
  [[ $first == 9.9-* && $(wc -l <"$T/builds") -eq 1 ]]
  diff <(echo "$before") <(mine "${names[@]}")
  # what was installed is no source: nothing is to be done again
  run "$at/init-scripts/ringup-init" --root "$root" --check
  expect_status 0
  run "$at/init-scripts/ringup-init" --root "$root"
  expect_status 0
  [[ $output == *"40-install: already done"* && $(readlink "$at/current") == "$first" && $(wc -l <"$T/builds") -eq 1 ]]
  # the sources change twice: the first release goes, the clone does not
  for n in 1 2; do
    echo "int mine$n;" >"$at/src/mine.c"
    before=$(mine "${names[@]}")
    run "$at/init-scripts/ringup-init" --root "$root"
    expect_status 0
    diff <(echo "$before") <(mine "${names[@]}")
  done
  [[ ! -e $at/$first && $(wc -l <"$T/builds") -eq 3 ]]
  run "$at/init-scripts/ringup-init" --root "$root" --undo
  expect_status 0
  diff <(echo "$before") <(mine "${names[@]}")
  [[ $(cd "$root" && printf '%s\n' opt/ringup/{*,.[!.]*}) == "$(printf '%s\n' "${names[@]}")" ]]
  [[ $output == *"$at is kept"* ]]
}

@test "a run that fails leaves a clone in the installation folder as it was" {
  local at=$root/opt/ringup before
  local -a names
  mkdir "$at"
  release 9.9 bench
  clone "$at"
  mapfile -t names < <(cd "$root" && printf '%s\n' opt/ringup/{*,.[!.]*})
  before=$(mine "${names[@]}")
  RINGUP_SOURCE='' run "$at/init-scripts/ringup-init" --root "$root"
  expect_status 70
  diff <(echo "$before") <(mine "${names[@]}")
  [[ $(cd "$root" && printf '%s\n' opt/ringup/{*,.[!.]*}) == "$(printf '%s\n' "${names[@]}")" ]]
}

@test "strangers in the folders of ringup-init stay, whatever they are called" {
  local opt=$root/opt/ringup before name
  local -a theirs=(opt/ringup/my-venv opt/ringup/keras-3 opt/ringup/0.1.0-notes opt/ringup/9.9-0123456789ab opt/ringup/.keras.new
    var/lib/ringup/cache var/lib/ringup/.mine.new var/lib/ringup/state/notes var/log/ringup/train-30-build.log)
  for name in "${theirs[@]}"; do
    mkdir -p "$root/$name"
    echo mine >"$root/$name/file"
  done
  # a checkout, whatever its name, is no release
  mkdir "$root/opt/ringup/9.9-0123456789ab/bin"
  touch "$root/opt/ringup/9.9-0123456789ab/configure.ac"
  cp "$BASH" "$root/opt/ringup/9.9-0123456789ab/bin/ringup"
  before=$(mine "${theirs[@]}")
  run "$init" --root "$root"
  expect_status 0
  for name in 10 11; do
    release "9.$name"
    RINGUP_SOURCE=$T/ringup-9.$name.tar.gz run "$init" --root "$root"
    expect_status 0
  done
  [[ $(printf '%s\n' "$opt"/9.{9,10,11}-* | wc -l) -eq 3 ]]
  diff <(echo "$before") <(mine "${theirs[@]}")
  run "$init" --root "$root" --undo
  expect_status 0
  diff <(echo "$before") <(mine "${theirs[@]}")
  # and nothing else is left
  [[ -z $(cd "$root" && find . \( -type f -o -type l \) -not -path './var/log/*' -not -path './run/*' \
    -not -path './opt/ringup/*/*' -not -path './var/lib/ringup/*/*') ]]
  [[ $output == *"$opt is kept"* && $output == *"$state is kept"* ]]
}

@test "a release of a version that left no mark is known, and goes" {
  local opt=$root/opt/ringup old
  release_installed
  old=$(readlink "$opt/current")
  [[ -s $opt/$old/.installed-by-ringup-init ]]
  rm "$opt/$old/.installed-by-ringup-init"
  for name in 10 11; do
    release "9.$name"
    RINGUP_SOURCE=$T/ringup-9.$name.tar.gz run "$init" --root "$root"
    expect_status 0
  done
  [[ ! -e $opt/$old ]]
  rm "$opt"/9.1*/.installed-by-ringup-init
  run "$init" --root "$root" --undo
  expect_status 0
  [[ ! -e $opt && ! -e $state ]]
}

@test "somebody else's link called current, and links to other things in the folder, are left alone" {
  local opt=$root/opt/ringup
  mkdir -p "$opt/clone/build" "$root/usr/local/bin"
  ln -s clone "$opt/current"
  run "$init" --root "$root"
  expect_status 50
  [[ $output == *"$opt/current already exists, and ringup-init did not create it"* && $(readlink "$opt/current") == clone ]]
  run "$init" --root "$root" --undo
  expect_status 0
  [[ $(readlink "$opt/current") == clone ]]
  rm "$opt/current"
  ln -s /opt/ringup/clone/build/ringup "$root/usr/local/bin/ringup"
  run "$init" --root "$root"
  expect_status 50
  [[ $(readlink "$root/usr/local/bin/ringup") == /opt/ringup/clone/build/ringup ]]
}

@test "sources, a cache or a Python in the folder that each build makes anew are refused" {
  local build=$state/build before
  mkdir -p "$build/clone" "$state/venv"
  clone "$build/clone"
  before=$(mine var)
  for undo in '' --undo; do
    RINGUP_SOURCE='' run "$build/clone/init-scripts/ringup-init" --root "$root" $undo
    expect_status 50
    [[ $output == *"$build, which each build recreates, must not contain the sources ($build/clone/"* ]]
  done
  RINGUP_SOURCE=$build/clone/x.tar.gz run "$init" --root "$root"
  expect_status 50
  [[ $output == *"must not contain RINGUP_SOURCE"* ]]
  RINGUP_CACHE=$build/cache RINGUP_CACHE_TRUST=/none run "$init" --root "$root"
  expect_status 50
  RINGUP_PYTHON=$build/venv/bin/python3 run "$init" --root "$root"
  expect_status 50
  diff <(echo "$before") <(mine var)
  # the clone that is the folder of the state has that build folder as its own
  mv "$build/clone" "$T/clone"
  rm -r "$state"
  mv "$T/clone" "$state"
  RINGUP_SOURCE='' run "$state/init-scripts/ringup-init" --root "$root"
  expect_status 50
  [[ -e $state/build/made && -e $state/src/mine.c ]]
}
