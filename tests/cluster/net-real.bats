#!/usr/bin/env bats
# net-real.bats - real libraries, asked in network namespaces, against `ringup net explain`.

load ../lib/helper
load ../lib/real
load ../lib/space
load ../lib/asked

setup() {
  here='' version=''
  space_open
}

teardown() {
  space_close
}

# same_mpi [VAR=VALUE...] - does Open MPI do here what ringup says?
same_mpi() {
  agrees openmpi "$version" ask_mpi4 "$@"
}

@test "Open MPI: an idle docker0 beside eth0" {
  need_mpi
  cable eth0 10.0.0.5/24
  bridge docker0 172.17.0.1/16
  same_mpi
  same_mpi OMPI_MCA_btl_tcp_if_include=eth0
  same_mpi OMPI_MCA_btl_tcp_if_include=10.0.0.0/8
  same_mpi OMPI_MCA_btl_tcp_if_include=eth
  same_mpi OMPI_MCA_btl_tcp_if_include=10.9.0.0/24
  same_mpi OMPI_MCA_btl_tcp_if_include=eth0,ens5
  same_mpi OMPI_MCA_btl_tcp_if_exclude=docker0
  same_mpi OMPI_MCA_btl_tcp_if_exclude=lo,docker
  same_mpi OMPI_MCA_btl_tcp_if_exclude=
  same_mpi OMPI_MCA_btl_tcp_if_include= OMPI_MCA_btl_tcp_if_exclude=lo
  same_mpi OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_btl_tcp_if_exclude=lo
}

@test "Open MPI: its control connections" {
  need_mpi
  cable eth1 10.0.1.5/24
  cable eth0 10.0.0.5/24 2001:db8::5/64
  bridge virbr0 192.168.122.1/24
  same_mpi
  same_mpi OMPI_MCA_oob_tcp_if_include=eth0
  same_mpi OMPI_MCA_oob_tcp_if_include=10.0.1.0/24
  same_mpi OMPI_MCA_oob_tcp_if_include=ens5
  same_mpi OMPI_MCA_oob_tcp_if_exclude=eth1
  same_mpi OMPI_MCA_oob_tcp_if_exclude=eth1,lo
  same_mpi OMPI_MCA_oob_tcp_if_include=
  same_mpi OMPI_MCA_oob_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_exclude=lo
}

@test "Open MPI: a link that is down, and one without an address" {
  need_mpi
  cable eth0 10.0.0.5/24
  cable eth1
  cable eth2 10.0.2.5/24
  ip -n "$here" link set eth2 down
  same_mpi
  same_mpi OMPI_MCA_btl_tcp_if_include=eth2
}

@test "Open MPI: nothing but the loopback" {
  need_mpi
  same_mpi
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

# btl [VAR=VALUE...] - the interfaces of real Open MPI's TCP, or "refuses".
btl() {
  ask_mpi4 "$@" | jq -sr 'add.btl | if .refuses then "refuses" else .interfaces | join(" ") end'
}

# cured_mpi CODE VAR=VALUE... - lint says CODE, Open MPI does not take eth1, and with lint's line it does.
cured_mpi() {
  local code=$1 said line v
  local -a kept=()
  shift
  said=$(finding "$code" "$@")
  [[ -n $said ]] || { echo "no $code: $*"; return 1; }
  [[ $(btl "$@") != eth1 ]] || { echo "it works: $*"; return 1; }
  line=$(jq -r '.fix // empty' <<<"$said")
  for v; do
    [[ $v == "$(jq -r .line <<<"$said")" ]] || kept+=("$v")
  done
  [[ $line != export\ * ]] || kept+=("$(bash -c "${line/export /printf %s }")")
  [[ $(btl "${kept[@]}") == eth1 ]] || { echo "not cured by $line: $*"; return 1; }
}

@test "lint: what it says of Open MPI is what Open MPI does, and its lines cure" {
  local include=OMPI_MCA_btl_tcp_if_include exclude=OMPI_MCA_btl_tcp_if_exclude
  need_mpi
  cable eth10 10.0.10.5/24
  cable eth1 10.0.1.5/24
  bridge docker0 172.17.0.1/16
  ip -n "$here" route add default via 10.0.1.1
  cured_mpi ompi-both $include=eth1 $exclude=lo
  cured_mpi ompi-spec $include==eth1
  cured_mpi ompi-spec $include=^docker0
  cured_mpi ompi-spec $include=10.0.1.5
  cured_mpi ompi-everything $include=10.0.1.5/32
  cured_mpi ompi-everything $include=10.0.1.0/
  cured_mpi ompi-nowhere $include=10.9.0.0/24
  cured_mpi ompi-unknown $include=eth1,ens5
  cured_mpi ompi-unknown $include=ETH1
  cured_mpi ompi-excludes-not-lo $exclude=docker0
  cured_mpi ompi-exclude-prefix $exclude=lo,docker0,eth1
  cured_mpi form-quotes "$include=\"eth1\""
  cured_mpi form-blank "$include= eth1"
}

@test "lint: what it says of Gloo is what Gloo does, and its lines cure" {
  need_torch
  cable eth10 10.0.10.5/24
  cable eth1 10.0.1.5/24
  bridge docker0 172.17.0.1/16
  ip -n "$here" route add default via 10.0.1.1
  cured_gloo gloo-syntax =eth1
  cured_gloo gloo-unknown ETH1
  cured_gloo gloo-one-char e
  cured_gloo gloo-foreign docker0
  cured_gloo form-quotes '"eth1"'
}

@test "Gloo: names of interfaces" {
  need_torch
  cable eth0 10.0.0.5/24
  cable eth1 10.0.1.5/24
  bridge docker0 172.17.0.1/16
  same_gloo '127.0.1.1 node' - eth0 docker0 eth =eth0 eth0,eth1 e
}

@test "Gloo: what the host name resolves to" {
  need_torch
  cable eth0 10.0.0.5/24
  same_gloo '10.0.0.5 node' -
  same_gloo '10.99.0.5 node' -
  same_gloo '# nothing' -
}
