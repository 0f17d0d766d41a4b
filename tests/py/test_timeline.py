# test_timeline.py - hvd.start_timeline() and hvd.stop_timeline(), and what they write.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src/trace src/engine src/api compat/python tests/py

import json
import subprocess


def test_a_job_is_recorded(parent, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    p = parent.ranks(2, results, "timeline_of_a_rank.py", str(tmp_path))
    assert p.codes == [0, 0] and p.results == {0: "done", 1: "done"}, p.text
    merged = tmp_path / "merged.json"
    subprocess.run(["ringup", "timeline", "merge", "-o", merged, tmp_path / "all.0.json",
                    tmp_path / "all.1.json"], check=True, stdout=subprocess.DEVNULL)
    trace = json.loads(merged.read_text())
    assert {e["tid"] for e in trace if e["ph"] == "B"} == {0, 1}
