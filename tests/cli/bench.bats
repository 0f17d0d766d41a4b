#!/usr/bin/env bats
# bench.bats - ringup bench

load ../lib/helper
load ../lib/real

setup() {
  local v
  for v in $(compgen -e | grep -E '^(RINGUP|HOROVOD|OMPI|PMI|PMIX|SLURM|TORCHELASTIC)_|^(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)$' | grep -v '^RINGUP_TEST_'); do
    unset "$v"
  done
}

# bench ARG... - at most a minute of it, few samples.
bench() {
  run timeout 60 ringup bench -i 3 "$@"
}

# field NAME - of each line of JSON in $output.
field() {
  sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" <<<"$output"
}

@test "every collective is right, over shared memory and over connections" {
  local c b
  for c in allreduce broadcast allgather reducescatter alltoall barrier; do
    for b in node tcp; do
      bench "$c" -n 3 --backend "$b" --sizes 4,100,70000 --check --json
      expect_status 0
      [[ $(field collective | sort -u) == "$c" && $(field backend | sort -u) == "$b" ]]
      [[ $(field wrong | sort -u) == 0 ]]
      [[ $(field ranks | sort -u) == 3 && $(field nodes | sort -u) == 1 ]]
    done
  done
}

@test "every type and operation is right" {
  local t o
  for t in u8 i8 u16 i16 i32 i64 f16 bf16 f32 f64 bool; do
    for o in sum average min max product adasum; do
      case $t-$o in
        bool-average | [ui]*-adasum | bool-adasum) # there is none
          bench allreduce -n 2 -d "$t" --op "$o"
          expect_status 2
          continue
          ;;
      esac
      bench allreduce -n 2 -d "$t" --op "$o" --sizes 8,3000 --check --json
      expect_status 0
      [[ $(field dtype | sort -u) == "$t" && $(field op | sort -u) == "$o" && $(field wrong | sort -u) == 0 ]] ||
        { echo "$output"; return 1; }
    done
  done
}

@test "sizes are whole elements, and of all blocks together in an allgather" {
  bench allreduce -n 2 --sizes 10,1K --json
  [[ $(field bytes | xargs) == "8 1024" && $(field count | xargs) == "2 256" ]]
  bench allgather -n 2 --sizes 1,1K --json
  [[ $(field bytes | xargs) == "8 1024" && $(field count | xargs) == "1 128" ]]
}

@test "blocks of different lengths are right, also where some ranks have none" {
  local c n b rows
  for c in allgather reducescatter alltoall; do
    for n in 2 3; do
      rows=$((n + n / 2))
      for b in node tcp; do
        bench "$c" -n "$n" --backend "$b" --uneven --sizes 4,8,12,100,70000 --check --json
        expect_status 0
        [[ $(field uneven | sort -u) == true && $(field wrong | sort -u) == 0 ]] || { echo "$output"; return 1; }
        [[ $(field bytes | uniq | xargs) == "4 8 12 96 $((70000 / 4 / rows * rows * 4))" ]]
      done
    done
  done
  bench alltoall -n 2 --uneven --sizes 4K --check
  expect_status 0
  [[ ${lines[0]} == "alltoall, 2 ranks on 1 node, uneven blocks, back end node;"* ]]
  bench allgather -n 2 --sizes 8 --json
  [[ $(field uneven | sort -u) == false && $(field members | sort -u) == 1 ]]
}

@test "blocks of different lengths, in groups of different sizes" {
  local c
  for c in allgather reducescatter alltoall; do
    bench "$c" -n 4 --uneven --groups 0,1/1,2,3/2 --sizes 4,70000 --check --json
    expect_status 0
    [[ $(field groups | sort -u) == 3 && $(field wrong | sort -u) == 0 ]]
  done
}

