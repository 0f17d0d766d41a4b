# shellcheck shell=bash disable=SC2034,SC2154
# release.bash - a release of ringup that is quick to build, for tests of ringup-init on a tree.

# A file's tests use one folder, one after the other, so that what a tarball, a script or a trace
# says of its place stays true when the folder is put back as it was.

# release_setup - a runner, an empty root and a release that is quick to build, in the folder $T.
release_setup() {
  export T=$BATS_FILE_TMPDIR/t SLEEP=true
  init=$T/init-scripts/ringup-init
  root=$T/root
  state=$root/var/lib/ringup
  export RINGUP_SOURCE=$T/ringup-9.9.tar.gz
  unset DB_IS_DRIVER DB_CONTAINER_IP DB_DRIVER_IP DATABRICKS_RUNTIME_VERSION RINGUP_PYTHON
  PATH=$BATS_FILE_TMPDIR/bin:$PATH
  if [[ ! -d $BATS_FILE_TMPDIR/fresh ]]; then
    python_direct
    mkdir -p "$T/init-scripts" "$T/root"/{etc,opt,usr/local,var}
    cp -r "$src"/init-scripts/{lib,steps,ringup-init} "$T/init-scripts"
    chmod -R u+w "$T/init-scripts"
    release 9.9
    keep fresh
  fi
  again fresh
}

# keep NAME - note how the folder is now.
keep() { cp -a "$T" "$BATS_FILE_TMPDIR/$1.new" && mv "$BATS_FILE_TMPDIR/$1.new" "$BATS_FILE_TMPDIR/$1"; }

# again NAME - the folder as it was when that was noted, to its times.
again() { rm -rf "$T" && cp -a "$BATS_FILE_TMPDIR/$1" "$T"; }

# release_installed - the folder after ringup-init has ended well there; its words are in $T/first.
release_installed() {
  if [[ ! -d $BATS_FILE_TMPDIR/installed ]]; then
    "$init" --root "$root" >"$T/first" 2>&1 || { cat "$T/first"; return 1; }
    keep installed
  fi
  again installed
}

# python_direct - put python3 itself first in PATH, where it is a script that looks for one (pyenv).
python_direct() {
  mkdir -p "$BATS_FILE_TMPDIR/bin"
  ln -sfn "$(python3 -c 'import sys; print(sys.executable)')" "$BATS_FILE_TMPDIR/bin/python3"
}

