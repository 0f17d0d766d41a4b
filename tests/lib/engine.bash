# shellcheck shell=bash disable=SC2034,SC2154
# engine.bash - a small engine with a recipe, and a small torch, both built in seconds.

# engine_tools - packages that a build without a network needs, and their metadata.
engine_tools=(pip setuptools _distutils_hack distutils-precedence.pth pkg_resources wheel packaging)

# engine_copy FROM TO - these packages, from one folder of packages to another.
engine_copy() {
  local name
  for name in "${engine_tools[@]}"; do
    cp -a "$1/$name" "$1/$name"-[0-9]*.dist-info "$2/" 2>/dev/null || true
  done
}

# engine_site PYTHON - its folder of packages.
engine_site() {
  "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
}

# engine_base DIR - an environment with what a build without a network needs, made once: from what the
# tests' Python has, for to install pip takes seconds, or else by pip.
engine_base() {
  local python=${RINGUP_TEST_PYTHON:-python3}
  "$python" -c 'import os, sysconfig, sys
sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' 2>/dev/null || return 1
  if "$python" -c 'import pip, packaging, setuptools, sys
sys.exit(tuple(map(int, setuptools.__version__.split(".")[:2])) < (70, 1))' 2>/dev/null; then
    "$python" -m venv --without-pip "$1" || return 1
    engine_copy "$(engine_site "$python")" "$(engine_site "$1/bin/python")"
  else
    python3 -m venv "$1" && "$1/bin/python" -m pip install -q setuptools wheel packaging >&2
  fi
}

# engine_wheels DIR - what a build needs, as files of the index that pip asks where no test says otherwise.
engine_wheels() {
  env -u PIP_INDEX_URL ${index:+"PIP_INDEX_URL=$index"} "$venv/bin/python" -m pip download -q --no-deps -d "$1" \
    setuptools wheel packaging >&2
}

# engine_sources DIR - the small engine: a module in C, a launcher, a package that averages.
engine_sources() {
  mkdir -p "$1/horovod/runner"
  printf 'old text\n' >"$1/edited.txt"
  cat >"$1/small.c" <<'C'
#include <Python.h>
static struct PyModuleDef module = { PyModuleDef_HEAD_INIT, "_small", 0, -1, 0, 0, 0, 0, 0 };
PyMODINIT_FUNC PyInit__small(void) { return PyModule_Create(&module); }
C
  cat >"$1/setup.py" <<'PY'
import os
import sys
from setuptools import Extension, setup
if "bdist_wheel" in sys.argv:
    assert open("edited.txt").read() == "new text\n"
    assert os.environ["HOROVOD_WITH_PYTORCH"] == os.environ["HOROVOD_WITHOUT_MPI"] == "1"
print("[ 50%] Building C object small.dir/small.c.o", flush=True)
setup(name="horovod", version="0.28.1", packages=["horovod", "horovod.runner"],
      package_data={"horovod": ["metadata.json"]},
      ext_modules=[Extension("horovod._small", ["small.c"])],
      entry_points={"console_scripts": ["horovodrun = horovod.runner.launch:run_commandline"]})
PY
  echo '__version__ = "0.28.1"' >"$1/horovod/__init__.py"
  echo '{"pytorch": "9.1"}' >"$1/horovod/metadata.json"
  : >"$1/horovod/runner/__init__.py"
  cat >"$1/horovod/runner/launch.py" <<'PY'
import os
import subprocess
import sys
def run_commandline():
    command = sys.argv[sys.argv.index("lo") + 1:]
    ranks = [subprocess.Popen(command, env=dict(os.environ, RANK=str(rank))) for rank in (0, 1)]
    sys.exit(max([rank.wait() for rank in ranks]))
PY
  cat >"$1/horovod/torch.py" <<'PY'
from horovod import _small
AVERAGES = True
def gloo_built():
    return True
PY
}

# engine_pack BAD - $sources as $sdist, and the recipe that knows its SHA-256 and a world that is BAD.
engine_pack() {
  tar -czf "$sdist" -C "${sources%/*}" "${sources##*/}"
  cp "$src/src/rebuild/recipes/apply.py" "$data/recipes"
  cat >"$data/recipes/horovod-0.28.1.json" <<R
{"name": "horovod", "version": "0.28.1", "index": "horovod==0.28.1", "file": "horovod-0.28.1.tar.gz", "needs": "",
 "sha256": "$(sha256sum <"$sdist" | cut -c 1-64)", "advisories": [{"id": "TEST-1", "text": "a known flaw"}],
 "bad": [$1], "env": [], "adds": [], "edits": [{"name": "text", "file": "edited.txt", "when": "torch>=2.1",
  "why": "it is needed", "match": "^old", "with": "new", "times": 1}]}
R
}

# engine_setup_file - what all tests of a file begin with.
engine_setup_file() {
  if engine_base "$BATS_FILE_TMPDIR/base" 2>/dev/null; then
    touch "$BATS_FILE_TMPDIR/base/done"
  fi
}

