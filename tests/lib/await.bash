# shellcheck shell=bash
# await.bash - wait for a condition, however long the machine takes.

# await COMMAND... - until it succeeds; two minutes at most, which nothing needs by itself.
await() {
  local end=$((SECONDS + 120))
  until "$@"; do
    ((SECONDS < end)) || { echo "in vain: $*"; return 1; }
    sleep 0.02
  done
}
