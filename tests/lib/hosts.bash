# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# hosts.bash - two hosts joined by a cable that can be cut, or a cluster of up to eight nodes.

# need_namespaces - skip where no networks can be made.
need_namespaces() {
  if [[ $EUID -ne 0 ]] || ! unshare --net --mount true 2>/dev/null; then
    skip "needs root and namespaces"
  fi
  command -v ip >/dev/null || skip "ip is not installed"
}

# hosts_setup - make namespaces $a and $b with 10.9.0.1 and .2 on eth0; or skip.
hosts_setup() {
  need_namespaces
  a=fa$$ b=fb$$
  ip netns add "$a"
  ip netns add "$b"
  ip -n "$a" link add eth0 type veth peer name eth0 netns "$b"
  ip -n "$a" addr add 10.9.0.1/24 dev eth0
  ip -n "$b" addr add 10.9.0.2/24 dev eth0
  local host
  for host in "$a" "$b"; do
    ip -n "$host" link set lo up
    ip -n "$host" link set eth0 up
  done
  for host in "$a" "$b"; do
    await link_up "$host"
  done
  mkdir -m 700 meet
}

# link_up HOST [NAME] - has eth0, or NAME, there a carrier?
link_up() {
  [[ $(at "$1" ip link show "${2:-eth0}") == *"state UP"* ]]
}

# third_host - $c, with 10.9.0.3; all three are plugged into a switch in $hub from now on.
third_host() {
  local host n=0
  c=fc$$ hub=fh$$
  ip netns add "$c"
  ip netns add "$hub"
  ip -n "$a" link del eth0
  ip -n "$hub" link add switch type bridge
  ip -n "$hub" link set switch up
  for host in "$a" "$b" "$c"; do
    n=$((n + 1))
    ip -n "$host" link add eth0 type veth peer name "port$n" netns "$hub"
    ip -n "$hub" link set "port$n" master switch up
    ip -n "$host" addr add "10.9.0.$n/24" dev eth0
    ip -n "$host" link set lo up
    ip -n "$host" link set eth0 up
  done
  for host in "$a" "$b" "$c"; do
    await link_up "$host"
  done
}

# hosts_teardown - end what runs there, and the namespaces.
hosts_teardown() {
  local host
  fault_teardown
  for host in ${a:+"$a"} ${b:+"$b"} ${c:+"$c"} ${hub:+"$hub"}; do
    ip netns del "$host" 2>/dev/null || true
  done
}

# on HOST RANK SIZE ARG... - start a looping rank there in the background.
on() {
  local host=$1 rank=$2 size=$3
  shift 3
  RINGUP_RANK=$rank RINGUP_SIZE=$size RINGUP_MEET=$PWD/meet RINGUP_JOB=net$$ \
    RINGUP_START_TIMEOUT_MS=30000 \
    timeout 100 ip netns exec "$host" "$loop" "$@" >>out 2>>err 3>&- &
}

# spread_many N ARG... - N ranks, the first half on $a, the others on $b, all ready.
spread_many() {
  local n=$1 rank
  shift
  rm -rf out err meet
  mkdir -m 700 meet
  for ((rank = 0; rank < n; rank++)); do
    if ((rank < n / 2)); then on "$a" "$rank" "$n" "$@"; else on "$b" "$rank" "$n" "$@"; fi
  done
  await said "$n" ready
}

# spread ARG... - four ranks, 0 and 1 on $a, 2 and 3 on $b, all ready.
spread() { spread_many 4 "$@"; }

# need_nft - skip where packets cannot be dropped.
need_nft() {
  command -v nft >/dev/null || skip "nft is not installed"
}

# filter HOST HOOK VERDICT [RULE...] - do that with what RULE matches (all) on its way "input" or "output".
filter() {
  local host=$1 hook=$2 verdict=$3
  shift 3
  at "$host" nft -f - <<EOT
table inet fault_$hook {
  chain c { type filter hook $hook priority 0; ${*:-oifname != "lo" iifname != "lo"} $verdict; }
}
EOT
}

# drop HOST HOOK [RULE...] - drop what RULE matches (all) on its way "input" or "output".
drop() { filter "$1" "$2" drop "${@:3}"; }

