#!/usr/bin/env bats
# scenes.bats - jobs that hang for their network: reproduced with the real libraries, and cured.

load ../lib/helper
load ../lib/fault
load ../lib/hosts
load ../lib/real

setup() {
  fault_setup
  declare -gA started=()
}
teardown() { cluster_down; }

# site - what a site with Open MPI has set on all its nodes: nothing about interfaces.
site=(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=/run/nodes/rsh
  OMPI_MCA_pml=ob1 OMPI_MCA_btl='^openib')

# start NODE NAME COMMAND... - in the background, three minutes at most; output to NAME.log.
start() {
  # shellcheck disable=SC2016
  at "$1" env "${site[@]}" bash -c 'echo $$ >"$0"; exec timeout -k 1 180 "$@"' "$PWD/$2.pid" "${@:3}" \
    </dev/null >"$2.log" 2>&1 3>&- &
  started[$2]=$!
}

# words NAME - what it has said, but for a race that mpirun loses on a busy machine, and tells.
words() { grep -v 'plm:rsh: Warning: setpgid.* failed in parent' "$1.log" || true; }

# finish NAME - wait for it; sets status and output.
finish() {
  status=0
  wait "${started[$1]}" || status=$?
  output=$(words "$1")
}

# hangs NAME - is it still there two seconds later?  Ends it.
hangs() {
  sleep 2
  room kill -TERM "$(cat "$1.pid")" || { echo "$1 has ended:" && cat "$1.log" && return 1; }
  finish "$1"
}

# completes COMMAND... - on n1 in good time; sets output.
completes() {
  start n1 job "$@"
  finish job
  expect_status 0
}

# picks NODE LIBRARY ROLE [VAR=VALUE...] - the addresses it would take there, as ringup says.
picks() {
  at "$1" env "${@:4}" ringup net explain --lib "$2" --json |
    jq -r --arg role "$3" '.libraries[0].roles[] | select(.role == $role) | .picks[].address'
}

# diagnosed NAME SIGNATURE... - of its log `ringup diagnose` says one of these first.
diagnosed() {
  local first
  run at n1 ringup diagnose --json "$PWD/$1.log"
  expect_status 1
  first=$(jq -r '.findings[0].signature' <<<"$output")
  [[ " ${*:2} " == *" $first "* ]] || { printf 'not %s: %s\n' "${*:2}" "$output"; return 1; }
}

# on_all N COMMAND... - on each of N nodes, which must all succeed.
on_all() {
  local n=$1 k
  shift
  for ((k = 1; k <= n; k++)); do at "n$k" "$@" || return 1; done
}

# gone PID - has this process ended?
gone() { ! kill -0 "$1" 2>/dev/null; }

@test "a test that is killed leaves no node behind" {
  (
    cluster_up 2
    printf '%s\n' "$room_pid" >room.pid
    exec sleep 100 3>&-
  ) &
  started[test]=$!
  await test -s room.pid
  kill -KILL "${started[test]}"
  await gone "$(cat room.pid)"
}

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

# gloo K N - rank K of N of torch.distributed, on its node as from a login shell; named rank.K.
gloo() {
  start "n$(($1 + 1))" "rank.$1" env RANK="$1" WORLD_SIZE="$2" MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
    bash -lc 'exec "$@"' _ "$python" "$src/tests/peers/gloo_allreduce.py" 8
}

@test "Gloo listens on 127.0.1.1 where that is the host's name: one rank fails, the other hangs" {
  need_torch
  local failed=0
  cluster_up 2 loopback-name
  gloo 0 2
  gloo 1 2
  # Who connects to whom depends on the ports; the other one waits.
  await grep -q 'connectFullMesh failed.*Connection refused, remote=\[127\.0\.1\.1\]' rank.0.log rank.1.log
  ! grep -q 'connectFullMesh failed' rank.1.log || failed=1
  finish "rank.$failed"
  [[ $status -ne 0 && $status -ne 124 ]]
  hangs "rank.$((1 - failed))"
  diagnosed "rank.$failed" G2 G5
  # Each node says what is wrong with it.
  [[ $(picks n2 gloo pair) == 127.0.1.1 ]]
  on_all 2 ringup net fix
  gloo 0 2
  gloo 1 2
  finish rank.0
  expect_status 0
  finish rank.1
  expect_status 0
}

