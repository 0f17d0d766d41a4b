#!/usr/bin/env bats
# steps.bats - the steps themselves, on a tree, with a release that is quick to build.

load ../lib/helper

load ../lib/release

setup() { release_setup; }

@test "from a tarball to ranks that agree, below --root alone" {
  run "$init" --root "$root"
  expect_status 0
  [[ $(readlink "$root/usr/local/bin/ringup") == /opt/ringup/current/bin/ringup ]]
  [[ $(readlink "$root/opt/ringup/current") == 9.9-* && -x $root/opt/ringup/current/bin/ringup ]]
  [[ $(stat -c %a "$root/opt/ringup/current/bin/ringup" "$root/opt/ringup/current/lib/libringup.so" "$root/opt/ringup") == $'755\n644\n755' ]]
  [[ ! -e $state/build && -e $root/etc/nccl.conf ]]
  [[ $(json 's["result"], f("verify")["shm_gbps"], f("network")["interface"]') == "('ok', 1.25, 'eth9')" ]]
  [[ $output == *"4 ranks agreed on every sum, 1.25 GB/s"* && $output == *"4 ranks agreed bit for bit after 20 steps"* ]]
  [[ -z $(find "$root" -name '.*.new' -o -name '.new') ]]
  grep -q '4 ranks agreed' "$state/report.txt"
}

@test "the second run writes nothing and shows the same" {
  run "$init" --root "$root"
  expect_status 0
  first=$(tail -n 12 <<<"$output")
  before=$(tree "$root")
  run "$init" --root "$root"
  expect_status 0
  [[ $(tree "$root") == "$before" ]]
  [[ $(tail -n 12 <<<"$output") == "$first" ]]
}

# writes TRACE - print what strace has seen of files that were opened for writing, made, changed or
# removed, but for devices, pipes and what the kernel shows as files.
writes() {
  awk '$2 ~ /^(\+\+\+|---|<\.\.\.|execve)/ { next }
    $2 ~ /^open/ && (!/O_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)/ || /"\/(proc\/|dev\/(null|tty|fd\/|std))/) { next }
    { print }' "$1"
}

# traced ARG... - ringup-init on the tree under strace, which sees all its processes; sets written
# and started, how many programs.
traced() {
  local seen=execve name
  for name in open openat openat2 creat mkdir mkdirat mknod mknodat rename renameat renameat2 link linkat symlink \
    symlinkat unlink unlinkat rmdir truncate ftruncate fallocate chmod fchmod fchmodat chown fchown lchown fchownat \
    utime utimes utimensat futimesat setxattr lsetxattr fsetxattr removexattr mount; do
    seen+=,?$name
  done
  run strace -f -qq -e signal=none -e trace="$seen" -o "$T/trace" "$init" --root "$root" "$@"
  written=$(writes "$T/trace")
  started=$(awk '$2 ~ /^execve\(/ { n++ } END { print n + 0 }' "$T/trace")
}

@test "the second run opens no file for writing, makes and removes none, in none of its processes" {
  command -v strace >/dev/null || skip "strace is not installed"
  strace -f -o "$T/trace" true 2>/dev/null || skip "nothing can be traced here"
  traced
  expect_status 0
  [[ $written == *O_CREAT*"/status.json"* || $written == *"status.json.new"* ]]
  traced
  expect_status 0
  [[ -z $written ]] || { echo "$written"; return 1; }
  # what is left are the two that know, four that count and sum up, and what those here are scripts for
  echo "$started programs"
  [[ $started -ge 8 && $started -le 20 ]]
  traced --json
  [[ -z $written && $status -eq 0 ]] || { echo "$written"; return 1; }
  traced --check
  [[ -z $written && $status -eq 0 ]] || { echo "$written"; return 1; }
  # and what is to be done again is seen
  rm "$root/etc/nccl.conf"
  traced
  expect_status 0
  [[ $written == *'/etc/nccl.conf"'* && $written == *rename*'/state/60-network"'* ]]
}