@test "a large all-to-all among many is right, alone and in groups at once" {
  local n how
  for n in 3 5; do
    for how in '' --uneven '--groups 0,1,2/0,1,2'; do
      # shellcheck disable=SC2086 # several words
      bench alltoall -n "$n" -i 2 $how --sizes 100K,400K,7M --check --json
      expect_status 0
      [[ $(field wrong | sort -u) == 0 && $(field bytes | sort -u | wc -l) == 3 ]] || { echo "$output"; return 1; }
    done
  done
}

@test "an all-to-all is passed on between more hosts than are all connected" {
  # Over connections each rank counts as a host; two of these 67 lean on others.
  bench alltoall -n 67 --backend tcp -i 1 --uneven --sizes 300,20K --check --json
  expect_status 0
  [[ $(field ranks | sort -u) == 67 && $(field wrong | sort -u) == 0 ]] || { echo "$output"; return 1; }
}

@test "blocks of different lengths, beside MPI" {
  command -v mpicc.openmpi >/dev/null || skip "Open MPI is not installed"
  local c
  for c in allgather reducescatter alltoall; do
    run timeout 60 ringup bench "$c" -n 3 -i 1 --uneven --sizes 4,70000 --check --json --peer openmpi
    expect_status 0
    [[ $(grep -c '"uneven":true.*"name":"openmpi"' <<<"$output") -ge 2 ]] || { echo "$output"; return 1; }
    [[ $c != reducescatter || $(grep -o '"wrong":[0-9a-z]*' <<<"$output" | sort -u) == '"wrong":0' ]]
  done
}

@test "tensors that go together are right, out of place and in" {
  local c n b
  for c in allreduce allgather reducescatter; do
    for n in 2 3; do
      for b in node tcp; do
        bench "$c" -n "$n" --backend "$b" --members 5 --sizes 4,100,70000 --check --json
        expect_status 0
        [[ $(field members | sort -u) == 5 && $(field wrong | sort -u) == 0 ]] || { echo "$output"; return 1; }
      done
    done
    bench "$c" -n 4 --groups 0,1/1,2,3 --members 2 --sizes 4,70000 --check --json
    expect_status 0
    [[ $(field wrong | sort -u) == 0 ]]
  done
  bench allreduce -n 2 --members 5 --in-place yes --sizes 100,70000 --check --json
  expect_status 0
  [[ $(field bytes | uniq | xargs) == "100 70000" && $(field count | uniq | xargs) == "5 3500" ]]
  [[ $(field wrong | sort -u) == 0 ]]
  bench reducescatter -n 3 --members 256 --uneven --sizes 1,1M --check
  expect_status 0
  [[ ${lines[0]} == "reducescatter, 3 ranks on 1 node, uneven blocks, 256 tensors together, back end node;"* ]]
  not grep -vE ' 0$' <<<"$(tail -n +3 <<<"$output")"
}

@test "tensors that go together, beside MPI, which takes one after the other" {
  command -v mpicc.openmpi >/dev/null || skip "Open MPI is not installed"
  local words
  for words in allreduce "allreduce --in-place yes" allgather reducescatter "reducescatter --uneven"; do
    # shellcheck disable=SC2086
    run timeout 60 ringup bench $words -n 3 -i 1 --members 3 --sizes 4,70000 --check --json --peer openmpi
    expect_status 0
    [[ $(grep -c '"members":3,.*"name":"openmpi"' <<<"$output") -ge 2 ]] || { echo "$output"; return 1; }
    [[ $words == allgather || $(grep -o '"wrong":[0-9a-z]*' <<<"$output" | sort -u) == '"wrong":0' ]]
  done
}

@test "bandwidths follow from the size and the time" {
  bench allreduce -n 2 --sizes 64K --json
  awk -v b="$(field bytes)" -v t="$(field us)" -v a="$(field algbw_gbs)" -v c="$(field busbw_gbs)" \
    'BEGIN { d = b / t / 1000; exit !(a > .99 * d && a < 1.01 * d && c > .99 * a && c < 1.01 * a) }'
  bench allreduce -n 4 --sizes 64K --json
  awk -v a="$(field algbw_gbs)" -v c="$(field busbw_gbs)" \
    'BEGIN { exit !(c > 1.49 * a && c < 1.51 * a) }'
}

