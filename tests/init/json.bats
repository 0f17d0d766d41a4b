#!/usr/bin/env bats
# json.bats - text of any bytes becomes valid JSON.
# needs: cpu
# tests: init-scripts/lib/json.bash

load ../lib/helper

setup() {
  source "$src/init-scripts/lib/json.bash"
}

# same TEXT [WANT]... - json_string of each TEXT reads back as the WANT after it; - is TEXT itself.
same() {
  while (($#)); do
    json_string "$1"
    printf '%s\n' "$REPLY" >>"$BATS_TEST_TMPDIR/texts"
    if [[ $2 == - ]]; then printf '%s\0' "$1"; else printf '%s\0' "$2"; fi >>"$BATS_TEST_TMPDIR/wants"
    shift 2
  done
  python3 -c '
import json, sys
for line in open(sys.argv[1], "rb"): sys.stdout.buffer.write(json.loads(line).encode() + b"\0")' \
    "$BATS_TEST_TMPDIR/texts" | cmp - "$BATS_TEST_TMPDIR/wants"
}

@test "plain text, quotes, backslashes, control characters" {
  same '' - 'plain text' - 'a "b" \c\ /d' - $'tab\tnewline\nreturn\rbell\a delete\x7f' -
}

@test "UTF-8 of every length stays as it is" {
  same $'\u00e9 \u20ac \U1f600 \U10ffff \u0800 \ud7ff' -
}

@test "what is not UTF-8 is replaced, and only that" {
  r=$'\ufffd'
  same $'a\xffb' "a${r}b" \
    $'\xc3' "$r" \
    $'\xc3(' "$r(" \
    $'\xe2\x82' "$r$r" \
    $'\xc0\xaf' "$r$r" \
    $'\xe0\x80\xaf' "$r$r$r" \
    $'\xed\xa0\x80' "$r$r$r" \
    $'\xf0\x80\x80\x80' "$r$r$r$r" \
    $'\xf4\x90\x80\x80' "$r$r$r$r" \
    $'\x80\xc3\xa9' "$r"$'\u00e9'
}

@test "random bytes always parse" {
  python3 -c '
import random, sys
random.seed(7)
for i in range(60):
    sys.stdout.buffer.write(bytes(random.choices(range(1, 256), k=40)).replace(b"\n", b"") + b"\n")' >"$BATS_TEST_TMPDIR/lines"
  # In a bash of its own, for Bats looks at every command of this one.
  bash -c 'source "$1"
    while LC_ALL=C IFS= read -r line; do json_string "$line"; printf "%s\n" "$REPLY"; done' \
    bash "$src/init-scripts/lib/json.bash" <"$BATS_TEST_TMPDIR/lines" >"$BATS_TEST_TMPDIR/texts"
  python3 -c '
import json, sys
lines = sys.stdin.buffer.read().split(b"\n")[:-1]
assert len(lines) == 60, len(lines)
for l in lines: json.loads(l.decode("utf-8"))' <"$BATS_TEST_TMPDIR/texts"
}

@test "only numbers of JSON are numbers" {
  for n in 0 -1 12.5 0.001; do json_number "$n"; [[ $REPLY == "$n" ]]; done
  for n in '' 01 1e5 nan 0x10 '1 2' 1. .5 '1;2'; do json_number "$n"; [[ $REPLY == null ]]; done
}
