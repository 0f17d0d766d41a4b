# timeline_of_a_rank.py - what test_timeline.py starts on every rank: record, stop, look.
# SPDX-License-Identifier: Apache-2.0

import json
import os
import subprocess
import sys
import time
import warnings

import torch

import horovod.torch as hvd
from ringup import timeline

HERE = sys.argv[1]


def path(name):
    return os.path.join(HERE, name)


def events(name):
    """The events of a file, which must be whole; None on the ranks that write none."""
    if hvd.rank():
        return None
    with open(path(name), encoding="utf-8") as f:
        return json.load(f)


def is_well_formed(trace):
    """Do all B and E of each process nest, and does each X lie at a time?"""
    open_ones = {}
    for e in sorted((e for e in trace if e["ph"] != "M"), key=lambda e: e["ts"]):
        depth = open_ones.get(e.get("pid"), 0) + {"B": 1, "E": -1}.get(e["ph"], 0)
        assert depth >= 0, e
        open_ones[e.get("pid")] = depth
    return not any(open_ones.values())


def raises_before_init():
    for call in (lambda: hvd.start_timeline(path("never.json")), hvd.stop_timeline):
        try:
            call()
        except ValueError as e:
            assert "hvd.init()" in str(e), e
        else:
            raise AssertionError("a timeline before init()")
    assert not os.path.exists(path("never.json"))


def step(name):
    return hvd.allreduce(torch.tensor([1., 2., 3.]), name=name)


# A file that grows while it is read is a piece of each state: this process stands still meanwhile.
SNAPSHOT = """
kill -STOP $PPID
while grep -h ^State: /proc/$PPID/task/*/status | grep -qv stopped; do :; done
cat "$0"
kill -CONT $PPID
"""


def from_the_beginning():
    """The setting: the file is whole at each moment while the job goes on."""
    step("first")
    until, text = time.monotonic() + 60, ""
    while not hvd.rank() and "CYCLE_START" not in text and time.monotonic() < until:
        text = subprocess.run(["sh", "-c", SNAPSHOT, path("setting.json")], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        json.loads(text)
    assert hvd.rank() or "allreduce.first" in text and "NEGOTIATE_ALLREDUCE" in text, text
    hvd.stop_timeline()
    hvd.stop_timeline()


def rounds():
    for i in range(3):
        hvd.start_timeline(path(f"{i}.json"), mark_cycles=i == 1)
        hvd.start_timeline(path(f"{i}.json"), mark_cycles=i == 1)
        hvd.allgather(torch.ones(hvd.rank() + 1, 2), name="rows")
        h = [hvd.allreduce_async(torch.ones(50000), name=f"grad.{k}") for k in range(4)]
        for handle in h:
            hvd.synchronize(handle)
        hvd.stop_timeline()
        trace = events(f"{i}.json")
        if trace is None:
            assert not os.path.exists(path(f"{i}.json.{hvd.rank()}"))
            continue
        assert "start_time_since_epoch_in_micros" in trace[0]["args"] and is_well_formed(trace)
        names = {e["args"]["name"] for e in trace if e.get("name") == "process_name" and e["pid"]}
        assert names >= {"allgather.rows", "allreduce.grad.0", "allreduce.grad.3"}, names
        shapes = {e["args"]["shape"] for e in trace if "shape" in e.get("args", {})}
        assert shapes == {f"[{sum(range(hvd.size() + 1))}, 2]", "[50000]"}, shapes


def a_file_that_cannot_be_written():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        hvd.start_timeline(os.path.join(HERE, "nowhere", "t.json"))
    assert [w for w in said if "no timeline" in str(w.message)] or hvd.rank(), said
    assert step("goes.on").tolist() == [1., 2., 3.]


def every_rank():
    timeline.start(path("all.%r.json"), all_ranks=True)
    step("everywhere")
    timeline.stop()
    with open(path(f"all.{hvd.rank()}.json"), encoding="utf-8") as f:
        assert json.load(f)[0]["args"]["rank"] == hvd.rank()


raises_before_init()
for again in range(2):
    os.environ["HOROVOD_TIMELINE"] = path("setting.json") if again else "DYNAMIC"
    os.environ["HOROVOD_TIMELINE_MARK_CYCLES"] = "1"
    hvd.init()
    if again:
        from_the_beginning()
    rounds()
    a_file_that_cannot_be_written()
    every_rank()
    hvd.shutdown()
with open(os.path.join(os.environ["RINGUP_TEST_RESULTS"],
                       f"rank.{os.environ['RINGUP_RANK']}"), "w", encoding="utf-8") as f:
    json.dump("done", f)
