# shellcheck shell=bash disable=SC2154
# circles.bash - which files of a folder need each other in a circle, by includes and by calls.

# A unit is a source with the header of the same name.  An edge is a line FOLDER FROM TO: both units are
# in the folder, and FROM needs TO.

# edges_by_include ROOT - of the sources below ROOT/src.
edges_by_include() {
  awk '
    match($0, /^#include "[a-z]+\//) {
      n = split(FILENAME, at, "/"); folder = at[n - 1]; from = at[n]; sub(/\.[a-z]+$/, "", from)
      split($0, quoted, "\""); split(quoted[2], to, "/"); sub(/\.[a-z]+$/, "", to[2])
      if (to[1] == folder && to[2] != from) print folder, from, to[2]
    }' "$1"/src/*/*.[ch] "$1"/src/*/*.def | sort -u
}

# edges_by_call ROOT BUILT - of the objects below BUILT/src, of sources below ROOT/src: one has a symbol
# that another lacks.
edges_by_call() {
  local object folder unit
  local -a objects=()
  for object in "$2"/src/*/*.o; do
    unit=${object##*/} unit=${unit%.o}
    # What is left of a source that is gone, or has another name, counts for nothing.
    folder=${object%/*} folder=${folder##*/}
    [[ ! -e $1/src/$folder/${unit##*-}.c ]] || objects+=("$object")
  done
  nm -A "${objects[@]}" 2>/dev/null | awk '
    {
      n = split($1, at, "/"); folder = at[n - 1]; unit = at[n]
      sub(/:.*/, "", unit); sub(/\.o$/, "", unit); sub(/^.*-/, "", unit)
      kind = $(NF - 1); symbol = $NF
    }
    kind ~ /^[A-TV-Z]$/ { home[folder, symbol] = unit }
    kind == "U" { wants[folder " " unit " " symbol] = 1 }
    END {
      for (w in wants) {
        split(w, p, " ")
        to = home[p[1], p[3]]
        if (to != "" && to != p[2]) print p[1], p[2], to
      }
    }' | sort -u
}

# circles MODULES - of the edges on standard input: a line for each circle, and behind it the edges that
# make it.  The file MODULES lists units that are one module.
circles() {
  awk -v modules="$1" -f "$src/tests/lint/circles.awk"
}

# false_modules MODULES - print units of modules which the edges on standard input do not join in a
# circle with the rest of their module, and modules without a reason.
false_modules() {
  awk -v modules="$1" -v check=1 -f "$src/tests/lint/circles.awk"
}
