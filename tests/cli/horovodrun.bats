#!/usr/bin/env bats
# horovodrun.bats - horovodrun: upstream's options, what they become, what is said about them
# needs: cpu
# tests: src/cli/horovodrun.c src/cli/hvdopts.c src/cli/hvdopts.def src/cli/hvdbuild.c src/base/yaml.c src/base/horovod.def src/launch completion docs/man/horovodrun.1

load ../lib/helper

setup() {
  local v
  for v in $(compgen -e | grep -E '^(HOROVOD|NCCL|OMPI|PMI|PMIX|SLURM)_|^(RANK|WORLD_SIZE|RINGUP_PYTHON|PYTHONPATH)$'); do
    unset "$v"
  done
  cd "$BATS_TEST_TMPDIR"
}

# told OPTION... -- the variables that the options set, one a line.
told() {
  horovodrun -np 1 --dry-run "$@" true 2>/dev/null | sed -n 's/^env //p' | sed 's/ ringup run .*//' | tr ' ' '\n'
}

@test "ranks start, and each line says whose it is" {
  horovodrun -np 2 sh -c 'echo "out $HOROVOD_RANK of $HOROVOD_SIZE"; echo err >&2' >out 2>err
  [[ $(sort out) == "[0]<stdout>:out 0 of 2"$'\n'"[1]<stdout>:out 1 of 2" ]]
  [[ $(sort err) == "[0]<stderr>:err"$'\n'"[1]<stderr>:err" ]]
}

@test "the status is that of the rank that failed" {
  local n
  for n in 0 1 7; do
    run horovodrun -np 2 -- sh -c "exit $n"
    expect_status "$n"
  done
}

@test "each option becomes the variable that upstream's launcher sets" {
  local option want
  while read -r option want; do
    [[ $(told $option) == "$want" ]] || { echo "$option: $(told $option), not $want"; return 1; }
  done <<'EOT'
--fusion-threshold-mb=10 HOROVOD_FUSION_THRESHOLD=10485760
--cycle-time-ms=2.5 HOROVOD_CYCLE_TIME=2.5
--cache-capacity=512 HOROVOD_CACHE_CAPACITY=512
--hierarchical-allreduce HOROVOD_HIERARCHICAL_ALLREDUCE=1
--no-hierarchical-allgather HOROVOD_HIERARCHICAL_ALLGATHER=0
--torus-allreduce HOROVOD_TORUS_ALLREDUCE=1
--autotune HOROVOD_AUTOTUNE=1
--timeline-filename=t.json HOROVOD_TIMELINE=t.json
--no-stall-check HOROVOD_STALL_CHECK_DISABLE=1
--stall-check HOROVOD_STALL_CHECK_DISABLE=0
--stall-check-warning-time-seconds=10 HOROVOD_STALL_CHECK_TIME_SECONDS=10
--stall-check-shutdown-time-seconds=20 HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=20
--mpi-threads-disable HOROVOD_MPI_THREADS_DISABLE=1
--num-nccl-streams=2 HOROVOD_NUM_NCCL_STREAMS=2
--thread-affinity=1 HOROVOD_THREAD_AFFINITY=1
--gloo-timeout-seconds=60 HOROVOD_GLOO_TIMEOUT_SECONDS=60
--log-level=INFO HOROVOD_LOG_LEVEL=INFO
--log-with-timestamp HOROVOD_LOG_HIDE_TIME=0
--log-hide-timestamp HOROVOD_LOG_HIDE_TIME=1
--start-timeout=5 HOROVOD_START_TIMEOUT=5
--tcp NCCL_IB_DISABLE=1
EOT
  [[ $(told --network-interfaces eth0,eth1 --network-interface eth1 --network-interface eth10) == \
    "HOROVOD_GLOO_IFACE=eth0,eth1,eth10"$'\n'"NCCL_SOCKET_IFNAME=eth0,eth1,eth10" ]]
}

