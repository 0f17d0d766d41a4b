# shellcheck shell=bash
# source.bash - where the sources are, what they are, and a private copy of them.

# source_kind - print given (RINGUP_SOURCE), release or clone (around this script), or none.
source_kind() {
  if [[ -n ${RINGUP_SOURCE:-} ]]; then
    echo given
  elif [[ ! -e $INIT_HERE/../configure.ac || ! -e $INIT_HERE/../src/ringup.h ]]; then
    echo none
  elif [[ -x $INIT_HERE/../configure && ! -e $INIT_HERE/../.git ]]; then
    echo release
  else
    echo clone
  fi
}

# source_files - names, NUL-terminated and sorted, of the files around this script
# that make up the sources: no build outputs, no version control, and no release that was
# installed beside them, should they lie in /opt/ringup.
source_files() {
  (
    cd -- "$INIT_HERE/.." || exit
    find . -mindepth 1 -regextype posix-extended \
      \( -regex '\./\.?[0-9][0-9a-z.]*-[0-9a-f]{12}(\.new)?' -o -type l -regex '\./(current|\.current\.new)' \
         -o -name .git -o -type d -path './build*' -not -path './build-aux*' -o -name .deps -o -name .libs \
         -o -name autom4te.cache -o -name __pycache__ -o -name '*.egg-info' -o -name '.venv*' \) -prune \
      -o \( -type f -o -type l \) -not -name '*.o' -not -name '*.lo' -not -name '*.la' \
         -not -name '*.log' -not -name '*.trs' -not -name '*.so' -not -name 'ringup-*.tar.*' \
         -not \( -path './tests/*' -perm -u+x -not -name '*.*' -not -path './tests/run' \) \
         -not -path ./ringup -print0 | LC_ALL=C sort -z
  )
}

# source_sum - print the SHA-256 that stands for the sources: of the tarball, or of
# every file that can change what is built, or, without any, what was built last.
source_sum() {
  case $(source_kind) in
    given)
      if [[ $RINGUP_SOURCE == https://* ]]; then
        printf '%s\n' "${RINGUP_SOURCE_SHA256:-}"
      elif [[ -r $RINGUP_SOURCE && -f $RINGUP_SOURCE ]]; then
        sha256sum <"$RINGUP_SOURCE" | cut -c 1-64
      else
        echo unreadable
      fi ;;
    release | clone)
      (
        cd -- "$INIT_HERE/.." || exit
        source_files | grep -zvE '^\./(tests/.*/|\.github/|\.ci/|README|HACKING|docs/[^/]*\.md)' |
          xargs -0 sha256sum -- | sha256sum | cut -c 1-64
      ) ;;
    *) noted 30-build $'fact\tsources' && printf '%s\n' "${REPLY:-none}" ;;
  esac
}

# builder CMD ARG... - run CMD with a clean environment and, where this is root, as an
# identity that nobody else has, without a network: sources are not root's business.
builder() {
  local uid=64717 # of the range that systemd gives to services for as long as they run
  local -a who=()
  if (( EUID == 0 )) && [[ -z $INIT_ROOT ]]; then
    who=(setpriv --reuid="$uid" --regid="$uid" --clear-groups --no-new-privs)
    unshare --net "${who[@]}" true 2>/dev/null && who=(unshare --net "${who[@]}")
    "${who[@]}" true 2>/dev/null || who=()
  fi
  "${who[@]}" env -i PATH="$PATH" HOME="$INIT_BUILD" TMPDIR="$INIT_BUILD/tmp" LC_ALL=C \
    ${CC:+CC="$CC"} ${CFLAGS:+CFLAGS="$CFLAGS"} "$@"
}

# source_unpack - make $INIT_BUILD anew with the sources in src/, all of it the builder's.
source_unpack() {
  local kind how tarball=$INIT_STATE/source.tar
  kind=$(source_kind)
  remove_tree "$INIT_BUILD"
  mkdir -m 700 -- "$INIT_BUILD"
  if (( EUID == 0 )) && [[ -z $INIT_ROOT ]]; then
    chown 64717:64717 -- "$INIT_BUILD"
  fi
  builder mkdir "$INIT_BUILD/src" "$INIT_BUILD/tmp" "$INIT_BUILD/obj" 2>/dev/null || {
    chown 0:0 -- "$INIT_BUILD"
    die "cannot work in $INIT_BUILD as another user than root"
  }
  case $kind in
    given)
      source_get "$tarball"
      source_members "$tarball" # from root's copy, so nobody can swap it meanwhile
      how=$(source_filter "$tarball")
      # shellcheck disable=SC2094
      builder tar -xf - "$how" -C "$INIT_BUILD/src" --strip-components=1 \
        --no-same-owner --no-same-permissions <"$tarball" || die "cannot unpack $(shown "$RINGUP_SOURCE")"
      rm -f -- "$tarball" ;;
    release | clone)
      source_files | tar -C "$INIT_HERE/.." --no-recursion --null -T - -cf - |
        builder tar -xf - -C "$INIT_BUILD/src" --no-same-owner ;;
    *)
      stop 30 "no sources: this script stands alone, and RINGUP_SOURCE is not set" \
        "set RINGUP_SOURCE to a release tarball, a file or an https URL" ;;
  esac
  [[ -e $INIT_BUILD/src/configure.ac && -e $INIT_BUILD/src/src/ringup.h ]] ||
    stop 30 "what RINGUP_SOURCE names is not a release of ringup: no src/ringup.h in it" \
      "make one with 'make dist', or download a release"
}

# source_filter TARBALL - print tar's option for how TARBALL is compressed.
source_filter() {
  case $(head -c 6 -- "$1" | od -An -tx1 | tr -d ' \n') in
    fd377a585a00) echo --xz ;;
    1f8b*) echo --gzip ;;
    *) echo --no-auto-compress ;;
  esac
}

# source_get FILE - copy or download RINGUP_SOURCE to FILE and check its SHA-256.
source_get() {
  local name sum
  name=$(shown "$RINGUP_SOURCE")
  if [[ $RINGUP_SOURCE == *://* ]]; then
    fetch "$RINGUP_SOURCE" "${RINGUP_SOURCE_SHA256:-}" "$1"
    return 0
  fi
  cp -- "$RINGUP_SOURCE" "$1" || stop 30 "cannot read RINGUP_SOURCE: $name" \
    "name a release tarball that root can read, or an https URL"
  sum=$(sha256sum <"$1" | cut -c 1-64)
  if [[ -z ${RINGUP_SOURCE_SHA256:-} ]]; then
    warn "RINGUP_SOURCE_SHA256 is not set: $name is taken as it is ($sum)"
  elif [[ $sum != "$RINGUP_SOURCE_SHA256" ]]; then
    rm -f -- "$1"
    stop 30 "$name has another SHA-256 than RINGUP_SOURCE_SHA256 says: $sum" \
      "the file is damaged or not the release you mean; copy it again"
  fi
}

# source_members TARBALL - stop if it holds anything but plain files, folders and links below one folder.
source_members() {
  local bad
  bad=$(tar -tvf "$1" 2>&1 | awk '
    !/^[-dl]/ { print; exit }
    / \/|(^|[ \/])\.\.(\/|$)/ { print; exit }') || stop 30 "cannot read the tarball $(shown "$RINGUP_SOURCE")" \
      "it must be a tar archive, plain or compressed with gzip or xz"
  [[ -z $bad ]] || stop 30 "will not unpack $(shown "$RINGUP_SOURCE"): ${bad:0:120}" \
    "a release has only files, folders and links, all below one folder"
}
