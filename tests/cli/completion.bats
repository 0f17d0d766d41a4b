#!/usr/bin/env bats
# completion.bats - bash completion knows what `ringup help` knows.
# needs: cpu
# tests: completion src/cli

load ../lib/helper

# complete_words WORD... - what is offered for the last of these words.
complete_words() {
  COMP_WORDS=(ringup "$@")
  COMP_CWORD=$#
  _ringup
  printf '%s\n' "${COMPREPLY[@]}"
}

setup() {
  # shellcheck source=/dev/null
  source "$src/completion/ringup.bash"
}

@test "commands are completed" {
  [[ $(complete_words en) == env ]]
  [[ $(complete_words '' | grep -v -- --) == "$(ringup help --list-commands)" ]]
}

@test "options are completed" {
  [[ $(complete_words env --na) == --names ]]
  [[ $(complete_words help --list-o) == --list-options ]]
}

@test "commands are completed behind help" {
  [[ $(complete_words help en) == env ]]
}

@test "a misspelt setting does not break completion" {
  [[ $(RINGUP_FUSION_BITES=1 complete_words en) == env ]]
}

@test "nothing is offered behind --" {
  [[ -z $(complete_words env -- --na) ]]
}

@test "nothing is offered behind a program, and everything before it" {
  local words
  for words in "ls" "-np 2 ls" "--np 2 ls" "-n 2 -x A = B --no-prefix ls -l" "--ranks = 2 ls x" "-n4 ls"; do
    # shellcheck disable=SC2086
    [[ -z $(complete_words run $words --no) ]] || { echo "$words"; return 1; }
  done
  for words in "" "-np 2" "-n 2 -x A = B" "--ranks = 2" "--no-prefix -o ls" "-n4"; do
    # shellcheck disable=SC2086
    [[ $(complete_words run $words --no) == --no-prefix ]] || { echo "$words"; return 1; }
  done
  # Where operands are no program, options stand behind them as well.
  [[ $(complete_words bench allreduce --in-p) == --in-place ]]
}

@test "an unknown command offers nothing and says nothing" {
  run complete_words nonsense --x
  [[ $output == --help || -z $output ]]
}
