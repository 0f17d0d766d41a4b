#!/usr/bin/env python3
# process_groups.py - process groups of torch on ringup beside Gloo: operations and training steps.
# SPDX-License-Identifier: Apache-2.0
"""Both are groups of the same processes and take turns, so that they meet the same machine:

    torchrun --nproc-per-node 2 tests/peers/process_groups.py --minutes 5 --json FILE

prints a table of medians and their ratios: an all_reduce of several sizes, blocking and waited for
by its future; a message from rank 0 to rank 1 (half of the way there and back); for each model the
step with DDP and with FSDP2 over each, how much of it is communication, and how much the flight
recorder; and what the entry point adds to `import torch`.  Each rank has one thread.  A measurement
ends when its share of the minutes is over, but has three rounds at least.  ringup must be installed
for the Python, or be in PYTHONPATH.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist

import models
import ringup_torch

SIZES = (4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20)
MESSAGES = (4, 64 << 10, 1 << 20, 64 << 20)
BACKENDS = ("gloo", "ringup")
NOTHING = "nothing"  # torch's back end "fake", which moves nothing: the limit of every other one
LEAST = 3  # rounds
SHARE_OF_OPERATION, SHARE_OF_STEPS = 1 / 40, 1 / 8  # of the minutes: 16 operations, 4 of steps
ENTRY_POINT = """
import time, torch
begun = time.perf_counter()
import ringup_torch
ringup_torch.register()
print(time.perf_counter() - begun)
"""


def seconds_of(f, calls=1):
    """How long a call takes, on average; all ranks begin together."""
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(calls):
        f()
    return (time.perf_counter() - begun) / calls


def is_time_over(end):
    """Is it, for rank 0?  The same answer on all ranks."""
    over = torch.tensor([int(time.monotonic() >= end)])
    dist.broadcast(over, 0)
    return bool(over)


class Bench:
    """Measures, and keeps a row for each result."""

    def __init__(self, minutes, rounds):
        self.seconds, self.rounds, self.rows = minutes * 60, rounds, []

    def turns(self, functions, calls, share):
        """The median seconds of each function; they take turns, and begin in turn."""
        names, times = list(functions), {name: [] for name in functions}
        for f in functions.values():
            seconds_of(f)
        end = time.monotonic() + self.seconds * share
        for r in range(self.rounds):
            if r >= LEAST and is_time_over(end):
                break
            for i in range(len(names)):
                name = names[(i + r) % len(names)]
                times[name].append(seconds_of(functions[name], calls))
        return {name: statistics.median(t) for name, t in times.items()}

    def add(self, what, m, **more):
        """Keep a row of medians in seconds."""
        row = {"what": what, **m, **more}
        if all(b in m for b in BACKENDS):
            row["ratio"] = m["ringup"] / m["gloo"]
        self.rows.append(row)
        if dist.get_rank() == 0:
            print(line_of(row), file=sys.stderr, flush=True)


def all_reduce(t, group, by_future):
    """One of them, waited for."""
    if by_future:
        dist.all_reduce(t, group=group, async_op=True).get_future().wait()
    else:
        dist.all_reduce(t, group=group)


def there_and_back(t, group):
    """Rank 0 sends to rank 1, which sends it back."""
    for sender in (0, 1):
        if dist.get_rank() == sender:
            dist.send(t, 1 - sender, group=group)
        elif dist.get_rank() == 1 - sender:
            dist.recv(t, sender, group=group)


def operations(bench, groups):
    """Reductions and messages of every size."""
    for size in SIZES:
        t, calls = torch.zeros(size // 4), max(1, min(500, (8 << 20) // size))
        for by_future in (False, True):
            m = bench.turns({n: lambda g=g, f=by_future, t=t: all_reduce(t, g, f)
                             for n, g in groups.items()}, calls, SHARE_OF_OPERATION)
            bench.add(f"all_reduce {size} B" + ", future" * by_future, m)
    for size in MESSAGES:
        t, calls = torch.zeros(size // 4), max(1, min(500, (8 << 20) // size))
        m = bench.turns({n: lambda g=g, t=t: there_and_back(t, g) for n, g in groups.items()},
                        calls, SHARE_OF_OPERATION)
        bench.add(f"send and recv {size} B", {name: s / 2 for name, s in m.items()})


def step_of(model, batch, context=None):
    """A training step without an optimizer, which is the same for all."""
    def step():
        if context:
            with context():
                model(batch).float().pow(2).mean().backward()
        else:
            model(batch).float().pow(2).mean().backward()
    return step


def steps(bench, groups):
    """Steps of DDP and of FSDP2 over each group, and without communication; those of FSDP2 also
    over a group that moves nothing, for it copies parameters over any."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.testing._internal.distributed import fake_pg  # noqa: F401  registers "fake"

    nothing = {NOTHING: dist.new_group(backend="fake")}
    for make in (models.resnet50, models.bert):
        functions = {}
        for name, group in groups.items():
            torch.manual_seed(0)
            model, batch = make(torch)
            ddp = DDP(model, process_group=group, gradient_as_bucket_view=True)
            functions[name] = step_of(ddp, batch)
            functions["without"] = step_of(ddp, batch, ddp.no_sync)
        step = measure_steps(bench, f"{make.__name__} DDP step", functions)
        functions = {"without": functions["without"]}
        for name, group in {**groups, **nothing}.items():
            torch.manual_seed(0)
            model, batch = make(torch)
            fully_shard(model, mesh=DeviceMesh.from_group(group, "cpu"))
            functions[name] = step_of(model, batch)
        measure_steps(bench, f"{make.__name__} FSDP2 step", functions)
        recording(bench, make.__name__, step)


