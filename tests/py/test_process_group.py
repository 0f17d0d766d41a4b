# test_process_group.py - "ringup" as a back end of torch.distributed: operations, DDP, failures.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python tests/py

import importlib.util
import json
import os
import pickle
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, checks_of, launcher, outcome, start

MODULES = ["torch.distributed", "torch.nn.parallel", "torch.optim"]
ENDS = "process_group_ends_of_a_rank.py"
DDP = os.path.join(ROOT, "docs", "examples", "train_ddp_example.py")
LONG = os.environ.get("RINGUP_TEST_LONG") == "1"
BUILD = os.path.join(ROOT, "compat", "python", "build_ringup.py")


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", checks_of("process_group_of_a_rank.py"))
def test_operations(n, name, parent, tmp_path_factory):
    outcome("process_group_of_a_rank.py", n, name, parent, tmp_path_factory)


# ---- torch finds the back end, and pays nothing for it ----

FOUND = """
import sys
import torch
import torch.distributed as dist
assert "ringup_torch" in sys.modules, "torch has not found it"
brought = [m for m in sys.modules if m.split(".")[0] == "ringup" or m.startswith("ringup_torch.")]
assert not brought, brought
store = dist.HashStore()
dist.init_process_group("ringup", store=store, rank=0, world_size=1)
t = torch.ones(2)
dist.all_reduce(t)
print(t.tolist(), dist.get_backend(), dist.get_backend_config())
dist.destroy_process_group()
"""


def test_a_program_names_the_back_end_and_imports_nothing(packages):
    p = start([sys.executable, "-c", FOUND], PYTHONPATH=str(packages))
    assert p.returncode == 0 and "[1.0, 1.0] ringup cpu:ringup" in p.stdout, p.stdout + p.stderr


def test_without_the_library_torch_imports_and_the_group_says_why(packages):
    script = """
import torch, torch.distributed as dist
try:
    dist.init_process_group("ringup", store=dist.HashStore(), rank=0, world_size=1)
except ImportError as e:
    print("refused:", e)
"""
    p = start([sys.executable, "-c", script], PYTHONPATH=str(packages),
              RINGUP_LIBRARY="/nowhere.so")
    assert p.returncode == 0 and re.search("refused: cannot load libringup.so: .*RINGUP_LIBRARY",
                                           p.stdout), p.stdout + p.stderr


def test_registering_never_raises(monkeypatch):
    import ringup_torch

    for broken in (None, object()):  # an import that fails, a module without what is expected
        monkeypatch.setitem(sys.modules, "torch.distributed", broken)
        ringup_torch.register()


def test_entry_points_are_those_of_pyproject():
    with open(os.path.join(ROOT, "compat", "python", "pyproject.toml"), encoding="utf-8") as f:
        said = dict(re.findall(r'\[project\.entry-points\."(.*)"\]\n(.*)\n', f.read()))
    spec = importlib.util.spec_from_file_location("build_ringup", BUILD)
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    built = dict(re.findall(r"\[(.*)\]\n(.*)\n", build.ENTRY_POINTS))
    assert {k: v.replace('"', "") for k, v in said.items()} == built and len(built) == 2


# ---- however it is started ----

@pytest.mark.parametrize("how", ["torchrun", "spawn"] + ["launch"] * LONG)
def test_the_example_trains(how, packages, tmp_path):
    """As people start it: the package is installed, and nothing but torch says where ranks are."""
    command = [*launcher(how, 2), DDP] if how != "spawn" else [sys.executable, DDP, "--spawn", "2"]
    p = start([*command, "--epochs", "2"], PYTHONPATH=str(packages), cwd=tmp_path)
    found = re.search(r"2 ranks over ringup, accuracy ([0-9.]+)", p.stdout)
    assert p.returncode == 0 and found and float(found.group(1)) > 0.7, p.stdout + p.stderr


