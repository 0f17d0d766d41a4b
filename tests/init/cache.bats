#!/usr/bin/env bats
# cache.bats - nodes that share a folder: what one has built the others take, and check it first.
# needs: cpu
# tests: init-scripts tests/lib/release.bash src/rebuild src/cli/cmd_cache.c

load ../lib/helper
load ../lib/release

setup() {
  release_setup
  command -v openssl >/dev/null || skip "openssl is not installed"
  [[ $(openssl pkeyutl -help 2>&1) == *-rawin* ]] || skip "this openssl does not check raw input"
  ringup cache keygen "$T" >/dev/null
  export RINGUP_CACHE=$T/cache RINGUP_CACHE_KEY=$T/cache.key RINGUP_CACHE_TRUST=$T/cache.pub
}

# whole NAME [VARIABLE=VALUE...] - run ringup-init on the tree of that node, as it would there.
whole() {
  mkdir -p "$T/$1"/{etc,opt,usr/local,var}
  env "${@:2}" "$init" --root "$T/$1"
}

# node NAME [VARIABLE=VALUE...] - the same, but only the steps that have to do with the cache.
node() {
  mkdir -p "$T/$1"/{etc,opt,usr/local,var}
  env "${@:2}" "$init" --root "$T/$1" guard detect toolchain build install
}

# published - as it is once the node `first` has built the engine and published it.
published() {
  if [[ ! -d $BATS_FILE_TMPDIR/published ]]; then
    node first >"$T/out" 2>&1 || { cat "$T/out"; return 1; }
    keep published
  fi
  again published
}

# until_so LIMIT COMMAND... - wait until COMMAND is so; 1: it is not within LIMIT seconds.
until_so() {
  local end=$((SECONDS + $1))
  while ((SECONDS < end)); do
    ! "${@:2}" || return 0
    sleep 0.05
  done
  echo "never: ${*:2}"
  return 1
}

# waiting N - do N nodes wait for another's build?
waiting() { [[ $(grep -ls 'waiting up to' "$T"/out.* | wc -l) -eq $1 ]]; }

# builds - how often somebody has compiled.
builds() { if [[ -e $T/builds ]]; then wc -l <"$T/builds"; else echo 0; fi; }

# entry - the file of the one entry there is.
entry() { find "$T/cache" -maxdepth 1 -type f -regex '.*/[0-9a-f]*'; }

# installed NODE - is the engine there, and whole?
installed() { [[ -x $T/$1/opt/ringup/current/bin/ringup && -r $T/$1/opt/ringup/current/lib/libringup.so ]]; }

# clean - the cache holds entries and nothing that somebody forgot.
clean() {
  local left
  left=$(find "$T/cache" -maxdepth 1 -name '*.new*')
  [[ -z $left ]] || { echo "left: $left"; return 1; }
}

# without NAME... - print a PATH that has everything but these programs.
without() {
  mkdir -p "$T/few"
  # The first of each name wins, as it does in PATH.
  bash -c 'IFS=: && find $PATH -mindepth 1 -maxdepth 1 ! -type d' 2>/dev/null |
    awk -F / '!seen[$NF]++' | xargs -d '\n' ln -s -t "$T/few"
  (cd "$T/few" && rm -f "$@")
  printf '%s\n' "$T/few"
}

@test "the driver builds and publishes; a worker takes it, and needs no compiler" {
  run whole driver DB_IS_DRIVER=TRUE
  expect_status 0
  [[ $(builds) == 1 ]] && clean
  ringup cache verify
  local few
  few=$(without gcc cc make pkg-config c99 c89)
  run env PATH="$few" "$BASH" -c 'command -v gcc || command -v make'
  expect_status 1
  run whole worker DB_IS_DRIVER=FALSE RINGUP_CACHE_KEY= PATH="$few"
  expect_status 0
  [[ $(builds) == 1 && $output == *"from $T/cache"* ]] && installed worker && clean
  diff -r "$T/driver/opt/ringup" "$T/worker/opt/ringup"
  # with it came the libraries that it needs, for a node that has neither them nor a mirror
  local lib
  for lib in libsodium.so.23 libmnl.so.0 libjansson.so.4; do
    ldconfig -p | grep -q "$lib " || continue
    [[ -s $T/worker/opt/ringup/current/lib/spare/$lib && ! -e $T/worker/usr/local/lib/spare ]]
  done
  # the second run writes nothing, here and in the cache
  before=$(tree "$T/worker") cache=$(tree "$T/cache")
  run whole worker DB_IS_DRIVER=FALSE RINGUP_CACHE_KEY= PATH="$few"
  expect_status 0
  [[ $(tree "$T/worker") == "$before" && $(tree "$T/cache") == "$cache" ]]
}

