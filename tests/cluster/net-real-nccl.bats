#!/usr/bin/env bats
# net-real-nccl.bats - real NCCL, asked in network namespaces, against `ringup net explain` and `lint`.
# needs: cpu root-net
# tests: src/nicpick src/host src/base src/detect src/settle/pinlib.c src/cli/cmd_net*.c tests/net tests/lib/asked.bash tests/lib/space.bash tests/lib/real.bash

load ../lib/helper
load ../lib/real
load ../lib/settings
load ../lib/space
load ../lib/asked

setup_file() { asker_start; }
teardown_file() { asker_stop; }

setup() {
  here='' version=''
  space_open
}

teardown() {
  space_close
}

# same_nccl [VAR=VALUE...] - does NCCL's bootstrap do here what ringup says?
same_nccl() {
  agrees nccl "$version" ask_nccl "$@"
}

@test "NCCL: cables, bridges, settings" {
  need_nccl
  cable eth10 10.0.10.5/24
  cable eth1 10.0.1.5/24 2001:db8::5/64
  bridge docker0 172.17.0.1/16
  same_nccl
  same_nccl NCCL_SOCKET_IFNAME=eth1
  same_nccl NCCL_SOCKET_IFNAME==eth1
  same_nccl NCCL_SOCKET_IFNAME=^docker0
  same_nccl NCCL_SOCKET_IFNAME=^lo,docker
  same_nccl NCCL_SOCKET_IFNAME=docker0
  same_nccl NCCL_SOCKET_IFNAME=e
  same_nccl NCCL_SOCKET_FAMILY=AF_INET6
  same_nccl NCCL_COMM_ID=172.17.0.9:5000
  same_nccl NCCL_COMM_ID=10.0.1.9:5000 NCCL_SOCKET_IFNAME=eth10
  same_nccl NCCL_COMM_ID=10.9.9.9:5000
}

@test "NCCL: a name that begins with ib, and only a loopback" {
  need_nccl
  same_nccl
  cable eth0 10.0.0.5/24
  cable ibmgmt 192.168.50.5/24
  same_nccl
  ip -n "$here" link set ibmgmt down
  same_nccl
}

# bootstrap [VAR=VALUE...] - the interface of real NCCL's bootstrap, or "refuses".
bootstrap() {
  nccl_log "$@"
  if grep -q '^refuses' "$BATS_TEST_TMPDIR/log"; then
    echo refuses
  else
    nccl_bootstrap | cut -d ' ' -f 1
  fi
}

# cured CODE VAR=VALUE... - lint says CODE, NCCL does not take eth1, and with lint's line it does.
cured() {
  local code=$1 said line
  shift
  said=$(inside "$@" ringup net lint --json | jq -c --arg c "$code" '[.findings[] | select(.code == $c)][0]')
  [[ $said != null ]] || { echo "no $code: $*"; return 1; }
  [[ $(bootstrap "$@") != eth1 ]] || { echo "it works: $*"; return 1; }
  line=$(jq -r '.fix // empty' <<<"$said")
  if [[ $line == unset\ * ]]; then
    set -- "${@/#${line#unset }=*/}"
    set -- ${@+"${@:2}"}
  elif [[ $line == export\ * ]]; then
    set -- "$@" "$(bash -c "${line/export /printf %s }")"
  else
    echo "$line" >"$BATS_TEST_TMPDIR/nccl.conf"
  fi
  [[ $(bootstrap "$@") == eth1 ]] || { echo "not cured by $line: $*"; cat "$BATS_TEST_TMPDIR/log"; return 1; }
}

# filed CODE TEXT - the same for the text of a file of NCCL's.
filed() {
  printf '%b' "$2" >"$BATS_TEST_TMPDIR/nccl.conf"
  cured "$1" NCCL_CONF_FILE="$BATS_TEST_TMPDIR/nccl.conf"
}

