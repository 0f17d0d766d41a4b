# shellcheck shell=bash
# file.bash - write files and links atomically.

# slurp FILE - set REPLY to what is in it, or to nothing; starts no program.
slurp() {
  REPLY=''
  [[ ! -r $1 ]] || IFS= read -r -d '' REPLY <"$1" || true
}

# folder_of PATH - set REPLY to the folder that PATH is in; starts no program.
folder_of() {
  REPLY=.
  [[ $1 != */* ]] || REPLY=${1%/*} REPLY=${REPLY:-/}
}

# sibling PATH - set REPLY to the hidden name beside PATH under which a file or folder is made.
sibling() {
  folder_of "$1"
  REPLY+=/.${1##*/}.new
}

# vacate PATH - let nothing be there.
vacate() { [[ ! -e $1 && ! -L $1 ]] || rm -rf -- "$1"; }

# write_file FILE MODE - replace FILE by stdin: a sibling is made, synced, renamed.  It has its mode
# from the start, since chmod would follow a link that another user of the folder has put there.
write_file() {
  local new folder
  folder_of "$1"; folder=$REPLY
  sibling "$1"; new=$REPLY
  vacate "$new"
  (umask "$(printf '%03o' "$((0777 & ~8#$2))")" && shared_make "$new") && make_executable "$2" "$new" &&
    mv -fT -- "$new" "$1" && sync "$folder" && return 0
  rm -f -- "$new"
  return 1
}

# make_executable MODE FILE - chmod, if MODE has what a new file cannot have.
make_executable() { [[ $1 != *[1357]* ]] || chmod "$1" "$2"; }

# write_link TARGET LINK - make LINK point to TARGET, in one step.
write_link() {
  local new
  sibling "$2"; new=$REPLY
  vacate "$new"
  ln -s -- "$1" "$new" && mv -fT -- "$new" "$2"
}

# remove_tree DIR - whole or not at all: what is half removed has no name by which it could be used.
remove_tree() {
  local gone
  [[ -d $1 ]] || return 0
  sibling "$1"; gone=$REPLY # of which the next run gets rid, if this one is killed
  vacate "$gone"
  mv -T -- "$1" "$gone"
  rm -rf -- "$gone"
}

# move_tree FROM TO - whole or not at all, also to another file system.
move_tree() {
  local new folder
  folder_of "$2"; folder=$REPLY
  if [[ $(stat -c %d -- "$1") != "$(stat -c %d -- "$folder")" ]]; then
    sibling "$2"; new=$REPLY
    vacate "$new"
    cp -a -- "$1" "$new"
    sync -f "$new"
    mv -T -- "$new" "$2"
    remove_tree "$1"
  else
    mv -T -- "$1" "$2"
  fi
}

# make_dir DIR... - for all to read, whatever the umask.
make_dir() { (umask 022 && mkdir -p -- "$@"); }

# can_write DIR - may files be made in DIR, or in its nearest ancestor that exists?
can_write() {
  local dir=$1
  until [[ -e $dir ]]; do folder_of "$dir"; dir=$REPLY; done
  [[ -d $dir && -w $dir ]]
}

# is_noexec DIR - is DIR, or its nearest ancestor that exists, on a file system whose files cannot be run?
# Sets REPLY to the place where that is mounted.
is_noexec() {
  local dir=$1 at options found=''
  until [[ -e $dir ]]; do folder_of "$dir"; dir=$REPLY; done
  dir=$(cd -P -- "$dir" && printf '%s' "$PWD")
  REPLY=''
  # a later line hides an earlier one of the same place
  while read -r _ _ _ _ at options _; do
    at=${at//\\040/ }
    if [[ $dir/ == "${at%/}"/* ]] && (( ${#at} >= ${#REPLY} )); then REPLY=$at found=,$options,; fi
  done 2>/dev/null </proc/self/mountinfo
  [[ $found == *,noexec,* ]]
}

# immutable PATH... - set REPLY to the first that has the immutable attribute; false if none has it, or if
# that cannot be told.
immutable() {
  local flags path
  while read -r flags path; do
    [[ $flags == *i* ]] && REPLY=$path && return 0
  done < <(lsattr -d -- "$@" 2>/dev/null)
  return 1
}

# space_mb DIR - print the free megabytes where DIR is or would be.
space_mb() {
  local dir=$1
  until [[ -e $dir ]]; do folder_of "$dir"; dir=$REPLY; done
  df --output=avail -BM -- "$dir" | tail -n 1 | tr -dc 0-9
}