# heal HOST HOOK - let everything through again.
heal() {
  at "$1" nft delete table inet "fault_$2"
}

# partition - no packet passes between the hosts; prints when.
partition() {
  drop "$a" input 'iifname "eth0"'
  drop "$a" output 'oifname "eth0"'
  "$strike" 0
}

# both_sides AT [N] - N (4) ranks have had an error about it, those of both hosts.
both_sides() {
  await said "${2:-4}" error
  wait
  [[ $(grep -cE '^error [0-9] [0-9]+ [0-9]+ -5 ' out) -eq ${2:-4} ]] || { cat out err; return 1; }
  took=$(after "$1" error)
  noted
  not grep -q '^wrong' out
}

# trio ARG... - a rank on each of three hosts; those on $b and $c are no neighbours in the tree.
trio() {
  third_host
  rm -rf out err meet
  mkdir -m 700 meet
  on "$a" 0 3 "$@"
  on "$b" 1 3 "$@"
  on "$c" 2 3 "$@"
  await said 3 ready
}

# part - no packet passes between $b and $c.
part() {
  drop "$b" input 'ip saddr 10.9.0.3'
  drop "$c" input 'ip saddr 10.9.0.2'
}

# survived N - N ranks that have waited for the file go on, and are right; and one had been missed.
survived() {
  await grep -q 'is back' err
  touch enough
  await said "$1" "done"
  wait
  not grep -qE '^(error|wrong)' out
  [[ $(awk '$1 == "done" { print $6 }' out | sort -u | wc -l) -eq 1 ]]
}

# at HOST COMMAND... - run it on a host, or on a node of the cluster as a fresh login would.
at() {
  if [[ -n ${room_pid:-} ]]; then room /run/nodes/at "$@"; else ip netns exec "$@"; fi
}

# room COMMAND... - run it where all processes of the cluster and its switch are.
room() { nsenter -t "$room_pid" -n -m -p "$@"; }

# cluster_up N [KIND] - nodes n1 to nN on a switch, with an eth0 of 10.77.0.K; or skip.
#
# Each has a host name, /etc, /tmp, /dev/shm and a home of its own.  All their
# processes are below one that the kernel ends with the test, whatever ends
# that, and no namespace or mount can be seen outside of it.
#
#   plain           eth0 and nothing else
#   docker          an idle docker0 with the same address on every node
#   docker-first    the same, and it comes before eth0
#   docker-running  the same, with a container behind it
#   names           every second node calls its card ens5
#   ipv6            fd77::K and no IPv4
#   loopback-name   each node's own name is 127.0.1.1, as Debian's installer has it
#   management      an eth1 that comes first and leads to no other node
cluster_up() {
  local n=$1 k
  kind=${2:-plain}
  need_namespaces
  setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child --mount-proc \
    bash -c 'mount -t tmpfs -o mode=755 none /run && mkdir /run/netns /run/sshd /run/nodes &&
      ip link add switch type bridge && ip address add 10.77.0.254/24 dev switch &&
      ip address add fd77::fe/64 dev switch nodad && ip link set switch up && : >"$1" &&
      while :; do sleep 1000 & wait; done' _ "$BATS_TEST_TMPDIR/room" </dev/null >/dev/null 2>&1 3>&- &
  room_parent=$!
  await test -e "$BATS_TEST_TMPDIR/room"
  room_pid=$(<"/proc/$room_parent/task/$room_parent/children")
  room_pid=${room_pid% }
  room_programs
  for ((k = 1; k <= n; k++)); do node_up "$k" "$n"; done
  for ((k = 1; k <= n; k++)); do await link_up "n$k" "$(card "$k")"; done
}

# cluster_down - end the cluster; when that has ended there is nothing left of it.
cluster_down() {
  [[ -n ${room_parent:-} ]] || return 0
  kill -KILL "$room_parent" 2>/dev/null || true
  wait "$room_parent" 2>/dev/null || true
  rm -f "$BATS_TEST_TMPDIR/room"
  room_pid='' room_parent=''
}

# card K - what node K calls its card.
card() {
  if [[ $kind == names && $(($1 % 2)) -eq 0 ]]; then echo ens5; else echo eth0; fi
}

