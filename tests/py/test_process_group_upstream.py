# test_process_group_upstream.py - torch's own tests of process groups, on "ringup".
# SPDX-License-Identifier: Apache-2.0
#
# needs: waits
# tests: src compat/python tests/py tests/torch
"""docs/TORCH-TESTS.md tells which there are.  The gate has three of them.

What wheels do not have comes from a checkout of torch, $RINGUP_TEST_TORCH_SOURCE, else from the
sources of Debian's package."""

import os
import sys
import tarfile
import urllib.request

import pytest
from conftest import ROOT, start

SCRIPT = os.path.join(ROOT, "tests", "torch", "distributed_of_torch.py")
LONG = os.environ.get("RINGUP_TEST_LONG") == "1"
# torch compares names: monitored_barrier() is for "gloo", and get_backend() must be what was asked.
BY_NAME = {"test_monitored_barrier_gloo", "test_monitored_barrier_gloo_subgroup",
           "test_monitored_barrier_gloo_rank_0_timeout", "test_get_backend"}


@pytest.mark.parametrize("of", ["gloo", "mpi"] if LONG else ["gloo"])
def test_the_tests_of_a_back_end_of_torch(of, tmp_path):
    names = [] if LONG else ["test_all_reduce_sum", "test_DistributedDataParallelCPU",
                             "test_send_recv_any_source"]
    p = start([sys.executable, SCRIPT, *names], timeout=850, BACKEND="ringup", TESTS_OF=of,
              WORLD_SIZE="3", TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "trace_"))
    results = {}
    for line in p.stdout.splitlines():
        name, _, rest = line.partition("\t")
        if rest:
            results[name] = rest
    failed = {name for name, rest in results.items() if rest.startswith("failed")}
    assert p.returncode == 0 and failed <= BY_NAME, p.stdout
    passed = sum(rest.startswith("passed") for rest in results.values())
    assert passed == len(names) if names else passed >= 80, p.stdout


# Files of test/distributed that do not depend on a back end of torch's own.
FILES = ["test_c10d_object_collectives.py", "test_functional_api.py", "test_c10d_pypg.py",
         "test_c10d_common.py", "test_device_mesh.py", "_composable/test_replicate.py",
         "checkpoint/test_file_system_checkpoint_cpu.py",
         "optim/test_zero_redundancy_optimizer.py", "fsdp/test_wrap.py"]
SOURCE = "http://deb.debian.org/debian/pool/main/p/pytorch/pytorch_2.6.0%2Bdfsg.orig.tar.xz"
FOLDER = "pytorch-v2.6.0"
# Asks for "gloo" and wants to read it again.
KNOWN = {"ProcessGroupWithDispatchedCollectivesTests.test_init_process_group_for_all_backends"}


def unpack(archive, folder):
    """Write what FILES consist of and import below a folder."""
    with tarfile.open(archive) as tar:
        for member in tar:
            at = folder / member.name
            if (member.isfile() and member.name.startswith(f"{FOLDER}/test/distributed/")
                    and folder in at.resolve().parents):
                at.parent.mkdir(parents=True, exist_ok=True)
                at.write_bytes(tar.extractfile(member).read())


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The folder test/distributed of a checkout of torch."""
    folder = os.environ.get("RINGUP_TEST_TORCH_SOURCE")
    if not folder:
        folder = tmp_path_factory.mktemp("source")
        try:
            archive, _ = urllib.request.urlretrieve(SOURCE, folder / "source.tar.xz")
            unpack(archive, folder)
        except OSError as e:
            pytest.skip(f"no sources of torch ({e}): set RINGUP_TEST_TORCH_SOURCE to a checkout")
        folder = folder / FOLDER
    return os.path.join(folder, "test", "distributed")


def results_of(backend, path, tmp_path):
    """What each test of a file does, by its name."""
    p = start([sys.executable, os.path.join(ROOT, "tests", "torch", "file_of_torch.py"), path],
              timeout=1500, BACKEND=backend, TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "trace_"))
    assert p.returncode == 0, p.stdout[-2000:] + p.stderr[-4000:]
    rows = [line.split("\t") for line in p.stdout.splitlines() if line.count("\t") == 2]
    return {name: (what, why) for name, what, why in rows}


@pytest.mark.skipif(not LONG, reason="in the shard torch")
@pytest.mark.parametrize("name", FILES)
def test_what_passes_on_gloo_passes_on_ringup(name, source, tmp_path):
    gloo, ringup = (results_of(b, os.path.join(source, name), tmp_path) for b in ("gloo", "ringup"))
    assert gloo.keys() == ringup.keys()
    passed = {name for name, (what, _why) in gloo.items() if what == "passed"}
    assert passed, gloo
    lost = {name: ringup[name] for name in passed - KNOWN if ringup[name][0] != "passed"}
    assert not lost, lost