# release VERSION [BROKEN] - make a tarball whose `ringup` is a script that says what the real
# one says; BROKEN is configure, make, start or bench.
release() {
  local d=$T/make/ringup-$1
  mkdir -p "$d/src" "$d/init-scripts/lib"
  echo "AC_INIT([ringup], [$1])" >"$d/configure.ac"
  touch "$d/src/ringup.h"
  cat >"$d/ringup" <<EOT
#!/bin/bash
case "\$1 \$2" in
  help*) [[ "${2:-}" != start ]] ;;
  "detect --json") [[ ! -e $T/real ]] || exec ringup detect --json
    echo '{"pythons": [], "frameworks": []}' ;;
  "net fix") f=\$RINGUP_ROOT/etc/nccl.conf
    case "\$*" in
      *--undo*) rm -f "\$f" ;;
      *--json*) p=null; [[ -e \$f ]] || p='"+ NCCL"'
        printf '{\n  "interface": "eth9",\n  "address": "10.1.2.3",\n  "files": [\n    {\n      "patch": %s\n    }\n  ]\n}\n' "\$p" ;;
      *--dry-run*) [[ -e \$f ]] || echo "would write \$f" ;;
      *) [[ -z "\${NET:-}" ]] || { echo "ringup net fix: \$NET" >&2; exit "\${NET_STATUS:-1}"; }
        echo "NCCL_SOCKET_IFNAME==eth9" >"\$f" ;;
    esac ;;
  "bench allreduce") [[ -z "\${CHANGE:-}" ]] || until [[ -s \$T/watcher ]]; do sleep 0.05; done
    [[ "${2:-}" != bench ]] || { echo 'rank 2: element 7 is 3, not 6' >&2; exit 3; }
    echo "{\"backend\":\"\$6\",\"ranks\":\$4,\"busbw_gbs\":1.25,\"wrong\":0}" ;;
  "net watch") echo "2026-01-01T00:00:00.000Z watching 2 interfaces"
    [[ -z "\${CHANGE:-}" ]] || echo "2026-01-01T00:00:01.000Z \$CHANGE"
    echo "\$\$" >"\$T/watcher"
    exec sleep 100 ;;
  "cache put") exec ringup "\$@" ;;
  "rebuild "*) echo "\$*\${RINGUP_ACCEPT:+ accepts \$RINGUP_ACCEPT}\${WAITS:+ waits \$RINGUP_CACHE_WAIT_MS}" >>"\$T/rebuilds"; [[ "\${REBUILD:-}" != crash ]] || exit 9
    [[ -z "\${REBUILD:-}" ]] || { printf '{\n  "result": "failed",\n  "reason": "%s",\n  "error": "%s",\n  "hint": "do \\\\"this\\\\"",\n  "plan": {}\n}\n' "\${REBUILD%% *}" "\${REBUILD#* }"; exit 1; }
    printf '{\n  "result": "done",\n  "reason": null,\n  "site": "%s"\n}\n' "\${SITE:-/a/site}" ;;
  "net check") echo "\$*" >>"\$T/checks"
    echo "\${VERDICT:-no problems between 2 nodes}"
    [[ -z "\${VERDICT:-}" ]] ;;
  "run "*) [[ ! -e \$T/training ]] || exec bash "\$T/training"
    echo '{"framework": "plain Python", "steps": 20, "step_ms": 0.5}' ;;
  *) exit 2 ;;
esac
EOT
  cat >"$d/configure" <<EOT
#!/bin/sh
[ "${2:-}" != configure ] || { echo 'configure: error: no libsodium'; exit 1; }
src=\$(dirname "\$0")
echo built >>"$T/builds"
[ ! -e "$T/slow" ] || echo \$\$ >"$T/slow.pid"
while [ -e "$T/slow" ]; do sleep 0.05; done
printf 'all:\n\t[ "${2:-}" != make ]\ninstall:\n\tmkdir -p \$(DESTDIR)/opt/ringup/current/share/ringup \$(DESTDIR)/opt/ringup/current/bin \$(DESTDIR)/opt/ringup/current/lib/pkgconfig\n\tcp %s/ringup \$(DESTDIR)/opt/ringup/current/bin\n\tcp -r %s/compat \$(DESTDIR)/opt/ringup/current/share/ringup\n\ttouch \$(DESTDIR)/opt/ringup/current/lib/pkgconfig/ringup.pc\n\techo v$1 >\$(DESTDIR)/opt/ringup/current/lib/libringup.so\n' "\$src" "\$src" >Makefile
EOT
  mkdir -p "$d/compat/python/ringup"
  touch "$d/compat/python/ringup/__init__.py"
  cat >"$d/compat/install" <<'EOT'
#!/bin/bash
echo "compat/install $*" >>"$T/installs"
[[ ! -e $T/horovod ]] || { echo "Horovod 0.28.1 is installed; two packages called horovod cannot live together"; exit 1; }
EOT
  chmod +x "$d/configure" "$d/ringup" "$d/compat/install"
  tar -C "$T/make" -czf "$T/ringup-$1.tar.gz" "ringup-$1"
}

# json EXPR - print a Python expression of s, the status; f(NAME) are a step's facts.
json() {
  python3 -c "import json, sys
s = json.load(open(sys.argv[1]))
f = lambda n: next(t for t in s['steps'] if n in t['name'])['facts']
v = ($1); print(v)" "$state/status.json"
}

# tree DIR - print a hash of everything below DIR but run: names, modes, contents, times.
tree() {
  (cd "$1" && find . -path ./run -prune -o -printf '%P %m %l %T@\n' | sort; find "$1" -path "$1/run" -prune -o -type f -print0 |
    sort -z | xargs -0r cat) | sha256sum
}
