#!/usr/bin/env bats
# frameworks.bats - steps 50 and 55: the Python that is served, and the engine rebuilt for it.
# needs: cpu
# tests: init-scripts tests/lib/release.bash src/detect src/rebuild/reason.h src/cli/cmd_detect.c

load ../lib/helper
load ../lib/release

setup() { release_setup; }

# python KEY=VALUE... - the tree's Python: a script that answers the probe with these.
python() {
  local pair
  mkdir -p "$root/usr/bin"
  for pair; do printf 'answer\t%s\t%s\n' "${pair%%=*}" "${pair#*=}"; done >"$T/says"
  printf '#!/bin/bash\n[[ $* != *"import horovod."* ]] || exec "%s" "$@"\n[[ $1 != -I ]] || cat "%s"\n' "$T/import" "$T/says" >"$root/usr/bin/python3"
  chmod +x "$root/usr/bin/python3"
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

@test "the package goes into the Python that has a framework and pip" {
  release_installed
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.13.0'
  run "$init" --root "$root" frameworks
  expect_status 0
  [[ $(cat "$T/installs") == "compat/install --python $root/usr/bin/python3" ]]
  [[ $output == *"torch 2.13.0"* && $(json 'f("frameworks")["package"]') == "ringup 0.1.0"* ]]
  run "$init" --root "$root" --undo
  grep -q -- '--uninstall$' "$T/installs"
}

# imports CASE... - what the tree's Python comes to when it imports Horovod, by the words of its program.
imports() {
  printf '#!/bin/bash\necho "$4" >>"%s"\ncase $4 in\n' "$T/imported" >"$T/import"
  printf '%s\n' "$@" 'esac' >>"$T/import"
  chmod +x "$T/import"
}

# served ARG... - ringup-init on the tree, by the steps that serve its Python; sets headline.
served() {
  run "$init" --root "$root" "$@" frameworks rebuild spark report
  headline=$(grep '^ringup .* on ' <<<"$output")
}

# in_place - the tree's Python has the package, as a rebuild leaves it.
in_place() {
  export SITE=$root/usr/lib/python3/dist-packages
  rm -rf "$SITE"
  mkdir -p "$SITE/ringup-0.1.0.dist-info"
  touch "$SITE/ringup-0.1.0.dist-info/METADATA"
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.13.0'
}

@test "a Horovod that works stays, and report, warning and next step say so, with the command that ends it" {
  release_installed
  python version=3.11.2 pip=yes managed= ringup= horovod=0.28.1 'frameworks=torch 2.13.0, keras 3.1'
  imports '*) ;;'
  served
  expect_status 0
  [[ $headline == *": ok, but $root/usr/bin/python3 uses upstream's Horovod 0.28.1, not ringup" ]]
  grep -q "^  warning .* uses upstream's Horovod 0.28.1, not ringup: 'ringup rebuild --engine ringup --python $root/usr/bin/python3' replaces it with ringup, and --undo restores it; ringup-init --engine ringup does" <<<"$output"
  grep -q "^  next  *ringup rebuild --engine ringup --python $root/usr/bin/python3, then ringup run" <<<"$output"
  [[ $(json 's["result"], len([w for w in s["warnings"] if "Horovod" in w]), f("frameworks")["horovod"], f("frameworks").get("package")') == \
    "('ok', 1, '0.28.1', None)" ]]
  # neither installed nor rebuilt, and only what this Python has was imported
  [[ ! -e $T/installs && ! -e $T/rebuilds && $(wc -l <"$T/imported") -eq 1 && $(<"$T/imported") == *horovod.torch* ]]
  served
  [[ $output == *"50-frameworks: already done"* && $headline == *"not ringup" && $(wc -l <"$T/imported") -eq 1 ]]
  # it goes, and ringup comes
  python version=3.11.3 pip=yes managed= ringup=0.1.0 horovod= 'frameworks=torch 2.13.0, keras 3.1'
  served
  [[ $headline == *": ok" && -e $T/installs ]]
}

@test "--engine ringup, or RINGUP_ENGINE, puts ringup in the place of Horovod, once; undo brings it back" {
  release_installed
  export SITE=
  python version=3.11.2 pip=yes managed= ringup= horovod=0.28.1 'frameworks=torch 2.13.0'
  imports '*) ;;'
  in=$root/usr/bin/python3
  mkdir -p "$root/databricks/spark/conf"
  SITE=$root/usr/lib/python3/dist-packages served --engine ringup
  expect_status 0
  [[ $headline == *": ok" && $output != *warning*Horovod* && ! -e $T/imported ]]
  [[ $(<"$T/rebuilds") == "rebuild --engine ringup --python $in --json" ]]
  grep -q "^  package  *ringup 9.9, replacing Horovod 0.28.1; ringup rebuild --engine ringup --python $in --undo restores it" <<<"$output"
  grep -q "^  next  *ringup run -np 4 -- $in your_training.py" <<<"$output"
  grep -q "PYSPARK_PYTHON:-/usr/bin/python3" "$root/databricks/spark/conf/spark-env.sh"
  in_place
  RINGUP_ENGINE=ringup served
  expect_status 0
  [[ $output == *"50-frameworks: already done"*"55-rebuild: already done"* && $(wc -l <"$T/rebuilds") -eq 1 ]]
  # a Horovod that comes back goes again, for that was asked for
  mkdir "$SITE/horovod-0.28.1.dist-info"
  RINGUP_ENGINE=ringup served
  [[ $(wc -l <"$T/rebuilds") -eq 2 ]]
  rmdir "$SITE/horovod-0.28.1.dist-info"
  run "$init" --root "$root" --undo
  expect_status 0
  [[ $(tail -n 1 "$T/rebuilds") == "rebuild --engine ringup --python $in --undo" ]]
  run "$init" --root "$root" --engine frob
  expect_status 2
  run "$init" --root "$root" --engine
  expect_status 2
}

@test "a Horovod that cannot be loaded is replaced, and a warning says so; one that may work elsewhere is not" {
  local symbol='echo "ImportError: /x/mpi_lib_v2.so: undefined symbol: _ZN3c105Error" >&2; exit 1'
  release_installed
  # broken for each framework there is
  for fault in "$symbol" 'kill -SEGV $$' "echo \"AttributeError: module 'horovod.torch' has no attribute 'init'\" >&2; exit 1"; do
    again installed
    python version=3.11.2 pip=yes managed= ringup= horovod=0.28.1 'frameworks=torch 2.13.0, tensorflow 2.20.0'
    imports "*horovod.torch*) $fault ;;" '*) echo "Traceback:"; printf "ImportError: Extension horovod.tensorflow has not been built: x not found\nIf this is not expected, reinstall\n" >&2; exit 1 ;;'
    served
    expect_status 0
    [[ $headline == *": ok" && $(<"$T/rebuilds") == "rebuild --engine ringup --python $root/usr/bin/python3 --json" ]]
    grep -q "^  warning .*Horovod 0.28.1 could not be loaded by $root/usr/bin/python3 (import horovod.torch: .*; import horovod.tensorflow: ImportError: Extension .*); ringup replaced it, and 'ringup rebuild .* --undo' restores it" <<<"$output"
    grep -q "^  next  *ringup run -np 4 -- $root" <<<"$output"
  done
  # then all is done
  in_place
  served
  served
  [[ $output == *"50-frameworks: already done"*"55-rebuild: already done"* && $(wc -l <"$T/rebuilds") -eq 1 && $headline == *": ok" ]]
  # one framework's works; a library is not on the path of this shell; it takes too long: it stays
  for fault in '*horovod.tensorflow*) ;;'$'\n'"*) $symbol ;;" \
    '*) echo "ImportError: libmpi.so.40: cannot open shared object file: No such file or directory" >&2; exit 1 ;;' '*) exit 124 ;;'; do
    again installed
    python version=3.11.2 pip=yes managed= ringup= horovod=0.28.1 'frameworks=torch 2.13.0, tensorflow 2.20.0'
    imports "$fault"
    served
    expect_status 0
    [[ $headline == *"uses upstream's Horovod 0.28.1, not ringup" && ! -e $T/rebuilds ]]
    grep -q "^  warning .*part of it cannot be loaded (import horovod.torch: .*'ringup rebuild --engine ringup" <<<"$output"
  done
}

@test "a Horovod that cannot be loaded, and that ringup cannot replace: said in report and warning" {
  release_installed
  python version=3.11.2 pip=yes managed= ringup= horovod=0.28.1 'frameworks=torch 2.13.0'
  imports '*) echo "ImportError: x: undefined symbol: y" >&2; exit 1 ;;'
  REBUILD='prove two ranks did not agree' served
  expect_status 0
  [[ $headline == *", but $root/usr/bin/python3 uses Horovod 0.28.1, which cannot be loaded, not ringup" ]]
  grep -q "^  warning .*and ringup could not replace it: two ranks did not agree; to retry: ringup rebuild --engine ringup --python $root/usr" <<<"$output"
  # it is tried again each time, until it goes well
  served
  [[ $headline == *": ok" && $(wc -l <"$T/rebuilds") -eq 2 ]]
  # asked for, it is a failure, and Horovod is where it was
  REBUILD='prove two ranks did not agree' served --engine ringup
  expect_status 70
}

@test "a Python without pip, as uv makes them, is served all the same" {
  release_installed
  python version=3.11.2 pip= managed= ringup=0.1.0 'frameworks=torch 2.13.0'
  run "$init" --root "$root" frameworks
  expect_status 0
  [[ ! -e $T/installs && $(<"$T/rebuilds") == "rebuild --engine ringup --without-mpi --python $root/usr/bin/python3" ]]
  [[ $(json 'f("frameworks")["package"]') == *"ringup rebuild --engine ringup --python $root/usr/bin/python3 --undo removes it" ]]
}

@test "no framework, a managed Python, another Horovod: skipped, with the reason" {
  release_installed
  python version=3.11.2 pip=yes managed= ringup= frameworks=
  run "$init" --root "$root" frameworks
  expect_status 0
  [[ $output == *"has no framework"* ]]
  python version=3.11.2 pip=yes managed=yes ringup= 'frameworks=torch 2.13.0'
  run "$init" --root "$root" frameworks
  expect_status 0
  [[ $output == *"the distribution manages"* && ! -e $T/installs ]]
  touch "$T/horovod"
  python version=3.11.3 pip=yes managed= ringup= 'frameworks=torch 2.13.0'
  run "$init" --root "$root" frameworks
  expect_status 0
  [[ $output == *"two packages called horovod"* && $output == *"ok, but $root/usr/bin/python3 uses another package, not ringup"* ]]
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
  release_installed
  touch "$T/real"
  mkdir -p "$root/usr/lib/python3.11" "$site/pip" "$site/torch"
  known torch 2.13.0
  known ringup 0.1.0
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.13.0' "metadata=$site/ringup-0.1.0.dist-info/METADATA"
  sed -i "1a echo asked >>'$T/asked'" "$root/usr/bin/python3"
  run "$init" --root "$root" frameworks
  expect_status 0
  [[ -s $T/asked ]]
  : >"$T/asked"
  run "$init" --root "$root" frameworks
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

@test "the frameworks are those that detect has found, by whatever names they were installed" {
  local site=$root/usr/lib/python3.11/site-packages
  release_installed
  touch "$T/real"
  python version=3.11.2 pip=yes managed= ringup=0.1.0 frameworks=
  ln -s python3 "$root/usr/bin/python3.11"
  local name
  mkdir -p "$site/tensorflow" "$site/keras" "$site/jax" "$site/pip"
  for name in tensorflow_cpu-2.15.1 keras-2.15.0 jax-0.4.30; do
    mkdir "$site/$name.dist-info"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "${name%-*}" "${name##*-}" >"$site/$name.dist-info/METADATA"
  done
  run "$init" --root "$root" frameworks report
  expect_status 0
  [[ $(json 'f("frameworks")["frameworks"]') == "tensorflow 2.15.1, keras 2.15.0, jax 0.4.30" ]]
  [[ $output == *"tensorflow 2.15.1, keras 2.15.0, jax 0.4.30"* ]]
  [[ $(cat "$T/installs") == "compat/install --python $root/usr/bin/python3" ]]
}

@test "an advisory is accepted by a setting here, and the way to a framework is an environment" {
  release_installed
  python version=3.11.2 pip= managed= ringup= frameworks=
  run "$init" --root "$root" frameworks
  expect_status 0
  [[ $output == *"/opt/venv/bin/pip install torch"* ]]
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.13.0'
  # what `ringup rebuild --json` says of it
  printf '{\n  "result": "failed",\n  "reason": "advisory",\n  "error": "CVE-1 (bad): to build it anyway, use --accept CVE-1",\n  "hint": "--accept CVE-1",\n  "plan": {}\n}\n' >"$T/refusal"
  sed -i "2i [[ \$1 != rebuild ]] || { cat '$T/refusal'; exit 1; }" "$root/opt/ringup/current/bin/ringup"
  RINGUP_ENGINE=horovod run "$init" --root "$root" frameworks rebuild
  expect_status 20
  echo "$output"
  [[ $output == *"ringup-init: the engine horovod was not rebuilt: CVE-1 (bad); to build it anyway, set RINGUP_ACCEPT=CVE-1;"* ]]
}

@test "a Python names its frameworks itself, by what it can import" {
  local v=$T/venv site probe
  python3 -m venv --without-pip "$v"
  site=$(echo "$v"/lib/python3.*/site-packages)
  probe=$(sed -n "/^probe='/,/^'/p" "$src/init-scripts/steps/50-frameworks.bash" | sed "1s/^probe='//; \$d")
  # says TEXT - the line about frameworks.
  says() { [[ $("$v/bin/python3" -I -B -c "$probe" | sed -n 's/^answer\tframeworks\t//p') == "$1" ]]; }
  says ''
  mkdir -p "$site/tensorflow" "$site/torch" "$site/tensorflow_cpu-2.15.1.dist-info" "$site/keras"
  says ''
  : >"$site/tensorflow/__init__.py"
  echo '__version__ = "2.13.0"' >"$site/torch/version.py"
  : >"$site/torch/__init__.py"
  printf 'Metadata-Version: 2.1\nName: tensorflow_cpu\nVersion: 2.15.1\n' >"$site/tensorflow_cpu-2.15.1.dist-info/METADATA"
  says 'tensorflow of unknown version, torch 2.13.0'
  echo 'tensorflow/__init__.py,,' >"$site/tensorflow_cpu-2.15.1.dist-info/RECORD"
  says 'tensorflow 2.15.1, torch 2.13.0'
}

@test "a managed Python is served when it is named" {
  release_installed
  python version=3.11.2 pip=yes managed=yes ringup=0.1.0 frameworks=
  RINGUP_PYTHON=/usr/bin/python3 run "$init" --root "$root" frameworks
  expect_status 0
  [[ $(cat "$T/installs") == "compat/install --python $root/usr/bin/python3" ]]
}

@test "root runs a Python as the user whose it is" {
  ((EUID == 0)) || skip "needs root"
  source "$src/init-scripts/lib/node.bash"
  local where
  is() { owner_of "$T/$1/python3" && [[ $REPLY == "$2 "* ]]; }
  for where in ours theirs linked loose; do
    mkdir -m 755 "$T/$where"
    : >"$T/$where/python3"
  done
  chmod 755 "$T"
  # Whose the folder is, the program, and the program that a link in root's folder leads to.
  chown 65534:65534 "$T/theirs"
  is theirs 65534
  [[ $(as_owner "$T/theirs/python3" id -u) == 65534 && $(as_owner "$T/ours/python3" id -u) == 0 ]]
  chown 65534 "$T/linked/python3"
  is linked 65534
  ln -sf ../theirs/python3 "$T/linked/python3"
  is linked 65534
  ln -s theirs "$T/folder"
  is folder 65534
  # What a third one can write, root runs as nobody.
  chown 1234 "$T/theirs/python3"
  not owner_of "$T/theirs/python3"
  [[ $REPLY == *"belongs to two users"* ]]
  chmod 777 "$T/loose"
  not owner_of "$T/loose/python3"
  [[ $REPLY == "every user can write to $T/loose" ]]
  run as_owner "$T/loose/python3" id -u
  expect_status 126
  [[ $output == *"root does not run $T/loose/python3: every user can write to $T/loose"* ]]
  chmod 775 "$T/loose"
  chgrp 1234 "$T/loose"
  not owner_of "$T/loose/python3"
  [[ $REPLY == *"can write to $T/loose" ]]
  chmod 1777 "$T/loose"
  is loose 0
}

@test "a Python that everybody can replace is not served, and the report says so" {
  ((EUID == 0)) || skip "needs root"
  release_installed
  python version=3.11.2 pip=yes managed= ringup= 'frameworks=torch 2.13.0'
  chmod 777 "$root/usr/bin"
  run "$init" --root "$root" frameworks
  expect_status 0
  echo "$output"
  [[ ! -e $T/installs && $output == *"root does not run"* ]]
}

@test "RINGUP_ENGINE: rebuilt for the frameworks there are, again when they change, and not otherwise" {
  release_installed
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.13.0'
  run "$init" --root "$root" frameworks rebuild
  expect_status 0
  [[ ! -e $T/rebuilds ]]
  RINGUP_ENGINE=horovod run "$init" --root "$root" frameworks rebuild
  expect_status 0
  [[ $(cat "$T/rebuilds") == "rebuild --engine horovod --python $root/usr/bin/python3 --json" ]]
  RINGUP_ENGINE=horovod run "$init" --root "$root" frameworks rebuild
  expect_status 0
  [[ $(wc -l <"$T/rebuilds") == 1 ]]
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.14.0'
  RINGUP_ENGINE=horovod RINGUP_OFFLINE=1 RINGUP_ACCEPT='CVE-1 CVE-2' run "$init" --root "$root" frameworks rebuild
  expect_status 0
  [[ $(tail -n 1 "$T/rebuilds") == *"--offline accepts CVE-1 CVE-2" && $(wc -l <"$T/rebuilds") == 2 ]]
  # the driver builds at once, others give it time
  export WAITS=1 RINGUP_ENGINE=horovod RINGUP_CACHE_WAIT_MS=50000
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.15.0'
  DB_IS_DRIVER=FALSE run "$init" --root "$root" frameworks rebuild
  [[ $(tail -n 1 "$T/rebuilds") == *" waits 50000" ]]
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.16.0'
  DB_IS_DRIVER=TRUE run "$init" --root "$root" frameworks rebuild
  [[ $(tail -n 1 "$T/rebuilds") == *" waits 0" ]]
  RINGUP_ENGINE=horovot run "$init" --root "$root" frameworks rebuild
  expect_status 2
}

@test "an engine that cannot be rebuilt: the documented status for each reason" {
  release_installed
  python version=3.11.2 pip=yes managed= ringup=0.1.0 'frameworks=torch 2.13.0'
  "$init" --root "$root" frameworks
  export RINGUP_ENGINE=horovod
  while read -r reason code; do
    REBUILD="$reason the compiler, which is \\\"g++\\\", ended with status 1" run "$init" --root "$root" rebuild
    expect_status "$code"
    [[ $output == *'not rebuilt: the compiler, which is "g++", ended with status 1; do "this"; the previous'* ]]
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
  REBUILD=crash run "$init" --root "$root" rebuild
  expect_status 50
  [[ $output == *"ringup rebuild ended with status 9"* ]]
  rm "$root/usr/bin/python3"
  run "$init" --root "$root" frameworks rebuild
  expect_status 20
}
