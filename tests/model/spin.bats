#!/usr/bin/env bats
# spin.bats - the models of the engine have no bug, and spin finds those that are put in.
# needs: cpu
# tests: tests/model/engine.pml tests/model/turns.pml src/engine src/wire

# Three models have millions of states each.  Of those the gate sees a part, as far as a small table
# reaches; RINGUP_TEST_LONG=1 goes through all of them, and puts the same bug in at more places.

load ../lib/helper

setup() {
  model=engine how=-DHC4 reach=() long=${RINGUP_TEST_LONG:-0}
}

# search DEFINE... - compile the model so and go through all of its states; how they are
# kept is $how, and ${reach[@]} are options of the search.  An optimizer would take longer than
# the search.
search() {
  command -v spin >/dev/null || skip "spin is not installed"
  cd "$BATS_TEST_TMPDIR" || return
  spin "$@" -a "$src/tests/model/$model.pml"
  "${CC%% *}" -O0 -w -DSAFETY "$how" -DMEMLIM=800 -o pan pan.c
  timeout 600 ./pan -m20000 "${reach[@]}" | tee result
}

# correct DEFINE... - no bug in any state; the search must have been complete.
correct() {
  search "$@"
  grep -q 'errors: 0$' result
  run grep -E '^error: max search depth|MEMLIM bound' result
  [[ -z $output ]]
  grep -qE '^ *[0-9.e+]+ states, stored' result
}

# part TABLE DEFINE... - the same, but only as far as a table of 2^TABLE bits reaches.
part() {
  how=-DBITSTATE reach=("-w$1" -k2)
  shift
  correct "$@"
}

# large DEFINE... - the same of a model of millions of states.
large() { if [[ $long == 1 ]]; then correct "$@"; else part 20 "$@"; fi; }

# wrong WHAT DEFINE... - spin finds a bug, of this kind.
wrong() {
  local what=$1
  shift
  search "$@"
  grep -qE "^pan:1: $what" result
}

@test "two ranks, two names in two orders, everybody waits" {
  large
}

@test "a rank waits, the other leaves it to its progress thread" {
  correct -DWAITERS=1
}

@test "nobody waits: progress threads carry all" {
  correct -DWAITERS=0
}

@test "waiting for one operation, not for the other" {
  large -DWAITED=1
}

@test "the same name again" {
  correct -DNAMES=1 -DROUNDS=2
}

@test "three ranks" {
  correct -DRANKS=3 -DNAMES=1 -DWAITERS=0
}

@test "two communicators share the baton" {
  correct -DCOMMS=2 -DWAITERS=1
}

@test "a blocking call that all await, beside an operation that nobody does" {
  correct -DBLOCKING=1 -DWAITED=1
}

@test "a blocking call that some await" {
  correct -DBLOCKING=1 -DWAITERS=1
  correct -DBLOCKING=1 -DNAMES=1 -DROUNDS=2
  large -DRANKS=3 -DNAMES=1 -DWAITERS=3 -DBLOCKING=1
}

@test "two threads a rank, blocking, as far as a table of states reaches" {
  if [[ $long == 1 ]]; then part 25 -DAPPS=2; else part 20 -DAPPS=2; fi
}

@test "trap 1: to publish only when the operation before is complete" {
  wrong 'invalid end state' -DTRAP=1
}

@test "trap 2: to write a slot again without asking" {
  wrong 'assertion violated .*slot' -DTRAP=2
}

@test "trap 3: not to look again before sleeping" {
  wrong 'invalid end state' -DTRAP=3
  [[ $long == 1 ]] || return 0
  wrong 'invalid end state' -DTRAP=31 -DWAITERS=0
  wrong 'invalid end state' -DTRAP=32 -DAPPS=2
}

@test "trap 4: to give the baton back without a word, or to take it without a lock" {
  wrong 'invalid end state' -DTRAP=4 -DWAITED=1
  wrong 'assertion violated .*holders' -DTRAP=41
  [[ $long != 1 ]] || wrong 'invalid end state' -DTRAP=4 -DAPPS=2
}

@test "trap 5: to sleep for one communicator while another can move" {
  wrong 'invalid end state' -DTRAP=5 -DCOMMS=2
}

@test "trap 6: to cut batches where each rank likes" {
  wrong 'assertion violated .*ran' -DTRAP=6
}

@test "trap 7: to notify no progress thread if some await the operation, but not all" {
  wrong 'invalid end state' -DTRAP=7 -DWAITERS=1 -DBLOCKING=1 -DNAMES=1
}

@test "plans of three groups on GPUs, in any order, end; without their order, or with half of it, they deadlock" {
  model=turns
  correct
  if [[ $long == 1 ]]; then part 26 -DWORLD; fi
  wrong 'invalid end state' -DUNORDERED
  wrong 'invalid end state' -DNO_CLOCK
}
