#!/usr/bin/env python3
# process_groups.py - process groups of torch on ringup beside Gloo: operations and training steps.
# SPDX-License-Identifier: Apache-2.0
"""Both are groups of the same processes and take turns, so that they meet the same machine:

    torchrun --nproc-per-node 2 tests/peers/process_groups.py --rounds 5

prints a line for each size of an all_reduce, with the medians in microseconds and their ratio, and
for each model the median step with DDP and with FSDP2 over each, the step without communication,
and what the flight recorder takes of it.  Each rank has one thread.  ringup must be installed for
the Python, or be in PYTHONPATH.
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist

import models
import ringup_torch

SIZES = (4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20)
BACKENDS = ("gloo", "ringup")


def say(*words):
    if dist.get_rank() == 0:
        print(*words, flush=True)


def seconds_of(f, calls=1):
    """How long a call takes, on average; all ranks begin together."""
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(calls):
        f()
    return (time.perf_counter() - begun) / calls


def turns(functions, rounds, calls):
    """The median seconds of each function; they take turns."""
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, f in functions.items():
            times[name].append(seconds_of(f, calls))
    return {name: statistics.median(t) for name, t in times.items()}


def operations(groups, rounds):
    """all_reduce of every size, as a blocking call and waited for by its future."""
    for size in SIZES:
        t = torch.zeros(size // 4)
        calls = max(1, min(500, (8 << 20) // size))
        for how in ("blocking", "future"):
            def call(group, how=how):
                if how == "blocking":
                    dist.all_reduce(t, group=group)
                else:
                    dist.all_reduce(t, group=group, async_op=True).get_future().wait()
            m = turns({n: (lambda g=g: call(g)) for n, g in groups.items()}, rounds, calls)
            say(f"all_reduce {size:>9} B {how:8} gloo {m['gloo'] * 1e6:9.1f} us  "
                f"ringup {m['ringup'] * 1e6:9.1f} us  ratio {m['ringup'] / m['gloo']:.2f}")


def step_of(model, batch, context=None):
    """A training step without an optimizer, which is the same for all."""
    def step():
        if context:
            with context():
                model(batch).float().pow(2).mean().backward()
        else:
            model(batch).float().pow(2).mean().backward()
    return step


def steps(groups, rounds):
    """Steps of DDP over each group, and without communication."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel as DDP

    for make in (models.resnet50, models.bert):
        functions = {}
        for name, group in groups.items():
            torch.manual_seed(0)
            model, batch = make(torch)
            ddp = DDP(model, process_group=group, gradient_as_bucket_view=True)
            functions[name] = step_of(ddp, batch)
            functions["without"] = step_of(ddp, batch, ddp.no_sync)
        share = report(f"{make.__name__} DDP  ", functions, rounds)
        functions = {"without": functions["without"]}
        for name, group in groups.items():
            torch.manual_seed(0)
            model, batch = make(torch)
            mesh = DeviceMesh.from_group(group, "cpu")
            fully_shard(model, mesh=mesh)
            functions[name] = step_of(model, batch)
        report(f"{make.__name__} FSDP2", functions, rounds)
        recording(share)


def report(what, functions, rounds):
    """Print the steps of both, and how much of them is communication; returns ringup's step."""
    m = turns(functions, rounds, 1)
    gloo, ringup = (max(m[b] - m["without"], 0) for b in BACKENDS)
    say(f"{what} step: gloo {m['gloo'] * 1e3:7.1f} ms, ringup {m['ringup'] * 1e3:7.1f} ms, without "
        f"{m['without'] * 1e3:7.1f} ms; communication {gloo / m['gloo']:.1%} and "
        f"{ringup / m['ringup']:.1%} of it, ratio {ringup / gloo if gloo else float('nan'):.2f}")
    return m["ringup"]


def recording(step, operations_of_a_step=40):
    """What the flight recorder takes of a step of so many operations; DDP has fewer."""
    from ringup_torch.recorder import Recorder

    recorder = Recorder(2000)
    group, ts = recorder.group([0], 1000), [torch.zeros(10)]
    each = turns({"": lambda: recorder.add(group, "all_reduce", ts, ts).end()}, 9, 1000)[""]
    share = each * operations_of_a_step / step
    say(f"flight recorder: {each * 1e6:.2f} us an operation, {share:.3%} of a step of "
        f"{operations_of_a_step} operations")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("operations", "steps"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    ringup_torch.register()
    dist.init_process_group("gloo")
    groups = {name: dist.new_group(backend=name) for name in BACKENDS}
    if args.only != "steps":
        operations(groups, args.rounds)
    if args.only != "operations":
        steps(groups, args.rounds)
    dist.destroy_process_group()


main()
