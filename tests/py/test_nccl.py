# test_nccl.py - training on arrays of GPUs by NCCL, both of which are fakes.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src/backend src/device src/engine compat/python tests/fakegpu tests/peers tests/py

import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import HERE, ROOT, launcher, start

BUILD = os.path.dirname(os.path.realpath(shutil.which("ringup") or "/none"))
BUILD = BUILD[:-len("/.libs")] if BUILD.endswith("/.libs") else BUILD
FAKES = os.path.join(BUILD, "tests", "fakegpu")

pytestmark = pytest.mark.skipif(not os.path.exists(os.path.join(FAKES, "cuda", "libcuda.so.1")),
                                reason="make check_DATA has not made the fakes")


def fakes(nccl):
    """The variables by which a process gets them, also where torch has brought a real NCCL."""
    return {"LD_LIBRARY_PATH": f"{FAKES}/cuda:{FAKES}/nccl-{nccl}",
            "LD_PRELOAD": f"{FAKES}/nccl-{nccl}/libnccl.so.2"}


def ranks(n, what, nccl="2.28.9", backend="nccl", more=(), options=(), **env):
    """Run a function of nccl_of_a_rank.py."""
    run = launcher("ringup", n)
    script = os.path.join(HERE, "nccl_of_a_rank.py")
    return start([*run[:4], *options, *run[4:], script, what, *more],
                 timeout=100, RINGUP_BACKEND=backend, **{**fakes(nccl), **env})


def training(*program, nccl="2.28.9", doomed=()):
    """Run nccl_training_of_a_rank.py by a launcher; returns how that ended."""
    script = os.path.join(HERE, "nccl_training_of_a_rank.py")
    return start([*program, sys.executable, script, *map(str, doomed)], timeout=100,
                 RINGUP_BACKEND="nccl", **fakes(nccl))


@pytest.mark.parametrize("n, program, nccl", [
    (2, ["horovodrun", "-np", "2"], "2.28.9"),
    (3, ["ringup", "run", "-np", "3", "--"], "2.18.3")])
def test_a_training_has_the_weights_of_one_process(n, program, nccl):
    p = training(*program, nccl=nccl)
    assert p.returncode == 0, p.stdout + p.stderr
    assert p.stdout.count(f"of {n} has the weights of one process") == n, p.stdout + p.stderr
    assert "left at exit" not in p.stderr, p.stderr


def test_an_elastic_training_that_loses_a_rank_has_them_too():
    p = training("horovodrun", "-np", "3", "--min-np", "2", doomed=[1])
    said = p.stdout + p.stderr
    assert p.returncode == 0 and p.stdout.count("a job of 3 has ended with ") >= 2, said
    assert p.stdout.count("has the weights of one process") >= 2, said
    died = r"allreduce 'allreduce\.gradient\.\w+': rank 1 \(process \d+ on [^)]*\) died; the ranks"
    assert re.search(died, p.stderr), said


@pytest.mark.parametrize("n, nccl", [(2, "2.28.9"), (3, "2.18.3")])
def test_the_steps_of_a_training(n, nccl):
    p = ranks(n, "train", nccl)
    assert p.returncode == 0, p.stdout + p.stderr
    assert p.stdout.count("is through") == n
    assert "left at exit" not in p.stderr, p.stderr


def test_the_same_through_host_memory():
    p = ranks(2, "train", backend="")
    assert p.returncode == 0, p.stdout + p.stderr


@pytest.mark.parametrize("n, what", [(2, "adasum"), (2, "arrays"), (2, "blocks"),
                                     (2, "elsewhere"), (3, "blocks"), (1, "recorded"),
                                     (3, "sets")])
def test_others(n, what):
    p = ranks(n, what)
    assert p.returncode == 0, p.stdout + p.stderr


def test_a_gpu_that_is_behind_and_moves_is_not_late():
    p = ranks(2, "backlog", RINGUP_DEVICE_MS="700")
    assert p.returncode == 0 and p.stdout.count("is through") == 2, p.stdout + p.stderr


def test_an_error_of_an_operation_without_a_name_has_its_number():
    p = ranks(2, "nameless", FAKE_CUDA="jit_fails")
    assert p.returncode == 0 and p.stdout.count("is through") == 2, p.stdout + p.stderr