@test "a dry run of everything leaves the tree as it was" {
  before=$(tree "$root")
  run "$init" --root "$root" --dry-run
  expect_status 0
  [[ $(tree "$root") == "$before" && ! -e $root/run ]]
  run "$init" --root "$root"
  before=$(tree "$root")
  run "$init" --root "$root" --dry-run
  expect_status 0
  [[ $(tree "$root") == "$before" ]]
}

@test "an upgrade switches the link and keeps one version to go back to" {
  run "$init" --root "$root"
  old=$(readlink "$root/opt/ringup/current")
  release 9.10
  RINGUP_SOURCE=$T/ringup-9.10.tar.gz run "$init" --root "$root"
  expect_status 0
  [[ $(readlink "$root/opt/ringup/current") == 9.10-* && -d $root/opt/ringup/$old ]]
  release 9.11
  RINGUP_SOURCE=$T/ringup-9.11.tar.gz run "$init" --root "$root"
  [[ ! -e $root/opt/ringup/$old && $(ls -d "$root"/opt/ringup/9* | wc -l) -eq 2 ]]
}

@test "a release that does not start leaves the old one in force" {
  run "$init" --root "$root"
  old=$(readlink "$root/opt/ringup/current")
  release 9.10 start
  RINGUP_SOURCE=$T/ringup-9.10.tar.gz run "$init" --root "$root"
  expect_status 50
  [[ $(readlink "$root/opt/ringup/current") == "$old" && ! -e $root/opt/ringup/.new ]]
  [[ $output == *"does not start"* ]]
}

@test "the first release that does not start leaves nothing" {
  release 9.10 start
  RINGUP_SOURCE=$T/ringup-9.10.tar.gz run "$init" --root "$root"
  expect_status 50
  [[ ! -e $root/opt/ringup/current && -z $(find "$root/usr/local" -type l) ]]
}

@test "somebody else's file is not replaced" {
  mkdir -p "$root/usr/local/bin"
  echo mine >"$root/usr/local/bin/ringup"
  run "$init" --root "$root"
  expect_status 50
  [[ $(cat "$root/usr/local/bin/ringup") == mine && ! -e $root/opt/ringup/current ]]
  [[ $output == *"not ringup-init's"* ]]
}

@test "sources that do not configure or compile: exit status 40 and the words of the log" {
  release 9.9 configure
  run "$init" --root "$root"
  expect_status 40
  [[ $output == *"no libsodium"* ]]
  release 9.9 make
  run "$init" --root "$root"
  expect_status 40
  [[ ! -e $root/opt/ringup/current ]]
}

@test "ranks that do not agree: exit status 70" {
  release 9.9 bench
  run "$init" --root "$root"
  expect_status 70
  [[ $output == *"element 7 is 3, not 6"* && $(json 's["code"], s["result"]') == "(70, 'failed')" ]]
}

# peers_fact - what the verify step says of other nodes.
peers_fact() { json 'f("verify")["peers"]'; }

@test "the network to the other nodes is checked, where they are known and ssh does not ask" {
  local self
  self=$(uname -n)
  unset RINGUP_PEERS SLURM_JOB_NODELIST PBS_NODEFILE LSB_HOSTS
  run "$init" --root "$root"
  expect_status 0
  [[ $(peers_fact) == "skipped: no other node is known" && ! -e $T/checks ]]
  stub ssh 'exit 255'
  RINGUP_PEERS="node-b, node-c" run "$init" --root "$root"
  expect_status 0
  [[ $(peers_fact) == "skipped: ssh to $self does not work without asking" && ! -e $T/checks ]]
  stub ssh
  RINGUP_PEERS=node-b,node-d run "$init" --root "$root"
  expect_status 0
  [[ $(peers_fact) == "all is well between 2 nodes" ]]
  grep -qE "^net check --quick --ringup [^ ]+ $self node-b node-d\$" "$T/checks"
  # Of a scheduler's nodes the first one checks.
  LSB_HOSTS="node-b node-b $self" run "$init" --root "$root"
  expect_status 0
  [[ $(peers_fact) == "skipped: the driver, or node-b, checks the network" ]]
  printf '%s\n' "$self" "$self" node-e >"$T/nodes"
  PBS_NODEFILE=$T/nodes run "$init" --root "$root"
  expect_status 0
  [[ $(tail -n 1 "$T/checks") == *" $self node-e" ]]
}

