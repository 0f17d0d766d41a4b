#!/usr/bin/env bats
# net-real-nccl.bats - real NCCL, asked in network namespaces, against `ringup net explain` and `lint`.
# needs: cpu root-net
# tests: src/nicpick src/host src/base src/cli/cmd_net*.c tests/net tests/lib/asked.bash tests/lib/space.bash tests/lib/real.bash

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