# room_programs - write `at NODE COMMAND...`, and `rsh NODE WORDS...` for mpirun.
room_programs() {
  local path
  printf -v path 'PATH=%q LD_LIBRARY_PATH=%q' "$PATH:/usr/sbin:/sbin" "${LD_LIBRARY_PATH:-}"
  room bash -c 'cat >/run/nodes/at && chmod +x /run/nodes/at' <<EOT
#!/bin/bash
# at NODE COMMAND... - run it there, as a fresh login would.
home=/run/nodes/\$1/login
exec nsenter -t "\$(</run/nodes/\$1/pid)" -n -u -i -m --wd="\$home" env -i $path \\
  HOME="\$home" USER=root LOGNAME=root LC_ALL=C.UTF-8 "\${@:2}"
EOT
  room bash -c 'cat >/run/nodes/rsh && chmod +x /run/nodes/rsh' <<'EOT'
#!/bin/bash
# rsh NODE WORD... - as ssh would: the words are a line for the shell there.
exec /run/nodes/at "$1" sh -c "${*:2}"
EOT
}

# kept - what is below /tmp and needed on the nodes: the test's files, the build, Python.
kept() {
  local p
  for p in "$BATS_TEST_TMPDIR" "$src" "${builddir:-}" "${RINGUP_TEST_PYTHON:-}" "${RINGUP_TEST_NCCL:-}" \
    ${PATH//:/ }; do
    [[ $p != /tmp/* ]] || printf '%s\n' "${p#/tmp/}" | cut -d / -f 1
  done | sort -u
}

# node_up K N - make node K of N and plug it in.
node_up() {
  local name=n$1
  local -a keep
  mapfile -t keep < <(kept)
  room mkdir -p "/run/nodes/$name"
  room bash -c 'unshare --net --uts --ipc --mount bash -c "$0" _ "$@" </dev/null >/dev/null 2>&1 3>&- &
    echo $! >"/run/nodes/$1/pid"' "$node_program" "$name" "$1" "${keep[@]}"
  await room test -e "/run/nodes/$name/ready"
  room ip netns attach "$name" "$(room cat "/run/nodes/$name/pid")"
  node_hosts "$1" "$2" | room tee "/run/nodes/$name/etc/hosts" >/dev/null
  node_cards "$1"
}

# What the first process of a node does; its arguments are NAME K and what to keep of /tmp.
# It writes to its copy by the name of that, never to /etc.
node_program='
  set -eu
  dir=/run/nodes/$1
  hostname "$1"
  mkdir "$dir/login" "$dir/tmp"
  cp -a /etc "$dir/etc"
  ringup net fix --undo --root "$dir" >/dev/null
  rm -f "$dir/etc/nccl.conf" "$dir/etc/profile.d/ringup.sh"
  echo "hosts: files" >"$dir/etc/nsswitch.conf"
  rm -f "$dir/etc/machine-id"
  printf "%032x\n" "$2" >"$dir/etc/machine-id"
  sed -i "s|^\(root:.*\):/root:|\1:$dir/login:|" "$dir/etc/passwd"
  mount --bind "$dir/etc" /etc
  mount -t sysfs none /sys
  mount -t tmpfs -o mode=1777 none /dev/shm
  for f in "${@:3}"; do
    mkdir "$dir/tmp/$f"
    mount --rbind "/tmp/$f" "$dir/tmp/$f"
  done
  chmod 1777 "$dir/tmp"
  mount --rbind "$dir/tmp" /tmp
  # The names of networks are those of the room.
  mount -t tmpfs none /run/netns
  echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
  ip link set lo up
  : >"$dir/ready"
  exec sleep infinity'

# node_hosts K N - what node K of N has in /etc/hosts.
node_hosts() {
  local i
  echo '127.0.0.1 localhost'
  [[ $kind != loopback-name ]] || echo "127.0.1.1 n$1"
  for ((i = 1; i <= $2; i++)); do
    if [[ $kind == ipv6 ]]; then echo "fd77::$i n$i"; else echo "10.77.0.$i n$i"; fi
  done
}

# node_cards K - its interfaces, in the order that $kind asks for.
node_cards() {
  local name=n$1 address=10.77.0.$1/24 gateway=10.77.0.254 c
  c=$(card "$1")
  [[ $kind != ipv6 ]] || address=fd77::$1/64 gateway=fd77::fe
  [[ $kind != docker-first ]] || docker0 "$1"
  if [[ $kind == management ]]; then
    room ip link add eth1 netns "$name" type veth peer name "alone$1"
    room ip link set "alone$1" up
    room ip -n "$name" address add "192.168.50.$1/24" dev eth1
    room ip -n "$name" link set eth1 up
  fi
  room ip link add "$c" netns "$name" type veth peer name "port$1"
  room ip link set "port$1" master switch up
  room ip -n "$name" address add "$address" dev "$c"
  room ip -n "$name" link set "$c" up
  room ip -n "$name" route add default via "$gateway"
  [[ $kind != docker && $kind != docker-running ]] || docker0 "$1"
}

# docker0 K - a bridge as dockerd leaves it: its MAC is set, so it has no carrier until a port has.
docker0() {
  room ip -n "n$1" link add docker0 type bridge
  room ip -n "n$1" link set docker0 address "02:42:00:00:00:0$1"
  room ip -n "n$1" address add 172.17.0.1/16 broadcast 172.17.255.255 dev docker0
  room ip -n "n$1" link set docker0 up
  [[ $kind == docker-running ]] || return 0
  room ip link add veth0 netns "n$1" type veth peer name "box$1"
  room ip link set "box$1" up
  room ip -n "n$1" link set veth0 master docker0 up
}

# firewall NODE VERDICT - do that with connections to its card on the ports 1024 to 20000.
firewall() {
  filter "$1" input "$2" 'iifname "eth0" tcp flags & (syn | ack) == syn tcp dport 1024-20000'
}

# black_hole N K - jumbo frames on the cards of N nodes, which the switch does not carry to node K.
black_hole() {
  local k
  for ((k = 1; k <= $1; k++)); do
    room ip link set "port$k" mtu 9000
    # A packet that is cut up only later would pass a port of any size.
    room ip -n "n$k" link set eth0 mtu 9000 gso_max_segs 1
  done
  room ip link set "port$2" mtu 1500
}

# ssh_up N - a real sshd on the address of each of N nodes, which let each other's root in.
ssh_up() {
  local k
  room bash -c 'mkdir /run/nodes/ssh && cd /run/nodes/ssh &&
    ssh-keygen -q -t ed25519 -N "" -f host && ssh-keygen -q -t ed25519 -N "" -f user' </dev/null
  for ((k = 1; k <= $1; k++)); do
    room bash -c "$ssh_program" _ "n$k" "$1" "$PATH:/usr/sbin:/sbin" "${LD_LIBRARY_PATH:-/lib}"
    at "n$k" "$sshd" -f "/run/nodes/n$k/sshd_config" -E "/run/nodes/n$k/sshd.log"
  done
}

# What makes a node's files for ssh; its arguments are NAME N PATH LD_LIBRARY_PATH.
ssh_program='
  set -eu
  dir=/run/nodes/$1
  sed -i "s/^root:[^:]*/root:*/" "$dir/etc/shadow"
  printf "%s\n" "HostKey /run/nodes/ssh/host" "AuthorizedKeysFile /run/nodes/ssh/user.pub" \
    "ListenAddress $1" "PermitRootLogin prohibit-password" "StrictModes no" "UsePAM no" \
    "PasswordAuthentication no" "PidFile none" "SetEnv PATH=$3 LD_LIBRARY_PATH=$4" >"$dir/sshd_config"
  mkdir -m 700 "$dir/login/.ssh"
  cp /run/nodes/ssh/user "$dir/login/.ssh/id_ed25519"
  for ((k = 1; k <= $2; k++)); do
    echo "n$k $(cut -d " " -f 1,2 /run/nodes/ssh/host.pub)"
  done >"$dir/login/.ssh/known_hosts"'

# level FACTS - the facts of a check with all paths as fast as each other: how fast the network is depends on
# what else this machine does.
level() {
  jq '.paths[] |= (if .latency_us then .latency_us = {min: 50, median: 60} else . end |
    if .bandwidth_mbs then .bandwidth_mbs = 60 else . end)' "$1"
}
