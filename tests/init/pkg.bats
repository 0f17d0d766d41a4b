#!/usr/bin/env bats
# pkg.bats - packages: only what is missing, and a reason when they cannot be had.
# needs: cpu
# tests: init-scripts/lib

load ../lib/helper

setup() {
  for f in log fetch pkg; do source "$src/init-scripts/lib/$f.bash"; done
  export SLEEP=true APT_LISTS=$BATS_TEST_TMPDIR/lists INIT_LOGFILE=$BATS_TEST_TMPDIR/log
  export APT_ETC=$BATS_TEST_TMPDIR/apt YUM_REPOS=$BATS_TEST_TMPDIR/yum
  unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY
  mkdir "$APT_LISTS" "$APT_ETC" "$YUM_REPOS"
  touch "$APT_LISTS/mirror_Packages"
  stub dpkg
}

@test "what is here is not asked for" {
  stub pkg-config 'exit 0'
  for tool in gcc make python3 xz; do stub "$tool"; done
  [[ -z $(pkg_missing | grep -v libc6-dev) ]]
}

@test "a clone needs autotools, a URL needs curl" {
  [[ $(pkg_table) != *autoconf* && $(pkg_table clone) == *autoconf* ]]
  [[ $(RINGUP_SOURCE=https://x/y.tar.gz pkg_table) == *ca-certificates* && $(pkg_table) != *curl* ]]
}

@test "apt-get waits for the lock, asks nothing, and lists are fetched only when needed" {
  stub apt-get
  run pkg_install gcc make
  expect_status 0
  [[ $(wc -l <"$calls") -eq 1 ]]
  grep -q 'DPkg::Lock::Timeout=300.* install gcc make$' "$calls"
  rm "$APT_LISTS/mirror_Packages" "$calls"
  run pkg_install gcc
  expect_status 0
  [[ $(grep -c 'Error-Mode=any update$' "$calls") -eq 1 ]]
}

@test "stale lists are refreshed and the installation tried again" {
  stub apt-get '[[ $* == *update ]] && touch "$BATS_TEST_TMPDIR/fresh"; [[ -e $BATS_TEST_TMPDIR/fresh ]]'
  run pkg_install gcc
  expect_status 0
}

@test "no network: exit status 21 and a sentence" {
  stub apt-get 'exit 100'
  rm "$APT_LISTS/mirror_Packages"
  run pkg_install gcc
  expect_status 21
  [[ $output == *"package lists cannot be fetched"* ]]
}

@test "reasons that apt gives are passed on" {
  stub apt-get '[[ $* == *update ]] || { echo "E: Unable to locate package libsodium-dev" >>"$INIT_LOGFILE"; exit 100; }'
  run pkg_install libsodium-dev
  expect_status 20
  [[ $output == *"Unable to locate package libsodium-dev"* ]]
  # not where a list could not be read
  stub apt-get 'echo "E: Failed to fetch http://repo.example.com/apt/dists/x/Packages  Hash Sum mismatch
E: Unable to locate package gcc" >>"$INIT_LOGFILE"; exit 100'
  run pkg_install gcc
  expect_status 21
  [[ $output == *"a package repository of this node cannot be read: http://repo.example.com/apt/dists/x/Packages Hash Sum mismatch"* ]]
  : >"$INIT_LOGFILE"
  stub apt-get 'echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 42 (apt)" >>"$INIT_LOGFILE"; exit 100'
  run pkg_install gcc
  expect_status 20
  [[ $output == *"held by process 42 (apt)"* ]]
  : >"$INIT_LOGFILE"
  stub apt-get 'echo "  Temporary failure resolving mirror" >>"$INIT_LOGFILE"; exit 100'
  run pkg_install gcc
  expect_status 21
  [[ $output == *"cannot reach its mirror"* ]]
  stub apt-get 'echo "write error: No space left on device" >>"$INIT_LOGFILE"; exit 100'
  : >"$INIT_LOGFILE"
  run pkg_install gcc
  expect_status 20
  [[ $output == *"no space left"* ]]
}

@test "somebody else's broken repository is named, and what was fetched is used" {
  rm "$APT_LISTS/mirror_Packages"
  stub apt-get 'case "$*" in
      *update) touch "$APT_LISTS/deb_Packages"
        echo "W: GPG error: https://me:word@vendor.example/x jammy InRelease: The following signatures were invalid: EXPKEYSIG 0123" >>"$INIT_LOGFILE"
        exit 100 ;;
      *install*) [[ -e $APT_LISTS/deb_Packages ]] ;;
    esac'
  run pkg_install gcc
  expect_status 0
  [[ $output == *"was not needed: https://***@vendor.example/x jammy InRelease: "*EXPKEYSIG* && $output != *word* ]]
}

@test "each reason of apt's has its own sentence and its own cure" {
  # because STATUS LINE TEXT CURE - where apt-get says that line, this is told.
  because() {
    : >"$INIT_LOGFILE"
    stub apt-get "printf '%b\\n' $(printf %q "$2") >>\"\$INIT_LOGFILE\"; exit 100"
    run pkg_install gcc
    expect_status "$1"
    [[ $output == *"$3"* && $output == *"$4"* ]] || { echo "$output"; return 1; }
    [[ $output != *"cannot reach its mirror"* ]]
  }
  because 21 'E: Failed to fetch https://m.example/x  Certificate verification failed: The certificate is NOT trusted.' \
    "does not trust the server's certificate" update-ca-certificates
  because 21 'E: Failed to fetch http://m.example/x  407  Proxy Authentication Required' "the proxy requires a user" http_proxy=
  because 21 'E: Release file for http://m.example/dists/x/InRelease is not valid yet (invalid for another 3h 2min 5s).' \
    "the clock of this node shows 20" "set the clock"
  because 21 'E: Failed to fetch http://m.example/pool/g/gcc_12_amd64.deb  404  Not Found [IP: 192.0.2.1 80]' \
    "lacks files that its own list names: http://m.example/pool/g/gcc_12_amd64.deb 404" "run ringup-init again"
  because 20 ' libc6-dev : Depends: libc6 (= 2.36-9) but 2.36-8 is to be installed\nE: Unable to correct problems, you have held broken packages.' \
    "libc6-dev : Depends: libc6 (= 2.36-9)" "apt-mark showhold"
  because 20 'E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?' "busy" "run ringup-init again"
  because 21 'E: Something that nobody foresaw' "packages cannot be installed: Something that nobody foresaw" "$INIT_LOGFILE"
}

# few - a PATH of this test's stubs and what bash and Bats need, without apt-get.
few() {
  mkdir -p "$BATS_TEST_TMPDIR/few"
  for f in env tail grep cat mkdir chmod rm date; do ln -sf "$(command -v "$f")" "$BATS_TEST_TMPDIR/few/$f"; done
  printf '%s\n' "$BATS_TEST_TMPDIR/bin:$BATS_TEST_TMPDIR/few"
}

@test "dnf, where there is no apt-get: its names, nothing asked, its reasons" {
  stub dnf
  PATH=$(few)
  run pkg_missing
  for name in gcc make pkgconf-pkg-config libsodium-devel libmnl-devel jansson-devel python3 xz; do
    expect_line "$name"
  done
  for name in libsodium23=libsodium libmnl0=libmnl libjansson4=jansson xz-utils=xz openssl=openssl; do
    pkg_name "${name%=*}"
    [[ $REPLY == "${name#*=}" ]]
  done
  run pkg_install gcc make
  expect_status 0
  [[ $(<"$calls") == "dnf -q -y "*" install gcc make" ]]
  stub dnf 'echo "No match for argument: libsodium-devel" >>"$INIT_LOGFILE"; exit 1'
  run pkg_install libsodium-devel
  expect_status 20
  [[ $output == *"No match for argument: libsodium-devel"*EPEL* ]]
  : >"$INIT_LOGFILE"
  stub dnf 'echo "Error: Failed to download metadata for repo" >>"$INIT_LOGFILE"; exit 1'
  run pkg_install gcc
  expect_status 21
  [[ $output == *"cannot reach its mirror"* ]]
  RINGUP_OFFLINE=1 run pkg_install gcc
  expect_status 21
}

@test "neither apt-get nor dnf: exit status 20 and the names" {
  PATH=$BATS_TEST_TMPDIR/none run pkg_install gcc make
  expect_status 20
  [[ $output == *"gcc make"* ]]
}

@test "dry run installs nothing" {
  stub apt-get
  DRY_RUN=1 run pkg_install gcc
  expect_status 0
  [[ ! -e $calls && $output == *"'install' 'gcc'"* ]]
}

@test "offline: nothing is asked of the network, exit status 21 and what is missing" {
  stub apt-get
  RINGUP_OFFLINE=1 run pkg_install gcc make
  expect_status 21
  [[ ! -e $calls && $output == *"missing: gcc make"* ]]
  stub curl
  RINGUP_OFFLINE=yes run fetch https://user:word@host/ringup.tar.xz "$(printf '0%.0s' {1..64})" "$BATS_TEST_TMPDIR/x"
  expect_status 21
  [[ ! -e $calls && $output == *"https://host/ringup.tar.xz"* && $output != *word* ]]
}

@test "a proxy is passed on to apt-get and curl, and its password to nobody" {
  pkg_reach() { :; } # it answers
  export http_proxy=http://user:hunter2hunter2@proxy:3128 https_proxy=http://user:hunter2hunter2@proxy:3128
  stub apt-get '[[ $http_proxy == *hunter2* ]] || exit 9; echo "E: cannot reach $http_proxy" >>"$INIT_LOGFILE"; exit 100'
  run pkg_install gcc
  [[ $output != *hunter2* && $status -eq 21 ]]
  scrub "$INIT_LOGFILE"
  not grep -q hunter2 "$INIT_LOGFILE"
  grep -qF 'E: cannot reach http://***@proxy:3128' "$INIT_LOGFILE"
  stub curl '[[ $https_proxy == *hunter2* ]] || exit 9; while [[ $1 != --output ]]; do shift; done; echo x >"$2"'
  sum=$(echo x | sha256sum | cut -c 1-64)
  run fetch https://host/x "$sum" "$BATS_TEST_TMPDIR/x"
  expect_status 0
  [[ $output != *hunter2* && -s $BATS_TEST_TMPDIR/x ]]
}

@test "where packages come from: lists of both kinds, a proxy in their place, nothing where it cannot be told" {
  mkdir "$APT_ETC"/{sources.list.d,apt.conf.d}
  # mirrors LINE... - pkg_mirrors prints these lines.
  mirrors() { diff <(printf '%s\n' "$@") <(pkg_mirrors); }
  stub apt-get
  [[ -z $(pkg_mirrors) ]]
  printf '# deb http://no.example/ x main\ndeb [signed-by=/k] http://a.example/debian x main\n' >"$APT_ETC/sources.list"
  printf 'Types: deb\nURIs: https://b.example:8443/debian https://c.example/x\nSuites: x\n' >"$APT_ETC/sources.list.d/b.sources"
  mirrors 'http a.example 80' 'https b.example 8443' 'https c.example 443'
  echo 'Acquire::http::Proxy "http://user:word@proxy.example:3128/";' >"$APT_ETC/apt.conf.d/01proxy"
  mirrors 'http proxy.example 3128'
  http_proxy=http://other.example:8080 mirrors 'http other.example 8080'
  rm "$APT_ETC/apt.conf.d/01proxy"
  echo 'deb file:/media/disc x main' >>"$APT_ETC/sources.list"
  [[ -z $(pkg_mirrors) ]]
  stub dnf
  printf '[x]\n#baseurl=http://no.example/\nmirrorlist=https://m.example/?arch=x\n' >"$YUM_REPOS/x.repo"
  pkg_is_rpm() { true; }
  mirrors 'https m.example 443'
}

@test "no mirror answers: said in seconds, with the reason, and the package manager is not asked" {
  stub apt-get
  # a port of this machine on which nobody listens, and a name that is none
  echo 'deb http://127.0.0.1:1/debian x main' >"$APT_ETC/sources.list"
  run pkg_install gcc make
  expect_status 21
  [[ $output == *"needs packages (gcc make)"*"127.0.0.1 does not answer on port 1: connection refused"* && ! -e $calls ]]
  [[ $output == *RINGUP_CACHE* ]]
  stub getent 'exit 2'
  run pkg_install gcc
  expect_status 21
  [[ $output == *"the name 127.0.0.1 does not resolve"* ]]
  rm "$BATS_TEST_TMPDIR/bin/getent"
  hash -r
  DRY_RUN=1 run pkg_install gcc
  expect_status 0
  # One of several is enough.
  python3 -c 'import socket, sys, time
s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True); time.sleep(600)' >"$BATS_TEST_TMPDIR/port" &
  local server=$!
  until [[ -s $BATS_TEST_TMPDIR/port ]]; do sleep 0.05; done
  echo "deb http://127.0.0.1:$(<"$BATS_TEST_TMPDIR/port")/debian x main" >>"$APT_ETC/sources.list"
  run pkg_install gcc
  kill "$server"
  expect_status 0
  grep -q 'install gcc$' "$calls"
}

@test "libraries that come with the engine are not asked for, and used only where the node has none" {
  source "$src/init-scripts/lib/file.bash"
  local tree=$BATS_TEST_TMPDIR/tree INIT_ROOT=/nonexistent
  engine_current() { :; }
  source "$src/init-scripts/steps/40-install.bash" 2>/dev/null || true
  pkg_table() { printf '%s\n' 'a lib libnowhere-a.so.1' 'c lib libc.so.6' 'sh cmd sh'; }
  run pkg_missing run
  [[ $output == a ]]
  pkg_spare "$tree/lib/spare" env
  [[ $(ls "$tree/lib/spare") == libc.so.6 && -s $tree/lib/spare/libc.so.6 ]]
  echo elf >"$tree/lib/spare/libnowhere-a.so.1"
  PKG_SPARE=$tree/lib/spare run pkg_missing run
  [[ -z $output ]]
  use_spare "$tree"
  [[ $(ls "$tree/lib/needed") == libnowhere-a.so.1 && $(<"$tree/lib/needed/libnowhere-a.so.1") == elf ]]
}
