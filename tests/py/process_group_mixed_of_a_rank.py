# process_group_mixed_of_a_rank.py - process groups in which ringup serves some devices.
# SPDX-License-Identifier: Apache-2.0
"""Each rank leaves in rank.N what it has found for each way to name the back ends."""

import datetime
import json
import os

import torch
import torch.distributed as dist

import ringup_torch
from ringup_torch import group as groups

RESULTS = os.environ["RINGUP_TEST_RESULTS"]
RANK, SIZE = int(os.environ["RINGUP_RANK"]), int(os.environ["RINGUP_SIZE"])
SPECS = ["cpu:ringup,cuda:gloo", "cuda:gloo,cpu:ringup", "cpu:gloo,cuda:ringup",
         "cuda:ringup,cpu:gloo", "cpu:ringup", "cpu:ringup,cuda:ringup", "cpu:ringup,cuda:mpi",
         "cpu:ringup,cuda:nccl"]
began = []  # operations of ringup


def count_operations():
    """Note each operation that ringup carries out itself."""
    record = groups.GroupBase._began

    def counted(self, name, *args, **kwargs):
        began.append(name)
        return record(self, name, *args, **kwargs)

    groups.GroupBase._began = counted


def operations(group):
    """Operations of all kinds on the CPU; they raise if a result is wrong."""
    mine = torch.full((4,), RANK + 1.)
    t = mine.clone()
    dist.all_reduce(t, group=group)
    assert t.tolist() == [sum(range(1, SIZE + 1))] * 4, t
    rows = [torch.zeros(4) for _ in range(SIZE)]
    dist.all_gather(rows, mine, group=group)
    assert [r[0].item() for r in rows] == [r + 1. for r in range(SIZE)], rows
    dist.broadcast(t, 1, group=group)
    dist.gather(mine, rows if RANK == 0 else None, 0, group=group)
    dist.scatter(t, rows if RANK == 0 else None, 0, group=group)
    assert t.tolist() == mine.tolist(), t
    whole = torch.zeros(4 * SIZE)
    dist.all_gather_into_tensor(whole, mine, group=group)
    assert whole[-1].item() == SIZE, whole
    work = dist.all_reduce(t, group=group, async_op=True)
    work.wait()
    dist.barrier(group=group)
    if RANK < 2:
        other = torch.zeros(4)
        for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, 1 - RANK, group),
                                         dist.P2POp(dist.irecv, other, 1 - RANK, group)]):
            w.wait()
        assert other.tolist() == [2. - RANK] * 4, other
    found = [None] * SIZE
    dist.all_gather_object(found, RANK, group=group)
    assert found == list(range(SIZE)), found
    called = getattr(torch.ops, "_c10d_functional", None)
    if called and hasattr(group, "group_name"):
        t = called.wait_tensor(called.all_reduce(mine, "sum", group.group_name))
        assert t.tolist() == [sum(range(1, SIZE + 1))] * 4, t


def backends(group):
    return {d: type(group._get_backend(torch.device(d))).__name__ for d in ("cpu", "cuda")}


def look(spec, store):
    """What a process group by that name, and a part of it, are."""
    try:
        dist.init_process_group(spec, store=store, rank=RANK, world_size=SIZE,
                                timeout=datetime.timedelta(seconds=300))
    except Exception as e:
        return {"kind": type(e).__name__, "said": str(e)}
    world = dist.group.WORLD
    part = dist.new_group(list(range(SIZE)))
    began.clear()
    for group in (world, part):
        operations(group)
    found = {"world": backends(world), "part": backends(part), "ringup": len(began),
             "devices": sorted(d.type for d in world._device_types)}
    dist.destroy_process_group(part)
    dist.destroy_process_group()
    return found


ringup_torch.register()
count_operations()
place = dist.FileStore(os.path.join(RESULTS, "store"), SIZE)
results = {spec: look(spec, dist.PrefixStore(spec, place)) for spec in SPECS}
with open(os.path.join(RESULTS, f"rank.{RANK}"), "w", encoding="utf-8") as f:
    json.dump(results, f)
