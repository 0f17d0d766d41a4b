#!/usr/bin/env bats
# rankd.bats - ringup rankd, as a launcher of another version, or none, would see it
# needs: cpu
# tests: src/launch/rankd.c src/launch/order.c src/launch/parent.c src/cli/cmd_rankd.c

load ../lib/helper

@test "it greets, with its version" {
  run bash -c 'ringup rankd </dev/null | head -n 2 | tr -d "\0"'
  expect_status 0
  expect_line "ringup-rankd/2 $(ringup --version | sed 's/.* //')"
}

@test "without a launcher it ends at once" {
  run bash -c 'ringup rankd </dev/null >/dev/null'
  expect_status 0
}

@test "what is no order ends it with an error" {
  run bash -c 'printf "GET / HTTP/1.0\r\n\r\n" | ringup rankd >/dev/null'
  expect_status 3
  expect_line "ringup rankd: the peer violates the protocol"
  # A rank before the setup; numbers that are missing.
  run bash -c 'printf "\x08\0\0\0\x02\0\0\0\0\0\0\0\0" | ringup rankd >/dev/null'
  expect_status 3
  expect_line "ringup rankd: the launcher violates the protocol"
  run bash -c 'printf "\x04\0\0\0\x03\0\0\0\0" | ringup rankd >/dev/null'
  expect_status 3
}

@test "a task's daemon needs a command, a lifeline and a key, and descriptors that there are" {
  local key=$BATS_TEST_TMPDIR/key
  printf '%032d' 1 >"$key"
  run bash -c 'ringup rankd -- true </dev/null'
  expect_status 2
  expect_line "ringup rankd: a command needs --lifeline and --seal"
  run bash -c 'ringup rankd --lifeline 7 -- true </dev/null 7</dev/null'
  expect_status 2
  run bash -c "ringup rankd --lifeline 7 --seal 9 </dev/null 7</dev/null 9<$key"
  expect_status 2
  run bash -c "ringup rankd --lifeline 7 --seal 9 -- true </dev/null 7<&- 9<$key"
  expect_status 2
  expect_line "ringup rankd: --lifeline 7: no such descriptor"
  run bash -c 'ringup rankd --lifeline 7 --seal 9 -- true </dev/null 7</dev/null 9<&-'
  expect_status 2
  run bash -c "ringup rankd --lifeline 7 --seal 9 --keep 8 -- true </dev/null 7</dev/null 8<&- 9<$key"
  expect_status 2
  run bash -c "ringup rankd --lifeline 7 --seal 9 -- true </dev/null 7</dev/null 9<$key"
  expect_status 3
  [[ $output == *"--seal: stdin is not a socket"* ]]
}

@test "a launcher with a parent needs a socket and hosts" {
  run ringup run --parent 0 -np 2 -- true
  expect_status 2
  run bash -c 'ringup run --parent 7 -H a:2 -- true 7</dev/null'
  expect_status 3
  [[ $output == *"--parent 7: not the descriptor of an AF_UNIX socket"* ]]
}
