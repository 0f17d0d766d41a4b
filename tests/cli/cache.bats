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
  [[ $output == *"already exists"* ]]
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
  [[ $(ringup cache list --json | jq -c '[.entries[] | [.key, .bytes, .wrong]]') == "[[\"$key\",$(stat -c %s "cache/$key"),null]]" ]]
}

@test "openssl, sha256sum and tar agree with what is signed" {
  command -v openssl >/dev/null || skip "openssl is not installed"
  ringup cache put "$key" built
  sed -n 1p "cache/$key" >head
  sed -n 2p "cache/$key" | base64 -d >sign
  run openssl pkeyutl -verify -pubin -inkey cache.pub -rawin -in head -sigfile sign
  [[ $output != *"unknown option"* ]] || skip "this openssl does not sign raw input"
  expect_status 0
  tail -n +3 "cache/$key" >archive
  [[ $(cut -d ' ' -f 1-3 head) == "ringup-cache/2 $key $(sha256sum <archive | cut -c 1-64)" ]]
  mkdir copy
  tar -C copy -xf archive
  diff -r built copy
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

@test "list sees a signature that is wrong, verify also an archive" {
  ringup cache put "$key" built
  sed -i "3,\$s/42/43/" "cache/$key"
  run ringup cache list
  expect_status 0
  run ringup cache verify
  expect_status 1
  [[ $output == *"its archive is not what was signed"* ]]
  run ringup cache get "$key" copy
  expect_status 1
  [[ $output == *"is damaged"* && ! -e copy ]]
  # which is replaced
  run ringup cache put "$key" built
  [[ $output == *published* ]]
  ringup cache verify
  sed -i '2s/^../++/' "cache/$key"
  run ringup cache list
  expect_status 1
  [[ $output == *"its signature is wrong"* ]]
}

@test "variables that change what tar does change nothing" {
  ringup cache put "$key" built
  TAR_OPTIONS='--exclude=answer' POSIXLY_CORRECT=1 ringup cache get "$key" copy
  diff -r built copy
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
}
