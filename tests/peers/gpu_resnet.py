# gpu_resnet.py - a step of ResNet-50 on GPUs: horovod.torch on ringup beside DDP on NCCL.
# SPDX-License-Identifier: Apache-2.0
#
# usage: RINGUP_BACKEND=nccl horovodrun -np 2 python gpu_resnet.py FOLDER [ROUNDS]
"""A step of gpu_nccl.bash.  Without a GPU it runs the same on CPUs, with Gloo in NCCL's place.  All
ranks then have DDP's weights, or it fails.  They meet for DDP by a file in FOLDER, which must be
new.  Steps take turns; a line has the medians in milliseconds: DDP, horovod.torch, and a step
without communication."""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

import horovod.torch as hvd
import models
from ringup import job

folder, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 15
hvd.init()
# The same numbers come from the same weights: what then differs is the averages.
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.deterministic = True
far = torch.cuda.is_available()
device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count()) if far else "cpu"
if far:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if far else "gloo", rank=hvd.rank(), world_size=hvd.size(),
                        init_method=f"file://{os.path.abspath(folder)}/ranks")


def network():
    """A ResNet-50, the same on all ranks, and this rank's batch."""
    torch.manual_seed(0)
    model, batch = models.resnet50(torch)
    torch.manual_seed(1 + hvd.rank())
    return model.to(device), torch.randn(batch.shape).to(device)


def stepper(model, batch, optimizer):
    """A function that takes a step."""
    def step():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return step


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)


plain, batch = network()
replica = DDP(network()[0])
ours = network()[0]
hvd.broadcast_parameters(ours.state_dict(), root_rank=0)
steps = {
    "DDP": stepper(replica, batch, sgd(replica)),
    "horovod.torch": stepper(ours, batch, hvd.DistributedOptimizer(
        sgd(ours), named_parameters=ours.named_parameters())),
    "without": stepper(plain, batch, sgd(plain)),
}


def seconds_of(step):
    """How long a step takes, with what the GPU does for it; all ranks begin together."""
    hvd.barrier()
    since = time.perf_counter()
    step()
    if far:
        torch.cuda.synchronize()
    return time.perf_counter() - since


taken = {name: [] for name in steps}
for turn in range(rounds + 3):  # the first three warm up
    for name, step in steps.items():
        taken[name].append(seconds_of(step))
ms = {name: 1000 * statistics.median(t[3:]) for name, t in taken.items()}


def apart(model, other):
    """How far the weights of two models are from each other."""
    return sum(float((a - b).detach().double().square().sum())
               for a, b in zip(model.parameters(), other.parameters())) ** 0.5


from_ddp, from_alone = apart(ours, replica), apart(ours, plain)
if hvd.rank() == 0:
    print(f"result: resnet50 on {hvd.size()} x {device}, {'nccl' if far else 'gloo'}: "
          + ", ".join(f"{name} {t:.2f} ms" for name, t in ms.items())
          + f"; horovod.torch/DDP {ms['horovod.torch'] / ms['DDP']:.3f}; tensors of a GPU stay "
            f"there: {job.group(0).cuda}; weights are {from_ddp:.3g} from DDP's, {from_alone:.3g} "
            "from those of a rank alone", flush=True)
# The ranks' averages are those of DDP; alone, a rank comes elsewhere.
assert hvd.size() == 1 or from_ddp < 0.1 * from_alone, (from_ddp, from_alone)
dist.destroy_process_group()
hvd.shutdown()