@test "the table is in columns, a line or two a size" {
  bench allreduce -np 2 --sizes 8,1M --check
  expect_status 0
  [[ ${lines[0]} == "allreduce, 2 ranks on 1 node, back end node;"* ]]
  [[ $(awk 'NR > 1 { print NF }' <<<"$output" | sort -u) == 12 ]]
  grep -qE '^ +8 +2 +f32 +sum +out +(near|far|mixed|-) .* 0$' <<<"$output"
  grep -qE '^ +1M +262144 +f32 +sum +out +(near|far|mixed|-) .* 0$' <<<"$output"
}

@test "a full disk under stdout ends it, with the reason" {
  [[ -c /dev/full ]] || skip "no /dev/full"
  local words
  for words in "-n 1" "-n 2" "-n 2 --json"; do
    run bash -c 'timeout 60 ringup bench allreduce -i 3 --sizes 8 "$@" >/dev/full' sh $words
    expect_status 3
    [[ $output == *'stdout: No space left on device' ]]
  done
}

@test "ranges of sizes, by a factor" {
  bench allreduce -n 2 --sizes 64:4K:8 --json
  [[ $(field bytes | uniq | xargs) == "64 512 4096" ]]
  bench allreduce -n 2 -b 1K -e 5K -f 2 --json
  [[ $(field bytes | uniq | xargs) == "1024 2048 4096" ]]
}

@test "in place, out of place and both" {
  bench allreduce -n 2 --sizes 4K --in-place both --check --json
  expect_status 0
  [[ $(field in_place | sort -u | xargs) == "false true" && $(field wrong | sort -u) == 0 ]]
  bench broadcast -n 3 --sizes 64K --in-place yes --check --json
  expect_status 0
  [[ $(field in_place | sort -u) == true && $(field wrong | sort -u) == 0 ]]
}

@test "in place where a block is in the whole" {
  local words
  for words in allgather "allgather --uneven" "allgather --members 3" reducescatter \
    "reducescatter --uneven" "reducescatter --members 3" "allgather --alloc"; do
    # shellcheck disable=SC2086
    bench $words -n 3 --sizes 4,3000,1M --in-place both --check --json
    expect_status 0
    [[ $(field in_place | sort -u | xargs) == "false true" && $(field wrong | sort -u) == 0 ]]
  done
}

@test "in place where a block is in the whole, beside MPI" {
  command -v mpicc.openmpi >/dev/null || skip "Open MPI is not installed"
  local words
  for words in allgather "allgather --uneven" reducescatter "reducescatter --uneven" "reducescatter --members 2"; do
    # shellcheck disable=SC2086
    run timeout 60 ringup bench $words -n 3 -i 1 --sizes 4,70000 --in-place yes --check --json --peer openmpi
    expect_status 0
    [[ $(grep -c '"in_place":true,.*"name":"openmpi"' <<<"$output") == 2 ]] || { echo "$output"; return 1; }
    [[ $words == allgather* || $(grep -o '"wrong":[0-9a-z]*' <<<"$output" | sort -u) == '"wrong":0' ]]
  done
}

@test "buffers that others can reach, alone and beside a peer" {
  local c
  for c in allreduce broadcast alltoall resnet50; do
    run timeout 60 ringup bench "$c" -n 2 -i 1 --alloc --sizes 8,32M --check --json
    expect_status 0
    [[ $(field alloc | sort -u) == true && $(field wrong | sort -u) == 0 ]]
  done
  command -v mpicc.mpich >/dev/null || skip "MPICH is not installed"
  # Both have to give their buffers back in between.
  run timeout 60 ringup bench allreduce -n 2 -i 2 --sizes 32M --check --json --peer mpich
  expect_status 0
  [[ $(grep -o '"wrong":[0-9a-z]*' <<<"$output" | sort -u) == '"wrong":0' ]]
}

