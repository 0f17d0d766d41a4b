#!/usr/bin/env bats
# run-elastic-walk.bats - an elastic job keeps its state, whatever happens to its hosts and ranks
# needs: waits
# tests: src/launch src/wire/lobby.c src/cli/cmd_run.c src/cli/cmd_rankd.c tests/programs/regroup.c tests/lib/elastic.bash

load ../lib/helper
load ../lib/await
load ../lib/launcher
load ../lib/elastic

setup() { elastic_setup; }
teardown() { launcher_teardown; }

# newest - the last generation that has met, and its size.
newest() { sed -n 's/.* generation \([0-9]*\) rank [0-9]* of \([0-9]*\) .*/\1 \2/p' out | sort -n | tail -n 1; }

# steady - every rank of the newest generation has met the others.
steady() {
  local g n
  read -r g n < <(newest) && met "$g" "$n"
}

# listed NAME... - the hosts from now on; the script never sees half a file.
listed() {
  printf '%s\n' "$@" >hosts.new
  mv hosts.new hosts
}

# newer GENERATION - have the ranks met again since?
newer() {
  local g n
  read -r g n < <(newest) && ((g > $1))
}

# change - one random event.  A rank is killed only while another one has the state, too.
change() {
  local g n
  case $((RANDOM % 8)) in
    0) listed 127.0.0.1:2 ;;
    1) listed 127.0.0.2:2 ;;
    2) listed localhost:1 127.0.0.3:2 ;;
    3) listed 127.0.0.2:1 127.0.0.3:1 ;;
    4) : >hosts ;;
    5) listed 127.0.0.1:3 ;;
    *)
      read -r g n < <(newest)
      ((n > 1)) || return 0
      kill -KILL "$(pid_of "$g" $((RANDOM % n)))" 2>/dev/null || return 0
      await newer "$g"
      ;;
  esac
}

# kept - in each generation all ranks have one state, and it never goes back.
kept() {
  sed -n 's/.* generation \([0-9]*\) rank .* state \([0-9]*\) pid .*/\1 \2/p' out | sort -n |
    awk '$1 == g && $2 != s { print "generation " g " has states " s " and " $2; bad = 1 }
      $1 != g && $2 < s { print "generation " $1 " begins at " $2 ", the one before at " s; bad = 1 }
      { g = $1; s = $2 }
      END { exit bad || !s }'
}

@test "hosts and ranks come, go and die, and no step is lost" {
  local events=8 i
  [[ -z ${RINGUP_TEST_LONG:-} ]] || events=100
  RANDOM=${RINGUP_TEST_SEED:-17}
  listed 127.0.0.1:2
  RINGUP_DISCOVERY_MS=50 elastic -np 2 --min-np 1 --blacklist-cooldown-range 1,2 --host-discovery-script 'cat hosts'
  await met 1 2
  for ((i = 0; i < events; i++)); do
    change
    sleep "0.$((RANDOM % 40 + 10))"
    await steady
  done
  ends 0
  kept
}
