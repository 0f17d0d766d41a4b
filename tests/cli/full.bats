#!/usr/bin/env bats
# full.bats - each command reports that its output cannot be written
# needs: cpu
# tests: src/cli src/launch/output.c src/trace

load ../lib/helper
load ../lib/await
load ../lib/launcher

setup() { launcher_setup; }
teardown() { launcher_teardown; }

# refuses NAME ARG... - with a full disk for stdout the program ends with status 3 and says so.
refuses() {
  local program=$1 rc=0
  shift
  RUN_TEST=$BATS_TEST_TMPDIR timeout 100 "$program" "$@" </dev/null >/dev/full 2>err || rc=$?
  [[ $rc -eq 3 ]] && grep -q 'No space left on device' err ||
    { echo "$program $*: status $rc"; cat err; return 1; }
}

# commands - each command, and each of its family.
commands() {
  local c sub
  for c in $(ringup help --list-commands); do
    sub=$(ringup help --list-commands "$c")
    if [[ -n $sub ]]; then
      # shellcheck disable=SC2086
      printf "$c %s\n" $sub
    else
      echo "$c"
    fi
  done
}

@test "the help of each command" {
  local c n=0
  while read -r -a c; do
    refuses ringup "${c[@]}" --help
    n=$((n + 1))
  done < <(commands)
  [[ $n -gt 15 ]]
  refuses ringup --version
  refuses horovodrun --version
  refuses horovodrun --help
}

@test "the result of each command" {
  local c
  printf '127.0.0.1 localhost\n' >hosts
  ringup net snapshot >node.json
  while read -r -a c; do
    case ${c[*]} in
      bench) refuses ringup bench -n 1 -s 8 -i 3 --json allreduce ;;
      cache) RINGUP_CACHE=$PWD/none refuses ringup cache --help ;;
      diagnose) echo hello >log && refuses ringup diagnose log ;;
      "net agent") ;; # it answers, and is asked nothing here
      "net check" | "net record" | "net watch") ;; # they need nodes, or do not end
      "net fix") refuses ringup net fix --dry-run --from node.json --interface lo ;;
      rebuild) refuses ringup rebuild --dry-run ;;
      run) refuses ringup run -np 2 -- echo result ;;
      top) refuses ringup top --help ;; # its result needs exactly one job on this host
      "timeline merge") refuses ringup timeline merge --help ;;
      *) refuses ringup "${c[@]}" ;;
    esac
  done < <(commands)
}

@test "what ranks print, here and by rank daemons, and by horovodrun" {
  refuses ringup run -np 2 -- echo result
  grep -q "^ringup run: the ranks' further output on stdout is lost: No space left on device\$" err
  refuses ringup run -np 2 -H localhost:1,127.0.0.1:1 -- echo result
  refuses horovodrun -np 2 echo result
  refuses ringup run -np 2 -o . -- sh -c 'head -c 100000 /dev/zero'
}

@test "a full stderr alone is told by the status" {
  local rc=0
  ringup run -np 2 -- sh -c 'echo word >&2' 2>/dev/full || rc=$?
  [[ $rc -eq 3 ]]
}

@test "the job goes on, and its failure counts more" {
  local rc=0
  ringup run -np 2 -- sh -c 'echo word; sleep 0.1; echo $RINGUP_RANK >>done; exit 5' >/dev/full 2>err || rc=$?
  [[ $rc -eq 5 && $(wc -l <done) -eq 2 ]]
  grep -q 'output on stdout is lost' err
}

@test "files that are asked for" {
  local rc=0
  ringup net check --from "$src/tests/fuzz/seeds/facts/check5.json" --html /dev/full >out 2>err || rc=$?
  [[ $rc -eq 3 ]]
  grep -q 'No space left on device' err
}
