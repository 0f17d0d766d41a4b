# survive_of_a_rank.py - what test_elastic.py starts: a training that loses a rank and goes on.
# SPDX-License-Identifier: Apache-2.0
"""Nothing but this script decides who meets again: it replaces one of the two functions of the seam
in ringup.elastic.  Each meeting is a job of its own, of the ranks that are left.

Usage: survive_of_a_rank.py framework|torch
"""

import json
import os
import signal
import sys

from ringup import elastic, job

STEPS, LOST_AT = 6, 3
number, count = int(os.environ["RINGUP_RANK"]), int(os.environ["RINGUP_SIZE"])
name, generations = os.environ["RINGUP_JOB"], [0]


def meet():
    """The last rank has gone: the others meet without it."""
    generations[0] += 1
    job.shutdown()
    os.environ["RINGUP_SIZE"] = str(count - generations[0])
    os.environ["RINGUP_JOB"] = f"{name}.{generations[0]}"
    job.init()


def lose_the_last(state):
    """The last rank is killed in the middle of a step, once."""
    if state.step == LOST_AT and generations[0] == 0:
        state.step += 100  # what is not committed is taken back
        if number == count - 1:
            os.kill(os.getpid(), signal.SIGKILL)


def with_bytes():
    """Weights that are a buffer of integers."""
    import array

    import ringup

    def train(state):
        while state.step < STEPS:
            lose_the_last(state)
            gradient = array.array("q", [1 << state.step % 100] * 5)
            ringup.allreduce(gradient, name="gradient")
            state.weights = array.array("q", [a + b for a, b in zip(state.weights, gradient)])
            state.step += 1
            state.commit()
        return list(state.weights)

    state = elastic.ObjectState(weights=array.array("q", [1000 * number] * 5), step=0)
    return elastic.rerun(lambda: train(state), state, meet), state


def with_torch():
    """A model that is trained by gradient 1 << step on each rank, so its sum tells the ranks."""
    import torch

    import horovod.torch as hvd
    from horovod.common.elastic import run_fn

    os.environ["HOROVOD_ELASTIC"] = "1"
    model = torch.nn.Linear(5, 1, bias=False, dtype=torch.float64)
    model.weight.data.fill_(-1000.0 * number)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = hvd.DistributedOptimizer(optimizer, op=hvd.Sum,
                                         named_parameters=model.named_parameters())

    def train(state):
        while state.step < STEPS:
            optimizer.zero_grad()
            lose_the_last(state)
            x = torch.full((1, 5), float(1 << state.step % 100), dtype=torch.float64)
            model(x).sum().backward()
            optimizer.step()
            state.step += 1
            state.commit()
        return [int(-x) for x in model.weight.flatten().tolist()]

    state = hvd.elastic.TorchState(model, optimizer, step=0)
    return run_fn(train, meet)(state), state


def main():
    job.init()
    weights, state = with_torch() if sys.argv[1] == "torch" else with_bytes()
    path = os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"rank.{number}")
    with open(path, "w", encoding="utf-8") as f:
        json.dump([weights, state.step, job.rank(), job.size(), generations[0], os.getpid()], f)


if __name__ == "__main__":
    main()
