#!/usr/bin/env bats
# net-check.bats - ringup net check: recorded checks, judged, printed and drawn.
# needs: cpu
# tests: src/cli/cmd_net_check.c src/cli/targets.c src/cli/matrix.c src/probe src/report src/detect/netfacts.c tests/fuzz/seeds/facts tests/lib/page.py

load ../lib/helper

setup() { seeds=$src/tests/fuzz/seeds/facts; }

@test "a recorded check is judged: the first line names what is wrong" {
  run ringup net check --from "$seeds/check1.json"
  expect_status 1
  [[ ${lines[0]} == "172.17.0.1 is docker0 of n1 and n2" ]]
  [[ $output == *"ringup net fix"* ]]
  run ringup net check --from "$seeds/check0.json"
  expect_status 0
  [[ ${lines[0]} == "no problems between 2 nodes" ]]
}

@test "nodes of a hostfile and of Spark: who cannot be asked is named" {
  printf 'node-a slots=4\nnode-b\n' >"$BATS_TEST_TMPDIR/hosts"
  run ringup net check --hostfile "$BATS_TEST_TMPDIR/hosts" --ssh false
  expect_status 1
  [[ $output == *node-a*node-b* ]]
  echo '[{"hostPort":"node-a:7078"},{"hostPort":"node-b:7078"}]' >"$BATS_TEST_TMPDIR/executors"
  run ringup net check --spark "$BATS_TEST_TMPDIR/executors" --ssh false
  expect_status 1
  [[ $output == *node-a*node-b* ]]
  run ringup net check --spark "$BATS_TEST_TMPDIR/hosts" --ssh false
  expect_status 3
  [[ $output == *"not Spark's list of executors"* ]]
}

# A port of its own, and what it serves; curl is not asked to use a proxy for it.
serve() {
  python3 -u -m http.server --bind 127.0.0.1 --directory "$1" 0 >"$BATS_TEST_TMPDIR/server" 2>&1 3>&- &
  server=$!
  until grep -q 'port [0-9]' "$BATS_TEST_TMPDIR/server"; do
    kill -0 "$server" || { cat "$BATS_TEST_TMPDIR/server"; return 1; }
    sleep 0.1
  done
  url=http://127.0.0.1:$(sed -n 's/.* port \([0-9]*\).*/\1/p' "$BATS_TEST_TMPDIR/server")
  export no_proxy=127.0.0.1
}

stop_server() {
  kill "$server"
  wait "$server" || :
}

@test "a timeout that cannot be waited for is refused" {
  local n
  for n in -1 2147484 4294968; do
    run timeout 200 ringup net check --timeout "$n" --ssh false n1 n2
    expect_status 2
    [[ $output == *"--timeout=$n: not 0 to 2147483 seconds"* ]]
  done
  run timeout 200 ringup net fix --timeout -1 --ssh false --nodes n1,n2 --dry-run
  expect_status 2
}

@test "nodes of a Spark job are asked for where its web interface is" {
  type -P curl >/dev/null || skip "curl is not installed"
  local site=$BATS_TEST_TMPDIR/site job=api/v1/applications
  mkdir -p "$site/driver/$job/app-1/executors" "$site/master/json" "$site/idle/$job" "$site/other/$job"
  echo '[{"id":"app-1","name":"train"}]' >"$site/driver/$job/index.html"
  echo '[{"id":"driver","hostPort":"node-d:41"},{"id":"0","hostPort":"node-a:7078","isActive":true}]' \
    >"$site/driver/$job/app-1/executors/index.html"
  echo '{"url":"spark://m:7077","workers":[{"host":"node-w","state":"ALIVE"},{"host":"node-x","state":"DEAD"},
    {"host":"node-y","state":"ALIVE"}]}' >"$site/master/json/index.html"
  echo '[]' >"$site/idle/$job/index.html"
  echo '[{"id":"../../x"}]' >"$site/other/$job/index.html"
  serve "$site"
  run ringup net check --spark "$url/driver/" --ssh false
  [[ $status -eq 1 && $output == *node-a*node-d* || $output == *node-d*node-a* ]] || { stop_server; echo "$output"; return 1; }
  run ringup net check --spark "$url/master" --ssh false
  [[ $status -eq 1 && $output == *node-w* && $output == *node-y* && $output != *node-x* ]] || { stop_server; echo "$output"; return 1; }
  run ringup net check --spark "$url/idle" --ssh false
  [[ $status -eq 3 && $output == *"no application is running there"* ]] || { stop_server; echo "$output"; return 1; }
  run ringup net check --spark "$url/other" --ssh false
  [[ $status -eq 3 && $output == *"the application has no id"* ]] || { stop_server; echo "$output"; return 1; }
  stop_server
  run ringup net check --spark "$url" --ssh false
  expect_status 3
  [[ $output == *"nobody answers"* ]]
}

