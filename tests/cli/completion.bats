#!/usr/bin/env bats
# completion.bats - bash completion knows what `ringup help` knows.

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

@test "an unknown command offers nothing and says nothing" {
  run complete_words nonsense --x
  [[ $output == --help || -z $output ]]
}
