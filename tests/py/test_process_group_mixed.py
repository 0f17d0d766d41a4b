# test_process_group_mixed.py - process groups in which other back ends serve some devices.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: compat/python tests/py

import importlib.util
import re
import subprocess
import sys

import pytest
from conftest import start

MODULES = ["torch.distributed", "torch.nn.parallel", "torch.optim"]
ENDS = "process_group_mixed_ends_of_a_rank.py"


# ---- which back end serves a device ----

def test_other_back_ends_serve_other_devices(parent, tmp_path):
    """torch takes a process group in Python for all devices; what was named serves each all the
    same, or is refused."""
    import torch.distributed as dist

    if not hasattr(dist.distributed_c10d, "BackendConfig"):
        pytest.skip("this torch has one back end for all devices")
    p = parent.ranks(2, tmp_path, "process_group_mixed_of_a_rank.py", GLOO_SOCKET_IFNAME="lo")
    assert p.codes == [0, 0], p.text
    for r in range(2):
        found = p.results[r]
        for spec in ("cpu:ringup,cuda:gloo", "cuda:gloo,cpu:ringup"):
            served = {"cpu": "MixedProcessGroup", "cuda": "ProcessGroupGloo"}
            assert found[spec]["world"] == found[spec]["part"] == served, found[spec]
            assert found[spec]["ringup"] >= 20, found[spec]
            assert found[spec]["devices"] == ["cpu", "cuda"], found[spec]
        for spec in ("cpu:gloo,cuda:ringup", "cuda:ringup,cpu:gloo"):
            served = {"cpu": "ProcessGroupGloo", "cuda": "MixedProcessGroup"}
            assert found[spec]["world"] == found[spec]["part"] == served, found[spec]
            assert found[spec]["ringup"] == 0, found[spec]
        for spec in ("cpu:ringup", "cpu:ringup,cuda:ringup"):
            assert set(found[spec]["world"].values()) == {"ProcessGroup"}, found[spec]
            assert found[spec]["devices"] == ["cpu"], found[spec]
        refused = found["cpu:ringup,cuda:mpi"]
        # torch 2.14 refuses it first.
        assert 'new_group(backend="mpi")' in refused["said"] or \
            "have MPI built in" in refused["said"], refused
        if not dist.is_nccl_available():
            refused = found["cpu:ringup,cuda:nccl"]
            assert refused["kind"] == "ValueError", refused
            assert 'cuda:nccl: this torch was built without nccl: use init_process_group(' \
                in refused["said"], refused


# ---- the operations of the others ----

def ends(parent, tmp_path, n, scene, codes=None):
    """How a scene ended, and what the ranks were told; they leave their dumps in a folder."""
    import torch.distributed as dist

    if not hasattr(dist.distributed_c10d, "BackendConfig"):
        pytest.skip("this torch has one back end for all devices")
    dumps = str(tmp_path / "dumps" / "trace_")
    p = parent.ranks(n, tmp_path, ENDS, scene, TORCH_FR_DUMP_TEMP_FILE=dumps,
                     GLOO_SOCKET_IFNAME="lo")
    assert p.codes == (codes or [0] * n), p.text
    return p


def test_operations_are_recorded_beside_ringups_own(parent, tmp_path):
    """An operation that Gloo refuses on one rank does not put the ranks out of step."""
    p = ends(parent, tmp_path, 2, "works")
    for r in range(2):
        names = ["all_reduce"] * 4 + ["barrier", "all_gather", f"send {r}->{1 - r}",
                                      f"recv {r}<-0", f"recv {r}<-{1 - r}", f"send {r}->{1 - r}"]
        names += ["all_reduce"] * 3
        assert p.results[r]["entries"] == [[f"gloo:{n}", "completed"] for n in names], p.text
    assert "invalid tensor size" in p.results[0]["refused"]["said"], p.text
    assert p.results[0]["refused"]["kind"] == "RuntimeError", p.text


def test_a_rank_may_leave_when_its_part_is_done(parent, tmp_path):
    p = ends(parent, tmp_path, 3, "left_early")
    assert not any(p.results[r]["kind"] for r in range(3)), p.text
    assert p.results[0]["rows"] == [0, 1, 2], p.text


def test_a_rank_that_is_killed_is_named(parent, tmp_path):
    """By the sum in flight, its future, the next sum and a message."""
    p = ends(parent, tmp_path, 3, "killed", [0, 0, -9])
    for r in range(2):
        told = p.results[r]
        assert told["kind"] == ("PeerLost" if r == 0 else "RuntimeError"), p.text
        assert re.search(r"gloo all_reduce: rank 2 \(process \d+ on \S+\) died", told["said"]), told
        assert told["seconds"] < 5, told  # Gloo would tell in a minute
        assert told["next"]["kind"] == told["message"]["kind"] == "PeerLost", told
        assert f"gloo recv {r}<-2: rank 2 " in told["message"]["said"], told
    assert p.results[1]["later"] == "PeerLost", p.text