@test "the ranks see these variables" {
  run horovodrun -np 1 --stall-check-warning-time-seconds 10 sh -c 'echo $HOROVOD_STALL_CHECK_TIME_SECONDS'
  expect_line "[0]<stdout>:10"
}

@test "autotuning's and the timeline's options count with them only" {
  [[ -z $(told --autotune-warmup-samples 1 --timeline-mark-cycles) ]]
  [[ $(told --autotune --autotune-warmup-samples 1) == *HOROVOD_AUTOTUNE_WARMUP_SAMPLES=1 ]]
  [[ $(told --timeline-filename t --timeline-mark-cycles) == *HOROVOD_TIMELINE_MARK_CYCLES=1 ]]
}

@test "what is not needed is accepted, and one line says why" {
  run horovodrun -np 1 --dry-run --torus-allreduce --hierarchical-allreduce --disable-cache --mpi-args=x true
  expect_status 0
  grep -qE '^horovodrun: --hierarchical-allreduce, --torus-allreduce: always on' <<<"$output"
  grep -qE '^horovodrun: --disable-cache: ' <<<"$output"
  grep -qE '^horovodrun: --mpi-args: no effect: only --mpi' <<<"$output"
  run horovodrun -np 1 --dry-run --gloo --no-torus-allreduce true
  [[ $(wc -l <<<"$output") -eq 1 ]]
}

@test "hosts that are all here need no ssh; too few slots are an error" {
  run horovodrun -np 2 -H localhost:1,127.0.0.1:1 -p 22 --dry-run true
  [[ $output == "ringup run -np 2 --tag-output -- true" ]]
  run horovodrun -np 3 -H localhost:2 true
  expect_status 2
  [[ $output == *"Requested more processes (3) than there are available slots (2)"* ]]
}

@test "hosts and elastic jobs are handed on to ringup run" {
  run horovodrun -np 2 -H a:1,b:1 -p 2222 -i key --dry-run true
  [[ $output == "ringup run -np 2 --hosts=a:1,b:1 --ssh-port=2222 --ssh-identity-file=key --tag-output -- true" ]]
  run horovodrun -np 2 --min-np 1 --max-np 4 --host-discovery-script ./d --slots-per-host 1 --elastic-timeout 9 \
    --reset-limit 3 --blacklist-cooldown-range 10 20 --dry-run true
  [[ $output == "ringup run -np 2 --min-np=1 --max-np=4 --host-discovery-script=./d --slots-per-host=1 --elastic-timeout=9 --reset-limit=3 --blacklist-cooldown-range=10,20 --tag-output -- true" ]]
}

@test "output goes to folders that sort, and has the time if asked" {
  horovodrun -np 11 --output-filename logs --prefix-output-with-timestamp true
  [[ -e logs/rank.00/stdout && -e logs/rank.10/stderr ]]
  run horovodrun -np 1 -prefix-timestamp echo x
  [[ $output =~ ^[A-Z][a-z]{2}\ [A-Z][a-z]{2}\ [\ 0-9][0-9]\ [0-9:]{8}\ [0-9]{4}\[0\]\<stdout\>:x$ ]]
}

@test "a file of options counts unless the command line says otherwise" {
  cat >c.yaml <<'EOT'
controller: gloo
params:
  fusion_threshold_mb: 32
  cycle_time_ms: 10
stall_check:
  enabled: false
logging:
  level: 'INFO'
EOT
  [[ $(told --cycle-time-ms 20 --config-file c.yaml) == \
    "HOROVOD_FUSION_THRESHOLD=33554432"$'\n'"HOROVOD_CYCLE_TIME=20"$'\n'"HOROVOD_STALL_CHECK_DISABLE=1"$'\n'"HOROVOD_LOG_LEVEL=INFO" ]]
}

