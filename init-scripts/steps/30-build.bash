# shellcheck shell=bash
# 30-build.bash - take the engine and the command from a wheel, or build them in a private copy, not as root.

limits 40 1800

# The prefix that is compiled in is the link `current`, so that ringup.pc, the
# modules' folder and the manual stay true whichever version the link points to.
prefix=/opt/ringup/current

# step_inputs - sources, compiler and its options.
step_inputs() { printf '%s\n' "$INIT_KEY"; }

# release - print VERSION-HASH, the name that these inputs have below /opt/ringup.
release() {
  local version
  version=$(sed -n "s/^AC_INIT(\[ringup\], \[\([0-9][0-9a-z.]*\)\].*/\1/p" "$INIT_BUILD/src/configure.ac")
  [[ -n $version ]] || die "configure.ac has no version"
  printf '%s\n' "$version-${INIT_KEY:0:12}"
}

# step_done - these inputs have been built.
step_done() { [[ -n $(engine_ready) ]]; }

# jobs_fit - print how many compilers may run at once: one a core, half a gigabyte each.
jobs_fit() {
  local by_memory=$(( $(node_memory_mb) / 512 )) cores
  cores=$(nproc)
  (( by_memory < cores )) && cores=$by_memory
  printf '%s\n' $(( cores > 0 ? cores : 1 ))
}

# in_obj CMD ARG... - as the builder, in the build folder.
in_obj() { builder env -C "$INIT_BUILD/obj" "$@"; }

# compile - configure, make and stage; each failure with its own words.
compile() {
  local src=$INIT_BUILD/src
  if [[ ! -x $src/configure ]]; then
    builder env -C "$src" ./bootstrap || stop 40 "autotools could not create ./configure" "see the log"
  fi
  # lib/needed is there on nodes that lack a library: 40-install makes it of lib/spare
  in_obj "$src/configure" --prefix="$prefix" --sysconfdir=/etc \
    LDFLAGS="-Wl,-rpath,$prefix/lib/needed" ||
    why 40 "configure failed, usually because something is missing"
  log info "compiling $(jobs_fit) files at a time; this takes one to a few minutes"
  in_obj make -j "$(jobs_fit)" || why 40 "the sources do not compile"
  in_obj make install DESTDIR="$INIT_BUILD/dest" || why 40 "make install failed"
}

# why CODE CAUSE - stop, with a full disk named as such.
why() {
  if tail -n 60 "${INIT_LOGFILE:-/dev/null}" | grep -q 'No space left on device'; then
    stop "$1" "no space left below $INIT_STATE while building" "free some space, then run ringup-init again"
  fi
  stop "$1" "$2" "the compiler's output is in the log: ${INIT_LOGFILE:-above}"
}

# build - unpack, compile, stage and share, or take a wheel, which needs no sharing; sets name.
build() {
  case $(source_kind) in wheel | installed) engine_take; return ;; esac
  source_unpack
  compile
  name=$(release)
  in_obj mkdir -p "$INIT_BUILD/stage"
  in_obj mv "$INIT_BUILD/dest$prefix" "$INIT_BUILD/stage/$name"
  pkg_spare "$INIT_BUILD/stage/$name/lib/spare" in_obj
  engine_share "$name"
}

# step_apply - take what is there; else build it.
step_apply() {
  local name
  name=$(engine_ready)
  case $(source_kind) in
    wheel | installed) ;;
    *) if [[ -z $name ]] && engine_obtain; then name=$(engine_ready); fi ;;
  esac
  name=${name##*/}
  [[ -n $name ]] || log act "build the sources ($(source_kind)) in $INIT_BUILD for $prefix"
  if [[ -z $name && $(source_kind) == none ]]; then
    stop 30 "no sources: none next to this script, and RINGUP_SOURCE is not set" \
      "set RINGUP_SOURCE to a wheel or a release of ringup, a file or an https URL"
  fi
  [[ ${DRY_RUN:-0} == 1 ]] && return 0
  [[ -n $name ]] || build
  fact release "$name"
  fact version "${name%-*}"
  fact source "$(source_kind)"
  fact sources "$(source_sum)"
  number jobs "$(jobs_fit)"
}

# step_undo - remove what is staged.
step_undo() {
  act remove_tree "$INIT_BUILD"
}