@test "a network that is not in order: exit status 71, or degraded" {
  stub ssh
  VERDICT='node-b does not reach node-c' RINGUP_PEERS=node-b run "$init" --root "$root"
  expect_status 71
  [[ $(json 's["code"], s["result"], s["cause"]') == "(71, 'failed', 'the network between 2 nodes: node-b does not reach node-c')" ]]
  VERDICT='node-b does not reach node-c' RINGUP_PEERS=node-b RINGUP_ON_FAILURE=degrade run "$init" --root "$root"
  expect_status 0
  [[ $(json 's["result"]') == degraded ]]
}

@test "a link that goes down while all is verified is reported" {
  CHANGE='eth0: it has no carrier any more' run "$init" --root "$root"
  expect_status 0
  [[ $(json '"while it was verified, the network changed: eth0: it has no carrier any more" in s["warnings"]') == True ]]
  not kill -0 "$(cat "$T/watcher")"
}

@test "no sources, no file, the wrong file, the wrong checksum: exit status 30" {
  RINGUP_SOURCE='' run "$init" --root "$root"
  expect_status 30
  [[ $output == *RINGUP_SOURCE* ]]
  RINGUP_SOURCE=$T/none.tar.gz run "$init" --root "$root"
  expect_status 30
  RINGUP_SOURCE=$src/README.md run "$init" --root "$root"
  expect_status 30
  RINGUP_SOURCE_SHA256=$(printf '0%.0s' {1..64}) run "$init" --root "$root"
  expect_status 30
  [[ $output == *"another SHA-256"* ]]
  RINGUP_SOURCE=https://host/ringup.tar.gz run "$init" --root "$root"
  expect_status 30
  RINGUP_SOURCE=ftp://host/ringup.tar.gz run "$init" --root "$root"
  expect_status 30
  [[ ! -e $root/opt/ringup && ! -e $state/source.tar ]]
  sum=$(sha256sum <"$RINGUP_SOURCE" | cut -c 1-64)
  RINGUP_SOURCE_SHA256=$sum run "$init" --root "$root"
  expect_status 0
  [[ $output != *"not set"* ]]
}

@test "a tarball with members that lead elsewhere is not unpacked" {
  python3 - "$T" <<'EOT'
import io, sys, tarfile
for name, link in (("up", None), ("abs", None), ("fifo", "fifo")):
    with tarfile.open(f"{sys.argv[1]}/{name}.tar.gz", "w:gz") as t:
        for member in ("ringup-1/configure.ac", "ringup-1/src/ringup.h"):
            t.addfile(tarfile.TarInfo(member), io.BytesIO())
        i = tarfile.TarInfo({"up": "ringup-1/../../../../evil", "abs": "/tmp/evil", "fifo": "ringup-1/x"}[name])
        if link: i.type = tarfile.FIFOTYPE
        t.addfile(i, io.BytesIO())
EOT
  for name in up abs fifo; do
    RINGUP_SOURCE=$T/$name.tar.gz run "$init" --root "$root"
    expect_status 30
    [[ $output == *"will not unpack"* ]]
  done
}

