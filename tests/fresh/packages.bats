#!/usr/bin/env bats
# packages.bats - wheels built in a Debian 11, and installed where there is no compiler, as root and as a user.
# needs: root-net
# tests: packaging debian pyproject.toml compat configure.ac src init-scripts README.md

# Long (minutes), as fresh.bats, and with the same needs: only with RINGUP_TEST_FRESH=1.  torch and JAX come from pip's
# index; where it has none the tests of these two are skipped.

load ../lib/helper
load ../lib/tree

setup() {
  [[ -z $HINDRANCE ]] || skip "$HINDRANCE"
}

setup_file() {
  HINDRANCE=$(tree_hindrance)
  export HINDRANCE
  [[ -z $HINDRANCE ]] || return 0
  export old=$BATS_FILE_TMPDIR/old tree=$BATS_FILE_TMPDIR/tree new=$BATS_FILE_TMPDIR/new dist=$BATS_FILE_TMPDIR/dist
  tree_make bullseye "$old" gcc,libc6-dev,make,pkg-config,autoconf,automake,libtool,libsodium-dev,libmnl-dev,libjansson-dev,python3,python3-venv
  tree_make bookworm "$tree" python3-venv
  tree_make trixie "$new" python3-venv
  mkdir "$old/src" "$dist"
  git -C "$src" archive HEAD 2>/dev/null | tar -x -C "$old/src" || cp -r "$src"/. "$old/src"
}

teardown_file() {
  [[ -z ${tree:-} ]] || rm -rf --one-file-system "$tree" "$old" "$new"
}

# as_user TREE SCRIPT - run a script as nobody in the tree, in an empty folder and without a network.
as_user() {
  unshare --net bash -c 'ip link set lo up
    inside=$1 tree=$2 script=$3
    eval "$inside"
    tree_inside "$tree" setpriv --reuid=65534 --clear-groups env HOME=/tmp bash -c "set -e; cd \"\$(mktemp -d)\"; $script"' \
    bash "$(declare -f tree_inside)" "$1" "$2"
}

# fetched TREE PYTHON NAME... - have pip fetch these for that Python into the tree's /dist/more, or skip.
fetched() {
  mkdir -p "$1/dist/more"
  python3 -m pip download -q --only-binary :all: --python-version "$2" -d "$1/dist/more" "${@:3}" >"$BATS_TEST_TMPDIR/pip.log" 2>&1 ||
    skip "pip has no ${*:3} for Python $2: $(tail -n 1 "$BATS_TEST_TMPDIR/pip.log")"
}

