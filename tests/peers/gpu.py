#!/usr/bin/env python3
# gpu.py - collectives on tensors of a GPU: ringup beside Gloo, and beside the copies alone.
# SPDX-License-Identifier: Apache-2.0
"""Data of a GPU goes through host memory, with Gloo and with ringup:

    torchrun --nproc-per-node 2 tests/peers/gpu.py --rounds 5

prints a line for each size of an all_reduce, with the medians in microseconds: Gloo, a process
group of ringup, horovod.torch on ringup, and the limit: a copy to pinned host memory and one back,
without any reduction.  All ranks may share one GPU.  The steps are those of a ResNet-50 with DDP
over each, and without communication.  ringup must be installed for the Python, or be in
PYTHONPATH.
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist

import horovod.torch as hvd
import models
import ringup_torch

SIZES = (4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20)
BACKENDS = ("gloo", "ringup")


def say(*words):
    if dist.get_rank() == 0:
        print(*words, flush=True)


def seconds_of(f, calls=1):
    """How long a call takes on average, with what the GPU does for it; all ranks begin together."""
    torch.cuda.synchronize()
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(calls):
        f()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / calls


def turns(functions, rounds, calls):
    """The median seconds of each function; they take turns."""
    times = {name: [] for name in functions}
    for f in functions.values():
        f()
    for _ in range(rounds):
        for name, f in functions.items():
            times[name].append(seconds_of(f, calls))
    return {name: statistics.median(t) for name, t in times.items()}


def there_and_back(tensor):
    """A function that copies a tensor to pinned host memory and back."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)

    def copies():
        host.copy_(tensor, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        tensor.copy_(host, non_blocking=True)
    return copies


def operations(groups, rounds, device):
    """all_reduce of every size."""
    for size in SIZES:
        t = torch.zeros(size // 4, device=device)
        functions = {n: (lambda g=g: dist.all_reduce(t, group=g)) for n, g in groups.items()}
        functions["horovod"] = lambda: hvd.allreduce_(t, op=hvd.Sum)
        functions["limit"] = there_and_back(t)
        m = turns(functions, rounds, max(1, min(200, (8 << 20) // size)))
        say(f"all_reduce {size:>9} B " + "  ".join(f"{n} {s * 1e6:9.1f} us" for n, s in m.items())
            + f"  ringup/gloo {m['ringup'] / m['gloo']:.2f}  ringup/limit "
              f"{m['ringup'] / m['limit']:.2f}")


def steps(groups, rounds, device):
    """Steps of DDP over each group, and without communication."""
    from torch.nn.parallel import DistributedDataParallel as DDP

    functions = {}
    for name, group in groups.items():
        torch.manual_seed(0)
        model, batch = models.resnet50(torch)
        ddp, batch = DDP(model.to(device), process_group=group), batch.to(device)

        def step(ddp=ddp, batch=batch):
            ddp(batch).float().pow(2).mean().backward()

        def alone(ddp=ddp, step=step):
            with ddp.no_sync():
                step()
        functions[name], functions["without"] = step, alone
    m = turns(functions, rounds, 1)
    gloo, ringup = (max(m[b] - m["without"], 0) for b in BACKENDS)
    say("resnet50 DDP step: " + ", ".join(f"{n} {s * 1e3:.1f} ms" for n, s in m.items())
        + f"; communication ringup/gloo {ringup / gloo if gloo else float('nan'):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    ringup_torch.register()
    hvd.init()
    device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("gloo")
    groups = {name: dist.new_group(backend=name) for name in BACKENDS}
    operations(groups, args.rounds, device)
    steps(groups, args.rounds, device)
    dist.destroy_process_group()


main()
