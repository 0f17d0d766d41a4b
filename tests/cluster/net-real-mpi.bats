#!/usr/bin/env bats
# net-real-mpi.bats - real Open MPI, asked in network namespaces, against `ringup net explain` and `lint`.
# needs: cpu root-net
# tests: src/nicpick src/host src/base src/cli/cmd_net*.c tests/net tests/lib/asked.bash tests/lib/space.bash tests/lib/real.bash

load ../lib/helper
load ../lib/real
load ../lib/settings
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
