#!/usr/bin/env bats
# python.bats - the Python files are listed, described and of one shape.
# needs: cpu
# tests: compat src tests docs/examples

load ../lib/helper

# files - print every Python file of the project.
files() {
  (cd "$src" && find compat src tests/py tests/peers tests/torch docs/examples -name '*.py')
}

@test "every Python file is in a local.mk, or it would not be in a release" {
  local f
  for f in $(files); do
    case $f in # conftest.py and the like are in PY_FILES
      compat/*) grep -qF "%reldir%/${f#compat/}" "$src/compat/local.mk" ;;
      tests/*) grep -qF "%reldir%/${f#tests/}" "$src/tests/local.mk" ;;
      src/*) grep -qF "%reldir%/${f#src/}" "$src/src/local.mk" ;;
      docs/*) grep -qF "%reldir%/${f#docs/}" "$src/docs/local.mk" ;;
    esac || { echo "not listed: $f"; return 1; }
  done
}

@test "every Python file says on its first lines what it is" {
  local f
  for f in $(files); do
    sed -n 1,2p "$src/$f" | grep -qE "^# ${f##*/} - .*[.:]" || { echo "$f"; return 1; }
    sed -n 2,3p "$src/$f" | grep -qxF '# SPDX-License-Identifier: Apache-2.0' || { echo "$f: SPDX"; return 1; }
  done
}

@test "no line of Python is longer than 100 columns, and none has tabs" {
  run bash -c 'cd "$1" && shift && awk "length > 100 || /\t/ { print FILENAME \":\" FNR }" "$@"' _ "$src" $(files)
  [[ -z $output ]] || { echo "$output"; return 1; }
}

@test "only _c.py uses ctypes on the library, and dlpack.py on the interpreter" {
  run bash -c 'cd "$1" && grep -lE "CDLL|restype|argtypes" -r compat/python --include="*.py" | sort' _ "$src"
  [[ $output == compat/python/ringup/_c.py$'\n'compat/python/ringup/dlpack.py ]] || { echo "$output"; return 1; }
}

@test "ShellCheck is silent on compat and tests/py" {
  [[ $SHELLCHECK != : ]] || skip "shellcheck is not installed"
  "$SHELLCHECK" "$src/compat/install" "$src/tests/py/run"
}