@test "a wrong file is refused by line, a missing one by name" {
  local text why
  while IFS='|' read -r text why; do
    printf "$text" >c.yaml
    run horovodrun -np 1 --config-file c.yaml touch started
    expect_status 2
    [[ $output == *"c.yaml: $why"* && ! -e started ]] || { echo "$output"; return 1; }
  done <<'EOT'
params:\n  cycle_time_ms: [1]\n|line 2: not one plain value
params:\n  cycle_time_ms: -1\n|params.cycle_time_ms: -1: must be 0 or more
timeline:\n  mark_cycles: maybe\n|line 2: timeline.mark_cycles: maybe: not true or false
controller: spark\n|line 1: controller: spark: not gloo or mpi
EOT
  run horovodrun -np 1 --config-file none.yaml true
  expect_status 2
  [[ $output == *none.yaml* ]]
  echo 'param: 1' >c.yaml
  run horovodrun -np 1 --config-file c.yaml --dry-run true
  expect_status 0
  [[ $output == *"c.yaml: line 1: param is unknown and ignored"* ]]
}

@test "wrong values start nothing" {
  local words
  for words in "--fusion-threshold-mb -1" "--cycle-time-ms nan" "--cycle-time-ms 0x1" "--num-proc two" "-np 0" \
    "--autotune-gaussian-process-noise 1.5" "--log-level LOUD" "--autotune --no-autotune" "--gloo --mpi" \
    "-H a:1 --hostfile f" "--blacklist-cooldown-range 5" "--blacklist-cooldown-range 9 3" "--cache-capacity 99999999999" \
    "--timeline-filenam t" "--output-filename="; do
    run horovodrun -np 1 $words touch started
    expect_status 2
    [[ $output == "horovodrun: "*"try: horovodrun --help" && ! -e started ]] || { echo "$words: $output"; return 1; }
  done
  run horovodrun true
  expect_status 2
  [[ $output == *"-np is missing"* ]]
  run horovodrun -np 2
  expect_status 2
  [[ $output == *"the command is missing"* ]]
}

@test "elastic jobs run also where horovodrun was installed without ringup" {
  mkdir alone
  cp "$(command -v horovodrun)" alone
  run alone/horovodrun -np 1 --min-np 1 sh -c 'echo "elastic $HOROVOD_ELASTIC"'
  expect_status 0
  [[ $output == *"elastic 1"* ]]
}

@test "options for elastic jobs say that they do nothing in others" {
  run horovodrun -np 1 --max-np 2 --reset-limit 3 --blacklist-cooldown-range 1 2 --dry-run true
  expect_status 0
  [[ $(grep -c ': no effect: only elastic jobs use it (--min-np or --host-discovery-script)' <<<"$output") -eq 3 ]]
  run horovodrun -np 1 --min-np 1 --max-np 2 --dry-run true
  [[ $output != *"only elastic jobs"* ]]
}

@test "--start-timeout also limits how long a host may take to answer" {
  stub slow 'exec sleep 60'
  RINGUP_SSH=$BATS_TEST_TMPDIR/bin/slow run horovodrun -np 1 -H other.invalid:1 --start-timeout 1 true
  expect_status 3
  [[ $output == *"host other.invalid: no answer after 1 s; is it up? (--start-timeout)"* ]]
}

@test "mpirun starts the ranks with --mpi, and what it is not there for is told" {
  stub mpirun 'case $1 in --version) echo "mpirun (Open MPI) 4.1.4" ;; *) printf "%s\n" "$@" ;; esac'
  run horovodrun -np 2 --mpi -H a:1,b:1 --cycle-time-ms 3 -p 22 --mpi-args="--map-by 'ppr 1'" ./a.out x
  expect_status 0
  grep -qx 'HOROVOD_CYCLE_TIME' <<<"$output"
  grep -qx -- '-p 22' <<<"$output"
  grep -qx 'ppr 1' <<<"$output"
  grep -qx 'a:1,b:1' <<<"$output"
  [[ $(tail -n 2 <<<"$output") == "./a.out"$'\n'"x" ]]
  rm "$BATS_TEST_TMPDIR/bin/mpirun"
  ln -s "$(command -v horovodrun)" "$(command -v sh)" "$BATS_TEST_TMPDIR/bin"
  PATH=$BATS_TEST_TMPDIR/bin run "$BATS_TEST_TMPDIR/bin/horovodrun" -np 1 --mpi --jsrun true
  expect_status 2
  PATH=$BATS_TEST_TMPDIR/bin run "$BATS_TEST_TMPDIR/bin/horovodrun" -np 1 --mpi --dry-run true
  [[ $output == *"--mpi: no mpirun in PATH; ringup starts the ranks itself"* ]]
}

