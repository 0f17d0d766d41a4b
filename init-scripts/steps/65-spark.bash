# shellcheck shell=bash
# 65-spark.bash - make Spark's executors run the Python that has the package, unless another is set.

limits 50 30

# On Databricks each executor's environment is made from this file.
env_file=$INIT_ROOT/databricks/spark/conf/spark-env.sh
begins='# >>> spark of ringup: by ringup-init, which takes it out with --undo' ends='# <<< spark of ringup'
ours='' theirs=''

# step_look - what the file says, without what this step has written there.
step_look() {
  ours='' theirs=''
  [[ -f $env_file ]] || return 0
  slurp "$env_file"; theirs=$REPLY
  [[ $theirs == *"$begins"$'\n'*"$ends"$'\n'* ]] || return 0
  ours=${theirs#*"$begins"$'\n'} ours=${ours%%"$ends"$'\n'*}
  theirs=${theirs%%"$begins"$'\n'*}${theirs#*"$ends"$'\n'}
}

# served - set REPLY to the Python that has the package, as this node calls it, or to nothing.
served() {
  noted_package
  [[ -n $REPLY ]] || return 0
  noted 50-frameworks $'fact\tpath'
  REPLY=${REPLY#"$INIT_ROOT"}
}

# told_python - set REPLY to the Python that executors have been told by somebody else, or to nothing.
told_python() {
  local line
  REPLY=${PYSPARK_PYTHON:-}
  while read -r line; do
    line=${line#export }
    [[ $line != PYSPARK_PYTHON=* ]] || REPLY=${line#*=}
  done <<<"$theirs"
  REPLY=${REPLY//[\"\']/}
}

# block - set REPLY to the lines for the Python $1.
block() {
  local line
  # shellcheck disable=SC2016
  printf -v line 'export PYSPARK_PYTHON="${PYSPARK_PYTHON:-%s}"' "$1"
  REPLY=$line$'\n'
}

# step_inputs - that Python, and the other.
step_inputs() {
  served; printf '%s\n' "$REPLY"
  told_python; printf '%s\n' "$REPLY"
  [[ ! -d ${env_file%/*} ]] || echo "there is Spark"
}

# step_done - the lines are there.
step_done() {
  served
  block "$REPLY"
  [[ $ours == "$REPLY" ]]
}

# put TEXT - the file has it, or is away if there is none.
put() {
  local mode
  if [[ -z $1 ]]; then
    rm -f -- "$env_file"
  else
    mode=$(stat -c %a -- "$env_file" 2>/dev/null) || mode=644
    write_file "$env_file" "$mode" <<<"${1%$'\n'}"
  fi
}

# step_apply - write them.
step_apply() {
  local python
  step_look
  if [[ ! -d ${env_file%/*} ]]; then
    skip "the platform does not run Spark on this node; for your own Spark set PYSPARK_PYTHON to the Python with the package"
    return 0
  fi
  served; python=$REPLY
  if [[ -z $python ]]; then
    skip "no Python has the package"
    return 0
  fi
  if [[ $python != /* || $python == *[!A-Za-z0-9/._+-]* ]]; then
    die "cannot write $python to $env_file"
  fi
  told_python
  [[ -z $REPLY || $REPLY == *PYSPARK_PYTHON* || $REPLY == "$python" ]] ||
    warn "PYSPARK_PYTHON is $REPLY, but $python has the package: executors may not find it; set RINGUP_PYTHON=$REPLY to install the package there"
  block "$python"
  [[ -z $theirs || $theirs == *$'\n' ]] || theirs+=$'\n'
  act put "$theirs$begins"$'\n'"$REPLY$ends"$'\n'
  step_look
  fact executors "$python"
}

# step_undo - take them out.
step_undo() {
  step_look
  [[ -z $ours ]] || act put "$theirs"
}

# step_back - a later step has failed.
step_back() { step_undo; }
