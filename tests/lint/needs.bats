#!/usr/bin/env bats
# needs.bats - every test file says what it needs to run, and which changes are its business.
# needs: cpu
# tests: tests

load ../lib/helper

# headers - print FILE<tab>KEY<tab>REST for each `# needs:` and `# tests:` line in the comment at the
# top of each test file in Bats or Python, and FILE<tab>top for the file itself.
headers() {
  (cd "$src" && awk -v OFS='\t' '
    FNR == 1 { print FILENAME, "top" }
    !/^#/ { nextfile }
    match($0, /^# (needs|tests):/) { print FILENAME, substr($0, 3, RLENGTH - 3), substr($0, RLENGTH + 1) }' \
    tests/*/*.bats tests/py/test_*.py)
}

# faults_in HEADERS - print what is wrong with them, and the cure.
faults_in() {
  bash -c '
    cd "$1" && shopt -s nullglob
    cure="the comment at its top says # needs: WORD... (cpu, waits, quiet, root-net) and # tests: PATH... (files, folders or globs), a line each"
    tell() { printf "%s: %s; %s\n" "$1" "$2" "$cure"; }
    declare -A seen=()
    files=()
    while IFS=$'"'\t'"' read -r file key rest; do
      [[ $key != top ]] || { files+=("$file"); continue; }
      seen[$file $key]+=x
      set -f; words=($rest); set +f
      ((${#words[@]})) || tell "$file" "nothing behind # $key:"
      for word in "${words[@]}"; do
        if [[ $key == needs ]]; then
          [[ $word == @(cpu|waits|quiet|root-net) ]] || tell "$file" "# needs: $word is no known word"
        else
          found=($word)
          [[ -e $word || (${#found[@]} -gt 0 && -e ${found[0]}) ]] || tell "$file" "# tests: $word does not exist"
        fi
      done
    done
    for file in "${files[@]}"; do
      for key in needs tests; do
        case ${seen[$file $key]:-} in
          "") tell "$file" "no line # $key:" ;;
          x) ;;
          *) tell "$file" "two lines # $key:" ;;
        esac
      done
    done' bash "$src"
}

@test "every test file says what it needs and what it tests" {
  run faults_in < <(headers)
  [[ -z $output ]] || { echo "$output"; return 1; }
}

@test "a missing line, an unknown word and a path that is gone are found" {
  run faults_in < <(tr '|' '\t' <<'EOT'
tests/a.bats|top
tests/a.bats|needs| cpu
tests/b.bats|top
tests/b.bats|needs| cpu sleep
tests/b.bats|tests| src/base/err.c src/*/err.[ch] tests src/gone.c src/gone/*.c
tests/c.bats|top
tests/c.bats|needs| waits
tests/c.bats|needs|
tests/c.bats|tests| src
EOT
  )
  [[ ${#lines[@]} -eq 6 ]]
  local fault
  for fault in 'tests/a.bats: no line # tests:;' 'tests/b.bats: # needs: sleep is no known word;' \
    'tests/b.bats: # tests: src/gone.c does not exist;' 'tests/b.bats: # tests: src/gone/*.c does not exist;' \
    'tests/c.bats: nothing behind # needs:;' 'tests/c.bats: two lines # needs:;'; do
    [[ $output == *"$fault"* ]] || { echo "not found: $fault"; return 1; }
  done
}
