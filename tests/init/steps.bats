#!/usr/bin/env bats
# steps.bats - the steps themselves, on a tree, with a release that is quick to build.
# needs: cpu
# tests: init-scripts tests/lib/release.bash src/cli/cmd_detect.c

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
  release_installed
  first=$(tail -n 12 <<<"$(<"$T/first")")
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
  run strace -f --seccomp-bpf -qq -e signal=none -e trace="$seen" -o "$T/trace" "$init" --root "$root" "$@"
  written=$(writes "$T/trace")
  started=$(awk '$2 ~ /^execve\(/ { n++ } END { print n + 0 }' "$T/trace")
}

@test "the second run opens no file for writing, makes and removes none, in none of its processes" {
  command -v strace >/dev/null || skip "strace is not installed"
  strace -f --seccomp-bpf -o "$T/trace" true 2>/dev/null || skip "nothing can be traced here"
  release_installed
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
  release_installed
  before=$(tree "$root")
  run "$init" --root "$root" --dry-run
  expect_status 0
  [[ $(tree "$root") == "$before" ]]
}

@test "an upgrade switches the link and keeps one version to go back to" {
  release_installed
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
  release_installed
  old=$(readlink "$root/opt/ringup/current")
  release 9.10 start
  RINGUP_SOURCE=$T/ringup-9.10.tar.gz run "$init" --root "$root"
  expect_status 50
  [[ $(readlink "$root/opt/ringup/current") == "$old" && ! -e $root/opt/ringup/.new ]]
  [[ $output == *"does not start"* ]]
}

@test "the first release that does not start leaves nothing" {
  release 9.10 start
  RINGUP_SOURCE=$T/ringup-9.10.tar.gz run "$init" --root "$root" build install
  expect_status 50
  [[ ! -e $root/opt/ringup/current && -z $(find "$root/usr/local" -type l) ]]
}

@test "somebody else's file is not replaced" {
  mkdir -p "$root/usr/local/bin"
  echo mine >"$root/usr/local/bin/ringup"
  run "$init" --root "$root" build install
  expect_status 50
  [[ $(cat "$root/usr/local/bin/ringup") == mine && ! -e $root/opt/ringup/current ]]
  [[ $output == *"ringup-init did not create it"* ]]
}

@test "sources that do not configure or compile: exit status 40 and the words of the log" {
  release 9.9 configure
  run "$init" --root "$root" build
  expect_status 40
  [[ $output == *"no libsodium"* ]]
  release 9.9 make
  run "$init" --root "$root" build
  expect_status 40
  [[ ! -e $root/opt/ringup/current ]]
}

@test "ranks that do not agree: exit status 70" {
  release 9.9 bench
  run "$init" --root "$root"
  expect_status 70
  [[ $output == *"element 7 is 3, not 6"* && $(json 's["code"], s["result"]') == "(70, 'failed')" ]]
}

@test "no sources, no file, the wrong file, the wrong checksum: exit status 30" {
  RINGUP_SOURCE='' run "$init" --root "$root" build
  expect_status 30
  [[ $output == *RINGUP_SOURCE* ]]
  RINGUP_SOURCE=$T/none.tar.gz run "$init" --root "$root" build
  expect_status 30
  RINGUP_SOURCE=$src/README.md run "$init" --root "$root" build
  expect_status 30
  RINGUP_SOURCE_SHA256=$(printf '0%.0s' {1..64}) run "$init" --root "$root" build
  expect_status 30
  [[ $output == *"is not RINGUP_SOURCE_SHA256"* ]]
  RINGUP_SOURCE=https://host/ringup.tar.gz run "$init" --root "$root" build
  expect_status 30
  RINGUP_SOURCE=ftp://host/ringup.tar.gz run "$init" --root "$root" build
  expect_status 30
  [[ ! -e $root/opt/ringup && ! -e $state/source.tar ]]
  sum=$(sha256sum <"$RINGUP_SOURCE" | cut -c 1-64)
  RINGUP_SOURCE_SHA256=$sum run "$init" --root "$root" build
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
    RINGUP_SOURCE=$T/$name.tar.gz run "$init" --root "$root" build
    expect_status 30
    [[ $output == *"refusing to unpack"* ]]
  done
}

@test "Databricks: values that make no sense are exit status 10" {
  DB_CONTAINER_IP='10.1.2.3; reboot' run "$init" --root "$root" guard detect
  expect_status 10
  DB_IS_DRIVER=perhaps run "$init" --root "$root" guard detect
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
  [[ $output == *"/etc is not writable"* && ! -e $root/opt/ringup ]]
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
    [[ $output == *"$root/$at"*" points to $T/outside"*"outside the tree"* ]]
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
  release_installed
  RINGUP_SOURCE='' run "$init" --root "$root"
  expect_status 0
  [[ $output == *"30-build: already done"* && $output == *"4 ranks agreed"* ]]
}

@test "undo leaves the tree as it was, but for logs and empty folders" {
  release_installed
  run "$init" --root "$root" --undo
  expect_status 0
  [[ -z $(find "$root" -not -type d -not -path '*/var/log/*' -not -path '*/run/*') ]]
}

@test "a planted secret is never printed or written" {
  export DB_SECRET=hunter2hunter2 SPARKPASSWORD=hunter2hunter2
  run "$init" --root "$root"
  expect_status 0
  [[ $output != *hunter2* ]]
  ! grep -rq hunter2 "$root"
}

@test "a proof that fails says why: the limit, a rank's own error, or the weights" {
  release_installed
  # fails SCRIPT TEXT - with that for training, the run ends with status 70, and TEXT is the cause.
  fails() {
    echo "$1" >"$T/training"
    rm -f "$state"/state/70-verify
    run env RINGUP_PROVE_MS=1000 "$init" --root "$root"
    expect_status 70
    [[ $(json 's["cause"]') == *"$2"* && $(json 's["hint"]') == *"$root/var/log/ringup/"*-70-verify.log* ]] ||
      { json 's["cause"], s["hint"]'; return 1; }
    again installed
  }
  fails 'sleep 30' "did not end within 1 s"
  [[ $output == *"RINGUP_PROVE_MS=3000"* ]]
  fails $'echo "Traceback (most recent call last):" >&2\necho "[2]<stderr>:ImportError: libtorch.so: cannot open shared object file" >&2\necho "ringup run: rank 2 exited with status 1" >&2; exit 1' \
    "failed: ImportError: libtorch.so: cannot open"
  [[ $output != *"wrong weights"* ]]
  fails $'echo "rank 1: the ranks hold 2 different sets of weights" >&2; exit 1' "got different or wrong weights: rank 1: the ranks hold 2"
  fails 'kill -SEGV $$' "failed: it ended with status 139"
}