@test "Databricks: platform, role, runtime and Python are recorded" {
  mkdir -p "$root/databricks/python3/bin" "$root/databricks/spark/conf"
  echo 15.4 >"$root/databricks/DBR_VERSION"
  ln -s "$(command -v python3)" "$root/databricks/python3/bin/python3"
  export DB_CONTAINER_IP=10.1.2.3 DB_DRIVER_IP=10.1.2.1 DB_CLUSTER_ID=0101-ab DB_IS_DRIVER=FALSE
  run "$init" --root "$root"
  expect_status 0
  [[ $(json 's["cluster"], f("detect")["platform"], f("detect")["role"], f("detect")["runtime"], f("detect")["address"]') == \
    "('0101-ab', 'databricks', 'executor', '15.4', '10.1.2.3')" ]]
  [[ $(json 'f("frameworks")["path"]') == "$root/databricks/python3/bin/python3" ]]
  [[ $output == *"databricks 15.4 executor"* ]]
  DB_IS_DRIVER=TRUE run "$init" --root "$root"
  [[ $(json 'f("detect")["role"]') == driver ]]
}

# python KEY=VALUE... - the tree's Python: a script that answers the probe with these.
python() {
  local pair
  mkdir -p "$root/usr/bin"
  for pair; do printf 'answer\t%s\t%s\n' "${pair%%=*}" "${pair#*=}"; done >"$T/says"
  printf '#!/bin/bash\n[[ $1 != -I ]] || cat "%s"\n' "$T/says" >"$root/usr/bin/python3"
  chmod +x "$root/usr/bin/python3"
}

@test "the package goes into the Python that has a framework and pip" {
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.13.0'
  run "$init" --root "$root"
  expect_status 0
  [[ $(cat "$T/installs") == "compat/install --python $root/usr/bin/python3" ]]
  [[ $output == *"torch 2.13.0"* && $(json 'f("frameworks")["package"]') == "ringup 0.1.0"* ]]
  run "$init" --root "$root" --undo
  grep -q -- '--uninstall$' "$T/installs"
}

@test "no framework, no pip, a managed Python, another Horovod: skipped, with the reason" {
  python version=3.11.2 pip=yes managed= ringup= frameworks=
  run "$init" --root "$root"
  expect_status 0
  [[ $output == *"has no framework"* ]]
  python version=3.11.2 pip= managed= ringup= 'frameworks=torch 2.13.0'
  run "$init" --root "$root"
  expect_status 0
  [[ $output == *"has no pip"* ]]
  python version=3.11.2 pip=yes managed=yes ringup= 'frameworks=torch 2.13.0'
  run "$init" --root "$root"
  expect_status 0
  [[ $output == *"the distribution manages"* && ! -e $T/installs ]]
  touch "$T/horovod"
  python version=3.11.3 pip=yes managed= ringup= 'frameworks=torch 2.13.0'
  run "$init" --root "$root"
  expect_status 0
  [[ $output == *"two packages called horovod"* ]]
}

@test "a Python that detect knows is not started again; what it would tell is noticed all the same" {
  local site=$root/usr/lib/python3/dist-packages
  # known METADATA-OF VERSION - a package there, as pip writes it.
  known() {
    mkdir -p "$site/$1-$2.dist-info"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$1" "$2" >"$site/$1-$2.dist-info/METADATA"
  }
  # expect_check WORD - what --check says of the step.
  expect_check() {
    run "$init" --root "$root" --check frameworks
    expect_line "$1  50-frameworks"
    [[ ! -s $T/asked ]] || { echo "the Python was started"; return 1; }
  }
  touch "$T/real"
  mkdir -p "$root/usr/lib/python3.11" "$site/pip" "$site/torch"
  known torch 2.13.0
  known ringup 0.1.0
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.13.0' "metadata=$site/ringup-0.1.0.dist-info/METADATA"
  sed -i "1a echo asked >>'$T/asked'" "$root/usr/bin/python3"
  run "$init" --root "$root"
  expect_status 0
  [[ -s $T/asked ]]
  : >"$T/asked"
  run "$init" --root "$root"
  expect_status 0
  [[ $output == *"50-frameworks: already done"* && ! -s $T/asked ]]
  # in place, so that no folder tells
  sed -i 's/2.13.0/2.14.0/' "$site/torch-2.13.0.dist-info/METADATA"
  expect_check missing
  sed -i 's/2.14.0/2.13.0/' "$site/torch-2.13.0.dist-info/METADATA"
  expect_check 'done   '
  mv "$site/pip" "$T/pip"
  expect_check missing
  mv "$T/pip" "$site/pip"
  expect_check 'done   '
  touch "$root/usr/lib/python3.11/EXTERNALLY-MANAGED"
  expect_check missing
  rm "$root/usr/lib/python3.11/EXTERNALLY-MANAGED"
  mkdir "$site/horovod"
  known horovod 0.28.1
  expect_check missing
  rm -r "$site"/horovod*
  expect_check 'done   '
  mv "$site/ringup-0.1.0.dist-info" "$T"
  expect_check missing
  mv "$T/ringup-0.1.0.dist-info" "$site"
  expect_check 'done   '
  rm "$state/detect.json"
  expect_check missing
  cp "$T/real" "$state/detect.json"
  expect_check 'done   '
  echo '# upgraded' >>"$root/usr/bin/python3"
  expect_check missing
  # another folder's Python, of which detect knows nothing, is asked
  run env RINGUP_PYTHON="$T/other/python3" "$init" --root "$root" --check frameworks
  expect_line 'missing  50-frameworks'
}

