#!/usr/bin/env bats
# pkg.bats - packages: only what is missing, and a reason when they cannot be had.
# needs: cpu
# tests: init-scripts/lib

load ../lib/helper

setup() {
  for f in log fetch pkg; do source "$src/init-scripts/lib/$f.bash"; done
  export SLEEP=true APT_LISTS=$BATS_TEST_TMPDIR/lists INIT_LOGFILE=$BATS_TEST_TMPDIR/log
  mkdir "$APT_LISTS"
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
  run pkg_install gcc
  expect_status 21
  [[ $output == *"package lists cannot be fetched"* ]]
}

@test "reasons that apt gives are passed on" {
  stub apt-get '[[ $* == *update ]] || { echo "E: Unable to locate package libsodium-dev" >>"$INIT_LOGFILE"; exit 100; }'
  run pkg_install libsodium-dev
  expect_status 20
  [[ $output == *"Unable to locate package libsodium-dev"* ]]
  stub apt-get 'echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 42 (apt)" >>"$INIT_LOGFILE"; exit 100'
  run pkg_install gcc
  expect_status 20
  [[ $output == *"held by process 42 (apt)"* ]]
  : >"$INIT_LOGFILE"
  stub apt-get 'echo "  Temporary failure resolving mirror" >>"$INIT_LOGFILE"; exit 100'
  run pkg_install gcc
  expect_status 21
  [[ $output == *"does not reach its mirror"* ]]
  stub apt-get 'echo "write error: No space left on device" >>"$INIT_LOGFILE"; exit 100'
  : >"$INIT_LOGFILE"
  run pkg_install gcc
  expect_status 20
  [[ $output == *"no space left"* ]]
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
  [[ $output == *"does not reach its mirror"* ]]
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
