#!/usr/bin/env bats
# cache.bats - nodes that share a folder: one builds, the others take it, nobody believes it unchecked.
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

teardown() {
  [[ -z ${T:-} ]] || rm -f "$T/slow" # for which a builder may wait
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

# waiting N - do N nodes wait for somebody's build?
waiting() { [[ $(grep -ls 'waiting up to' "$T"/out.* | wc -l) -eq $1 ]]; }

# builds - how often somebody has compiled.
builds() { if [[ -e $T/builds ]]; then wc -l <"$T/builds"; else echo 0; fi; }

# entry - the folder of the one entry there is.
entry() { compgen -G "$T/cache/*/MANIFEST" | head -n 1 | xargs dirname; }

# installed NODE - is the engine there, and whole?
installed() { [[ -x $T/$1/opt/ringup/current/bin/ringup && -r $T/$1/opt/ringup/current/lib/libringup.so ]]; }

# clean - the cache holds entries and nothing that somebody forgot.
clean() {
  local left
  left=$(find "$T/cache" -maxdepth 1 \( -name '*.lock*' -o -name '*.new*' \))
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

@test "eight at once: one build" {
  touch "$T/slow"
  local k
  for k in 1 2 3 4 5 6 7 8; do
    node "n$k" >"$T/out.$k" 2>&1 3>&- &
  done
  # the one that builds does not end before all others have seen that it does
  until_so 120 waiting 7
  rm "$T/slow"
  wait
  for k in 1 2 3 4 5 6 7 8; do
    installed "n$k" || { cat "$T/out.$k"; return 1; }
  done
  [[ $(builds) == 1 ]] && clean
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

@test "the builder is killed: somebody else builds" {
  touch "$T/slow"
  node first >/dev/null 2>&1 3>&- &
  first=$!
  until_so 120 test -s "$T/slow.pid"
  node second RINGUP_CACHE_WAIT_MS=120000 >"$T/out.2" 2>&1 3>&- &
  second=$!
  until_so 120 waiting 1
  kill -9 "$(cat "$T/first/run/ringup/init.lock")"
  wait "$first" 2>/dev/null || true
  rm "$T/slow" # so that the second is quick
  wait "$second"
  installed second && clean
  [[ $(builds) == 2 ]]
}

@test "killed while it takes an entry: the next run does not take the part for the whole" {
  published
  mkdir "$T/shims" "$T/n"
  # the real one, after which all is over once the command can be run
  printf '#!/bin/bash\n%s "$@"\n[[ $* != */bin/ringup ]] || { touch "%s/asked"; kill -9 "$INIT_PID" 0; }\n' \
    "$(command -v chmod)" "$T" >"$T/shims/chmod"
  chmod +x "$T/shims/chmod"
  run setsid --wait env PATH="$T/shims:$PATH" bash -c "$(declare -f node); T='$T' init='$init'; node other"
  [[ $status == 137 && -e $T/asked ]]
  rm -r "$T/shims" "$(entry)"
  run node other
  expect_status 0
  [[ $(builds) == 2 ]] && installed other && clean
}

@test "a damaged entry goes to quarantine and is built again" {
  for harm in file list signature gone pipe link; do
    published
    e=$(entry)
    f=$(find "$e/files" -name ringup -type f)
    case $harm in
      file) echo '# more' >>"$f" ;;
      list) sed -i 's/^end .*/end 1/' "$e/MANIFEST" ;;
      signature) head -c 64 /dev/zero >"$e/MANIFEST.sig" ;;
      gone) rm "$f" ;;
      pipe) rm "$f"; mkfifo "$f" ;;
      link) rm "$f"; ln -s /etc/passwd "$f" ;;
    esac
    run node "after-$harm"
    expect_status 0
    installed "after-$harm" && clean
    # without a signature nobody knows who wrote it: it is not used and stays
    if [[ $harm == list || $harm == signature ]]; then
      [[ $output == *"not signed by a key"* && -d $e ]] || { echo "$harm: $output"; return 1; }
    else
      [[ $output == *quarantine* ]] || { echo "$harm: $output"; return 1; }
      ringup cache verify
    fi
    [[ $(builds) == 2 ]]
  done
}

@test "a node without room takes nothing, and does not call the entry damaged" {
  ((EUID == 0)) && unshare --mount true 2>/dev/null || skip "needs root and mount namespaces, to have a small disk"
  published
  e=$(entry)
  mkdir "$T/small"
  for room in 4 8 16; do # kilobytes: for nothing, for the manifest, for a part of the files
    run unshare --mount bash -c 'set -euo pipefail; mount -t tmpfs -o size=64k none "$T/small"
      head -c $((65536 - $1 * 1024)) /dev/zero >"$T/small/other"
      for lib in "$T"/init-scripts/lib/*.bash; do source "$lib"; done
      INIT_STATE=$T/small INIT_TOKEN=none
      if cache_provide "$2" "$T/small/stage" 0 0; then rc=0; else rc=$?; fi; exit "$rc"' bash "$room" "${e##*/}"
    expect_status 50
    [[ $output == *"no room below $T/small"* && ! -e $T/cache/quarantine && -d $e ]]
  done
  ringup cache verify
}

