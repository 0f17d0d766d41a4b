#!/usr/bin/env bats
# words.bats - spelling, words of comments, promises about networks, and nothing of the machine it was made on.
# needs: cpu
# tests: src tests docs init-scripts compat completion Makefile.am configure.ac README.md HACKING.md NEWS.md

load ../lib/helper

# texts - every file that people read, but not what a build made.
texts() {
  find "$src" -mindepth 1 \( -name .git -o -name build-aux -o -name autom4te.cache -o -path "$src/build*" -o -name __pycache__ -o -name '*.egg-info' \) -prune -o \
    -type f \( -name '*.[ch1-9]' -o -name '*.md' -o -name '*.def' -o -name '*.bash' -o -name '*.bats' -o -name '*.py' \
    -o -name '*.mk' -o -name '*.am' -o -name '*.ac' -o -name '*.sh' -o -name '*.tsv' -o -name '*.toml' -o -name run -o -name ringup-init \) -print | sort
}

@test "codespell finds nothing" {
  command -v codespell >/dev/null || skip "codespell is not installed"
  texts | xargs codespell --ignore-words="$src/tests/lint/words"
}

# In the names of structs, functions and files; as English words they are as good as others.
@test "no retired word names anything in the engine and below it" {
  local word now
  while read -r word now; do
    run grep -nE "\<struct $word\>|\<${word}_[a-z]" "$src"/src/{wire,backend,engine,api}/*.[ch]
    [[ -z $output ]] || { echo "say $now:"; echo "$output"; return 1; }
    [[ -z $(compgen -G "$src/src/*/$word.[ch]") ]] || { echo "say $now: $word.[ch]"; return 1; }
  done < <(grep -v '^#' "$src/tests/lint/retired")
}

# prose FILE... - what tests/lint/prose.py finds in them.
prose() { python3 "$src/tests/lint/prose.py" "$src/tests/lint/retired" "$@"; }

