# shellcheck shell=bash
# node.bash - find out from files and variables what kind of node this is.

# node_platform - print databricks, dataproc, emr, slurm or generic.
node_platform() {
  if [[ -n ${DATABRICKS_RUNTIME_VERSION:-} || -d $INIT_ROOT/databricks ]]; then
    echo databricks
  elif [[ -n ${DATAPROC_IMAGE_VERSION:-} || -d $INIT_ROOT/etc/google-dataproc ]]; then
    echo dataproc
  elif [[ -e ${INIT_ROOT}/mnt/var/lib/info/instance.json ]]; then
    echo emr
  elif [[ -n ${SLURM_JOB_ID:-} ]]; then
    echo slurm
  else
    echo generic
  fi
}

# node_metadata NAME - print an attribute that Dataproc gave this node, or nothing.
node_metadata() {
  local ask=$INIT_ROOT/usr/share/google/get_metadata_value
  [[ ! -x $ask ]] || timeout 5 "$ask" "attributes/$1" 2>/dev/null | head -c 256 | head -n 1 || true
}

# node_info FILE KEY - print what EMR has written down of this node, or nothing.
node_info() {
  local file=${INIT_ROOT}/mnt/var/lib/info/$1
  [[ ! -r $file ]] || json_of "$2" "$(head -c 65536 -- "$file" | tr -d ' \n\t' | tr , '\n')"
}

# node_cluster - print what the platform calls the cluster or job, or nothing.
node_cluster() {
  case $(node_platform) in
    databricks) printf '%s\n' "${DB_CLUSTER_ID:-}" ;;
    dataproc) node_metadata dataproc-cluster-name ;;
    emr) node_info job-flow.json jobFlowId ;;
    *) printf '%s\n' "${DB_CLUSTER_ID:-${SLURM_JOB_ID:-}}" ;;
  esac
}

# node_runtime - print the version of the platform's image, or nothing.
node_runtime() {
  local line='' conf=$INIT_ROOT/databricks/common/conf/deploy.conf
  if [[ -n ${DATABRICKS_RUNTIME_VERSION:-}${DATAPROC_IMAGE_VERSION:-} ]]; then
    printf '%s\n' "${DATABRICKS_RUNTIME_VERSION:-$DATAPROC_IMAGE_VERSION}"
  elif [[ -r $INIT_ROOT/databricks/DBR_VERSION ]]; then
    IFS= read -r -n 64 line <"$INIT_ROOT/databricks/DBR_VERSION" || true
    printf '%s\n' "$line"
  elif [[ -r $conf ]]; then
    sed -n 's/.*clusterUsageTags\.sparkVersion *= *"\([^"]*\)".*/\1/p' "$conf" | head -n 1
  fi
}

# is_address TEXT - is it an IPv4 or IPv6 address, as far as its shape goes?
is_address() {
  [[ $1 =~ ^([0-9]{1,3}\.){3}[0-9]{1,3}$ || ( $1 == *:* && $1 =~ ^[0-9a-fA-F:.]{2,45}$ ) ]]
}

# node_role - print driver, executor or single; stops on values that contradict.
node_role() {
  case $(node_platform) in
    dataproc) node_called "$(node_metadata dataproc-role)" Master Worker ;;
    emr) node_called "$(node_info instance.json isMaster)" true false ;;
    slurm) node_called "${SLURM_NODEID:-}" 0 '[1-9]*' ;;
    *) node_databricks ;;
  esac
}

# node_called WORD DRIVER EXECUTOR - print the role of the node that the platform calls WORD.
node_called() {
  # shellcheck disable=SC2254
  case $1 in
    $2) echo driver ;;
    $3) echo executor ;;
    *) echo single ;;
  esac
}

# node_databricks - the same by what Databricks sets.
node_databricks() {
  local name
  for name in DB_CONTAINER_IP DB_DRIVER_IP; do
    [[ -z ${!name:-} ]] || is_address "${!name}" ||
      stop 10 "$name is not an address: ${!name}" "the platform sets it; do not set it yourself"
  done
  case ${DB_IS_DRIVER:-} in
    TRUE | true) echo driver ;;
    FALSE | false) echo executor ;;
    '')
      if [[ -z ${DB_DRIVER_IP:-} ]]; then
        echo single
      elif [[ $DB_DRIVER_IP == "${DB_CONTAINER_IP:-}" ]]; then
        echo driver
      else
        echo executor
      fi ;;
    *) stop 10 "DB_IS_DRIVER is neither TRUE nor FALSE: $DB_IS_DRIVER" "the platform sets it; do not set it yourself" ;;
  esac
}