@test "a managed Python is served when it is named" {
  python version=3.11.2 pip=yes managed=yes ringup=0.1.0 frameworks=
  RINGUP_PYTHON=/usr/bin/python3 run "$init" --root "$root"
  expect_status 0
  [[ $(cat "$T/installs") == "compat/install --python $root/usr/bin/python3" ]]
}

@test "Databricks: an interface that is not the platform's is exit status 62" {
  DB_CONTAINER_IP=10.9.9.9 run "$init" --root "$root"
  expect_status 62
  [[ $output == *"10.9.9.9"* ]]
}

@test "no interface, a tie, a wrong name: exit status 60, 61, 62; alone on a node none is needed" {
  NET='no interface leads to other hosts' run "$init" --root "$root"
  expect_status 60
  NET='eth0 and eth1 tie (a route), and a wrong guess hangs the job' run "$init" --root "$root"
  expect_status 61
  NET='--interface=eth7: no such interface; there are: eth0' RINGUP_INTERFACE=eth7 run "$init" --root "$root"
  expect_status 62
  NET='there is no network' NET_STATUS=1 DB_DRIVER_IP=10.1.2.1 run "$init" --root "$root"
  expect_status 60
  NET='there is no network' NET_STATUS=1 run "$init" --root "$root"
  expect_status 0
  [[ $output == *"skipped: there is no network"* ]]
}

@test "Databricks: values that make no sense are exit status 10" {
  DB_CONTAINER_IP='10.1.2.3; reboot' run "$init" --root "$root"
  expect_status 10
  DB_IS_DRIVER=perhaps run "$init" --root "$root"
  expect_status 10
}

@test "the runtime's version is also found in deploy.conf" {
  mkdir -p "$root/databricks/common/conf"
  printf 'all-projects {\n  spark.databricks.clusterUsageTags.sparkVersion = "11.3.x-gpu-ml-scala2.12"\n}\n' \
    >"$root/databricks/common/conf/deploy.conf"
  run "$init" --root "$root" detect
  expect_status 0
  [[ $(json 'f("detect")["runtime"]') == 11.3.x-gpu-ml-scala2.12 ]]
}

@test "what cannot be written is said before anything is changed" {
  ((EUID == 0)) || skip "needs root, to mount a read-only /etc"
  unshare --mount true 2>/dev/null || skip "no mount namespaces here"
  run unshare --mount bash -c 'mount --bind "$1/etc" "$1/etc" && mount -o remount,ro,bind "$1/etc" && exec "$2" --root "$1"' \
    bash "$root" "$init"
  expect_status 50
  [[ $output == *"/etc cannot be written"* && ! -e $root/opt/ringup ]]
}

