#!/usr/bin/env bash
# nodes.bash - run ringup bench with its ranks on two hosts: network namespaces and a cable.
# SPDX-License-Identifier: Apache-2.0
#
# usage: nodes.bash RINGUP bench COLLECTIVE -np N [ARG...]
#
# The first half of the ranks is on one, the other half on the other; for Open MPI, too, which
# gets a daemon on each.  Needs root and ip netns.  Nothing stays behind.
set -euo pipefail

a=na$$ b=nb$$
scratch=$(mktemp -d)

# cleanup - remove the hosts and the files.
cleanup() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$scratch"
}

# ranks_of ARG... - print how many ranks the arguments ask for.
ranks_of() {
  while [[ $# -gt 1 ]]; do
    case $1 in
      -n | -np | --ranks | --np) echo "$2" && return ;;
    esac
    shift
  done
  echo 2
}

# cable - make both hosts, joined.
cable() {
  local host
  ip netns add "$a"
  ip netns add "$b"
  ip -n "$a" link add eth0 type veth peer name eth0 netns "$b"
  ip -n "$a" addr add 10.9.0.1/24 dev eth0
  ip -n "$b" addr add 10.9.0.2/24 dev eth0
  for host in "$a" "$b"; do
    ip -n "$host" link set lo up
    ip -n "$host" link set eth0 up
    for _ in {1..50}; do
      [[ $(ip -n "$host" link show eth0) != *"state UP"* ]] || break
      sleep 0.1
    done
  done
}

# programs HALF - write what starts a rank on its host, and a daemon of Open MPI on the other.
programs() {
  mkdir -m 700 "$scratch/meet"
  cat >"$scratch/place" <<EOT
#!/usr/bin/env bash
# place - start a rank on its host.
unset RINGUP_SECRET_FD
export RINGUP_MEET=$scratch/meet GLOO_SOCKET_IFNAME=eth0
[[ \$RINGUP_RANK -ge $1 ]] || exec "\$@"
exec nsenter --net=/run/netns/$b "\$@"
EOT
  cat >"$scratch/agent" <<EOT
#!/usr/bin/env bash
# agent - run a command on the other host, in place of ssh.
shift
exec unshare --uts bash -c 'hostname $b; exec nsenter --net=/run/netns/$b sh -c "\$1"' _ "\$*"
EOT
  chmod +x "$scratch/place" "$scratch/agent"
  printf '10.9.0.%d slots=%d\n' 1 "$1" 2 "$1" >"$scratch/hostfile"
}

[[ $# -gt 2 ]] || { sed -n 's/^# usage/usage/p' "$0" >&2 && exit 2; }
[[ $EUID -eq 0 ]] || { echo "nodes.bash: needs root" >&2 && exit 3; }
trap cleanup EXIT
half=$(($(ranks_of "$@") / 2))
cable
programs "$half"
export MASTER_ADDR=10.9.0.1 MASTER_PORT=29577
export OMPI_MCA_plm_rsh_agent=$scratch/agent OMPI_MCA_orte_default_hostfile=$scratch/hostfile
nsenter --net="/run/netns/$a" "$@" --under "$scratch/place" &
job=$!
# Who ends this ends the job, which then ends its peers, before the hosts go.
trap 'kill "$job"; wait "$job"; exit 3' INT TERM
wait "$job"
