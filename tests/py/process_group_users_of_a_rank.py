# process_group_users_of_a_rank.py - users of process groups in torch: FSDP, DTensor, torch.compile.
# SPDX-License-Identifier: Apache-2.0
"""test_process_group_users.py starts it on every rank.  What a check trains is compared with what
one process computes on the batches of all ranks."""

import copy
import functools
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

import process_group_of_a_rank as base
from checks import Checks
from process_group_of_a_rank import equal, me, plain, same_everywhere, size, trained_alone

check = Checks()
RELEASE = tuple(int(n) for n in torch.__version__.split(".")[:2])


def needs(condition, what):
    """Leave a check out that this torch has nothing for."""
    if not condition:
        print(f"left out: this torch has no {what}")
    return condition


def close(got, want):
    for a, b in zip(got, want):
        assert torch.allclose(a, b, atol=1e-5), (a, b)


def steps(model, batches, optimizer, share=None):
    """Train on this rank's share of the batches."""
    for x, y in batches:
        optimizer.zero_grad()
        mine = slice(me(), None, size()) if share is None else share
        F.mse_loss(model(x[mine]), y[mine]).backward()
        optimizer.step()


# ---- DDP ----

@check
def communication_hooks():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
        PostLocalSGDState, post_localSGD_hook)

    want = trained_alone(*plain())
    for hook, state, exact in (
            (default_hooks.allreduce_hook, dist.group.WORLD, True),
            (default_hooks.fp16_compress_hook, dist.group.WORLD, False),
            (powerSGD_hook.powerSGD_hook,
             powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2),
             False),
            (post_localSGD_hook, PostLocalSGDState(None, dist.group.WORLD, 100), True)):
        model, batches = plain()
        ddp = nn.parallel.DistributedDataParallel(model)
        ddp.register_comm_hook(state, hook)
        steps(ddp, batches, torch.optim.SGD(ddp.parameters(), lr=0.1))
        got = [p.detach() for p in model.parameters()]
        same_everywhere(got)
        if exact:
            close(got, want)
    if hasattr(dist, "BuiltinCommHookType"):
        model, batches = plain()
        ddp = nn.parallel.DistributedDataParallel(model)
        ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
        steps(ddp, batches, torch.optim.SGD(ddp.parameters(), lr=0.1))
        close([p.detach() for p in model.parameters()], want)


@check
def a_hook_of_an_own_kind():
    """Gradients are reduced as soon as they are there, each on its own."""
    if not needs(hasattr(torch.Tensor, "register_post_accumulate_grad_hook"), "such hooks"):
        return
    model, batches = plain()
    want, works = trained_alone(*plain()), []

    def reduce(p):
        works.append(dist.all_reduce(p.grad, op=dist.ReduceOp.AVG, async_op=True))

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(reduce)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches:
        optimizer.zero_grad()
        F.mse_loss(model(x[me()::size()]), y[me()::size()]).backward()
        for work in works:
            work.wait()
        works.clear()
        optimizer.step()
    close([p.detach() for p in model.parameters()], want)


@check
def zero_redundancy():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    want = trained_alone(*plain())
    model, batches = plain()
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.SGD, lr=0.1)
    steps(ddp, batches, optimizer)
    close([p.detach() for p in model.parameters()], want)
    optimizer.consolidate_state_dict(0)
    if me() == 0:
        optimizer.state_dict()


@check
def gradients_of_collectives():
    import torch.distributed.nn.functional as fnn

    x = torch.full((3,), float(me()), requires_grad=True)
    y = fnn.all_reduce(x * 2)
    y.sum().backward()
    equal(x.grad, torch.full((3,), 2.0 * size()))
    x = torch.full((2,), float(me()), requires_grad=True)
    torch.stack(fnn.all_gather(x)).pow(2).sum().backward()
    equal(x.grad, torch.full((2,), 2.0 * me() * size()))