# nccl VAR=VALUE... - the interface and address of NCCL's bootstrap on n1, with these set.
nccl() {
  at n1 env "$@" NCCL_DEBUG=INFO "$python" -I "$src/tests/net/ask_nccl.py" "$nccl" 2>&1 |
    sed -nE 's/.*Bootstrap: Using ([^:]+):(.*)<[0-9]+>$/\1 \2/p'
}

@test "NCCL_SOCKET_IFNAME=^docker0 makes NCCL take the loopback" {
  need_nccl
  cluster_up 1 docker
  [[ $(nccl NCCL_SOCKET_IFNAME=^docker0) == 'lo 127.0.0.1' ]]
  [[ $(picks n1 nccl bootstrap NCCL_SOCKET_IFNAME=^docker0) == 127.0.0.1 ]]
  # What everybody means by it is a name, and lint says which.
  run at n1 env NCCL_SOCKET_IFNAME=^docker0 ringup net lint
  expect_status 1
  expect_line '    write:    export NCCL_SOCKET_IFNAME==eth0'
  [[ $(nccl NCCL_SOCKET_IFNAME==eth0) == 'eth0 10.77.0.1' ]]
  at n1 ringup net fix
  [[ $(nccl) == 'eth0 10.77.0.1' ]]
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

# knocks PORT - does one of two nodes try to connect to the other's, and hear nothing?
knocks() { { at n1 ss -Htn state syn-sent && at n2 ss -Htn state syn-sent; } | grep ":$1 *\$" >/dev/null; }

# asks NETWORK - does a node ask for an address there that nobody has?
asks() { { at n1 ip neigh && at n2 ip neigh; } | grep -E "^$1.*(INCOMPLETE|FAILED)" >/dev/null; }

# says TEXT - has the job said so by now, or soon?  Then it hangs.
says() {
  await grep -qF "$1" job.log
  hangs job
}

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

@test "IPv6 alone: Open MPI and NCCL take it, and explain says so" {
  need_mpi
  cluster_up 2 ipv6
  completes mpirun --host n1,n2 -np 2 "$job"
  [[ $(picks n1 openmpi btl) == fd77::1 ]]
  need_nccl
  [[ $(nccl) == "eth0 $(picks n1 nccl bootstrap)" ]]
}

# verdict STATUS PATTERN - what the first line of a check of n1, n2 and n3 is like.
verdict() {
  run at n1 ringup net check --timeout 60 --ssh /run/nodes/rsh n1 n2 n3
  first_line "$@"
}

# first_line STATUS PATTERN - is that what `run` has brought?
first_line() {
  # shellcheck disable=SC2053
  [[ $status -eq $1 && ${lines[0]} == $2 ]] || {
    printf 'status %s, expected %s: %s\nprinted:\n%s\n' "$status" "$1" "$2" "$output"
    return 1
  }
}

# well - nothing is wrong.  One machine is all three nodes, and where other tests have its
# processors, a path may really be slow for as long as a check takes; not for six of them.
well() {
  for _ in 1 2 3 4 5; do
    verdict 0 'all is well between 3 nodes' >/dev/null && return 0
    [[ $output == *", elsewhere "* ]] || break
    sleep 3 # two processors of a virtual machine may be one core's for seconds
  done
  verdict 0 'all is well between 3 nodes'
}

@test "check: all is well, also with IPv6 alone" {
  cluster_up 3
  well
  cluster_down
  cluster_up 3 ipv6
  well
}

@test "check: the address of docker0, idle or with a container, before eth0 or after" {
  local kind
  for kind in docker docker-first docker-running; do
    cluster_up 3 "$kind"
    verdict 1 '172.17.0.1 is docker0 of n1, n2 and n3*'
    cluster_down
  done
}

@test "check: the firewall of one node, and how it says no" {
  need_nft
  cluster_up 3
  firewall n2 drop
  verdict 1 '*reaches n2 *filtered*'
  heal n2 input
  firewall n2 'reject with tcp reset'
  verdict 1 '*reaches n2 *refused*'
  heal n2 input
  firewall n2 'reject with icmpx admin-prohibited'
  verdict 1 '*reaches n2 *prohibited*'
}

@test "check: jumbo frames that do not reach one node" {
  cluster_up 3
  black_hole 3 2
  verdict 1 'MTU black hole to and from n2: 9000 bytes at both ends, 1500 between*'
}

@test "check: an address that two nodes have" {
  cluster_up 3
  room ip -n n3 address flush dev eth0
  room ip -n n3 address add 10.77.0.2/24 dev eth0
  verdict 1 '10.77.0.2 is eth0 of n2 and n3*'
}

@test "check: an interface that comes first and leads nowhere" {
  cluster_up 3 management
  verdict 1 'eth1 leads to no other node*'
}

@test "check: cards with other names" {
  cluster_up 3 names
  verdict 1 '10.77.0.0/24 is called ens5 on n2, and eth0 elsewhere*'
}

@test "check: a node whose name is its loopback" {
  cluster_up 3 loopback-name
  verdict 1 'on n1, n2 and n3 the own host name means 127.0.1.1*'
}

@test "check over real ssh names the address that both nodes have" {
  need_ssh
  cluster_up 2 docker
  ssh_up 2
  run at n1 ringup net check --timeout 60 n1 n2
  first_line 1 '172.17.0.1 is docker0 of n1 and*n2*'
}

# examples FILE DIR - the commands of its console blocks as DIR/BLOCK.N.cmd, what they print as .want.
examples() {
  mkdir "$2"
  awk -v out="$2/" '
    /^```console/ { block++; on = 1; next }
    /^```/ { on = 0 }
    on && /^\$ / { f = sprintf("%s%02d.%02d", out, block, ++n); print substr($0, 3) >(f ".cmd"); printf "" >(f ".want"); next }
    on { print >(f ".want") }' "$1"
}

# alike TEXT PATTERN - is it the text, where "..." stands for anything?
alike() {
  local pattern
  pattern=$(sed 's/[][\\*?()+@!|]/\\&/g; s/\.\.\./*/g' <<<"$2")
  # shellcheck disable=SC2053
  [[ $1 == $pattern ]]
}

# example FILE COMMAND-FILE - does it print what the page says?  How fast this machine moves bytes
# between two nodes is not the page's: a check that finds one direction slow is made again.
example() {
  local want try
  # What mpirun says before, and in how many lines, is not the page's.
  want=$(sed 's/job\.log:[0-9]*/job.log:.../' "${2%.cmd}.want")
  for try in 1 2 3 4 5 6; do
    start n1 example bash "$PWD/$2"
    finish example
    if alike "$output" "$want"; then return 0; fi
    [[ $output == *', elsewhere '* ]] || break
    echo "# attempt $try: a link was slow for a moment" >&3
    sleep 3
  done
  printf '%s: %s\nexpected:\n%s\nprinted:\n%s\n' "$1" "$(cat "$2")" "$want" "$output"
  head -n 5 hung.log
  return 1
}

# fresh_pair - two nodes with docker0, ssh and a program `job`; on n1 what that said as job.log.
fresh_pair() {
  cluster_down
  cluster_up 2 docker
  ssh_up 2
  room cp "$job" /run/nodes/n1/login/job
  room cp "$job" /run/nodes/n2/login/job
  if [[ ! -e hung.log ]]; then
    start n1 job mpirun --host n1,n2 -np 2 ./job
    says 'accepted a TCP connection from what appears to be a'
    words job >hung.log
  fi
  room tee /run/nodes/n1/login/job.log <hung.log >/dev/null
}

@test "README.md, docs/network.md: every command prints what the page says" {
  need_mpi
  need_ssh
  local f cmd block
  for f in README.md docs/network.md; do
    rm -rf examples
    examples "$src/$f" examples
    block=''
    for cmd in examples/*.cmd; do
      [[ ${cmd%%.*} == "$block" ]] || fresh_pair
      block=${cmd%%.*}
      example "$f" "$cmd"
    done
  done
}
