#!/usr/bin/env bats
# rankd.bats - ringup rankd, as a launcher of another version, or none, would see it
# needs: cpu
# tests: src/launch/rankd.c src/launch/order.c src/cli/cmd_rankd.c

load ../lib/helper

@test "it greets, with its version" {
  run bash -c 'ringup rankd </dev/null | head -n 2 | tr -d "\0"'
  expect_status 0
  expect_line "ringup-rankd/1 $(ringup --version | sed 's/.* //')"
}

@test "without a launcher it ends at once" {
  run bash -c 'ringup rankd </dev/null >/dev/null'
  expect_status 0
}

@test "what is no order ends it with an error" {
  run bash -c 'printf "GET / HTTP/1.0\r\n\r\n" | ringup rankd >/dev/null'
  expect_status 3
  expect_line "ringup rankd: the other side does not keep to the protocol"
  # A rank before the setup; numbers that are missing.
  run bash -c 'printf "\x08\0\0\0\x02\0\0\0\0\0\0\0\0" | ringup rankd >/dev/null'
  expect_status 3
  expect_line "ringup rankd: the launcher does not keep to the protocol"
  run bash -c 'printf "\x04\0\0\0\x03\0\0\0\0" | ringup rankd >/dev/null'
  expect_status 3
}