@test "comments and documents: articles fit their nouns, variables exist, no retired word" {
  run prose "$src"/*.md "$src"/docs/*.md "$src"/docs/man/*.[1-9] "$src"/src/*.h "$src"/src/*/*.{c,h,def} \
    "$src"/tests/{unit,whole,device,programs}/*.[ch] "$src"/tests/*/*.bats "$src"/init-scripts/*/*.bash
  [[ $status = 0 && -z $output ]] || { echo "$output"; return 1; }
}

@test "an article that was left behind, a variable of former times and a retired word are found" {
  local d=$BATS_TEST_TMPDIR/src/engine
  mkdir -p "$d"
  printf '%s\n' '/* Copies a' ' * info of l->run; a one and an hour pass. */' 'int seat(struct comm *c);' \
    'bool told; /* told */ char *s = "told";' >"$d/x.c"
  echo 'An progress thread. An `x` thread, a `y` item.' >"$d/x.md"
  run prose "$d/x.c" "$d/x.md"
  echo "$output"
  [[ $status = 0 && ${#lines[@]} = 5 && ${lines[0]} == "$d/x.c:1: article: a  "*info && ${lines[1]} == "$d/x.c:2: "*"l->" &&
    ${lines[2]} == "$d/x.c:3: say waiter: seat" && ${lines[3]} == "$d/x.c:4: say reported: told" &&
    ${lines[4]} == "$d/x.md:1: article: An progress" ]]
}

# A backtrace of `take <- step <- look` tells nothing; a static function has its object in its name.
@test "no name of a static function stands in more than three files of src" {
  run awk 'FNR == 1 { split("", seen) }
    /^static / && !/[=;]/ && match($0, /[a-z_0-9]+\(/) {
      name = substr($0, RSTART, RLENGTH - 1)
      if (name !~ /^__/ && !seen[name]++) { files[name] = files[name] " " FILENAME; n[name]++ }
    }
    END { for (name in n) if (n[name] > 3) print name ":" files[name] }' "$src"/src/*/*.c
  [[ -z $output ]] || { echo "$output"; return 1; }
}

@test "no file tells where it was made" {
  local where=$src
  [[ ! -d ${builddir:-/nonexistent} ]] || where=$(cd "$builddir" && pwd)
  run bash -c 'xargs grep -nF -e "$1" -e "$2"' grep "$(cd "$src" && pwd)/" "$where/" < <(texts)
  [[ -z $output ]] || { echo "$output"; return 1; }
  # A home, a workspace or a mount of one person; examples use /opt, /srv and /tmp.
  run bash -c 'xargs grep -nE "(^|[^a-z./\$}])/(home/[a-z]|work/|mnt/|Users/)"' < <(texts | grep -v lint/words.bats)
  [[ -z $output ]] || { echo "$output"; return 1; }
}

@test "nothing listens on all addresses" {
  # To compare with it, and refuse, is fine.
  run grep -nE '\b(INADDR_ANY|in6addr_any|IN6ADDR_ANY_INIT)\b' -r "$src/src"
  [[ -z $(grep -vE '[!=]= *(htonl\()?INADDR_ANY' <<<"$output") ]] || { echo "$output"; return 1; }
  # In Python a name that is empty, or no address, means all of them.
  run grep -nP '\b(bind|create_server|\w*Server)\(+\s*(["\x27]{2}|None|["\x27](0\.0\.0\.0|::)["\x27])\s*[,)]' -r "$src/compat" --include='*.py'
  [[ -z $output ]] || { echo "$output"; return 1; }
}

@test "no shell, and no string functions without a bound" {
  run grep -nE '\b(system|popen|gets|strcpy|strcat|tmpnam|mktemp) ?\(' -r "$src/src" --include='*.[ch]'
  [[ -z $output ]] || { echo "$output"; return 1; }
}

# Horovod's broadcast_object and allgather_object pickle by definition, between
# ranks that have proved the job's secret; they are in objects.py. horovod.run() and the launcher's
# services check signature or owner first, in codec.py. Nothing else does.
@test "Python neither pickles nor evaluates what it gets" {
  run grep -nE '\b(eval|exec|pickle\.loads?|marshal\.loads?)\(|shell=True' -r "$src/compat" --include='*.py' --exclude={objects,codec,pickling}.py
  [[ -z $output ]] || { echo "$output"; return 1; }
}

# "area: what it does": the area is a folder of src/layers, src for several of them, or one of these.
@test "the last commit's subject is in order" {
  local repo=${RINGUP_TEST_SOURCES:-$src} subject area
  git -C "$repo" rev-parse --git-dir >/dev/null 2>&1 || skip "not a git clone"
  subject=$(git -C "$repo" log -1 --no-merges --format=%s)
  area=${subject%%:*}
  grep -qxF -- "$area" "$src/src/layers" || [[ $area =~ ^(src|init|compat|tests|docs|build)$ ]] ||
    { echo "area: $subject"; return 1; }
  [[ ${#subject} -le 60 && $subject != *. && $subject == "$area: "* ]] || { echo "$subject"; return 1; }
}

@test "NEWS.md begins with the version of configure.ac" {
  local version
  version=$(sed -n 's/^AC_INIT(\[ringup\], \[\(.*\)\])/\1/p' "$src/configure.ac")
  head -n 5 "$src/NEWS.md" | grep -qF "## $version"
}

@test "links between documents lead somewhere" {
  local f target
  for f in "$src"/*.md "$src"/docs/*.md; do
    while read -r target; do
      [[ -e ${f%/*}/${target%%#*} ]] || { echo "$f: $target"; return 1; }
    done < <(grep -oE '\]\([^)]+\)' "$f" | sed 's/^](//; s/)$//' | grep -vE '^(https?:|#|mailto:)')
  done
}

# numbers SUMMARY - print its numbers that stand in none of the pages that it names for them.
numbers() { awk -v folder="${1%/*}" -f "$src/tests/lint/numbers.awk" "$1"; }

@test "each number of BENCHMARKS.md stands in the page that it names" {
  run numbers "$src/docs/BENCHMARKS.md"
  echo "$output"
  [[ $status = 0 && -z $output ]]
}

@test "a number that stands in no page is found" {
  mkdir "$BATS_TEST_TMPDIR/bench"
  echo 'It takes 1,234 us, 2.5 times as long.' >"$BATS_TEST_TMPDIR/bench/a.md"
  echo 'It takes 7.' >"$BATS_TEST_TMPDIR/bench/b.md"
  cat >"$BATS_TEST_TMPDIR/summary.md" <<'EOF'
## Summary

| what | [a](bench/a.md) | [b](bench/b.md) |
|---|--:|--:|
| fine | 2.5 | 7 |
| of the other page | 7 | |

| what | how long | page |
|---|--:|---|
| fine | 1,234 us | [a](bench/a.md) |
| invented | 1,235 us | [a](bench/a.md) |

## Where peers win

- Fine: 7 ([b](bench/b.md)).
- No page: 2.5.
EOF
  run numbers "$BATS_TEST_TMPDIR/summary.md"
  echo "$output"
  [[ ${#lines[@]} = 3 && ${lines[0]} == '7 is not in bench/a.md '* && ${lines[1]} == '1235 is not in bench/a.md '* &&
    ${lines[2]} == '2.5 is not in any page'* ]]
}

# Behind a block of commands stands <!-- TEST: WORD... -->: the words are in the block and in the test.
@test "each command of the migration guide has a test" {
  local line block='' blocks=0 named words w
  while IFS= read -r line; do
    if [[ $line == '    '* ]]; then
      block+=$line$'\n'
    elif [[ -n $block ]]; then
      [[ $line =~ ^'<!-- '([^:]+)': '(.+)' -->'$ ]] || { echo "no test is named behind: $block"; return 1; }
      named=${BASH_REMATCH[1]} words=${BASH_REMATCH[2]}
      for w in $words; do
        [[ $block == *"$w"* ]] && grep -qF -e "${w%% *}" "$src/$named" || { echo "$named: $w"; return 1; }
      done
      block='' blocks=$((blocks + 1))
    fi
  done <"$src/docs/migration.md"
  ((blocks > 3))
}

@test "no line of these documents is longer than 120 characters, but of a table or a program" {
  run awk '
    FNR == 1 { program = 0 }
    /^ *```/ { program = !program }
    !program && !/^\|/ && !/^    / && length($0) > 120 { print FILENAME ":" FNR }' \
    "$src"/{HACKING,NEWS,README}.md "$src"/docs/bench/*.md \
    "$src"/docs/{BENCHMARKS,DESIGN,HISTORY,RELIABILITY,TORCH-TESTS,WHY}.md \
    "$src"/docs/{databricks,horovod,migration,network,torch-distributed}.md
  echo "$output"
  [[ $status = 0 && -z $output ]]
}
