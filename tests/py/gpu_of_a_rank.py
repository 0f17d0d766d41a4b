# gpu_of_a_rank.py - what test_gpu.py starts on every rank: tensors on a GPU.
# SPDX-License-Identifier: Apache-2.0
"""All ranks may share one GPU.  A result is right only if the library has waited for the stream
that computes a tensor, and if what comes after it in the program waits for the result."""

import os

import ops_of_a_rank as ops
import torch
import train_of_a_rank as training
from checks import Checks
from ops_of_a_rank import equal

import horovod.torch as hvd
from ringup_torch import staging, tensors

check = Checks()
BUSY = 4096  # a product of two such matrices keeps the GPU busy for milliseconds


def gpu():
    """The GPU of this rank, as a script chooses it; several ranks may have the same one."""
    rank = hvd.local_rank() if hvd.is_initialized() else int(os.environ["RINGUP_RANK"])
    return torch.device("cuda", rank % torch.cuda.device_count())


def late(value, shape=(1000,)):
    """A tensor of value, which the GPU computes after milliseconds of other work on the current
    stream: read too early it holds something else."""
    t = torch.full(shape, -1.0, device=gpu())
    torch.cuda.current_stream().synchronize()
    m = torch.ones(BUSY, BUSY, device=gpu())
    for _ in range(4):
        m = m @ m * 1e-4
    t.copy_(torch.full(shape, float(value), device=gpu()) + m[0, 0] * 0)
    return t


def total():
    """The sum of all ranks' rank + 1."""
    return float(sum(range(1, hvd.size() + 1)))


@check
def every_collective_takes_and_gives_tensors_on_the_gpu():
    n, r = hvd.size(), hvd.rank()
    here = gpu()
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        t = torch.full((3, 4), r + 1, dtype=dtype, device=here)
        equal(hvd.allreduce(t, op=hvd.Sum), torch.full_like(t, total()))
        equal(hvd.allgather(t), torch.cat([torch.full_like(t, i + 1) for i in range(n)]))
        equal(hvd.broadcast(t, n - 1), torch.full_like(t, n))
        rows = torch.arange(2 * n, device=here).to(dtype)
        equal(hvd.alltoall(rows), rows[2 * r:2 * r + 2].repeat(n))
        equal(hvd.reducescatter(rows, op=hvd.Sum), n * rows[2 * r:2 * r + 2])
        several = hvd.grouped_allreduce([t, t[:1].contiguous()], op=hvd.Sum)
        equal(several[1], torch.full_like(t[:1], total()))
        for result in several:
            assert result.device == here
    turned = torch.arange(6.0, device=here).view(2, 3).t() + r
    equal(hvd.allreduce(turned, op=hvd.Average), turned - r + (n - 1) / 2)
    hvd.barrier()


@check
def what_the_gpu_has_yet_to_compute_is_waited_for():
    for _ in range(3):
        t = late(hvd.rank() + 1)
        equal(hvd.allreduce(t, op=hvd.Sum), torch.full_like(t, total()))
        t = late(hvd.rank() + 1)
        hvd.synchronize(hvd.allreduce_async_(t, op=hvd.Sum))
        equal(t, torch.full_like(t, total()))


@check
def streams_other_than_the_default_one():
    side = torch.cuda.Stream(gpu())
    for _ in range(3):
        with torch.cuda.stream(side):
            t = late(hvd.rank() + 1)
            handle = hvd.allreduce_async(t, op=hvd.Sum)
            result = hvd.synchronize(handle)
            twice = result * 2
        torch.cuda.current_stream().wait_stream(side)
        equal(twice, torch.full_like(t, 2 * total()))


@check
def what_comes_next_on_the_stream_sees_the_result():
    for _ in range(3):
        t = late(hvd.rank() + 1)
        hvd.allreduce_(t, op=hvd.Sum)
        after = t * 3
        t.zero_()
        equal(after, torch.full_like(t, 3 * total()))


@check
def host_memory_on_the_way_is_pinned_and_used_again():
    t = torch.full((1 << 20,), hvd.rank() + 1.0, device=gpu())
    host = tensors.copy(t)
    assert host.is_pinned() and host.eq(hvd.rank() + 1).all()
    at = host.data_ptr()
    del host
    assert tensors.copy(t).data_ptr() == at
    turned = torch.arange(6, device=gpu()).view(2, 3).t()
    equal(tensors.copy(turned), turned.cpu().contiguous())