def test_init_does_not_start_cuda():
    p = ranks(2, "visible")
    assert p.returncode == 0 and p.stdout.count("is through") == 2, p.stdout + p.stderr
    assert "left at exit" not in p.stderr, p.stderr


@pytest.mark.parametrize("nccl", ["2.18.3", "2.28.9"])
def test_a_killed_rank_is_named_at_once(nccl):
    p = ranks(3, "killed", nccl)
    assert p.returncode == 128 + 9 and p.stdout.count("is through") == 2, p.stdout + p.stderr
    assert all(float(s) < 2 for s in re.findall(r"told after ([\d.]+) s", p.stdout)), p.stdout


def test_a_frozen_rank_is_named():
    p = ranks(2, "stopped", RINGUP_LIVENESS_PROFILE="fast")
    assert p.returncode != 0 and "told after" in p.stdout and "it is stopped" in p.stdout, p.stdout


@pytest.mark.parametrize("nccl", ["2.18.3", "2.28.9"])
def test_a_commit_keeps_nothing_of_an_aborted_allreduce(nccl):
    p = ranks(3, "lagging", nccl, options=["--min-np", "2"])
    said = p.stdout + p.stderr
    # The third step has not been committed: its sum was never complete.
    assert p.stdout.count("generation of 2 at step 2") == 2, said
    assert p.stdout.count("the weights are right") >= 2, said


@pytest.mark.parametrize("end, code", [("leaves", 0), ("dies", 128 + 9)])
def test_a_program_can_ask_before_it_saves(end, code):
    p = ranks(2, "checkpoint", more=[end])
    said = p.stdout + p.stderr
    assert p.returncode == code and p.stdout.count("is through") == 2 - (code > 0), said


# What Horovod's users on GPUs have asked for: the numbers are upstream's.


def lives_on(n, doomed, **env):
    """The ranks that do not die compute on in their processes, and none of them is aborted."""
    p = ranks(n, "elastic", options=["--min-np", "2"], more=[str(rank) for rank in doomed], **env)
    left = n - len(doomed)
    # Seven steps of all ranks; then of those left, until new ranks have started, if in time.
    weights = set(re.findall(r"weight (\d+) in", p.stdout))
    said = p.stdout + p.stderr
    assert len(weights) == 1 and 7 * n + 13 * left <= int(*weights) <= 20 * n, said
    first = re.findall(rf"generation of {n} at step 0 in (\d+)", p.stdout)
    second = re.findall(rf"generation of {left} at step 7 in (\d+)", p.stdout)
    assert len(first) == n and len(second) == left and set(second) < set(first), said
    assert "status 134" not in said and "SIGABRT" not in said, said


@pytest.mark.parametrize("nccl", ["2.18.3", "2.28.9"])
def test_3111_a_worker_that_is_taken_away_aborts_no_other(nccl):
    lives_on(3, [1], nccl=nccl)


def test_3264_half_of_the_workers_killed_at_once_leave_the_others_running():
    lives_on(4, [2, 3])


def test_3996_tensors_of_gpus_need_no_build_against_the_framework_or_nccl():
    lib = os.path.join(BUILD, ".libs", "libringup.so.0")
    needed = subprocess.run(["readelf", "-dW", lib], check=True, capture_output=True,
                            text=True).stdout
    assert "NEEDED" in needed, needed
    assert not re.search(r"NEEDED.*(cuda|nccl|torch|stdc\+\+)", needed), needed
    # No compiler, no toolkit: the first tensor of a GPU is summed by what the loader finds.
    p = ranks(2, "arrays", CC="/none", CXX="/none", CUDA_HOME="/none", HOROVOD_NCCL_HOME="/none",
              PATH=os.path.dirname(shutil.which("ringup")))
    assert p.returncode == 0 and p.stdout.count("is through") == 2, p.stdout + p.stderr


@pytest.mark.parametrize("n, nccl", [(2, "2.28.9"), (3, "2.18.3")])
def test_4047_a_training_in_bfloat16(n, nccl):
    p = ranks(n, "bfloat16", nccl)
    assert p.returncode == 0 and p.stdout.count("is through") == n, p.stdout + p.stderr


def test_all_ranks_have_one_version_of_nccl():
    p = ranks(2, "versions", more=[f"{FAKES}/nccl-2.18.3/libnccl.so.2"])
    said = "rank 0 has NCCL 2.28.9, rank 1 has 2.18.3"
    assert p.returncode == 0 and p.stdout.count(said) == 2, p.stdout + p.stderr


