#!/usr/bin/env bats
# init.bats - ringup-init on a cluster of four nodes: the driver builds, three workers take it.
# needs: cpu root-net
# tests: init-scripts src compat tests/lib/hosts.bash

load ../lib/helper
load ../lib/fault
load ../lib/hosts

setup() {
  command -v openssl >/dev/null || skip "openssl is not installed"
  [[ $(openssl pkeyutl -help 2>&1) == *-rawin* ]] || skip "this openssl does not check raw input"
  [[ -x $builddir/.libs/libringup.so.0 && -d $src/compat/python ]] || skip "the library is not built"
  fault_setup
  unset RINGUP_SOURCE
  export T=$BATS_TEST_TMPDIR
}
teardown() { cluster_down; }

# release - a tarball of what has been built here, which configure and make only put in place.
release() {
  local d=$T/make/ringup-9.9
  mkdir -p "$d/src" "$d/prefix"/{bin,lib,share/ringup}
  echo 'AC_INIT([ringup], [9.9])' >"$d/configure.ac"
  touch "$d/src/ringup.h"
  cp -P "$builddir"/.libs/libringup.so* "$d/prefix/lib"
  cp "$builddir/ringup" "$d/prefix/bin"
  cp -r "$src/compat" "$src/init-scripts" "$d/prefix/share/ringup"
  cat >"$d/configure" <<'EOT'
#!/bin/sh
src=$(cd "$(dirname "$0")" && pwd)
printf 'all:\n\t%s/slowly\ninstall:\n\tmkdir -p $(DESTDIR)/opt/ringup/current\n\tcp -rP %s/prefix/. $(DESTDIR)/opt/ringup/current\n' "$src" "$src" >Makefile
EOT
  printf '#!/bin/sh\necho built >>%s/builds\nsleep 1\n' "$T" >"$d/slowly"
  chmod +x "$d/configure" "$d/slowly"
  tar -C "$T/make" -czf "$T/ringup-9.9.tar.gz" ringup-9.9
}

# few - a PATH without a compiler.
few() {
  local dir
  mkdir -p "$T/few"
  # Of programs that several folders have, the first one's stays.
  for dir in ${PATH//:/ } /usr/sbin /sbin; do ln -s "$dir"/* "$T/few" 2>/dev/null || true; done
  (cd "$T/few" && rm -f gcc cc c99 c89 make pkg-config clang)
  printf '%s\n' "$T/few"
}

# node K [VARIABLE=VALUE...] - ringup-init on the tree of node K, there, as its platform starts it.
node() {
  local driver=FALSE key='' path=$few
  mkdir -p "$T/n$1"/{etc,opt,usr/local,var,databricks}
  [[ $1 != 1 ]] || { driver=TRUE key=$T/cache.key path=$PATH; }
  at "n$1" env PATH="$path" RINGUP_SOURCE="$T/ringup-9.9.tar.gz" RINGUP_CACHE="$T/cache" RINGUP_CACHE_KEY="$key" \
    RINGUP_CACHE_TRUST="$T/cache.pub" DB_IS_DRIVER="$driver" DB_DRIVER_IP=10.77.0.1 \
    DB_CONTAINER_IP="10.77.0.$1" DB_CLUSTER_ID=0101-abc "${@:2}" "$src/init-scripts/ringup-init" --root "$T/n$1"
}

# status K EXPRESSION - of the status of node K, by jq.
status() { jq -r "$2" "$T/n$1/var/lib/ringup/status.json"; }

@test "four nodes at once: one build, three hits, each on its eth0; the report says so" {
  command -v jq >/dev/null || skip "jq is not installed"
  release
  ringup cache keygen "$T" >/dev/null
  few=$(few)
  cluster_up 4 docker-first
  local -a pids=()
  for k in 4 3 2 1; do
    node "$k" >"$T/out.$k" 2>&1 3>&- &
    pids+=("$!")
  done
  wait "${pids[@]}" || true
  for k in 1 2 3 4; do
    [[ $(status "$k" .result) == ok ]] || { cat "$T/out.$k"; return 1; }
    grep -q '4 ranks agreed on every sum' "$T/out.$k"
    grep -qx 'NCCL_SOCKET_IFNAME==eth0' "$T/n$k/etc/nccl.conf"
    [[ $(readlink "$T/n$k/opt/ringup/current") == "$(readlink "$T/n1/opt/ringup/current")" ]]
  done
  [[ $(wc -l <"$T/builds") == 1 ]]
  run "$src/init-scripts/ringup-init" report "$T/cache/status"
  expect_status 0
  echo "$output"
  expect_line '4 of 4 nodes ok, 1 built here, 3 from the cache'
  [[ $output == *"n1 "*driver*built*eth0* && $output == *"n4 "*executor*cache*eth0* ]]

  # a node that is replaced takes it as well, without the driver
  rm -rf "$T/n3"
  run node 3
  expect_status 0
  [[ $(wc -l <"$T/builds") == 1 && $output == *"from $T/cache"* ]]

  # the platform says another address of node 2: only what depends on it is done again
  run node 2 DB_CONTAINER_IP=10.77.0.99
  expect_status 62
  [[ $output == *"60-network: configure one interface"* && $output == *"40-install: already done"* ]]
  run "$src/init-scripts/ringup-init" report "$T/cache/status"
  expect_status 1
  [[ $output == *"n2 "*executor*failed*10.77.0.99*"3 of 4 nodes ok"* ]]
}