@test "a tree whose links lead out of it is left alone, and so is what they lead to" {
  local at before
  mkdir "$T/outside"
  for at in etc opt usr/local usr/local/bin var var/lib run; do
    rm -rf "$root"
    mkdir -p "$root"/{etc,opt,usr/local,var}
    rm -rf "${root:?}/$at"
    ln -s "$T/outside" "$root/$at"
    before=$(find "$root" "$T/outside" | sort)
    run "$init" --root "$root"
    expect_status 50
    [[ $output == *"$root/$at"*" leads to $T/outside"*"out of the tree"* ]]
    [[ $(find "$root" "$T/outside" | sort) == "$before" ]]
  done
  rm "$root/run"
  # one that stays inside is as good as a folder
  mkdir "$root/var/opt"
  rmdir "$root/opt"
  ln -s var/opt "$root/opt"
  run "$init" --root "$root"
  expect_status 0
  [[ -x $root/var/opt/ringup/current/bin/ringup ]]
}

@test "a full disk is said before anything is changed" {
  ((EUID == 0)) || skip "needs root, to mount a small file system"
  unshare --mount true 2>/dev/null || skip "no mount namespaces here"
  run unshare --mount bash -c 'mount -t tmpfs -o size=2m none "$1/var" && exec "$2" --root "$1"' bash "$root" "$init"
  expect_status 50
  [[ $output == *"MB are free"* && ! -e $root/opt/ringup ]]
}

@test "missing tools below --root: named, exit status 20, nothing installed" {
  stub apt-get
  stub pkg-config 'exit 1'
  run "$init" --root "$root"
  expect_status 20
  [[ $output == *libsodium-dev* ]]
  ! grep -q apt-get "$calls"
}

@test "the installed script, without sources, finds that all is done" {
  run "$init" --root "$root"
  RINGUP_SOURCE='' run "$init" --root "$root"
  expect_status 0
  [[ $output == *"30-build: already done"* && $output == *"4 ranks agreed"* ]]
}

@test "root runs a Python as the user whose it is" {
  ((EUID == 0)) || skip "needs root"
  source "$src/init-scripts/lib/node.bash"
  mkdir "$T/theirs"
  chown 65534:65534 "$T/theirs"
  [[ $(as_owner "$T/theirs/python3" id -u) == 65534 && $(as_owner "$T/python3" id -u) == 0 ]]
}

@test "undo leaves the tree as it was, but for logs and empty folders" {
  run "$init" --root "$root"
  run "$init" --root "$root" --undo
  expect_status 0
  [[ -z $(find "$root" -not -type d -not -path '*/var/log/*' -not -path '*/run/*') ]]
}

@test "kill -9 at any time: the next run ends well" {
  for after in 0.05 0.15 0.3 0.5 0.7 0.9 1.1; do
    "$init" --root "$root" >/dev/null 2>&1 &
    runner=$!
    sleep "$after"
    kill -9 "$runner" 2>/dev/null || true
    wait "$runner" 2>/dev/null || true
  done
  run "$init" --root "$root"
  expect_status 0
  [[ $output == *"4 ranks agreed"* && -z $(find "$root" -name '.*.new' -o -name '.new' -o -name 'ringup-init.*' -not -path '*/opt/*') ]]
}

@test "the bundle is one file below 64 KB that behaves like the tree" {
  sh "$src/init-scripts/bundle.sh" >"$T/one.sh"
  [[ $(wc -c <"$T/one.sh") -lt 65536 ]]
  diff <(bash "$T/one.sh" --list) <("$init" --list)
  run bash "$T/one.sh" no-such-step
  expect_status 2
  run bash "$T/one.sh" --root "$root"
  expect_status 0
  [[ $output == *"4 ranks agreed"* ]]
  run bash "$T/one.sh" --root "$root"
  expect_status 0
  RINGUP_SORCE=x run bash "$T/one.sh" --root "$root"
  expect_status 2
  bash -s -- --list <"$T/one.sh" | diff - <("$init" --list)
  [[ ${SHELLCHECK:-:} == : ]] || "$SHELLCHECK" "$T/one.sh"
}