def test_a_rank_that_is_killed_is_named_in_its_group(parent, tmp_path):
    p = ends(parent, tmp_path, 3, "killed_in_a_group", [0, 0, -9])
    told = p.results[1]
    assert told["kind"] == "PeerLost", p.text
    assert told["said"].endswith("in group 1 rank 1 is rank 2 of all"), told


def missed(p, others, backend):
    """Did the others hear at the deadline that the last rank has not come?"""
    told = [p.results[r] for r in others]
    assert "TimedOut" in {t["kind"] for t in told} <= {"TimedOut", "Aborted"}, p.text
    last = max(others) + 1
    assert all(re.search(rf"{backend} all_reduce: rank {last} \(process \d+ on \S+\) has not "
                         "started it", t["said"]) for t in told), told
    assert any("the timeout of the group is 1.5 s, and the group has ended" in t["said"]
               for t in told), p.text


def test_a_rank_that_stands_still_is_missed_at_the_deadline(parent, tmp_path):
    p = ends(parent, tmp_path, 3, "stopped")
    missed(p, range(2), "gloo")
    assert p.results[2]["kind"] == "Aborted" and "is stopped" in p.results[2]["said"], p.text


def test_a_rank_that_is_late_is_named_also_by_the_flight_record(parent, tmp_path):
    p = ends(parent, tmp_path, 3, "late")
    missed(p, range(2), "gloo")
    assert p.results[2]["kind"] == "Aborted", p.text
    folder = str(tmp_path / "dumps")
    said = subprocess.run(["ringup", "hang", folder], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False).stdout
    assert re.search(r"rank 2\b.*all_reduce", said), said
    if not importlib.util.find_spec("torch.distributed.flight_recorder"):
        return
    p = start([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", folder, "-p",
               "trace_"])
    text = p.stdout + p.stderr
    assert p.returncode == 0 and re.search(r"missing ranks: \{2\}", text), text


def test_a_shorter_wait_ends_nothing(parent, tmp_path):
    p = ends(parent, tmp_path, 2, "own_deadline")
    assert p.results[1]["kind"] == "TimedOut", p.text
    assert "rank 0 (process" in p.results[1]["said"] and "ended" not in p.results[1]["said"], p.text
    assert p.results[0]["kind"] == "" and p.results[0]["sum"] == 2, p.text


def unlike(p, words):
    """Did a rank hear what both called, and the other the same from it?"""
    told = [p.results[r] for r in range(2)]
    assert "Mismatch" in {t["kind"] for t in told} <= {"Mismatch", "Aborted"}, p.text
    assert all(w in t["said"] for w in words for t in told), p.text


def test_ranks_that_call_different_operations(parent, tmp_path):
    unlike(ends(parent, tmp_path, 2, "other_call"),
           ["_reduce_scatter_base of 8 float32", "all_gather"])


def test_the_backward_pass_of_ddp_raises(parent, tmp_path):
    p = ends(parent, tmp_path, 2, "backward", [0, -9])
    assert "PeerLost" in p.results[0]["said"] and "rank 1" in p.results[0]["said"], p.text


# ---- devices with streams ----

def test_operations_on_streams_are_recorded(parent, tmp_path):
    p = ends(parent, tmp_path, 2, "streams_work")
    for r in range(2):
        assert p.results[r]["entries"] == [["gloo:all_reduce", "completed"]] * 5, p.text
        assert not p.results[r]["aborted"], p.text


def test_a_back_end_that_waits_for_a_dead_rank_is_aborted(parent, tmp_path):
    p = ends(parent, tmp_path, 3, "streams_killed", [0, 0, -9])
    for r in range(2):
        told = p.results[r]
        assert told["kind"] == told["next"]["kind"] == "PeerLost", p.text
        assert "standin all_reduce: rank 2 (process" in told["said"], told
        assert told["seconds"] < 5 and told["aborted"], told


def test_a_deadline_on_a_stream_is_kept(parent, tmp_path):
    p = ends(parent, tmp_path, 3, "streams_late")
    missed(p, range(2), "standin")


def test_ranks_that_call_different_operations_on_streams(parent, tmp_path):
    unlike(ends(parent, tmp_path, 2, "streams_unlike"),
           ["broadcast of 4 float32", "all_reduce of 4 float32"])


def test_a_back_end_that_blocks_the_caller_is_ended(parent, tmp_path):
    p = ends(parent, tmp_path, 2, "streams_blocked")
    missed(p, range(1), "standin")
