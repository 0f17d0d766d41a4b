#!/usr/bin/env bats
# spark.bats - tests of Horovod on Spark, of HorovodRunner and of TorchDistributor, as they are fetched.
# needs: cpu
# tests: compat/python src/launch tests/horovod

load ../lib/helper

# ask FILE - run these tests; a skip where they, or what they need, cannot be had.
ask() {
  run python3 "$src/tests/horovod/ask.py" --work "$BATS_FILE_TMPDIR/work" "$@"
  [[ $status -ne 77 ]] || skip "$(sed -n 's/^skipped: //p' <<<"$output")"
  echo "$output"
  [[ $status -eq 0 ]]
  [[ $output != *"left out, "* ]] || skip "${output#*left out, }"
}

@test "horovod.spark.run() and run_elastic()" { ask integration/test_spark.py; }

@test "HorovodRunner" { ask sparkdl; }

@test "Spark's TorchDistributor, where ringup is" { ask spark; }
