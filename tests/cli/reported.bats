#!/usr/bin/env bats
# reported.bats - failures of nodes and environments after public reports; docs/bench/nodes.md names these and the
# right answers.
# needs: cpu
# tests: src/doctor src/detect src/cli/cmd_doctor.c src/rebuild compat/install init-scripts

load ../lib/helper
load ../lib/reported

@test "A1: a library that asks for an executable stack, under glibc 2.41" {
  reported <<'S'
t=$T/tree
python_at "$t" /opt/venv 3.11
s=$t/opt/venv/lib/python3.11/site-packages
torch_at "$s" 2.5.1+cpu
library_at "$s/torch/lib/libtorch_cpu.so" at -Wl,-z,execstack
mkdir -p "$t/usr/lib/x86_64-linux-gnu" "$t/etc"
ln -s usr/lib "$t/lib"
printf 'ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n' >"$t/etc/os-release"
printf 'GLIBC_2.2.5 { };\nGLIBC_2.34 { } GLIBC_2.2.5;\nGLIBC_2.38 { } GLIBC_2.34;\nGLIBC_2.41 { global: sched_getattr; local: *; } GLIBC_2.38;\n' >"$T/map"
printf '%s\n' 'const char banner[] __attribute__((used)) = "GNU C Library (Debian GLIBC 2.41-12) stable release version 2.41.";' 'int sched_getattr(void) { return 0; }' |
  gcc -x c -shared -fPIC -nostdlib -Wl,-soname,libc.so.6 "-Wl,--version-script=$T/map" -o "$t/lib/x86_64-linux-gnu/libc.so.6" -
said ringup doctor --root "$t"
ended 1
wants 'libtorch_cpu\.so.*exec.* stack|exec.* stack.*libtorch_cpu\.so' 'patchelf --clear-execstack|newer torch|upgrade'
S
}

@test "A2: the interpreter of an environment was removed" {
  reported <<'S'
python_at "$T" /py 3.11
v=$T/venv
mkdir -p "$v/bin" "$v/lib/python3.11/site-packages"
ln -s "$T/py/bin/python3.11" "$v/bin/python"
ln -s python "$v/bin/python3"
printf 'home = %s\nversion = 3.11.4\n' "$T/py/bin" >"$v/pyvenv.cfg"
torch_at "$v/lib/python3.11/site-packages" 2.9.1
rm -r "$T/py"
for c in "ringup doctor --python $v" "ringup detect --python $v" "ringup rebuild --engine ringup --python $v" "$src/compat/install --python $v/bin/python"; do
  said $c
  ended bad
  wants "$T/py/bin/python3.11" 'link|removed|gone|missing|does not exist|no longer'
done
said env VIRTUAL_ENV="$v" ringup doctor
wants "$T/py/bin/python3.11"
S
}

@test "A3: RDMA devices without /dev/infiniband" {
  reported <<'S'
[[ ! -e /dev/infiniband ]] || cannot "this machine has /dev/infiniband"
scratch
mkdir -p "$T/s/net"
mount --rbind /sys/class/net "$T/s/net"
mount -t tmpfs none /sys/class
mkdir -p /sys/class/net
mount --rbind "$T/s/net" /sys/class/net
d=/sys/class/infiniband/mlx5_0
mkdir -p "$d/ports/1/gids" "$d/device" /sys/class/infiniband_verbs/uverbs0
echo '1: CA' >"$d/node_type"
echo '4: ACTIVE' >"$d/ports/1/state"
echo '5: LinkUp' >"$d/ports/1/phys_state"
echo InfiniBand >"$d/ports/1/link_layer"
echo '200 Gb/sec (4X HDR)' >"$d/ports/1/rate"
echo 'fe80:0000:0000:0000:0e42:a1ff:fe9a:6766' >"$d/ports/1/gids/0"
echo mlx5_0 >/sys/class/infiniband_verbs/uverbs0/ibdev
said ringup doctor
wants 'mlx5_0|InfiniBand|RDMA' '/dev/infiniband' '--device|device plug-?in|privileged'
S
}

