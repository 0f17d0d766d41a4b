#!/usr/bin/env bats
# bench.bats - ringup bench: what may be asked for, how it is shown, how ranks are started.
# needs: cpu
# tests: src/cli/cmd_bench.c src/cli/scoreboard.c src/bench src/report tests/lib/bench.bash src/launch src/wire tests/lib/page.py

load ../lib/helper
load ../lib/await
load ../lib/bench

setup() { bench_setup; }

@test "the table is in columns, a line or two a size" {
  bench allreduce -np 2 --sizes 8,1M --check
  expect_status 0
  [[ ${lines[0]} == "allreduce, 2 ranks on 1 node, back end node;"* ]]
  [[ $(awk 'NR > 1 { print NF }' <<<"$output" | sort -u) == 12 ]]
  grep -qE '^ +8 +2 +f32 +sum +out +(near|far|mixed|-) .* 0$' <<<"$output"
  grep -qE '^ +1M +262144 +f32 +sum +out +(near|far|mixed|-) .* 0$' <<<"$output"
}

@test "sizes are whole elements, and of all blocks together in an allgather" {
  bench allreduce -n 2 --sizes 10,1K --json
  [[ $(field bytes | xargs) == "8 1024" && $(field count | xargs) == "2 256" ]]
  bench allgather -n 2 --sizes 1,1K --json
  [[ $(field bytes | xargs) == "8 1024" && $(field count | xargs) == "1 128" ]]
}

@test "ranges of sizes, by a factor" {
  bench allreduce -n 2 --sizes 64:4K:8 --json
  [[ $(field bytes | uniq | xargs) == "64 512 4096" ]]
  bench allreduce -n 2 -b 1K -e 5K -f 2 --json
  [[ $(field bytes | uniq | xargs) == "1024 2048 4096" ]]
}

@test "bandwidths follow from the size and the time" {
  bench allreduce -n 2 --sizes 64K --json
  awk -v b="$(field bytes)" -v t="$(field us)" -v a="$(field algbw_gbs)" -v c="$(field busbw_gbs)" \
    'BEGIN { d = b / t / 1000; exit !(a > .99 * d && a < 1.01 * d && c > .99 * a && c < 1.01 * a) }'
  bench allreduce -n 4 --sizes 64K --json
  awk -v a="$(field algbw_gbs)" -v c="$(field busbw_gbs)" \
    'BEGIN { exit !(c > 1.49 * a && c < 1.51 * a) }'
}

@test "a full disk under stdout ends it, with the reason" {
  [[ -c /dev/full ]] || skip "no /dev/full"
  local words
  for words in "-n 1" "-n 2" "-n 2 --json"; do
    run bash -c 'timeout 200 ringup bench allreduce -i 3 --sizes 8 "$@" >/dev/full' sh $words
    expect_status 3
    [[ $output == *'stdout: No space left on device' ]]
  done
}

