# shellcheck shell=bash disable=SC2034,SC2154
# engine.bash - a small engine with a recipe, and a small torch: what takes seconds to build.

# engine_base DIR - an environment with what a build without a network needs, made once; in
# DIR/wheels that as files.
engine_base() {
  python3 -c 'import os, sysconfig, sys
sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' 2>/dev/null || return 1
  python3 -m venv "$1" || return 1
  "$1/bin/python" -m pip download -q --no-deps -d "$1/wheels" setuptools wheel packaging >&2 &&
    "$1/bin/python" -m pip install -q --no-index "$1"/wheels/*.whl >&2
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

# engine_pack - $sources as $sdist, and the recipe that knows its SHA-256.
engine_pack() {
  tar -czf "$sdist" -C "${sources%/*}" "${sources##*/}"
  cat >"$data/recipes/horovod-0.28.1.recipe" <<R
name horovod
version 0.28.1
index horovod==0.28.1
file horovod-0.28.1.tar.gz
sha256 $(sha256sum <"$sdist" | cut -c 1-64)
advisory TEST-1: a known flaw
edit text
  file edited.txt
  when torch>=2.1
  why it is needed
  match ^old
  with new
  times 1
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
  cp -a "$BATS_FILE_TMPDIR/base" "$venv"
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
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
  engine_pack
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