@test "Debian 11 builds the wheels, and they need no glibc that is younger than 2.28" {
  run tree_inside "$old" python3 /src/packaging/wheels.py --build /src /dist
  echo "$output" | tail -n 30
  expect_status 0
  [[ $output == *-py3-none-manylinux_2_28_x86_64.whl* ]]
  mkdir -p "$tree/dist" "$new/dist"
  cp "$old"/dist/*.whl "$dist"
  cp "$dist"/*.whl "$tree/dist"
  cp "$dist"/*.whl "$new/dist"
}

@test "a cross compiler makes the wheel for aarch64, which an emulator runs" {
  command -v qemu-aarch64 >/dev/null || skip "qemu-aarch64 is not installed"
  run tree_inside "$old" bash -c 'exec 2>&1; set -e; dpkg --add-architecture arm64; apt-get -q update
    apt-get -q -y --no-install-recommends install gcc-aarch64-linux-gnu libc6-dev-arm64-cross binutils-aarch64-linux-gnu \
      libsodium-dev:arm64 libmnl-dev:arm64 libjansson-dev:arm64
    PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig python3 /src/packaging/wheels.py --build /src /dist/arm --host=aarch64-linux-gnu'
  echo "$output" | tail -n 30
  expect_status 0
  [[ $output == *-py3-none-manylinux_2_28_aarch64.whl* ]]
  python3 -m zipfile -e "$old"/dist/arm/ringup-*aarch64.whl "$BATS_TEST_TMPDIR"
  local top
  top=$(echo "$BATS_TEST_TMPDIR"/ringup-*.data)
  install -D "$top/scripts/ringup" "$top/data/bin/ringup"
  # arm ARG... - the program, with the glibc of Debian 11 for that machine.
  arm() { timeout 120 qemu-aarch64 -L "$old" "$top/data/bin/ringup" "$@"; }
  run arm --version
  echo "$output"
  expect_status 0
  [[ $output == "ringup 0."* ]]
  run arm hello
  echo "$output"
  expect_status 0
  [[ $output == *"1 rank on 1 host"*"is right"* ]]
}

@test "as a user, without root, compiler or network: pip install, a job, diagnose, doctor; on Debian 11 and 12" {
  local t
  cat >"$dist/job.py" <<'EOT'
import array, ringup
ringup.init()
a = array.array("d", [1.0])
ringup.allreduce(a, op=ringup.SUM)
print("sum", a[0])
EOT
  [[ -z $(compgen -G "$tree/usr/bin/*gcc*") ]]
  for t in "$tree" "$old"; do
    cp "$dist/job.py" "$t/dist"
    run as_user "$t" '
      python3 -m venv env; env/bin/pip install -q --no-index --no-deps /dist/ringup*.whl
      env/bin/ringup run -np 2 -- env/bin/python3 /dist/job.py
      env/bin/python3 -m ringup
      echo nothing >log; env/bin/ringup diagnose log
      env/bin/ringup doctor --python env || true'
    echo "$output"
    expect_status 0
    [[ $(grep -c 'sum 2.0' <<<"$output") -eq 2 && $output == *"no known problem in log"* ]]
    grep -q '^engine  *good  ringup' <<<"$output"
  done
}

# three_commands TREE PYTHON TORCH... - README's commands of a user: pip install, torchrun with the back end ringup, doctor.
three_commands() {
  fetched "$@"
  sed -n '/^DDP = """/,/^dist.destroy/p' "$src/tests/py/test_wheels.py" | tail -n +2 >"$1/dist/train.py"
  run as_user "$1" '
    python3 -m venv env; env/bin/pip install -q --no-index --find-links /dist/more torch
    env/bin/pip install -q --no-index /dist/ringup-*manylinux*x86_64.whl
    . env/bin/activate
    torchrun --nproc-per-node 4 /dist/train.py
    ringup doctor'
  echo "$output"
  expect_status 0
  [[ $(grep -c '^weights ' <<<"$output") -eq 4 && $(grep '^weights ' <<<"$output" | sort -u | wc -l) -eq 1 ]]
  [[ $output == *": works with ringup "* && ${lines[-1]} == healthy ]]
}

@test "README's three commands of a user on Debian 12" { three_commands "$tree" 3.11 "${RINGUP_TEST_TORCH:-torch==2.13.0}"; }

# pip takes this machine's Python for what packages want of older ones.
@test "README's three commands of a user on Debian 11" { three_commands "$old" 3.9 torch==2.8.0 importlib-metadata; }

@test "README's three commands of a user on Debian 13" { three_commands "$new" 3.13 "${RINGUP_TEST_TORCH:-torch==2.13.0}"; }

@test "JAX: a collective in a compiled program, from the wheel" {
  fetched "$tree" 3.11 jax jaxlib
  cat >"$tree/dist/jaxed.py" <<'EOT'
import jax, jax.numpy as jnp, ringup
from ringup import jax as rj
ringup.init()
print("jax sum", float(jax.jit(lambda x: rj.allreduce(x, op=ringup.SUM) * 2)(jnp.ones(3)).sum()))
EOT
  run as_user "$tree" '
    python3 -m venv env; env/bin/pip install -q --no-index --find-links /dist/more jax jaxlib
    env/bin/pip install -q --no-index /dist/ringup-*manylinux*.whl
    env/bin/ringup run -np 2 -- env/bin/python3 /dist/jaxed.py'
  echo "$output"
  expect_status 0
  [[ $(grep -c 'jax sum 12.0' <<<"$output") -eq 2 ]]
}

@test "as root: ringup-init with the wheel, in seconds, without a compiler, a cache or a key" {
  local wheel
  wheel=$(basename "$dist"/ringup-*manylinux*.whl)
  sh "$src/init-scripts/bundle.sh" >"$tree/root/ringup-init.sh"
  run tree_inside "$tree" env RINGUP_SOURCE="/dist/$wheel" RINGUP_SOURCE_SHA256="$(sha256sum <"$dist/$wheel" | cut -c 1-64)" bash /root/ringup-init.sh
  echo "$output" | tail -n 40
  expect_status 0
  [[ $output == *"from a wheel"* && $output == *"4 ranks agreed bit for bit"* ]]
  [[ -z $(compgen -G "$tree/usr/bin/*gcc*") ]]
  run tree_inside "$tree" ringup --version
  expect_status 0
  run tree_inside "$tree" ringup-init --undo
  expect_status 0
  [[ ! -e $tree/opt/ringup && -z $(find "$tree/usr/local" -type l -lname '*ringup*') ]]
}

# node_command TREE - the README's command for a node ends well, from a clone.
node_command() {
  mkdir -p "$1/clone"
  git -C "$src" archive HEAD 2>/dev/null | tar -x -C "$1/clone" || cp -r "$src"/. "$1/clone"
  run tree_inside "$1" /clone/init-scripts/ringup-init
  echo "$output" | tail -n 40
  expect_status 0
  [[ $output == *"shm "*"4 ranks agreed"* && $output == *"tcp "*"4 ranks agreed"* && $output == *"4 ranks agreed bit for bit"* ]]
  run tree_inside "$1" ringup-init --undo
  expect_status 0
}

@test "README's command for a node on Debian 11" { node_command "$old"; }

@test "README's command for a node on Debian 13" { node_command "$new"; }

@test "as root: the environment's own ringup-init takes what pip has installed" {
  run tree_inside "$tree" bash -c 'python3 -m venv /opt/venv && /opt/venv/bin/pip install -q --no-index --no-deps /dist/ringup-*manylinux*.whl && /opt/venv/bin/ringup-init'
  echo "$output" | tail -n 40
  expect_status 0
  [[ $output == *"as it was installed"* && $output == *"4 ranks agreed bit for bit"* ]]
  run tree_inside "$tree" bash -c '/opt/venv/bin/ringup-init --undo && /opt/venv/bin/python3 -m ringup && ls /opt/venv/bin/ringup{,-init}'
  echo "$output" | tail -n 40
  expect_status 0
}

@test "as root: the Ansible playbook sets a node up, and has nothing to change in the end" {
  fetched "$tree" 3.11 ansible-core
  cp "$src/packaging/recipes/ansible.yaml" "$tree/dist"
  run tree_inside "$tree" bash -c 'set -e; cd /dist; python3 -m venv /opt/ansible
    /opt/ansible/bin/pip install -q --no-index --find-links /dist/more ansible-core
    play() { /opt/ansible/bin/ansible-playbook -i localhost, -c local -e ansible_become=false -e venv=/opt/nodes -e wheel=/dist/"$(echo ringup-*manylinux*.whl)" ansible.yaml; }
    play; play; play; /opt/nodes/bin/ringup-init --undo'
  echo "$output" | tail -n 60
  expect_status 0
  # the second time it sees what the first has put in place
  [[ $(grep -c 'unreachable=0 .*failed=0 ' <<<"$output") -eq 3 ]]
  grep -q 'ok=[0-9]* *changed=0 ' <<<"$output"
}

@test "the packages of Debian are built, without an error by lintian, installed and used" {
  mkdir -p "$tree/build" && cp -r "$old/src" "$tree/build/ringup"
  run tree_inside "$tree" bash -c 'exec 2>&1; set -e; apt-get -q update; apt-get -q -y --no-install-recommends install \
    build-essential debhelper dh-python lintian autoconf automake libtool pkg-config libsodium-dev libmnl-dev libjansson-dev \
    libopenmpi-dev libmpich-dev ccache
    cd /build/ringup; PATH=/usr/lib/ccache:$PATH CCACHE_DIR=/build/ccache dpkg-buildpackage -b -us -uc
    cd ..; mkdir first; mv *.deb first
    lintian --fail-on error --no-tag-display-limit first/*.deb
    apt-get -q -y --no-install-recommends install ./first/libringup0_*.deb ./first/ringup_*.deb ./first/python3-ringup_*.deb'
  echo "$output" | tail -n 40
  expect_status 0
  run tree_inside "$tree" bash -c 'cd /tmp && ringup run -np 2 -- ringup hello && python3 -c "import ringup; ringup.init(); print(ringup.size())" && ringup-init --list'
  echo "$output"
  expect_status 0
  [[ $output == *"2 ranks on 1 host"* && $output == *70-verify* ]]
}

@test "the same sources in the same folder give the same packages" {
  # ccache keeps what the compiler makes of a file; linking, stripping and packing are done again.
  run tree_inside "$tree" bash -c 'exec 2>&1; set -e
    cd /build/ringup; PATH=/usr/lib/ccache:$PATH CCACHE_DIR=/build/ccache dpkg-buildpackage -b -us -uc
    cd ..; for f in first/*.deb; do cmp "$f" "${f#first/}"; done; ls first/*.deb | wc -l'
  echo "$output" | tail -n 20
  expect_status 0
  # and one of their debugging symbols for each with programs or libraries
  [[ ${lines[-1]} -ge 6 ]]
}
