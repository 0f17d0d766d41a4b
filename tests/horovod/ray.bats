#!/usr/bin/env bats
# ray.bats - Horovod's own tests of horovod.ray, fetched for the run, do what expected.tsv says.
# needs: cpu
# tests: compat/python/horovod/ray compat/python/ringup/spark src/launch tests/horovod

load ../lib/helper

# ask FILE - run these tests; a skip where they, or what they need, cannot be had.
ask() {
  run python3 "$src/tests/horovod/ask.py" --work "$BATS_FILE_TMPDIR/work" "$@"
  [[ $status -ne 77 ]] || skip "$(sed -n 's/^skipped: //p' <<<"$output")"
  echo "$output"
  [[ $status -eq 0 ]]
  [[ $output != *"left out, "* ]] || skip "${output#*left out, }"
}

@test "RayExecutor" { ask single/test_ray.py; }

@test "ElasticRayExecutor" { ask single/test_ray_elastic.py; }

@test "RayExecutor with min_workers" { ask single/test_ray_elastic_v2.py; }
