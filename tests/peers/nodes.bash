#!/usr/bin/env bash
# nodes.bash - run contest.py with its ranks on several hosts: network namespaces and cables.
# SPDX-License-Identifier: Apache-2.0
#
# usage: nodes.bash [--hosts N] [--on-each COMMAND] contest.py COLLECTIVE -np N [ARG...]
#
# COMMAND is for the shell, and runs once on each host, before the ranks do: for a cable that is
# slow or loses packets ("tc qdisc add dev eth0 root netem loss 1%").  Ranks are dealt out in order, as many to each of the hosts, two if not said otherwise; for Open
# MPI, too, which gets a daemon on each.  Two hosts have a cable between them, more are plugged
# into a switch.  Needs root and ip netns.  Nothing stays behind.
set -euo pipefail

hosts=()
count=2 command=true
scratch=$(mktemp -d)

# cleanup - remove the hosts and the files.
cleanup() {
  local host
  for host in "${hosts[@]}" "ns$$"; do ip netns del "$host" 2>/dev/null || true; done
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

# cables - make the hosts, joined.
cables() {
  local host i=0
  for ((; i < count; i++)); do
    ip netns add "n$$-$i"
    hosts+=("n$$-$i")
  done
  if [[ $count -eq 2 ]]; then
    ip -n "${hosts[0]}" link add eth0 type veth peer name eth0 netns "${hosts[1]}"
  else
    ip netns add "ns$$"
    ip -n "ns$$" link add switch type bridge
    ip -n "ns$$" link set switch up
    for ((i = 0; i < count; i++)); do
      ip -n "${hosts[i]}" link add eth0 type veth peer name "port$i" netns "ns$$"
      ip -n "ns$$" link set "port$i" master switch up
    done
  fi
  for ((i = 0; i < count; i++)); do
    ip -n "${hosts[i]}" addr add "10.9.0.$((i + 1))/24" dev eth0
    ip -n "${hosts[i]}" link set lo up
    ip -n "${hosts[i]}" link set eth0 up
  done
  for host in "${hosts[@]}"; do
    for _ in {1..50}; do
      [[ $(ip -n "$host" link show eth0) != *"state UP"* ]] || break
      sleep 0.1
    done
  done
}

# programs RANKS - write what starts a rank on its host, and a daemon of Open MPI on another.
programs() {
  local i
  mkdir -m 700 "$scratch/meet"
  cat >"$scratch/place" <<EOT
#!/usr/bin/env bash
# place - start a rank on its host.
unset RINGUP_SECRET_FD
export RINGUP_MEET=$scratch/meet GLOO_SOCKET_IFNAME=eth0
hosts=(${hosts[*]})
exec nsenter --net="/run/netns/\${hosts[RINGUP_RANK * $count / $1]}" "\$@"
EOT
  cat >"$scratch/agent" <<EOT
#!/usr/bin/env bash
# agent - run a command on another host, in place of ssh.
hosts=(${hosts[*]})
host=\${hosts[\${1##*.} - 1]}
shift
exec unshare --uts bash -c 'hostname "\$0"; exec nsenter --net="/run/netns/\$0" sh -c "\$1"' "\$host" "\$*"
EOT
  chmod +x "$scratch/place" "$scratch/agent"
  for ((i = 0; i < count; i++)); do
    # As many as place gives it: those r with r * count / ranks == i.
    printf '10.9.0.%d slots=%d\n' $((i + 1)) \
      $((((i + 1) * $1 + count - 1) / count - (i * $1 + count - 1) / count))
  done >"$scratch/hostfile"
}

while [[ ${1:-} == --hosts || ${1:-} == --on-each ]]; do
  if [[ $1 == --hosts ]]; then count=${2:-}; else command=${2:-}; fi
  [[ $count =~ ^[2-9]$|^[1-9][0-9]$ ]] || { echo "nodes.bash: --hosts $count: not 2 to 99" >&2 && exit 2; }
  shift 2
done
[[ $# -gt 2 ]] || { sed -n 's/^# usage/usage/p' "$0" >&2 && exit 2; }
[[ $EUID -eq 0 ]] || { echo "nodes.bash: needs root" >&2 && exit 3; }
ranks=$(ranks_of "$@")
[[ $ranks -ge $count ]] || { echo "nodes.bash: $ranks ranks for $count hosts" >&2 && exit 2; }
trap cleanup EXIT
cables
for host in "${hosts[@]}"; do nsenter --net="/run/netns/$host" bash -euc "$command"; done
programs "$ranks"
export MASTER_ADDR=10.9.0.1 MASTER_PORT=29577
export OMPI_MCA_plm_rsh_agent=$scratch/agent OMPI_MCA_orte_default_hostfile=$scratch/hostfile
nsenter --net="/run/netns/${hosts[0]}" "$@" --under "$scratch/place" &
job=$!
# Who ends this ends the job, which then ends its peers, before the hosts go.
trap 'kill "$job"; wait "$job"; exit 3' INT TERM
wait "$job"
