# shellcheck shell=bash
# shared.bash - use files in a folder that other users can write to, without following links or waiting for pipes.
#
# A user who can write to a folder can rename its files at any time, so checking a name proves nothing.
# These functions open files with O_NOFOLLOW, O_NONBLOCK and O_EXCL (dd does) and enter a folder first.

# shared_peek FILE BYTES - print the first BYTES of a regular file; print nothing of a link or a pipe.
shared_peek() { dd if="$1" bs="$2" count=1 iflag=nofollow,nonblock,fullblock status=none 2>/dev/null || true; }

# shared_copy FILE TO - copy a regular file to TO, which is new and not shared; at most 4 GiB.
shared_copy() {
  dd if="$1" of="$2" bs=64K count=65536 iflag=nofollow,nonblock conv=excl status=none 2>/dev/null
}

# shared_make FILE - make FILE of stdin, with the mode that the umask gives; fails if anything has that name.
shared_make() { dd of="$1" bs=64K conv=excl,fsync status=none; }

# shared_in DIR CMD ARG... - run CMD in DIR, which must be a folder itself and no link to one.
shared_in() (
  up=$(cd -P -- "${1%/*}" && pwd -P) && cd -P -- "$1" && [[ $PWD == "${up%/}/${1##*/}" ]] && "${@:2}"
)
