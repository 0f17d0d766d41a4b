# shellcheck shell=bash disable=SC2034,SC2154
# machine.bash - recorded machines for `ringup net`.

# machine INTERFACE... - write a snapshot to $BATS_TEST_TMPDIR/${node:-node}.json; each
# INTERFACE is NAME:TYPE:FLAGS:ADDRESS/PREFIX:METRIC, METRIC - for no default route.
machine() {
  local i=1 name type flags addr metric
  local ifs='{"index":1,"name":"lo","type":"loopback","flags":["UP","RUNNING","LOOPBACK"]}'
  local addrs='{"interface":1,"address":"127.0.0.1","prefix":8,"scope":"host"}' routes=''
  for _ in "$@"; do
    i=$((i + 1))
    IFS=: read -r name type flags addr metric <<<"$1"
    shift
    ifs+=",{\"index\":$i,\"name\":\"$name\",\"type\":\"$type\",\"flags\":[\"${flags//,/\",\"}\"]}"
    addrs+=",{\"interface\":$i,\"address\":\"${addr%/*}\",\"prefix\":${addr#*/}}"
    [[ $metric == - ]] ||
      routes+="${routes:+,}{\"to\":\"0.0.0.0\",\"prefix\":0,\"interface\":$i,\"metric\":$metric}"
  done
  printf '{"schema":"ringup.net.snapshot/1","hostname":"%s","interfaces":[%s],"addresses":[%s],"routes":[%s]}\n' \
    "${node:-}" "$ifs" "$addrs" "$routes" >"$BATS_TEST_TMPDIR/${node:-node}.json"
}