@check
def memory_that_the_driver_refuses_leaves_no_error_behind():
    assert not staging.register(1 << 46, 1 << 20)  # nothing is there
    equal(torch.ones(3, device=gpu()) * 2, torch.full((3,), 2.0, device=gpu()))
    assert staging.Pool(pin=lambda *_: False).empty((5,), torch.float32).shape == (5,)


@check
def gradients_flow_through_collectives():
    x = torch.full((4,), float(hvd.rank() + 1), device=gpu(), requires_grad=True)
    hvd.allreduce(x, op=hvd.Sum).sum().backward()
    equal(x.grad, torch.full_like(x, float(hvd.size())))


@check
def an_optimizer_trains_as_one_process_would():
    """The same steps in one process on all ranks' batches, on the same GPU."""
    model, whole = training.net().to(gpu()), training.net().to(gpu())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    reference = torch.optim.SGD(whole.parameters(), lr=0.1, momentum=0.9)
    hvd.broadcast_parameters(model.state_dict(), 0)
    hvd.broadcast_optimizer_state(optimizer, 0)
    for step in range(5):
        x, y = (b.to(gpu()) for b in training.batches(step))
        optimizer.zero_grad()
        training.loss_of(model, x[hvd.rank()], y[hvd.rank()]).backward()
        optimizer.step()
        reference.zero_grad()
        training.loss_of(whole, x.flatten(0, 1), y.flatten(0, 1)).backward()
        reference.step()
    for p, q in zip(model.parameters(), whole.parameters()):
        assert p.device == gpu() and torch.allclose(p, q, atol=1e-5), (p, q)


@check
def mixed_precision_keeps_ranks_alike():
    """torch's own recipe for a GradScaler, with gradients that overflow on one rank once."""
    model = training.net().to(gpu())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05),
                                         named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), 0)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0 ** 10)
    for step in range(4):
        x, y = (b[hvd.rank()].to(gpu()) for b in training.batches(step))
        if step == 2 and hvd.rank() == 0:
            y = y * 1e30
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = training.loss_of(model, x, y)
        scaler.scale(loss).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.isfinite(flat).all()
    everybody = hvd.allgather(flat.unsqueeze(0))
    assert all(torch.equal(row, everybody[0]) for row in everybody), everybody
    assert len(set(hvd.allgather_object(scaler.get_scale()))) == 1


@check
def mixed_precision_as_torch_has_it():
    """torch's recipe for one process, without a word of Horovod's: clipped or not, with a loss that
    overflows on one rank once."""
    for clipped in (False, True):
        model, whole = training.net().to(gpu()), training.net().to(gpu())
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05),
                                             named_parameters=model.named_parameters())
        reference = torch.optim.SGD(whole.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler("cuda", init_scale=2.0 ** 10)
        for step in range(4):
            x, y = (b.to(gpu()) for b in training.batches(step))
            broken = step == 2
            optimizer.zero_grad()
            loss = training.loss_of(model, x[hvd.rank()], y[hvd.rank()])
            if broken and hvd.rank() == 0:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            if clipped:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            if broken:
                continue  # no rank has taken this step
            reference.zero_grad()
            training.loss_of(whole, x.flatten(0, 1), y.flatten(0, 1)).backward()
            if clipped:
                torch.nn.utils.clip_grad_norm_(whole.parameters(), 0.5)
            reference.step()
        for p, q in zip(model.parameters(), whole.parameters()):
            assert torch.allclose(p, q, atol=1e-4), (clipped, p, q)


@check
def batch_normalization_over_all_ranks():
    layer, whole = hvd.SyncBatchNorm(3).to(gpu()), torch.nn.BatchNorm1d(3).to(gpu())
    x = torch.randn(hvd.size(), 8, 3, generator=torch.Generator().manual_seed(5)).to(gpu())
    out, want = layer(x[hvd.rank()]), whole(x.flatten(0, 1)).view(x.shape)[hvd.rank()]
    assert torch.allclose(out, want, atol=1e-5)
    assert torch.allclose(layer.running_var, whole.running_var, atol=1e-5)


@check
def a_compressed_gradient_and_an_object():
    t = torch.full((5,), float(hvd.rank() + 1), device=gpu())
    equal(hvd.allreduce(t, op=hvd.Sum, compression=hvd.Compression.fp16),
          torch.full_like(t, total()))
    sent = hvd.broadcast_object({"t": t.cpu(), "n": 3} if hvd.rank() == 0 else None, 0)
    equal(sent["t"], torch.ones(5))


if __name__ == "__main__":
    ops.main(check)
