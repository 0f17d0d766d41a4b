# process_group_gpu_of_a_rank.py - process groups on tensors of a GPU; test_gpu.py starts it.
# SPDX-License-Identifier: Apache-2.0
"""All ranks may share one GPU.  What a check trains is compared with what one process computes on
the batches of all ranks."""

import torch
import torch.distributed as dist
import torch.nn as nn

import gpu_of_a_rank as gpus
import process_group_of_a_rank as base
from checks import Checks
from process_group_of_a_rank import equal, me, size

check = Checks()


def gpu():
    return torch.device("cuda", me() % torch.cuda.device_count())


def total():
    return size() * (size() + 1) / 2


def mine(n=1000, dtype=torch.float32):
    return torch.full((n,), me() + 1, dtype=dtype, device=gpu())


def net():
    """The same layers on every rank."""
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(20, 48), nn.Tanh(), nn.Linear(48, 4)).to(gpu())


def batches(steps=4):
    """(size, rows, columns) of each step, on the GPU."""
    for step in range(steps):
        g = torch.Generator().manual_seed(step)
        yield torch.randn(size(), 8, 20, generator=g).to(gpu())


def trained(model, mine_only):
    """Train on this rank's share of the batches, or on all of them."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x in batches():
        optimizer.zero_grad()
        model(x[me()] if mine_only else x.flatten(0, 1)).pow(2).mean().backward()
        optimizer.step()
    return model


def same(model, whole, atol=1e-5):
    for p, q in zip(model.parameters(), whole.parameters()):
        p = p.full_tensor() if hasattr(p, "full_tensor") else p
        assert p.is_cuda and torch.allclose(p, q, atol=atol), (p, q)


@check
def all_reduce_blocking_async_and_by_future():
    for n in (1, 1000, 1 << 20):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            t = mine(n, dtype)
            dist.all_reduce(t)
            equal(t, torch.full_like(t, total()))
        t = mine(n)
        dist.all_reduce(t, async_op=True).wait()
        equal(t, torch.full_like(t, total()))
        t = mine(n)
        dist.all_reduce(t, async_op=True).get_future().wait()
        equal(t, torch.full_like(t, total()))
        t = mine(n)
        twice = dist.all_reduce(t, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
        equal(twice.wait(), torch.full_like(t, 2 * total()))


@check
def collectives_of_every_kind():
    t = torch.full((4,), float(me()), device=gpu())
    out = [torch.empty_like(t) for _ in range(size())]
    dist.all_gather(out, t)
    for r, o in enumerate(out):
        equal(o, torch.full_like(t, r))
    flat = torch.empty(4 * size(), device=gpu())
    dist.all_gather_into_tensor(flat, t)
    equal(flat, torch.arange(size(), device=gpu()).repeat_interleave(4).float())
    part = torch.empty(2, device=gpu())
    dist.reduce_scatter_tensor(part, torch.ones(2 * size(), device=gpu()))
    equal(part, torch.full_like(part, size()))
    there = torch.empty(size(), device=gpu())
    dist.all_to_all_single(there, torch.arange(size(), device=gpu()) + 10.0 * me())
    equal(there, torch.arange(size(), device=gpu()) * 10.0 + me())
    dist.broadcast(t, 1)
    equal(t, torch.ones_like(t))
    dist.reduce(t, 0)
    equal(t, torch.full_like(t, size() if me() == 0 else 1))
    dist.barrier(device_ids=[gpu().index])
    everybody = [None] * size()
    dist.all_gather_object(everybody, {"on": mine(3), "rank": me()})
    assert [o["rank"] for o in everybody] == list(range(size()))


@check
def messages():
    t = torch.full((1 << 18,), float(me()), device=gpu())
    if me() == 0:
        dist.send(t, 1)
    elif me() == 1:
        dist.recv(t, 0)
        equal(t, torch.zeros_like(t))


@check
def what_the_gpu_has_yet_to_compute_is_waited_for():
    for _ in range(3):
        t = gpus.late(me() + 1)
        dist.all_reduce(t)
        equal(t, torch.full_like(t, total()))


@check
def streams_other_than_the_default_one():
    side = torch.cuda.Stream(gpu())
    for _ in range(3):
        with torch.cuda.stream(side):
            t = gpus.late(me() + 1)
            work = dist.all_reduce(t, async_op=True)
            work.wait()
            twice = t * 2
        torch.cuda.current_stream().wait_stream(side)
        equal(twice, torch.full_like(t, 2 * total()))


@check
def ddp():
    model = nn.parallel.DistributedDataParallel(net(), device_ids=[gpu().index])
    same(trained(model, True).module, trained(net(), False))


@check
def ddp_with_a_hook():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = nn.parallel.DistributedDataParallel(net())
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    same(trained(model, True).module, trained(net(), False), atol=1e-2)


@check
def fully_sharded():
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    mesh = dist.device_mesh.init_device_mesh("cuda", (size(),))
    model = net()
    fully_shard(model, mesh=mesh)
    same(trained(model, True), trained(net(), False))
    old = FullyShardedDataParallel(net(), device_id=gpu(), use_orig_params=True)
    trained(old, True)
    with FullyShardedDataParallel.summon_full_params(old):
        same(old, trained(net(), False))


@check
def batch_normalization_over_all_ranks():
    layer = nn.SyncBatchNorm(20).to(gpu())
    model = nn.parallel.DistributedDataParallel(layer, device_ids=[gpu().index])
    whole = nn.BatchNorm1d(20).to(gpu())
    x = next(batches())
    assert torch.allclose(model(x[me()]), whole(x.flatten(0, 1)).view(x.shape)[me()], atol=1e-5)


if __name__ == "__main__":
    base.main(check)
