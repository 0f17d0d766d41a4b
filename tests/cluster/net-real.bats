#!/usr/bin/env bats
# net-real.bats - real libraries, asked in network namespaces, against `ringup net explain`.

load ../lib/helper
load ../lib/real

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
  inside "${@:3}" ringup net explain --json --lib "$1" ${version:+--version "$version"} |
    jq -r ".libraries[0] | $2"
}

# same_mpi [VAR=VALUE...] - does Open MPI do here what ringup says?
same_mpi() {
  local log=$BATS_TEST_TMPDIR/log btl oob
  # Some of these jobs are meant to fail, and a wrong pick may hang.
  inside "$@" timeout -k 1 20 mpirun --allow-run-as-root --oversubscribe -np 2 --mca pml ob1 \
    --mca btl tcp,self --mca btl_base_verbose 100 --mca oob_base_verbose 100 "$job" \
    </dev/null >"$log" 2>&1 || true
  btl=$(sed -n 's/.*btl:tcp: using ipv[46] interface //p' "$log" | sort -u | tr '\n' ' ')
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

# same_nccl [VAR=VALUE...] - does NCCL's bootstrap do here what ringup says?
same_nccl() {
  local log=$BATS_TEST_TMPDIR/log real
  # Its log rather than the id: with NCCL_COMM_ID the id holds that.
  inside "$@" NCCL_DEBUG=INFO timeout 60 "$python" -I "$src/tests/net/ask_nccl.py" "$nccl" >"$log" 2>&1
  real=$(sed -nE 's/.*Bootstrap ?: Using ([^:]+):(.*)<[0-9]+>$/\1 \2/p' "$log" | sed 's/%.*//')
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

# one_of WORD... - one of them, by RANDOM.
one_of() {
  local -a words=("$@")
  printf '%s' "${words[RANDOM % $#]}"
}

# some_machine - up to four interfaces of any kind and state, by RANDOM.
some_machine() {
  local name i=0
  local -a names
  mapfile -t names < <(printf '%s\n' eth0 eth1 eth10 ens5 ibmgmt docker0 virbr0 br-a lowlat0 wg0 |
    shuf -n $((RANDOM % 4 + 1)) --random-source=<(yes "$RANDOM"))
  for name in "${names[@]}"; do
    i=$((i + 1))
    if [[ $name == docker0 || $name == virbr0 || $name == br-a ]]; then
      bridge "$name" "10.$i.0.5/$(one_of 16 24)"
    elif ((RANDOM % 3)); then
      cable "$name" "10.$i.0.5/$(one_of 16 24 32)"
    else
      cable "$name" "10.$i.0.5/24" "2001:db8:$i::5/64"
    fi
    ((RANDOM % 4)) || ip -n "$here" link set "$name" down
    echo "# $(ip -n "$here" -br addr show "$name")"
  done
}

# some_names - a list such as people write, by RANDOM.
some_names() {
  local n list=''
  for ((n = RANDOM % 3; n >= 0; n--)); do
    list+=${list:+,}$(one_of eth0 eth1 eth10 ens5 docker0 lo eth e virbr0 "$@")
  done
  printf '%s' "$list"
}

@test "NCCL: machines and settings by chance" {
  need_nccl
  RANDOM=${RINGUP_TEST_SEED:-$$}
  echo "# RINGUP_TEST_SEED=${RINGUP_TEST_SEED:-$$}"
  some_machine
  for _ in {1..6}; do
    same_nccl "NCCL_SOCKET_IFNAME=$(one_of '' '' = ^ ^= =^)$(some_names 'eth0 ' eth1:5)"
    same_nccl "NCCL_SOCKET_FAMILY=$(one_of AF_INET AF_INET6 inet)"
    same_nccl "NCCL_COMM_ID=$(one_of 10.1.0.9:5 10.2.0.9:5 '[2001:db8:1::9]:5' 10.9.9.9:5 127.0.0.1:5 5 '')"
  done
}

@test "Open MPI 4.1: machines and settings by chance" {
  need_mpi
  RANDOM=${RINGUP_TEST_SEED:-$$}
  echo "# RINGUP_TEST_SEED=${RINGUP_TEST_SEED:-$$}"
  some_machine
  for _ in {1..4}; do
    same_mpi "OMPI_MCA_btl_tcp_if_$(one_of include exclude)=$(some_names 10.1.0.0/16 10.2.0.0/24 127.0.0.1/8)" \
      "OMPI_MCA_oob_tcp_if_$(one_of include exclude)=$(some_names 10.1.0.0/16 10.9.0.0/24)"
  done
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
  local log=$BATS_TEST_TMPDIR/log
  inside "$@" NCCL_DEBUG=INFO timeout 60 "$python" -I "$src/tests/net/ask_nccl.py" "$nccl" >"$log" 2>&1 || true
  sed -nE 's/.*Bootstrap: Using ([^:]+):.*/\1/p; /^refuses$/p' "$log" | tail -n 1
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
