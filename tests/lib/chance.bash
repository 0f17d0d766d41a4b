# shellcheck shell=bash disable=SC2034,SC2154
# chance.bash - random machines and settings, to try on real libraries (space.bash).
#
# A test names its seeds.  In the long form there are more of them, and some that nobody has tried.
# RINGUP_TEST_SEED replaces them all, RINGUP_TEST_ROUNDS says how many machines.

# RANDOM repeats itself in this shell only, not in a $(...): so results go to variables.

# one_of VAR WORD... - VAR is one of the words.
one_of() {
  printf -v "$1" '%s' "${@:RANDOM % ($# - 1) + 2:1}"
}

# rarely N - true once in N times.
rarely() {
  ((RANDOM % $1 == 0))
}

# rounds SEED... [-- SEED...] - the seeds of this test's machines; those after -- in the long form.
rounds() {
  local i
  if [[ -n ${RINGUP_TEST_ROUNDS:-} ]]; then
    for ((i = 0; i < RINGUP_TEST_ROUNDS; i++)); do
      echo $((${RINGUP_TEST_SEED:-1} + i))
    done
  elif [[ -n ${RINGUP_TEST_SEED:-} ]]; then
    echo "$RINGUP_TEST_SEED"
  elif [[ ${RINGUP_TEST_LONG:-0} == 1 ]]; then
    for i; do [[ $i == -- ]] || echo "$i"; done
    for i in 0 1 2; do echo $((SRANDOM % 1000000)); done
  else
    for i; do
      [[ $i != -- ]] || break
      echo "$i"
    done
  fi
}

# some_addresses NAME - what `ip addr add` shall be told of NAME; networks come more than once.
some_addresses() {
  local n bits
  for ((n = RANDOM % 4; n > 0; n--)); do
    case $((RANDOM % 14)) in
      0)
        one_of bits 8 16 31 32
        echo "10.$((RANDOM % 4)).0.$((RANDOM % 250 + 1))/$bits dev $1"
        ;;
      1) echo "10.$((RANDOM % 4)).1.5 peer 10.$((RANDOM % 4)).1.9/32 dev $1" ;;
      2) echo "169.254.$((RANDOM % 4)).7/16 scope link dev $1" ;;
      3) echo "192.168.$((RANDOM % 4)).5/24 scope host dev $1" ;;
      4) ((${#1} > 13)) || echo "10.$((RANDOM % 4)).2.5/24 label $1:$((RANDOM % 3)) dev $1" ;;
      5) echo "fe80::$((RANDOM % 90 + 1))/64 nodad dev $1" ;;
      6) echo "fec0:$((RANDOM % 4))::5/64 nodad dev $1" ;;
      7) echo "fd00:$((RANDOM % 4))::$((RANDOM % 90))/64 nodad dev $1" ;;
      8 | 9)
        one_of bits 48 64 128
        echo "2001:db8:$((RANDOM % 4))::$((RANDOM % 90))/$bits nodad dev $1"
        ;;
      *) echo "10.$((RANDOM % 4)).0.$((RANDOM % 250 + 1))/24 dev $1" ;;
    esac
  done
}

# some_link NAME N - of any kind, maybe with an index out of turn, not yet up.
some_link() {
  local name=$1 mode
  local -a index=()
  rarely 3 || index=(index $((RANDOM % 10 * 20 + 20 + $2)))
  case $((RANDOM % 10)) in
    0 | 1)
      ip -n "$here" link add "$name" "${index[@]}" type bridge
      # With an address of its own it is idle until somebody plugs something in.
      ip -n "$here" link set "$name" address "02:42:00:00:00:$((RANDOM % 90 + 10))"
      rarely 2 || return 0
      ip -n "$here" link add "s$RANDOM" type veth peer name "t$RANDOM" netns "$there"
      ;;
    2)
      one_of mode tun tap
      ip -n "$here" tuntap add dev "$name" mode "$mode"
      ;;
    3)
      ip -n "$here" link add "$name" "${index[@]}" type dummy 2>/dev/null ||
        ip -n "$here" link add "$name" "${index[@]}" type veth peer name "p-${name:0:13}" netns "$there"
      ;;
    4) ip -n "$here" link add "$name" "${index[@]}" type veth peer name "p-${name:0:13}" netns "$there" ;;
    *)
      ip -n "$here" link add "$name" "${index[@]}" type veth peer name "p-${name:0:13}" netns "$there"
      ip -n "$there" link set "p-${name:0:13}" up
      plugged+=("$name")
      ;;
  esac
}