@test "eight at once: each has it, and one whole entry is left" {
  local k
  for k in 1 2 3 4 5 6 7 8; do
    node "n$k" >"$T/out.$k" 2>&1 3>&- &
  done
  wait
  for k in 1 2 3 4 5 6 7 8; do
    installed "n$k" || { cat "$T/out.$k"; return 1; }
  done
  clean
  ringup cache verify
  run node late RINGUP_CACHE_KEY=
  expect_status 0
  [[ $output == *"from $T/cache"* ]]
}

@test "workers wait for a driver that begins later, but not for ever" {
  node worker DB_IS_DRIVER=FALSE >"$T/out.1" 2>&1 3>&- &
  worker=$!
  until_so 120 waiting 1
  node driver DB_IS_DRIVER=TRUE >/dev/null 2>&1
  wait "$worker"
  [[ $(builds) == 1 ]] && installed worker
  rm -rf "$T/cache"
  run node other DB_IS_DRIVER=FALSE RINGUP_CACHE_WAIT_MS=2000
  expect_status 0
  [[ $(builds) == 2 ]] && installed other
}

@test "killed while it takes an entry: the next run does not take the part for the whole" {
  published
  mkdir "$T/shims" "$T/n"
  # the real one, after which all is over once the command can be run
  printf '#!/bin/bash\n%s "$@"\n[[ $* != *.check/into* ]] || { touch "%s/asked"; kill -9 "$INIT_PID" 0; }\n' \
    "$(command -v tar)" "$T" >"$T/shims/tar"
  chmod +x "$T/shims/tar"
  run setsid --wait env PATH="$T/shims:$PATH" bash -c "$(declare -f node); T='$T' init='$init'; node other"
  [[ $status == 137 && -e $T/asked ]]
  rm -r "$T/shims" "$(entry)"
  run node other
  expect_status 0
  [[ $(builds) == 2 ]] && installed other && clean
}

@test "a damaged entry is built again" {
  for harm in file sum signature cut pipe link; do
    published
    e=$(entry)
    case $harm in
      file) printf x | dd of="$e" conv=notrunc bs=1 seek="$(( $(stat -c %s "$e") - 2000 ))" status=none ;;
      sum) sed -i '1s/ \([0-9a-f]*\) [^ ]*$/ \1 x/' "$e" ;;
      signature) sed -i '2s/^../++/' "$e" ;;
      cut) truncate -s -1024 "$e" ;;
      pipe) rm "$e"; mkfifo "$e" ;;
      link) rm "$e"; ln -s /etc/passwd "$e" ;;
    esac
    run node "after-$harm"
    expect_status 0
    installed "after-$harm" && clean
    case $harm in
      sum | signature) [[ $output == *"not signed by a key"* ]] ;;
      file | cut) [[ $output == *"is damaged"* ]] ;;
    esac || { echo "$harm: $output"; return 1; }
    [[ $(builds) == 2 ]]
  done
}

@test "a node without room takes nothing, and does not call the entry damaged" {
  ((EUID == 0)) && unshare --mount true 2>/dev/null || skip "needs root and mount namespaces, to have a small disk"
  published
  e=$(entry)
  mkdir "$T/small"
  for room in 4 8 16; do # kilobytes: for nothing, or for a part of the entry
    run unshare --mount bash -c 'set -euo pipefail; mount -t tmpfs -o size=64k none "$T/small"
      head -c $((65536 - $1 * 1024)) /dev/zero >"$T/small/other"
      for lib in "$T"/init-scripts/lib/*.bash; do source "$lib"; done
      INIT_STATE=$T/small
      if cache_provide "$2" "$T/small/stage" 0; then rc=0; else rc=$?; fi; exit "$rc"' bash "$room" "${e##*/}"
    expect_status 50
    [[ $output == *"no space below $T/small"* && -f $e ]]
  done
  ringup cache verify
}

@test "a cache that is no folder: nobody waits for it" {
  echo >"$T/cache"
  run node worker DB_IS_DRIVER=FALSE RINGUP_CACHE_KEY=
  expect_status 0
  [[ $output == *"$T/cache is not a folder"* && $output != *"waiting up to"* ]] && installed worker
}

