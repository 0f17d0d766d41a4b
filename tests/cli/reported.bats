#!/usr/bin/env bats
# reported.bats - failures of nodes and environments after public reports; docs/bench/nodes.md names these and the
# right answers.
# needs: cpu
# tests: src/doctor src/detect src/nicpick src/host src/cli/cmd_doctor.c src/rebuild compat/install init-scripts

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

@test "C1: LD_LIBRARY_PATH leads a library of a wheel to one of an older CUDA" {
  reported here <<'S'
environment
n=$site/nvidia old=$T/cuda-12.1/lib64
torch_at "$site" 2.5.1+cu124 12.4
echo 'int __nvJitLinkComplete_12_4;' | so "$n/nvjitlink/lib/libnvJitLink.so.12"
echo 'int __nvJitLinkComplete_12_1;' | so "$old/libnvJitLink.so.12"
echo 'int older;' | so "$old/libcusparse.so.12"
echo 'extern int cusparse; int *cuda(void) { return &cusparse; }' |
  so "$site/torch/lib/libtorch_cuda.so" -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../../nvidia/cusparse/lib' -L"$old" -l:libcusparse.so.12
for how in disable enable; do
  echo 'extern int __nvJitLinkComplete_12_4; int *cusparse(void) { return &__nvJitLinkComplete_12_4; }' |
    so "$n/cusparse/lib/libcusparse.so.12" "$n/nvjitlink/lib/libnvJitLink.so.12" "-Wl,--$how-new-dtags,-rpath,\$ORIGIN/../../nvjitlink/lib"
  said env LD_LIBRARY_PATH="$old:$LD_LIBRARY_PATH" ringup doctor --python "$venv"
  if [[ $how == enable ]]; then
    ended 1
    wants "libcusparse\.so\.12 needs __nvJitLinkComplete_12_4; LD_LIBRARY_PATH puts $old/libnvJitLink" "unset LD_LIBRARY_PATH, or remove $old"
    unsaid 'no engine installed'
  else
    unsaid 'cannot be imported'
  fi
done
said ringup doctor --python "$venv"
unsaid 'cannot be imported'
# Newer ones load it themselves.
echo '_preload_cuda_deps("nvjitlink", "libnvJitLink.so.*[0-9]")' >"$site/torch/__init__.py"
said env LD_LIBRARY_PATH="$old:$LD_LIBRARY_PATH" ringup doctor --python "$venv"
unsaid 'cannot be imported'
# An extension of Horovod, which torch's own libraries do not need.
echo 'int MPI_Init, MPI_New;' | so "$T/new/libmpi.so.40"
echo 'int MPI_Init;' | so "$T/mpi/libmpi.so.40"
horovod_at "$T/new/libmpi.so.40" -Wl,--enable-new-dtags,-rpath,"$T/new" <<<'extern int MPI_New; int *f(void) { return &MPI_New; }'
said env LD_LIBRARY_PATH="$T/mpi:$LD_LIBRARY_PATH" ringup doctor --python "$venv"
ended 1
wants ': Horovod 0.28.1 cannot be loaded' 'needs MPI_New' "or remove $T/mpi from it"
S
}

@test "C2: two NCCL wheels own one file, which has what the wrong one installed" {
  reported here <<'S'
environment
l=nvidia/nccl/lib/libnccl.so.2
torch_at "$site" 2.13.0+cu130 13.0 'Requires-Dist: nvidia-nccl-cu13==2.29.7; platform_system == "Linux"'
package_at "$site" nvidia_nccl_cu13 2.29.7
package_at "$site" nvidia_nccl_cu12 2.29.3
echo "$l,sha256=x,1" | tee "$site"/nvidia_nccl_cu1{2-2.29.3,3-2.29.7}.dist-info/RECORD >/dev/null
echo 'int ncclCommInitRank, ncclCommResume;' | so "$site/$l"
echo 'extern int ncclCommResume; int *c10d(void) { return &ncclCommResume; }' |
  so "$site/torch/lib/libtorch_cuda.so" "$site/$l" '-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib'
said ringup doctor --python "$venv"
unsaid 'cannot be imported'
echo 'int ncclCommInitRank;' | so "$site/$l"
said ringup doctor --python "$venv"
ended 1
wants 'ncclCommResume.*nvidia-nccl-cu12 nvidia-nccl-cu13' "fix: .*pip uninstall -y nvidia-nccl-cu12 nvidia-nccl-cu13; .*pip install --no-deps 'nvidia-nccl-cu13==2.29.7'"
unsaid 'another NCCL wheel'
S
}

@test "C3: torch was upgraded to one with the new C++ ABI, Horovod was not" {
  reported here <<'S'
environment
torch_at "$site" 2.7.1
package_at "$site" horovod 0.28.1
library_at "$site/horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so" c10 -D_GLIBCXX_USE_CXX11_ABI=0
said ringup doctor --python "$venv"
ended 1
wants 'old C\+\+ ABI' "ringup rebuild --engine horovod --python $venv"
S
}

@test "C4: mpirun is of another MPI than Horovod's" {
  reported here <<'S'
environment
o=$T/opt/openmpi-4.1.6 m=$T/opt/mpich-4.1.2
torch_at "$site" 2.7.1
mkdir -p "$o/bin" "$m/bin"
cp /bin/true "$o/bin/orterun"
cp /bin/true "$m/bin/mpiexec.hydra"
ln -s orterun "$o/bin/mpirun"
ln -s mpiexec.hydra "$m/bin/mpirun"
echo 'int MPI_Init;' | so "$o/lib/libmpi.so.40"
horovod_at "$o/lib/libmpi.so.40" -Wl,-rpath,"$o/lib" <<<'extern int MPI_Init; int *f(void) { return &MPI_Init; }'
said env PATH="$m/bin:$PATH" ringup doctor --python "$venv"
ended 1
wants 'torch 2\.7\.1 of .*: works with Horovod' "mpirun in PATH, $m/bin/mpirun, is MPICH's.*Open MPI, $o/lib/libmpi" 'rank 0 of 1' "start jobs with $o/bin/mpirun"
said env PATH="$o/bin:$PATH" ringup doctor --python "$venv"
unsaid 'rank 0 of 1'
S
}

@test "C5: the link to conda's libstdc++ was removed" {
  reported here <<'S'
t=$T/tree c=/opt/miniforge3 u=$T/tree/usr/lib/x86_64-linux-gnu s=$T/tree/opt/miniforge3/lib/python3.10/site-packages
python_at "$t" "$c" 3.10
mkdir -p "$t$c/conda-meta"
torch_at "$s" 2.6.0
own=$(objdump -T "$s/torch/lib/libc10.so" | grep -oE '(GLIBCXX|CXXABI)_[0-9.]+' | sort -u)
# cxx FILE VERSION - a libstdc++ with that version, and those that torch's other libraries need; it has new().
cxx() {
  { printf '%s { };\n' $own && echo "$2 { global: new; };"; } >"$T/map"
  soname=libstdc++.so.6 so "$1" -nostdlib "-Wl,--version-script=$T/map" <<<'void new(void) {}'
}
cxx "$u/libstdc++.so.6.0.28" GLIBCXX_3.4.28
ln -s libstdc++.so.6.0.28 "$u/libstdc++.so.6"
ln -s usr/lib "$t/lib"
cxx "$t$c/lib/libstdc++.so.6.0.34" GLIBCXX_3.4.30
so "$s/torch/lib/libtorch_python.so" -nostdlib "$t$c/lib/libstdc++.so.6.0.34" '-Wl,-rpath,$ORIGIN/../../../..' <<<'void new(void); void python(void) { new(); }'
said ringup doctor --root "$t"
ended 1
wants 'cannot be imported: it needs GLIBCXX_3\.4\.30' 'only has symbols up to GLIBCXX_3\.4\.28.*not the link libstdc\+\+\.so\.6' "ln -s libstdc\+\+\.so\.6\.0\.34 $c/lib/libstdc"
ln -s libstdc++.so.6.0.34 "$t$c/lib/libstdc++.so.6"
said ringup doctor --root "$t"
unsaid 'cannot be imported'
S
}

@test "C6: a torch for CUDA 13 and GPUs that CUDA 13 dropped" {
  reported here <<'S'
t=$T/tree
python_at "$t" /opt/venv 3.11
torch_at "$t/opt/venv/lib/python3.11/site-packages" 2.9.1+cu130 13.0
gpus_at "$t" 580.95.05 'Tesla V100-SXM2-32GB'
said ringup doctor --root "$t"
ended 1
wants 'V100-SXM2-32GB needs CUDA 12\.9 or earlier, and torch 2\.9\.1\+cu130' 'torch built for that CUDA'
unsaid 'newer driver'
S
}

@test "C7: the fabric manager kept its version when the driver was upgraded" {
  reported here <<'S'
t=$T/tree
gpus_at "$t" 530.41.03 'NVIDIA A100-SXM4-80GB'
mkdir -p "$t/proc/driver/nvidia-nvswitch/devices/0000:c4:00.0" "$t/usr/bin" "$t/var/lib/dpkg" "$t/var/log"
: >"$t/usr/bin/nv-fabricmanager"
# package NAME VERSION - what dpkg knows.
package() { printf 'Package: %s\nStatus: install ok installed\nVersion: %s\n\n' libcuda1 530.41.03-1 nvidia-fabricmanager-dev-530 530.1-1 "$@" >"$t/var/lib/dpkg/status"; }
package nvidia-fabricmanager-530 530.41.03-1
said ringup doctor --root "$t"
unsaid 'bad .*fabric manager'
for old in 530:530.30.02 525:525.147.05; do
  package "nvidia-fabricmanager-${old%:*}" "${old#*:}-1"
  said ringup doctor --root "$t"
  ended 1
  wants "fabric manager is version ${old#*:}, but the driver is 530\.41\.03" "apt-get install 'nvidia-fabricmanager-530=530\.41\.03\*'.*systemctl restart nvidia-fabricmanager"
done
# No package of dpkg's; the log says it, if the last start ended so.
: >"$t/var/lib/dpkg/status"
echo "[ERROR] fabric manager NVIDIA GPU driver interface version 530.30.02 don't match with driver version 530.41.03. Please update with matching NVIDIA driver package." >"$t/var/log/fabricmanager.log"
said ringup doctor --root "$t"
ended 1
wants 'fabric manager is version 530\.30\.02' 'nvidia-fabric-manager in version 530\.41\.03'
echo '[INFO] Connected to 1 node.' >>"$t/var/log/fabricmanager.log"
said ringup doctor --root "$t"
unsaid 'bad .*fabric manager'
S
}

@test "C8: PYTHONPATH leads to packages for another Python" {
  reported here <<'S'
environment
old=$T/apps/lib/python3.8/site-packages
torch_at "$site" 2.5.1
: | so "$site/torch/_C.cpython-311-x86_64-linux-gnu.so"
torch_at "$old" 1.13.1
: | so "$old/torch/_C.cpython-38-x86_64-linux-gnu.so"
said env PYTHONPATH="$old" ringup doctor --python "$venv"
ended 1
wants 'torch 1\.13\.1 of .* cannot be imported: it was built for Python 3\.8, not for 3\.11' "PYTHONPATH puts $old before.*hides $site/torch" 'fix: unset PYTHONPATH'
unsaid 'no engine installed'
said ringup doctor --python "$venv"
unsaid 'cannot be imported'
# Their extensions have no such names, but pip notes their kind; and a package that TensorFlow imports.
package_at "$site" tensorflow 2.15.1 'Requires-Dist: numpy>=1.23'
package_at "$old" tensorflow 2.4.0
package_at "$site" numpy 1.26.4
package_at "$old" numpy 1.23.0
mkdir -p {"$site","$old"}/{tensorflow,numpy}
touch {"$site","$old"}/{tensorflow,numpy}/__init__.py
echo 'Tag: cp38-cp38-manylinux1_x86_64' | tee "$old"/{tensorflow-2.4.0,numpy-1.23.0}.dist-info/WHEEL >/dev/null
echo 'tensorflow/__init__.py,,' >"$old/tensorflow-2.4.0.dist-info/RECORD"
said env PYTHONPATH="$old" ringup doctor --python "$venv"
wants 'tensorflow .* cannot be imported: it was built for Python 3\.8'
rm -r "$old"/tensorflow*
said env PYTHONPATH="$old" ringup doctor --python "$venv"
wants 'tensorflow 2\.15\.1 .* cannot be imported: numpy 1\.23\.0 was built for Python 3\.8'
echo 'Tag: cp311-cp311-manylinux1_x86_64' >"$old/numpy-1.23.0.dist-info/WHEEL"
said env PYTHONPATH="$old" ringup doctor --python "$venv"
unsaid 'tensorflow .* cannot be imported'
S
}

