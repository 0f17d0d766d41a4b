#!/usr/bin/env bats
# net-chance.bats - real libraries on machines by chance, against `ringup net explain`.
# needs: cpu root-net
# tests: src/nicpick src/host src/base src/cli/cmd_net*.c tests/net tests/lib/asked.bash tests/lib/chance.bash tests/lib/space.bash tests/lib/real.bash

load ../lib/helper
load ../lib/real
load ../lib/settings
load ../lib/space
load ../lib/asked
load ../lib/chance

setup_file() { asker_start; }
teardown_file() { asker_stop; }

setup() {
  here='' version=''
  space_open
}

teardown() {
  space_close
}

# everywhere ASK-ON-A-MACHINE SEED... - on a machine for each seed (rounds).
everywhere() {
  local ask=$1 seed bad=0
  shift
  for seed in $(rounds "$@"); do
    RANDOM=$seed
    some_machine
    "$ask" || {
      echo "# that was RINGUP_TEST_SEED=$seed"
      bad=$((bad + 1))
    }
  done
  ((bad == 0)) || {
    echo "# on $bad machines"
    return 1
  }
}

# For want of a loopback mpirun would wait until it is killed.
mpi4_here() {
  local how nets oob_how oob_nets
  one_of how include exclude
  one_of oob_how include exclude
  some_nets nets
  some_nets oob_nets
  ip -n "$here" link set lo up
  agrees openmpi "$version" ask_mpi4 "OMPI_MCA_btl_tcp_if_$how=$nets" "OMPI_MCA_oob_tcp_if_$oob_how=$oob_nets"
}

@test "Open MPI 4.1: machines and settings by chance" {
  need_mpi
  everywhere mpi4_here 1 2 -- 3 4 5 6
}

mpi5_here() {
  local how nets prte oob_how oob_nets family
  one_of how include exclude
  one_of prte prte_if oob_tcp_if oob_tcp
  one_of oob_how include exclude
  one_of family '' '' OMPI_MCA_btl_tcp_disable_family=4 OMPI_MCA_btl_tcp_disable_family=6
  some_nets nets
  some_nets oob_nets
  # On two names it would crash more often than not.
  rarely 3 || oob_nets=${oob_nets%%,*}
  ip -n "$here" link set lo up
  agrees openmpi "$version" ask_mpi5 "OMPI_MCA_btl_tcp_if_$how=$nets" \
    "PRTE_MCA_${prte}_$oob_how=$oob_nets" ${family:+"$family"}
}

@test "Open MPI 5: machines and settings by chance" {
  need_mpi5
  everywhere mpi5_here 1 2 -- 3 4 5 6
}

nccl_here() {
  local alias sign list family id
  one_of alias "${names[@]:-eth0}"
  one_of sign '' '' = ^ ^= =^
  some_names list e eth "$alias:1"
  agrees nccl "$version" ask_nccl "NCCL_SOCKET_IFNAME=$sign$list" || return 1
  one_of family AF_INET AF_INET6 inet
  agrees nccl "$version" ask_nccl "NCCL_SOCKET_FAMILY=$family" || return 1
  one_of id "10.$((RANDOM % 4)).0.9:5" '[2001:db8:1::9]:5' '[fe80::9%eth0]:5' 10.99.9.9:5 127.0.0.1:5 5 '' 169.254.1.1:9
  some_names list
  agrees nccl "$version" ask_nccl "NCCL_COMM_ID=$id" "NCCL_SOCKET_IFNAME=$list"
}

@test "NCCL: machines and settings by chance" {
  need_nccl
  everywhere nccl_here 1 2 -- 3 4 5 6
}

@test "NCCL of other versions: machines and settings by chance" {
  local -a nccls
  need_older_nccls
  for nccl in "${nccls[@]}"; do
    nccl_is "$nccl"
    everywhere nccl_here 7 -- 8 9
  done
}

ucx_here() {
  local devices list family tls
  some_names list all
  one_of devices '' "UCX_NET_DEVICES=$list"
  one_of family '' UCX_TCP_AF_PRIO=inet6 UCX_TCP_AF_PRIO=inet6,inet UCX_TCP_AF_PRIO=inet
  one_of tls '' '' UCX_TLS=tcp UCX_TLS=^tcp UCX_TLS=self,tcp UCX_TLS=self
  agrees ucx "$version" ask_ucx ${devices:+"$devices"} ${family:+"$family"} ${tls:+"$tls"}
}

@test "UCX: machines and settings by chance" {
  need_ucx
  everywhere ucx_here 1 2 -- 3 4 5 6
}

fabric_here() {
  local name given provider
  one_of name "${names[@]:-eth0}" eth lo loopback ens5 eth0,eth1 ''
  one_of given '' "FI_TCP_IFACE=$name"
  one_of provider '' '' FI_PROVIDER=tcp FI_PROVIDER=^tcp FI_PROVIDER=udp
  agrees libfabric "$version" ask_fabric ${given:+"$given"} ${provider:+"$provider"}
}

@test "libfabric: machines and settings by chance" {
  need_fabric
  everywhere fabric_here 1 2 -- 3 4 5 6
}

gloo_here() {
  local hosts list
  one_of hosts '127.0.1.1 node' '10.1.0.5 node' '10.99.0.5 node' '# nobody'
  some_names list
  ip -n "$here" link set lo up
  same_gloo "$hosts" - ${list:+"$list"} "${names[@]}"
}

@test "Gloo: machines and settings by chance" {
  need_torch
  everywhere gloo_here 1 2 -- 3
}
