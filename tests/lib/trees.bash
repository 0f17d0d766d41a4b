# shellcheck shell=bash disable=SC2034,SC2054,SC2154
# trees.bash - tests/run: the builds, each for the faults that only it finds, and the release.
#
#   gcc    -Werror, as users build it: behaviour
#   asan   clang, -Werror, AddressSanitizer and UndefinedBehaviorSanitizer: memory
#   tsan   gcc, ThreadSanitizer: races, of programs with threads

# What each makes, and the command before its test programs.
declare -A tree_targets=() prefix=()

# tree_options TREE - set $options to those of configure.
tree_options() {
  case $1 in
    gcc) options=(--enable-werror CC=gcc) ;;
    asan) options=(--enable-werror --with-sanitizer=address,undefined CC=clang CFLAGS='-O1 -gline-tables-only') ;;
    # gcc warns falsely of instrumented code, so warnings are no errors here.
    tsan) options=(--with-sanitizer=thread CC=gcc CFLAGS='-O1 -g1') ;;
  esac
}

# tree_configure TREE - in $work/TREE.
tree_configure() {
  local -a options
  tree_options "$1"
  mkdir -p "$work/$1"
  (cd "$work/$1" && "$work/ringup/configure" -q "${options[@]}")
}

# tree_probe TREE - can programs of this tree be linked, and started?  If so, $prefix[TREE] is set.
tree_probe() {
  local tree=$1 word compiler='' list='' source=$work/probe.c program=$work/probe.$1
  local -a options
  prefix[$tree]=''
  tree_options "$tree"
  for word in "${options[@]}"; do
    case $word in
      CC=*) compiler=${word#CC=} ;;
      --with-sanitizer=*) list=${word#*=} ;;
    esac
  done
  command -v "$compiler" >/dev/null || {
    lacking "$tree" "$compiler is not installed"
    return 1
  }
  [[ -n $list ]] || return 0
  printf 'int main(void) { return 0; }\n' >"$source"
  "$compiler" -fsanitize="$list" -o "$program" "$source" 2>/dev/null || {
    lacking "$tree" "$compiler cannot link with -fsanitize=$list here"
    return 1
  }
  # ThreadSanitizer wants an address space that some kernels have made random.
  "$program" >/dev/null 2>&1 && return 0
  prefix[$tree]='setarch -R'
  setarch -R "$program" >/dev/null 2>&1 && return 0
  lacking "$tree" "programs with -fsanitize=$list do not start on this kernel"
  return 1
}

# tree_make TREE PROCESSORS - configure it unless that is done, and make what it is for.
tree_make() {
  local -a targets
  read -r -a targets <<<"${tree_targets[$1]}"
  [[ -e $work/$1/config.status ]] || tree_configure "$1" || return 1
  make -C "$work/$1" -k -j"$2" "${targets[@]}"
}

# tree_body I - the body of a job that builds a tree; beside others it takes half of the processors.
tree_body() {
  local i=$1 tree=${job_tree[$1]} folder=$work/jobs/$1 processors=$(((jobs + 1) / 2))
  ((running_cpu + running_waits)) || processors=$jobs
  if job_measured "$i" tree_make "$tree" "$processors"; then
    echo 'count 0 0 0' >"$folder/result"
  else
    printf 'count 0 1 0\nfail make: %s\n' "$(grep -m1 -E 'error: |warning: |\*\*\*' "$folder/log")" >"$folder/result"
    grep -E -A 3 'error: |warning: ' "$folder/log" | head -n 40 >"$folder/words" || true
    cat "$folder/words" >>"$folder/log"
  fi
}

# tarball_digest TREE - print the SHA-256 of the release made from it, at a fixed time.
tarball_digest() {
  (cd "$work/$1" && rm -f ringup-*.tar.xz && SOURCE_DATE_EPOCH=1700000000 XZ_OPT=-0 make -s dist-xz >/dev/null &&
    sha256sum ringup-*.tar.xz)
}

# release_lacks - print the source files that are not in the release of the tree gcc.
release_lacks() {
  (cd "$work/gcc" && tar -tf ringup-*.tar.xz) | sed 's,^[^/]*/,,' | sort >"$work/released"
  tr '\0' '\n' <"$work/sources" | grep -v '\.gitignore$' | sort | comm -13 "$work/released" -
}

# distcheck_make - make distcheck without optimisation and with few tests; all sources must be in the
# release, since of its tests only these few are built, and the same sources give the same release.
distcheck_make() {
  local one two lacks
  local few='tests/unit/test_err tests/unit/test_conf tests/unit/test_engine'
  XZ_OPT=-0 make -C "$work/gcc" -j$(((jobs + 1) / 2)) distcheck \
    DISTCHECK_CONFIGURE_FLAGS='CFLAGS=-O0' TESTS="$few" check_PROGRAMS="$few" || return 1
  one=$(tarball_digest gcc)
  lacks=$(release_lacks)
  sleep 1
  two=$(tarball_digest gcc)
  printf '%s\n%s\n' "$one" "$two"
  [[ -n $one && $one == "$two" ]] || return 2
  printf 'not in the release: %s\n' ${lacks:+"$lacks"}
  [[ -z $lacks ]] || return 3
}

# distcheck_body I - the body of the job that makes a release.
distcheck_body() {
  local i=$1 folder=$work/jobs/$1 status=0
  job_measured "$i" distcheck_make || status=$?
  case $status in
    0) echo 'count 3 0 0' ;;
    2) printf 'count 1 1 0\nfail same sources, same tarball: %s\n' "$(tail -n 2 "$folder/log" | tr '\n' ' ')" ;;
    3) printf 'count 2 1 0\nfail all sources are in the release: %s\n' "$(tail -n 1 "$folder/log")" ;;
    *) printf 'count 0 1 0\nfail distcheck: %s\n' "$(grep -m1 -E 'error:|^(FAIL|ERROR)|\*\*\*' "$folder/log")" ;;
  esac >"$folder/result"
}
