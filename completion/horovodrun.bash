# shellcheck shell=bash
# horovodrun.bash - completion: it gets all words from `horovodrun --help`.

# _horovodrun - fill COMPREPLY for the word at COMP_CWORD.
_horovodrun() {
  local word=${COMP_WORDS[COMP_CWORD]} before='' help i
  COMPREPLY=()
  [[ $word == -* ]] || return 0
  help=$(horovodrun --help 2>/dev/null)
  # Behind the name of a program it is that program's command line; Bash makes a word of each "=".
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} != -- ]] || return 0
    [[ ${COMP_WORDS[i]} == [-=]* || $before == '=' ]] ||
      grep -qE -- "(^| )$before(, --[a-z-]+)?[= ][A-Z]" <<<"$help" || return 0
    before=${COMP_WORDS[i]}
  done
  mapfile -t COMPREPLY < <(compgen -W "$(grep -oE '^  (-., |    )--?[a-z-]+' <<<"$help" | grep -oE -- '--?[a-z]{2}[a-z-]*')" -- "$word")
}

complete -o default -F _horovodrun horovodrun