# node_system - print the distribution's name, such as Debian GNU/Linux 12 (bookworm).
node_system() {
  local line name=''
  while [[ -r $INIT_ROOT/etc/os-release ]] && IFS= read -r line; do
    [[ $line != PRETTY_NAME=* ]] || name=${line#PRETTY_NAME=}
  done 2>/dev/null <"$INIT_ROOT/etc/os-release" || true
  name=${name#\"}
  printf '%s\n' "${name%\"}"
}

# node_arch - print the machine's name, as `uname -m` does.
node_arch() {
  slurp /proc/sys/kernel/arch
  if [[ -n $REPLY ]]; then printf '%s' "$REPLY"; else uname -m; fi
}

# node_memory - set REPLY to the megabytes that /proc/meminfo has after KEY.
node_memory() {
  slurp /proc/meminfo
  REPLY=${REPLY#*"$1:"} REPLY=${REPLY%%kB*}
  REPLY=$(( ${REPLY//[^0-9]/} / 1024 ))
}

# node_memory_mb - print how much memory a build may have: available, within the cgroup.
node_memory_mb() {
  local mb limit
  node_memory MemAvailable; mb=$REPLY
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null) || limit=max
  [[ $limit =~ ^[0-9]{1,15}$ ]] && (( limit / 1048576 < mb )) && mb=$(( limit / 1048576 ))
  printf '%s\n' "${mb:-1024}"
}

# node_pace - print by how much limits in seconds are longer here: 2 with fewer than four processors,
# of which a container may have a share only.  To import a framework from a cold disk takes such a node
# more than half a minute.
node_pace() {
  local cores quota='' period=''
  cores=$(nproc)
  read -r quota period 2>/dev/null <"${1:-/sys/fs/cgroup/cpu.max}" || quota=max
  [[ ! "$quota $period" =~ ^[0-9]{1,12}\ [1-9][0-9]{0,11}$ ]] || (( quota >= cores * period )) || cores=$(( quota / period ))
  printf '%s\n' "$(( cores < 4 ? 2 : 1 ))"
}

# node_inventory TOOL - `ringup detect`, kept for people and tools that ask later.
node_inventory() {
  "$1" detect --json | write_file "$INIT_STATE/detect.json" 644 ||
    stop 10 "ringup detect failed on this node" "run: $1 detect"
}

# path_parts PATH - set the array parts to PATH, each link that it leads over and where that points, and the
# folders on the way; some may be in it twice.
path_parts() {
  local hops=0 p=$1 dir
  parts=()
  while :; do
    dir=$p
    while [[ $dir == */* ]]; do parts+=("$dir"); dir=${dir%/*}; done
    [[ -L $p && $((++hops)) -lt 40 ]] || break
    dir=$(readlink -- "$p")
    [[ $dir == /* ]] && p=$dir || p=${p%/*}/$dir
  done
  p=$(readlink -f -- "$1") || p=$1
  while [[ $p == */* ]]; do parts+=("$p"); p=${p%/*}; done
}

# owner_of PROGRAM - set REPLY to "UID GID" of the one user but root who can change PROGRAM or a folder on
# the way, or "0 0"; fails, and sets REPLY to a sentence, if others can as well.
owner_of() {
  local uid='' gid=0 u g mode name
  local -a parts
  path_parts "$1"
  while IFS=$'\t' read -r u name; do
    (( u != 0 )) || continue
    if [[ -n $uid && $uid != "$u" ]]; then
      REPLY="$1 belongs to two users, $(id -un -- "$uid" 2>/dev/null || echo "$uid") and $(id -un -- "$u" 2>/dev/null || echo "$u") ($name)"
      return 1
    fi
    uid=$u
  done < <(stat -c $'%u\t%n' -- "${parts[@]}" 2>/dev/null)
  [[ -z $uid ]] || gid=$(id -g -- "$uid" 2>/dev/null) || gid=$(stat -c %g -- "${1%/*}")
  while IFS=$'\t' read -r g mode name; do
    # In a sticky folder others can make files, but not replace those that are there.
    (( 8#$mode & 8#1000 )) && continue
    (( 8#$mode & 8#002 )) && { REPLY="every user can write to $name"; return 1; }
    (( 8#$mode & 8#020 )) && (( g != 0 && g != gid )) && { REPLY="the group $(stat -c %G -- "$name") can write to $name"; return 1; }
  done < <(stat -L -c $'%g\t%a\t%n' -- "${parts[@]}" 2>/dev/null)
  REPLY="${uid:-0} $gid"
}

# as_owner PYTHON CMD ARG... - run CMD as the user whose PYTHON is, see owner_of: root neither runs
# other users' programs nor leaves files in their environments.
as_owner() {
  local -a who=()
  if [[ $EUID -eq 0 ]]; then
    owner_of "$1" || { echo "ringup-init: root does not run $1: $REPLY" >&2; return 126; }
    [[ $REPLY == '0 '* ]] || who=(setpriv --reuid="${REPLY% *}" --regid="${REPLY#* }" --clear-groups)
  fi
  shift
  "${who[@]}" "$@"
}

# node_python - print the Python to serve: the one named, the platform's, or PATH's.
# Below --root only a Python of that tree is served.
node_python() {
  local dir p
  if [[ -n ${RINGUP_PYTHON:-} ]]; then
    [[ $RINGUP_PYTHON == /* && -x $INIT_ROOT$RINGUP_PYTHON ]] || p=$(command -v -- "$RINGUP_PYTHON") || true
    printf '%s\n' "${p:-$INIT_ROOT$RINGUP_PYTHON}"
    return 0
  fi
  for p in "$INIT_ROOT"/databricks/python3/bin/python{3,}; do
    [[ -x $p ]] && printf '%s\n' "$p" && return 0
  done
  if [[ -n $INIT_ROOT ]]; then
    for dir in usr/local/bin usr/bin; do
      [[ -x $INIT_ROOT/$dir/python3 ]] && printf '%s\n' "$INIT_ROOT/$dir/python3" && return 0
    done
    return 0
  fi
  command -v python3 || true
}
