# gpu_elastic.py - an elastic training by horovod.torch on a GPU, which loses a rank and goes on.
# SPDX-License-Identifier: Apache-2.0
#
# usage: RINGUP_BACKEND=nccl horovodrun -np 3 --min-np 2 python gpu_elastic.py
"""A step of gpu_nccl.bash.  Without a GPU it runs the same on CPUs.  Rank 1 of three is killed in a
step; the others take it back, meet again and train on, in the same processes."""

import os
import signal
import time

import torch

import horovod.torch as hvd

STEPS, LOST_AT = 20, 7
hvd.init()
here, size = os.getpid(), hvd.size()
far = torch.cuda.is_available()
device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count()) if far else "cpu"
if far:
    torch.cuda.set_device(device)
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
model = model.to(device)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01),
                                     named_parameters=model.named_parameters())
times = [time.monotonic()]


@hvd.elastic.run
def train(state):
    """From the step that all have committed."""
    while state.step < STEPS:
        if state.step == LOST_AT and hvd.size() == size and hvd.rank() == 1:
            os.kill(here, signal.SIGKILL)
        x = torch.randn(8, 16).to(device)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        state.step += 1
        state.commit()
        times.append(time.monotonic())


train(hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0))
for p in model.parameters():
    assert p.device.type == torch.device(device).type, p.device
    rows = hvd.allgather(p.detach().reshape(1, -1))
    assert all(torch.equal(row, rows[0]) for row in rows), rows
pause = max(b - a for a, b in zip(times[1:], times[2:]))
print(f"result: process {here} trained on, {hvd.size()} ranks alike; the longest step took "
      f"{pause:.2f} s", flush=True)
hvd.shutdown()
