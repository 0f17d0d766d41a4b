#!/usr/bin/env bats
# json.bats - text of any bytes becomes valid JSON.

load ../lib/helper

setup() {
  source "$src/init-scripts/lib/json.bash"
}

# same TEXT WANT - json_string TEXT reads back as WANT.
same() {
  json_string "$1"
  diff <(python3 -c 'import json, sys; sys.stdout.buffer.write(json.loads(sys.stdin.buffer.read()).encode())' <<<"$REPLY") \
    <(printf '%s' "${2-$1}")
}

@test "plain text, quotes, backslashes, control characters" {
  same ''
  same 'plain text'
  same 'a "b" \c\ /d'
  same $'tab\tnewline\nreturn\rbell\a delete\x7f'
}

@test "UTF-8 of every length stays as it is" {
  same $'\u00e9 \u20ac \U1f600 \U10ffff \u0800 \ud7ff'
}

@test "what is not UTF-8 is replaced, and only that" {
  r=$'\ufffd'
  same $'a\xffb' "a${r}b"
  same $'\xc3' "$r"
  same $'\xc3(' "$r("
  same $'\xe2\x82' "$r$r"
  same $'\xc0\xaf' "$r$r"
  same $'\xe0\x80\xaf' "$r$r$r"
  same $'\xed\xa0\x80' "$r$r$r"
  same $'\xf0\x80\x80\x80' "$r$r$r$r"
  same $'\xf4\x90\x80\x80' "$r$r$r$r"
  same $'\x80\xc3\xa9' "$r"$'\u00e9'
}

@test "random bytes always parse" {
  python3 -c '
import random, sys
random.seed(7)
for i in range(60):
    sys.stdout.buffer.write(bytes(random.choices(range(1, 256), k=40)).replace(b"\n", b"") + b"\n")' |
    while LC_ALL=C IFS= read -r line; do json_string "$line"; printf '%s\n' "$REPLY"; done |
    python3 -c '
import json, sys
lines = sys.stdin.buffer.read().split(b"\n")[:-1]
assert len(lines) == 60, len(lines)
for l in lines: json.loads(l.decode("utf-8"))'
}

@test "only numbers of JSON are numbers" {
  for n in 0 -1 12.5 0.001; do json_number "$n"; [[ $REPLY == "$n" ]]; done
  for n in '' 01 1e5 nan 0x10 '1 2' 1. .5 '1;2'; do json_number "$n"; [[ $REPLY == null ]]; done
}