@test "in groups, apart and overlapping" {
  local c g
  local -A want=([2]=2 [0,1/1,2/2,3/0,1,2,3]=4)
  for g in 2 0,1/1,2/2,3/0,1,2,3; do
    for c in allreduce alltoall reducescatter; do
      bench "$c" -n 4 --groups "$g" --sizes 8,70000 --check --json
      expect_status 0
      [[ $(field wrong | sort -u) == 0 && $(field groups | sort -u) == "${want[$g]}" ]]
    done
  done
}

@test "a set of gradients is right, tensor by tensor" {
  run timeout 60 ringup bench resnet50 -n 2 -i 1 --check --json
  expect_status 0
  [[ $(field collective | sort -u) == resnet50 && $(field bytes | sort -u) == 102228128 ]]
  [[ $(field wrong | sort -u) == 0 ]]
}

@test "the gradients of BERT are right, tensor by tensor" {
  awk '/^MemAvailable/ { exit $2 < 2097152 }' /proc/meminfo || skip "needs 2 GiB of memory"
  run timeout 60 ringup bench bert -n 2 -i 1 --check --json
  expect_status 0
  [[ $(field collective) == bert && $(field bytes) == 437928960 && $(field count) == 109482240 ]]
  [[ $(field wrong) == 0 ]]
}

# players - of each line of JSON in $output: whether ours was wrong, its peers, and whether they were.
players() {
  sed -nE 's/.*"wrong":([0-9a-z]+),"peers":\[(.*)\].*/\1 \2/p' <<<"$output" |
    sed -E 's/\{"name":"([a-z]+)"[^}]*"wrong":([0-9a-z]+)\}/\1 \2/g'
}

@test "through torch, and beside Gloo" {
  need_torch
  run timeout 100 ringup bench allreduce -n 2 -i 1 --sizes 4,70000 --check --json --level torch --peer gloo \
    --python "$python"
  expect_status 0
  [[ $(field bytes | xargs) == "4 70000" && $(players | sort -u) == "0 gloo 0" ]] || { echo "$output"; return 1; }
  [[ $output != *"nothing was compared"* ]]
  # Where nobody looks, that is said once.
  run timeout 100 ringup bench allgather -n 2 -i 1 --sizes 4,4K --check --json --level torch --python "$python"
  expect_status 0
  [[ $(field wrong | sort -u) == null && $(grep -c 'of this nothing was compared' <<<"$output") == 1 ]]
  # There is no way around the Python.
  run timeout 60 ringup bench allreduce -n 2 -i 1 --sizes 4 --level torch --python /nonexistent
  expect_status 3
}

@test "a set of gradients through torch, and beside Gloo" {
  need_torch
  run timeout 100 ringup bench resnet50 -n 2 -i 1 --check --json --level torch --peer gloo --python "$python"
  expect_status 0
  [[ $(field collective) == resnet50 && $(field bytes) == 102228128 && $(players) == "0 gloo 0" ]] || {
    echo "$output"
    return 1
  }
}

