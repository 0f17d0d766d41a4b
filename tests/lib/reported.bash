# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# reported.bash - recreates a reported failure in a mount namespace of its own: trees, layers and copies of this machine.

# reported [here] <SCRIPT - run SCRIPT as root in its own mount namespace, or as this user here, with the functions
# below; fails if an answer is not as expected, and shows what was said.
reported() {
  local apart=(unshare -m --propagation private)
  [[ ${1:-} != here ]] || apart=()
  if [[ ${1:-} == here ]]; then
    command -v g++ >/dev/null || skip "g++ is not installed"
  elif [[ $EUID -ne 0 ]] || ! unshare -m --propagation private true 2>/dev/null; then
    skip "needs root and namespaces"
  fi
  { printf 'set -u\nT=%q lib=%q\n. "$lib"\nfails=0\n' "$BATS_TEST_TMPDIR" "$src/tests/lib/reported.bash" &&
    printf 'src=%q\n' "$src" && { ((!${#apart[@]})) || echo hide_settings; } && cat && echo 'exit "$fails"'; } >"$BATS_TEST_TMPDIR/script"
  run "${apart[@]}" bash "$BATS_TEST_TMPDIR/script"
  printf '%s\n' "$output"
  [[ $status -ne 77 ]] || skip "${lines[-1]}"
  [[ $status -eq 0 ]]
}

# What ringup-init writes: this machine may have been set up by it.
settings=(/etc/environment /etc/nccl.conf /etc/profile.d/ringup.sh)

# hide_settings - make them empty in this mount namespace.
hide_settings() {
  local file
  for file in "${settings[@]}"; do [[ ! -e $file ]] || mount --bind /dev/null "$file"; done
}

# cannot WHY - skip the test.
cannot() {
  printf '%s\n' "$*"
  exit 77
}

# said COMMAND... - run it; what it says is in $out, its status in $rc.
said() {
  printf '$ %s\n' "$*"
  out=$("$@" 2>&1)
  rc=$?
  printf '%s\n[%s]\n' "$out" "$rc"
}

# wants TEXT... - each (an extended regular expression) is in $out.
wants() {
  local w
  for w; do grep -qEi -- "$w" <<<"$out" || { printf 'NOT SAID: %s\n' "$w" && fails=1; }; done
}

# unsaid TEXT... - none is in $out.
unsaid() {
  local w
  for w; do not_there "$w" || { printf 'SAID WRONGLY: %s\n' "$w" && fails=1; }; done
}

# not_there TEXT - it is not in $out.
not_there() {
  ! grep -qEi -- "$1" <<<"$out"
}

# ended STATUS - the command ended with it; "bad" stands for any but 0.
ended() {
  if [[ $1 == bad ]]; then
    [[ $rc != 0 ]] || { echo "STATUS 0" && fails=1; }
  else
    [[ $rc == "$1" ]] || { echo "STATUS $rc, not $1" && fails=1; }
  fi
}

# python_at ROOT PREFIX SERIES - a Python that is only files.
python_at() {
  mkdir -p "$1$2/bin" "$1$2/lib/python$3/site-packages" "$1$2/include/python$3"
  : >"$1$2/bin/python$3"
  chmod 755 "$1$2/bin/python$3"
  ln -sf "python$3" "$1$2/bin/python3"
  printf '#define PY_VERSION "%s.4"\n' "$3" >"$1$2/include/python$3/patchlevel.h"
  : >"$1$2/include/python$3/Python.h"
}

# package_at SITE NAME VERSION [LINE...] - pip's notes of a package, with LINEs of metadata.
package_at() {
  local at=$1/$2-$3.dist-info
  mkdir -p "$at"
  { printf 'Metadata-Version: 2.1\n' && printf '%s\n' "Name: $2" "Version: $3" "${@:4}"; } >"$at/METADATA"
  echo pip >"$at/INSTALLER"
  : >"$at/RECORD"
}

# library_at FILE NAMESPACE [OPTION...] - a shared library with names of C++, as a framework's.
library_at() {
  mkdir -p "${1%/*}"
  printf '#include <string>\nnamespace %s { std::string what(std::string const &s) { return s + "x"; } }\n' "$2" |
    g++ -x c++ -shared -fPIC "${@:3}" -o "$1" -
}

# torch_at SITE VERSION [CUDA [LINE...]] - torch, with LINEs of metadata.
torch_at() {
  package_at "$1" torch "$2" "${@:4}"
  mkdir -p "$1/torch/include/torch"
  : >"$1/torch/__init__.py"
  : >"$1/torch/include/torch/extension.h"
  printf "__version__ = '%s'\ncuda = %s\n" "$2" "${3:+"'$3'"}" | sed 's/cuda = $/cuda = None/' >"$1/torch/version.py"
  library_at "$1/torch/lib/libc10.so" c10
  cp "$1/torch/lib/libc10.so" "$1/torch/lib/libtorch_cpu.so"
}

# so FILE [OPTION...] <SOURCE - a shared library of C, with the name of its file or $soname.
so() {
  mkdir -p "${1%/*}"
  gcc -shared -fPIC "-Wl,-soname,${soname:-${1##*/}}" -o "$1" -x c - -x none -Wl,--no-as-needed,--allow-shlib-undefined "${@:2}"
}

# environment - $venv, whose packages are in $site: an environment that is only files.
environment() {
  venv=$T/venv site=$T/venv/lib/python3.11/site-packages
  python_at "$T" /venv 3.11
}

# live_environment [AT [PYTHON]] - $venv, whose packages are in $site: an environment whose Python runs.
live_environment() {
  local python=${2:-$(python3 -c 'import sys; print(sys._base_executable)')} series
  series=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || cannot "no Python here"
  venv=${1:-$T/live} site=${1:-$T/live}/lib/python$series/site-packages
  mkdir -p "$venv/bin" "$site"
  ln -s "$python" "$venv/bin/python$series"
  ln -s "python$series" "$venv/bin/python3"
  printf 'home = %s\nversion = %s.4\ninclude-system-site-packages = false\n' "${python%/*}" "$series" >"$venv/pyvenv.cfg"
}

# abi_of SITE - "cpython-311" of .../python3.11/site-packages.
abi_of() {
  local series=${1%/site-packages}
  series=${series##*python3.}
  printf 'cpython-3%s' "$series"
}

# horovod_at [OPTION...] <SOURCE - a Horovod for torch in $site, whose extension is SOURCE.
horovod_at() {
  package_at "$site" horovod 0.28.1
  so "$site/horovod/torch/mpi_lib_v2.$(abi_of "$site")-x86_64-linux-gnu.so" "$@"
}

# gpus_at ROOT DRIVER MODEL - a GPU, as its driver shows it.
gpus_at() {
  local g=$1/proc/driver/nvidia/gpus/0000:1a:00.0
  mkdir -p "$g"
  printf 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Thu Mar 16 19:48:20 UTC 2023\n' "$2" >"$1/proc/driver/nvidia/version"
  printf 'Model: \t\t %s\nDevice Minor: \t 0\n' "$3" >"$g/information"
  driver_at "$1/usr/lib/x86_64-linux-gnu/libcuda.so.$2"
  ln -s "libcuda.so.$2" "$1/usr/lib/x86_64-linux-gnu/libcuda.so.1"
}

# driver_at FILE [RESULT] - a libcuda.so.1 whose functions return RESULT.
driver_at() {
  mkdir -p "${1%/*}"
  printf 'int cuInit(unsigned f) { return f ? 1 : %s; }\n' "${2:-0}" |
    gcc -x c -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$1" -
}

# scratch - a tmpfs at $T/s.
scratch() {
  [[ -d $T/s ]] || { mkdir -p "$T/s" && mount -t tmpfs none "$T/s"; } || exit
}

# layer DIR - what is written to DIR from here on goes elsewhere.
layer() {
  local at
  scratch
  at=$T/s/layer$RANDOM
  mkdir -p "$at/upper" "$at/work"
  mount -t overlay -o "lowerdir=$1,upperdir=$at/upper,workdir=$at/work" none "$1" || cannot "no overlay file systems here"
  [[ $1 != /etc ]] || rm -f "${settings[@]}"
}

# torch_env - $venv: an environment with torch, which may be changed.
torch_env() {
  venv=$(cd "${RINGUP_TEST_PYTHON%/*}/.." && pwd)
  site=$(echo "$venv"/lib/python3.*/site-packages)
  if [[ ! -f $venv/pyvenv.cfg || ! -d $site/torch ]]; then cannot "no environment with torch: set RINGUP_TEST_PYTHON"; fi
  layer "$venv"
}

# machine [bare] - $root: a copy of this machine that may be changed; "bare" mounts nothing in it.
machine() {
  scratch
  root=$T/root
  mkdir -p "$T/s/upper" "$T/s/work" "$root"
  mount -t overlay -o "lowerdir=/,upperdir=$T/s/upper,workdir=$T/s/work" none "$root" || cannot "no overlay file systems here"
  mount -t tmpfs none "$root/run"
  rm -rf "$root/var/lib/ringup" "${settings[@]/#/$root}"
  : >"$root/etc/environment"
  [[ ${1:-} == bare ]] || { mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev"; }
}

# system LINE... - $root becomes this system, by its os-release, and loses apt.
system() {
  rm -f "$root/etc/os-release" "$root/usr/lib/os-release"
  printf '%s\n' "$@" | tee "$root/etc/os-release" >"$root/usr/lib/os-release"
  (cd "$root/usr/bin" && rm -f apt apt-get apt-cache dpkg dpkg-query)
}

# tool NAME <SCRIPT - a program of $root.
tool() {
  rm -f "$root/usr/bin/$1"
  { echo '#!/bin/sh' && cat; } >"$root/usr/bin/$1"
  chmod 755 "$root/usr/bin/$1"
}

# within COMMAND... - in $root, without settings.
within() {
  said chroot "$root" /usr/bin/env -i HOME=/root LC_ALL=C PATH="$PATH" LD_LIBRARY_PATH="$LD_LIBRARY_PATH" "$@"
}

# packages NAME... - what the step 20-toolchain does to install them in $root.
packages() {
  mkdir -p "$root/run/state"
  within env INIT_HERE="$src/init-scripts" INIT_STATE=/run/state INIT_LOGFILE=/run/state/log STEP=20-toolchain \
    bash -c 'set -euo pipefail
      : >"$INIT_LOGFILE"
      for f in "$INIT_HERE"/lib/*.bash; do . "$f"; done
      step_code=20
      set +e
      pkg_install "$@" 2>&1 | tee -a "$INIT_LOGFILE" | grep -E " (error|next|warn) "
      exit "${PIPESTATUS[0]}"' _ "$@"
}
