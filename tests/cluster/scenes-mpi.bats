#!/usr/bin/env bats
# scenes-mpi.bats - jobs of Open MPI that hang for an interface: reproduced, and cured.
# needs: waits root-net
# tests: src/nicpick src/probe src/detect/netfacts.c src/settle src/diagnose src/host src/base src/cli/cmd_net*.c src/cli/cmd_diagnose.c tests/lib/scenes.bash tests/lib/hosts.bash tests/lib/real.bash tests/net/allreduce.c

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/real
load ../lib/scenes

setup() { scenes_setup; }
teardown() { cluster_down; }

@test "Open MPI warns of a process it cannot find, and hangs: docker0 has the same address everywhere" {
  need_mpi
  cluster_up 2 docker
  start n1 job mpirun --host n1,n2 -np 2 "$job"
  await grep -q 'accepted a TCP connection from what appears to be a' job.log
  hangs job
  diagnosed job M1
  # Why: it uses an interface that is merely up, and both nodes have this one.
  [[ $(picks n1 openmpi btl | sort | tr '\n' ' ') == '10.77.0.1 172.17.0.1 ' ]]
  on_all 2 ringup net fix
  completes mpirun --host n1,n2 -np 2 "$job"
  expect_line 'sum 2 of 2'
}

@test "a job that ssh starts: the same hang, the same cure" {
  need_mpi
  need_ssh
  cluster_up 2 docker
  ssh_up 2
  [[ $(at n1 ssh n2 hostname) == n2 ]]
  site=("${site[@]/OMPI_MCA_plm_rsh_agent=*/OMPI_MCA_plm_rsh_agent=ssh}")
  start n1 job mpirun --host n1,n2 -np 2 "$job"
  await grep -q 'accepted a TCP connection from what appears to be a' job.log
  hangs job
  at n1 ringup net fix --nodes n1 n2
  completes mpirun --host n1,n2 -np 2 "$job"
  expect_line 'sum 2 of 2'
}

# asks NETWORK - does a node ask for an address there that nobody has?
asks() { { at n1 ip neigh && at n2 ip neigh; } | grep -E "^$1.*(INCOMPLETE|FAILED)" >/dev/null; }

@test "an interface that comes first and leads nowhere: mpirun hangs; pinned, it runs" {
  need_mpi
  cluster_up 2 management
  start n1 job mpirun --host n1,n2 -np 2 "$job"
  await asks 192.168.50.
  hangs job
  on_all 2 ringup net fix
  completes mpirun --host n1,n2 -np 2 "$job"
}

@test "cards with other names: a name for all nodes ends Open MPI, a network does not" {
  need_mpi
  cluster_up 2 names
  start n1 job mpirun --host n1,n2 -np 2 --mca oob_tcp_if_include eth0 "$job"
  finish job
  [[ $status -ne 0 && $output == *'None of the TCP networks specified to be included'* ]]
  diagnosed job M10
  # Nodes on which no daemon of the job that failed may still be ending.
  cluster_down
  cluster_up 2 names
  completes mpirun --host n1,n2 -np 2 --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 "$job"
}

@test "IPv6 alone: Open MPI takes it, and explain says so" {
  need_mpi
  cluster_up 2 ipv6
  completes mpirun --host n1,n2 -np 2 "$job"
  [[ $(picks n1 openmpi btl) == fd77::1 ]]
}