def measure_steps(bench, what, functions):
    """Measure steps, and how much of them is communication; returns ringup's step."""
    m = bench.turns(functions, 1, SHARE_OF_STEPS)
    bench.add(what, m)
    spent = {b: max(m[b] - m["without"], 0) for b in BACKENDS}
    if spent["gloo"]:
        bench.add(what.replace("step", "communication"), spent,
                  share={b: spent[b] / m[b] for b in BACKENDS})
    return m["ringup"]


def recording(bench, model, step, operations_of_a_step=40):
    """What the flight recorder takes of a step of so many operations; DDP has fewer.

    That is what is kept in Python, and what the library records of an operation: jobs of one rank
    have it done with and without."""
    from ringup import constants, job, operation
    from ringup_torch.recorder import Recorder

    plain, kept, recorder = job.open_job(0, 1), job.open_job(0, 1), Recorder(2000)
    group, ts = recorder.group([0], 1000, job=kept), [torch.zeros(10)]
    at, what = ts[0].data_ptr(), operation.Reduction(None, 10, constants.F32, constants.SUM)
    m = bench.turns({"python": lambda: recorder.add(group, "all_reduce", ts, ts).end(),
                     "plain": lambda: what.carry_out(at, at, plain.world, ts),
                     "kept": lambda: what.carry_out(at, at, kept.world, ts)}, 1000, 0)
    each = m["python"] + max(m["kept"] - m["plain"], 0)
    plain.close()
    kept.close()
    bench.add(f"flight recorder, an operation ({model})", {"ringup": each},
              share={"ringup": each * operations_of_a_step / step})


def entry_point(bench, runs=5):
    """What the entry point adds to `import torch`, which looks for it in any case."""
    took = [0.0]
    if dist.get_rank() == 0:
        env = dict(os.environ, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        took = [float(subprocess.run([sys.executable, "-c", ENTRY_POINT], env=env, check=True,
                                     stdout=subprocess.PIPE, text=True).stdout)
                for _ in range(runs)]
    dist.barrier()
    bench.add("entry point, import torch", {"ringup": statistics.median(took)})


def line_of(row):
    """A row of the table; times in microseconds."""
    cells = [f"{row[b] * 1e6:,.1f}" if b in row else "" for b in (*BACKENDS, NOTHING, "without")]
    cells.append(f"{row['ratio']:.2f}" if "ratio" in row else "")
    cells.append(", ".join(f"{b} {s:.3%}" for b, s in row.get("share", {}).items()))
    return f"| {row['what']} | " + " | ".join(cells) + " |"


def report(bench, path):
    """Print the table, and write it to a file, too."""
    print("| what | Gloo us | ringup us | nothing us | without us | ratio | share of the step |\n"
          "|---|--:|--:|--:|--:|--:|---|")
    print("\n".join(map(line_of, bench.rows)), flush=True)
    if path:
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"torch": torch.__version__, "ranks": dist.get_world_size(),
                       "processors": os.cpu_count(), "load": os.getloadavg(),
                       "seconds": bench.rows}, f, indent=1)
            f.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=25, help="at most, of a measurement")
    parser.add_argument("--only", choices=("operations", "steps", "import"))
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    torch.set_num_threads(1)
    ringup_torch.register()
    dist.init_process_group("gloo")
    groups, bench = {name: dist.new_group(backend=name) for name in BACKENDS}, Bench(
        args.minutes, args.rounds)
    for name, part in (("import", lambda: entry_point(bench)),
                       ("operations", lambda: operations(bench, groups)),
                       ("steps", lambda: steps(bench, groups))):
        if args.only in (None, name):
            part()
    if dist.get_rank() == 0:
        report(bench, args.json)
    dist.destroy_process_group()


main()
