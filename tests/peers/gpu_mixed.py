# gpu_mixed.py - a process group of torch in which ringup serves the CPU, and NCCL the GPU.
# SPDX-License-Identifier: Apache-2.0
#
# usage: horovodrun -np 2 python gpu_mixed.py FOLDER
"""A step of gpu_nccl.bash.  Without a GPU it runs the same on CPUs, where Gloo serves the CPU.  The
ranks meet in a folder.  The last lines are about failures: a rank that is late, and one that dies,
so the launcher reports a killed rank."""

import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

import ringup_torch
from ringup_torch.recorder import recorder

ringup_torch.register()
rank, size = int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"])
far = torch.cuda.is_available()
device = torch.device("cuda", rank % torch.cuda.device_count()) if far else torch.device("cpu")
if far:
    torch.cuda.set_device(device)
store = dist.FileStore(os.path.join(sys.argv[1], "mixed"), size)
dist.init_process_group("cpu:ringup,cuda:nccl" if far else "cpu:gloo,cuda:ringup", store=store,
                        rank=rank, world_size=size, timeout=datetime.timedelta(seconds=30))
checks, total = 0, sum(range(1, size + 1))


def same(got, want):
    global checks
    checks += 1
    assert torch.allclose(got.float().cpu(), torch.as_tensor(want).float()), (got, want)


def full(value, *shape, dtype=torch.float32):
    return torch.full(shape, value, dtype=dtype, device=device)


for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
    t = full(rank + 1, 5, dtype=dtype)
    dist.all_reduce(t)
    same(t, [total] * 5)
near = torch.full((3,), rank + 1.)
dist.all_reduce(near)
same(near, [total] * 3)
works = [dist.all_reduce(t := full(rank + 1, 1 << 16), async_op=True) for _ in range(30)]
for work in works:
    assert work.wait()
same(t, [total] * (1 << 16))
whole = full(0, 2 * size)
dist.all_gather_into_tensor(whole, full(rank, 2))
same(whole, [r for r in range(size) for _ in range(2)])
part = full(0, 2)
dist.reduce_scatter_tensor(part, full(rank + 1, 2 * size))
same(part, [total] * 2)
dist.broadcast(t, size - 1)
other = full(-1, 4)
ends = [dist.P2POp(dist.isend, full(rank, 4), (rank + 1) % size),
        dist.P2POp(dist.irecv, other, (rank - 1) % size)]
for work in dist.batch_isend_irecv(ends):
    work.wait()
same(other, [(rank - 1) % size] * 4)
if far:
    with dist._coalescing_manager(device=device):
        several = [full(rank + 1, n) for n in (1, 7)]
        for t in several:
            dist.all_reduce(t)
    for t in several:
        same(t, [total] * len(t))
    with torch.cuda.stream(torch.cuda.Stream()):
        graph, t = torch.cuda.CUDAGraph(), full(0, 8)
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            dist.all_reduce(t)
        t.fill_(rank + 1)
        graph.replay()
        same(t, [total] * 8)
dist.barrier()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
model = torch.nn.parallel.DistributedDataParallel(model.to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
since = time.monotonic()
for step in range(50):
    torch.manual_seed(step * size + rank)
    optimizer.zero_grad()
    model(torch.randn(32, 64).to(device)).square().mean().backward()
    optimizer.step()
took = time.monotonic() - since
for p in model.parameters():
    mine, all_ = p.detach().sum().view(1), full(0, size)
    dist.all_gather_into_tensor(all_, mine)
    same(all_, [float(mine)] * size)
if far:
    torch.cuda.synchronize()
entries = recorder.state()["entries"]
named = [e for e in entries if e["profiling_name"].startswith("nccl:" if far else "gloo:")]
open_ = [e["profiling_name"] for e in named if e["state"] != "completed"]
assert len(named) > 50 and not open_, (len(named), open_)
print(f"result: rank {rank} of {size} on {device}: {checks} checks, 0 wrong; "
      f"{len(named)} recorded; 50 steps in {took:.2f} s", flush=True)


def failure(group=None):
    """What a sum that cannot complete tells, and after how many seconds."""
    begun = time.monotonic()
    try:
        work = dist.all_reduce(full(1, 1 << 20), group=group, async_op=True)
        while not work.is_completed():
            time.sleep(0.01)
        work.wait()
        return "nothing", 0
    except RuntimeError as e:
        return f"{type(e).__name__}: {e}", time.monotonic() - begun


def heard(name):
    """Wait until rank 0 has said so."""
    while not store.check([name]):
        time.sleep(0.05)


part = dist.new_group(timeout=datetime.timedelta(seconds=4))
dist.all_reduce(full(1, 4), group=part)
if rank == 0:
    said, seconds = failure(part)
    print(f"result: late: {seconds:.2f} s: {said}", flush=True)
    assert said.startswith("TimedOut") and "rank 1 (process" in said and seconds < 6, said
    store.set("told", "")
heard("told")
# The world goes on.
t = full(rank + 1, 5)
dist.all_reduce(t)
same(t, [total] * 5)
if rank == size - 1:
    os.kill(os.getpid(), signal.SIGKILL)
said, seconds = failure()
print(f"result: killed: {seconds:.2f} s: {said}", flush=True)
assert said.startswith("PeerLost") and f"rank {size - 1} (process" in said and seconds < 5, said
print(f"result: rank {rank} is through", flush=True)