@test "A4: a temporary folder without exec" {
  reported <<'S'
mkdir -p "$T/tmp"
mount -t tmpfs -o noexec none "$T/tmp"
chmod 1777 "$T/tmp"
said env TMPDIR="$T/tmp" ringup doctor
wants "$T/tmp.*noexec|noexec.*$T/tmp" 'TMPDIR|remount'
torch_env
said env TMPDIR="$T/tmp" ringup rebuild --engine ringup --without-mpi --python "$venv"
[[ $rc == 0 ]] || wants noexec
S
}

@test "A5: torch without a package that it imports" {
  reported <<'S'
torch_env
rm -r "$site"/typing_extensions*
said ringup doctor --python "$venv"
ended 1
wants torch 'typing[-_]extensions' 'pip install'
S
}

@test "A6: dpkg was interrupted" {
  reported <<'S'
command -v apt-get >/dev/null || cannot "apt-get is not installed"
machine
mkdir -p "$root/var/lib/dpkg/updates"
sed '/^$/q' "$root/var/lib/dpkg/status" >"$root/var/lib/dpkg/updates/0001"
for p in ed cowsay tree; do [[ -e /usr/bin/$p || -e /usr/games/$p || -e /bin/$p ]] || break; done
packages "$p"
[[ $rc != 21 ]] || cannot "no mirror answers here"
if [[ $rc == 0 ]]; then
  chroot "$root" dpkg -s "$p" || fails=1
else
  ended 20
  wants interrupted 'dpkg --configure -a'
  unsaid 'reach.* mirror'
fi
S
}

@test "A7: pip 20.0.2" {
  reported <<'S'
[[ -f ${RINGUP_TEST_OLD_PIP:-} ]] || cannot "RINGUP_TEST_OLD_PIP names no wheel of pip 20.0.2"
python3 -m venv "$T/venv" && "$T/venv/bin/pip" install -q --no-deps "$RINGUP_TEST_OLD_PIP" 2>/dev/null
s=$(echo "$T"/venv/lib/python3.*/site-packages)
said "$src/compat/install" --python "$T/venv/bin/python"
ended 0
[[ -e $s/ringup/__init__.py ]] || fails=1
said "$src/compat/install" --check --python "$T/venv/bin/python"
ended 0
said "$src/compat/install" --uninstall --python "$T/venv/bin/python"
ended 0
[[ ! -e $s/ringup/__init__.py ]] || fails=1
grep -q 'pip 20.3 or later' "$src/README.md" || fails=1
S
}

@test "A8: CUDA's stub library" {
  reported <<'S'
layer /usr/lib/x86_64-linux-gnu
driver_at /usr/lib/x86_64-linux-gnu/libcuda.so.570.133.20
ln -s libcuda.so.570.133.20 /usr/lib/x86_64-linux-gnu/libcuda.so.1
driver_at "$T/cuda/lib64/stubs/libcuda.so" 34
ln -s libcuda.so "$T/cuda/lib64/stubs/libcuda.so.1"
mount -t tmpfs none /proc/driver || cannot "no /proc/driver"
g=/proc/driver/nvidia/gpus/0000:3b:00.0
mkdir -p "$g"
printf 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.20  Sun Mar 16 20:36:30 UTC 2025\n' >/proc/driver/nvidia/version
printf 'Model: \t\t NVIDIA A100-SXM4-80GB\nDevice Minor: \t 0\n' >"$g/information"
said env LD_LIBRARY_PATH="$T/cuda/lib64/stubs:$LD_LIBRARY_PATH" ringup doctor
ended 1
wants stub "$T/cuda/lib64/stubs" LD_LIBRARY_PATH
S
}