@test "the matrix shows who cannot reach whom" {
  run ringup net check --from "$seeds/check2.json"
  expect_status 1
  [[ $output == *silent* ]]
}

@test "the matrix: a direction is broken although a link-local address works; words are explained" {
  command -v jq >/dev/null || skip "jq is not installed"
  jq '[.nodes[].name] as [$a, $b] | .paths |= (map(if .from == $a and .to == $b then .state = "filtered" else . end) +
    [.[0] | .from = $a | .to = $b | .address = "fe80::2%2" | .state = "open" | .latency_us = {min: 20, median: 30}])' \
    "$seeds/check0.json" >"$BATS_TEST_TMPDIR/cut.json"
  run ringup net check --from "$BATS_TEST_TMPDIR/cut.json"
  expect_status 1
  expect_line 'n1          .   silent'
  expect_line 'silent: no answer'
  [[ $output != *"not tried"* && $output != *impostor* ]]
}

@test "the matrix: columns of long names have the numbers of rows" {
  command -v jq >/dev/null || skip "jq is not installed"
  jq 'walk(if type == "string" and test("^n[12]$") then "rack-7-worker-" + . else . end)' \
    "$seeds/check0.json" >"$BATS_TEST_TMPDIR/long.json"
  run ringup net check --from "$BATS_TEST_TMPDIR/long.json"
  expect_status 0
  [[ $output == *$'\n'*'      [1]      [2]'$'\n'*' [1] rack-7-worker-n1'* ]] || { echo "$output"; return 1; }
}

@test "a recorded check that is none is refused" {
  echo '{"schema":"ringup.net.check/1","nodes":[{}]}' >"$BATS_TEST_TMPDIR/bad.json"
  run ringup net check --from "$BATS_TEST_TMPDIR/bad.json"
  expect_status 3
  [[ $output == *"nodes[0]: it has no name"* ]]
  run ringup net check --from "$seeds/check0.json" n1 n2
  expect_status 2
}

@test "JSON is the same as what was read, judged" {
  command -v jq >/dev/null || skip "jq is not installed"
  run bash -c 'ringup net check --json --from "$1" | jq -r ".schema, .findings[0].code, .findings[0].nodes[]"' _ \
    "$seeds/check1.json"
  [[ $output == $'ringup.net.check/1\nduplicate-address\nn1\nn2' ]]
}

