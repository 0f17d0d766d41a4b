# shellcheck shell=bash disable=SC2154
# jobs.bash - tests/run: the queue of builds and test programs, and which of them run at one time.
#
# A job is one index of the arrays below.  It computes ("cpu": at most $jobs at a time), waits
# ("waits": four times as many) or is alone on the machine ("quiet").  Each runs in a process group
# of its own, in the background; its output, its cost and its results are files:
#
#   $work/jobs/N/log      what it printed
#   $work/jobs/N/time     seconds of wall time, of user time, of system time; and its exit status
#   $work/jobs/N/result   what tests/lib/tap.awk made of the log
#
# A test program sees $TMPDIR, a folder that it must leave empty, and $RINGUP_TEST_RUN, by which
# processes that outlive it are found.

job_name=() job_body=() job_tree=() job_test=() job_needs=() job_state=() job_pid=() job_long=()
# Trees that are built, and the job of each process.
declare -A tree_ready=() job_of=()
running_cpu=0 running_waits=0 running_quiet=0
ticker=''
doubtful=()
# Failures of a kind that a second run may not excuse.
sure_failure='AddressSanitizer|ThreadSanitizer|LeakSanitizer|UndefinedBehaviorSanitizer|runtime error:'

# job_add BODY TREE NAME NEEDS - queue a job: the function BODY, which needs the tree TREE built, if any.
job_add() {
  local i=${#job_name[@]}
  job_body[i]=$1 job_tree[i]=$2 job_test[i]=$3 job_needs[i]=$4 job_state[i]=queued
  job_long[i]=$long job_name[i]=$3
  [[ -z $2 ]] || job_name[i]="$2 ${3#tests/}"
}

# job_pool I - print which pool it belongs to.
job_pool() {
  case " ${job_needs[$1]} " in
    *' quiet '*) echo quiet ;;
    *' waits '*) echo waits ;;
    *) echo cpu ;;
  esac
}

# job_fits I - may it start beside what runs now?
job_fits() {
  [[ -z ${job_tree[$1]} || ${job_body[$1]} == tree_body || -n ${tree_ready[${job_tree[$1]}]:-} ]] || return 1
  ((running_quiet == 0)) || return 1
  case ${job_pool[$1]} in
    quiet) ((running_cpu + running_waits == 0)) ;;
    waits) ((running_waits < 4 * jobs)) ;;
    cpu) ((running_cpu < jobs)) ;;
  esac
}

# job_count POOL DIFFERENCE - as many more of this pool run now.
job_count() {
  case $1 in
    quiet) running_quiet=$((running_quiet + $2)) ;;
    waits) running_waits=$((running_waits + $2)) ;;
    cpu) running_cpu=$((running_cpu + $2)) ;;
  esac
}

# job_measured I CMD ARG... - run CMD in the foreground of job I: log, time, exit status.
job_measured() {
  local folder=$work/jobs/$1 status=0 TIMEFORMAT='%R %U %S'
  shift
  { time "$@" >"$folder/log" 2>&1 </dev/null || status=$?; } 2>"$folder/time"
  echo "$status" >>"$folder/time"
  return "$status"
}

# test_command TEST SECONDS - set $command to what runs it.
test_command() {
  local file=$work/ringup/$1
  local -a before
  command=(timeout -k 10 "$2")
  case $1 in
    *.bats) command+=("${BATS:-bats}" --tap "$file") ;;
    *.py) command+=("$work/ringup/tests/py/run" "$file") ;;
    *)
      read -r -a before <<<"${prefix[$tree]:-}"
      command+=("${before[@]}" "./$1")
      ;;
  esac
}

# test_body I - run the test program of job I and read its results.
test_body() {
  local i=$1 tree=${job_tree[$1]} test=${job_test[$1]} folder=$work/jobs/$1 status=0 try left=''
  local -a command
  cd "$work/$tree" || exit 1
  # shellcheck source=/dev/null
  . tests/environment
  export TMPDIR=$work/tmp/$i RINGUP_TEST_RUN=$work/jobs/$i
  mkdir -m 755 "$TMPDIR"
  if [[ -n ${job_long[i]} ]]; then export RINGUP_TEST_LONG=1; fi
  test_command "$test" "$seconds"
  job_measured "$i" "${command[@]}" || status=$?
  awk -v status="$status" -v limit="$seconds" -f "$here/tests/lib/tap.awk" "$folder/log" >"$folder/result"
  # A process that is just ending may have a few seconds.
  for try in 1 2 3 4 5; do
    left=$(cd "$TMPDIR" && find . -mindepth 1 -maxdepth 1 -printf '%P ')
    [[ -n $left && $try -lt 5 ]] || break
    sleep 1
  done
  [[ -z $left ]] || {
    echo "not ok - it leaves in \$TMPDIR: $left" >>"$folder/log"
    echo "fail leftovers: in \$TMPDIR: $left" >>"$folder/result"
  }
}

