#!/usr/bin/env bats
# scenes-wall.bats - jobs of Open MPI that hang for a firewall or a switch: reproduced.
# needs: waits root-net
# tests: src/nicpick src/probe src/detect/netfacts.c src/settle src/diagnose src/host src/base src/cli/cmd_net*.c src/cli/cmd_diagnose.c tests/lib/scenes.bash tests/lib/hosts.bash tests/lib/real.bash tests/net/allreduce.c

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/real
load ../lib/scenes

setup() { scenes_setup; }
teardown() { cluster_down; }

# knocks PORT - does one of two nodes try to connect to the other's, and hear nothing?
knocks() { { at n1 ss -Htn state syn-sent && at n2 ss -Htn state syn-sent; } | grep ":$1 *\$" >/dev/null; }

@test "a firewall drops: mpirun hangs without a word" {
  need_nft
  need_mpi
  cluster_up 2
  # On both: whichever rank is first to connect, it must not get through.
  firewall n1 drop
  firewall n2 drop
  start n1 job mpirun --host n1,n2 -np 2 "$job"
  await knocks 1024
  [[ -z $(words job) ]] || { cat job.log; return 1; }
  hangs job
}

@test "a firewall resets or prohibits: Open MPI blames an operation in progress, and hangs" {
  need_nft
  need_mpi
  local how
  cluster_up 2
  for how in 'tcp reset' 'icmpx admin-prohibited'; do
    firewall n1 "reject with $how"
    firewall n2 "reject with $how"
    start n1 job mpirun --host n1,n2 -np 2 "$job"
    says 'connect() to 10.77.0.'
    diagnosed job M4
    heal n1 input
    heal n2 input
  done
}

@test "jumbo frames that the switch does not carry: mpirun cannot start its daemon" {
  need_mpi
  cluster_up 2
  black_hole 2 2
  start n1 job mpirun --host n1,n2 -np 2 "$job"
  await grep -q 'ORTE was unable to reliably start one or more daemons' job.log
  finish job
  [[ $status -ne 0 && $output != *MTU* ]]
  diagnosed job M13
}