@test "the bundle holds the sources as they are, and the same sources give the same bytes" {
  sh "$src/init-scripts/bundle.sh" >"$T/one.sh"
  sh "$src/init-scripts/bundle.sh" | cmp - "$T/one.sh"
  bash "$T/one.sh" --unpack "$T/in it"
  for part in ringup-init lib steps; do diff -r "$src/init-scripts/$part" "$T/in it/$part"; done
  [[ $(ls "$T/in it") == $'lib\nringup-init\nsettings\nsteps' ]]
}

@test "a bundle that was damaged says so and runs nothing" {
  sh "$src/init-scripts/bundle.sh" >"$T/one.sh"
  # the same length, and still gzip and base64
  awk 'length == 100 && !done && ++n == 20 { $0 = substr($0, 1, 50) (substr($0, 51, 1) == "A" ? "B" : "A") substr($0, 52); done = 1 } { print }' \
    "$T/one.sh" >"$T/other.sh"
  not cmp -s "$T/one.sh" "$T/other.sh"
  run bash "$T/other.sh" --root "$root"
  expect_status 2
  [[ $output == *"another SHA-256"* && -z $(ls -A "$root/opt") ]]
}

@test "a bundle that was cut anywhere runs nothing" {
  sh "$src/init-scripts/bundle.sh" >"$T/one.sh"
  size=$(wc -c <"$T/one.sh")
  export TMPDIR=$T/tmp
  mkdir "$TMPDIR" "$T/empty"
  for cut in 1000 2000 2500 $((size / 4)) $((size / 2)) $((size * 3 / 4)) $((size - 200)) $((size - 20)) \
    $((size - 12)) $((size - 9)) $((size - 6)) $((size - 4)) $((size - 3)); do
    head -c "$cut" "$T/one.sh" >"$T/cut.sh"
    run bash "$T/cut.sh" --root "$T/empty"
    [[ $status -ne 0 || $cut -lt 2100 ]]
    [[ -z $(ls -A "$T/empty" "$TMPDIR" | grep -v : ) ]]
  done
}

@test "the bundle leaves nothing behind, killed or not" {
  sh "$src/init-scripts/bundle.sh" >"$T/one.sh"
  export TMPDIR=$T/tmp
  mkdir -p "$TMPDIR"
  bash "$T/one.sh" --list >/dev/null
  [[ -z $(ls -A "$TMPDIR") && -z $(ls -d /run/ringup/ringup-init.*.d 2>/dev/null) ]]
  bash "$T/one.sh" --root "$root" >/dev/null 2>&1 &
  bundle=$!
  sleep 0.3
  kill -9 "$bundle"
  wait "$bundle" 2>/dev/null || true
  run bash "$T/one.sh" --root "$root"
  expect_status 0
  [[ -z $(ls -A "$TMPDIR") && -z $(ls -d /run/ringup/ringup-init.*.d 2>/dev/null) ]]
}

@test "a planted secret is never printed or written" {
  export DB_SECRET=hunter2hunter2 SPARKPASSWORD=hunter2hunter2
  run "$init" --root "$root"
  expect_status 0
  [[ $output != *hunter2* ]]
  ! grep -rq hunter2 "$root"
}

# node_tree - names, modes, links and contents of all but what ringup-init notes down for itself.
node_tree() {
  (cd "$root" && find . \( -path ./run -o -path ./var/lib/ringup -o -path ./var/log \) -prune -o -printf '%P %m %l\n' | sort
    find . \( -path ./run -o -path ./var/lib/ringup -o -path ./var/log \) -prune -o -type f -print0 | sort -z | xargs -0r sha256sum)
}

