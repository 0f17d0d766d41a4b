#!/usr/bin/env bats
# net-real.bats - real libraries, asked in network namespaces, against `ringup net explain`.

load ../lib/helper

setup() {
  [[ $EUID -eq 0 ]] && ip netns add "rprobe$$" 2>/dev/null || skip "needs root and ip netns"
  ip netns del "rprobe$$"
  command -v jq >/dev/null || skip "jq is not installed"
  here=rh$$ there=rt$$
  spaces=("$here" "$there")
  ip netns add "$here"
  ip netns add "$there"
  # Nobody can bind to an address while the kernel still looks for its double.
  ip netns exec "$here" bash -c 'for f in all default; do echo 0 >"/proc/sys/net/ipv6/conf/$f/accept_dad"; done'
  ip -n "$here" link set lo up
}

teardown() {
  local n
  for n in "${spaces[@]:-}"; do
    [[ -z $n ]] || ip netns del "$n" || true
  done
}

# cable NAME ADDRESS... - a network card of $here that is plugged in.
cable() {
  local name=$1 a
  ip link add "$name" netns "$here" type veth peer name "p-$name" netns "$there"
  ip -n "$there" link set "p-$name" up
  for a in "${@:2}"; do
    ip -n "$here" addr add "$a" dev "$name" $([[ $a != *:* ]] || echo nodad)
  done
  ip -n "$here" link set "$name" up
  wait_running "$name"
}

# wait_running NAME - the kernel says UP a moment before it says RUNNING.
wait_running() {
  local i
  for i in {1..100}; do
    ip -n "$here" -o link show "$1" | grep -q 'state UP' && return 0
    sleep 0.02
  done
  return 1
}

# bridge NAME ADDRESS - as dockerd leaves it without containers: up and idle.
bridge() {
  ip -n "$here" link add "$1" type bridge
  ip -n "$here" link set "$1" address 02:42:00:00:00:01
  ip -n "$here" addr add "$2" dev "$1"
  ip -n "$here" link set "$1" up
}

# inside COMMAND... - in $here, with nobody's settings but those on the line.
inside() {
  ip netns exec "$here" env -i PATH="$PATH" HOME="$BATS_TEST_TMPDIR" TMPDIR="$BATS_TEST_TMPDIR" LC_ALL=C "$@"
}

# explained LIB FILTER [VAR=VALUE...] - what ringup says of a library there.
explained() {
  inside "${@:3}" ringup net explain --json --lib "$1" | jq -r ".libraries[0] | $2"
}

# need_mpi - an Open MPI 4.1 to ask, and a program that makes it talk; sets $job.
need_mpi() {
  command -v mpicc >/dev/null && command -v mpirun >/dev/null || skip "Open MPI is not installed"
  mpirun --version | grep -q 'Open MPI) 4\.1' || skip "mpirun is not Open MPI 4.1"
  job=$BATS_TEST_TMPDIR/allreduce
  mpicc -o "$job" "$src/tests/net/allreduce.c"
}