@test "signed by a stranger: built here; no keys: wrong use; a read-only or missing cache is no error" {
  published
  mkdir "$T/other"
  ringup cache keygen "$T/other" >/dev/null
  run node second RINGUP_CACHE_KEY= RINGUP_CACHE_TRUST="$T/other/cache.pub"
  expect_status 0
  [[ $(builds) == 2 && $output == *"not signed by a key"* && -f $(entry) ]]
  # a key's line does as well as its file
  run node third RINGUP_CACHE_KEY= RINGUP_CACHE_TRUST="$(sed -n 2p "$T/cache.pub")"
  expect_status 0
  [[ $(builds) == 2 ]]
  run node fourth RINGUP_CACHE_KEY= RINGUP_CACHE_TRUST=
  expect_status 2
  [[ $output == *"ringup cache keygen"* ]]
  run node fifth RINGUP_CACHE="$T/none/at/all"
  expect_status 0
  [[ $(builds) == 3 && $output == *"not published"* ]]
  ((EUID == 0)) || skip "needs root, to mount it read-only"
  unshare --mount true 2>/dev/null || skip "no mount namespaces here"
  mkdir -p "$T/sixth"/{etc,opt,usr/local,var}
  run unshare --mount bash -c 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" --root "$3"' \
    bash "$T/cache" "$init" "$T/sixth"
  expect_status 0
  [[ $(builds) == 3 ]] && installed sixth
}

@test "the private key is never printed or written" {
  RINGUP_CACHE_KEY=$(sed -n 2p "$T/cache.key") bash -x "$init" --root "$root" >"$T/trace" 2>&1
  not grep -qF "$(sed -n 2p "$T/cache.key")" "$T/trace"
  grep -rqF "$(sed -n 2p "$T/cache.key")" "$root" "$T/cache" && return 1
  [[ $(builds) == 1 && -f $(entry) ]]
}
@test "a shared folder full of links and pipes: nothing outside is touched, nothing waits" {
  ((EUID == 0)) || skip "needs root"
  local key other name before
  key=$(printf 'a%.0s' {1..64}) other=$(printf 'b%.0s' {1..64})
  for lib in "$src"/init-scripts/lib/*.bash; do source "$lib"; done
  mkdir -m 755 "$T/shared" "$T/out" "$T/out/status"
  printf secret >"$T/out/file"
  export RINGUP_CACHE=$T/shared RINGUP_CACHE_TRUST=x INIT_PID=$$ INIT_STATE=$T/state INIT_ROOT=''
  mkdir "$INIT_STATE"
  echo '{}' >"$INIT_STATE/status.json"
  # Each name that is touched there, as a link to a file or a folder, and as a pipe.
  (
    cd "$T/shared"
    ln -s "$T/out/new" guard
    ln -s "$T/out/status" status
    ln -s "$T/out/file" "$key"
    mkfifo "$other"
  )
  chown -hR 65534:65534 "$T/shared"
  before=$(cd "$T/out" && find . -printf '%p %s %T@ %m\n' | sort && cat file)
  limit() { timeout 20 bash -c 'set -euo pipefail; shopt -s inherit_errexit; for l in "$0"/init-scripts/lib/*.bash; do source "$l"; done; "$@"' "$src" "$@"; }
  run limit cache_get "$key" "$T/into"
  expect_status 1
  run limit cache_get "$other" "$T/into"
  expect_status 1
  # a pipe that has taken the place of a file since it was looked at
  run limit shared_copy "$T/shared/$other" "$T/copy"
  [[ ! -s $T/copy ]]
  run limit write_file "$T/shared/free" 644 <<<text
  expect_status 0
  [[ $(stat -c '%a %u' "$T/shared/free") == '644 0' && $(cat "$T/shared/free") == text ]]
  eval "$(sed -n '/^tell_cluster()/,/^}/p' "$src/init-scripts/ringup-init")"
  tell_cluster
  [[ $(cd "$T/out" && find . -printf '%p %s %T@ %m\n' | sort && cat file) == "$before" ]]
  rm "$T/shared/status"
  tell_cluster
  DB_CLUSTER_ID=one tell_cluster
  name=$(find "$T/shared/status" -mindepth 1 -maxdepth 1 -name '*.json')
  [[ $(cat "$T/shared/status/one/${name##*/}") == '{}' ]]
  [[ $(cat "$name") == '{}' && $(stat -c %a "$name") == 644 ]]
}
