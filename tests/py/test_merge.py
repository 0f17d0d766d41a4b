# test_merge.py - timelines of ranks whose clocks differ, on one clock again; others are refused.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat/python/ringup/merge.py

import importlib.util
import json
import os
import random

import pytest
from conftest import ROOT

FILES, ROUNDS, LATENCY = 3, 200, 30
HEAD = ('[{"name": "process_name", "ph": "M", "pid": 0, "args": '
        '{"start_time_since_epoch_in_micros": 1, "rank": 0}}')

spec = importlib.util.spec_from_file_location(
    "merge", os.path.join(ROOT, "compat", "python", "ringup", "merge.py"))
merge = importlib.util.module_from_spec(spec)
spec.loader.exec_module(merge)


def submitted_us(rank, i):
    """True times: in round i rank i % FILES is the last, and all know it LATENCY later."""
    return 1000 * i + (300 if i % FILES == rank else 10 * rank)


def timeline(rank, clock, ahead_us, epoch_us, rounds=True, cut=False):
    """The text of a rank whose clock is ahead by so much, and which has that wall clock."""
    begins = 100 + 50 * rank  # in true time
    args = {"start_time_since_epoch_in_micros": epoch_us + begins}
    if clock:
        args.update(rank=rank, size=FILES, host=f"host-{clock}", clock=clock,
                    start_ns=(begins + ahead_us) * 1000)
    events = [{"name": "process_name", "ph": "M", "pid": 0, "args": args},
              {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "t"}}]
    for i in range(1, ROUNDS):
        at = submitted_us(rank, i) - begins
        events += [{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": at, "pid": 1,
                    "args": {"round": i} if rounds else {}},
                   {"ph": "X", "name": str(rank), "ts": at, "pid": 1, "dur": 0},
                   {"ph": "E", "ts": submitted_us(i % FILES, i) + LATENCY - begins, "pid": 1},
                   {"ph": "i", "name": "CYCLE_START", "ts": at, "s": "g"}]
    text = "[\n" + ",\n".join(map(json.dumps, events))
    return text + (',\n{"ph": "B", "na' if cut else "\n]\n")


def merged(tmp_path, texts):
    paths = []
    for i, text in enumerate(texts):
        paths.append(str(tmp_path / f"{i}.json"))
        (tmp_path / f"{i}.json").write_text(text)
    files, numbers = merge.read(paths)
    count = merge.write(str(tmp_path / "all.json"), files, numbers)
    events = json.loads((tmp_path / "all.json").read_text())
    assert len(events) == count and len(os.listdir(tmp_path)) == len(texts) + 1
    return files, events


def test_clocks_are_settled_by_rounds(tmp_path):
    files, events = merged(tmp_path, [timeline(0, "a", 5e9, 1e15),
                                      timeline(1, "b", 7e10, 1e15 + 4e6, cut=True),
                                      timeline(2, "a", 5e9, 1e15)])
    assert [f.how for f in files] == ["same", "operations", "same"]
    # Within what a message takes, though its wall clock is 4 s off.
    assert abs(files[1].ahead_us - 6.5e10) <= LATENCY and files[1].doubt_us <= LATENCY
    assert [f.cut for f in files] == [False, True, False]
    begins = [e for e in events if e["ph"] == "B"]
    assert len(begins) == FILES * (ROUNDS - 1) == len([e for e in events if e["ph"] == "E"])
    # What happened at the same time stands at the same time.
    first = [next(e["ts"] for e in begins if e["tid"] == rank) for rank in range(FILES)]
    assert abs(first[1] - first[0] - submitted_us(1, 1) + submitted_us(0, 1)) <= LATENCY
    assert abs(first[2] - first[0] - submitted_us(2, 1) + submitted_us(0, 1)) < 0.01
    # Each rank is a thread of the tensor.
    assert {e["pid"] for e in begins} == {1}
    assert [e["args"]["name"] for e in events if e.get("name") == "thread_name" and e["pid"] == 1] \
        == ["rank 0", "rank 1", "rank 2"]
    assert {e["s"] for e in events if e["ph"] == "i"} == {"t"}


