# shellcheck shell=bash disable=SC2154
# machines.bash - hosts that see neither each other's processes nor memory; after hosts.bash.

# machines_up - make $a, $b and $c, at 10.9.0.1 to 3, machines called m1 to m3, each with an sshd; or skip.
machines_up() {
  local host n=0
  command -v /usr/sbin/sshd ssh >/dev/null || skip "no ssh"
  hosts_setup
  third_host
  ssh_words="ssh -T -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=5 -i $PWD/key"
  ssh-keygen -q -t ed25519 -N '' -f key
  cat >sshd_config <<EOT
HostKey $PWD/key
AuthorizedKeysFile $PWD/key.pub
StrictModes no
PidFile none
UsePAM no
SetEnv PATH=$PATH LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
EOT
  for host in "$a" "$b" "$c"; do
    n=$((n + 1))
    # shellcheck disable=SC2016
    ip netns exec "$host" setpriv --pdeathsig KILL unshare --pid --uts --ipc --mount --fork --kill-child --mount-proc \
      bash -c 'hostname "$1" && mount -t tmpfs none /dev/shm && mount -t tmpfs none /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -f "$2"' \
      _ "m$n" "$PWD/sshd_config" </dev/null >/dev/null 2>&1 3>&- &
    await on_machine "$n" true
  done
}

# on_machine K COMMAND... - run it on machine K.
on_machine() {
  local host
  host=$(printf '%s\n' "$a" "$b" "$c" | sed -n "$1p")
  # shellcheck disable=SC2086
  ip netns exec "$host" $ssh_words "10.9.0.$1" "cd $PWD && $(printf '%q ' "${@:2}")" </dev/null
}
