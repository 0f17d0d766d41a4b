# shellcheck shell=bash
# 50-frameworks.bash - find the frameworks of this node, and install ringup's package for their Python.

limits 50 300

tool=$INIT_ROOT/opt/ringup/current/bin/ringup
shared=$INIT_ROOT/opt/ringup/current/share/ringup

# What one Python knows of itself, a KEY<tab>VALUE a line; imports no framework.  A framework is what
# can be imported, whatever the distribution is called that brought it: tensorflow_cpu, tf_nightly.
probe='
import importlib.metadata as m, importlib.util as u, os, re, sys, sysconfig
def version(name):
    try: return m.version(name)
    except Exception: return ""
def brings(dist, name):
    tops = (dist.read_text("top_level.txt") or "").split()
    return name in tops or "\n%s/__init__.py," % name in "\n" + (dist.read_text("RECORD") or "")
def own(folder):
    for part in ("version.py", "src/version.py", "__init__.py"):
        try: text = open(os.path.join(folder, part), errors="replace").read()
        except OSError: continue
        found = re.search("(?m)^_{0,2}(?:version|VERSION)_{0,2}(?: *:[^=]*)? *= *.([0-9][0-9A-Za-z.+]*)", text)
        if found: return found.group(1)
    return ""
def framework(name):
    try: spec = u.find_spec(name)
    except Exception: spec = None
    if not spec or not spec.origin: return ""
    if version(name): return version(name)
    for dist in m.distributions():
        try:
            if brings(dist, name) and dist.version: return dist.version
        except Exception: pass
    return own(os.path.dirname(spec.origin)) or "of unknown version"
def say(key, value): print("answer\t%s\t%s" % (key, value))
say("version", sys.version.split()[0])
say("pip", "yes" if u.find_spec("pip") else "")
managed = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
say("managed", "yes" if sys.prefix == sys.base_prefix and os.path.exists(managed) else "")
for name in "ringup", "horovod": say(name, version(name))
try: say("metadata", [f.locate() for f in m.files("ringup") if f.name == "METADATA"][0])
except Exception: pass
have = [(n, framework(n)) for n in ("tensorflow", "torch", "keras", "tf_keras", "jax", "mxnet")]
say("frameworks", ", ".join("%s %s" % p for p in have if p[1]))
'

