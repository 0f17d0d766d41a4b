# shellcheck shell=bash
# ringup.bash - completion: everything it knows it asks of `ringup help`.

# _ringup_ask WORD... - `ringup help WORD...`, also where a setting is misspelt.
_ringup_ask() {
  (
    unset "${!RINGUP_@}"
    ringup help "$@" 2>/dev/null
  )
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
  # Behind the first operand it is another program's command line.
  for ((i = 1 + ${#path[@]}; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} != -- ]] || return 0
  done
  [[ $word == -* ]] || return 0
  mapfile -t COMPREPLY < <(compgen -W "$(_ringup_ask --list-options "${path[@]}") --help" -- "$word")
}

complete -o default -F _ringup ringup
