# shellcheck shell=bash
# 40-install.bash - install the engine for all users.
#
# /opt/ringup/VERSION-HASH holds a version, whole and never changed; the link
# /opt/ringup/current says which one is in force and is switched by a rename.  All
# else in /opt/ringup is not ringup-init's (see release_ours) and stays.
# What must be found without settings is linked from /usr/local, where PATH, gcc
# (-lringup), pkg-config and man look anyway: so no profile, no ld.so.conf and
# nothing of the distribution's is edited, and an upgrade is one rename.

limits 50 120

opt=$INIT_ROOT/opt/ringup
before=$(engine_current)
made=''

# step_inputs - the release that was built.
step_inputs() { wanted; }

# wanted - print the name of the release that 30-build has made.
wanted() {
  noted 30-build $'fact\trelease'
  printf '%s\n' "$REPLY"
}

# links TREE - print what of TREE must be linked from /usr/local.
links() {
  (
    shopt -s globstar nullglob dotglob
    cd -- "$1" 2>/dev/null || exit 0
    for file in {bin,include,lib,share/man,share/bash-completion}/**; do
      case $file in lib/*/*.so | *.la | lib/spare/* | lib/needed/*) continue ;; esac
      [[ ! -f $file && ! -L $file ]] || printf '%s\n' "$file"
    done
  )
  [[ ! -x $1/share/ringup/init-scripts/ringup-init ]] || echo sbin/ringup-init
}

# target LINK - set REPLY to where LINK of /usr/local points.
target() {
  case $1 in
    sbin/ringup-init) REPLY=/opt/ringup/current/share/ringup/init-scripts/ringup-init ;;
    *) REPLY=/opt/ringup/current/$1 ;;
  esac
}

# step_done - it is in force, and every link is there.
step_done() {
  local - names name want='' IFS=$'\n'
  local -a at=()
  [[ $before == "$(wanted)" && -x $opt/current/bin/ringup ]] || return 1
  set -f
  names=$(links "$opt/current")
  for name in $names; do
    at+=("$INIT_ROOT/usr/local/$name")
    target "$name"
    want+=$REPLY$'\n'
  done
  [[ $(readlink -- "${at[@]}") == "${want%$'\n'}" ]]
}

# use_spare TREE - libraries that this node lacks are those which came with TREE; its own go first,
# for the distribution mends them.
use_spare() {
  local file
  for file in "$1"/lib/spare/*; do
    if [[ ! -f $file ]] || pkg_library "${file##*/}"; then continue; fi
    mkdir -p -- "$1/lib/needed"
    ln -s -- "../spare/${file##*/}" "$1/lib/needed/"
    log info "using the copy of ${file##*/} that came with the engine"
  done
}

