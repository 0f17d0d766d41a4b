# shellcheck shell=bash
# ringup.bash - completion: it gets all words from `ringup help`.

# _ringup_ask WORD... - `ringup help WORD...`, also where a setting is misspelt.
_ringup_ask() {
  (
    unset "${!RINGUP_@}"
    ringup help "$@" 2>/dev/null
  )
}

# _ringup_takes_value USAGE WORD - is WORD an option whose value is the next word?
_ringup_takes_value() {
  [[ $2 =~ ^--?([a-z-]+)$ ]] && grep -qE -- "^ +(-., )?--?${BASH_REMATCH[1]}(, --[a-z-]+)?[= ][A-Z]" <<<"$1"
}

# _ringup_is_program USAGE - is there a program's name before COMP_CWORD?  Bash makes a word of each "=".
_ringup_is_program() {
  local i word before=
  [[ $1 == *' COMMAND [ARGUMENT]...'* ]] || return 1
  for ((i = 2; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    [[ $word == [-=]* || $before == '=' ]] || _ringup_takes_value "$1" "$before" || return 0
    before=$word
  done
  return 1
}

# _ringup - fill COMPREPLY for the word at COMP_CWORD.
_ringup() {
  local word=${COMP_WORDS[COMP_CWORD]} cmd=${COMP_WORDS[1]:-} subs i
  local -a path=("$cmd")
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$(_ringup_ask --list-commands) --help --version" -- "$word")
    return
  fi
  subs=$(_ringup_ask --list-commands "$cmd")
  if [[ $cmd == help || -n $subs ]] && ((COMP_CWORD == 2)); then
    [[ $cmd != help ]] || subs=$(_ringup_ask --list-commands)
    [[ $word != -* ]] || subs=$(_ringup_ask --list-options "$cmd")
    mapfile -t COMPREPLY < <(compgen -W "$subs --help" -- "$word")
    return
  fi
  [[ -z $subs ]] || path+=("${COMP_WORDS[2]}")
  [[ $word == -* ]] || return 0
  # Behind these it is another program's command line.
  for ((i = 1 + ${#path[@]}; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} != -- ]] || return 0
  done
  ! _ringup_is_program "$(_ringup_ask "${path[@]}")" || return 0
  mapfile -t COMPREPLY < <(compgen -W "$(_ringup_ask --list-options "${path[@]}") --help" -- "$word")
}

complete -o default -F _ringup ringup
