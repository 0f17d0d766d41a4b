# shellcheck shell=bash
# 00-guard.bash - check that ringup-init can run here: permissions, disk space, writable files.

limits 2 30

# step_inputs - nothing: it is looked at afresh each time.
step_inputs() { :; }

# musl_name - is this a system whose C library is musl?  Sets REPLY to its name.
musl_name() {
  local line='' id=''
  REPLY=''
  while IFS= read -r line; do
    case $line in
      ID=*) id=${line#ID=} ;;
      PRETTY_NAME=*) REPLY=${line#PRETTY_NAME=} ;;
    esac
  done 2>/dev/null </etc/os-release
  REPLY=${REPLY//\"/} id=${id//\"/}
  [[ $id == @(alpine|postmarketos|chimera) ]] || { [[ $id == void ]] && compgen -G '/lib/ld-musl-*' >/dev/null; }
}

# trouble - print "CODE<tab>CAUSE<tab>NEXT" for the first thing in the way, or nothing.
trouble() {
  local dir mb
  local -a run=(/opt)
  # A node that has all of it already may well have become read-only since.
  [[ ! -e $INIT_STATE/state/40-install ]] || return 0
  for dir in etc opt usr/local var; do
    can_write "$INIT_ROOT/$dir" ||
      printf '50\t%s\t%s\n' "$INIT_ROOT/$dir is not writable: read-only, or another user's" "remount it read-write, or run ringup-init when you build the image"
  done
  ! immutable "$INIT_ROOT"/{etc,etc/{environment,nccl.conf,openmpi,profile.d},opt,usr/local,usr/local/{bin,lib},var,var/lib} ||
    printf '50\t%s\t%s\n' "$REPLY has the immutable attribute, so not even root can change it" "chattr -i $REPLY"
  # What runs below a tree is not this machine's to judge.
  if [[ -z $INIT_ROOT ]]; then
    [[ $(source_kind) != @(clone|release|given) ]] || run+=("$INIT_BUILD")
    for dir in "${run[@]}"; do
      ! is_noexec "$dir" ||
        printf '50\t%s\t%s\n' "$dir is on a file system that is mounted noexec ($REPLY): no program can run there" "mount -o remount,exec $REPLY, and take noexec out of /etc/fstab"
    done
  fi
  [[ -n $INIT_ROOT ]] || ! musl_name ||
    printf '20\t%s\t%s\n' "$REPLY has musl instead of glibc: ringup and the wheels of torch, TensorFlow and JAX need glibc" "use a system with glibc, such as the image python:3.12-slim instead of python:3.12-alpine"
  mb=$(space_mb "$INIT_STATE")
  (( mb >= 200 )) ||
    printf '50\t%s\t%s\n' "only $mb MB are free below $INIT_ROOT/var; a build needs 200 MB" "free some space (df -h, apt-get clean), then run ringup-init again"
}

# step_done - nothing is in the way.
step_done() {
  local found
  found=$(trouble)
  [[ -z $found ]]
}

# step_apply - say what is in the way; it cannot be done, only explained.
step_apply() {
  local found code cause next
  found=$(trouble)
  if [[ -n $found ]]; then
    IFS=$'\t' read -r code cause next <<<"$found"
    stop "$code" "$cause" "$next"
  fi
}