RESTARTED = """
import os
import torch
import torch.distributed as dist
dist.init_process_group("ringup")
t = torch.ones(1)
dist.all_reduce(t)
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
if attempt == "0" and dist.get_rank() == 1:
    raise SystemExit("the first attempt fails")
dist.all_reduce(t)
print(f"attempt {attempt}: {t.item()}", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.skipif(not LONG, reason="for the long form: RINGUP_TEST_LONG=1")
def test_torchrun_starts_the_ranks_again(packages, tmp_path):
    script = tmp_path / "restarted.py"
    script.write_text(RESTARTED)
    command = launcher("torchrun", 2)
    p = start([*command[:-1], "--max-restarts", "1", command[-1], str(script)],
              PYTHONPATH=str(packages), cwd=tmp_path,
              TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "trace_"))
    assert p.returncode == 0 and p.stdout.count("attempt 1: 4.0") == 2, p.stdout + p.stderr


@pytest.mark.skipif(not LONG, reason="for the long form: RINGUP_TEST_LONG=1")
def test_spark_starts_the_example(packages, tmp_path):
    """pyspark's own TorchDistributor, in local mode."""
    spark = os.environ.get("RINGUP_TEST_SPARK4") or os.environ.get("RINGUP_TEST_SPARK")
    if not spark or not shutil.which("java"):
        pytest.skip("no pyspark or no Java: RINGUP_TEST_SPARK names a folder with pyspark")
    p = start([sys.executable, DDP, "--spark", "2", "--epochs", "1"], cwd=tmp_path,
              PYTHONPATH=os.pathsep.join([str(packages), spark]), PYSPARK_PYTHON=sys.executable,
              SPARK_LOCAL_IP="127.0.0.1")
    assert p.returncode == 0 and "2 ranks over ringup" in p.stdout, p.stdout + p.stderr
    assert "the function returned" in p.stdout, p.stdout + p.stderr


# ---- when something goes wrong ----

LATE = """
import datetime, os, time
import torch, torch.distributed as dist
from ringup_torch import evidence
evidence.LEAST_MS, evidence.LEAD_MS = 1000, 9000
dist.init_process_group("ringup", timeout=datetime.timedelta(seconds=10))
t = torch.ones(2)
dist.all_reduce(t)

def load_batch():
    while not os.path.exists("missed"):
        time.sleep(0.1)

if dist.get_rank() == 1:
    load_batch()
    raise SystemExit
try:
    dist.all_reduce(t)
except RuntimeError as e:
    print("missed:", e, flush=True)
open("missed", "w").close()
"""


def test_before_a_deadline_is_missed_ringup_hang_looks_at_the_job(packages, tmp_path):
    script = tmp_path / "late.py"
    script.write_text(LATE)
    p = start([*launcher("ringup", 2), str(script)], PYTHONPATH=str(packages), cwd=tmp_path,
              RINGUP_DEADLOCK_MS="0", TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "trace_"))
    assert p.stdout.count("missed: ") == 1 and "timeout of the group is 10 s" in p.stdout, p.stdout
    folder, = tmp_path.glob("hang-*[0-9]")
    verdict = json.loads((folder / "job-1" / "verdict.json").read_text())
    assert verdict["culprits"] == [1] and verdict["verdict"] == "late", verdict
    assert "evidence is in" in p.stdout and (folder / "job-1" / "rank-1.state").exists()



def ends(parent, tmp_path, n, scene, codes=None):
    """How a scene ended, and what the ranks were told; they leave their dumps in a folder."""
    dumps = str(tmp_path / "dumps" / "trace_")
    p = parent.ranks(n, tmp_path, ENDS, scene, TORCH_FR_DUMP_TEMP_FILE=dumps)
    assert p.codes == (codes or [0] * n), p.text
    return p


def missed(p, rank, others):
    """Did the others hear at the deadline which rank has not come, and of no other?  The first to
    miss it ends the group, so another one may look when the operation is gone already."""
    told = [p.results[r] for r in others]
    assert "TimedOut" in {t["kind"] for t in told} <= {"TimedOut", "Aborted"}, p.text
    assert all(t["seconds"] >= 1.5 for t in told if t["kind"] == "TimedOut"), p.text
    assert all(re.search(rf"\brank {rank} \(process \d+ on \S+\) has not started it", t["said"])
               for t in told), p.text