def test_wall_clocks_where_rounds_do_not_tell(tmp_path):
    # The last is Horovod's own file, which has a wall clock and nothing else.
    texts = [timeline(0, "a", 5e9, 1e15, False), timeline(1, "b", 7e10, 1e15, False),
             timeline(2, "", 0, 1e15, False)]
    files, _ = merged(tmp_path, texts)
    assert [f.how for f in files] == ["same", "wall", "wall"] and files[2].rank == 2
    assert abs(files[1].ahead_us - 6.5e10) < 2
    # Ranks of one clock contradict each other.
    (tmp_path / "all.json").unlink()
    files, _ = merged(tmp_path, [timeline(0, "a", 5e9, 1e15), timeline(1, "b", 7e10 + 5000, 1e15),
                                 timeline(2, "b", 7e10, 1e15)])
    assert files[1].how == "wall"


@pytest.mark.parametrize("text, why", [
    ("", "empty"), ("hello", "does not begin with ["), ('{"traceEvents": []}', "not a timeline"),
    ('[{"ph": "B", "ts": 1}]', "no start time"), ("[1, 2]", "not an object"),
    (HEAD + ', {"ph": "B", "name": "x", "pid": 1}]', "no time"),
    (HEAD + ', {"ph": "B", "name": "x", "pid": 1, "ts": 1e999}]', "no time"),
    (HEAD + ', {"ph": "B", "name": "x", "pid": 1, "ts": NaN}]', "event 2"),
    (HEAD + ', {"name": "x", "pid": 1, "ts": 1}]', "no phase"),
    (HEAD + ', {"ph": "E", "pid": -4, "ts": 1}]', "no valid process"),
    (HEAD + ', {"ph": "E", "pid": 99999999999, "ts": 1}]', "no valid process"),
    (HEAD + ', {"ph" "E"}]', "event 2"),
    (HEAD + ', {"ph": "' + "x" * merge.EVENT + '"}]', "longer than"),
    (HEAD + ', {"ph": "' + "x" * 2 * merge.EVENT, "longer than"),
], ids=map(str, range(14)))
def test_what_is_no_timeline_is_refused(tmp_path, text, why):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(merge.Failed) as failed:
        merge.read([str(path)])
    assert why in str(failed.value)


@pytest.mark.parametrize("end, count, cut", [
    ("]", 1, False), (",\n", 1, True), ("", 1, True), (',{"ph": "M", "b": "]}\\"{"}\n]', 2, False),
    (', {"ph": "M", "a": {"b": [1, {}]}}', 2, True), (',\n{"ph": "M", "b": "x', 1, True)],
    ids=map(str, range(6)))
def test_a_file_is_used_as_far_as_it_goes(tmp_path, end, count, cut):
    (file,), _ = merged(tmp_path, [HEAD + end])
    assert file.events == count and file.cut == cut


def test_two_of_one_rank_a_folder_and_a_fifo_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(HEAD + "]")
    with pytest.raises(merge.Failed, match="both belong to rank 0"):
        merge.read([str(tmp_path / "a"), str(tmp_path / "b")])
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(merge.Failed, match="not a regular file"):
        merge.read([str(tmp_path / "fifo")])
    with pytest.raises((merge.Failed, OSError)):
        merge.read([str(tmp_path)])
    files, numbers = merge.read([str(tmp_path / "a")])
    with pytest.raises(merge.Failed, match="/nonexistent/x"):
        merge.write("/nonexistent/x", files, numbers)


def test_a_file_larger_than_one_read(tmp_path, monkeypatch):
    monkeypatch.setattr(merge, "READ", 1000)
    files, events = merged(tmp_path, [timeline(0, "a", 0, 1)])
    assert files[0].events == 2 + 4 * (ROUNDS - 1) and len(events) > 4 * (ROUNDS - 1)


def test_damaged_files_are_merged_or_refused(tmp_path):
    chance = random.Random(7)
    text = timeline(0, "a", 5e9, 1e15)[:3000]
    pieces = ["{", "}", "[", "]", '"', "\\", ",", "null", "1e308", "-1", "true", "\x1b", "9" * 400,
              '"ts"', '"pid"', '"args"', ""]
    done = 0
    for _ in range(200):
        bad = text
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(bad))
            bad = bad[:at] + chance.choice(pieces) + bad[at + chance.randrange(12):]
        (tmp_path / "0.json").write_text(bad)
        try:
            files, numbers = merge.read([str(tmp_path / "0.json")])
            merge.write(str(tmp_path / "all.json"), files, numbers)
        except merge.Failed:
            continue
        json.loads((tmp_path / "all.json").read_text())
        done += 1
    assert done > 20