# install_tree FROM NAME - copy as root's own, readable by all; whole or not at all.
install_tree() {
  local new=$opt/.$2.new odd
  make_dir "$opt"
  release_sweep
  odd=$(find "$1" -not -type f -not -type d -not -type l -o -perm /6000 | head -n 1)
  [[ -z $odd ]] || die "will not install ${odd##*/}: not a plain file"
  cp -r --no-dereference --no-preserve=all -- "$1" "$new"
  # the modes are ours: a plain copy under umask 077 would be root's alone
  (cd -- "$1" && find . -type f -perm -u+x -print0) | (cd -- "$new" && xargs -0r chmod 755 --)
  chmod -R u+w,go=u-w -- "$new"
  use_spare "$new"
  release_mark "$new"
  sync -f "$new"
  # where the engine itself looks is there after the switch only
  LD_LIBRARY_PATH=$new/lib/needed${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$new/bin/ringup" help >/dev/null || die "the new build does not start: $new/bin/ringup help"
  mv -T -- "$new" "$opt/$2"
}

# link_all - everything in /usr/local; never over somebody else's file.
link_all() {
  local link at
  while read -r link; do
    at=$INIT_ROOT/usr/local/$link
    if [[ -e $at || -L $at ]] && [[ $(readlink -- "$at") != /opt/ringup/current/* ]]; then
      stop 50 "$at already exists, and ringup-init did not create it" "move it away, then run ringup-init again"
    fi
    folder_of "$at"
    make_dir "$REPLY"
    target "$link"
    write_link "$REPLY" "$at"
  done < <(links "$opt/current")
}

# take_back - the version that was in force before, or none.
take_back() {
  local link
  release_sweep
  if [[ -z $before || ! -d $opt/$before ]]; then
    unlink_all
    rmdir -- "$opt" 2>/dev/null || true
    return 0
  fi
  # what only the new one has
  while read -r link; do
    [[ -e $opt/$before/$link || $link == sbin/* ]] || unlink_one "$link"
  done < <(links "$opt/current")
  write_link "$before" "$opt/current"
}

# on_exit - take it back if this step fails.
on_exit() {
  local rc=$?
  (( rc )) || return 0
  log warn "removing what this run installed"
  take_back
  [[ -z $made ]] || remove_release "$opt/$made"
  rmdir -- "$opt" 2>/dev/null || true
}

# unlink_one LINK - if it is ours.
unlink_one() {
  local at=$INIT_ROOT/usr/local/$1
  [[ $(readlink -- "$at") == /opt/ringup/current/* ]] || return 0
  rm -f -- "$at"
}

# unlink_all - the links in /usr/local, then `current`, if ringup-init has made it.
unlink_all() {
  local link
  release_linked "$opt/current" || return 0
  while read -r link; do
    unlink_one "$link"
  done < <(links "$opt/current")
  rm -f -- "$opt/current"
}

# refresh - tell the dynamic linker.
refresh() {
  [[ -z $INIT_ROOT ]] || return 0
  ldconfig || die "ldconfig failed: programs would not find libringup.so"
}

# step_apply - a tree, a switch, links; all or nothing.
step_apply() {
  local tree name
  name=$(wanted)
  tree=$INIT_BUILD/stage/$name
  if [[ ${DRY_RUN:-0} == 1 ]]; then
    log act "install ${name:-what was built} below $opt, link it from $INIT_ROOT/usr/local, ldconfig"
    return 0
  fi
  if [[ -e $opt/current || -L $opt/current ]] && ! release_linked "$opt/current"; then
    stop 50 "$opt/current already exists, and ringup-init did not create it" "move it away, then run ringup-init again"
  fi
  trap on_exit EXIT
  [[ -n $name ]] || die "nothing has been built yet" "run ringup-init without naming steps"
  if [[ ! -d $opt/$name ]]; then
    made=$name
    install_tree "$tree" "$name"
  fi
  write_link "$name" "$opt/current"
  link_all
  refresh
  trap - EXIT
  tell before "$before"
  fact release "$name"
  fact prefix "/opt/ringup/$name"
}

# step_commit - all went well: one version to go back to is enough.
step_commit() {
  [[ $before == "$(wanted)" ]] || return 0
  remove_tree "$INIT_BUILD"
  noted 40-install before
  forget "$(wanted)" "$REPLY"
}

# step_back - a later step has failed: what was in force before is so again.
step_back() {
  local name
  name=$before
  noted 40-install before; before=$REPLY
  [[ $name != "$before" ]] || return 0
  log warn "reverting $name${before:+ to $before}"
  take_back
  # staged again, so that the next run need not build it
  if [[ ! -d $INIT_BUILD/stage/$name ]] && release_ours "$opt/$name"; then
    mkdir -p -- "$INIT_BUILD/stage"
    move_tree "$opt/$name" "$INIT_BUILD/stage/$name"
  fi
  remove_release "$opt/$name"
  rmdir -- "$opt" 2>/dev/null || true
  refresh
}

# remove_release DIR - if ringup-init has installed it.
remove_release() { ! release_ours "$1" || remove_tree "$1"; }

# forget NAME... - remove all versions that ringup-init has installed but these.
forget() {
  local dir
  for dir in "$opt"/*-*; do
    [[ " $* " == *" ${dir##*/} "* ]] || remove_release "$dir"
  done
}

# step_undo - remove all versions and the links, and the folder if nothing else is in it.
step_undo() {
  log act "remove the releases below $opt and their links in $INIT_ROOT/usr/local"
  [[ ${DRY_RUN:-0} == 1 ]] && return 0
  unlink_all
  forget
  release_sweep
  if [[ -d $opt ]] && ! rmdir -- "$opt" 2>/dev/null; then
    log info "$opt is kept: it has files that ringup-init did not create"
  fi
  refresh
}
