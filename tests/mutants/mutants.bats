#!/usr/bin/env bats
# mutants.bats - small bugs put into files that changed lately are noticed by the tests that cover them.
# needs: cpu
# tests: tests/mutants tests/lib/affected.bash

load ../lib/helper

setup() {
  cd "$BATS_TEST_TMPDIR"
}

@test "each operator makes its mutants, and none of comments, texts and preprocessor lines" {
  local made
  printf '%s\n' '#define EDGE 40' '/* a < b && 17 */' 'int edge(int *at)' '{' $'\tchar text[EDGE];' \
    $'\tint i, rc = 0;' '' $'\tlog_warn("i < 7 && 8");' $'\tfor (i = 0; i < 12; i++)' \
    $'\t\tif (!at[i] && i != 3 || i >= 5)' $'\t\t\tat[i - 1] = at[i + 1];' $'\tfree(at);' $'\tend(at);' \
    $'\tat = NULL;' $'\tat = calloc(1, sizeof(*at));' $'\treturn rc;' '}' >"$BATS_TEST_TMPDIR/sample.c"
  made=$(python3 "$src/tests/mutants/mutate.py" --show "$BATS_TEST_TMPDIR/sample.c")
  diff <(cut -d: -f1,2 <<<"$made" | sort -u) <(sort <<'END'
5: one less in an array
9: constant times ten
9: < to <=
10: constant times ten
10: no !
10: && to ||
10: || to &&
10: != to ==
10: >= to >
11: + 1 to + 0
11: - 1 to - 0
11: constant times ten
13: statement dropped
14: assignment dropped
15: assignment dropped
16: failure forgotten
END
)
  grep -qxF '9: constant times ten: for (i = 0; i < 120; i++)' <<<"$made"
  grep -qxF '5: one less in an array: char text[EDGE - 1];' <<<"$made"
}

@test "the tests that cover a file: its own first, then those that name it, then its folder's" {
  here=$src
  # shellcheck source=tests/lib/affected.bash
  . "$src/tests/lib/affected.bash"
  covering src/base/pidend.c >near
  [[ $(head -n 1 near) == 'own tests/unit/test_pidend' ]]
  grep -qxF 'file tests/cli/limits.bats' near
  grep -qxF 'folder tests/cli/run.bats' near
  covering src/wire/door.c >near
  grep -qxF 'header tests/unit/test_session' near
  [[ $(covering src/engine/execute.c | grep 'test_device$') == 'file tests/device/test_device' ]]
  [[ $(covering src/engine/execute.c | grep 'test_engine$') == 'folder tests/unit/test_engine' ]]
  [[ -z $(covering src/no/such.c) ]]
}

@test "for a script the programs are built that it or what it loads names" {
  mkdir -p tests/lib tests/cli
  echo '"$PWD/tests/programs/sum"' >tests/cli/x.bats
  echo 'summary "$builddir/tests/fault/loop"' >tests/lib/y.bash
  built=$(PYTHONPATH=$src/tests/mutants python3 -B -c 'import mutate
tree = mutate.Tree.__new__(mutate.Tree)
tree.sources, tree.helpers = ".", ["tests/programs/sum", "tests/programs/ends", "tests/fault/loop"]
print(*tree.started_by("tests/cli/x.bats"))')
  [[ $built == "tests/programs/sum tests/fault/loop" ]]
}

@test "a test that takes too long is torn down, and nothing of it stays" {
  mkdir -p build/tests
  cd build
  : >tests/environment
  # Its last child is deaf and has to be killed.
  cat >slow <<'END'
#!/usr/bin/env bash
mktemp >left
(trap 'sleep 0.3; echo >down; exit' TERM; setsid --wait sleep 60) &
(trap "" TERM; exec sleep 60) &
echo $! >deaf
setsid --wait sleep 60
END
  printf '%s\n' '#!/usr/bin/env bash' 'mktemp >left' >quick
  chmod +x slow quick
  passes() {
    PYTHONPATH=$src/tests/mutants python3 -B -c 'import mutate, sys
mutate.TEARDOWN_SECONDS = 2
tree = mutate.Tree.__new__(mutate.Tree)
tree.build = "."
sys.exit(not tree.passes(sys.argv[1], 2))' "$1"
  }
  if passes slow; then return 1; fi
  [[ -e down && -s left && ! -e $(<left) && ! -e $(dirname "$(<left)") ]]
  [[ ! -e /proc/$(<deaf) || $(</proc/"$(<deaf)"/stat) == *') Z '* ]]
  passes quick
  [[ -s left && ! -e $(<left) ]]
}

@test "each line of the list of equivalent mutants is one that can be made, with a reason" {
  local file old new reason
  while IFS=$'\t' read -r file old new reason; do
    [[ $file != '#'* ]] || continue
    [[ -n $reason ]] || { echo "$file: no reason: $old"; return 1; }
    grep -qF -- "$old" "$src/$file" || { echo "$file: there is no line: $old"; return 1; }
    python3 "$src/tests/mutants/mutate.py" --show "$src/$file" | grep -qF -- ": $new" ||
      { echo "$file: no mutant: $new"; return 1; }
  done <"$src/tests/mutants/equivalent"
}

@test "nine of ten mutants are killed" {
  [[ -n ${RINGUP_TEST_LONG:-} ]] || skip "RINGUP_TEST_LONG is not set"
  # It changes the sources, which tests/run has copied; nobody's own are touched.
  [[ -n ${RINGUP_TEST_SOURCES:-} && ! $src -ef $RINGUP_TEST_SOURCES ]] || skip "needs sources that are a copy: tests/run --shard mutants"
  python3 "$src/tests/mutants/mutate.py" --count "${RINGUP_TEST_MUTANTS:-50}" \
    --seed "$((0x$(git -C "$RINGUP_TEST_SOURCES" rev-parse --short=7 HEAD 2>/dev/null || echo 0)))" "$src" "$builddir" >&3
}
