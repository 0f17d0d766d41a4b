# shellcheck shell=bash disable=SC2154
# affected.bash - tests/run: which tests a change can affect.
#
# A test program in C is affected by the objects that it is linked from, and these by the files that
# the compiler noted (.deps).  A Bats or Python file is affected by what its line "# tests:" names,
# by itself, and by the files of tests/ that it mentions.

# changed_files REV - print what differs from REV, new files too; REV may be empty: what is not
# committed, or else the last commit.
changed_files() {
  local rev=$1
  [[ -n $rev ]] || {
    rev=HEAD
    [[ -n $(git -C "$here" status --porcelain) ]] || rev=HEAD~1
  }
  git -C "$here" diff --name-only "$rev" --
  git -C "$here" ls-files --others --exclude-standard
}

# affected_scripts FILE... - of these Bats and Python files, print those that $changed concerns.
affected_scripts() {
  local test word path file
  local -a words names
  for test; do
    mapfile -t names < <(grep -oE '[a-z_-]+(\.bash|_of_a_rank(\.py)?|\.h)|lib/[a-z_-]+' "$here/$test" | sed 's,^lib/,,; s,\.bash$,,; s,\.py$,,' | sort -u)
    read -r -a words < <(sed -n '1,30s/^# tests: *//p' "$here/$test" | tr '\n' ' ') || true
    for file in "${changed[@]}"; do
      [[ $file == "$test" ]] && echo "$test" && continue 2
      path=${file##*/} path=${path%.*}
      if [[ $file == tests/* && " ${names[*]} " == *" $path "* || $file == tests/py/conftest.py && $test == *.py ]]; then
        echo "$test" && continue 2
      fi
      for word in "${words[@]}"; do
        # shellcheck disable=SC2053 # a pattern
        if [[ $file == $word || $file == ${word%/}/* ]]; then echo "$test" && continue 3; fi
      done
    done
  done
}

# affected_roughly TEST... - print those of these tests, scripts or programs, that $changed may concern; nothing
# is built to find out, so a program is concerned by every C file but those of other tests.
affected_roughly() {
  local test
  local -a scripts=() programs=()
  for test; do
    case $test in
      *.bats | *.py) scripts+=("$test") ;;
      *) programs+=("$test") ;;
    esac
  done
  affected_scripts "${scripts[@]}"
  for test in "${programs[@]}"; do
    ! printf '%s\n' "${changed[@]}" | grep -qE "^(src/.*\.([ch]|def)|tests/[^/]*\.h|$test\.c)\$" || echo "$test"
  done
}

# covering FILE - print lines "own TEST", "file TEST", "header TEST" or "folder TEST" for the tests that say that they
# cover FILE, the nearest first: its own, then those whose line "tests:" names it, programs that include its header
# (those of base are included everywhere), then those whose line names its folder.  x_y.c is a part of x.c.
covering() {
  local file=$1 part=${1%.*} parts=
  {
    while true; do
      [[ ! -e $here/tests/unit/test_${part##*/}.c ]] || echo "own tests/unit/test_${part##*/}"
      parts+=" ${part#src/}.h"
      [[ ${part##*/} == *_* ]] || break
      part=${part%_*}
    done
    (cd "$here" && awk -v file="$file" -v headers="$parts " '
      FNR > 40 { nextfile }
      /^#include "/ && FILENAME ~ /\.c$/ && file !~ /^src\/base\// {
        test = FILENAME; sub(/\.c$/, "", test)
        if (index(headers, " " substr($2, 2, length($2) - 2) " ")) print 2, "header", test
      }
      /^(#|\/\*| \*) tests: / {
        test = FILENAME; sub(/\.c$/, "", test)
        for (i = 3; i <= NF; i++) {
          if ($i == file) print 1, "file", test
          else if ($i ~ /\/.*[a-z]/ && index(file, $i "/") == 1) print 3, "folder", test
        }
      }' tests/*/test_*.c tests/*/*.bats tests/py/test_*.py | sort -s -n -k1,1 | cut -d' ' -f2-)
  } | awk '!seen[$2]++'
}

# affected_programs TREE - of the test programs on stdin, built in TREE, print those that $changed concerns.
affected_programs() {
  (
    sed 's/^/test /'
    cd "$work/$1" || exit 1
    printf 'changed %s\n' "${changed[@]}"
    find . \( -name '*.Po' -o -name '*.Plo' \) -exec cat {} + | awk -v prefix="$work/ringup/" '
      /:/ { target = $1; sub(/:$/, "", target); if (target ~ /\.lo$/) { sub(/\.lo$/, ".o", target); sub(/[^\/]*$/, ".libs/&", target) } }
      { for (i = 1; i <= NF; i++) if ($i !~ /:$/ && index($i, prefix) == 1) print "dep", target, substr($i, length(prefix) + 1) }'
    find . -name '*.o' -exec nm -A -g -P {} + 2>/dev/null |
      awk '{ f = $1; sub(/:$/, "", f); sub(/^\.\//, "", f); print $3 == "U" || $3 == "w" ? "use" : "def", f, $2 }'
  ) | awk -f "$here/tests/lib/affected.awk"
}
