# shellcheck shell=bash
# source.bash - find and identify the sources, and make a private copy of them.

# source_kind - print wheel or given (RINGUP_SOURCE), release or clone (around this script), installed
# (what this script came with: a wheel or a package of the distribution), or none.
source_kind() {
  local name=${RINGUP_SOURCE:-}
  name=${name%%[?#]*}
  if [[ $name == *.whl ]]; then
    echo wheel
  elif [[ -n $name ]]; then
    echo given
  elif [[ -x $INIT_HERE/../../../bin/ringup && $INIT_HERE == */share/ringup/init-scripts &&
    $INIT_HERE != "$INIT_ROOT"/opt/ringup/* && $INIT_HERE != /opt/ringup/* ]]; then
    echo installed
  elif [[ ! -e $INIT_HERE/../configure.ac || ! -e $INIT_HERE/../src/ringup.h ]]; then
    echo none
  elif [[ -x $INIT_HERE/../configure && ! -e $INIT_HERE/../.git ]]; then
    echo release
  else
    echo clone
  fi
}

# own_program PYTHON - set REPLY to the program ringup of this script's own wheel if pip has installed that
# for this very Python, else to nothing.
own_program() {
  local top=${INIT_HERE%/share/ringup/init-scripts}
  REPLY=''
  [[ $top == "$INIT_HERE" || -n $INIT_ROOT || ! $top/bin -ef ${1%/*} || ! -x $top/bin/ringup ]] || REPLY=$top/bin/ringup
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
    given | wheel)
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
    installed) installed_files | (cd -- "$INIT_HERE/../../.." && xargs -0r sha256sum --) | sha256sum | cut -c 1-64 ;;
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

# build_folder - make $INIT_BUILD anew, all of it the builder's.
build_folder() {
  remove_tree "$INIT_BUILD"
  mkdir -m 700 -- "$INIT_BUILD"
  if (( EUID == 0 )) && [[ -z $INIT_ROOT ]]; then
    chown 64717:64717 -- "$INIT_BUILD"
  fi
  builder mkdir "$INIT_BUILD/src" "$INIT_BUILD/tmp" "$INIT_BUILD/obj" 2>/dev/null || {
    chown 0:0 -- "$INIT_BUILD"
    die "cannot work in $INIT_BUILD as a user other than root"
  }
}

# source_unpack - make $INIT_BUILD anew with the sources in src/.
source_unpack() {
  local kind how tarball=$INIT_STATE/source.tar
  kind=$(source_kind)
  build_folder
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
      stop 30 "no sources: none next to this script, and RINGUP_SOURCE is not set" \
        "set RINGUP_SOURCE to a wheel or a release of ringup, a file or an https URL" ;;
  esac
  [[ -e $INIT_BUILD/src/configure.ac && -e $INIT_BUILD/src/src/ringup.h ]] ||
    stop 30 "RINGUP_SOURCE is not a ringup release: it contains no src/ringup.h" \
      "make one with 'make dist', or download a release"
}

# The engine that somebody else has built: a wheel, or the installation that this script came with.

# installed_files - names, NUL-terminated, of the files of this installation that make up an engine.
installed_files() {
  (
    shopt -s nullglob
    cd -- "$INIT_HERE/../../.." || exit
    # names without a star are kept though nothing is there
    for at in lib*/libringup.so.0 lib/*-linux-gnu/libringup.so.0 lib*/python3*/*-packages/ringup/libringup.so.0 \
      ringup/libringup.so.0; do
      [[ ! -e $at ]] || break
    done
    {
      printf '%s\0' bin/ringup share/man/man[138]/{ringup,horovodrun}* "${at%/*}"/{libringup,libnccl-env-ringup}*.so*
      find share/ringup -type f -not -name '*.pyc' -print0
    } | LC_ALL=C sort -zu
  )
}

# installed_copy TREE - lay the installation that this script came with out as an engine.
installed_copy() {
  local name to mode from=$INIT_HERE/../../..
  while IFS= read -r -d '' name; do
    case $name in
      share/ringup/lib/libnccl-env*) to=$1/lib/${name##*/} ;;
      bin/* | share/*) to=$1/$name ;;
      *) to=$1/lib/${name##*/} ;;
    esac
    mode=644
    [[ ! -x $from/$name ]] || mode=755
    builder mkdir -p -- "${to%/*}"
    # opened by root: the builder may not read what a user has
    builder install -m "$mode" /dev/stdin "$to" <"$from/$name"
  done < <(installed_files)
}

# Lay a wheel out as an engine: the program and the data, the libraries of the package; what Python
# imports is among the data.
unwheel='
import os, sys, zipfile
top, total = sys.argv[1], 0
with zipfile.ZipFile(open(0, "rb")) as z:
    if not any(n.endswith(".data/scripts/ringup") for n in z.namelist()):
        sys.exit("no program ringup is in it")
    for i in z.infolist():
        parts = i.filename.split("/")
        if i.filename.endswith("/"): continue
        if parts[0].endswith(".data") and parts[1] == "scripts": to = ["bin"] + parts[2:]
        elif parts[0].endswith(".data") and parts[1] == "data": to = parts[2:]
        elif parts[0] == "ringup" and parts[-1].startswith("libringup"): to = ["lib"] + parts[1:]
        else: continue
        if to[-1].startswith("libnccl-env"): to = ["lib", to[-1]]
        total += i.file_size
        if "" in to or ".." in to or total > 1 << 28: sys.exit("refusing to unpack " + i.filename[:100])
        if to == ["bin", "ringup-init"]: continue
        path = os.path.join(top, *to)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb") as f: f.write(z.read(i))
        os.chmod(path, 0o755 if i.external_attr >> 16 & 0o111 else 0o644)
'

# wheel_unpack TREE - lay the wheel RINGUP_SOURCE out as an engine.
wheel_unpack() {
  local said wheel=$INIT_STATE/source.tar
  source_get "$wheel"
  said=$(builder python3 -I -c "$unwheel" "$1" <"$wheel" 2>&1) ||
    stop 30 "$(shown "$RINGUP_SOURCE") is not a ringup wheel with an engine: ${said##*$'\n'}" \
      "'make wheel' makes one: ringup-VERSION-py3-none-manylinux_*.whl"
  rm -f -- "$wheel"
}

# engine_take - stage what somebody else has built; sets name.
engine_take() {
  local said tree=$INIT_BUILD/stage/new
  build_folder
  builder mkdir -p "$tree"
  case $(source_kind) in wheel) wheel_unpack "$tree" ;; *) installed_copy "$tree" ;; esac
  builder ln -s -- ringup "$tree/bin/horovodrun"
  said=$(builder "$tree/bin/ringup" --version 2>&1) ||
    stop 30 "the engine of $(shown "${RINGUP_SOURCE:-this installation}") does not start on this node: ${said##*$'\n'}" \
      "use a wheel for $(node_arch) whose tag names no newer glibc than $(getconf GNU_LIBC_VERSION)"
  said=${said#ringup }
  name=${said%%+*}-${INIT_KEY:0:12}
  builder mv -T -- "$tree" "$INIT_BUILD/stage/$name"
  log info "using $name, which needs no build"
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
    "set it to a wheel or a release tarball that root can read, or an https URL"
  sum=$(sha256sum <"$1" | cut -c 1-64)
  if [[ -z ${RINGUP_SOURCE_SHA256:-} ]]; then
    warn "RINGUP_SOURCE_SHA256 is not set: $name is used unchecked ($sum)"
  elif [[ $sum != "$RINGUP_SOURCE_SHA256" ]]; then
    rm -f -- "$1"
    stop 30 "the SHA-256 of $name is not RINGUP_SOURCE_SHA256: $sum" \
      "the file is damaged or is another release; copy it again"
  fi
}

# source_members TARBALL - stop if it holds anything but plain files, folders and links below one folder.
source_members() {
  local bad
  bad=$(tar -tvf "$1" 2>&1 | awk '
    !/^[-dl]/ { print; exit }
    / \/|(^|[ \/])\.\.(\/|$)/ { print; exit }') || stop 30 "cannot read the tarball $(shown "$RINGUP_SOURCE")" \
      "it must be a tar archive, plain or compressed with gzip or xz"
  [[ -z $bad ]] || stop 30 "refusing to unpack $(shown "$RINGUP_SOURCE"): ${bad:0:120}" \
    "a release has only files, folders and links, all below one folder"
}