@test "whatever step fails, the node is as it was, byte for byte" {
  mkdir -p "$root"/usr/local/{bin,sbin,lib/pkgconfig,share/man} "$root"/var/{lib,log} "$root/run"
  echo '# mine' >"$root/etc/environment"
  empty=$(node_tree)
  for broken in configure make start bench; do
    release 9.9 "$broken"
    run "$init" --root "$root"
    [[ $status -ne 0 ]]
    diff <(echo "$empty") <(node_tree) || { echo "$broken"; return 1; }
  done
  release 9.9
  NET='no interface leads to other hosts' run "$init" --root "$root"
  expect_status 60
  diff <(echo "$empty") <(node_tree)
  # and an upgrade goes back to what was there
  run "$init" --root "$root"
  expect_status 0
  good=$(node_tree)
  for broken in configure make start bench; do
    release 9.10 "$broken"
    RINGUP_SOURCE=$T/ringup-9.10.tar.gz run "$init" --root "$root"
    [[ $status -ne 0 ]]
    diff <(echo "$good") <(node_tree) || { echo "upgrade: $broken"; return 1; }
  done
  run "$init" --root "$root"
  expect_status 0
  diff <(echo "$good") <(node_tree)
}

@test "RINGUP_ENGINE: rebuilt for the frameworks there are, again when they change, and not otherwise" {
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.13.0'
  run "$init" --root "$root"
  expect_status 0
  [[ ! -e $T/rebuilds ]]
  RINGUP_ENGINE=horovod run "$init" --root "$root"
  expect_status 0
  [[ $(cat "$T/rebuilds") == "rebuild --engine horovod --python $root/usr/bin/python3 --json" ]]
  RINGUP_ENGINE=horovod run "$init" --root "$root"
  expect_status 0
  [[ $(wc -l <"$T/rebuilds") == 1 ]]
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.14.0'
  RINGUP_ENGINE=horovod RINGUP_OFFLINE=1 RINGUP_ACCEPT='CVE-1 CVE-2' run "$init" --root "$root"
  expect_status 0
  [[ $(tail -n 1 "$T/rebuilds") == *"--offline accepts CVE-1 CVE-2" && $(wc -l <"$T/rebuilds") == 2 ]]
  # the driver builds at once, others give it time to begin
  export YIELDS=1 RINGUP_ENGINE=horovod RINGUP_CACHE_WAIT_MS=50000
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.15.0'
  DB_IS_DRIVER=FALSE run "$init" --root "$root"
  [[ $(tail -n 1 "$T/rebuilds") == *" yields 50000" ]]
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.16.0'
  DB_IS_DRIVER=TRUE run "$init" --root "$root"
  [[ $(tail -n 1 "$T/rebuilds") == *" yields 0" ]]
  RINGUP_ENGINE=horovot run "$init" --root "$root"
  expect_status 2
}

@test "an engine that cannot be rebuilt: the documented status for each reason" {
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.13.0'
  export RINGUP_ENGINE=horovod
  while read -r reason code; do
    REBUILD="$reason the compiler, which is \\\"g++\\\", ended with status 1" run "$init" --root "$root"
    expect_status "$code"
    [[ $output == *'not rebuilt: the compiler, which is "g++", ended with status 1; do "this"; what'* ]]
  done <<'EOT'
advisory 20
impossible 20
tools 20
busy 20
cache 20
network 21
source 30
compile 40
timeout 41
space 50
rights 50
conflict 50
system 50
prove 70
EOT
  # those are all that there are
  [[ $(sed -n 's/^\tX([A-Z]*, "\([a-z]*\)".*/\1/p' "$src/src/rebuild/reason.h" | sort | tr '\n' ' ') == \
    "advisory busy cache compile conflict impossible network prove rights source space system timeout tools " ]]
  REBUILD=crash run "$init" --root "$root"
  expect_status 50
  [[ $output == *"ringup rebuild ended with status 9"* ]]
  rm "$root/usr/bin/python3"
  run "$init" --root "$root"
  expect_status 20
}
