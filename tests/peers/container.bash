#!/usr/bin/env bash
# container.bash - run contest.py in a cgroup of its own, as in a container.
# SPDX-License-Identifier: Apache-2.0
#
# usage: container.bash contest.py COLLECTIVE -np N [ARG...]
#
# Outside of containers many kernels give each session an equal share of the processors
# (kernel.sched_autogroup_enabled), so that a rank that yields never yields to a stranger of another
# session.  In a container all compete with all.  Needs root.  Nothing stays behind.
set -euo pipefail

# group - make a cgroup that shares processors, and print its folder.
group() {
  local top=/sys/fs/cgroup
  if [[ -d $top/cpu ]]; then
    top+=/cpu
  elif ! grep -qw cpu "$top/cgroup.subtree_control"; then
    echo "container.bash: no cpu controller for the cgroups below $top" >&2
    return 3
  fi
  mkdir "$top/ringup-bench.$$"
  echo "$top/ringup-bench.$$"
}

[[ $# -gt 2 ]] || { sed -n 's/^# usage/usage/p' "$0" >&2 && exit 2; }
[[ $EUID -eq 0 ]] || { echo "container.bash: needs root" >&2 && exit 3; }
dir=$(group)
trap 'rmdir "$dir"' EXIT
# shellcheck disable=SC2016
bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$dir" "$@" &
job=$!
# Who ends this ends the job, which then ends its peers, before their group goes.
trap 'kill "$job"; wait "$job"; exit 3' INT TERM
wait "$job"