@test "a cache that is no folder: nobody waits for it" {
  echo >"$T/cache"
  run node worker DB_IS_DRIVER=FALSE RINGUP_CACHE_KEY=
  expect_status 0
  [[ $output == *"$T/cache is not a folder"* && $output != *"waiting up to"* ]] && installed worker
}

@test "a manifest that leads elsewhere is refused, signature or not" {
  source "$src/init-scripts/lib/cache.bash"
  key=$(printf %064d 5) sum=$(printf %064d 7)
  # list LINE... - what cache_list makes of a manifest of these lines.
  list() { { printf 'ringup-cache/1\nkey %s\nsigner x\n' "$key"; printf '%s\n' "$@" "end $#"; } >"$T/m"; cache_list "$T/m" "$key"; }
  list "file 644 0 $sum a/b" "link ../a/b c/d" >/dev/null
  for path in /etc/x ../x a/../x a//b ./a a/. a/ 'a\b' $'a\tb'; do
    not list "file 644 0 $sum $path"
    not list "link x $path"
  done
  for target in /etc ../x ../../x b/../c .. . b/; do not list "link $target d"; done
  not list "file 4755 0 $sum a"
  not list "file 644 0 ${sum}0 a"
  not list "device 644 0 $sum a"
  not cache_list <(printf 'ringup-cache/1\nkey %s\nsigner x\nend 0\n' "$sum") "$key"
  not cache_list /dev/null "$key"
}

@test "signed by a stranger: built here; no keys: wrong use; a read-only or missing cache is no error" {
  published
  mkdir "$T/other"
  ringup cache keygen "$T/other" >/dev/null
  run node second RINGUP_CACHE_KEY= RINGUP_CACHE_TRUST="$T/other/cache.pub"
  expect_status 0
  [[ $(builds) == 2 && $output == *"not signed by a key"* && -d $(entry) ]]
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
  [[ $(builds) == 1 && -d $(entry) ]]
}
@test "a shared folder full of links and pipes: nothing outside is touched, nothing waits" {
  ((EUID == 0)) || skip "needs root"
  local key name before
  key=$(printf 'a%.0s' {1..64})
  for lib in "$src"/init-scripts/lib/*.bash; do source "$lib"; done
  mkdir -m 755 "$T/shared" "$T/out" "$T/out/lock" "$T/out/status"
  printf secret >"$T/out/file"
  printf '%014d\n' 7 >"$T/out/lock/beat"
  export RINGUP_CACHE=$T/shared RINGUP_CACHE_TRUST=x INIT_TOKEN=token INIT_PID=$$ INIT_STATE=$T/state INIT_ROOT=''
  mkdir "$INIT_STATE"
  echo '{}' >"$INIT_STATE/status.json"
  # Each name that is touched there, as a link to a file or a folder, and as a pipe.
  (
    cd "$T/shared"
    mkdir b.lock c.lock "$key"
    echo token >c.lock/owner.json
    ln -s "$T/out/new" guard
    ln -s "$T/out/status" status
    ln -s "$T/out/lock" quarantine
    ln -s "$T/out/lock" d.lock
    ln -s "$T/out/file" c.lock/beat
    mkfifo "$key/MANIFEST" b.lock/owner.json b.lock/beat
  )
  printf token >"$T/out/lock/owner.json"
  chown -hR 65534:65534 "$T/shared"
  before=$(cd "$T/out" && find . -printf '%p %s %T@ %m\n' | sort && cat file lock/*)
  limit() { timeout 20 bash -c 'set -euo pipefail; shopt -s inherit_errexit; for l in "$0"/init-scripts/lib/*.bash; do source "$l"; done; "$@"' "$src" "$@"; }
  run limit cache_get "$key" "$T/into"
  expect_status 2
  run limit cache_is_dead "$T/shared/b.lock" 1
  expect_status 1
  run limit cache_break "$T/shared/b.lock" other
  expect_status 1
  run limit cache_aside "$key"
  expect_status 0
  run limit shared_in_own "$T/shared/c.lock" cache_pulse 9
  [[ $status -ne 0 ]]
  run limit shared_in_own "$T/shared/d.lock" cache_pulse 9
  [[ $status -ne 0 ]]
  run limit cache_free
  expect_status 0
  run limit write_file "$T/shared/free" 644 <<<text
  expect_status 0
  [[ $(stat -c '%a %u' "$T/shared/free") == '644 0' && $(cat "$T/shared/free") == text ]]
  eval "$(sed -n '/^tell_cluster()/,/^}/p' "$src/init-scripts/ringup-init")"
  tell_cluster
  [[ $(cd "$T/out" && find . -printf '%p %s %T@ %m\n' | sort && cat file lock/*) == "$before" ]]
  rm "$T/shared/status"
  tell_cluster
  DB_CLUSTER_ID=one tell_cluster
  name=$(find "$T/shared/status" -mindepth 1 -maxdepth 1 -name '*.json')
  [[ $(cat "$T/shared/status/one/${name##*/}") == '{}' ]]
  [[ $(cat "$name") == '{}' && $(stat -c %a "$name") == 644 ]]
}