@test "the page's script draws every recorded check" {
  command -v node >/dev/null || skip "node is not installed"
  local f page=$BATS_TEST_TMPDIR/net.html drawn=$BATS_TEST_TMPDIR/drawn
  for f in "$seeds"/*.json; do
    run ringup net check --from "$f" --html "$page"
    ((status <= 1))
    node "$src/tests/lib/page.js" "$page" >"$drawn" || { echo "$f"; return 1; }
    grep -qF '["text","title","Nodes and networks"]' "$drawn"
    grep -qF '"all connections work"' "$drawn"
  done
  run ringup net check --from "$seeds/check5.json" --html "$page"
  node "$src/tests/lib/page.js" "$page" >"$drawn"
  grep -q "^\[\"p\",\"verdict bad\",\"on n1 and n2, the host's own name resolves to 127.0.1.1" "$drawn"
  grep -qF '["td","","n2"]' "$drawn"
  # What a colour means stands in words beside it.
  local words
  for words in 'all connections work' 'none works' 'node with an error' 'cut off' 'not tried' 'error' 'from ↓ to →'; do
    grep -qF "\"$words\"" "$drawn" || { echo "not there: $words"; return 1; }
  done
}

@test "pages are well-formed HTML, and a node may be called anything" {
  command -v python3 >/dev/null && command -v jq >/dev/null || skip "python3 or jq is not installed"
  local f name='</script><script>x()</script><img src=x onerror=x()>'
  for f in "$seeds"/*.json; do
    jq --arg name "$name" 'walk(if . == "n1" then $name else . end)' "$f" >"$BATS_TEST_TMPDIR/strange.json"
    run ringup net check --from "$BATS_TEST_TMPDIR/strange.json" --html "$BATS_TEST_TMPDIR/net.html"
    ((status <= 1))
    python3 "$src/tests/lib/page.py" "$BATS_TEST_TMPDIR/net.html" >"$BATS_TEST_TMPDIR/data.json"
    jq -e --arg name "$name" '.verdict != null and (.nodes | map(.name) | index($name) != null)' \
      "$BATS_TEST_TMPDIR/data.json" >/dev/null
  done
}

@test "a FIFO named as output is written to" {
  mkfifo "$BATS_TEST_TMPDIR/fifo"
  timeout 200 cat "$BATS_TEST_TMPDIR/fifo" >"$BATS_TEST_TMPDIR/read" &
  run timeout 200 ringup net check --from "$seeds/check5.json" --html "$BATS_TEST_TMPDIR/fifo"
  expect_status 1
  wait $!
  [[ -p $BATS_TEST_TMPDIR/fifo && $(<"$BATS_TEST_TMPDIR/read") == *'</html>'* ]]
}

# browse FILE PICTURE - show it in a real browser; what its console says goes to stdout.
browse() {
  timeout 200 "$browser" --headless --no-sandbox --disable-gpu --disable-background-networking \
    --user-data-dir="$BATS_TEST_TMPDIR/profile" --enable-logging=stderr --window-size=1200,1600 \
    --screenshot="$2" "file://$1" 2>&1 >/dev/null | grep CONSOLE || true
}

# after FILE - what the page is when its script has run.
after() {
  timeout 200 "$browser" --headless --no-sandbox --disable-gpu --disable-background-networking \
    --user-data-dir="$BATS_TEST_TMPDIR/profile" --dump-dom "file://$1" 2>/dev/null
}

@test "a browser shows the page; nothing else runs in it, nothing is fetched" {
  browser=$(command -v chromium || command -v google-chrome || command -v chromium-browser) ||
    skip "no browser is installed"
  run ringup net check --from "$seeds/check5.json" --html "$BATS_TEST_TMPDIR/net.html"
  expect_status 1
  # The page's own policy makes the browser complain of whatever would be loaded.
  [[ -z $(browse "$BATS_TEST_TMPDIR/net.html" "$BATS_TEST_TMPDIR/net.png") ]]
  [[ $(stat -c %s "$BATS_TEST_TMPDIR/net.png") -gt 20000 ]]
  after "$BATS_TEST_TMPDIR/net.html" >"$BATS_TEST_TMPDIR/after"
  grep -qF "<p class=\"verdict bad\">on n1 and n2, the host's own name resolves to 127.0.1.1" "$BATS_TEST_TMPDIR/after"
  grep -qF '<td>n2</td>' "$BATS_TEST_TMPDIR/after"
  [[ $(grep -c 'has not run' "$BATS_TEST_TMPDIR/after") -eq 0 ]]
  sed 's|</main>|<img src="http://192.0.2.1/x.png"><script>x()</script>&|' "$BATS_TEST_TMPDIR/net.html" \
    >"$BATS_TEST_TMPDIR/bad.html"
  [[ -n $(browse "$BATS_TEST_TMPDIR/bad.html" "$BATS_TEST_TMPDIR/bad.png") ]]
  command -v jq >/dev/null || skip "jq is not installed"
  # Names that would be markup are shown as they are.
  jq 'walk(if . == "n1" then "<img src=x onerror=x()>" else . end)' "$seeds/check5.json" >"$BATS_TEST_TMPDIR/strange.json"
  run ringup net check --from "$BATS_TEST_TMPDIR/strange.json" --html "$BATS_TEST_TMPDIR/net.html"
  [[ -z $(browse "$BATS_TEST_TMPDIR/net.html" "$BATS_TEST_TMPDIR/net.png") ]]
  after "$BATS_TEST_TMPDIR/net.html" >"$BATS_TEST_TMPDIR/after"
  grep -qF '<td>&lt;img src=x onerror=x()&gt;</td>' "$BATS_TEST_TMPDIR/after"
  [[ $(grep -c '<img' "$BATS_TEST_TMPDIR/after") -eq 0 ]]
}
