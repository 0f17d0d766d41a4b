#!/usr/bin/env bats
# net-chance.bats - real libraries on machines by chance, against `ringup net explain`.

load ../lib/helper
load ../lib/real
load ../lib/space
load ../lib/asked
load ../lib/chance

setup() {
  here='' version=''
  space_open
}

teardown() {
  space_close
}

# everywhere ASK-ON-A-MACHINE SEED... - on a machine for each seed.
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
  ip -n "$here" link set lo up
  agrees openmpi "$version" ask_mpi4 "OMPI_MCA_btl_tcp_if_$(one_of include exclude)=$(some_nets)" \
    "OMPI_MCA_oob_tcp_if_$(one_of include exclude)=$(some_nets)"
}

@test "Open MPI 4.1: machines and settings by chance" {
  need_mpi
  everywhere mpi4_here 1 2 3 4 5 6
}

mpi5_here() {
  ip -n "$here" link set lo up
  agrees openmpi "$version" ask_mpi5 "OMPI_MCA_btl_tcp_if_$(one_of include exclude)=$(some_nets)" \
    "PRTE_MCA_$(one_of prte_if oob_tcp_if oob_tcp)_$(one_of include exclude)=$(some_nets)" \
    "$(one_of A=1 A=1 OMPI_MCA_btl_tcp_disable_family=4 OMPI_MCA_btl_tcp_disable_family=6)"
}

@test "Open MPI 5: machines and settings by chance" {
  need_mpi5
  everywhere mpi5_here 1 2 3 4 5 6
}

nccl_here() {
  agrees nccl "$version" ask_nccl "NCCL_SOCKET_IFNAME=$(one_of '' '' = ^ ^= =^)$(some_names e eth "$(one_of "${names[@]:-eth0}"):1")" &&
    agrees nccl "$version" ask_nccl "NCCL_SOCKET_FAMILY=$(one_of AF_INET AF_INET6 inet)" &&
    agrees nccl "$version" ask_nccl "NCCL_COMM_ID=$(one_of "10.$((RANDOM % 4)).0.9:5" '[2001:db8:1::9]:5' \
      '[fe80::9%eth0]:5' 10.99.9.9:5 127.0.0.1:5 5 '' 169.254.1.1:9)" "NCCL_SOCKET_IFNAME=$(some_names)"
}

@test "NCCL: machines and settings by chance" {
  need_nccl
  everywhere nccl_here 1 2 3 4 5 6
}

ucx_here() {
  agrees ucx "$version" ask_ucx "$(one_of A=1 "UCX_NET_DEVICES=$(some_names all)")" \
    "$(one_of A=1 UCX_TCP_AF_PRIO=inet6 UCX_TCP_AF_PRIO=inet6,inet UCX_TCP_AF_PRIO=inet)" \
    "$(one_of A=1 A=1 UCX_TLS=tcp UCX_TLS=^tcp UCX_TLS=self,tcp UCX_TLS=self)"
}

@test "UCX: machines and settings by chance" {
  need_ucx
  everywhere ucx_here 1 2 3 4 5 6
}

fabric_here() {
  agrees libfabric "$version" ask_fabric "$(one_of A=1 "FI_TCP_IFACE=$(one_of "${names[@]:-eth0}" eth lo loopback ens5 eth0,eth1 '')")" \
    "$(one_of A=1 A=1 FI_PROVIDER=tcp FI_PROVIDER=^tcp FI_PROVIDER=udp)"
}

@test "libfabric: machines and settings by chance" {
  need_fabric
  everywhere fabric_here 1 2 3 4 5 6
}