@test "A9: Alpine" {
  reported <<'S'
machine
system 'NAME="Alpine Linux"' ID=alpine VERSION_ID=3.20.3 'PRETTY_NAME="Alpine Linux v3.20"'
(cd "$root/usr/bin" && rm -f gcc gcc-* cc g++ g++-* c++ make clang clang-*)
: >"$root/lib/ld-musl-x86_64.so.1"
echo 'exit 0' | tool apk
rm -rf "$root/var/lib/ringup" "$root/opt/ringup"
within "$src/init-scripts/ringup-init" 00-guard 10-detect 20-toolchain
ended bad
wants 'musl|error.*alpine' 'glibc|ubuntu|apk add'
S
}

@test "A10: /opt without exec" {
  reported <<'S'
machine
mount -t tmpfs -o noexec none "$root/opt"
rm -rf "$root/var/lib/ringup"
within "$src/init-scripts/ringup-init" 00-guard 10-detect
ended bad
wants '/opt.*noexec|noexec.*/opt' remount
S
}

@test "B1: WSL 2, with and without its folder in the loader's list" {
  reported <<'S'
t=$T/tree
python_at "$t" /opt/venv 3.11
torch_at "$t/opt/venv/lib/python3.11/site-packages" 2.9.1+cu128 12.8
mkdir -p "$t/dev" "$t/etc/ld.so.conf.d" "$t/proc"
: >"$t/dev/dxg"
echo 'Linux version 5.15.153.1-microsoft-standard-WSL2 (root@x) #1 SMP' >"$t/proc/version"
driver_at "$t/usr/lib/wsl/lib/libcuda.so.1.1"
cp "$t/usr/lib/wsl/lib/libcuda.so.1.1" "$t/usr/lib/wsl/lib/libcuda.so.1"
said ringup doctor --root "$t"
ended 1
wants WSL /usr/lib/wsl/lib 'ldconfig|LD_LIBRARY_PATH'
echo /usr/lib/wsl/lib >"$t/etc/ld.so.conf.d/ld.wsl.conf"
said ringup doctor --root "$t"
wants WSL
unsaid '^ *bad .*(gpu|libcuda|wsl)' 'gpus.* none'
S
}