@test "lint: what it says of NCCL is what NCCL does, and its lines cure" {
  need_nccl
  local v=NCCL_SOCKET_IFNAME
  cable eth10 10.0.10.5/24
  cable eth1 10.0.1.5/24
  bridge docker0 172.17.0.1/16
  ip -n "$here" route add default via 10.0.1.1
  cured nccl-excludes-not-lo $v=^docker0
  cured nccl-prefix $v=eth1
  cured nccl-one-char $v=e
  cured nccl-eq-hat $v==^lo,eth10,docker0
  cured nccl-empty-list $v=^=
  cured nccl-empty-list $v=,,
  cured nccl-glob "$v=eth1*"
  cured nccl-no-address $v=10.0.1.5
  cured nccl-no-address $v=10.0.1.0/24
  cured nccl-inner-hat $v=^lo,^eth10,^docker0
  cured nccl-blank-list "$v==eth5, eth1"
  cured nccl-loopback $v=lo
  cured nccl-not-ready $v==docker0
  cured nccl-no-match $v=ETH1
  cured nccl-no-match $v=enp1s0
  cured nccl-order $v==eth1,eth10
  cured nccl-too-many $v==x0,x1,x2,x3,x4,x5,x6,x7,x8,x9,x10,x11,x12,x13,x14,x15,eth1
  cured nccl-long-name "$v==$(printf 'a%.0s' {1..2000})"
  cured nccl-id-beats-ifname NCCL_COMM_ID=10.0.10.9:5000 $v==eth1
  cured form-quotes "$v=\"=eth1\""
  cured form-blank "$v= =eth1"
  cured unknown-name NCCL_SOCKET_IFACE==eth1
  filed form-quotes "$v=\"=eth1\"\n"
  filed form-blank "$v = =eth1\n"
  filed form-comment "$v==eth1 # fast\n"
  filed form-export "export $v==eth1\n"
  filed form-bom "\xef\xbb\xbf$v==eth1\n"
  filed form-no-value "$v eth1\n"
  filed unknown-name "nccl_socket_ifname==eth1\n"
}

@test "lint: without IPv4 a card that has fe80:: alone, and comes first" {
  need_nccl
  cable eth10 fe80::10/64
  cable eth1 fd00::5/64
  ip -n "$here" -6 route add default via fd00::1 dev eth1
  same_nccl
  filed nccl-link-local '#\n'
}

# plugin NAME INTERFACE - an env plug-in that pins lo, in $plugins.
plugin() {
  plugins=$BATS_TEST_TMPDIR/plugins
  mkdir -p "$plugins"
  local -a cc
  read -ra cc <<<"${CC:-cc}"
  "${cc[@]}" -shared -fPIC -DINTERFACE="$2" -o "$plugins/$1" "$src/tests/net/env_plugin.c"
}

# with_etc COMMAND... - in $here, where /etc is $etc.
with_etc() {
  inside unshare --mount --propagation private bash -c 'mount --bind "$1" /etc && exec "${@:2}"' _ "$etc" "$@"
}

# real_pick [VAR=VALUE...] - the interface of real NCCL's bootstrap, in a process of its own: the
# loader's path is a process's from its start, and so is /etc.
real_pick() {
  with_etc env "$@" NCCL_DEBUG=INFO "$python" -I "$src/tests/net/ask_nccl.py" "$nccl" >"$BATS_TEST_TMPDIR/log" 2>&1 || true
  nccl_bootstrap | cut -d ' ' -f 1
}

# said [VAR=VALUE...] - what explain says of it: the interface, or "unknown".
said() {
  with_etc env "$@" ringup net explain --json --lib nccl --version "$version" >"$BATS_TEST_TMPDIR/said" || return
  jq -r '.libraries[0].roles[0] | if .unknown then "unknown \(.picks | length) \(.otherwise[0].interface)" else .picks[0].interface end' \
    "$BATS_TEST_TMPDIR/said"
}

# is EXPECT SAID [VAR=VALUE...] - NCCL takes EXPECT, and explain says SAID.
is() {
  local real model
  real=$(real_pick "${@:3}") || return
  model=$(said "${@:3}") || return
  [[ $real == "$1" && $model == "$2" ]] || {
    printf 'NCCL takes %s, not %s; explain says %s, not %s, with: %s\n' "$real" "$1" "$model" "$2" "${*:3}"
    cat "$BATS_TEST_TMPDIR/log" "$BATS_TEST_TMPDIR/said"
    return 1
  }
}

