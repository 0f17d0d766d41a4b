#!/usr/bin/env bats
# rollback.bats - whatever step fails, the node is as it was before.
# needs: cpu
# tests: init-scripts tests/lib/release.bash

load ../lib/helper
load ../lib/release

setup() { release_setup; }

# node_tree - names, modes, links and contents of all but what ringup-init notes down for itself.
node_tree() {
  (cd "$root" && find . \( -path ./run -o -path ./var/lib/ringup -o -path ./var/log \) -prune -o -printf '%P %m %l\n' | sort
    find . \( -path ./run -o -path ./var/lib/ringup -o -path ./var/log \) -prune -o -type f -print0 | sort -z | xargs -0r sha256sum)
}

@test "whatever step fails, the node is as it was, byte for byte" {
  mkdir -p "$root"/usr/local/{bin,sbin,lib/pkgconfig,share/man} "$root"/var/{lib,log} "$root/run"
  echo '# mine' >"$root/etc/environment"
  empty=$(node_tree)
  for broken in configure make start bench; do
    release 9.9 "$broken"
    run "$init" --root "$root"
    [[ $status -ne 0 ]]
    diff <(echo "$empty") <(node_tree) || { echo "$broken"; return 1; }
  done
  release 9.9
  NET='no interface reaches other hosts' run "$init" --root "$root"
  expect_status 60
  diff <(echo "$empty") <(node_tree)
  # and an upgrade goes back to what was there
  run "$init" --root "$root"
  expect_status 0
  good=$(node_tree)
  for broken in configure make start bench; do
    release 9.10 "$broken"
    RINGUP_SOURCE=$T/ringup-9.10.tar.gz run "$init" --root "$root"
    [[ $status -ne 0 ]]
    diff <(echo "$good") <(node_tree) || { echo "upgrade: $broken"; return 1; }
  done
  run "$init" --root "$root"
  expect_status 0
  diff <(echo "$good") <(node_tree)
}