def test_a_rank_that_stands_still_is_missed_at_the_deadline(parent, tmp_path):
    p = ends(parent, tmp_path, 3, "stopped")
    missed(p, 2, range(2))
    assert p.results[2]["kind"] == "Aborted" and "is stopped" in p.results[2]["said"], p.text


def test_a_rank_that_is_killed_is_named(parent, tmp_path):
    p = ends(parent, tmp_path, 3, "killed", [0, 0, -9])
    for r in range(2):
        assert p.results[r]["kind"] == "PeerLost" and "rank 2" in p.results[r]["said"], p.text


def test_a_rank_that_is_killed_is_named_in_each_of_its_groups(parent, tmp_path):
    """A group counts its ranks from 0 on, so its error says who that is among all."""
    p = ends(parent, tmp_path, 3, "killed_in_groups", [0, 0, -9])
    for r in range(2):
        told = p.results[r]
        assert told["part"]["kind"] == told["all"]["kind"] == "PeerLost", p.text
        assert re.search(rf"rank 1 \(process .*; in group {r + 1} rank 1 is rank 2 of all$",
                         told["part"]["said"]), told
        assert "rank 2 (process" in told["all"]["said"] and "group" not in told["all"]["said"]


def test_an_operation_that_is_late(parent, tmp_path):
    p = ends(parent, tmp_path, 2, "late")
    missed(p, 0, [1])
    assert p.results[0]["kind"] == "Aborted", p.text


def test_a_monitored_barrier(parent, tmp_path):
    p = ends(parent, tmp_path, 3, "monitored")
    missed(p, 2, range(2))
    assert p.results[2]["kind"] == "Aborted", p.text


def test_a_rank_that_does_not_create_the_group_is_named(parent, tmp_path):
    p = ends(parent, tmp_path, 3, "absent")
    for r in range(2):
        assert p.results[r]["kind"] == "TimedOut", p.text
        assert "rank 2 of the process group did not join" in p.results[r]["said"], p.text


@pytest.mark.parametrize("where", ["a_file", "the_store_of_an_agent"])
def test_a_world_and_a_group_are_tried_again(where, parent, tmp_path):
    """The others give up twice before the last comes, which calls init_process_group() once.  The
    next new_group() has another name in torch, so the late rank hears that it has to try again."""
    n = 2 if where == "a_file" else 3
    p = ends(parent, tmp_path, n, f"tried_again_in_{where}")
    for name in ("first", "second"):
        for r in range(n):
            kinds = [t["kind"] for t in p.results[r][name]]
            assert kinds == ([""] if r == n - 1 else ["TimedOut", "TimedOut", ""]), p.text
            groups = p.results[r][f"group {name}"]
            assert [t["kind"] for t in groups] == ["TimedOut", "TimedOut", ""], p.text
            for t in groups[:2]:
                assert (f"rank {n - 1}" not in t["said"]) == (r == n - 1), p.text
        said = p.results[0][name][0]["said"]
        assert f"rank {n - 1} of the process group did not join within 0.3 s" in said, p.text


def test_a_job_of_horovod_is_tried_again_in_the_store_of_torchrun(parent, tmp_path):
    p = ends(parent, tmp_path, 2, "horovod_tried_again")
    assert [bool(t["kind"]) for t in p.results[0]] == [True, True, False], p.text
    assert all("rank 1 of the job did not join within 0.3 s" in t["said"]
               for t in p.results[0][:2]), p.text
    assert [t["kind"] for t in p.results[1]] == [""], p.text


def test_a_rank_with_another_secret_is_refused(parent, tmp_path):
    p = ends(parent, tmp_path, 3, "secrets")
    for r in range(3):
        told = p.results[r]
        assert told["sum"] == 3 and not told["leaked"], p.text
        assert told["another"]["kind"] == told["none"]["kind"] == "NotAuthentic", p.text
    for r in range(2):
        assert f"rank 2 does not know the RINGUP_SECRET of rank {r}" in told_of(p, r, "another")
        assert f"rank {r} has a RINGUP_SECRET and rank 2 has none" in told_of(p, r, "none")


