# shellcheck shell=bash
# json.bash - the few pieces of JSON that are written before `ringup` is built.

# json_bytes TEXT - put the value of each byte of TEXT into the array bytes.
json_bytes() {
  local i code
  bytes=()
  for (( i = 0; i < ${#1}; i++ )); do
    printf -v code %d "'${1:i:1}"
    bytes+=($(( code & 255 )))
  done
}

# json_sequence I - set len to the length of the UTF-8 sequence at bytes[I], or 0.
json_sequence() {
  local i=$1 lead=${bytes[$1]} low=128 high=191 j
  len=0
  case $lead in
    19[4-9] | 20[0-9] | 21[0-9] | 22[0-3]) j=2 ;;
    22[4-9] | 23[0-9]) j=3 ;;
    24[0-4]) j=4 ;;
    *) return 0 ;;
  esac
  # no overlong forms, no surrogates, nothing above U+10FFFF
  case $lead in 224) low=160 ;; 237) high=159 ;; 240) low=144 ;; 244) high=143 ;; esac
  len=$j
  for (( j = 1; j < len; j++ )); do
    if (( ${bytes[i + j]:-0} < low || ${bytes[i + j]:-0} > high )); then
      len=0
      return 0
    fi
    low=128 high=191
  done
}

# json_string TEXT - set REPLY to TEXT as a JSON string, whatever bytes it has;
# what is not UTF-8 becomes U+FFFD.
json_string() {
  local LC_ALL=C i len code c
  local -a bytes
  if [[ $1 != *[!\ -~]* && $1 != *[\"\\]* ]]; then
    REPLY="\"$1\""
    return 0
  fi
  json_bytes "$1"
  REPLY='"'
  for (( i = 0; i < ${#bytes[@]}; i++ )); do
    code=${bytes[i]} c=${1:i:1}
    if (( code == 34 || code == 92 )); then
      REPLY+="\\$c"
    elif (( code < 32 || code == 127 )); then
      printf -v c '\\u%04x' "$code"
      REPLY+=$c
    elif (( code < 128 )); then
      REPLY+=$c
    else
      json_sequence "$i"
      if (( len )); then REPLY+=${1:i:len}; else REPLY+='\ufffd'; fi
      (( i += len ? len - 1 : 0 )) || true
    fi
  done
  REPLY+='"'
}

# json_number TEXT - set REPLY to TEXT as a JSON number if it is one, else to null.
json_number() {
  if [[ $1 =~ ^-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?$ ]]; then
    REPLY=$1
  else
    REPLY=null
  fi
}

# json_word KEY TEXT - set REPLY to the number or word that the first KEY has in our own commands' JSON,
# or to nothing; starts no program.
json_word() {
  local form="\"$1\": *\"?([^\",}"$'\n'"]*)"
  REPLY=''
  [[ ! $2 =~ $form || ${BASH_REMATCH[1]} == null ]] || REPLY=${BASH_REMATCH[1]}
}

# json_text KEY TEXT - set REPLY to the text that the outermost object of our own commands' JSON has
# for KEY, whatever is in it, or to nothing.
json_text() {
  REPLY=''
  [[ $2 == *$'\n'"  \"$1\": \""* ]] || return 0
  REPLY=${2#*$'\n'"  \"$1\": \""} REPLY=${REPLY%%$'\n'*} REPLY=${REPLY%,} REPLY=${REPLY%\"}
  REPLY=${REPLY//\\\"/\"} REPLY=${REPLY//\\\\/\\}
}

# json_of KEY TEXT - print what json_word finds.
json_of() {
  json_word "$@"
  printf '%s\n' "$REPLY"
}