# same_mpi [VAR=VALUE...] - does Open MPI do here what ringup says?
same_mpi() {
  local log=$BATS_TEST_TMPDIR/log btl oob
  # Some of these jobs are meant to fail, and a wrong pick may hang.
  inside "$@" timeout -k 1 20 mpirun --allow-run-as-root --oversubscribe -np 2 --mca pml ob1 \
    --mca btl tcp,self --mca btl_base_verbose 100 --mca oob_base_verbose 100 "$job" \
    </dev/null >"$log" 2>&1 || true
  btl=$(sed -n 's/.*btl:tcp: using ipv6 interface //p' "$log" | sort -u | tr '\n' ' ')
  oob=$(sed -n 's/.*oob:tcp:init adding \(.*\) to our list.*/\1/p' "$log" | awk '!seen[$0]++' | tr '\n' ' ')
  [[ -s $log ]]
  # Without control connections mpirun ends before any rank looks for its own.
  [[ -n $oob ]] || btl=unknown
  diff <(printf 'btl %s\noob %s\n' "$btl" "$oob") <(
    if [[ -z $oob ]]; then
      echo 'btl unknown'
    else
      printf 'btl %s\n' "$(explained openmpi '.roles[0].picks[].interface' "$@" | sort -u | tr '\n' ' ')"
    fi
    printf 'oob %s\n' "$(explained openmpi '.roles[1].picks[].address' "$@" | tr '\n' ' ')"
  ) || {
    echo "with: $* (< Open MPI, > ringup)"
    return 1
  }
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

# need_nccl - sets $nccl and $python.
need_nccl() {
  nccl=${RINGUP_TEST_NCCL:-}
  [[ -n $nccl ]] || skip "RINGUP_TEST_NCCL names no libnccl.so.2"
  python=${RINGUP_TEST_PYTHON:-python3}
}

# same_nccl [VAR=VALUE...] - does NCCL's bootstrap do here what ringup says?
same_nccl() {
  local log=$BATS_TEST_TMPDIR/log real
  # Its log rather than the id: with NCCL_COMM_ID the id holds that.
  inside "$@" NCCL_DEBUG=INFO timeout 60 "$python" -I "$src/tests/net/ask_nccl.py" "$nccl" >"$log" 2>&1
  real=$(sed -nE 's/.*Bootstrap: Using ([^:]+):(.*)<[0-9]+>$/\1 \2/p' "$log" | sed 's/%.*//')
  if grep -qx refuses "$log"; then
    real=refuses
  fi
  [[ -n $real ]]
  diff <(echo "$real") <(explained nccl '.roles[0] | if .error then "refuses" else
    "\(.picks[0].interface) \(.picks[0].address)" end | sub("%.*"; "")' "$@") || {
    echo "with: $* (< NCCL, > ringup)"
    return 1
  }
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

# need_torch - a Python that has torch with Gloo; sets $python.
need_torch() {
  python=${RINGUP_TEST_PYTHON:-python3}
  "$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null ||
    skip "no torch with Gloo in $python; RINGUP_TEST_PYTHON names another"
}

# named TEXT COMMAND... - in $here, on a host called node, with TEXT as its /etc/hosts.
named() {
  printf '127.0.0.1 localhost\n%s\n' "$1" >"$BATS_TEST_TMPDIR/hosts"
  inside unshare --uts --mount --propagation private bash -c '
    hostname node && mount --bind "$1" /etc/hosts && exec "${@:2}"' _ "$BATS_TEST_TMPDIR/hosts" "${@:2}"
}

# same_gloo HOSTS VALUE... - does Gloo listen where ringup says, for each GLOO_SOCKET_IFNAME?
same_gloo() {
  local hosts=$1 v said work=$BATS_TEST_TMPDIR/gloo
  shift
  rm -rf "$work"
  mkdir "$work"
  named "$hosts" timeout 200 "$python" -I "$src/tests/net/ask_gloo.py" "$work" "$@" \
    >"$work.real" 2>"$work.err" || {
    cat "$work.real" "$work.err"
    return 1
  }
  for v in "$@"; do
    if [[ $v == - ]]; then
      said=$(named "$hosts" ringup net explain --json --lib gloo) || true # a tie is status 1
    else
      said=$(named "$hosts" env GLOO_SOCKET_IFNAME="$v" ringup net explain --json --lib gloo) || true
    fi
    jq -r --arg v "$v" '.libraries[0].roles[0] |
      "\($v)|\(if .error then "refuses" else [.picks[].address] | unique | join(" ") end)"' <<<"$said"
  done >"$work.model"
  [[ $(wc -l <"$work.real") -eq $# ]]
  diff "$work.real" "$work.model" || {
    echo "with hosts: $hosts (< Gloo, > ringup)"
    return 1
  }
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

# remote HOST COMMAND... - a shell for mpirun's agent: HOST is a namespace.
remote_script() {
  cat >"$BATS_TEST_TMPDIR/remote" <<EOT
#!/bin/bash
h=\$1
shift
exec ip netns exec "\$h" unshare --uts --mount --propagation private bash -c '
  hostname "\$1" && mount --bind "$BATS_TEST_TMPDIR/hosts" /etc/hosts
  [[ ! -e "$BATS_TEST_TMPDIR/pinned/\$1" ]] ||
    mount --bind "$BATS_TEST_TMPDIR/pinned/\$1/etc/openmpi" /etc/openmpi
  exec bash -c "\$2"' _ "\$h" "\$*"
EOT
  chmod +x "$BATS_TEST_TMPDIR/remote"
}

# two_nodes - $here and $there with one cable, and the same idle docker0 on both.
two_nodes() {
  local n i=0
  ip link add eth0 netns "$here" type veth peer name eth0 netns "$there"
  : >"$BATS_TEST_TMPDIR/hosts"
  echo '127.0.0.1 localhost' >"$BATS_TEST_TMPDIR/hosts"
  for n in "$here" "$there"; do
    i=$((i + 1))
    ip -n "$n" link set lo up
    ip -n "$n" addr add "10.77.0.$i/24" dev eth0
    ip -n "$n" link set eth0 up
    ip -n "$n" link add docker0 type bridge
    ip -n "$n" link set docker0 address "02:42:00:00:00:0$i"
    ip -n "$n" addr add 172.17.0.1/16 dev docker0
    ip -n "$n" link set docker0 up
    ip -n "$n" route add default via 10.77.0.254
    echo "10.77.0.$i $n" >>"$BATS_TEST_TMPDIR/hosts"
  done
  wait_running eth0
}

# across SECONDS - one rank on each node; the status is mpirun's, 124 for a hang.
across() {
  "$BATS_TEST_TMPDIR/remote" "$here" timeout -k 1 "$1" env -i PATH="$PATH" HOME="$BATS_TEST_TMPDIR" TMPDIR="$BATS_TEST_TMPDIR" \
    mpirun --allow-run-as-root --mca plm_rsh_agent "$BATS_TEST_TMPDIR/remote" \
    --host "$here,$there" -np 2 --mca pml ob1 --mca btl tcp,self "$job" </dev/null
}

@test "pin cures the hang of Open MPI on two nodes with docker0" {
  need_mpi
  local n
  two_nodes
  remote_script
  [[ -d /etc/openmpi ]] || skip "this Open MPI does not read /etc/openmpi"
  run across 5
  [[ $status -ne 0 ]] || { echo "it works without, so this proves nothing: $output"; return 1; }
  for n in "$here" "$there"; do
    mkdir -p "$BATS_TEST_TMPDIR/pinned/$n/etc"
    cp -r /etc/openmpi "$BATS_TEST_TMPDIR/pinned/$n/etc/"
    ip netns exec "$n" env -u OMPI_MCA_btl_tcp_if_include \
      ringup net pin --root "$BATS_TEST_TMPDIR/pinned/$n"
    grep -qx 'btl_tcp_if_include = eth0' "$BATS_TEST_TMPDIR/pinned/$n/etc/openmpi/openmpi-mca-params.conf"
  done
  run across 30
  expect_status 0
  expect_line 'sum 2 of 2'
}
