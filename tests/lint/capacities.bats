#!/usr/bin/env bats
# capacities.bats - each constant that sizes an array names the test of its edge, or why there is none.
# needs: cpu
# tests: src tests/lint/capacities tests/unit tests/whole tests/fuzz

load ../lib/helper

# sizes - print the constants that src defines by a number and declares arrays with.
sizes() {
  (
    cd "$src/src"
    find . -name '*.[ch]' -print0 | xargs -0 awk '
      # In a declaration: a type, a name and a size in brackets, which neither = nor ( comes before.
      match($0, /^(\t|[a-z]+ )[^(=;]*\[[A-Z][A-Z0-9_]*( [-+] [0-9]+)?\]/) {
        text = substr($0, 1, RLENGTH)
        while (match(text, /\[[A-Z][A-Z0-9_]*/)) {
          size[substr(text, RSTART + 1, RLENGTH - 1)]
          text = substr(text, RSTART + RLENGTH)
        }
      }
      /^#define [A-Z]/ { defined[$2] }
      /enum \{|^\t[A-Z][A-Z0-9_]* = / {
        text = $0
        while (match(text, /[A-Z][A-Z0-9_]* = /)) {
          defined[substr(text, RSTART, RLENGTH - 3)]
          text = substr(text, RSTART + RLENGTH)
        }
      }
      END { for (name in size) if (name in defined) print name }'
  ) | sort
}

# named - print the constants that the list names.
named() { sed '/^#/d; s/ .*//' "$src/tests/lint/capacities" | sort; }

# counts - of the names on stdin, print those that do not end as a room for words does.
counts() { grep -vE '(TEXT|NAME|WHY|SAID|WHO|WORD|HOST|KEY|VERSION|MARK|TIME|RULE|REASON|MEANING|NOISE|HINT|ABOUT|PROOF|SUMMARY|BYTES)$'; }

@test "each constant that sizes an array is in tests/lint/capacities, and no other is" {
  diff <(sizes | counts) <(named | counts) ||
    { echo "name the test that tries one less, equal and one more, in tests/lint/capacities"; return 1; }
  [[ -z $(comm -13 <(sizes) <(named)) ]]
}

@test "the tests that the list names speak of the constant" {
  local name holder
  while read -r name holder; do
    case $holder in
      text | format | list | block | open) ;;
      *) grep -qw -- "$name" "$src/$holder" || { echo "$holder does not name $name"; return 1; } ;;
    esac
  done < <(sed '/^#/d' "$src/tests/lint/capacities")
}

@test "no more edges than before are untried" {
  [[ $(grep -c ' open$' "$src/tests/lint/capacities") -le 62 ]]
}
