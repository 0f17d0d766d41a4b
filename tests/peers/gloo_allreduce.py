#!/usr/bin/env python3
# gloo_allreduce.py - torch's Gloo timed as ringup bench times: same samples, same lines of JSON.
# SPDX-License-Identifier: Apache-2.0
"""Arguments: sizes in bytes, multiples of 4.  Any launcher that sets env:// will do:

    ringup run -np 4 --no-prefix -- python3 gloo_allreduce.py 8 65536
"""

import json
import sys
import time

import torch
import torch.distributed as dist

# As in src/bench/measure.c.
SINGLE_BYTES, SAMPLE_US, MOST_CALLS = 256 << 10, 200, 1000
WARM_UP, LEAST_SAMPLES, MOST_SAMPLES, ALL_US = 5, 10, 200, 500000


def largest(mine):
    t = torch.tensor(mine, dtype=torch.float64)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return t


class Course:
    def __init__(self, size):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.places = torch.arange(size // 4)
        self.data = torch.empty(size // 4)
        self.iteration = self.wrong = 0

    def sample(self, calls):
        """Gloo reduces in place: what several calls add up to is not checked."""
        self.iteration += 1
        torch.remainder(self.places + self.rank + self.iteration, self.ranks, out=self.places)
        self.data.copy_(self.places)
        self.places = torch.arange(len(self.data))
        largest([0.0])
        begun = time.monotonic()
        for _ in range(calls):
            dist.all_reduce(self.data)
        us = (time.monotonic() - begun) * 1e6 / calls
        largest([0.0])
        if calls == 1:
            want = self.ranks * (self.ranks - 1) / 2
            self.wrong += int((self.data != want).sum())
        return us


def measure(size):
    course = Course(size)
    for _ in range(WARM_UP):
        last = course.sample(1)
    last = float(largest([last])[0])
    calls = 1
    if size < SINGLE_BYTES and last < SAMPLE_US:
        calls = min(MOST_CALLS, int(SAMPLE_US / last))
    samples = int(min(max(ALL_US / (last * calls), LEAST_SAMPLES), MOST_SAMPLES))
    us = sorted(largest([course.sample(calls) for _ in range(samples)]).tolist())
    wrong = torch.tensor([course.wrong])
    dist.all_reduce(wrong)
    if course.rank == 0:
        row = dict(collective="allreduce", dtype="f32", op="sum", bytes=size, ranks=course.ranks,
                   us=round(us[samples // 2], 3), min_us=round(us[0], 3),
                   max_us=round(us[-1], 3), samples=samples, wrong=int(wrong))
        print(json.dumps(row), flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="env://")
    for size in sys.argv[1:]:
        measure(int(size))
    dist.destroy_process_group()


main()