@test "C9: a file of settings names an interface that this node does not have" {
  reported <<'S'
layer /etc
printf 'NCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=ens1f0np0\n' >/etc/nccl.conf
said env -u NCCL_SOCKET_IFNAME ringup doctor
ended 1
wants "why: /etc/nccl\.conf:2: NCCL_SOCKET_IFNAME=ens1f0np0: 'ens1f0np0' matches no interface" 'fix: (in /etc/nccl\.conf:2 write: NCCL_SOCKET_IFNAME==|ringup net lint)'
rm /etc/nccl.conf
said env GLOO_SOCKET_IFNAME=ens1f0np0 ringup doctor
wants "why: environment: GLOO_SOCKET_IFNAME=ens1f0np0: " 'fix: (export GLOO_SOCKET_IFNAME=|ringup net lint)'
S
}

@test "C10: a control group of few processes" {
  reported <<'S'
for at in /sys/fs/cgroup/pids /sys/fs/cgroup; do
  g=$at/ringup.$$.reported
  mkdir "$g" 2>/dev/null && [[ -e $g/pids.max ]] && break
  rmdir "$g" 2>/dev/null
done
[[ -e $g/pids.max ]] || cannot "no control group with a limit of processes here"
echo 32 >"$g/pids.max"
said bash -c 'echo $$ >"$0/cgroup.procs"; exec ringup doctor' "$g"
rmdir "$g"
ended 1
wants 'control group allows only [0-9]+ more' 'pids\.max.*--pids-limit'
S
}

@test "D1: uv's environment of links, and a pruned cache" {
  reported <<'S'
live_environment
torch_at "$site" 2.6.0
cache=$T/cache/uv/archive-v0/NdHIQJOHd5Q0fSj9Nf1Oi
mkdir -p "$cache"
ln -sf "$cache/torch/__init__.py" "$site/torch/__init__.py"
ln -sf "$cache/torch/lib/libtorch_cpu.so" "$site/torch/lib/libtorch_cpu.so"
ln -sf "$cache/METADATA" "$site/torch-2.6.0.dist-info/METADATA"
said ringup doctor --python "$venv"
ended 1
wants "torch 2\.6\.0 of .* cannot be imported: $site/torch/__init__\.py is a link to $cache/torch/__init__\.py" \
  'uv cache prune' 'fix: uv pip install --python .* --reinstall --link-mode copy torch'
unsaid METADATA 'no engine installed' 'import fails'
# A tree is not run.
python_at "$T/tree" /opt/v 3.11
cp -a "$site/." "$T/tree/opt/v/lib/python3.11/site-packages"
said ringup doctor --root "$T/tree" --python /opt/v
ended 1
wants "torch/__init__\.py is a link to $cache/torch/__init__\.py"
# Other links lead to what was moved.
ln -sf /data/gone/__init__.py "$site/torch/__init__.py"
rm "$site/torch/lib/libtorch_cpu.so"
said ringup doctor --python "$venv"
wants '__init__\.py is a link to /data/gone/__init__\.py' 'moved' 'pip install --force-reinstall torch==2\.6\.0'
# Without the file Python imports the folder, and nothing in it.
rm "$site/torch/__init__.py" "$site/torch-2.6.0.dist-info/METADATA"
package_at "$site" torch 2.6.0
said ringup doctor --python "$venv"
ended 1
wants "torch 2\.6\.0 of .*: the import fails: it is a folder without __init__\.py: $site/torch" 'force-reinstall torch==2\.6\.0'
said ringup doctor --no-import --python "$venv"
unsaid 'import fails'
: >"$site/torch/__init__.py"
said ringup doctor --python "$venv"
unsaid 'import' 'link to'
[[ ! -e $site/torch/__pycache__ ]] || { echo "BYTECODE" && fails=1; }
S
}

@test "D2: an MKL without a symbol that torch needs" {
  reported <<'S'
live_environment
torch_at "$site" 2.1.2
so "$site/torch/lib/libextra.so" <<<'extern int iJIT_NotifyEvent(int); int f(void) { return iJIT_NotifyEvent(1); }'
printf 'import ctypes, os\nctypes.CDLL(os.path.dirname(__file__) + "/lib/libextra.so", 2)\n' >"$site/torch/__init__.py"
said ringup doctor --python "$venv"
ended 1
wants 'torch 2\.1\.2 of .*: the import fails: OSError: .*/libextra\.so: undefined symbol: iJIT_NotifyEvent' "fix: conda install 'mkl<2024\.1'"
unsaid 'no engine installed'
said ringup doctor --json --python "$venv"
wants '"result": "fails"' '"name": "torch"'
# What has no known cause is shown by the import itself; a job's environment is the import's.
printf 'import os\nif os.environ.get("BROKEN"):\n    raise RuntimeError("first\\nsecond")\n' >"$site/torch/__init__.py"
said env BROKEN=1 ringup doctor --python "$venv"
wants 'import fails: RuntimeError: first second' "fix: .* -c 'import torch' shows where"
said ringup doctor --json --python "$venv"
wants '"result": "works"'
printf 'import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n' >"$site/torch/__init__.py"
said ringup doctor --python "$venv"
wants 'import fails: it is killed by signal 4'
# Horovod is imported as well, if nothing is wrong with torch itself.
: >"$site/torch/__init__.py"
horovod_at <<<'int x;'
: >"$site/horovod/__init__.py"
echo 'raise ImportError("Extension horovod.torch has not been built")' >"$site/horovod/torch/__init__.py"
said ringup doctor --python "$venv"
wants 'bad +horovod\.torch of .*: the import fails: ImportError: Extension horovod\.torch has not been built'
rm -r "$site"/horovod*
# Two frameworks, of which one never ends; what it has started ends with it.
printf 'import subprocess, time\nsubprocess.Popen(["sleep", "600.%s"])\nprint("x" * 10000000)\ntime.sleep(600)\n' "$$" >"$site/torch/__init__.py"
package_at "$site" jax 0.6.2
mkdir -p "$site/jax"
echo 'raise ImportError("no jaxlib")' >"$site/jax/__init__.py"
said ringup doctor --python "$venv"
wants 'torch 2\.1\.2 of .*: the import took more than 20 s' 'jax 0\.6\.2 of .*: the import fails: ImportError: no jaxlib'
! grep -zqs "600[.]$$" /proc/[0-9]*/cmdline || { echo "A PROCESS IS LEFT" && fails=1; }
S
}

@test "D3: PYTHONHOME of another Python" {
  reported <<'S'
live_environment
torch_at "$site" 2.13.0
mkdir -p "$T/apps/3.5/lib/python3.5"
: >"$T/apps/3.5/lib/python3.5/os.py"
said env PYTHONHOME="$T/apps/3.5" ringup doctor --python "$venv"
ended 1
wants 'bad +/.*/bin/python3[.0-9]* does not start: PYTHONHOME is of another Python' "why: PYTHONHOME=$T/apps/3\.5" 'fix: unset PYTHONHOME'
unsaid 'no engine installed' healthy
home=$("$venv/bin/python3" -c 'import sys; print(sys.base_prefix)')
said env PYTHONHOME="$home" ringup doctor --python "$venv"
wants "note +PYTHONHOME=$home"
unsaid 'bad .*does not start'
# A Python whose standard library is damaged says so itself.
mkdir "$T/lib"
so "$T/lib/evil.so" <<<'#include <stdlib.h>
#include <stdio.h>
#include <string.h>
extern char *program_invocation_short_name;
__attribute__((constructor)) static void f(void) {
  if (!strncmp(program_invocation_short_name, "python", 6)) { fputs("Fatal error: no encodings\n", stderr); _Exit(1); }
}'
said env LD_PRELOAD="$T/lib/evil.so" ringup doctor --python "$venv"
ended 1
wants 'does not start: Fatal error: no encodings'
S
}

@test "D4: root imports nothing that others may change" {
  reported <<'S'
python=/usr/bin/python3
[[ -x $python ]] || cannot "no Python in /usr/bin"
python=$(realpath "$python")
mount -t tmpfs none /srv
live_environment /srv/venv "$python"
torch_at "$site" 2.6.0
printf 'import os\nraise ImportError("as %%d" %% os.getuid())\n' >"$site/torch/__init__.py"
said ringup doctor --python "$venv"
wants 'import fails: ImportError: as 0'
chown 12345 "$site"
said ringup doctor --python "$venv"
wants "note +torch 2\.6\.0 of .*: not imported, since $site belongs to user 12345" 'as the user who trains'
unsaid 'import fails'
chown 0 "$site"
chmod o+w "$site/torch"
said ringup doctor --python "$venv"
wants "not imported, since other users may write to $site/torch"
chmod o-w "$site/torch"
mkdir -p /srv/home/.local
chown -R 12345 /srv/home
said env HOME=/srv/home ringup doctor --python "$venv"
wants 'not imported, since /srv/home/\.local belongs to user 12345'
said env PYTHONPATH=/nowhere:/srv/home ringup doctor --python "$venv"
wants 'not imported, since /srv/home belongs to user 12345'
chown -R 12345:12345 "$venv"
said ringup doctor --python "$venv"
wants 'import fails: ImportError: as 12345'
S
}

@test "D5: a cuDNN that is older than JAX needs" {
  reported here <<'S'
environment
package_at "$site" jax 0.6.2
package_at "$site" jax_cuda12_plugin 0.6.2 'Requires-Dist: jax-cuda12-pjrt==0.6.2' 'Provides-Extra: with-cuda' \
  'Requires-Dist: nvidia-cublas-cu12>=12.1.3.1; extra == "with-cuda"' \
  'Requires-Dist: nvidia-cudnn-cu12<10.0,>=9.8; extra == "with-cuda"' 'Requires-Dist: nvidia-nvshmem-cu12>=3.2.5; sys_platform == "win32" and extra == "with-cuda"'
mkdir -p "$site/jax"
: >"$site/jax/__init__.py"
package_at "$site" nvidia_cudnn_cu12 9.5.1.17
package_at "$site" nvidia_cublas_cu12 12.9.0.13
package_at "$site" nvidia_nvshmem_cu12 3.0.0
said ringup doctor --no-import --python "$venv"
ended 1
wants 'nvidia-cudnn-cu12 9\.5\.1\.17 of .* is older than jax-cuda12-plugin 0\.6\.2 needs \(<10\.0,>=9\.8\)' "fix: .* -m pip install 'nvidia-cudnn-cu12<10\.0,>=9\.8'"
unsaid cublas nvshmem
rm -r "$site"/nvidia_cudnn*
package_at "$site" nvidia_cudnn_cu12 10.1.0
said ringup doctor --no-import --python "$venv"
ended 0
wants 'note .*nvidia-cudnn-cu12 10\.1\.0 of .* is newer than jax-cuda12-plugin'
# torch names one version: newer ones serve, and an older cuDNN does not.
rm -r "$site"/jax* "$site"/nvidia_*
torch_at "$site" 2.7.0 12.6 'Requires-Dist: nvidia-cudnn-cu12==9.5.1.17; platform_system == "Linux"' 'Requires-Dist: nvidia-nccl-cu12==2.26.2; platform_system == "Linux"'
package_at "$site" nvidia_nccl_cu12 2.25.1
package_at "$site" nvidia_cudnn_cu12 9.8.0.87
said ringup doctor --no-import --python "$venv"
unsaid 'than torch 2\.7\.0 needs'
rm -r "$site"/nvidia_cudnn*
package_at "$site" nvidia_cudnn_cu12 9.1.0.70
said ringup doctor --no-import --python "$venv"
ended 1
wants 'nvidia-cudnn-cu12 9\.1\.0\.70 of .* is older than torch 2\.7\.0 needs'
unsaid 'nccl-cu12 2\.25\.1 of .* is older'
S
}

