#!/usr/bin/env bats
# cache.bats - ringup cache: keys, entries, and openssl's opinion of both.
# needs: cpu
# tests: src/cli/cmd_cache.c src/rebuild src/base

load ../lib/helper

key=$(printf %064d 12345)

setup() {
  cd "$BATS_TEST_TMPDIR"
  ringup cache keygen . >keys
  export RINGUP_CACHE=$PWD/cache RINGUP_CACHE_KEY=$PWD/cache.key
  mkdir -p built/bin
  echo 'echo 42' >built/bin/answer
  chmod +x built/bin/answer
  ln -s answer built/bin/other
}

@test "keygen makes two files that openssl knows, and shows no secret" {
  [[ $(stat -c %a cache.key) == 600 && $(stat -c %a cache.pub) == 644 ]]
  not grep -qF "$(sed -n 2p cache.key)" keys
  grep -qxF "RINGUP_CACHE_TRUST=$(sed -n 2p cache.pub)" keys
  run ringup cache keygen .
  expect_status 3
  [[ $output == *"is there already"* ]]
  command -v openssl >/dev/null || skip "openssl is not installed"
  [[ $(openssl pkey -in cache.key -pubout) == "$(cat cache.pub)" ]]
}

@test "put, get, list, verify" {
  run ringup cache put "$key" built
  expect_status 0
  run ringup cache put "$key" built
  expect_status 0
  [[ $output == *"there already"* ]]
  run ringup cache get "$key" copy
  expect_status 0
  diff -r built copy
  [[ -x copy/bin/answer && $(readlink copy/bin/other) == answer ]]
  run ringup cache verify
  expect_status 0
  [[ $output == *"$key"*" good"* ]]
  command -v jq >/dev/null || skip "jq is not installed"
  [[ $(ringup cache list --json | jq -c '[.entries[] | [.key, .files, .bytes, .building, .wrong]]') == "[[\"$key\",2,8,false,null]]" ]]
}

@test "openssl and sha256sum agree with what is signed" {
  command -v openssl >/dev/null || skip "openssl is not installed"
  ringup cache put "$key" built
  run openssl pkeyutl -verify -pubin -inkey cache.pub -rawin -in "cache/$key/MANIFEST" -sigfile "cache/$key/MANIFEST.sig"
  [[ $output != *"unknown option"* ]] || skip "this openssl does not sign raw input"
  expect_status 0
  (cd "cache/$key/files" && sed -n 's/^file [0-9]* [0-9]* \([0-9a-f]*\) /\1  /p' ../MANIFEST | sha256sum --check --strict)
}

@test "a key that openssl made, and its line alone" {
  command -v openssl >/dev/null || skip "openssl is not installed"
  openssl genpkey -algorithm ed25519 -out k.pem
  openssl pkey -in k.pem -pubout -out p.pem
  RINGUP_CACHE_KEY=$(sed -n 2p k.pem) run ringup cache put "$key" built
  expect_status 0
  RINGUP_CACHE_KEY= RINGUP_CACHE_TRUST=$(sed -n 2p p.pem) run ringup cache get "$key" copy
  expect_status 0
  # ours is another
  run ringup cache get "$key" again
  expect_status 1
  [[ $output == *"not trusted here"* && ! -e again ]]
}

@test "list sees a signature that is wrong, verify also a file" {
  ringup cache put "$key" built
  echo 'echo 43' >"cache/$key/files/bin/answer"
  run ringup cache list
  expect_status 0
  run ringup cache verify
  expect_status 1
  [[ $output == *"bin/answer is not what its manifest says"* ]]
  run ringup cache get "$key" copy
  expect_status 1
  [[ $output == *"goes to quarantine"* && ! -e copy && -d cache/quarantine/$key.1 ]]
  ringup cache put "$key" built
  printf 'x' >>"cache/$key/MANIFEST"
  run ringup cache list
  expect_status 1
}

@test "wrong use is told apart from failure" {
  run ringup cache
  expect_status 2
  run ringup cache frobnicate
  expect_status 2
  run ringup cache put "$key"
  expect_status 2
  RINGUP_CACHE='' run ringup cache list
  expect_status 2
  run ringup cache put ../../etc built
  expect_status 3
  [[ $output == *"not a key"* ]]
  RINGUP_CACHE_KEY='' run ringup cache list
  expect_status 3
  [[ $output == *"ringup cache keygen"* ]]
  mkfifo built/pipe
  run ringup cache put "$key" built
  expect_status 3
  [[ $output == *"neither a file nor a link"* && -z $(ls cache) ]]
}