@check
def ddp_with_all_of_torch_s_debugging():
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: torch checks each step, and wraps its own back ends."""
    if not needs(hasattr(dist, "set_debug_level"), "level of debugging to set"):
        return
    want = trained_alone(*plain())
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        group = dist.new_group()
        model, batches = plain()
        ddp = nn.parallel.DistributedDataParallel(model, process_group=group,
                                                  find_unused_parameters=True)
        steps(ddp, batches, torch.optim.SGD(ddp.parameters(), lr=0.1))
        close([p.detach() for p in model.parameters()], want)
        dist.destroy_process_group(group)
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)


class Squares(torch.utils.data.Dataset):
    """Asks for the rank, which worker processes may; they can do nothing else with the group."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.tensor([float(i * i), float(dist.group.WORLD.rank())])


@check
def workers_that_load_data():
    """They are forked from a rank, and their end must not be the group's."""
    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2,
                                         multiprocessing_context="fork")
    for batch in loader:
        assert (batch[:, 1] == me()).all()
        dist.all_reduce(batch)
    t = torch.ones(1)
    dist.all_reduce(t)
    equal(t, torch.tensor([float(size())]))


# ---- FSDP ----

@check
def fsdp1():
    if not needs(RELEASE >= (2, 5), "FSDP for the CPU"):
        return
    from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType

    want = trained_alone(*plain())
    model, batches = plain()
    sharded = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    steps(sharded, batches, torch.optim.SGD(sharded.parameters(), lr=0.1))
    with FullyShardedDataParallel.state_dict_type(sharded, StateDictType.FULL_STATE_DICT):
        whole = sharded.state_dict()
    close(list(whole.values()), want)
    with FullyShardedDataParallel.state_dict_type(sharded, StateDictType.SHARDED_STATE_DICT):
        assert set(sharded.state_dict()) == set(whole)


@check
def fsdp2_and_hybrid():
    try:
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh
    except ImportError:
        needs(False, "fully_shard()")
        return
    meshes = [init_device_mesh("cpu", (size(),))]
    if size() % 2 == 0:
        meshes.append(init_device_mesh("cpu", (2, size() // 2), mesh_dim_names=("dp", "shard")))
    want = trained_alone(*plain())
    for mesh in meshes:
        model, batches = plain()
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        steps(model, batches, torch.optim.SGD(model.parameters(), lr=0.1))
        close([p.full_tensor() for p in model.parameters()], want)


# ---- meshes, DTensor ----

@check
def meshes_and_dtensors():
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    except ImportError:
        needs(False, "DTensor")
        return
    mesh = init_device_mesh("cpu", (size(),))
    whole = torch.arange(float(size() * 6)).view(size() * 2, 3)
    d = distribute_tensor(whole, mesh, [Shard(0)])
    equal(d.to_local(), whole[2 * me():2 * me() + 2])
    equal(d.full_tensor(), whole)
    equal(d.redistribute(mesh, [Replicate()]).to_local(), whole)
    equal(d.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Shard(0)]).to_local(), d.to_local())
    p = DTensor.from_local(torch.ones(2), mesh, [Partial()])
    equal(p.redistribute(mesh, [Replicate()]).to_local(), torch.full((2,), float(size())))
    ones = distribute_tensor(torch.ones(3, 1), mesh, [Replicate()])
    equal((d @ ones).full_tensor(), whole @ torch.ones(3, 1))


@check
def tensor_parallel():
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                       parallelize_module)
    except ImportError:
        needs(False, "tensor parallelism")
        return
    torch.manual_seed(5)
    hidden = 4 * size()
    model = nn.Sequential(nn.Linear(6, hidden), nn.ReLU(), nn.Linear(hidden, 3))
    whole, x = copy.deepcopy(model), torch.randn(5, 6)
    mesh = init_device_mesh("cpu", (size(),))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    got, want = model(x), whole(x)
    close([got], [want])
    got.sum().backward()
    want.sum().backward()
    close([model[0].weight.grad.full_tensor()], [whole[0].weight.grad])