@test "D6: UCX_TLS of an InfiniBand cluster on a node without InfiniBand" {
  reported <<'S'
[[ ! -d /sys/class/infiniband ]] || cannot "this machine has RDMA devices"
[[ $(ringup net explain --lib ucx) != *"none is installed"* ]] || cannot "UCX is not installed"
said env UCX_TLS=knem,dc_x,rc ringup doctor
ended 1
wants 'bad +settings: 1 error' 'UCX_TLS=knem,dc_x,rc excludes tcp, and this node has no RDMA device' 'fix: unset UCX_TLS'
said env UCX_TLS=knem,dc_x,rc ringup net lint
ended 1
wants 'error: UCX_TLS=knem,dc_x,rc excludes tcp.*\[ucx-no-transport\]'
said env UCX_NET_DEVICES=mlx5_0:1 ringup net lint
wants 'warning: .*UCX_NET_DEVICES=mlx5_0:1, and this node has no RDMA device, so UCX connects only ranks of one host'
said env UCX_TLS=tcp,rc,sm,self ringup net lint
unsaid UCX
said env UCX_TLS=knem ringup net snapshot
wants '"rdma": false'
S
}

@test "D7: a BMC's network card, with the same link-local address on every server" {
  reported <<'S'
cat >"$T/in" <<'E'
mount -t sysfs sysfs /sys && ip link set lo up &&
  ip link add enx1 type veth peer name p1 && ip link add eno2 type veth peer name p2 || exit 77
for i in enx1 p1 eno2 p2; do ip link set "$i" up; done
ip addr add 169.254.3.1/24 dev enx1
ip addr add 10.20.30.11/24 dev eno2
ip route add default via 10.20.30.1
unset NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME
"$@"
E
said unshare -n bash "$T/in" ringup doctor
[[ $rc != 77 ]] || cannot "no network cards can be made here"
wants 'settings: 0 errors' 'NCCL takes enx1, which has only a link-local address' 'fix: NCCL_SOCKET_IFNAME==eno2'
said unshare -n bash "$T/in" ringup net lint
wants '\[nccl-foreign\]' 'Open MPI uses enx1, 169\.254\.3\.1'
said unshare -n bash "$T/in" env NCCL_SOCKET_IFNAME==eno2 OMPI_MCA_btl_tcp_if_include=eno2 ringup net lint
unsaid enx1
S
}

@test "D8: the host name has the address that the node had before" {
  reported <<'S'
layer /etc
printf '127.0.0.1\tlocalhost\n10.1.4.16\ttrainer-a\n10.1.4.17\ttrainer-b.lab.example trainer-b # moved\n' >/etc/hosts
said unshare -u sh -c 'hostname trainer-b; exec env -u GLOO_SOCKET_IFNAME ringup doctor'
wants 'the host name trainer-b resolves to 10\.1\.4\.17 \(line 3 of /etc/hosts\), which is no address of this host' 'fix: export GLOO_SOCKET_IFNAME='
S
}

@test "D9: Open MPI's mpirun without ssh" {
  reported <<'S'
mpirun=$(command -v mpirun.openmpi) || cannot "Open MPI is not installed"
mkdir "$T/bin"
ln -s "$(realpath "$mpirun")" "$T/bin/mpirun"
for tool in sh env setpriv ringup; do ln -s "$(command -v $tool)" "$T/bin/$tool"; done
unset SLURM_JOB_ID OMPI_MCA_plm_rsh_agent
said env PATH="$T/bin" ringup doctor
wants "note +Open MPI's $T/bin/mpirun starts no job: ssh and rsh are missing" 'openssh-client' 'OMPI_MCA_plm_rsh_agent=sh'
said env PATH="$T/bin" OMPI_MCA_plm_rsh_agent=sh ringup doctor
unsaid 'starts no job'
said env PATH="$T/bin" OMPI_MCA_plm_rsh_agent="/opt/none -q : qrsh" ringup doctor
wants 'OMPI_MCA_plm_rsh_agent=/opt/none -q : qrsh is not there' 'unset OMPI_MCA_plm_rsh_agent'
said env PATH="$T/bin" SLURM_JOB_ID=1 ringup doctor
unsaid 'starts no job'
printf '#!/bin/sh\n' >"$T/bin/rsh"
chmod +x "$T/bin/rsh"
said env PATH="$T/bin" ringup doctor
unsaid 'starts no job'
S
}

# https://github.com/pytorch/pytorch/issues/123097 (and Magic-Me#15, mist#12, MegaDetector#127)
# Cause: conda's unpinned mkl became 2024.1, which no longer has iJIT_NotifyEvent; conda's libtorch_cpu.so takes it from there.
@test "E1: conda's torch wants iJIT_NotifyEvent of an mkl before 2024.1" {
  reported <<'S'
# conda_at PREFIX MKL [SOURCE] - torch 2.2.2 of conda with this mkl, whose libmkl_core is SOURCE.
conda_at() {
  local p=$1 lib
  python_at "$p" "" 3.11
  site=$p/lib/python3.11/site-packages
  torch_at "$site" 2.2.2
  echo conda >"$site/torch-2.2.2.dist-info/INSTALLER"
  mkdir -p "$p/conda-meta"
  : >"$p/conda-meta/history"
  for lib in mkl_intel_lp64 mkl_gnu_thread; do so "$p/lib/lib$lib.so.2" <<<"int ${lib}_there(void) { return 1; }"; done
  so "$p/lib/libmkl_core.so.2" <<<"int mkl_core_there(void) { return 1; } ${3:-}"
  so "$site/torch/lib/libtorch_cpu.so" "$p/lib/libmkl_intel_lp64.so.2" "$p/lib/libmkl_gnu_thread.so.2" \
    "$p/lib/libmkl_core.so.2" '-Wl,-rpath,$ORIGIN:$ORIGIN/../../../..' \
    <<<'int iJIT_NotifyEvent(int, void *); int at_registered(void *p) { return iJIT_NotifyEvent(13, p); }'
  printf '{"name": "mkl", "version": "%s", "build": "ha957f24_691", "build_number": 691, "channel": "https://conda.anaconda.org/conda-forge/linux-64", "depends": ["intel-openmp 2024.*"], "files": ["lib/libmkl_core.so.2", "lib/libmkl_gnu_thread.so.2", "lib/libmkl_intel_lp64.so.2"]}\n' \
    "$2" >"$p/conda-meta/mkl-$2-ha957f24_691.json"
  printf '{"name": "pytorch", "version": "2.2.2", "build": "py3.11_cpu_0", "build_number": 0, "channel": "https://conda.anaconda.org/pytorch/linux-64", "depends": ["blas * mkl", "mkl >=2018", "python >=3.11,<3.12.0a0"], "files": ["lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"]}\n' \
    >"$p/conda-meta/pytorch-2.2.2-py3.11_cpu_0.json"
}
conda_at "$T/conda" 2024.1.0
said ringup doctor --python "$T/conda"
ended 1
wants 'libtorch_cpu\.so' 'iJIT_NotifyEvent' 'mkl.*2024\.1|2024\.1.*mkl' \
  'mkl *(=|==|<|<=) *2024|mkl.*(older|downgrad|2024\.0|before 2024\.1)|(older|downgrad[a-z]*|earlier) .*mkl|(newer|upgrade|reinstall|pip install).*(py)?torch'
conda_at "$T/conda0" 2024.0.0 'int iJIT_NotifyEvent(int e, void *p) { return p ? e : 0; }'
said ringup doctor --python "$T/conda0"
unsaid 'iJIT_NotifyEvent' 'undefined symbol.*libtorch_cpu|libtorch_cpu.*undefined symbol' 'mkl *(=|==|<|<=) *2024'
S
}

# https://github.com/rbgirshick/py-faster-rcnn/issues/162 (the same words: brannondorsey/PassGAN#26; /tmp: pytorch#91005)
# Cause: the environment lies on a file system mounted noexec, from which no shared library can be mapped.
@test "E2: an environment on a file system mounted noexec" {
  reported <<'S'
mkdir -p "$T/data"
mount -t tmpfs -o noexec none "$T/data" || cannot "no tmpfs here"
live_environment "$T/data/venv"
torch_at "$site" 2.5.1+cpu
cat >"$site/torch/__init__.py" <<'P'
import ctypes
import os

from .version import __version__

for name in ("libc10.so", "libtorch_cpu.so"):
    ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", name), ctypes.RTLD_GLOBAL)
P
said ringup doctor --python "$venv"
ended 1
wants "$T/data" 'noexec' 'remount|mount -o [a-z,]*\bexec|(without|drop|remove|take) .*noexec|move|elsewhere|another (place|file ?system|director|disk)'
mount -o remount,exec "$T/data" || cannot "no remounting here"
said ringup doctor --python "$venv"
unsaid 'noexec' 'failed to map segment'
S
}

# https://github.com/pytorch/pytorch/issues/49081 and https://github.com/NVIDIA/nvidia-docker/issues/1085
# Cause: /dev/nvidia0 and /dev/nvidiactl are there and nvidia-smi works, but no /dev/nvidia-uvm, without which cuInit fails (999).
@test "E3: a GPU without /dev/nvidia-uvm" {
  reported <<'S'
[[ ! -e /proc/driver/nvidia && ! -e /dev/nvidiactl ]] || cannot "this machine has a GPU"
[[ -d /usr/lib/x86_64-linux-gnu ]] || cannot "no /usr/lib/x86_64-linux-gnu"
l=/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15
layer /usr/lib/x86_64-linux-gnu
rm -f /usr/lib/x86_64-linux-gnu/libcuda.so*
layer /dev
mkdir -p /dev/shm
mount -t tmpfs none /dev/shm
mount -t tmpfs none /proc/driver || cannot "nothing can be mounted on /proc/driver"
gpus_at "" 550.54.15 "NVIDIA A10"
driver_at "$l" 999
mknod -m 666 /dev/nvidiactl c 195 255 && mknod -m 666 /dev/nvidia0 c 195 0 || cannot "no device nodes here"
sed 's/^Character devices:/&\n195 nvidia\n195 nvidiactl/' /proc/devices >"$T/devices"
mount --bind "$T/devices" /proc/devices
if [[ -e /proc/modules ]]; then
  { echo 'nvidia 56717312 0 - Live 0x0000000000000000 (POE)' && cat /proc/modules; } >"$T/modules"
  mount --bind "$T/modules" /proc/modules
fi
said env -u CUDA_VISIBLE_DEVICES ringup doctor
ended 1
wants '/dev/nvidia-uvm' 'nvidia-modprobe|modprobe nvidia[-_]uvm|mknod|--device|--gpus|--nv|nvidia-container|nvidia-ctk'
mknod -m 666 /dev/nvidia-uvm c 511 0
mknod -m 666 /dev/nvidia-uvm-tools c 511 1
umount /proc/devices
sed -i 's/^195 nvidiactl/&\n511 nvidia-uvm/' "$T/devices"
mount --bind "$T/devices" /proc/devices
if [[ -e $T/modules ]]; then
  umount /proc/modules
  sed -i '1i nvidia_uvm 4698112 0 - Live 0x0000000000000000 (POE)' "$T/modules"
  mount --bind "$T/modules" /proc/modules
fi
driver_at "$l" 0
said env -u CUDA_VISIBLE_DEVICES ringup doctor
unsaid 'nvidia-modprobe|modprobe nvidia[-_]uvm' '/dev/nvidia-uvm.*(missing|not there|not here|does not exist|absent|gone)' \
  '(no|missing|without|lacks|misses) /dev/nvidia-uvm'
S
}