# engine_setup - an environment with torch 9.1 and horovod 0.1, the data of this program with a
# recipe for 0.28.1 and a proof, sources and a release; skips where that cannot be had.
engine_setup() {
  local name
  [[ -e $BATS_FILE_TMPDIR/base/done ]] || skip "no Python with Python.h and venv, or no setuptools and wheel to be had"
  # Folders that are only for this test also hold the build: any user can get there.
  chmod 755 "$BATS_TEST_TMPDIR"
  export TMPDIR=$BATS_TEST_TMPDIR/tmp
  mkdir "$TMPDIR"
  venv=$BATS_TEST_TMPDIR/venv
  # Links: nothing is written to these files in place.
  cp -al "$BATS_FILE_TMPDIR/base" "$venv"
  site=$(engine_site "$venv/bin/python")
  mkdir -p "$site/torch" "$site/torch-9.1.dist-info" "$site/horovod" "$site/horovod-0.1.dist-info"
  echo '__version__ = "9.1"' >"$site/torch/__init__.py"
  echo '__version__ = "9.1"' >"$site/torch/version.py"
  mkdir -p "$site/torch/include/torch"
  : >"$site/torch/include/torch/extension.h"
  echo '__version__ = "0.1"' >"$site/horovod/__init__.py"
  for name in torch-9.1 horovod-0.1; do
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "${name%-*}" "${name#*-}" \
      >"$site/$name.dist-info/METADATA"
    echo pip >"$site/$name.dist-info/INSTALLER"
    printf '%s/__init__.py,,\n%s.dist-info/METADATA,,\n%s.dist-info/RECORD,,\n' "${name%-*}" "$name" \
      "$name" >"$site/$name.dist-info/RECORD"
  done
  data=$BATS_TEST_TMPDIR/data
  mkdir -p "$data/recipes" "$data/proofs"
  cat >"$data/proofs/prove_torch.py" <<'PY'
import json
import os
import sys
import horovod.torch as hvd
rank = int(os.environ["RANK"])
weights = "same" if hvd.AVERAGES else str(rank)
with open(f"{sys.argv[1]}/rank-{rank}.json", "w") as f:
    json.dump(dict(rank=rank, size=2, weights=weights, off=0.0, alone=1.0, version="9.1"), f)
PY
  export RINGUP_TEST_DATA=$data
  sources=$BATS_TEST_TMPDIR/horovod-0.28.1 sdist=$BATS_TEST_TMPDIR/release/horovod-0.28.1.tar.gz
  mkdir "$BATS_TEST_TMPDIR/release"
  engine_sources "$sources"
  engine_pack ''
  index=${PIP_INDEX_URL:-}
  export PIP_INDEX_URL=file:///nowhere PIP_DISABLE_PIP_VERSION_CHECK=1
  unset PIP_FIND_LINKS PIP_EXTRA_INDEX_URL
}

# engine_teardown - logs that this test has made.
engine_teardown() {
  local log
  while read -r log; do
    rm -f -- "$log"
  done < <(grep -ohE '(/[^ "]+)+/rebuild-[0-9TZ]+-[0-9]+\.log' <<<"${stderr:-} ${output:-}")
}

# build STATUS ARG... - rebuild the small engine for the small torch.
build() {
  local want=$1
  shift
  run --separate-stderr ringup rebuild --engine horovod --python "$venv" --without-mpi "$@"
  expect_status "$want" || { echo "$stderr"; tail -n 20 "$BATS_TEST_TMPDIR"/log 2>/dev/null; return 1; }
}

# version - of the horovod that Python takes, "none" without one.
version() {
  "$venv/bin/python" -c 'import horovod; print(horovod.__version__)' 2>/dev/null || echo none
}

# for_all_users - the same environment, of a Python and in a folder that any user can reach.
for_all_users() {
  local there
  ((EUID == 0)) || skip "only root can be somebody else"
  command -v setpriv >/dev/null || skip "setpriv is not installed"
  /usr/bin/python3 -c 'import venv' 2>/dev/null || skip "/usr/bin/python3 makes no venv"
  setpriv --reuid=64717 --regid=64717 --clear-groups env test -x "$BATS_TEST_TMPDIR" ||
    chmod 755 "${BATS_TEST_TMPDIR%/*}" "$BATS_RUN_TMPDIR"
  /usr/bin/python3 -m venv --without-pip "$BATS_TEST_TMPDIR/other"
  there=("$BATS_TEST_TMPDIR"/other/lib/python3*/site-packages)
  engine_copy "$site" "${there[0]}"
  cp -r "$site"/{torch,horovod}* "${there[0]}/"
  venv=$BATS_TEST_TMPDIR/other site=${there[0]}
}

# because REASON STATUS ARG... - with --json it fails by that reason, with a sentence and a hint,
# and what was there is there.
because() {
  local want=$1 status=$2
  shift 2
  build "$status" --json "$@"
  [[ $(jq -r '[.result, .reason, (.error, .hint | length > 4)] | join(" ")' <<<"$output") == \
    "failed $want true true" && $(version) == 0.1 ]] || { echo "$output"; return 1; }
}
