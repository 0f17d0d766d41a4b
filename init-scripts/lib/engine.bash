# shellcheck shell=bash
# engine.bash - the sources of the engine, and the place of a finished build.

# engine_inputs - all that matters to what is built.  The compiler is here by its name only: a node
# that takes what another has built has none.  The runner makes INIT_KEY of them, the key in the
# cache, whose first 12 digits end a release's name.
engine_inputs() {
  local cpu=any
  source_sum
  # what is made for this very processor is of use to its like only
  [[ ${CFLAGS:-} != *native* ]] || cpu=$(grep -m 1 -E '^(flags|Features)' /proc/cpuinfo)
  printf '%s\n' engine/2 "${CC:-}" "${CFLAGS:-}" "$(node_arch)" "$cpu" "$(node_system)" "$(getconf GNU_LIBC_VERSION)"
}

# Below /opt/ringup may be other things than releases: a clone, an environment, a cache.  What
# ringup-init has installed there has its mark, and nothing else there is ever removed.

# release_named NAME - is it VERSION-HASH, as 30-build names a release?
release_named() { [[ $1 =~ ^[0-9][0-9a-z.]*-[0-9a-f]{12}$ ]]; }

# release_mark DIR - note in a release that ringup-init has installed it.
release_mark() {
  write_file "$1/.installed-by-ringup-init" 644 <<<'ringup-init --undo removes this folder, and so does the second upgrade after it.'
}

# release_ours DIR - has ringup-init installed it?  Versions before the mark are told by name and content.
release_ours() {
  [[ -d $1 && ! -L $1 ]] && release_named "${1##*/}" || return 1
  [[ ! -e $1/.installed-by-ringup-init ]] || return 0
  [[ -x $1/bin/ringup && ! -e $1/configure.ac && ! -e $1/.git ]]
}

# release_linked LINK - is it a link to a release beside it, as `current` is, whether or not that is there?
release_linked() {
  local to
  to=$(readlink -- "$1") && release_named "$to"
}

# release_sweep - remove what killed runs have left half installed or half removed below /opt/ringup.
release_sweep() {
  local left name
  for left in "$INIT_ROOT"/opt/ringup/.*.new; do
    name=${left##*/.} name=${name%.new}
    if release_named "$name" || { [[ $name == current ]] && release_linked "$left"; }; then rm -rf -- "$left"; fi
  done
}

# engine_ready - print the folder that holds it, installed already or staged to be.
engine_ready() {
  local name
  for name in "$INIT_ROOT"/opt/ringup/*-"${INIT_KEY:0:12}" "$INIT_BUILD"/stage/*-"${INIT_KEY:0:12}"; do
    [[ ! -x $name/bin/ringup ]] || { printf '%s\n' "$name"; return 0; }
  done
}

# engine_current - print the name of the release in force, or nothing.
engine_current() {
  (cd -P -- "$INIT_ROOT/opt/ringup/current" 2>/dev/null && printf '%s' "${PWD##*/}") || true
}

# patience - set REPLY to the seconds to wait for another node's build.
patience() {
  local role rest wait=0
  role=$(node_role)
  # the driver builds; others give it time
  [[ $role != executor ]] || wait=300000
  [[ $role == driver ]] || wait=${RINGUP_CACHE_WAIT_MS:-$wait}
  uptime
  # half of what is left: the other half is for building it here after all
  rest=$(( (INIT_END - REPLY) / 2 )) wait=$(( 10#$wait / 1000 ))
  (( wait < rest )) || wait=$(( rest > 0 ? rest : 0 ))
  REPLY=$wait
}

# engine_obtain - have it staged if a cache has it, or gets it in time; 1: build it here.
engine_obtain() {
  local why wait name key=$INIT_KEY
  why=$(cache_why)
  if [[ -n $why ]]; then
    [[ -z ${RINGUP_CACHE:-} ]] || warn "$why; building the engine here"
    return 1
  fi
  [[ ${DRY_RUN:-0} != 1 ]] || { log act "look for the engine in $RINGUP_CACHE"; return 1; }
  patience; wait=$REPLY
  uptime # two steps look for it, and wait once
  wait=$(( wait - (REPLY - INIT_BEGIN) ))
  remove_tree "$INIT_BUILD"
  mkdir -m 700 -- "$INIT_BUILD"
  cache_provide "$key" "$INIT_BUILD/stage" "$wait" || return 1
  name=$(engine_ready)
  [[ -n $name ]] || { warn "entry ${key:0:12}... of $RINGUP_CACHE contains no release; building here"; return 1; }
  log info "${name##*/} from $RINGUP_CACHE"
}

# engine_share NAME - publish what this node has built, if it may.
engine_share() {
  local said
  [[ -n ${RINGUP_CACHE:-} ]] && cache_signs || return 0
  if said=$("$INIT_BUILD/stage/$1/bin/ringup" cache put "$INIT_KEY" "$INIT_BUILD/stage" 2>&1); then
    fact cache "published in $RINGUP_CACHE"
  else
    warn "not published in $RINGUP_CACHE: ${said##*$'\n'}"
  fi
}