@pytest.mark.parametrize("program", ["gpu_train.py", "gpu_resnet.py"])
def test_what_the_script_for_a_real_gpu_trains_runs_on_cpus(program, tmp_path):
    if program == "gpu_resnet.py" and os.environ.get("RINGUP_TEST_LONG") != "1":
        pytest.skip("this takes half a minute: RINGUP_TEST_LONG=1")
    script = os.path.join(ROOT, "tests", "peers", program)
    p = start(["horovodrun", "-np", "2", sys.executable, script, str(tmp_path), "1"],
              CUDA_VISIBLE_DEVICES="")
    said = " 0 wrong" if program == "gpu_train.py" else "result: resnet50 on 2 x cpu, gloo"
    assert p.returncode == 0 and said in p.stdout, p.stdout + p.stderr


def test_the_elastic_training_of_the_script_for_a_real_gpu_runs_on_cpus():
    script = os.path.join(ROOT, "tests", "peers", "gpu_elastic.py")
    p = start(["horovodrun", "-np", "3", "--min-np", "2", sys.executable, script],
              CUDA_VISIBLE_DEVICES="")
    assert p.stdout.count("trained on, 2 ranks alike") == 2, p.stdout + p.stderr


def test_the_mixed_process_group_of_the_script_for_a_real_gpu_runs_on_cpus(tmp_path):
    script = os.path.join(ROOT, "tests", "peers", "gpu_mixed.py")
    p = start(["horovodrun", "-np", "2", sys.executable, script, str(tmp_path)],
              CUDA_VISIBLE_DEVICES="", GLOO_SOCKET_IFNAME="lo",
              TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "trace_"))
    assert "result: rank 0 is through" in p.stdout, p.stdout + p.stderr


def refused(path, said, **env):
    """No rank starts, and all say why."""
    p = start([*launcher("ringup", 2), "-c", "import horovod.common.basics as b; "
               "b.HorovodBasics().init()"], timeout=60, LD_LIBRARY_PATH=path,
              RINGUP_BACKEND="nccl", **env)
    assert p.returncode not in (0, -9), p.stdout + p.stderr
    assert re.search(said, p.stdout + p.stderr), p.stdout + p.stderr


def test_no_driver_and_no_nccl_are_named():
    if not os.path.exists("/dev/nvidia0"):
        refused(f"{FAKES}/nccl-2.28.9", "there is no NVIDIA driver")
    # To its end, with what to do.
    refused(f"{FAKES}/cuda", r"NCCL does not load \(libnccl.so.2: [^)]*\); import its framework "
            r"first, or set RINGUP_NCCL\b")


def test_an_nccl_that_is_too_old_is_named_also_far_below(tmp_path):
    far = tmp_path / ("local_disk0/" + "a" * 100)
    far.mkdir(parents=True)
    shutil.copy(f"{FAKES}/nccl-2.18.3/libnccl.so.2", far)
    refused(f"{FAKES}/cuda", "NCCL 2.17.1 is too old, 2.18 or later is needed: /",
            RINGUP_NCCL=str(far / "libnccl.so.2"), FAKE_NCCL="version=21701")


@pytest.mark.parametrize("kind, said", [
    ("none", "RINGUP_NCCL does not load: .*/none: cannot open"),
    ("text", "RINGUP_NCCL does not load: .*/text: "),
    ("folder", "RINGUP_NCCL is not a regular file: .*/folder"),
    ("pipe", "RINGUP_NCCL is not a regular file: .*/pipe"),
    ("other", "/other has no ncclGetVersion; NCCL 2.18 or later is needed")],
    ids=["none", "text", "folder", "pipe", "other"])
def test_a_file_that_is_no_nccl_is_named(kind, said, tmp_path):
    told = tmp_path / kind
    if kind == "text":
        told.write_text("libnccl.so.2\n")
    elif kind == "folder":
        told.mkdir()
    elif kind == "pipe":
        os.mkfifo(told)
    elif kind == "other":
        shutil.copy(f"{FAKES}/cuda/libcuda.so.1", told)
    refused(f"{FAKES}/cuda:{FAKES}/nccl-2.28.9", said, RINGUP_NCCL=str(told))
