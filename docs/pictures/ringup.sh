#!/bin/bash
# ringup.sh - record ringup.svg, the picture of README.md, anew.
#
# Usage: unshare -u docs/pictures/ringup.sh
# ringup, and a python3 with torch, scikit-learn and ringup's package, are those in PATH.  The host
# is called node-a in the picture, which is why it wants a name space of its own, and root.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ringup-picture.XXXXXX")
trap 'rm -rf "$work"' EXIT
hostname node-a
cp "$here/../examples/digits.py" "$work/"
cp "$here/../../tests/diagnose/logs/nccl-refused.log" "$work/job.log"
cd "$work"
# shellcheck disable=SC2016 # the ranks' shell is to see the variables
python3 "$here/record.py" "$here/ringup.svg" \
  'ringup run -np 4 -- python3 digits.py --epochs 3' \
  'ringup run -np 4 -- sh -c '\''[ $RINGUP_RANK = 2 ] && kill -9 $$; sleep 60'\' \
  'ringup diagnose job.log'