@test "a plot is well-formed and shows every contender" {
  run timeout 60 ringup bench allreduce -n 2 -i 2 --sizes 8:64K:8 --plot "$BATS_TEST_TMPDIR/x.svg"
  expect_status 0
  grep -qF '>allreduce, f32, 2 ranks on 1 node</text>' "$BATS_TEST_TMPDIR/x.svg"
  grep -qE '<text [^>]*>ringup(, (near|far|mixed))?</text>' "$BATS_TEST_TMPDIR/x.svg"
  [[ -x ${RINGUP_TEST_PYTHON:-} ]] || skip "no python3 to parse XML with"
  "$RINGUP_TEST_PYTHON" -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$BATS_TEST_TMPDIR/x.svg"
  # Where no file can be written, that is said before anything is measured.
  run timeout 60 ringup bench allreduce -n 2 -i 2 --sizes 8 --plot /nonexistent/x.svg
  expect_status 3
  [[ ${#lines[@]} -eq 1 && $output == *"/nonexistent/x.svg"* ]] || { echo "$output"; return 1; }
}

@test "a plot by the name of stdout goes behind what is there" {
  local out=$BATS_TEST_TMPDIR/out
  timeout 60 ringup bench allreduce -n 2 -i 2 --sizes 8 --plot /dev/stdout >"$out"
  [[ $(head -n 1 "$out") == "allreduce, 2 ranks"* && $(tail -n 1 "$out") == "</svg>" ]] || {
    cat "$out"
    return 1
  }
}

@test "a plot goes into a FIFO, and nobody is kept from ending the wait for its reader" {
  local fifo=$BATS_TEST_TMPDIR/fifo out=$BATS_TEST_TMPDIR/out pid i
  mkfifo "$fifo"
  timeout 60 cat "$fifo" >"$BATS_TEST_TMPDIR/read" &
  pid=$!
  run timeout 60 ringup bench allreduce -n 2 -i 2 --sizes 8 --plot "$fifo"
  expect_status 0
  wait "$pid"
  [[ -p $fifo && $(<"$BATS_TEST_TMPDIR/read") == *'</svg>' ]]
  timeout -k 20 60 ringup bench allreduce -n 2 -i 2 --sizes 8 --plot "$fifo" >"$out" 3>&- &
  pid=$!
  for ((i = 0; i < 200 && $(wc -l <"$out") < 3; i++)); do
    sleep 0.05
  done
  kill "$pid"
  i=0
  wait "$pid" || i=$?
  [[ $i -ne 137 && $i -ne 0 ]] || { echo "$i"; return 1; }
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

@test "on two hosts, MPI too" {
  [[ $EUID -eq 0 ]] && ip netns add "probe$$" 2>/dev/null || skip "needs root and ip netns"
  ip netns del "probe$$"
  command -v mpicc.openmpi >/dev/null || skip "Open MPI is not installed"
  run timeout 120 "$src/tests/peers/nodes.bash" ringup bench allreduce -np 4 -i 2 --sizes 8,100K \
    --check --json --peer openmpi
  expect_status 0
  [[ $(field nodes | sort -u) == 2 && $(grep -o '"wrong":[0-9a-z]*' <<<"$output" | sort -u) == '"wrong":0' ]]
  # On three, of which two have two ranks each.
  run timeout 120 "$src/tests/peers/nodes.bash" --hosts 3 ringup bench allreduce -np 5 -i 2 --sizes 8,100K \
    --check --json --peer openmpi
  expect_status 0
  [[ $(field nodes | sort -u) == 3 && $(grep -o '"wrong":[0-9a-z]*' <<<"$output" | sort -u) == '"wrong":0' ]]
  [[ $(grep -c '"name":"openmpi"' <<<"$output") -ge 2 ]]
}

@test "in a cgroup, which is gone afterwards" {
  local top=/sys/fs/cgroup
  if [[ -d $top/cpu ]]; then
    top+=/cpu
  else
    grep -qsw cpu "$top/cgroup.subtree_control" || skip "no cgroup here shares processors"
  fi
  [[ $EUID -eq 0 ]] && mkdir "$top/probe$$" 2>/dev/null || skip "needs root, and cgroups that can be made"
  rmdir "$top/probe$$"
  run timeout 60 "$src/tests/peers/container.bash" ringup bench allreduce -np 2 -i 2 --sizes 8 --hog 1 --check --json
  expect_status 0
  [[ $(field wrong | sort -u) == 0 && -z $(find /sys/fs/cgroup -maxdepth 2 -name 'ringup-bench.*') ]]
}

@test "beside a hog, which is gone afterwards" {
  # Others may run the same test: the Python, which nobody needs, tells this one's.
  run timeout 60 ringup bench allreduce -n 2 -i 2 --sizes 8 --python "$BATS_TEST_TMPDIR/none" --hog 1 --check --json
  expect_status 0
  [[ $(field wrong | sort -u) == 0 ]]
  not pgrep -f -- "$BATS_TEST_TMPDIR/none --hog"
}

@test "ranks bound to a processor each" {
  run timeout 60 ringup bench allreduce -n 3 -i 2 --sizes 8 --pin --check --json
  expect_status 0
  [[ $(field wrong | sort -u) == 0 ]]
}

# leftovers - print what ringup bench has left in $TMPDIR.
leftovers() {
  find "$TMPDIR" -mindepth 1
}

@test "MPI takes part, both kinds, and nothing is left" {
  command -v mpicc.openmpi mpicc.mpich >/dev/null || skip "Open MPI and MPICH are not both installed"
  export TMPDIR=$BATS_TEST_TMPDIR/tmp
  mkdir "$TMPDIR"
  run timeout 120 ringup bench allreduce -np 2 -i 2 --sizes 8,300K --check --json --peer openmpi,openmpi-tuned,mpich
  expect_status 0
  [[ $(grep -c '"name":"openmpi".*"name":"openmpi-tuned".*"name":"mpich"' <<<"$output") -ge 2 ]]
  [[ $(grep -o '"wrong":[0-9a-z]*' <<<"$output" | sort -u) == '"wrong":0' ]]
  [[ $(grep -o '"ratio":[0-9.e+-]*' <<<"$output" | wc -l) -ge 6 ]]
  # Open MPI itself may leave its own session directory.
  [[ -z $(leftovers | grep -v ompi) ]] || { leftovers; return 1; }
}

@test "a peer that has no such type or operation is left out, and the others play" {
  command -v mpicc.openmpi mpicc.mpich >/dev/null || skip "Open MPI and MPICH are not both installed"
  local t o
  for t in bool f16 u16; do
    for o in max product adasum; do
      [[ $o != adasum || $t == f16 ]] || continue
      run timeout 60 ringup bench allreduce -n 2 -i 1 -d "$t" --op "$o" --sizes 8,5000 --check --json \
        --peer openmpi,mpich
      expect_status 0
      if [[ $t == f16 ]]; then
        [[ $output == *"openmpi is left out: "*"mpich is left out: "*'"peers":[]'* ]]
      else
        [[ $(grep -c '"name":"openmpi".*"name":"mpich"' <<<"$output") -ge 2 ]]
      fi || { echo "$t $o: $output"; return 1; }
    done
  done
}

@test "a peer that is not here is left out, or an error if it was the only one" {
  command -v mpicc.openmpi >/dev/null || skip "Open MPI is not installed"
  stub mpirun.mpich 'exit 1'
  stub mpirun 'exit 1'
  run timeout 60 ringup bench allreduce -n 2 -i 1 --sizes 8 --json --peer openmpi,mpich
  expect_status 0
  [[ $output == *"mpich is left out: MPICH is not here: no mpirun.mpich"* && $output == *'"name":"openmpi"'* ]]
  run timeout 60 ringup bench allreduce -n 2 -i 1 --sizes 8 --json --peer mpich
  expect_status 3
  [[ $output == *"MPICH is not here"* ]]
}

@test "a peer whose results are wrong is told, by the status too" {
  command -v mpicc.openmpi >/dev/null || skip "Open MPI is not installed"
  cat >"$BATS_TEST_TMPDIR/wrong.c" <<'EOT'
#include <mpi.h>

int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	int rc = PMPI_Allreduce(in, out, n, type, op, comm);

	((float *)out)[n - 1] += 1;
	return rc;
}
EOT
  mpicc.openmpi -shared -fPIC "$BATS_TEST_TMPDIR/wrong.c" -o "$BATS_TEST_TMPDIR/wrong.so"
  stub mpirun.openmpi "exec $(command -v mpirun.openmpi) -x LD_PRELOAD=$BATS_TEST_TMPDIR/wrong.so \"\$@\""
  run timeout 60 ringup bench allreduce -n 2 -i 3 --sizes 4K --check --peer openmpi
  expect_status 1
  # Ours is right.
  grep -qE '^ +4K .* 0 +[0-9.]+ +WRONG +[1-9][0-9]*$' <<<"$output" || { echo "$output"; return 1; }
  bench allreduce -n 2 --sizes 4K --check --json --peer openmpi
  expect_status 1
  [[ $(players) == "0 openmpi "[1-9]* ]] || { echo "$output"; return 1; }
}

@test "a peer that breaks off ends the contest, and nothing is left" {
  command -v mpicc.mpich >/dev/null || skip "MPICH is not installed"
  export TMPDIR=$BATS_TEST_TMPDIR/tmp
  mkdir "$TMPDIR"
  stub mpirun.mpich 'if [[ $1 == --version ]]; then echo HYDRA; else exit 7; fi'
  run timeout 60 ringup bench allreduce -n 2 -i 1 --sizes 8 --peer mpich
  expect_status 3
  [[ $output == *"mpich: ended before its ranks came"* && -z $(leftovers) ]]
}

@test "the program that makes all tables makes some" {
  [[ -x ${RINGUP_TEST_PYTHON:-} ]] || skip "no python3"
  command -v mpicc.mpich >/dev/null || skip "MPICH is not installed"
  run timeout 120 "$RINGUP_TEST_PYTHON" "$src/tests/peers/table.py" --rows barrier-2,idle --seconds 1
  expect_status 0
  [[ $output == *"| Barrier, 2 ranks | best peer |"* ]]
  grep -qE '^\| Memory of an idle rank .* < 8 MiB: yes \|$' <<<"$output"
  # Nobody works, and hardly anything wakes up.
  [[ $(grep -cE '^\| [01] \| .* \| [0-9]+\.[0-9] \| 0\.[0-9] % \|$' <<<"$output") -eq 2 ]]
  run timeout 60 "$RINGUP_TEST_PYTHON" "$src/tests/peers/table.py" --rows nonsense
  expect_status 2
}

@test "steps under a quota and beside children are measured, and nothing is left" {
  [[ -x ${RINGUP_TEST_PYTHON:-} ]] || skip "no python3"
  command -v mpicc.mpich >/dev/null || skip "MPICH is not installed"
  local quotas=0 rows=6
  if [[ $EUID -eq 0 && -w /sys/fs/cgroup/cpu/cpu.cfs_quota_us ]]; then quotas=0,1 rows=8; fi
  run timeout 100 "$RINGUP_TEST_PYTHON" "$src/tests/peers/steps.py" --ringup "$builddir/ringup" --seconds 0.3 \
    --rounds 1 --compute 100 --quotas "$quotas" --children 0,2
  expect_status 0
  # Whoever has one processor's worth of time has no more.
  awk -F ' *[|] *' '$2 == 1 && $8 > 1.3 { exit 1 }' <<<"$output"
  [[ $(grep -cE '^\| [0-9.]+ \| (ringup|MPICH) \| [1-9]' <<<"$output") -eq $rows ]] || {
    echo "$output"
    return 1
  }
  # Nor if it is told to end in the middle; the group is called after its process.
  "$RINGUP_TEST_PYTHON" "$src/tests/peers/steps.py" --ringup "$builddir/ringup" --seconds 30 --quotas "${quotas##*,}" \
    >/dev/null 2>&1 3>&- &
  local pid=$!
  sleep 4
  kill "$pid"
  wait "$pid" || true
  [[ -z $(compgen -G "/sys/fs/cgroup/*/ringup-steps-$pid" || true) ]]
}

@test "an interrupted contest leaves nothing" {
  export TMPDIR=$BATS_TEST_TMPDIR/tmp
  mkdir "$TMPDIR"
  timeout 60 ringup bench allreduce -n 2 -t 50 --sizes 16M,64M >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  local pid=$! i ranks=
  for ((i = 0; i < 200; i++)); do
    ranks=$(pgrep -f "bench --backend=.* --join=$TMPDIR" || true)
    [[ $(wc -w <<<"$ranks") -lt 3 ]] || break
    sleep 0.05
  done
  kill "$pid"
  wait "$pid" || true
  for ((i = 0; i < 100; i++)); do
    pgrep -f -- "--join=$TMPDIR" >/dev/null || break
    sleep 0.05
  done
  not pgrep -f -- "--join=$TMPDIR"
  [[ -z $(leftovers) ]]
}

# kill_third [HOW] - kill rank 2 of a bench at work; between two orders: while the bench stands
# still, all ranks have answered the one and wait for the other.
kill_third() {
  export TMPDIR=$BATS_TEST_TMPDIR/tmp
  mkdir "$TMPDIR"
  timeout 60 ringup bench allreduce -n 3 -t 50 --sizes 16M,64M >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  local pid=$! i p victim='' bench
  for ((i = 0; i < 200; i++)); do
    for p in $(pgrep -f -- "--join=$TMPDIR" || true); do
      grep -qz '^RINGUP_RANK=2$' "/proc/$p/environ" 2>/dev/null && victim=$p
    done
    [[ -z $victim || $(wc -l <"$BATS_TEST_TMPDIR/out") -lt 2 ]] || break
    sleep 0.05
  done
  if [[ ${1:-} == between ]]; then
    bench=$(pgrep -P "$pid")
    kill -STOP "$bench"
    sleep 2
  fi
  kill -KILL "$victim"
  [[ ${1:-} != between ]] || kill -CONT "$bench"
  i=0
  wait "$pid" || i=$?
  [[ $i -eq 3 ]]
  grep -qx 'ringup bench: ringup: rank 2: it has ended' "$BATS_TEST_TMPDIR/out" || { cat "$BATS_TEST_TMPDIR/out"; return 1; }
  [[ -z $(leftovers) ]]
}

@test "a rank that is killed is named, and nothing is left" {
  kill_third
}

@test "a rank that is killed between two orders is, too" {
  kill_third between
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
  run timeout 60 ringup run -np 2 --no-prefix -- ringup bench allreduce -i 3 --sizes 64 --check --json
  expect_status 0
  [[ $(field ranks) == 2 && $(field wrong) == 0 ]]
  run timeout 60 ringup run -np 2 -- ringup bench allreduce --peer mpich
  expect_status 2
  run timeout 60 ringup run -np 2 -- ringup bench allreduce -n 3
  expect_status 2
  [[ $output == *"--ranks=3, but ringup run has started 2"* ]]
  local words
  for words in "--level torch" "--python python3" "--under env" "--hog 1" --pin; do
    # shellcheck disable=SC2086
    run timeout 60 ringup run -np 1 -- ringup bench allreduce --sizes 8 -i 1 $words
    expect_status 2
    [[ $output == *"${words%% *}"*": ringup run has started this"* ]]
  done
}

@test "under mpirun it is one of the ranks" {
  [[ -x ${RINGUP_TEST_MPIRUN:-} ]] || skip "mpirun is not installed"
  run timeout 60 "$RINGUP_TEST_MPIRUN" --allow-run-as-root --oversubscribe -np 2 \
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
    run timeout 60 ringup bench $words
    [[ $status -eq 2 && -n $output ]] || { echo "$words: $status $output"; return 1; }
  done
}

@test "options may follow the collective, --help too" {
  run timeout 60 ringup bench allreduce --help
  expect_status 0
  [[ $output == "usage: ringup bench"* ]]
}

@test "what idle ranks cost can be measured" {
  local cpu
  run timeout 60 python3 "$src/tests/peers/idle.py" --ringup "$(command -v ringup)" -n 2 --seconds 1
  expect_status 0
  [[ $(field rss_kib | wc -l) -eq 2 ]]
  for cpu in $(field cpu_percent); do
    [[ ${cpu%.*} -lt 50 ]] # a spinning rank has 100
  done
}

@test "a rank that cannot start is a failure, and nothing is left" {
  run env RINGUP_START_TIMEOUT_MS=2000 timeout 60 ringup bench allreduce -n 2 --backend self
  [[ $status -eq 3 ]] || { echo "$status $output"; return 1; }
  [[ $output == *"self serves one rank, not 2"* ]]
}