# https://github.com/NVIDIA/gpu-operator/issues/544 and https://github.com/NVIDIA/nvtrust/issues/55 (error 802: pytorch#35710)
# Cause: the GPUs hang on NVSwitches, and the fabric manager installed is not of the driver's exact version, so it does not start.
@test "E4: a fabric manager of another version than the driver" {
  reported <<'S'
# node_at ROOT FABRICMANAGER [DRIVER] - eight H100 on NVSwitches.
node_at() {
  local t=$1 v=${3:-550.107.02} i at
  gpus_at "$t" "$v" "NVIDIA H100 80GB HBM3"
  ln -s usr/lib "$t/lib"
  for i in 1 2 3 4 5 6 7; do
    at=$t/proc/driver/nvidia/gpus/0000:${i}b:00.0
    mkdir -p "$at"
    printf 'Model: \t\t NVIDIA H100 80GB HBM3\nDevice Minor: \t %s\n' "$i" >"$at/information"
  done
  mkdir -p "$t/dev"
  for i in 0 1 2 3 4 5 6 7 ctl -uvm; do : >"$t/dev/nvidia$i"; done
  for i in 0 1 2 3; do
    at=$t/sys/bus/pci/devices/0000:c$i:00.0
    mkdir -p "$at" "$t/proc/driver/nvidia-nvswitch/devices/0000:c$i:00.0"
    echo 0x10de >"$at/vendor"
    echo 0x22a3 >"$at/device"
    echo 0x068000 >"$at/class"
    : >"$t/dev/nvidia-nvswitch$i"
    printf 'Device Minor: \t %s\n' "$i" >"$t/proc/driver/nvidia-nvswitch/devices/0000:c$i:00.0/information"
  done
  mkdir -p "$t/etc/systemd/system/multi-user.target.wants" "$t/usr/lib/systemd/system" "$t/usr/bin" "$t/var/lib/dpkg/info" "$t/var/log"
  printf 'ID=ubuntu\nVERSION_ID="22.04"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\n' >"$t/etc/os-release"
  printf '[Unit]\nDescription=NVIDIA fabric manager service\n[Service]\nExecStart=/usr/bin/nv-fabricmanager -c /usr/share/nvidia/nvswitch/fabricmanager.cfg\n' \
    >"$t/usr/lib/systemd/system/nvidia-fabricmanager.service"
  ln -s /usr/lib/systemd/system/nvidia-fabricmanager.service "$t/etc/systemd/system/multi-user.target.wants/"
  printf '#!/bin/sh\n' >"$t/usr/bin/nv-fabricmanager"
  chmod 755 "$t/usr/bin/nv-fabricmanager"
  printf 'Package: %s\nStatus: install ok installed\nArchitecture: amd64\nVersion: %s\nMaintainer: none\nDescription: of NVIDIA\n\n' \
    "libnvidia-compute-${v%%.*}" "$v-0ubuntu0.22.04.1" "nvidia-fabricmanager-${v%%.*}" "$2-1" >"$t/var/lib/dpkg/status"
  echo /usr/bin/nv-fabricmanager >"$t/var/lib/dpkg/info/nvidia-fabricmanager-${v%%.*}.list"
  echo /usr/lib/x86_64-linux-gnu/libcuda.so.$v >"$t/var/lib/dpkg/info/libnvidia-compute-${v%%.*}.list"
}
node_at "$T/tree" 550.90.07
echo "[Sep 30 2024 10:02:11] [ERROR] [tid 3228] fabric manager NVIDIA GPU driver interface version 550.90.07 don't match with driver version 550.107.02. Please update with matching NVIDIA driver package." \
  >"$T/tree/var/log/fabricmanager.log"
said ringup doctor --root "$T/tree"
ended 1
wants 'fabric[- ]?manager' '550\.90\.07' '550\.107\.02' \
  '(install|upgrade|update|same version|apt|dnf).*fabric|fabric.*(install|upgrade|update|same version|apt|=550\.107)'
node_at "$T/f3" 535.54.03 535.129.03
said ringup doctor --root "$T/f3"
ended 1
wants '535\.54\.03, but the driver is 535\.129\.03' "install 'nvidia-fabricmanager-535=535\.129\.03"
node_at "$T/same" 550.107.02
said ringup doctor --root "$T/same"
unsaid '550\.90\.07' "fabric.*(mismatch|don't match|doesn't match|does not match|not of the|not the same|differ|another version)"
S
}

