# gpu_train.py - horovod.torch on a GPU: what the tests on stand-ins cannot run.
# SPDX-License-Identifier: Apache-2.0
#
# usage: RINGUP_BACKEND=nccl horovodrun -np 2 python gpu_train.py
"""A step of gpu_nccl.bash.  Without a GPU it runs the same on CPUs.  All tensors are small, and the
results are what one process computes; a failure is an AssertionError."""

import time

import torch

import horovod.torch as hvd
import ringup
from ringup import job

hvd.init()
size, rank = hvd.size(), hvd.rank()
far = torch.cuda.is_available()
device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count()) if far else "cpu"
if far:
    torch.cuda.set_device(device)
try:
    import cupy
except ImportError:
    cupy = None
if cupy and far:
    cupy.cuda.Device(device.index).use()
else:
    cupy = None
checks = 0


def same(got, want, where=device):
    """The numbers, and where they are."""
    global checks
    checks += 1
    assert torch.allclose(got.float().cpu(), torch.as_tensor(want).float()), (got, want)
    assert got.device.type == torch.device(where).type, got.device


def full(value, *shape, dtype=torch.float32, where=device):
    return torch.full(shape, value, dtype=dtype, device=where)


total = sum(range(1, size + 1))
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
    same(hvd.allreduce(full(rank + 1, 7, dtype=dtype), op=hvd.Sum), [total] * 7)
same(hvd.broadcast(full(rank, 3), size - 1), [size - 1] * 3)
same(hvd.allgather(full(rank, rank + 1, 2)),
     [[r] * 2 for r in range(size) for _ in range(r + 1)])
same(hvd.alltoall(full(rank, 2 * size)), [r for r in range(size) for _ in range(2)])
same(hvd.reducescatter(full(rank + 1, size, 2), op=hvd.Sum), [[total] * 2])
for got in hvd.grouped_allreduce([full(rank + 1, n) for n in (1, 5, 1000)], op=hvd.Sum):
    same(got, [total] * len(got))
# One rank's tensor is in host memory.
where = "cpu" if rank == 0 else device
same(hvd.allreduce(full(rank + 1, 5, where=where), op=hvd.Sum), [total] * 5, where)
same(hvd.allgather(full(rank, 1, where=where)), list(range(size)), where)
# Process sets, in another order on each rank.
sets = [hvd.add_process_set([r]) for r in (0, size - 1)] if size > 1 else []
sets.append(hvd.global_process_set)
for turn in range(10):
    mine = [s for s in sets if s.included()]
    mine = mine[::-1] if (rank + turn) % 2 else mine
    handles = [hvd.allreduce_async(full(rank + 1, 50), name="set", op=hvd.Sum, process_set=s)
               for s in mine]
    for handle, s in zip(handles, mine):
        same(hvd.synchronize(handle), [sum(r + 1 for r in s.ranks)] * 50)
# Without a framework's interface, by DLPack; CuPy's arrays, too, where there is CuPy.
for array in [full(rank + 1, 33)] + ([cupy.full(33, rank + 1, "float32")] if cupy else []):
    assert ringup.allreduce(array) is array
    same(torch.from_dlpack(array), [total] * 33)
    assert ringup.broadcast(array, size - 1) is array
# What is queued before a collective is in it, and what is queued after it sees its result.
if far:
    with torch.cuda.stream(torch.cuda.Stream()):
        late = full(0, 1 << 20)
        torch.cuda._sleep(10_000_000)
        late += rank + 1
        hvd.allreduce_(late, op=hvd.Sum)
        late *= 2
        same(late[::4096], [2 * total] * 256)

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
model = model.to(device)
for p in model.parameters():
    p.data += rank
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01),
                                     named_parameters=model.named_parameters())
since = time.monotonic()
for step in range(50):
    torch.manual_seed(step * size + rank)
    x = torch.randn(32, 64).to(device)
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
for p in model.parameters():
    mine = p.detach().sum()
    same(hvd.allgather(mine.view(1)), [float(mine)] * size)
print(f"result: rank {rank} of {size} on {device}: {checks} checks, 0 wrong; tensors of a GPU stay "
      f"there: {job.group(0).cuda}; 50 steps in {time.monotonic() - since:.2f} s; "
      f"CuPy: {bool(cupy)}", flush=True)
# A CUDA graph cannot have a collective.
if far:
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            hvd.allreduce_(late, name="captured")
        raise AssertionError("a stream that is being captured was accepted")
    except (RuntimeError, ValueError) as e:
        print("result: captured:", str(e).split("\n", maxsplit=1)[0], flush=True)
        assert "captur" in str(e), e
    same(hvd.allreduce(full(rank + 1, 5), op=hvd.Sum), [total] * 5)
hvd.shutdown()