def told_of(p, rank, what):
    """The sentence that a rank got for a part of a scene."""
    return p.results[rank][what]["said"]


def test_ranks_that_disagree_hear_of_both_sides_and_go_on(parent, tmp_path):
    p = ends(parent, tmp_path, 2, "unlike")
    for r in range(2):
        for what, words in (("sizes", ("2 f32", "3 f32")), ("types", ("f32", "i32")),
                            ("kinds", ("barrier", "sum"))):
            told = p.results[r][what]
            assert told["kind"] == "Mismatch", p.text
            assert all(w in told["said"] for w in words), told


def test_the_backward_pass_of_ddp_raises(parent, tmp_path):
    """torch makes a RuntimeError of every exception there; the words are ours."""
    p = ends(parent, tmp_path, 2, "backward", [0, -9])
    assert p.results[0]["kind"] == "RuntimeError" and "PeerLost" in p.results[0]["said"], p.text
    assert "rank 1" in p.results[0]["said"], p.text


def test_a_group_is_aborted_and_no_other(parent, tmp_path):
    p = ends(parent, tmp_path, 3, "aborted")
    for r in range(3):
        assert p.results[r]["kind"] == "Aborted", p.text
        assert "enough of this" in p.results[r]["said"], p.text
    assert p.results[1]["later"] == "Aborted", p.text


def test_what_a_rank_sent_before_it_left_is_received(parent, tmp_path):
    p = ends(parent, tmp_path, 2, "messages_left")
    assert p.results[0]["kind"] == "NotRunning" and p.results[1]["got"] == [1, 2], p.text
    assert "rank 0 has left the job" in p.results[1]["said"], p.text


def test_an_exception_of_one_rank_reaches_the_others(parent, tmp_path):
    p = ends(parent, tmp_path, 2, "raised", [0, 1])
    assert p.results[0]["kind"] == "Aborted", p.text
    assert "the model has no such layer" in p.results[0]["said"], p.text


# ---- ranks that train apart ----

