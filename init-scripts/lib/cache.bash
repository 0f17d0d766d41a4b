# shellcheck shell=bash
# cache.bash - take the engine from the folder that nodes share; see src/rebuild/cache.h for its form.
#
# Here it is only looked for and checked, with openssl and sha256sum, since on a fresh node there is
# no ringup yet; `ringup cache put` publishes what was built.

# cache_why - print why no cache is used, or nothing.
cache_why() {
  if [[ -z ${RINGUP_CACHE:-} ]]; then
    echo "RINGUP_CACHE is not set"
  elif [[ -e $RINGUP_CACHE ]] && ! [[ -d $RINGUP_CACHE && -x $RINGUP_CACHE ]]; then
    echo "$RINGUP_CACHE is not a folder that can be entered"
  elif ! openssl pkeyutl -help 2>&1 | grep -q -e -rawin; then
    echo "openssl 3, which verifies the entries of $RINGUP_CACHE, is not installed"
  fi
}

# cache_signs - may this node publish: has it the private key?  (Which no trace of bash shows.)
cache_signs() { [[ -v RINGUP_CACHE_KEY ]] && (( ${#RINGUP_CACHE_KEY} )); }

# cache_keys DIR - write each key that is believed to a file in DIR, as openssl reads it.
cache_keys() {
  local - word n=0
  set -f
  for word in ${RINGUP_CACHE_TRUST//,/ }; do
    (( ++n ))
    case $word in
      [./]*) cp -- "$word" "$1/$n.pub" ;;
      *) printf -- '-----BEGIN PUBLIC KEY-----\n%s\n-----END PUBLIC KEY-----\n' "$word" >"$1/$n.pub" ;;
    esac || die "RINGUP_CACHE_TRUST: cannot read ${word:0:80}"
  done
  ! cache_signs || cache_own >"$1/own.pub" 2>/dev/null ||
    die "RINGUP_CACHE_KEY is not a private key: set it to the key's file, or to the line in that file"
}

# cache_own - print the public half of the private key.
cache_own() {
  local -
  set +x
  case $RINGUP_CACHE_KEY in
    [./]*) openssl pkey -in "$RINGUP_CACHE_KEY" -pubout ;;
    *) printf -- '-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n' "$RINGUP_CACHE_KEY" | openssl pkey -pubout ;;
  esac
}

# cache_get KEY INTO - unpack the entry if it is good; 1: not there, 2: not to be believed, 3: damaged,
# 4: who knows, for there is no room here.
cache_get() {
  local tmp=$2.check pub head='' sign='' rc=2
  [[ -f $RINGUP_CACHE/$1 ]] || return 1
  rm -rf -- "$tmp"
  mkdir -p -- "$tmp/keys" "$tmp/into"
  cache_keys "$tmp/keys"
  # of the copy: nobody can change it between the check and the use
  shared_copy "$RINGUP_CACHE/$1" "$tmp/entry" || rc=1
  { read -rd $'\n' head && read -rd $'\n' sign; } 2>/dev/null <"$tmp/entry" || true
  printf '%s\n' "$head" >"$tmp/head"
  if (( rc == 2 )) && base64 -d <<<"$sign" >"$tmp/sign" 2>/dev/null; then
    for pub in "$tmp"/keys/*.pub; do
      openssl pkeyutl -verify -pubin -inkey "$pub" -rawin -in "$tmp/head" -sigfile "$tmp/sign" >/dev/null 2>&1 || continue
      rc=3
      [[ $head =~ ^ringup-cache/2\ $1\ ([0-9a-f]{64})\ [^\ ]+$ ]] &&
        [[ $(tail -n +3 -- "$tmp/entry" | sha256sum) == "${BASH_REMATCH[1]} "* ]] &&
        tail -n +3 -- "$tmp/entry" | tar --no-same-owner -C "$tmp/into" -xpf - 2>/dev/null && mv -T -- "$tmp/into" "$2" && rc=0
      break
    done
  fi
  # what this node could not write says nothing about the entry
  (( rc == 0 )) || head -c 1048576 /dev/zero 2>/dev/null >"$tmp/room" || rc=4
  rm -rf -- "$tmp"
  return "$rc"
}

# cache_provide KEY INTO WAIT - have the entry in INTO; 1: it must be built here, after WAIT seconds without it.
cache_provide() {
  local rc began told=''
  uptime; began=$REPLY
  while :; do
    rc=0
    cache_get "$1" "$2" || rc=$?
    uptime
    case $rc in
      0) number waited_s "$((REPLY - began))"; return 0 ;;
      2) warn "entry ${1:0:12}... of $RINGUP_CACHE is not signed by a key in RINGUP_CACHE_TRUST; building here"; return 1 ;;
      3) warn "entry ${1:0:12}... of $RINGUP_CACHE is damaged; building here"; return 1 ;;
      4) stop 50 "no space below $INIT_STATE for the entry of $RINGUP_CACHE" "free some space (df -h), then run ringup-init again" ;;
    esac
    if (( REPLY - began >= $3 )); then
      [[ -z $told ]] || warn "waited $3 s for another node's build; building here"
      return 1
    fi
    [[ -n $told ]] || log info "waiting up to $3 s for another node's build"
    told=1
    sleep 1
  done
}