# ---- functional collectives, torch.compile ----

@check
def functional_collectives():
    try:
        import torch.distributed._functional_collectives as fc
    except ImportError:
        needs(False, "functional collectives")
        return
    n, r = size(), me()
    group = dist.group.WORLD
    equal(fc.all_reduce(torch.ones(3), "sum", group) * 1, torch.full((3,), float(n)))
    equal(fc.all_gather_tensor(torch.tensor([float(r)]), 0, group) * 1, torch.arange(float(n)))
    equal(fc.reduce_scatter_tensor(torch.arange(float(n)), "sum", 0, group) * 1,
          torch.tensor([float(r * n)]))
    for t in fc.all_reduce_coalesced([torch.ones(2), torch.ones(3)], "avg", group):
        equal(t * 1, torch.ones_like(t * 1))
    if needs(hasattr(fc, "all_to_all_single"), "all_to_all_single() among them"):
        got = fc.all_to_all_single(torch.arange(float(n)) + 10 * r, None, None, group) * 1
        equal(got, torch.arange(float(n)) * 10 + r)
    if needs(hasattr(fc, "broadcast"), "broadcast() among them"):
        equal(fc.broadcast(torch.tensor([float(r)]), n - 1, group) * 1, torch.tensor([n - 1.0]))


@check
def compiled_collectives():
    if not needs(RELEASE >= (2, 5), "torch.compile that knows process groups of Python"):
        return
    import torch.distributed._functional_collectives as fc

    group = dist.group.WORLD

    def functional(x):
        return fc.all_reduce(x * 2, "sum", group) + 1

    def in_place(x):
        y = x * 2
        dist.all_reduce(y)
        return y + 1

    for f in (functional, in_place):
        got = torch.compile(f, backend="aot_eager", fullgraph=True)(torch.ones(4))
        equal(got, torch.full((4,), 2.0 * size() + 1))


@check
def compiled_ddp():
    """C++ code calls the group within the compiled region."""
    if not needs(RELEASE >= (2, 0), "torch.compile"):
        return
    want = trained_alone(*plain())
    model, batches = plain()
    ddp = nn.parallel.DistributedDataParallel(model)
    compiled = torch.compile(ddp, backend="aot_eager")
    steps(compiled, batches, torch.optim.SGD(ddp.parameters(), lr=0.1))
    close([p.detach() for p in model.parameters()], want)


@check
def compiled_step_of_ddp():
    """All of a step is compiled, and what is called within backward() is not."""
    if not needs(RELEASE >= (2, 5), "torch.compile that knows process groups of Python"):
        return
    want = trained_alone(*plain())
    model, batches = plain()
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)

    @functools.partial(torch.compile, backend="aot_eager")
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(ddp(x), y)
        loss.backward()
        total = loss.detach().clone()
        dist.all_reduce(total)
        optimizer.step()
        return total

    for x, y in batches:
        step(x[me()::size()], y[me()::size()])
    close([p.detach() for p in model.parameters()], want)


# ---- checkpoints ----

@check
def checkpoints():
    try:
        import torch.distributed.checkpoint as dcp
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
    except ImportError:
        needs(False, "distributed checkpoints of DTensors")
        return
    mesh = init_device_mesh("cpu", (size(),))
    whole = torch.arange(float(size() * 4))
    folder = [tempfile.mkdtemp(dir=os.environ["RINGUP_TEST_RESULTS"]) if me() == 0 else None]
    dist.broadcast_object_list(folder, 0)
    dcp.save({"w": distribute_tensor(whole, mesh, [Shard(0)]), "step": 7},
             checkpoint_id=folder[0])
    state = {"w": distribute_tensor(torch.zeros_like(whole), mesh, [Shard(0)]), "step": 0}
    dcp.load(state, checkpoint_id=folder[0])
    equal(state["w"].full_tensor(), whole)
    assert state["step"] == 7


if __name__ == "__main__":
    base.main(check)