# https://github.com/QuipNetwork/quip-miner/issues/24 and https://github.com/NVIDIA/nvidia-docker/issues/1294, 1515
# Cause: LD_LIBRARY_PATH brings the forward-compatibility libcuda of /usr/local/cuda/compat, which a GeForce does not support (804).
@test "E5: the compat libcuda before the driver's, on a GeForce" {
  reported <<'S'
[[ ! -e /proc/driver/nvidia && ! -e /dev/nvidiactl ]] || cannot "this machine has a GPU"
[[ -d /usr/lib/x86_64-linux-gnu ]] || cannot "no /usr/lib/x86_64-linux-gnu"
layer /usr/lib/x86_64-linux-gnu
rm -f /usr/lib/x86_64-linux-gnu/libcuda.so*
layer /usr/local
layer /dev
mkdir -p /dev/shm
mount -t tmpfs none /dev/shm
mount -t tmpfs none /proc/driver || cannot "nothing can be mounted on /proc/driver"
gpus_at "" 570.211.01 "NVIDIA GeForce RTX 3060"
mknod -m 666 /dev/nvidiactl c 195 255 && mknod -m 666 /dev/nvidia0 c 195 0 && mknod -m 666 /dev/nvidia-uvm c 511 0 ||
  cannot "no device nodes here"
c=/usr/local/cuda/compat
rm -rf /usr/local/cuda
driver_at "$c/libcuda.so.575.57.08" 804
ln -s libcuda.so.575.57.08 "$c/libcuda.so.1"
ln -s libcuda.so.1 "$c/libcuda.so"
path=$c${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
said env LD_LIBRARY_PATH="$path" ringup doctor
ended 1
wants "$c" 'GeForce|RTX 3060|data ?cent|forward[- ]compat' \
  '(remove|unset|without|drop|take|leave|clear).*(LD_LIBRARY_PATH|compat)|(LD_LIBRARY_PATH|compat).*(remove|unset|without|drop|take|leave|clear)|(upgrade|newer|update).*driver'
# There, but nobody loads it.
said ringup doctor
unsaid "$c.*(instead|before|first|remove|unset)" 'error 804|\(804\)' 'forward[- ]compat.*(not|only)'
# On a GPU of a data center, forward compatibility is what it is for.
printf 'Model: \t\t NVIDIA A100-PCIE-40GB\nDevice Minor: \t 0\n' >/proc/driver/nvidia/gpus/0000:1a:00.0/information
driver_at "$c/libcuda.so.575.57.08" 0
said env LD_LIBRARY_PATH="$path" ringup doctor
unsaid 'error 804|\(804\)' "$c.*(remove|unset)" '(remove|unset).*compat' 'GeForce'
S
}

# https://github.com/data-prep-kit/data-prep-kit/issues/1324, dmlc/xgboost#11498, apache/streampark#4374
# Cause: Spark 4 is compiled for Java 17 (class file version 61.0); JAVA_HOME is a Java 8, so the launcher does not start.
@test "E6: Spark 4 with a JAVA_HOME of Java 8" {
  reported <<'S'
# java_at DIR VERSION
java_at() {
  mkdir -p "$1/bin" "$1/lib"
  printf 'IMPLEMENTOR="Eclipse Adoptium"\nJAVA_VERSION="%s"\nOS_ARCH="x86_64"\nOS_NAME="Linux"\n' "$2" >"$1/release"
  printf '#!/bin/sh\necho '\''openjdk version "%s"'\'' >&2\necho "OpenJDK Runtime Environment (Temurin)" >&2\n' "$2" >"$1/bin/java"
  chmod 755 "$1/bin/java"
}
# spark_at NAME PYSPARK PY4J SCALA - $venv: an environment with this Spark.
spark_at() {
  venv=$T/$1 site=$T/$1/lib/python3.11/site-packages
  python_at "$T" "/$1" 3.11
  package_at "$site" pyspark "$2" "Requires-Dist: py4j==$3"
  package_at "$site" py4j "$3"
  mkdir -p "$site/pyspark/jars" "$site/pyspark/bin" "$site/py4j"
  : >"$site/pyspark/__init__.py"
  : >"$site/py4j/__init__.py"
  printf '__version__: str = "%s"\n' "$2" >"$site/pyspark/version.py"
  : >"$site/pyspark/jars/spark-core_$4-$2.jar"
  : >"$site/pyspark/jars/spark-launcher_$4-$2.jar"
  printf '#!/bin/sh\n' >"$site/pyspark/bin/spark-submit"
  chmod 755 "$site/pyspark/bin/spark-submit"
}
java_at "$T/jdk8" 1.8.0_412
java_at "$T/jdk17" 17.0.11
spark_at venv 4.0.0 0.10.9.9 2.13
said env -u SPARK_HOME JAVA_HOME="$T/jdk8" PATH="$T/jdk8/bin:$PATH" ringup doctor --python "$venv"
ended 1
wants "$T/jdk8" '1\.8|Java 8|JDK 8' 'spark.* 4|spark[-=_]*4' '(Java|JDK|JRE|openjdk)[^0-9]*17|17[^0-9]*(Java|JDK)'
said env -u SPARK_HOME JAVA_HOME="$T/jdk17" PATH="$T/jdk17/bin:$PATH" ringup doctor --python "$venv"
unsaid '(Java|JDK|JAVA_HOME).*(too old|older than)' 'class file version|UnsupportedClassVersion' 'set JAVA_HOME|install .*(JDK|Java|jre)'
# Spark 3.5 runs on Java 8.
spark_at venv35 3.5.5 0.10.9.7 2.12
said env -u SPARK_HOME JAVA_HOME="$T/jdk8" PATH="$T/jdk8/bin:$PATH" ringup doctor --python "$venv"
unsaid '(Java|JDK|JAVA_HOME).*(too old|older than)' 'class file version|UnsupportedClassVersion' '(Java|JDK)[^0-9]*17'
S
}

# https://github.com/ma-gilles/recovar/issues/64
# Cause: jax-cuda12-plugin was upgraded apart from jaxlib; JAX takes only a plugin of jaxlib's own version, and goes on without GPU.
@test "E7: a CUDA plugin of JAX of another version than jaxlib" {
  reported <<'S'
# jax_at ROOT PLUGIN [JAX] - a node with a GPU, and jax with this plugin in /opt/venv.
jax_at() {
  local s=$1/opt/venv/lib/python3.11/site-packages p v=${3:-0.9.0.1}
  gpus_at "$1" 580.95.05 "NVIDIA L4"
  python_at "$1" /opt/venv 3.11
  mkdir -p "$1/etc"
  ln -s usr/lib "$1/lib"
  printf 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n' >"$1/etc/os-release"
  package_at "$s" jax "$v" "Requires-Dist: jaxlib<=$v,>=$v" 'Provides-Extra: cuda12' \
    "Requires-Dist: jax-cuda12-plugin[with-cuda]<0.10,>=$v; extra == \"cuda12\""
  package_at "$s" jaxlib "$v"
  package_at "$s" jax_cuda12_plugin "$2" "Requires-Dist: jax-cuda12-pjrt==$2"
  package_at "$s" jax_cuda12_pjrt "$2"
  for p in plugin pjrt; do sed -i "s/^Name: .*/Name: jax-cuda12-$p/" "$s/jax_cuda12_$p-$2.dist-info/METADATA"; done
  mkdir -p "$s/jax" "$s/jaxlib" "$s/jax_cuda12_plugin" "$s/jax_plugins/xla_cuda12"
  : >"$s/jax/__init__.py"
  : >"$s/jaxlib/__init__.py"
  : >"$s/jax_cuda12_plugin/__init__.py"
  : >"$s/jax_plugins/xla_cuda12/__init__.py"
  so "$s/jax_plugins/xla_cuda12/xla_cuda_plugin.so" <<<'void *GetPjrtApi(void) { return 0; }'
  echo "__version__ = \"$v\"" | tee "$s/jax/version.py" >"$s/jaxlib/version.py"
  printf '__version__ = "%s"\n' "$2" >"$s/jax_cuda12_plugin/version.py"
}
jax_at "$T/tree" 0.9.2
said ringup doctor --root "$T/tree"
ended 1
wants 'jax[-_]cuda12[-_](plugin|pjrt).*0\.9\.2|0\.9\.2.*jax[-_]cuda12[-_](plugin|pjrt)' 'jaxlib.*0\.9\.0\.1|0\.9\.0\.1.*jaxlib' \
  'jax\[cuda12|jax[-_]cuda12[-_](plugin|pjrt)(\[[a-z-]*\])?==|same version|install .*jax'
jax_at "$T/f2" 0.4.35 0.4.31
said ringup doctor --root "$T/f2"
ended 1
wants 'jax[-_]cuda12[-_](plugin|pjrt).*0\.4\.35' 'jaxlib.*0\.4\.31' 'same version'
jax_at "$T/same" 0.9.0.1
said ringup doctor --root "$T/same"
unsaid '0\.9\.2' 'plugin.*(not compatible|incompatible|mismatch|not be used|does not match|another version)'
S
}

# https://github.com/cloveranon/Clover-Edition/issues/128 and https://github.com/conda/conda/issues/13746, 7173
# Cause: an old "pip install --user torch" in ~/.local comes before the packages of a conda environment of the same Python series.
@test "E8: torch of ~/.local before that of the conda environment" {
  reported <<'S'
venv=$T/conda/envs/train site=$T/conda/envs/train/lib/python3.11/site-packages
user=$T/home/.local/lib/python3.11/site-packages
python_at "$T/conda" /envs/train 3.11
mkdir -p "$venv/conda-meta" "$T/clean/.local/lib/python3.11/site-packages"
: >"$venv/conda-meta/history"
echo '{"name": "python", "version": "3.11.4", "build": "h955ad1f_0", "channel": "https://repo.anaconda.com/pkgs/main/linux-64", "depends": [], "files": ["bin/python3.11"]}' \
  >"$venv/conda-meta/python-3.11.4-h955ad1f_0.json"
torch_at "$site" 2.5.1+cpu
package_at "$site" torchvision 0.20.1+cpu 'Requires-Dist: torch==2.5.1'
mkdir -p "$site/torchvision"
: >"$site/torchvision/__init__.py"
torch_at "$user" 2.1.0+cpu
clean=(env -u PYTHONNOUSERSITE -u PYTHONUSERBASE -u PYTHONPATH)
said "${clean[@]}" HOME="$T/home" ringup doctor --python "$venv"
ended 1
wants '\.local' '2\.1\.0' '2\.5\.1' 'PYTHONNOUSERSITE|python[0-9.]* -s|pip uninstall|(remove|delete|rm -r|move away).*(\.local|torch)'
# Python is told to leave ~/.local alone.
said "${clean[@]}" HOME="$T/home" PYTHONNOUSERSITE=1 ringup doctor --python "$venv"
unsaid '2\.1\.0' '\.local.*(before|first|shadow|hides|instead|wins|overrid)' 'export PYTHONNOUSERSITE|set PYTHONNOUSERSITE|pip uninstall'
# ~/.local has only what does no harm.
package_at "$T/clean/.local/lib/python3.11/site-packages" cowsay 6.1
said "${clean[@]}" HOME="$T/clean" ringup doctor --python "$venv"
unsaid '2\.1\.0' '\.local.*(shadow|hides|instead|wins|overrid)' 'pip uninstall'
S
}

# https://github.com/grpc/grpc/issues/11896, tensorflow#24887, intel/BigDL#2977, ray-project/ray#14350
# Cause: https_proxy/http_proxy are set and no_proxy does not name the workers, so that gRPC asks the proxy for them.
@test "E9: a proxy in the environment, between the workers" {
  reported <<'S'
live_environment
package_at "$site" tensorflow 2.15.1 'Requires-Dist: grpcio<2.0,>=1.24.3'
package_at "$site" grpcio 1.62.1
mkdir -p "$site/tensorflow/python" "$site/grpc"
echo '__version__ = "2.15.1"' >"$site/tensorflow/__init__.py"
echo '__version__ = "1.62.1"' >"$site/grpc/__init__.py"
config='{"cluster": {"worker": ["10.1.2.3:2222", "10.1.2.4:2222"]}, "task": {"type": "worker", "index": 0}}'
clean=(env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY -u all_proxy -u ALL_PROXY -u grpc_proxy -u no_proxy -u NO_PROXY -u no_grpc_proxy
  TF_CONFIG="$config")
said "${clean[@]}" ringup doctor --python "$venv"
calm=$rc
unsaid 'https?_proxy'
said "${clean[@]}" http_proxy=http://proxy.corp:3128 https_proxy=http://proxy.corp:3128 ringup doctor --python "$venv"
# A note: it may be that no worker is elsewhere.
ended "$calm"
wants 'https?_proxy' 'proxy\.corp' 'no_proxy|no_grpc_proxy|unset'
said "${clean[@]}" http_proxy=http://proxy.corp:3128 https_proxy=http://proxy.corp:3128 \
  no_proxy=localhost,127.0.0.1,10.1.2.3,10.1.2.4 ringup doctor --python "$venv"
ended "$calm"
unsaid 'unset https?_proxy' '(add|set|export|put) .*no_proxy' 'no_proxy.*(lacks|misses|does not|not name|is not set)'
S
}

# https://github.com/mpi4py/mpi4py/issues/280, mpi4py#155, ContinuumIO/anaconda-issues#1310, jtriley/StarCluster#533
# Cause: mpirun is Open MPI's, the packages are linked with MPICH's libmpi.so.12: each process is rank 0 of 1.
@test "E10: an mpirun of Open MPI for packages built with MPICH" {
  reported <<'S'
mpi='int MPI_Init(int *a, char ***b) { return a != 0 && b != 0; } int MPI_Comm_rank(int c, int *r) { return *r = c; }'
so "$T/mpich/lib/libmpi.so.12" <<<"const char MPIR_Version_string[] __attribute__((used)) = \"MPICH Version: 4.1.2\"; int MPIR_Err_create_code(void) { return 0; } $mpi"
so "$T/ompi/lib/libopen-rte.so.40" <<<'int orte_init(void) { return 0; }'
so "$T/ompi/lib/libmpi.so.40" "$T/ompi/lib/libopen-rte.so.40" "-Wl,-rpath,$T/ompi/lib" \
  <<<"const char ident[] __attribute__((used)) = \"Open MPI v4.1.4, package: Open MPI, ident: 4.1.4\"; int ompi_mpi_init(void) { return 0; } $mpi"
mkdir -p "$T/ompi/bin"
gcc -x c -o "$T/ompi/bin/orterun" - -x none -Wl,--no-as-needed "$T/ompi/lib/libopen-rte.so.40" "-Wl,-rpath,$T/ompi/lib" <<'C'
#include <stdio.h>
int orte_init(void);
int main(void) { puts("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/"); return orte_init(); }
C
ln -s orterun "$T/ompi/bin/mpirun"
ln -s orterun "$T/ompi/bin/mpiexec"
# linked_with LIBRARY - Horovod and mpi4py of $site, with it.
linked_with() {
  local init='int MPI_Init(int *, char ***); int MPI_Comm_rank(int, int *);'
  horovod_at "$1" "-Wl,-rpath,${1%/*}" <<<"$init int horovod_init(void) { return MPI_Init(0, 0); }"
  package_at "$site" mpi4py 3.1.4
  mkdir -p "$site/mpi4py"
  : >"$site/mpi4py/__init__.py"
  so "$site/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so" "$1" "-Wl,-rpath,${1%/*}" <<<"$init int PyInit_MPI(void) { int r; return MPI_Comm_rank(0, &r); }"
}
environment
torch_at "$site" 2.5.1+cpu
linked_with "$T/mpich/lib/libmpi.so.12"
run=(env -u MPI_HOME -u OPAL_PREFIX PATH="$T/ompi/bin:$PATH")
said "${run[@]}" ringup doctor --python "$venv"
ended 1
wants '(libmpi\.so\.12|MPICH).*(Open ?MPI|mpirun|mpiexec)|(Open ?MPI|mpirun|mpiexec).*(libmpi\.so\.12|MPICH)' "$T/ompi/bin|mpirun" \
  'rebuild|reinstall|same MPI|(mpirun|mpiexec)(\.hydra)? of|MPICH.*(mpirun|mpiexec)|hydra|mpich/bin'
linked_with "$T/ompi/lib/libmpi.so.40"
said "${run[@]}" ringup doctor --python "$venv"
unsaid 'libmpi\.so\.12' '(built|linked).*MPICH' 'rank 0' '(mpirun|mpiexec).*(another MPI|mismatch|not of the)'
S
}

@test "E11: kinds of E1: what a framework needs is defined somewhere, or the import says which package lacks it" {
  reported here <<'S'
live_environment
torch_at "$site" 2.5.1
c=$site/torch/lib/libtorch_cpu.so
asked() { said ringup doctor --no-import --python "$venv"; }
while read -r symbol fix; do
  so "$c" <<<"int $symbol(void); int at_call(void) { return $symbol(); }"
  asked
  ended 1
  wants "libtorch_cpu\.so needs $symbol, which no library that it loads defines" "fix: .*$fix"
done <<'T'
iJIT_IsProfilingActive mkl<2024.1
ncclCommRegister nvidia-nccl
cudnnBackendCreateDescriptor nvidia-cudnn
__kmpc_fork_call llvm-openmp
omp_get_max_threads libgomp
unheard_of pip install --force-reinstall torch==2.5.1
T
# It is defined in a library that is loaded, is weak, or of Python; or a library is not found, or loaded by name only.
so "$site/torch/lib/libmore.so" <<<'int unheard_of(void) { return 0; }'
so "$c" "$site/torch/lib/libmore.so" '-Wl,-rpath,$ORIGIN' \
  <<<'int unheard_of(void), PyLong_AsLong(void), maybe(void) __attribute__((weak)); int at_call(void) { return unheard_of() + PyLong_AsLong() + (maybe ? maybe() : 0); }'
asked
ended 0
so "$site/torch/lib/libtorch_cuda_linalg.so" <<<'int magma_init(void); int f(void) { return magma_init(); }'
asked
ended 0
rm "$site"/torch/lib/libtorch_cuda_linalg.so "$site"/torch/lib/libmore.so
asked
unsaid 'unheard_of'
# In a tree without a C library, NCCL's symbols are still none of C's.
python_at "$T/tree" /opt/venv 3.11
c2=$T/tree/opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so
torch_at "$T/tree/opt/venv/lib/python3.11/site-packages" 2.5.1
so "$c2" <<<'int unheard_of(void), ncclCommRegister(void); int at_call(void) { return unheard_of() + ncclCommRegister(); }'
said ringup doctor --root "$T/tree"
ended 1
wants 'libtorch_cpu\.so needs ncclCommRegister'
so "$c2" <<<'int unheard_of(void); int at_call(void) { return unheard_of(); }'
said ringup doctor --root "$T/tree"
ended 0
# What only the import shows.
so "$c" <<<'int at_call(void) { return 0; }'
while IFS='|' read -r text why fix; do
  printf 'raise ImportError(%s)\n' "$text" >"$site/torch/__init__.py"
  said ringup doctor --python "$venv"
  ended 1
  wants "why: .*$why" "fix: .*$fix"
done <<'T'
"/x/libtorch_cuda.so: undefined symbol: ncclCommSplit"|NCCL.*older|nvidia-nccl
"/x/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12"|libnvJitLink.*older|LD_LIBRARY_PATH
"/x/libtorch_python.so: undefined symbol: _ZN5torch8autograd4NodeD1Ev"|several versions|pip install --force-reinstall torch==2\.5\.1
"/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by /x/libc10.so)"|libstdc\+\+.*older|libstdcxx-ng
"/x/libgomp.so.1: cannot allocate memory in static TLS block"|thread-local|LD_PRELOAD
"numpy.core.multiarray failed to import"|another NumPy|python3 -m pip install 'numpy<2'
T
S
}

@test "E12: kinds of E5: libcuda for forward compatibility where it cannot serve" {
  reported here <<'S'
n=0
# tree_at MODEL COMPAT - $t: driver 570.124.06, and a compat folder that ld.so.conf has first.
tree_at() {
  t=$T/tree$((n++)) c=$t/usr/local/cuda-12/compat
  gpus_at "$t" 570.124.06 "$1"
  ln -s usr/lib "$t/lib"
  driver_at "$c/libcuda.so.$2"
  ln -s "libcuda.so.$2" "$c/libcuda.so.1"
  mkdir -p "$t/etc/ld.so.conf.d"
  echo /usr/local/cuda-12/compat >"$t/etc/ld.so.conf.d/000_compat.conf"
}
tree_at "NVIDIA H100 80GB HBM3" 550.54.15
said ringup doctor --root "$t"
ended 1
wants '/usr/local/cuda-12/compat.*550\.54\.15.*570\.124\.06' 'error 803' 'fix: remove /usr/local/cuda-12/compat from /etc/ld\.so\.conf'
for model in "NVIDIA TITAN RTX" "NVIDIA GeForce RTX 3090"; do
  tree_at "$model" 580.65.06
  said ringup doctor --root "$t"
  ended 1
  wants "$model: CUDA fails with error 804" 'needs driver 580\.65\.06'
done
while read -r compat model; do
  tree_at "$model" "$compat"
  said ringup doctor --root "$t"
  unsaid compat 'error 80'
done <<'T'
580.65.06 NVIDIA H100 80GB HBM3
580.65.06 NVIDIA A100-SXM4-80GB
570.124.06 NVIDIA GeForce RTX 4090
580.65.06 NVIDIA RTX A6000
T
S
}

@test "E13: kinds of E6: Spark and Java, by versions, JAVA_HOME, PATH and SPARK_HOME" {
  reported <<'S'
mount -t tmpfs none /usr/lib/jvm 2>/dev/null
environment
mkdir -p "$T/bin"
for p in bash sh env uname; do ln -s "$(command -v "$p")" "$T/bin/"; done
r=$(command -v ringup)
# java_at DIR VERSION - with a file "release", or without.
java_at() {
  mkdir -p "$1/bin"
  printf 'JAVA_VERSION="%s"\n' "$2" >"$1/release"
  printf '#!/bin/sh\necho '\''openjdk version "%s" 2024-04-16'\'' >&2\n' "$2" >"$1/bin/java"
  chmod 755 "$1/bin/java"
}
# spark_is VERSION
spark_is() {
  rm -rf "$site"/pyspark*
  package_at "$site" pyspark "$1"
  mkdir -p "$site/pyspark"
}
asked() { said env -u SPARK_HOME -u JAVA_HOME -u SPARK_REMOTE PATH="$T/bin" "$@" "$r" doctor --no-import --python "$venv"; }
while read -r spark java expected; do
  spark_is "$spark"
  rm -rf "$T/jdk"
  java_at "$T/jdk" "$java"
  asked JAVA_HOME="$T/jdk"
  if [[ $expected == fits ]]; then
    unsaid 'needs Java' 'finds no Java'
  else
    ended 1
    wants "Spark $spark of .* needs Java ${expected//_/ }, and $T/jdk/bin/java is Java"
  fi
done <<'T'
4.0.0 11.0.27 17_to_22
4.0.1 17.0.11 fits
4.0.1 21.0.3 fits
4.0.1 25 17_to_22
4.1.0 25 fits
4.1.0 1.8.0_412 17_or_later
3.5.1 1.8.0_412 fits
3.5.1 21.0.3 fits
3.5.1 24.0.1 8_to_22
3.3.0 17.0.11 fits
3.2.4 17.0.11 8_to_15
3.2.4 11.0.23 fits
2.4.8 11.0.23 8
2.4.8 1.8.0_412 fits
T
spark_is 3.5.1
asked
ended 1
wants 'Spark 3\.5\.1 of .* finds no Java: JAVA_HOME is not set, and PATH has no java' 'install Java 17'
asked SPARK_REMOTE=sc://host
unsaid 'finds no Java'
asked JAVA_HOME="$T/gone"
ended 1
wants "finds no Java: JAVA_HOME=$T/gone has no bin/java"
# The one in PATH would do; a Java without "release" is asked, for a limited time.
java_at "$T/jdk17" 17.0.11
rm "$T/jdk17/release"
ln -s "$T/jdk17/bin/java" "$T/bin/java"
asked JAVA_HOME="$T/gone"
wants "fix: unset JAVA_HOME: $T/bin/java in PATH is Java 17"
asked
unsaid 'needs Java' 'finds no Java'
spark_is 2.4.8
asked
wants "needs Java 8, and $T/bin/java is Java 17 \(17\.0\.11\)"
printf '#!/bin/sh\nexec sleep 60\n' >"$T/jdk17/bin/java"
asked
unsaid 'needs Java'
# SPARK_HOME has the Spark that runs.
spark_is 4.0.1
java_at "$T/jdk17" 17.0.11
mkdir -p "$T/spark/jars" "$T/spark/bin"
: >"$T/spark/jars/spark-core_2.12-3.5.1.jar"
: >"$T/spark/bin/spark-submit"
asked SPARK_HOME="$T/spark"
ended 1
wants "pyspark 4\.0\.1 of .* does not fit Spark 3\.5\.1 of SPARK_HOME=$T/spark" 'fix: unset SPARK_HOME'
spark_is 3.5.4
asked SPARK_HOME="$T/spark"
unsaid 'does not fit' 'needs Java'
# No pyspark, no Java.
rm -rf "$site"/pyspark*
asked JAVA_HOME="$T/gone"
unsaid 'Java'
S
}

@test "E14: kinds of E8: packages of other folders come before those that fit" {
  reported here <<'S'
environment
# companion_at SITE NAME VERSION REQUIREMENT
companion_at() { package_at "$1" "$2" "$3" "Requires-Dist: $4"; }
torch_at "$site" 2.5.1+cu124
companion_at "$site" torchvision 0.20.1 'torch==2.5.1'
companion_at "$site" torchaudio 2.5.1 'torch (==2.5.1)'
companion_at "$site" xformers 0.0.28.post3 'torch==2.5.1; platform_machine == "x86_64" or platform_machine == "aarch64"'
companion_at "$site" torchmetrics 1.4.0 'torch>=1.10.0'
companion_at "$site" vllm 0.6.4 'torch==2.9.*; python_version < "3.9"'
asked() { said env -u PYTHONPATH -u PYTHONUSERBASE -u PYTHONNOUSERSITE HOME="$T/home" "$@" ringup doctor --no-import --python "$venv"; }
asked
ended 0
unsaid 'was built for torch'
torch_at "$T/more" 2.3.0+cpu
asked PYTHONPATH="$T/more"
ended 1
wants 'torchvision 0\.20\.1 of .* was built for torch 2\.5\.1, and this is 2\.3\.0\+cpu' 'xformers .* was built for' 'torchaudio .* was built for' \
  "why: $T/more comes before $site, which has torch 2\.5\.1\+cu124" 'fix: unset PYTHONPATH'
unsaid 'torchmetrics' 'vllm'
# The companion itself is the other one's; a user's NumPy comes before the environment's.
companion_at "$T/home/.local/lib/python3.11/site-packages" torchvision 0.18.0 'torch==2.3.0'
mkdir -p "$venv/conda-meta"
asked
ended 1
wants 'torchvision 0\.18\.0 of .* was built for torch 2\.3\.0, and this is 2\.5\.1' 'fix: export PYTHONNOUSERSITE=1'
unsaid 'torchvision 0\.20\.1'
asked PYTHONNOUSERSITE=1
ended 0
rm -r "$T/home" "$site"/{torch,xformers,vllm}*
torch_at "$site" 2.1.0
package_at "$site" numpy 1.26.4
package_at "$T/home/.local/lib/python3.11/site-packages" numpy 2.0.1
asked
ended 1
wants 'numpy 2\.0\.1 of .* does not fit torch 2\.1\.0' 'fix: export PYTHONNOUSERSITE=1'
asked PYTHONNOUSERSITE=1
ended 0
# tensorflow-text is for one minor version.
rm -r "$T/home" "$site"/{torch,numpy}*
package_at "$site" tensorflow 2.16.1
mkdir -p "$site/tensorflow"
: >"$site/tensorflow/__init__.py"
companion_at "$site" tensorflow_text 2.15.0 'tensorflow<2.16,>=2.15.0'
asked
ended 1
wants 'tensorflow-text 2\.15\.0 of .* was built for tensorflow <2\.16,>=2\.15\.0, and this is 2\.16\.1'
S
}

@test "E15: kinds of E9: which hosts no_proxy covers, for whom" {
  reported here <<'S'
environment
package_at "$site" tensorflow 2.16.1
mkdir -p "$site/tensorflow"
: >"$site/tensorflow/__init__.py"
asked() {
  said env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY -u grpc_proxy -u no_proxy -u NO_PROXY -u no_grpc_proxy -u TF_CONFIG \
    -u JAX_COORDINATOR_ADDRESS -u RAY_ADDRESS "$@" ringup doctor --no-import --python "$venv"
}
p=http_proxy=http://user:secret@proxy.corp:3128/ j=JAX_COORDINATOR_ADDRESS
while read -r host list expected; do
  asked "$p" "$j=$host:1234" no_proxy="$list"
  unsaid secret user:
  if [[ $expected == bare ]]; then
    wants "note +http_proxy=http://proxy\.corp:3128, and no_proxy does not cover $host" "fix: export no_proxy=\"\\\$no_proxy\",$host"
  else
    unsaid http_proxy
  fi
done <<'T'
node-3.corp localhost,127.0.0.1 bare
node-3.corp node-2.corp,3.corp.example bare
node-3.corp localhost,.corp covered
node-3.corp *.corp covered
node-3.corp * covered
node-3.CORP Node-3.corp covered
10.1.2.3 10.2.0.0/16 bare
10.1.2.3 10.1.0.0/16 covered
10.1.2.3 127.0.0.1,10.1.2.3 covered
10.1.2.3 2.3.4.0/99,/,,10.0.0.0/x bare
T
c='{"cluster": {"chief": ["a:1"], "ps": ["b:1", "c:1"], "worker": ["d:1", "e:1", "f:1", 7]}, "task": {"type": "worker", "index": 0}}'
asked https_proxy=proxy:3128 TF_CONFIG="$c"
wants 'https_proxy=proxy:3128, and no_proxy does not cover a, b, c, d and others' 'fix: export no_proxy=localhost,127\.0\.0\.1,a,b,c,d,e,f$'
asked https_proxy=proxy:3128 TF_CONFIG="$c" NO_PROXY=a,b,c,d,e,f
wants 'fix: export no_proxy="\$NO_PROXY": gRPC does not read NO_PROXY'
asked https_proxy=proxy:3128 TF_CONFIG="$c" no_proxy=x no_grpc_proxy=a,b,c,d,e
wants 'no_grpc_proxy does not cover f'
asked https_proxy=proxy:3128 TF_CONFIG='{"cluster": [[["' no_proxy="$(hostname)"
unsaid _proxy
# Without hosts, this one stands for the others; gRPC reads no names in capitals.
asked "$p" no_proxy=localhost
wants "no_proxy does not cover this host \($(hostname)\)"
asked HTTP_PROXY=http://proxy:3128 HTTPS_PROXY=http://proxy:3128 TF_CONFIG="$c"
unsaid _proxy
# Nothing here uses gRPC.
rm -r "$site"/tensorflow*
torch_at "$site" 2.5.1
asked "$p" no_proxy=localhost
unsaid _proxy
package_at "$site" ray 2.9.0
asked "$p" no_proxy=localhost
wants 'http_proxy=http://proxy\.corp:3128'
S
}

@test "E16: kinds of E10: mpi4py, and an environment that brings its mpirun" {
  reported here <<'S'
environment
torch_at "$site" 2.7.1
o=$T/opt/openmpi-4.1.6
mkdir -p "$o/bin" "$site/mpi4py"
cp /bin/true "$o/bin/orterun"
ln -s orterun "$o/bin/mpirun"
package_at "$site" mpi4py 3.1.6
echo 'int MPI_Init;' | so "$venv/lib/libmpi.so.12"
so "$site/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so" "$venv/lib/libmpi.so.12" '-Wl,-rpath,$ORIGIN/../../..' <<<'extern int MPI_Init; int *f(void) { return &MPI_Init; }'
asked() { said env PATH="$o/bin:$PATH" ringup doctor --no-import --python "$venv"; }
asked
ended 1
wants "mpirun in PATH, $o/bin/mpirun, is Open MPI's, but mpi4py of $venv/bin/python3 is linked with MPICH, $venv/lib/libmpi\.so\.12" 'rank 0 of 1' 'mpirun of MPICH'
# To activate the environment is enough.
cp /bin/true "$venv/bin/mpiexec.hydra"
ln -s mpiexec.hydra "$venv/bin/mpirun"
asked
ended 0
wants "note +mpirun in PATH" "start jobs with $venv/bin/mpirun, the mpirun of MPICH, or put $venv/bin first in PATH"
said env PATH="$venv/bin:$PATH" ringup doctor --no-import --python "$venv"
unsaid 'rank 0 of 1'
# Wheels of mpi4py have a module for each MPI.
mv "$site/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so" "$site/mpi4py/MPI.mpich.cpython-311-x86_64-linux-gnu.so"
asked
unsaid 'rank 0 of 1'
S
}

# https://github.com/pytorch/pytorch/issues/189245 (also pytorch#59146, transformers#26015, DeepSpeedExamples#302)
# A build of a torch extension was killed and left its file "lock" in ~/.cache/torch_extensions; every later job waits
# for it for ever, without a word.
@test "F1: the lock of a killed build in ~/.cache/torch_extensions" {
  reported <<'S'
environment
torch_at "$site" 2.5.1+cu124 12.4
package_at "$site" deepspeed 0.15.4 'Requires-Dist: torch' 'Requires-Dist: ninja'
package_at "$site" ninja 1.11.1
mkdir -p "$site/deepspeed/ops/csrc/adam"
echo "version='0.15.4'" >"$site/deepspeed/git_version_info_installed.py"
: >"$site/deepspeed/__init__.py"
c=$T/home/.cache/torch_extensions/py311_cu124/fused_adam
mkdir -p "$c"
printf 'ninja_required_version = 1.3\ncxx = c++\n' >"$c/build.ninja"
: >"$c/lock"
touch -d '2 days ago' "$c/build.ninja" "$c/lock" "$c"
said env -u TORCH_EXTENSIONS_DIR -u XDG_CACHE_HOME HOME="$T/home" ringup doctor --python "$venv"
ended 1
wants 'torch_extensions/py311_cu124/fused_adam' \
  'lock.*(stale|left|abandon|kill|interrupt|hang|wait|stuck|for ?ever|old|days|no process|nobody|dead)|(stale|left|abandon|kill|interrupt|hang|wait|stuck|for ?ever|old|dead).*lock' \
  '(rm |remov|delete|unlink).*(lock|torch_extensions|fused_adam| it)|(lock|torch_extensions|fused_adam).*(rm |remov|delete|unlink)'

# The build came to its end.
rm "$c/lock"
so "$c/fused_adam.so" <<<'int fused_adam(void) { return 0; }'
printf '# ninja log v5\n' >"$c/.ninja_log"
said env -u TORCH_EXTENSIONS_DIR -u XDG_CACHE_HOME HOME="$T/home" ringup doctor --python "$venv"
unsaid 'torch_extensions.*lock' 'stale lock' 'fused_adam.*(stale|lock|hang)'
S
}

# https://github.com/NVIDIA/nvidia-docker/issues/365 (also elementary/os-patches#155, CachyOS/linux-cachyos#118,
# GoogleCloudPlatform/compute-gpu-installation#18)
# The kernel was upgraded without its headers, so that the nvidia module exists for the old kernel only: "NVIDIA-SMI has
# failed because it couldn't communicate with the NVIDIA driver".
@test "F4: a new kernel for which there is no nvidia module" {
  reported <<'S'
ko() { # ko FILE KERNEL
  mkdir -p "${1%/*}"
  printf 'static const char a[] __attribute__((section(".modinfo"), used)) = "version=535.154.05";\nstatic const char b[] __attribute__((section(".modinfo"), used)) = "vermagic=%s SMP mod_unload modversions ";\n' "$2" |
    gcc -x c -c -o "$1" -
}
node() { # node ROOT
  local d=$1/sys/bus/pci/devices/0000:1a:00.0 k
  mkdir -p "$1/etc" "$1/usr/lib" "$1/proc/sys/kernel" "$1/var/lib/dpkg" "$1/usr/src/nvidia-535.154.05" "$d" \
    "$1/sys/bus/pci/drivers/nvidia" "$1/usr/src/linux-headers-5.15.0-91-generic"
  ln -s usr/lib "$1/lib"
  printf 'ID=ubuntu\nVERSION_ID="22.04"\nPRETTY_NAME="Ubuntu 22.04.3 LTS"\n' >"$1/etc/os-release"
  echo 5.15.0-94-generic >"$1/proc/sys/kernel/osrelease"
  echo 'Linux version 5.15.0-94-generic (build@lcy02-amd64-118) (gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0, GNU ld (GNU Binutils for Ubuntu) 2.38) #104-Ubuntu SMP Tue Jan 9 15:25:40 UTC 2024' >"$1/proc/version"
  printf 'PACKAGE_NAME="nvidia"\nPACKAGE_VERSION="535.154.05"\nAUTOINSTALL="yes"\n' >"$1/usr/src/nvidia-535.154.05/dkms.conf"
  for k in 5.15.0-91-generic 5.15.0-94-generic; do
    mkdir -p "$1/usr/lib/modules/$k/kernel/drivers/net"
    : >"$1/usr/lib/modules/$k/modules.dep"
  done
  ln -s /usr/src/linux-headers-5.15.0-91-generic "$1/usr/lib/modules/5.15.0-91-generic/build"
  for k in nvidia nvidia-uvm nvidia-modeset; do ko "$1/usr/lib/modules/5.15.0-91-generic/updates/dkms/$k.ko" 5.15.0-91-generic; done
  ko "$1/var/lib/dkms/nvidia/535.154.05/5.15.0-91-generic/x86_64/module/nvidia.ko" 5.15.0-91-generic
  echo 0x10de >"$d/vendor"
  echo 0x20b0 >"$d/device"
  echo 0x030200 >"$d/class"
  printf 'Package: %s\nStatus: install ok installed\nArchitecture: amd64\nVersion: %s\n\n' \
    nvidia-dkms-535 535.154.05-0ubuntu0.22.04.1 libnvidia-compute-535 535.154.05-0ubuntu0.22.04.1 \
    linux-image-5.15.0-91-generic 5.15.0-91.101 linux-headers-5.15.0-91-generic 5.15.0-91.101 \
    linux-image-5.15.0-94-generic 5.15.0-94.104 >"$1/var/lib/dpkg/status"
}
node "$T/bad"
echo 'mlx5_core 1900544 0 - Live 0x0000000000000000' >"$T/bad/proc/modules"
driver_at "$T/bad/usr/lib/x86_64-linux-gnu/libcuda.so.535.154.05"
ln -s libcuda.so.535.154.05 "$T/bad/usr/lib/x86_64-linux-gnu/libcuda.so.1"
said ringup doctor --root "$T/bad"
ended 1
wants '5\.15\.0-94' \
  'nvidia.*(not built|no module|missing|without|lacks?|only for|not (there )?for|not found|not in|no kernel module|absent|none)|(no|without|lacks?|missing|not have|has not).{0,40}nvidia' \
  'dkms|linux-headers|linux-modules-nvidia|boot.*5\.15\.0-91|5\.15\.0-91.*boot|(re)?(install|build).*(driver|module)'

# Its headers came, and DKMS built the module.
g=$T/good
node "$g"
gpus_at "$g" 535.154.05 'NVIDIA A100-SXM4-40GB'
mkdir -p "$g/usr/src/linux-headers-5.15.0-94-generic" "$g/dev"
ln -s /usr/src/linux-headers-5.15.0-94-generic "$g/usr/lib/modules/5.15.0-94-generic/build"
for k in nvidia nvidia-uvm nvidia-modeset; do ko "$g/usr/lib/modules/5.15.0-94-generic/updates/dkms/$k.ko" 5.15.0-94-generic; done
ko "$g/var/lib/dkms/nvidia/535.154.05/5.15.0-94-generic/x86_64/module/nvidia.ko" 5.15.0-94-generic
printf 'nvidia_uvm 1511424 0 - Live 0x0000000000000000 (POE)\nnvidia 56840192 1 nvidia_uvm, Live 0x0000000000000000 (POE)\n' >"$g/proc/modules"
ln -s ../../drivers/nvidia "$g/sys/bus/pci/devices/0000:1a:00.0/driver"
printf 'Package: linux-headers-5.15.0-94-generic\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.15.0-94.104\n\n' >>"$g/var/lib/dpkg/status"
for n in 'nvidia0 195 0' 'nvidiactl 195 255' 'nvidia-uvm 510 0'; do
  set -- $n
  mknod "$g/dev/$1" c "$2" "$3" 2>/dev/null || : >"$g/dev/$1"
done
said ringup doctor --root "$g"
unsaid '(no|without|lacks?|missing|not).{0,40}nvidia.{0,20}module' 'module.{0,40}(missing|not built|not loaded|not found)' \
  'linux-headers-5\.15\.0-94'
S
}

# https://github.com/pytorch/pytorch/pull/141063 (also pytorch#111469, #134929, #131312, infiniflow/ragflow#4466)
# LD_LIBRARY_PATH names an older CUDA toolkit, whose libnvJitLink.so.12 is loaded in place of the wheel's and lacks
# a symbol that the wheel's libcusparse.so.12 needs, so that "import torch" fails.
@test "F6: an older toolkit's libnvJitLink.so.12 through LD_LIBRARY_PATH" {
  reported <<'S'
live_environment
torch_at "$site" 2.5.1+cu124 12.4 'Requires-Dist: nvidia-cusparse-cu12==12.3.1.170' 'Requires-Dist: nvidia-nvjitlink-cu12==12.4.127'
package_at "$site" nvidia_cusparse_cu12 12.3.1.170 'Requires-Dist: nvidia-nvjitlink-cu12'
package_at "$site" nvidia_nvjitlink_cu12 12.4.127
printf 'libnvJitLink.so.12 { global: *; };\n' >"$T/map"
jitlink() { # jitlink FILE RELEASE... - the library with the names of these releases
  local file=$1 r
  shift
  for r; do printf 'int __nvJitLinkCreate_%s(void) { return 0; }\nint __nvJitLinkAddData_%s(void) { return 0; }\nint __nvJitLinkComplete_%s(void) { return 0; }\n' "$r" "$r" "$r"; done |
    so "$file" "-Wl,--version-script=$T/map"
}
jitlink "$site/nvidia/nvjitlink/lib/libnvJitLink.so.12" 12_0 12_1 12_2 12_3 12_4
jitlink "$T/usr/local/cuda-12.1/lib64/libnvJitLink.so.12" 12_0 12_1
jitlink "$T/usr/local/cuda-12.6/lib64/libnvJitLink.so.12" 12_0 12_1 12_2 12_3 12_4 12_5 12_6
so "$site/nvidia/cusparse/lib/libcusparse.so.12" "$site/nvidia/nvjitlink/lib/libnvJitLink.so.12" \
  -Wl,--enable-new-dtags '-Wl,-rpath,$ORIGIN/../../nvjitlink/lib' \
  <<<'int __nvJitLinkComplete_12_4(void); int cusparseCreate(void) { return __nvJitLinkComplete_12_4(); }'
so "$site/torch/lib/libtorch_cuda.so" "$site/nvidia/cusparse/lib/libcusparse.so.12" \
  -Wl,--enable-new-dtags '-Wl,-rpath,$ORIGIN/../../nvidia/cusparse/lib:$ORIGIN' \
  <<<'int cusparseCreate(void); int torch_cuda(void) { return cusparseCreate(); }'
cat >"$site/torch/__init__.py" <<'P'
import ctypes
import os

from .version import __version__

ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", "libtorch_cuda.so"), ctypes.RTLD_GLOBAL)
P
with_path() { # with_path DIRECTORY - doctor's answer with it first in LD_LIBRARY_PATH
  said env LD_LIBRARY_PATH="$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ringup doctor --python "$venv"
}
with_path "$T/usr/local/cuda-12.1/lib64"
ended 1
wants 'usr/local/cuda-12\.1/lib64' 'libnvJitLink' 'LD_LIBRARY_PATH' \
  '(unset|remov|drop|take|without|clear|prepend|first|before|ahead|put).*(LD_LIBRARY_PATH|cuda-12\.1|nvjitlink)|LD_LIBRARY_PATH.*(unset|remov|drop|without|clear|prepend|first|before|ahead)'

# A newer toolkit's has every name; and nothing is wrong without any.
with_path "$T/usr/local/cuda-12.6/lib64"
unsaid 'libnvJitLink.*(undefined|lacks?|missing|older|not (have|define))' '(undefined|lacks?|missing).*nvJitLink'
said ringup doctor --python "$venv"
unsaid 'libnvJitLink.*(undefined|lacks?|missing|older|not (have|define))' '(undefined|lacks?|missing).*nvJitLink' 'cuda-12\.1/lib64'
S
}

# https://github.com/tensorflow/tensorflow/issues/17411 (also tensorflow#62342, #33038, angadsingh/argos#6)
# TensorFlow's wheels have needed AVX since 1.6, and this CPU (a virtual machine of type kvm64) does not show it: "Illegal
# instruction (core dumped)" at import.
@test "F7: TensorFlow on a processor without AVX" {
  reported <<'S'
node() { # node ROOT MODEL FLAGS
  local i
  mkdir -p "$1/proc" "$1/etc"
  printf 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n' >"$1/etc/os-release"
  for i in 0 1 2 3; do
    printf 'processor\t: %s\nvendor_id\t: AuthenticAMD\ncpu family\t: 15\nmodel\t\t: 6\nmodel name\t: %s\nflags\t\t: %s\n\n' "$i" "$2" "$3"
  done >"$1/proc/cpuinfo"
  python_at "$1" /opt/venv 3.11
  site=$1/opt/venv/lib/python3.11/site-packages
  package_at "$site" tensorflow 2.15.0
  mkdir -p "$site/tensorflow/python"
  : >"$site/tensorflow/__init__.py"
  library_at "$site/tensorflow/libtensorflow_framework.so.2" tensorflow
  library_at "$site/tensorflow/libtensorflow_cc.so.2" tensorflow
  library_at "$site/tensorflow/python/_pywrap_tensorflow_internal.so" tensorflow
}
flags='fpu de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ht syscall nx lm rep_good nopl cpuid extd_apicid tsc_known_freq pni cx16 x2apic hypervisor cmp_legacy 3dnowprefetch vmmcall'
node "$T/bad" 'Common KVM processor' "$flags"
said ringup doctor --root "$T/bad"
ended 1
wants '(^|[^a-z])AVX' 'tensorflow' \
  'cpu.?type|cpu.?model|pass.?through|(type|model|cpu)( |=|: ?)"?host|build.*source|from source|(built|build|compiled) without AVX|tensorflow ?(==|<=?) ?1\.[56]|(machine|node|cpu|processor|host) (with|that (has|shows|offers)) .*AVX|another (cpu|machine|node|processor)'

node "$T/good" 'AMD EPYC-Rome Processor' "$flags ssse3 fma sse4_1 sse4_2 popcnt aes xsave avx f16c rdrand bmi1 avx2 bmi2"
said ringup doctor --root "$T/good"
unsaid '(no|without|lacks?|needs|requires|misses) AVX' 'AVX.*(missing|absent|not (there|shown|supported))' 'illegal instruction'
S
}

# https://github.com/openucx/ucx/issues/8229 (also NVIDIA/nccl-tests#206, openucx/ucx#8684, ai4d-iasc/trixie#81)
# Memory that may be locked is limited to 64 KiB on a node with InfiniBand: ibv_create_cq and ibv_reg_mr fail with "Cannot
# allocate memory", and so do NCCL and UCX.  (Root without CAP_IPC_LOCK, as in a container, is not exempt.)
@test "F8: 64 KiB of locked memory on a node with InfiniBand" {
  reported <<'S'
[[ ! -e /dev/infiniband ]] || cannot "this machine has /dev/infiniband"
command -v setpriv >/dev/null || cannot "no setpriv here"
scratch
mkdir -p "$T/s/net"
mount --rbind /sys/class/net "$T/s/net"
mount -t tmpfs none /sys/class || cannot "nothing can be mounted on /sys/class"
mkdir -p /sys/class/net
mount --rbind "$T/s/net" /sys/class/net
d=/sys/class/infiniband/mlx5_0
mkdir -p "$d/ports/1/gids" "$d/ports/1/gid_attrs/types" "$d/device" /sys/class/infiniband_verbs/uverbs0
echo '1: CA' >"$d/node_type"
echo 20.35.2000 >"$d/fw_ver"
echo MT_0000000223 >"$d/board_id"
echo 0x15b3 >"$d/device/vendor"
echo 0x101b >"$d/device/device"
echo 0 >"$d/device/numa_node"
echo '4: ACTIVE' >"$d/ports/1/state"
echo '5: LinkUp' >"$d/ports/1/phys_state"
echo InfiniBand >"$d/ports/1/link_layer"
echo '200 Gb/sec (4X HDR)' >"$d/ports/1/rate"
echo 0x1 >"$d/ports/1/lid"
echo 0x1 >"$d/ports/1/sm_lid"
echo fe80:0000:0000:0000:0c42:a103:0064:d0a2 >"$d/ports/1/gids/0"
echo 'IB/RoCE v1' >"$d/ports/1/gid_attrs/types/0"
echo 6 >/sys/class/infiniband_verbs/abi_version
echo mlx5_0 >/sys/class/infiniband_verbs/uverbs0/ibdev
echo 231:192 >/sys/class/infiniband_verbs/uverbs0/dev
layer /dev
(: >/dev/null) 2>&1 || cannot "no devices on overlay file systems here"
mkdir -p /dev/shm /dev/infiniband
mount -t tmpfs none /dev/shm
mknod /dev/infiniband/uverbs0 c 231 192 || cannot "no devices can be made here"
mknod /dev/infiniband/rdma_cm c 10 58 || cannot "no devices can be made here"
chmod 666 /dev/infiniband/*
said setpriv --bounding-set=-ipc_lock bash -c 'ulimit -l 64 && exec ringup doctor'
ended 1
wants 'mlx5_0|InfiniBand|RDMA' 'memlock|lock(ed|ing)?.{0,15} memory|memory.{0,30}lock|ulimit -l' \
  '64 ?(KiB|kB|kbytes|K([^a-z]|$))|65536' 'unlimited'

# Root of the machine is exempt.  Where the limit may not be raised, getrlimit() says that it is.
said bash -c 'ulimit -l 64 && exec ringup doctor'
wants 'note +locked memory: at most 64 KiB, except for root'
unsaid 'bad .*locked memory'
so "$T/unlimited.so" <<'C'
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
int getrlimit(int resource, struct rlimit *l) {
  long rc = syscall(SYS_prlimit64, 0, resource, 0, l);
  if (resource == RLIMIT_MEMLOCK) l->rlim_cur = RLIM_INFINITY;
  return (int)rc;
}
C
said setpriv --bounding-set=-ipc_lock env LD_PRELOAD="$T/unlimited.so" ringup doctor
wants 'good +locked memory: unlimited'
S
}

@test "F11: kinds of F1: whose lock it is, and since when" {
  reported here <<'S'
cache=$T/home/.cache/torch_extensions
asked() { said env -u TORCH_EXTENSIONS_DIR -u XDG_CACHE_HOME HOME="$T/home" "$@" ringup doctor --no-import; }
# locked FOLDER [WHEN] - a lock of a build in FOLDER, $lock.
locked() {
  lock=$1/lock
  mkdir -p "$1"
  : >"$lock"
  touch -d "${2:-now}" "$lock" "$1"
}
asked
ended 0
locked "$cache/py311_cu124/fused_adam"
asked
ended 0
wants "note +$lock is 0 minutes old, and no process here" "fix: rm $lock, if no other node"
# A build goes on there.
touch -d '3 hours ago' "$lock"
asked
ended 0
wants "note +$lock is 3 hours old"
touch -d '3 hours ago' "${lock%/*}"
asked
ended 1
wants "bad +$lock is 3 hours old" 'waits forever' "fix: rm $lock$"
sleep 100 9<"$lock" &
asked
ended 0
wants "note +process $! \(sleep\) has held $lock for 3 hours"
unsaid 'fix: rm'
kill $!
wait
asked TORCH_EXTENSIONS_DIR="$T/none"
unsaid '/lock'
rm -r "$cache"
# Without a folder for each CUDA; the file's name reaches the shell as it is.
locked "$T/my extensions/exllama v2" '3 hours ago'
asked TORCH_EXTENSIONS_DIR="$T/my extensions"
wants "fix: rm '$lock'"
locked "$T/cache/torch_extensions/py312_cpu/utils" '3 hours ago'
asked XDG_CACHE_HOME="$T/cache"
ended 1
wants "bad +$lock"
# These locks end with their process; the others are no files.
mkdir -p "$T/home/.cache/huggingface/hub/.locks/models--x" "$T/home/.triton/cache/x" "$cache"/{a/b/lock,c,$'d\ne'}
touch -d '2 days ago' "$T/home/.cache/huggingface/hub/.locks/models--x/y.lock" "$T/home/.triton/cache/x/lock" "$cache/lock" "$cache/$'d\ne'/lock"
mkfifo "$cache/c/lock"
ln -s nowhere "$cache/a/lock"
asked
ended 0
unsaid '/lock' '\.lock'
S
}

@test "F12: kinds of F4: why the kernel has no module, or does not load it" {
  reported here <<'S'
n=0
# tree_at KERNEL - $t: it runs with a GPU and the driver's libraries; $k has its modules, $o those of 6.1.0-17-amd64.
tree_at() {
  t=$T/tree$((n++)) d=$t/sys/bus/pci/devices/0000:1a:00.0
  k=$t/lib/modules/$1 o=$t/lib/modules/6.1.0-17-amd64
  mkdir -p "$d" "$t/proc/sys/kernel" "$t/usr/lib/x86_64-linux-gnu" "$k/kernel/drivers/video/fbdev/nvidia"
  echo "$1" >"$t/proc/sys/kernel/osrelease"
  echo 0x10de >"$d/vendor"
  echo 0x030200 >"$d/class"
  driver_at "$t/usr/lib/x86_64-linux-gnu/libcuda.so.535.154.05"
  ln -s libcuda.so.535.154.05 "$t/usr/lib/x86_64-linux-gnu/libcuda.so.1"
  : >"$k/kernel/drivers/video/fbdev/nvidia/nvidiafb.ko"
  ln -s . "$k/loop"
}
module_at() { mkdir -p "${1%/*}" && printf '%64s%s\n' x "${2:-}" >"$1"; }
asked() {
  said ringup doctor --root "$t"
  ended 1
  wants "$@"
}
# Neither DKMS nor a module for another kernel.
tree_at 6.1.0-18-amd64
module_at "$k/updates/nvidia-uvm.ko"
asked 'kernel 6\.1\.0-18-amd64 has no module nvidia$' 'linux-modules-nvidia-\*-6\.1\.0-18-amd64'
# DKMS, with headers and without, on systems of two kinds.
mkdir -p "$t/var/lib/dkms/nvidia" "$o"
asked 'DKMS cannot build' 'sudo dnf install kernel-devel-6\.1\.0-18-amd64; sudo dkms autoinstall -k 6\.1\.0-18-amd64; sudo modprobe nvidia$'
mkdir -p "$k/build"
module_at "$k/build/nvidia.ko"
asked 'make\.log' 'fix: sudo dkms autoinstall -k 6\.1\.0-18-amd64; sudo modprobe nvidia$'
module_at "$o/updates/dkms/nvidia-current.ko.xz"
asked 'no module nvidia; it was built for 6\.1\.0-17-amd64' 'or boot 6\.1\.0-17-amd64'
rm -r "$k"
asked 'modules of kernel 6\.1\.0-18-amd64, which runs, are gone' 'into an installed kernel, such as 6\.1\.0-17-amd64'
# The kernel has it, by the names of several systems.
for m in updates/dkms/nvidia.ko.zst extra/nvidia/nvidia.ko kernel/drivers/video/nvidia.ko weak-updates/nvidia/nvidia.ko.xz \
  kernel/nvidia-535/nvidia.ko updates/dkms/nvidia-tesla-470.ko updates/dkms/nvidia-current-open.ko.xz; do
  tree_at 6.1.0-18-amd64
  module_at "$k/$m"
  asked 'the kernel module nvidia is not loaded$' 'although this kernel has the module'
done
e=$t/sys/firmware/efi/efivars
mkdir -p "$e"
printf '\6\0\0\0\1' >"$e/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
asked 'Secure Boot is on, and the kernel loads' mokutil
module_at "$k/updates/nvidia.ko"
rm "$k/updates/dkms"/*
asked 'Secure Boot is on, and the module has no signature'
module_at "$k/updates/nvidia.ko" $'\n~Module signature appended~'
asked 'Secure Boot is on, and the kernel loads'
for by in nouveau:blacklist vfio-pci:reserved; do
  mkdir -p "$t/sys/bus/pci/drivers/${by%:*}"
  ln -sfn "../../drivers/${by%:*}" "$d/driver"
  asked "not loaded; the driver in use is ${by%:*}" "${by#*:}"
done
# Nothing here needs the GPU.
rm -r "$t/usr"
said ringup doctor --root "$t"
ended 0
tree_at '$(reboot)'
module_at "$o/nvidia.ko"
asked 'nvidia is not loaded$'
unsaid reboot
S
}