@test "a plot is well-formed and shows every contender" {
  run timeout 200 ringup bench allreduce -n 2 -i 2 --sizes 8:64K:8 --plot "$BATS_TEST_TMPDIR/x.svg"
  expect_status 0
  grep -qF '>allreduce, f32, 2 ranks on 1 node</text>' "$BATS_TEST_TMPDIR/x.svg"
  grep -qE '<text [^>]*>ringup(, (near|far|mixed))?</text>' "$BATS_TEST_TMPDIR/x.svg"
  [[ -x ${RINGUP_TEST_PYTHON:-} ]] || skip "no python3 to parse XML with"
  "$RINGUP_TEST_PYTHON" -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$BATS_TEST_TMPDIR/x.svg"
  # Where no file can be written, that is said before anything is measured.
  run timeout 200 ringup bench allreduce -n 2 -i 2 --sizes 8 --plot /nonexistent/x.svg
  expect_status 3
  [[ ${#lines[@]} -eq 1 && $output == *"/nonexistent/x.svg"* ]] || { echo "$output"; return 1; }
}

@test "a plot by the name of a page is one, with all rows" {
  run timeout 200 ringup bench allreduce -n 2 -i 2 --sizes 8:64K:8 --plot "$BATS_TEST_TMPDIR/x.html"
  expect_status 0
  [[ -x ${RINGUP_TEST_PYTHON:-} ]] || skip "no python3 to parse HTML with"
  "$RINGUP_TEST_PYTHON" "$src/tests/lib/page.py" "$BATS_TEST_TMPDIR/x.html" |
    jq -e '.schema == "ringup.bench/1" and [.results[].bytes] == [8, 64, 512, 4096, 32768] and .results[0].us > 0' ||
    { "$RINGUP_TEST_PYTHON" "$src/tests/lib/page.py" "$BATS_TEST_TMPDIR/x.html"; return 1; }
}

@test "a browser shows the page of a plot" {
  local browser page=$BATS_TEST_TMPDIR/x.html
  browser=$(command -v chromium || command -v google-chrome || command -v chromium-browser) ||
    skip "no browser is installed"
  run timeout 200 ringup bench allreduce -n 2 -i 2 --sizes 8 --plot "$page"
  expect_status 0
  timeout 200 "$browser" --headless --no-sandbox --disable-gpu --disable-background-networking \
    --user-data-dir="$BATS_TEST_TMPDIR/profile" --dump-dom "file://$page" >"$BATS_TEST_TMPDIR/after" 2>/dev/null
  grep -qF '<td>out of place</td>' "$BATS_TEST_TMPDIR/after"
  [[ $(grep -c 'has not run' "$BATS_TEST_TMPDIR/after") -eq 0 ]]
}

@test "a plot by the name of stdout goes behind what is there" {
  local out=$BATS_TEST_TMPDIR/out
  timeout 200 ringup bench allreduce -n 2 -i 2 --sizes 8 --plot /dev/stdout >"$out"
  [[ $(head -n 1 "$out") == "allreduce, 2 ranks"* && $(tail -n 1 "$out") == "</svg>" ]] || {
    cat "$out"
    return 1
  }
}

@test "a plot goes into a FIFO, and nobody is kept from ending the wait for its reader" {
  local fifo=$BATS_TEST_TMPDIR/fifo out=$BATS_TEST_TMPDIR/out pid status=0
  mkfifo "$fifo"
  timeout 200 cat "$fifo" >"$BATS_TEST_TMPDIR/read" &
  pid=$!
  run timeout 200 ringup bench allreduce -n 2 -i 2 --sizes 8 --plot "$fifo"
  expect_status 0
  wait "$pid"
  [[ -p $fifo && $(<"$BATS_TEST_TMPDIR/read") == *'</svg>' ]]
  timeout -k 20 200 ringup bench allreduce -n 2 -i 2 --sizes 8 --plot "$fifo" >"$out" 3>&- &
  pid=$!
  await lines 3 "$out"
  kill "$pid"
  wait "$pid" || status=$?
  [[ $status -ne 137 && $status -ne 0 ]] || { echo "$status"; return 1; }
}

@test "ranks are started by another program if asked" {
  stub place 'echo placed >>"$PLACED"; exec "$@"'
  export PLACED=$BATS_TEST_TMPDIR/placed
  bench allreduce -n 3 --sizes 8 --under place --check --json
  expect_status 0
  [[ $(field wrong | sort -u) == 0 && $(wc -l <"$PLACED") -eq 3 ]]
  bench allreduce -n 2 --sizes 8 --under false
  expect_status 3
}

@test "ranks bound to a processor each" {
  run timeout 200 ringup bench allreduce -n 3 -i 2 --sizes 8 --pin --check --json
  expect_status 0
  [[ $(field wrong | sort -u) == 0 ]]
}

@test "one rank needs no other" {
  bench allreduce -n 1 --sizes 64 --check --json
  expect_status 0
  [[ $(field backend) == self && $(field ranks) == 1 && $(field wrong) == 0 ]]
  bench allreduce -n 1 --sizes 64 --hog 1 --pin --json
  expect_status 0
  [[ $(field backend | sort -u) == self ]]
  # Nor is the program that shall start it left out.
  bench allreduce -n 1 --sizes 64 --under false
  expect_status 3
}

@test "under ringup run it is one of the ranks" {
  run timeout 200 ringup run -np 2 --no-prefix -- ringup bench allreduce -i 3 --sizes 64 --check --json
  expect_status 0
  [[ $(field ranks) == 2 && $(field wrong) == 0 ]]
  run timeout 200 ringup run -np 2 -- ringup bench allreduce --peer mpich
  expect_status 2
  run timeout 200 ringup run -np 2 -- ringup bench allreduce -n 3
  expect_status 2
  [[ $output == *"--ranks=3, but ringup run has started 2"* ]]
  local words
  for words in "--level torch" "--python python3" "--under env" "--hog 1" --pin; do
    # shellcheck disable=SC2086
    run timeout 200 ringup run -np 1 -- ringup bench allreduce --sizes 8 -i 1 $words
    expect_status 2
    [[ $output == *"${words%% *}"*": ringup run has started this"* ]]
  done
}

@test "under mpirun it is one of the ranks" {
  [[ -x ${RINGUP_TEST_MPIRUN:-} ]] || skip "mpirun is not installed"
  run timeout 200 "$RINGUP_TEST_MPIRUN" --allow-run-as-root --oversubscribe -np 2 \
    "$(command -v ringup)" bench allreduce -i 3 --sizes 64 --check --json
  [[ $status -eq 0 ]] || { echo "$output"; return 1; }
  [[ $(field ranks) == 2 && $(field wrong) == 0 ]]
}

@test "what cannot be asked is refused with status 2" {
  local words
  for words in dance "allreduce --sizes 8,x" "allreduce --sizes 0" "allreduce --sizes ," \
    "allreduce --dtype f8" "allreduce --op mean" "allreduce --backend carrier" "allreduce -n 0" \
    "allreduce -i -1" "allreduce -i 2147483647" "allreduce --peer nobody" "allreduce --hog -1" "allreduce --groups 3" "allgather -n 4 --groups 2 --peer openmpi" "allreduce --groups 0,2/1" "allreduce --level java" "allreduce --level torch --alloc" "allreduce --level torch --groups 2" "allgather --level torch --in-place yes" "allreduce --uneven" "broadcast --uneven" "barrier --uneven" "bert --uneven" "allreduce --members 0" "allreduce --members 257" "alltoall --members 2" "broadcast --members 2" "resnet50 --members 2" "allreduce --in-place maybe" "alltoall --in-place yes" "barrier --plot x.svg" \
    "reducescatter --op adasum" "allreduce --groups 2x" "allreduce --sizes 8:4:2" "allreduce -b 8 -e 64 -f 1" "allreduce barrier" "allreduce --frequency 3" ""; do
    # shellcheck disable=SC2086
    run timeout 200 ringup bench $words
    [[ $status -eq 2 && -n $output ]] || { echo "$words: $status $output"; return 1; }
  done
}

@test "options may follow the collective, --help too" {
  run timeout 200 ringup bench allreduce --help
  expect_status 0
  [[ $output == "usage: ringup bench"* ]]
}

@test "a rank that cannot start is a failure, and nothing is left" {
  run env RINGUP_START_TIMEOUT_MS=2000 timeout 200 ringup bench allreduce -n 2 --backend self
  [[ $status -eq 3 ]] || { echo "$status $output"; return 1; }
  [[ $output == *"self serves one rank, not 2"* ]]
}