# job_start I - start it in the background.
job_start() {
  local i=$1
  job_pool[i]=${job_pool[i]:-$(job_pool "$i")}
  mkdir -p "$work/jobs/$i"
  set -m
  "${job_body[i]}" "$i" >"$work/jobs/$i/words" 2>&1 </dev/null &
  job_pid[i]=$! job_of[$!]=$i job_state[i]=running
  set +m
  job_count "${job_pool[i]}" 1
}

# job_alone I - print the command that runs it by itself.
job_alone() {
  local tree=${job_tree[$1]} test=${job_test[$1]}
  printf 'tests/run%s%s%s%s\n' "${job_long[$1]:+ --shard ${job_long[$1]}}" \
    "$([[ $tree == gcc || -z $tree ]] || echo " --build $tree")" \
    "$([[ $test != tests/* ]] || echo " --only ${test#tests/}")" \
    "${storm:+ --storm=$storm}"
}

# job_environment I - print what may matter of the machine and the moment, a line each.
job_environment() {
  local i=$1 j beside=''
  for j in "${!job_state[@]}"; do
    [[ ${job_state[j]} != running ]] || beside+="${beside:+, }${job_name[j]}"
  done
  printf '%s; %s processors; load %s\n' "$(uname -sr)" "$(nproc)" "$(cut -d' ' -f1-3 /proc/loadavg)"
  printf 'beside it at the end: %s\n' "${beside:-nothing}"
  (compgen -e | grep -E '^(RINGUP_TEST_|CI$|TMPDIR$|XDG_CACHE_HOME$)' | while read -r v; do printf '%s=%s ' "$v" "${!v}"; done)
  printf '\n'
  [[ ! -e $work/${job_tree[i]}/config.status ]] ||
    printf 'built by: %s\n' "$(sed -n 's/^ac_cs_config="\{0,1\}\(.*[^"]\)"\{0,1\}$/\1/p' "$work/${job_tree[i]}/config.status")"
}

# job_failed I - did it?
job_failed() { grep -q '^fail ' "$work/jobs/$1/result"; }

# job_is_sure I - is its failure of a kind that nothing excuses, so that it is not run again?
job_is_sure() {
  local folder=$work/jobs/$1
  [[ ${job_body[$1]} != test_body || ${job_test[$1]} == tests/lint/* ]] ||
    grep -qE "$sure_failure" "$folder/log" ||
    grep -qE '^fail (no end|died|leftovers):' "$folder/result"
}

# job_account I - add its results to those of the run.
job_account() {
  local i=$1 word rest p f s
  while read -r word rest; do
    case $word in
      count)
        read -r p f s <<<"$rest"
        passed=$((passed + p)) skipped=$((skipped + s))
        ;;
      skip) skips+=("${job_name[i]}: $rest") ;;
      fail)
        failed=$((failed + 1)) failures+=("${job_name[i]}: $rest")
        say "        failed: $rest"
        ;;
    esac
  done <"$work/jobs/$i/result"
  if job_failed "$i"; then job_show "$i" "$work/jobs/$i/log"; fi
}

# job_show I LOG - let report() print all that is known of its failure.
job_show() {
  local -a lines
  mapfile -t lines < <(job_environment "$1")
  show_failure "${job_name[$1]}" "$(job_alone "$1")" "$2" "${lines[@]}"
}

# job_cost I - set $wall and $cpu from its times, and note them.
job_cost() {
  local i=$1 user sys kind
  wall=0 cpu=0
  [[ -s $work/jobs/$i/time ]] || return 0
  read -r wall user sys < <(tail -n 2 "$work/jobs/$i/time")
  cpu=$(awk "BEGIN { printf \"%.2f\", $user + $sys }")
  case ${job_body[i]}:${job_tree[i]} in
    tree_body:*) kind=compile ;;
    test_body:gcc) kind=${job_test[i]#tests/} kind=${kind%%/*} ;;
    test_body:*) kind=${job_tree[i]} ;;
    *) kind=${job_test[i]} ;;
  esac
  [[ -z ${job_long[i]} ]] || kind=shard
  cost "$kind" "${job_name[i]// /:}" "$wall" "$cpu"
}

# job_end I STATUS - what is to be done when its process has ended.
job_end() {
  local i=$1 status=$2 folder=$work/jobs/$1 wall cpu p f s rest
  job_state[i]=ended
  job_count "${job_pool[i]}" -1
  [[ -s $folder/result ]] || {
    [[ -s $folder/log ]] || cp "$folder/words" "$folder/log"
    printf 'count 0 1 0\nfail died: tests/run itself, with status %s: %s\n' "$status" "$(tail -n 1 "$folder/words")" >"$folder/result"
  }
  job_cost "$i"
  read -r _ p f s < <(sed -n 1p "$folder/result")
  say "  ${job_name[i]}: $p passed$( ((f == 0)) || echo ", $f failed")$( ((s == 0)) || echo ", $s skipped") ($(printf '%.1f s, %.1f CPU' "$wall" "$cpu"))"
  if job_failed "$i" && [[ ${job_body[i]} == test_body ]] && ! job_is_sure "$i"; then
    sed -n 's/^fail /        fails: /p' "$folder/result"
    doubtful+=("$i")
  else
    job_account "$i"
  fi
  if [[ ${job_body[i]} == tree_body ]]; then tree_end "${job_tree[i]}" "$i"; fi
}

# tree_end TREE I - what needs this tree may start; if it could not be built, it never will.
tree_end() {
  local tree=$1 j
  if ! job_failed "$2"; then
    tree_ready[$tree]=1
    return 0
  fi
  for j in "${!job_state[@]}"; do
    [[ ${job_state[j]} != queued || ${job_tree[j]} != "$tree" ]] || job_state[j]=dropped
  done
}

# ticker_start - a process that ends in a minute, so that a long silence is broken.
ticker_start() {
  sleep 60 &
  ticker=$!
}

# jobs_start - start all that fits.
jobs_start() {
  local i
  for i in "${!job_state[@]}"; do
    [[ ${job_state[i]} == queued ]] || continue
    if [[ -n $deadline && ${job_body[i]} == test_body ]] && ((SECONDS >= deadline)); then
      job_state[i]=late
      result skip "${job_name[i]}" "no time is left for it; tests/run --only ${job_test[i]#tests/} runs it"
      continue
    fi
    job_pool[i]=${job_pool[i]:-$(job_pool "$i")}
    ! job_fits "$i" || job_start "$i"
  done
}

# jobs_running - print the names of those that run.
jobs_running() {
  local i names=''
  for i in "${!job_state[@]}"; do
    [[ ${job_state[i]} != running ]] || names+="${names:+, }${job_name[i]}"
  done
  printf '%s\n' "$names"
}

# jobs_run - until the queue is empty.
jobs_run() {
  local pid status i
  [[ -n $ticker ]] || ticker_start
  while :; do
    jobs_start
    ((running_cpu + running_waits + running_quiet)) || break
    status=0 pid=''
    wait -n -p pid || status=$?
    if [[ $pid == "$ticker" ]]; then
      say "  running: $(jobs_running)"
      ticker_start
      continue
    fi
    i=${job_of[${pid:-0}]:-}
    [[ -z $i ]] || job_end "$i" "$status"
  done
  doubtful_settle
}

# doubtful_settle - run what failed again, alone, three times; at most two programs may so be excused.
doubtful_settle() {
  local i try good
  for i in "${doubtful[@]}"; do
    good=''
    if ((${#doubtful[@]} <= 2)); then
      good=1
      mkdir "$work/jobs/$i/first"
      mv "$work/jobs/$i"/{log,time,result} "$work/jobs/$i/first"
      for try in 1 2 3; do
        say "  ${job_name[i]}: again, alone, $try of 3"
        rm -rf "$work/tmp/$i"
        set -m
        test_body "$i" >"$work/jobs/$i/words" 2>&1 </dev/null &
        job_pid[i]=$! job_state[i]=running
        set +m
        wait "${job_pid[i]}" || true
        job_state[i]=ended
        ! job_failed "$i" || { good='' && break; }
      done
      [[ -n $good ]] || cp "$work/jobs/$i/first"/* "$work/jobs/$i"
    fi
    job_account "$i"
    [[ -n $good ]] || continue
    flaky+=("${job_name[i]}: $(sed -n 's/^fail //p' "$work/jobs/$i/first/result" | head -n 1)")
    job_show "$i" "$work/jobs/$i/first/log"
  done
  doubtful=()
}

# jobs_marked - print the numbers of the processes that tests of this run have started, a line each, each
# with the name of its test.
jobs_marked() {
  local d mark
  for d in /proc/[0-9]*; do
    [[ ${d#/proc/} != "$$" && ${d#/proc/} != "$BASHPID" ]] || continue
    mark=$(grep -zm1 "^RINGUP_TEST_RUN=$work/jobs/" "$d/environ" 2>/dev/null | tr -d '\0') || true
    [[ -z $mark ]] || printf '%s %s\n' "${d#/proc/}" "${job_name[${mark##*/}]:-?}"
  done
}

# jobs_kill - end all that runs.  timeout(1) puts tests into process groups of their own.
jobs_kill() {
  local i pid _ running=''
  for i in "${!job_state[@]}"; do
    [[ ${job_state[i]} == running ]] || continue
    running=1
    kill -TERM -- "-${job_pid[i]}" 2>/dev/null || true
  done
  [[ -z $ticker ]] || kill "$ticker" 2>/dev/null || true
  [[ -n $running ]] || return 0
  while read -r pid _; do kill -TERM "$pid" 2>/dev/null || true; done < <(jobs_marked)
  sleep 1
  while read -r pid _; do kill -KILL "$pid" 2>/dev/null || true; done < <(jobs_marked)
}