APART = """
import sys
import warnings
import torch
import torch.distributed as dist
from ringup_torch import apart
kind = sys.argv[1]
dist.init_process_group("ringup")
n, r = dist.get_world_size(), dist.get_rank()
model = torch.nn.Linear(4, 1)
if kind == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model)
if kind == "beside":
    dist.new_group(backend="gloo")
o = torch.optim.SGD(model.parameters(), 0.1)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for i in range(apart.STEPS + 1):
        o.zero_grad()
        (model(torch.ones(2, 4) * (i + r)) ** 2).sum().backward()
        if kind == "by_hand":
            for p in model.parameters():
                dist.all_reduce(p.grad)
        o.step()
told = [str(w.message) for w in said if "trains a separate model" in str(w.message)]
assert apart._hook is None, "it still looks at each step"
assert all("DistributedDataParallel" in t and f"rank {r} of 2" in t for t in told), told
print(f"told {len(told)}", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("kind, told", [("alone", 1), ("ddp", 0), ("by_hand", 0), ("beside", 0)])
def test_ranks_that_train_apart_are_warned(kind, told, packages, tmp_path):
    """Frameworks leave the wrapping of a model out for a back end that they do not know."""
    script = tmp_path / "apart.py"
    script.write_text(APART)
    p = start([*launcher("ringup", 2), str(script), kind], PYTHONPATH=str(packages), cwd=tmp_path,
              GLOO_SOCKET_IFNAME="lo")
    assert p.returncode == 0 and p.stdout.count(f"told {told}") == 2, p.stdout + p.stderr


# ---- timelines ----

def recorded(file):
    """How many operations and messages a timeline has of each process; they nest and have ended."""
    with open(file, encoding="utf-8") as f:
        trace = json.load(f)
    assert "start_time_since_epoch_in_micros" in trace[0]["args"], trace[0]
    names = {e["pid"]: e["args"]["name"] for e in trace
             if e.get("name") == "process_name" and e["pid"]}
    found, depth = {}, {}
    for e in sorted((e for e in trace if e["ph"] in "BE"), key=lambda e: e["ts"]):
        place = e["pid"], e.get("tid")
        depth[place] = depth.get(place, 0) + (1 if e["ph"] == "B" else -1)
        assert depth[place] >= 0, e
        if e.get("name") in ("ALLREDUCE", "SEND", "RECV"):
            name = names[e["pid"]]
            found[name] = found.get(name, 0) + 1
    assert not any(depth.values()), depth
    return found


def expected(rank):
    """What process_group_timeline_of_a_rank.py has a rank do."""
    found = {"allreduce.beside (job 2)": 1, "allreduce.later (job 2)": 1}
    for world, again in (("", ""), (" (job 3)", ", job 2")):
        found.update({f"allreduce.noname.{i}{world}": 1 for i in range(2)})
        if rank in (1, 2):
            found[f"allreduce.noname.0 (group 1{again})"] = 1
            message = "send to rank 2" if rank == 1 else "receive from rank 1"
            found[f"{message}, tag 7 (group 1{again})"] = 1
        if rank in (0, 2):
            found[f"allreduce.noname.0 (group 2{again})"] = 1
    return found


@pytest.mark.parametrize("every", [True, False])
def test_all_groups_of_a_process_are_in_one_timeline(every, parent, tmp_path):
    """Groups at the same time, also of other ranks, a world that ends and begins again, and a job
    of Horovod's beside it."""
    file = str(tmp_path / "t.json")
    p = parent.ranks(3, tmp_path, "process_group_timeline_of_a_rank.py", RINGUP_TIMELINE=file,
                     RINGUP_TIMELINE_ALL="1" if every else "0")
    assert p.codes == [0] * 3, p.text
    files = {r: f"{file}.{r}" for r in range(3)} if every else {0: file}
    assert {f for f in os.listdir(tmp_path) if f.startswith("t.json")} == {
        os.path.basename(f) for f in files.values()}
    for r, f in files.items():
        assert recorded(f) == expected(r), (r, recorded(f))
    if every:
        merged = str(tmp_path / "merged.json")
        said = subprocess.run(["ringup", "timeline", "merge", "-o", merged, *files.values()],
                              check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True).stdout
        assert "warn" not in said, said
        total = {}
        for r in files:
            for name, n in expected(r).items():
                total[name] = total.get(name, 0) + n
        assert recorded(merged) == total, recorded(merged)


# ---- the flight recorder ----

def test_the_flight_record_knows_what_python_has_not_seen(parent, tmp_path):
    p = ends(parent, tmp_path, 2, "not_looked_at")
    before, after = p.results[0]
    names = ["all_reduce", "all_reduce", "send 0->1", "recv 0<-1", "barrier"]
    for found, states in ((before, ["completed"] * 3 + ["scheduled", "completed"]),
                          (after, ["completed"] * 6)):
        entries = found["entries"]
        assert [e["profiling_name"] for e in entries][:5] == [f"gloo:{n}" for n in names], entries
        assert [e["state"] for e in entries] == states, entries
        created = [e["time_created_ns"] for e in entries]
        assert created == sorted(created), entries
        for e in entries:
            over = e["state"] == "completed"
            assert e["retired"] == over, e
            assert (e["time_discovered_completed_ns"] is not None) == over, e
            if over and "send" not in e["profiling_name"]:
                assert (e["time_created_ns"] <= e["time_discovered_started_ns"]
                        <= e["time_discovered_completed_ns"]), e
        large = entries[1]
        assert large["duration_ms"] > 0, large
    assert before["pg_status"]["0"]["last_completed_collective"] == 3, before["pg_status"]


def test_the_flight_record_shows_what_is_under_way(parent, tmp_path):
    p = ends(parent, tmp_path, 2, "under_way")
    assert p.results[0], p.text
    entry = p.results[0][-1]
    assert entry["profiling_name"] == "gloo:all_reduce" and not entry["retired"], entry
    assert entry["time_discovered_started_ns"] >= entry["time_created_ns"], entry
    assert entry["time_discovered_completed_ns"] is None, entry


