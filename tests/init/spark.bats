#!/usr/bin/env bats
# spark.bats - step 65: the Python of Spark's executors, on a tree that looks like Databricks.
# needs: cpu
# tests: init-scripts tests/lib/release.bash

load ../lib/helper
load ../lib/release

setup() {
  release_setup
  unset PYSPARK_PYTHON
  release_installed
  env_file=$root/databricks/spark/conf/spark-env.sh
  mkdir -p "$root/databricks/python3/bin" "${env_file%/*}"
  echo 16.4 >"$root/databricks/DBR_VERSION"
  printf 'answer\t%s\t%s\n' version 3.12.3 pip yes managed '' ringup 9.9 frameworks 'torch 2.13.0' >"$T/says"
  printf '#!/bin/bash\n[[ $1 != -I ]] || cat "%s"\n' "$T/says" >"$root/databricks/python3/bin/python3"
  chmod +x "$root/databricks/python3/bin/python3"
}

# executors [NAME=VALUE] - the Python that executors get, whose environment is made from that file.
executors() { env "$@" bash -c '. "$0"; echo "${PYSPARK_PYTHON:-none}"' "$env_file"; }

@test "executors get the Python that has the package, unless they are told another" {
  printf 'export THEIRS=1\n' >"$env_file"
  chmod 640 "$env_file"
  run "$init" --root "$root" frameworks spark
  expect_status 0
  [[ $(executors THEIRS=) == /databricks/python3/bin/python3 ]]
  [[ $(executors PYSPARK_PYTHON=/their/own) == /their/own ]]
  grep -qx 'export THEIRS=1' "$env_file"
  [[ $(stat -c %a "$env_file") == 640 ]]
  [[ $(json 'f("spark")["executors"]') == /databricks/python3/bin/python3 ]]
}

@test "a second run changes nothing; one that finds the lines gone writes them again" {
  local before
  run "$init" --root "$root" frameworks spark
  expect_status 0
  before=$(stat -c %i "$env_file")
  run "$init" --root "$root" frameworks spark
  expect_status 0
  [[ $output == *"65-spark: already done"* && $(stat -c %i "$env_file") == "$before" ]]
  echo 'export THEIRS=2' >"$env_file"
  run "$init" --root "$root" --check spark
  expect_line 'missing  65-spark'
  run "$init" --root "$root" spark
  expect_status 0
  [[ $(executors THEIRS=) == /databricks/python3/bin/python3 && $(grep -c THEIRS "$env_file") == 1 ]]
}

@test "--undo takes the lines out" {
  printf 'export THEIRS=1' >"$env_file" # without an end of the line
  run "$init" --root "$root" frameworks spark
  expect_status 0
  grep -q PYSPARK_PYTHON "$env_file"
  run "$init" --root "$root" --undo
  [[ $(<"$env_file") == 'export THEIRS=1' ]]
}

@test "--undo takes the file away if nothing else is in it" {
  run "$init" --root "$root" frameworks spark
  expect_status 0
  [[ -s $env_file ]]
  run "$init" --root "$root" --undo
  [[ ! -e $env_file ]]
}

@test "another PYSPARK_PYTHON is left alone, and named with the cure" {
  printf 'export PYSPARK_PYTHON="/opt/other/bin/python3"\n' >"$env_file"
  run "$init" --root "$root" frameworks spark
  expect_status 0
  [[ $output == *"PYSPARK_PYTHON is /opt/other/bin/python3, but /databricks/python3/bin/python3 has the package"* ]]
  [[ $output == *"set RINGUP_PYTHON=/opt/other/bin/python3 to install the package there"* ]]
  [[ $(executors THEIRS=) == /opt/other/bin/python3 ]]
  # The same by the variable that the platform sets; and no word where it is the right one.
  rm "$env_file"
  PYSPARK_PYTHON=/opt/third run "$init" --root "$root" frameworks spark
  [[ $output == *"PYSPARK_PYTHON is /opt/third, but"* ]]
  PYSPARK_PYTHON=/databricks/python3/bin/python3 run "$init" --root "$root" frameworks spark
  expect_status 0
  [[ $output != *"has the package: executors"* ]]
}

@test "without Spark, or without the package, it is left out with the reason" {
  printf 'answer\t%s\t%s\n' version 3.12.3 pip '' managed '' ringup '' frameworks '' >"$T/says"
  run "$init" --root "$root" frameworks spark
  expect_status 0
  [[ $output == *"65-spark: no Python has the package"* && ! -e $env_file ]]
  rm -r "$root/databricks"
  run "$init" --root "$root" spark
  expect_status 0
  [[ $output == *"65-spark: the platform does not run Spark on this node"* ]]
}

@test "a dry run says what it would write, and writes nothing" {
  run "$init" --root "$root" frameworks
  expect_status 0
  run "$init" --root "$root" --dry-run spark
  expect_status 0
  [[ $output == *"PYSPARK_PYTHON"* && ! -e $env_file ]]
}