@test "B2: packages in the home of a user hide those of a container" {
  reported <<'S'
p=/usr/bin/python3
[[ -x $p ]] || cannot "no $p"
v=$("$p" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
mkdir -p "/usr/local/lib/python$v" 2>/dev/null
layer "/usr/local/lib/python$v"
torch_at "/usr/local/lib/python$v/dist-packages" 2.9.1
torch_at "$T/home/.local/lib/python$v/site-packages" 2.1.0
said env HOME="$T/home" ringup doctor --python "$p"
wants 'torch 2\.1\.0' "$T/home/\.local" hid 'PYTHONNOUSERSITE|pip uninstall'
said env HOME="$T/home" PYTHONNOUSERSITE=1 ringup doctor --python "$p"
wants 'torch 2\.9\.1'
unsaid 'torch 2\.1\.0'
S
}

@test "B3: a library that the disk had no room for" {
  reported <<'S'
for how in half empty; do
  t=$T/$how
  python_at "$t" /opt/venv 3.11
  l=$t/opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so
  torch_at "$t/opt/venv/lib/python3.11/site-packages" 2.9.1
  [[ $how == half ]] && truncate -s $(($(stat -c %s "$l") / 2)) "$l" || : >"$l"
  said ringup doctor --root "$t"
  ended 1
  wants 'libtorch_cpu\.so' 'truncated|too short|shorter|incomplete|empty|damaged' reinstall
done
S
}

@test "B4: a limit of virtual memory" {
  reported <<'S'
said bash -c 'ulimit -v 2000000; exec ringup doctor'
ended 1
wants 'address space|virtual memory' 'ulimit -v'
S
}

@test "B5: CentOS 8, whose mirror list is empty" {
  reported <<'S'
machine
system 'NAME="CentOS Linux"' 'ID="centos"' 'ID_LIKE="rhel fedora"' 'VERSION_ID="8"' 'PRETTY_NAME="CentOS Linux 8"'
tool dnf <<'D'
echo "CentOS Linux 8 - AppStream                       56  B/s |  38  B     00:00"
echo "Error: Failed to download metadata for repo 'appstream': Cannot prepare internal mirrorlist: No URLs in mirrorlist" >&2
exit 1
D
echo 'exit 1' | tool rpm
echo 'exit 0' | tool sleep
packages gcc make
ended bad
wants appstream 'No URLs in mirrorlist|retired|end of life' 'vault|baseurl|/etc/yum\.repos\.d'
S
}

@test "B6: sitecustomize that prints" {
  reported <<'S'
torch_env
echo 'print("*** company python, /etc/motd ***")' >"$site/sitecustomize.py"
said "$src/compat/install" --python "$venv/bin/python"
ended 0
[[ -e $site/ringup/__init__.py ]] || fails=1
said "$src/compat/install" --check --python "$venv/bin/python"
ended 0
said "$src/compat/install" --uninstall --python "$venv/bin/python"
ended 0
said ringup rebuild --engine ringup --without-mpi --python "$venv"
ended 0
[[ -e $site/ringup/__init__.py ]] || fails=1
said ringup doctor --python "$venv"
unsaid 'company python'
S
}

@test "B7: a protobuf that TensorFlow does not take" {
  reported <<'S'
t=$T/tree
python_at "$t" /opt/venv 3.11
s=$t/opt/venv/lib/python3.11/site-packages
package_at "$s" tensorflow 2.15.1 'Requires-Dist: protobuf !=4.21.0,!=4.21.1,!=4.21.2,!=4.21.3,!=4.21.4,!=4.21.5,<5.0.0dev,>=3.20.3'
mkdir -p "$s/tensorflow/python" "$s/google/protobuf"
: >"$s/tensorflow/__init__.py"
library_at "$s/tensorflow/libtensorflow_framework.so.2" tsl
cp "$s/tensorflow/libtensorflow_framework.so.2" "$s/tensorflow/libtensorflow_cc.so.2"
package_at "$s" protobuf 6.31.1
: >"$s/google/protobuf/__init__.py"
said ringup doctor --root "$t"
ended 1
wants protobuf '6\.31\.1' 'pip install.*protobuf'
S
}

@test "B8: OPAL_PREFIX of an Open MPI that is not there" {
  reported <<'S'
said env OPAL_PREFIX=/opt/hpcx-v2.18/ompi ringup doctor
wants OPAL_PREFIX '/opt/hpcx-v2\.18/ompi' unset
S
}

@test "B9: a chroot in which nothing is mounted" {
  reported <<'S'
machine bare
mount -t tmpfs none "$root/dev"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/urandom" c 1 9
within ringup doctor
ended 1
wants /proc 'mount -t proc'
within timeout 60 ringup run -np 2 -- ringup hello
[[ $rc == 0 ]] || wants '/proc|/dev/shm'
S
}

@test "B10: an immutable file" {
  reported <<'S'
command -v mkfs.ext4 >/dev/null || cannot "mkfs.ext4 is not installed"
truncate -s 300M "$T/image"
mkfs.ext4 -q "$T/image"
mkdir -p "$T/s"
mount -o loop "$T/image" "$T/s" || cannot "no loop devices here"
machine
chattr +i "$root/etc/environment" || cannot "no immutable attribute here"
within "$src/init-scripts/ringup-init" 00-guard
if [[ $rc == 0 ]]; then
  within unshare -n sh -c 'ip link set lo up; ip link add eth0 type veth peer name peer; ip addr add 10.61.0.2/24 dev eth0
    ip link set peer up; ip link set eth0 up; sleep 1; ip route add default via 10.61.0.1; exec ringup net fix'
fi
ended bad
wants /etc/environment immutable 'chattr -i'
chattr -i "$root/etc/environment"
S
}