# plug_bridges - what was made for bridges becomes a port of each.
plug_bridges() {
  local port bridge
  local -a bridges
  mapfile -t bridges < <(ip -n "$here" -o link show type bridge | sed -E 's/^[0-9]+: ([^:@]+).*/\1/')
  for port in $(ip -n "$here" -o link show type veth | sed -nE 's/^[0-9]+: (s[0-9]+)@.*/\1/p'); do
    one_of bridge "${bridges[@]}"
    ip -n "$here" link set "$port" master "$bridge" up
  done
  for port in $(ip -n "$there" -o link show type veth | sed -nE 's/^[0-9]+: (t[0-9]+)@.*/\1/p'); do
    ip -n "$there" link set "$port" up
  done
}

# some_machine - a fresh $here with up to seven interfaces; sets $names.
some_machine() {
  local name extra n=0 count=$((RANDOM % 8)) source=$RANDOM
  plugged=()
  space_fresh
  mapfile -t names < <(printf '%s\n' eth0 eth1 eth10 ens5 enp0s31f6 ib0 ibmgmt docker0 docker_gwbridge virbr0 \
    br-3f1c2a9d77aa lowlat0 wg0 sppp0 eth0.5 bond0 vethab12cd3 |
    shuf -n "$count" --random-source=<(yes "$source"))
  for name in "${names[@]}"; do
    some_link "$name" $((n += 1)) || return 1
  done
  plug_bridges
  for name in "${names[@]}"; do
    some_addresses "$name"
  done >"$BATS_TEST_TMPDIR/addresses"
  # Some before their interface is up, most of them when it is.
  sed -n '0~4p' "$BATS_TEST_TMPDIR/addresses" | sed 's/^/addr add /' | ip -n "$here" -force -batch - 2>/dev/null || true
  for name in "${names[@]}"; do
    rarely 6 || ip -n "$here" link set "$name" up
  done
  sed '0~4d' "$BATS_TEST_TMPDIR/addresses" | sed 's/^/addr add /' | ip -n "$here" -force -batch - 2>/dev/null || true
  one_of extra 10.9.0.1/32 127.0.0.2/8 10.0.0.1/24
  ! rarely 8 || ip -n "$here" addr add "$extra" dev lo
  ! rarely 8 || ip -n "$here" addr add 2001:db8:9::1/128 dev lo nodad
  ! rarely 12 || ip -n "$here" link set lo down
  for name in "${plugged[@]}"; do
    [[ -z $(ip -n "$here" -o link show "$name" up) ]] || wait_running "$name" || true
  done
}

# some_names VAR WORD... - VAR is a list such as people write, of these words and others.
some_names() {
  local n list='' comma word
  for ((n = RANDOM % 4; n > 0; n--)); do
    one_of comma , , , ,, ', '
    one_of word "${names[@]:-eth0}" "${names[@]:-eth0}" eth0 eth1 eth10 ens5 lo "${@:2}"
    list+=$comma$word
  done
  rarely 8 || list=${list#,}
  printf -v "$1" '%s' "$list"
}

# some_nets VAR WORD... - the same with networks.
some_nets() {
  local bits
  one_of bits 8 16 24 24 31 32
  some_names "$1" "10.$((RANDOM % 4)).0.0/$bits" "10.$((RANDOM % 4)).1.0/24" 127.0.0.1/8 10.0.0.5 \
    fd00:1::/64 "10.$((RANDOM % 4)).0.0/" 192.168.1.0/16 "${@:2}"
}
