#!/usr/bin/env bats
# island.bats - whole runs on a node from which nothing can be fetched: an interface, but no way further.
# needs: cpu root-net
# tests: init-scripts tests/lib/release.bash

# The node is this machine's file system below an overlay, in a network of its own: what is done
# there is gone with it.

load ../lib/helper
load ../lib/release

setup() {
  if ((EUID != 0)); then skip "needs root, for namespaces"; fi
  command -v ip >/dev/null || skip "ip (iproute2) is not installed"
  command -v openssl >/dev/null || skip "openssl is not installed"
  release_setup
  mkdir -p "$T/node"
  node true || skip "no overlay of / here"
}

# node CMD ARG... - run CMD on a node without a way out.
node() {
  T=$T unshare --mount --net --pid --fork --kill-child bash -c '
    at=$T/node && mount --make-rprivate / && mount -t tmpfs node "$at" && mkdir "$at"/{new,work,root} &&
      mount -t overlay node -o "lowerdir=/,upperdir=$at/new,workdir=$at/work" "$at/root" || exit 77
    at+=/root
    for dir in "${T%/t}" "$1" "$2"; do mkdir -p "$at$dir" && mount --bind "$dir" "$at$dir"; done
    mount --rbind /dev "$at/dev" && mount -t proc proc "$at/proc" && mount -t tmpfs run "$at/run" || exit 77
    rm -rf "$at"/{opt/ringup,var/lib/ringup,var/log/ringup,etc/resolv.conf}
    echo "nameserver 10.79.0.1" >"$at/etc/resolv.conf"
    printf "#!/bin/sh\necho \"\$*\" >>%s/asked\nexit 100\n" "$T" | tee "$at/usr/bin/apt-get" >"$at/usr/bin/dnf"
    chmod 755 "$at"/usr/bin/{apt-get,dnf}
    mkdir -p "$at/etc/apt/apt.conf.d" "$at/etc/apt/sources.list.d"
    rm -rf "$at"/etc/apt/apt.conf "$at"/etc/apt/apt.conf.d/* "$at"/etc/apt/sources.list.d/*
    echo "deb http://mirror.test/debian bookworm main" >"$at/etc/apt/sources.list"
    ip link set lo up && ip link add eth0 type veth peer name far && ip address add 10.79.0.2/24 dev eth0
    ip link set far up; ip link set eth0 up
    shift 2; exec chroot "$at" "$@"' node "$src" "$(dirname "$(command -v ringup)")" "$@"
}

# init [VARIABLE=VALUE...] - ringup-init there, without what a proxy's variables would tell; what is
# in `gone` is removed first.
init() {
  node env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY "$@" bash -c 'rm -rf $1; ldconfig; exec "$2"' init "${gone:-}" "$init"
}

@test "no engine and no compiler: within seconds, what is missing, why, and what to do" {
  gone='/usr/bin/make' run init
  expect_status 21
  [[ $output == *"needs packages ("*make*"), but this node cannot reach their mirror: the name mirror.test does not resolve"* ]]
  [[ $output == *"RINGUP_CACHE"* ]]
  [[ ! -e $T/asked ]]
}

@test "the engine from the cache: it comes up, and nothing is asked of a package manager" {
  ringup cache keygen "$T" >/dev/null
  run init RINGUP_CACHE="$T/cache" RINGUP_CACHE_TRUST="$T/cache.pub" RINGUP_CACHE_KEY="$T/cache.key"
  expect_status 0
  gone='/usr/bin/make /usr/bin/gcc /usr/bin/cc /usr/bin/pkg-config /usr/lib/*-linux-gnu/libsodium.so.23* /usr/lib/*-linux-gnu/libjansson.so.4* /usr/lib/*-linux-gnu/libmnl.so.0*'
  # what somebody's shell has set for tools is not for these
  run init RINGUP_CACHE="$T/cache" RINGUP_CACHE_TRUST="$T/cache.pub" \
    POSIXLY_CORRECT=1 TAR_OPTIONS=--nonsense GREP_OPTIONS=-v CDPATH=/usr BASH_ENV=/nowhere
  expect_status 0
  [[ $output == *"using the copy of "*" that came with the engine"* ]]
  [[ $output == *"taken from $T/cache"* && $output == *"4 ranks agreed on every sum"* ]]
  [[ ! -e $T/asked ]]
}