def test_the_flight_record_is_what_the_analyzer_of_torch_reads(parent, tmp_path):
    if not importlib.util.find_spec("torch.distributed.flight_recorder"):
        pytest.skip("this torch has no flight recorder analyzer")
    dumps = tmp_path / "dumps"
    ends(parent, tmp_path, 3, "without_a_rank")
    assert sorted(os.listdir(dumps)) == ["trace_0", "trace_1", "trace_2"]
    with open(dumps / "trace_0", "rb") as f:
        entries = pickle.load(f)["entries"]
    last = entries[-1]
    assert len(entries) == 5, entries
    assert last["profiling_name"] == "gloo:all_gather" and last["state"] == "scheduled", last
    assert any(f["filename"].endswith(ENDS) for f in last["frames"]), last
    p = start([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace",
               str(dumps), "-p", "trace_"])
    text = p.stdout + p.stderr
    assert p.returncode == 0 and "Not all ranks joining collective" in text, text
    assert re.search(r"missing ranks: \{1\}", text) and "gloo:all_gather" in text, text


ANALYZED = """
import contextlib, io, json, logging, os, sys
from torch.distributed.flight_recorder import fr_trace
said, walk = {}, os.walk  # it takes the first file for right, in the order of the folder
os.walk = lambda *a, **k: ((top, dirs, sorted(files)) for top, dirs, files in walk(*a, **k))
for folder in sys.argv[1:]:
    out = io.StringIO()
    log = logging.StreamHandler(out)
    logging.getLogger().addHandler(log)
    for name in list(logging.root.manager.loggerDict):
        for handler in getattr(logging.getLogger(name), "handlers", ()):
            if hasattr(handler, "setStream"):
                handler.setStream(out)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            fr_trace.main([folder, "-p", "trace_"])
        except BaseException as e:
            print(type(e).__name__, e)
    said[os.path.basename(os.path.dirname(folder))] = out.getvalue()
print(json.dumps(said))
"""

# What the analyzer of torch says of rank 1, the culprit of three, in each scene.
CULPRITS = {
    "size": r"Culprit rank 1\b",
    "type": r"Culprit rank 1\b",
    "order": r"Culprit rank 1\b",
    "stuck": r"missing ranks: \{1\}",
    "late": r"missing ranks: \{1\}",
    "refused": r"missing ranks: \{1\}",
    "killed": r"Missing dump files from ranks \{1\}",
    "stopped": r"missing ranks: \{1\}",
}


def test_the_analyzer_of_torch_names_the_culprit(parent, tmp_path):
    """Each rank has left a dump by itself, whatever went wrong and whatever it was doing."""
    if not importlib.util.find_spec("torch.distributed.flight_recorder"):
        pytest.skip("this torch has no flight recorder analyzer")
    found, folders = {}, []
    for kind in CULPRITS:
        (tmp_path / kind).mkdir()
        codes = [0, -9, 0] if kind == "killed" else None
        found[kind] = ends(parent, tmp_path / kind, 3, f"recorded_{kind}", codes)
        folders.append(str(tmp_path / kind / "dumps"))
        left = [f"trace_{r}" for r in range(3) if kind != "killed" or r != 1]
        assert sorted(os.listdir(folders[-1])) == left, (kind, found[kind].text)
    p = start([sys.executable, "-c", ANALYZED, *folders])
    assert p.returncode == 0, p.stdout + p.stderr
    said = json.loads(p.stdout.splitlines()[-1])
    for kind, words in CULPRITS.items():
        assert re.search(words, said[kind]), f"{kind}: {said[kind]}"
        assert not re.search(r"Culprit rank [02]|missing ranks: \{[02]", said[kind]), said[kind]
    late, begun = tmp_path / "late" / "dumps" / "trace_1", found["late"].results[1]["begun"]
    with open(late, "rb") as f:
        record = pickle.load(f)
    assert len(record["entries"]) == 2 and len(record["not_begun"]) == 1, record
    assert record["not_begun"][0]["time_created_ns"] >= begun, record["not_begun"]