@test "check-build has upstream's layout, and looks at files only" {
  local site=site/lib/python3.11/site-packages
  mkdir -p site/bin "$site"/{torch,horovod/torch,tensorflow}
  touch "$site"/{torch,horovod,horovod/torch,tensorflow}/__init__.py
  printf '#!/bin/sh\ntouch started\n' >site/bin/python3.11
  chmod +x site/bin/python3.11
  ln -s python3.11 site/bin/python3
  printf 'home = /usr/bin\nversion = 3.11.2\n' >site/pyvenv.cfg
  RINGUP_PYTHON=$PWD/site run horovodrun --check-build
  expect_status 0
  [[ ! -e started ]]
  sed 's/^    \[.\] MPI$/    [?] MPI/' <<<"$output" >got
  diff - got <<'EOT'
Horovod v0.28.1:

Available Frameworks:
    [ ] TensorFlow
    [X] PyTorch
    [ ] MXNet

Available Controllers:
    [?] MPI
    [X] Gloo

Available Tensor Operations:
    [ ] NCCL
    [ ] DDL
    [ ] CCL
    [?] MPI
    [X] Gloo
EOT
  rm -r "$site/horovod"
  RINGUP_PYTHON=$PWD/site run horovodrun -cb
  expect_line "    [ ] PyTorch"
  [[ $output == *"does not have the package horovod"* ]]
  PYTHONPATH=$PWD/more:/nowhere
  mkdir -p more/horovod/torch
  touch more/horovod/{,torch/}__init__.py
  PYTHONPATH=$PYTHONPATH RINGUP_PYTHON=$PWD/site run horovodrun -cb
  expect_line "    [X] PyTorch"
}

@test "the arguments as JSON are upstream's" {
  horovodrun -np 4 --min-np 2 --blacklist-cooldown-range 120 600 --cycle-time-ms 20 --no-torus-allreduce \
    --network-interface eth0,eth1 --mpi --json python x >out
  jq -e '.num_proc == 4 and .min_num_proc == 2 and .cooldown_range == [120, 600] and .cycle_time_ms == 20
    and .torus_allreduce == false and .autotune == null and .nics == ["eth0", "eth1"] and .use_mpi
    and .command == ["python", "x"]' out
}

@test "the manual has every option and no other" {
  diff <(horovodrun --help | grep -oE '^  (-., |    )--?[a-z-]+' | grep -oE '[a-z]{2}[a-z-]*$' | sort -u) \
    <(grep '^\.It' "$src/docs/man/horovodrun.1" | grep -oE 'Fl \\-[a-z-]+' | sed 's/Fl ..//' | sort -u)
  grep -qxF ".Nd $(horovodrun --help | sed -n 2p)" "$src/docs/man/horovodrun.1"
}

@test "completion knows the options, and stops behind the program" {
  # shellcheck source=/dev/null
  source "$src/completion/horovodrun.bash"
  COMP_WORDS=(horovodrun -np 2 --timeline-f) COMP_CWORD=3
  _horovodrun
  [[ ${COMPREPLY[*]} == --timeline-filename ]]
  COMP_WORDS=(horovodrun --check) COMP_CWORD=1
  _horovodrun
  [[ ${COMPREPLY[*]} == --check-build ]]
  COMP_WORDS=(horovodrun -np 2 python --ver) COMP_CWORD=4
  _horovodrun
  [[ -z ${COMPREPLY[*]} ]]
}