# known_frameworks PYTHON - set REPLY to what detect.json has of it, "torch 2.13.0, keras 3.15.1"; it
# has other names there.
known_frameworks() {
  local - line value name='' version='' text IFS=$'\n'
  set -f
  slurp "$INIT_STATE/detect.json"
  [[ $REPLY == *$'\n  "frameworks"'* ]] || REPLY=''
  text=${REPLY#*$'\n  "frameworks"'} REPLY=''
  for line in ${text%%$'\n  ]'*}; do
    value=${line#*: \"} value=${value%\"*}
    case $line in
      '      "name": '*) name=$value version='' ;;
      '      "version": "'*) version=$value ;;
      '      "python": "/'*) value=$INIT_ROOT$value
        [[ ! $1 -ef $value || ! ${1%/*} -ef ${value%/*} ]] || REPLY+="${REPLY:+, }$name ${version:-of unknown version}" ;;
    esac
  done
}

# ask PYTHON - fill the array is with what the probe prints, and with the frameworks that detect has
# found, as all steps have them; fails if it does not run.
ask() {
  local word key value
  is=()
  while IFS=$'\t' read -r word key value; do
    [[ $word != answer ]] || is[$key]=$value
  done < <(as_owner "$1" timeout "$(( 30 * INIT_PACE ))" "$1" -I -B -c "$probe" 2>/dev/null)
  [[ -n ${is[version]:-} ]] || return 1
  known_frameworks "$1"
  [[ -z $REPLY ]] || is[frameworks]=$REPLY
}

# candidates - print the Pythons that may be served: the one node_python names, then
# those for which `ringup detect` has found a framework, and environments below /opt (unless one was named).
candidates() {
  node_python
  [[ -z ${RINGUP_PYTHON:-} && -r $INIT_STATE/detect.json ]] || return 0
  local p
  while read -r p; do printf '%s\n' "$INIT_ROOT$p"; done < <(
    sed -n 's/.*"python": *"\(\/[^"\\]*\)".*/\1/p' "$INIT_STATE/detect.json" | sort -u)
  for p in "$INIT_ROOT"/opt/*/bin/python3; do [[ ! -x $p ]] || printf '%s\n' "$p"; done
}

# pick_once - pick, unless that has been done in this process.
pick_once() {
  [[ -n $picked ]] || { pick || true; }
  picked=1
}

# pick - set python to the first candidate with a framework, else to the first.
pick() {
  local p first='' last=''
  python='' refused=''
  while read -r p; do
    if [[ -z $p || ! -x $p || $p == "$last" ]]; then continue; fi
    last=$p
    (( EUID )) || owner_of "$p" || { refused="root does not run $p: $REPLY; correct its owner or mode (chown, chmod go-w), or set RINGUP_PYTHON to another Python"; continue; }
    ask "$p" || continue
    first=${first:-$p}
    [[ -n ${is[frameworks]} ]] && python=$p && return 0
  done < <(candidates)
  python=$first
  # whoever was asked last has just told
  [[ -z $python || $python == "$last" ]] || ask "$python"
}

declare -A is=()
declare -a programs=()
python='' picked='' found='' refused=''

# step_look - what `ringup detect` finds; it reads what a Python would tell, and starts none.
step_look() {
  found=''
  [[ ! -x $tool ]] || found=$("$tool" detect --json 2>/dev/null) || true
}

# about_pythons - print what detect does not tell of the Pythons that it has found, but the probe
# would: pip, who manages them, another Horovod (unless 55-rebuild takes its place); sets programs.
about_pythons() {
  local - line value series='' name='' IFS=$'\n'
  set -f
  for line in ${found%%$'\n  "frameworks"'*}; do
    value=${line#*\"/} value=$INIT_ROOT/${value%\"*}
    case $line in
      '      "path": "/'*) programs+=("$value") ;;
      '      "version": "'*) [[ ! $line =~ [0-9]+\.[0-9]+ ]] || series=${BASH_REMATCH[0]} ;;
      '      "base_prefix": "/'*) value+=/lib/python$series/EXTERNALLY-MANAGED; [[ ! -e $value ]] || printf '%s\n' "$value" ;;
      '        "/'*) [[ ! -e $value/pip ]] || printf '%s\n' "$value/pip" ;;
    esac
  done
  [[ ${RINGUP_ENGINE:-} != ringup ]] || return 0
  for line in ${found##*$'\n  "engines"'}; do
    case $line in
      '      "name": '*) name=$line ;;
      '      "version": '* | '      "location": '*) [[ $name != *'"horovod"'* ]] || printf '%s\n' "$line" ;;
    esac
  done
}

# is_found PYTHON - is that one of those that detect has found?  By its folder: it has many names.
is_found() {
  local program
  for program in "${programs[@]}"; do [[ ! ${1%/*} -ef ${program%/*} ]] || return 0; done
  return 1
}

# step_inputs - the Pythons and frameworks of this node, and what they stand on; not ringup's
# engines, which are what comes of it.
step_inputs() {
  local served
  engine_current
  printf '\n%s\n%s\n%s\n' "${RINGUP_PYTHON:-}" "${RINGUP_ENGINE:-}" "${found%%$'\n  "engines"'*}"
  about_pythons
  served=$(node_python)
  [[ -z $served ]] || stat -Lc '%u %g %a' -- "$served" "${served%/*}" 2>/dev/null || true
  if [[ -z $served ]] || is_found "$served"; then
    printf '%s\n' "$served"
    stat -Lc '%n %i %s %Y' -- "${programs[@]}" 2>/dev/null || true
  else
    pick_once
    [[ ${RINGUP_ENGINE:-} != ringup ]] || is[horovod]=''
    printf '%s\n' "$python" "${is[version]:-}" "${is[pip]:-}" "${is[managed]:-}" "${is[horovod]:-}" "${is[frameworks]:-}"
  fi
}

# step_done - the Python has the package: its metadata is where it was, or, after step_apply, the
# Python tells.  A Horovod that is there stays, or is 55-rebuild's to replace.
step_done() {
  [[ -r $INIT_STATE/detect.json ]] || return 1
  if [[ $'\n'${marker_said:-} == *$'\nfact\thorovod\t'* ]]; then
    return 0
  elif [[ $'\n'${marker_said:-} == *$'\nmetadata\t'* ]]; then
    noted 50-frameworks metadata
    [[ -r $REPLY ]]
  else
    pick_once
    [[ -n ${is[ringup]:-}${is[horovod]:-} ]]
  fi
}

# The way to a Python that may be served: a fresh Debian's own has no pip, and is not to be changed.
venv='create an environment (python3 -m venv /opt/venv; on Debian, apt-get install python3-venv first) and install a framework there (/opt/venv/bin/pip install torch)'

# unusable - print why RINGUP_PYTHON cannot be used.
unusable() {
  local p
  p=$(node_python)
  if [[ -L $p && ! -e $p ]]; then
    echo "RINGUP_PYTHON=$RINGUP_PYTHON leads to $(readlink -m -- "$p"), which was removed; recreate the environment"
  elif [[ ! -e $p ]]; then
    echo "RINGUP_PYTHON=$RINGUP_PYTHON does not exist; correct the path, or create the environment"
  else
    echo "RINGUP_PYTHON=$RINGUP_PYTHON does not start as a Python; name an interpreter, such as /opt/venv/bin/python3"
  fi
}

# reason - print why no package is installed, or nothing.
reason() {
  if [[ ! -x $shared/compat/install ]]; then
    echo "this release has no Python package"
  elif [[ -z $python && -n $refused ]]; then
    echo "$refused"
  elif [[ -z $python && -n ${RINGUP_PYTHON:-} ]]; then
    unusable
  elif [[ -z $python ]]; then
    echo "no Python on this node; install one, or name it in RINGUP_PYTHON"
  elif [[ -z ${is[frameworks]} && -z ${RINGUP_PYTHON:-} ]]; then
    echo "$python has no framework; $venv; if another Python has one, run ringup-init again with RINGUP_PYTHON=/path/to/python3"
  elif [[ -n ${is[managed]} && -z ${RINGUP_PYTHON:-} ]]; then
    echo "the distribution manages $python; $venv, or use it anyway with RINGUP_PYTHON=$python"
  fi
}

# install_package - as a wheel, so that pip lists it and pip removes it, or without pip, as uv leaves its
# environments; prints why if another Horovod is in the way.
install_package() {
  local said rc=0
  local -a how=("$shared/compat/install")
  [[ -n ${is[pip]} ]] || how=("$tool" rebuild --engine ringup --without-mpi)
  said=$(umask 022 && as_owner "$python" timeout "$(( 120 * INIT_PACE ))" "${how[@]}" --python "$python" 2>&1) || rc=$?
  printf '%s\n' "$said" >&2
  case $rc in
    0) ;;
    1)
      [[ -n ${is[pip]} ]] || said="$python has no pip, and $(grep -m 1 '^ringup rebuild: ' <<<"$said" || echo 'ringup rebuild failed')"
      printf '%s\n' "${said//$'\n'/; }" ;;
    124) die "the package could not be installed in $python within $(( 120 * INIT_PACE )) s" ;;
    *) die "the package could not be installed in $python: $(tail -n 1 <<<"$said")" ;;
  esac
}

# trial FRAMEWORK - print why the Horovod of this Python cannot be imported for the framework, or nothing.
trial() {
  local said rc=0
  # where its library for torch is missing, Horovod 0.28's import goes well, but there is no init
  said=$(as_owner "$python" timeout "$(( 60 * INIT_PACE ))" "$python" -I -B -c "import horovod.$1 as hvd; hvd.init" 2>&1 >/dev/null) || rc=$?
  (( rc )) || return 0
  said=$(grep -E '^[A-Za-z_.]+: ' <<<"$said" | tail -n 1) || true
  (( rc < 128 )) || said="killed by signal $(( rc - 128 ))"
  (( rc != 124 )) || said="it did not end within $(( 60 * INIT_PACE )) s"
  printf '%s\n' "${said:-it ended with status $rc}"
}

# try_horovod - import the Horovod of this Python for each of its frameworks.  Sets works to the frameworks
# for which the import succeeds, and fault to the errors of the others.  Sets hopeless if no import
# succeeds and no setting of a user's shell, such as the path of a library, could mend that.
try_horovod() {
  local name text sure=yes
  works='' fault='' hopeless=''
  for name in torch tensorflow mxnet; do
    [[ ", ${is[frameworks]}" == *", $name "* ]] || continue
    text=$(trial "$name")
    if [[ -z $text ]]; then
      works+="${works:+, }$name"
      continue
    fi
    fault+="${fault:+; }import horovod.$name: ${text:0:200}"
    case $text in
      *'undefined symbol'* | *'has not been built'* | *"no attribute 'init'"* | *'signal 11' | *'signal 6') ;;
      *) sure='' ;;
    esac
  done
  [[ -n $works || -z $fault ]] || hopeless=$sure
}

# judge_horovod - there is a Horovod that is not ringup's: say so, and how ringup takes its place.
# Unasked, 55-rebuild puts ringup in the place of one that cannot be loaded, and of no other.
judge_horovod() {
  local works fault hopeless put="ringup rebuild --engine ringup --python $python"
  fact horovod "${is[horovod]}"
  [[ -z ${RINGUP_ENGINE:-} ]] || return 0
  try_horovod
  if [[ -n $hopeless ]]; then
    log warn "Horovod ${is[horovod]} of $python cannot be loaded ($fault); 55-rebuild will replace it with ringup"
    fact broken "$fault"
    return 0
  fi
  fact other "upstream's Horovod ${is[horovod]}"
  warn "$python uses upstream's Horovod ${is[horovod]}, not ringup${fault:+, and part of it cannot be loaded ($fault)}:" \
    "'$put' replaces it with ringup, and --undo restores it; ringup-init --engine ringup does the same"
}

# step_apply - take stock, then install the package.
step_apply() {
  local why
  if [[ ${DRY_RUN:-0} == 1 ]]; then
    pick
    log act "ringup detect; install the Python package ringup in ${python:-no Python: skipped}"
    [[ -z ${is[horovod]:-} ]] || log act "55-rebuild decides whether Horovod ${is[horovod]} stays there"
    return 0
  fi
  [[ -x $tool ]] || die "ringup is not installed yet"
  node_inventory "$tool"
  pick
  why=$(reason)
  [[ -z $refused || $why == "$refused" ]] || warn "$refused"
  if [[ -n $python ]]; then
    fact python "$python (${is[version]})"
    fact path "$python"
    [[ -z ${is[frameworks]} ]] || fact frameworks "${is[frameworks]}"
  fi
  if [[ -z $why && -n ${is[horovod]:-} ]]; then
    judge_horovod
    return 0
  fi
  # What is there already, 55-rebuild compares and brings up to date.
  if [[ -z $why ]] && [[ -z ${is[ringup]} || -n $INIT_ROOT ]]; then
    why=$(install_package)
    [[ -z $why || $why == *" has no pip, and "* ]] || fact other "another package"
  fi
  if [[ -n $why ]]; then
    skip "$why"
    return 0
  fi
  tell had "${is[ringup]:-}"
  ask "$python"
  [[ -z ${is[metadata]:-} ]] || tell metadata "${is[metadata]}"
  if [[ -n ${is[pip]} ]]; then
    fact package "ringup ${is[ringup]}; pip uninstall ringup removes it"
  else
    fact package "ringup ${is[ringup]}; ringup rebuild --engine ringup --python $python --undo removes it"
  fi
}

# step_undo - uninstall the package where it was installed.
step_undo() {
  local from
  noted 50-frameworks $'fact\tpath'; from=$REPLY
  noted 50-frameworks $'fact\tpackage'
  [[ -n $REPLY ]] || return 0
  # what pip had installed stays, and this script with it
  own_program "$from"
  [[ -z $REPLY ]] || return 0
  ask "$from" && [[ -n ${is[ringup]} ]] || return 0
  if [[ -n ${is[pip]} ]]; then
    act as_owner "$from" "$shared/compat/install" --python "$from" --uninstall
  else
    act as_owner "$from" "$tool" rebuild --engine ringup --python "$from" --undo
  fi
}

# step_back - a later step has failed: the package that was there before, or none.
step_back() {
  noted 50-frameworks had
  [[ -n $REPLY ]] || { step_undo; return; }
  log warn "the Python package of this release stays, and replaces $REPLY"
}