@test "NCCL: an env plug-in decides, and explain says that it cannot know; ringup's own pins" {
  need_nccl
  need_programs "${CC%% *}"
  local ours f
  etc=$BATS_TEST_TMPDIR/etc
  mkdir -p "$etc"
  for f in passwd group hosts nsswitch.conf ld.so.cache; do cp "/etc/$f" "$etc" 2>/dev/null || true; done
  cable eth0 10.0.0.5/24
  cable eth1 10.0.1.5/24
  plugin libnccl-env.so ncclEnvPlugin_v1
  plugin libnccl-env-late.so ncclEnvPlugin_v2
  is eth0 eth0
  is lo 'unknown 0 eth0' LD_LIBRARY_PATH="$plugins"
  is lo 'unknown 0 eth0' LD_LIBRARY_PATH="$plugins" NCCL_ENV_PLUGIN=
  is eth0 eth0 LD_LIBRARY_PATH="$plugins" NCCL_ENV_PLUGIN=None
  is eth0 eth0 LD_LIBRARY_PATH="$plugins" NCCL_ENV_PLUGIN=absent
  is eth0 eth0 NCCL_ENV_PLUGIN=libc.so.6
  # The second interface is asked for since 2.30.7.
  if [[ $(printf '%s\n' 2.30.7 "$version" | sort -V | head -n 1) == 2.30.7 ]]; then
    is lo 'unknown 0 eth0' LD_LIBRARY_PATH="$plugins" NCCL_ENV_PLUGIN=late
  else
    is eth0 eth0 LD_LIBRARY_PATH="$plugins" NCCL_ENV_PLUGIN=late
  fi
  # A file may name it: NCCL reads files before it looks for plug-ins.
  printf 'NCCL_ENV_PLUGIN=%s\n' "$plugins/libnccl-env.so" >"$etc/nccl.conf"
  is lo 'unknown 0 eth0'
  rm "$etc/nccl.conf"

  with_etc ringup net fix --interface eth1 --pin >"$BATS_TEST_TMPDIR/fixed" ||
    { cat "$BATS_TEST_TMPDIR/fixed"; return 1; }
  ours=$(sed -n 's/^NCCL_ENV_PLUGIN=//p' "$etc/nccl.conf")
  [[ -e $ours ]]
  is eth1 eth1
  is eth1 eth1 NCCL_SOCKET_IFNAME==eth0
  grep -q 'ENV/Plugin: Using ringup (v[12])' "$BATS_TEST_TMPDIR/log"
  is eth0 eth0 NCCL_SOCKET_IFNAME==eth0 NCCL_ENV_PLUGIN=none
  # The library of the usual name is not looked for.
  is eth1 eth1 LD_LIBRARY_PATH="$plugins"
  # Beside a plug-in of somebody else the answer of fix is no, and the way out works.
  ! with_etc env NCCL_ENV_PLUGIN="$plugins/libnccl-env.so" ringup net fix --interface eth1 --pin >"$BATS_TEST_TMPDIR/fixed" 2>&1 || return 1
  grep -q 'libnccl-env.so overrides the environment' "$BATS_TEST_TMPDIR/fixed"
}

@test "env plug-in: the second interface answers as the first" {
  local etc=$BATS_TEST_TMPDIR/etc lib=$builddir/.libs/libnccl-env-ringup.so
  mkdir -p "$etc"
  printf '# >>> ringup made\nNCCL_SOCKET_IFNAME==eth1\n# <<< ringup\nNCCL_DEBUG=INFO\n' >"$etc/nccl.conf"
  with_etc env NCCL_SOCKET_IFNAME=eth0 NCCL_ALGO=Ring "${RINGUP_TEST_PYTHON:-python3}" -I - "$lib" <<'END' >"$BATS_TEST_TMPDIR/answers"
import ctypes as c
import sys

library = c.CDLL(sys.argv[1])
for version, more in ((1, []), (2, [c.c_void_p])):
    class Plugin(c.Structure):
        _fields_ = [
            ("name", c.c_char_p),
            ("init", c.CFUNCTYPE(c.c_int, c.c_uint8, c.c_uint8, c.c_uint8, c.c_char_p, *more)),
            ("finalize", c.CFUNCTYPE(c.c_int)),
            ("get", c.CFUNCTYPE(c.c_char_p, c.c_char_p)),
        ]
    plugin = Plugin.in_dll(library, "ncclEnvPlugin_v%d" % version)
    assert plugin.init(2, 32, 3, b"", *([None] if more else [])) == 0
    print(plugin.name, *(plugin.get(n) for n in (b"NCCL_SOCKET_IFNAME", b"NCCL_ALGO", b"NCCL_DEBUG")))
    assert plugin.finalize() == 0
END
  cat "$BATS_TEST_TMPDIR/answers"
  [[ $(sort -u "$BATS_TEST_TMPDIR/answers") == "b'ringup' b'=eth1' b'Ring' None" ]]
}
