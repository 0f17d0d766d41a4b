# shellcheck shell=bash
# cache.bash - the engine from the folder that nodes share; see src/rebuild/cache.h for its form.
#
# Here it is only looked for, checked and locked, with openssl and sha256sum, since on a fresh
# node there is no ringup yet; `ringup cache put` publishes what was built.

# cache_why - print why no cache is used, or nothing.
cache_why() {
  if [[ -z ${RINGUP_CACHE:-} ]]; then
    echo "RINGUP_CACHE names none"
  elif [[ -e $RINGUP_CACHE ]] && ! [[ -d $RINGUP_CACHE && -x $RINGUP_CACHE ]]; then
    echo "$RINGUP_CACHE is not a folder that can be entered"
  elif ! openssl pkeyutl -help 2>&1 | grep -q -e -rawin; then
    echo "no openssl 3 here to check what is in $RINGUP_CACHE"
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
    die "RINGUP_CACHE_KEY is not a private key: a file, or the line in it"
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

# cache_list MANIFEST KEY - check it and print MODE SIZE SHA-256 PATH or link - TARGET PATH, or fail.
cache_list() {
  awk -v key="$2" 'function name(p) {
      return p ~ /^[!-[\]-~]+$/ && length(p) < 1024 && "/" p "/" !~ /\/(\.\.?)?\//
    } function bad() { failed = 1; exit 1 }
    NR == 1 { if ($0 != "ringup-cache/1") bad(); next }
    NR == 2 { if ($0 != "key " key) bad(); next }
    NR == 3 { if ($1 != "signer" || NF != 2) bad(); next }
    ended || NR > 50004 { bad() }
    $1 == "file" && NF == 5 && ($2 == 644 || $2 == 755) && $4 ~ /^[0-9a-f]+$/ && length($4) == 64 && name($5) {
      print $2, $3, $4, $5; n++; next }
    $1 == "link" && NF == 3 && name($3) {
      up = gsub(/\//, "/", $3); t = $2
      while (sub(/^\.\.\//, "", t)) if (--up < 0) bad()
      if (!name(t)) bad()
      print "link", "-", $2, $3; n++; next }
    $1 == "end" && $2 == n + 0 && NF == 2 { ended = 1; next }
    { bad() }
    END { exit failed || !ended }' "$1"
}

# cache_copy TMP - what TMP/list says, from the entry TMP/from to TMP/into; nothing is written through a link.
cache_copy() {
  local mode sum path odd into=$1/into
  mkdir -p -- "$into"
  awk '$1 != "link" { print $4 }' "$1/list" >"$1/names"
  odd=$(cd -- "$1/from/files" && find . \( -type f -o -type d \) -printf '' -o -print -quit) || return 1
  [[ -z $odd ]] || return 1
  tar -C "$1/from/files" --no-recursion --verbatim-files-from -T "$1/names" -cf - 2>/dev/null |
    tar -C "$into" --no-same-owner --no-same-permissions -xf - || return 1
  odd=$(find "$into" -mindepth 1 -not -type f -not -type d -print -quit)
  [[ -z $odd ]] || return 1
  [[ ! -s $1/names ]] || awk '$1 != "link" { print $3 "  " $4 }' "$1/list" |
    (cd -- "$into" && sha256sum --check --strict --status) || return 1
  while read -r mode _ sum path; do
    case $mode in
      755) chmod 755 -- "$into/$path" ;;
      link) mkdir -p -- "$(dirname -- "$into/$path")" && ln -s -- "$sum" "$into/$path" ;;
    esac || return 1
  done <"$1/list"
}

# cache_get KEY INTO - copy the entry if it is good; 1: not there, 2: not to be believed, 3: damaged,
# 4: who knows, for there is no room here.
cache_get() {
  local tmp=$2.check pub rc=2
  local entry=$RINGUP_CACHE/$1
  [[ -d $entry ]] || return 1
  rm -rf -- "$tmp"
  mkdir -p -- "$tmp/keys"
  cache_keys "$tmp/keys"
  ln -s -- "$(readlink -f -- "$entry")" "$tmp/from"
  # of the copies: nobody can change them between the check and the use
  shared_peek "$entry/MANIFEST" 8388608 >"$tmp/m"
  shared_peek "$entry/MANIFEST.sig" 64 >"$tmp/s"
  if [[ -s $tmp/m && -s $tmp/s ]]; then
    for pub in "$tmp"/keys/*.pub; do
      openssl pkeyutl -verify -pubin -inkey "$pub" -rawin -in "$tmp/m" -sigfile "$tmp/s" >/dev/null 2>&1 || continue
      rc=3
      cache_list "$tmp/m" "$1" >"$tmp/list" && cache_copy "$tmp" && mv -T -- "$tmp/into" "$2" && rc=0
      break
    done
  fi
  # what this node could not write says nothing about the entry
  (( rc == 0 )) || head -c 1048576 /dev/zero 2>/dev/null >"$tmp/room" || rc=4
  rm -rf -- "$tmp"
  return "$rc"
}

# cache_aside KEY - a damaged entry goes to quarantine, if this node may do that.
cache_aside() {
  warn "entry ${1:0:12}... of $RINGUP_CACHE is damaged; it goes to quarantine and is built again"
  mkdir -- "$RINGUP_CACHE/quarantine" 2>/dev/null || true
  shared_in "$RINGUP_CACHE/quarantine" mv -T -- "$RINGUP_CACHE/$1" "./$1.$(printf '%(%s)T' -1).$$" 2>/dev/null || true
}

# cache_holds LOCK - is it this run's?
cache_holds() { shared_peek "$1/owner.json" 4096 | grep -qsF "${INIT_TOKEN:-none}"; }

# cache_lock KEY - 0: this run builds; 1: somebody else does; 2: nobody can lock anything there.
cache_lock() {
  local lock=$RINGUP_CACHE/$1.lock
  ! cache_holds "$lock" || return 0
  mkdir -- "$RINGUP_CACHE" 2>/dev/null || true
  if ! mkdir -- "$lock" 2>/dev/null; then
    [[ -d $lock ]] && return 1
    return 2
  fi
  ! shared_in_own "$lock" cache_sign || return 0
  rm -rf -- "$lock"
  return 2
}

# cache_sign - say in the lock that is the working folder whose it is.
cache_sign() {
  printf '{"host":"%s","identity":"%s","token":"%s","pid":%d,"start":%s,"lease_ms":15000}' "$(uname -n | tr -dc 'A-Za-z0-9._-')" \
    "$(cache_here)" "$INIT_TOKEN" "$INIT_PID" "$(cache_start "$INIT_PID")" | shared_make ./owner.json &&
    printf '%014d\n' 0 | shared_make ./beat
}

# cache_here - print what is the same for all whose process numbers mean the same.
cache_here() { printf 'init:%s:%s' "$(cat /proc/sys/kernel/random/boot_id)" "$(readlink /proc/self/ns/pid)"; }

# cache_start PID - print when it started, as the kernel counts; 0: there is none.
cache_start() {
  local stat=''
  read -r stat <"/proc/$1/stat" || true
  stat=${stat##*) }
  # shellcheck disable=SC2086
  set -- $stat
  printf '%s' "${20:-0}"
}

# cache_is_dead LOCK SILENT - is its owner, whose text has been the same for SILENT seconds?
cache_is_dead() {
  local text pid start lease
  text=$(shared_peek "$1/owner.json" 4096 | tr -d '\0')
  pid=$(json_of pid "$text") start=$(json_of start "$text") lease=$(json_of lease_ms "$text")
  if [[ $(json_of identity "$text") == "$(cache_here)" && $pid =~ ^[1-9][0-9]{0,9}$ && $(cache_start "$pid") != "$start" ]]; then
    return 0
  fi
  [[ $lease =~ ^[1-9][0-9]{2,5}$ ]] || lease=5000
  (( $2 * 1000 > lease * 3 / 2 ))
}

# cache_break LOCK TEXT - take it from the dead, if TEXT is still what it says.  It is moved first: another
# node may have taken it a moment ago, and gets it back.
cache_break() {
  local gone=$1.gone.$INIT_TOKEN
  mv -T -- "$1" "$gone" 2>/dev/null || return 1
  [[ $(cache_text "$gone") == "$2" ]] || { mv -nT -- "$gone" "$1" 2>/dev/null; rm -rf -- "$gone"; return 1; }
  rm -rf -- "$gone"
}

# cache_text LOCK - print all that its owner changes while it lives.
cache_text() { { shared_peek "$1/owner.json" 4096; shared_peek "$1/beat" 4096; } | tr -d '\0'; }

# cache_free - give back what this run has locked.
cache_free() {
  local lock
  for lock in "${RINGUP_CACHE:-/nonexistent}"/*.lock; do
    ! cache_holds "$lock" || rm -rf -- "$lock"
  done
}

# cache_beat - keep the locks of this run fresh, for as long as the runner lives.
cache_beat() {
  local n=0 lock fd
  exec {fd}<> <(:)
  while [[ -e /proc/$INIT_PID ]]; do
    read -rt 3 -u "$fd" || true
    for lock in "$RINGUP_CACHE"/*.lock; do
      ! cache_holds "$lock" || shared_in_own "$lock" cache_pulse "$((++n))" 2>/dev/null || true
    done
  done
}

# cache_pulse N - write it over what is in the beat of the lock that is the working folder.
cache_pulse() { printf '%014d\n' "$1" | dd of=./beat conv=notrunc,nocreat oflag=nofollow,nonblock status=none; }

# cache_provide KEY INTO WAIT YIELD - have the entry in INTO; 0: it is; 1: it must be built here, and
# is this run's to publish if cache_lock says so.  Waits WAIT seconds for whoever builds it, and
# YIELD seconds for somebody to begin.
cache_provide() {
  local rc began since clock text='' now lock=$RINGUP_CACHE/$1.lock told=''
  uptime; began=$REPLY since=$REPLY
  while :; do
    now=$(cache_text "$lock")
    uptime; clock=$REPLY
    [[ $now == "$text" ]] || { text=$now since=$clock; }
    rc=0
    cache_get "$1" "$2" || rc=$?
    case $rc in
      0) number waited_s "$((clock - began))"; return 0 ;;
      2) warn "entry ${1:0:12}... of $RINGUP_CACHE is not signed by a key of RINGUP_CACHE_TRUST; built here"; return 1 ;;
      3) cache_aside "$1" ;;
      4) stop 50 "no room below $INIT_STATE for what is in $RINGUP_CACHE" "make room (df -h), then run this again" ;;
    esac
    if [[ -d $lock ]] && cache_is_dead "$lock" "$((clock - since))"; then
      cache_break "$lock" "$now" || [[ ! -d $lock ]] || return 1
    elif [[ ! -d $lock ]] && (( clock - began >= $4 )); then
      cache_signs || return 1
      rc=0
      cache_lock "$1" || rc=$?
      (( rc == 1 )) || {
        # it may have come since we looked
        (( rc == 2 )) || ! cache_get "$1" "$2" || { cache_free; return 0; }
        return 1
      }
    elif cache_holds "$lock"; then
      return 1
    elif (( clock - began >= $3 )); then
      warn "waited $3 s for somebody else's build; built here"
      return 1
    else
      [[ -n $told ]] || log info "waiting up to $3 s for $(json_of host "$now") to build it"
      told=1
      sleep 1
    fi
  done
}
