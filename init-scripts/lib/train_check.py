#!/usr/bin/env python3
# train_check.py - check that ranks that train together end with the same, correct weights.
# SPDX-License-Identifier: Apache-2.0
"""Run this under `ringup run -np N`.  Each rank trains a small model on different data, with torch
and horovod.torch if this Python has them, otherwise in plain Python.  Then

  - the weights must be the same, bit for bit, on all ranks;
  - they must differ from those of each rank that trains alone, or nothing was averaged;
  - they must equal those of one process that averages all ranks' gradients itself.

Rank 0 prints one JSON object.  If a condition does not hold, a rank prints a sentence and exits
with status 1.
"""

import array
import ctypes
import json
import math
import random
import sys
import time

STEPS = 20


class Plain:
    """Least squares behind a tanh, with nothing but Python; one rank at a time."""

    name = "plain Python"

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    @staticmethod
    def data(rank):
        r = random.Random(100 + rank)
        x = [[r.gauss(0, 1) for _ in range(8)] for _ in range(16)]
        return x, [math.tanh(sum(row) / 2 + r.gauss(0, 0.1)) for row in x]

    def start(self):
        import ringup
        r = random.Random(self.rank)  # differs by rank, so that the broadcast matters
        w = array.array("d", (r.gauss(0, 0.3) for _ in range(9)))
        return ringup.broadcast(w, root=0)

    @staticmethod
    def gradient(w, data):
        x, y = data
        g, loss = array.array("d", bytes(72)), 0.0
        for row, want in zip(x, y):
            out = math.tanh(w[8] + sum(a * b for a, b in zip(w, row)))
            loss += (out - want) ** 2 / len(x)
            slope = 2 * (out - want) * (1 - out * out) / len(x)
            for i, a in enumerate(row):
                g[i] += slope * a
            g[8] += slope
        return g, loss

    def train(self, start, mean):
        """Train for STEPS steps; mean(w) returns the gradient to apply and a loss."""
        w, losses = array.array("d", start), []
        for _ in range(STEPS):
            g, loss = mean(w)
            losses.append(loss)
            for i in range(9):
                w[i] -= 0.2 * g[i]
        return w, losses

    def together(self, start):
        import ringup
        mine = self.data(self.rank)

        def mean(w):
            g, loss = self.gradient(w, mine)
            return ringup.allreduce(g, ringup.AVERAGE, "gradient"), loss
        return self.train(start, mean)

    def alone(self, start):
        mine = self.data(self.rank)
        return self.train(start, lambda w: self.gradient(w, mine))[0]

    def expected(self, start):
        all_data = [self.data(r) for r in range(self.size)]

        def mean(w):
            parts = [self.gradient(w, d)[0] for d in all_data]
            return [sum(column) / self.size for column in zip(*parts)], 0.0
        return self.train(start, mean)[0]

    @staticmethod
    def numbers(w):
        return list(w)

    @staticmethod
    def bits(w):
        return w.tobytes()


class Torch:
    """A small network, torch's own SGD and horovod.torch around it."""

    def __init__(self, rank, size):
        import torch
        self.torch, self.rank, self.size = torch, rank, size
        self.name = f"torch {torch.__version__}"
        torch.set_num_threads(1)

    def data(self, rank):
        g = self.torch.Generator().manual_seed(100 + rank)
        x = self.torch.randn(32, 8, generator=g)
        return x, self.torch.tanh(x.sum(1, keepdim=True) / 2)

    def model(self, weights=None):
        t = self.torch
        t.manual_seed(self.rank)  # differs by rank, so that the broadcast matters
        m = t.nn.Sequential(t.nn.Linear(8, 16), t.nn.Tanh(), t.nn.Linear(16, 1))
        if weights is not None:
            t.nn.utils.vector_to_parameters(weights.clone(), m.parameters())
        return m, t.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)

    def weights(self, model):
        return self.torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()

    def start(self):
        import horovod.torch as hvd
        model = self.model()[0]
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return self.weights(model)

    def train(self, model, optimizer, batches):
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = 0
            for x, y in batches:
                loss = loss + self.torch.nn.functional.mse_loss(model(x), y) / len(batches)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return self.weights(model), losses

    def together(self, start):
        import horovod.torch as hvd
        model, optimizer = self.model(start)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        return self.train(model, optimizer, [self.data(self.rank)])

    def alone(self, start):
        return self.train(*self.model(start), [self.data(self.rank)])[0]

    def expected(self, start):
        return self.train(*self.model(start), [self.data(r) for r in range(self.size)])[0]

    @staticmethod
    def numbers(w):
        return w.tolist()

    @staticmethod
    def bits(w):
        return ctypes.string_at(w.data_ptr(), w.numel() * w.element_size())


def choose():
    """Return Torch if torch and horovod.torch can be imported, otherwise Plain.  --plain selects
    Plain, and with --torch a failed import is an error."""
    if "--plain" in sys.argv:
        return Plain
    try:
        import horovod.torch  # noqa: F401
        import torch  # noqa: F401
        return Torch
    except ImportError:
        if "--torch" in sys.argv:
            raise
        return Plain


def main():
    import ringup

    ringup.init()
    rank, size = ringup.rank(), ringup.size()
    trainer = choose()(rank, size)
    start = trainer.start()
    begin = time.perf_counter()
    w, losses = trainer.together(start)
    took = time.perf_counter() - begin
    everybody = ringup.allgather(trainer.bits(w), "weights")
    alone = ringup.allgather(trainer.bits(trainer.alone(start)), "alone")
    far = max(abs(a - b) for a, b in zip(trainer.numbers(w), trainer.numbers(trainer.expected(start))))
    wrong = []
    if len(everybody) != size or len(set(everybody)) != 1:
        wrong.append(f"the ranks hold {len(set(everybody))} different sets of weights")
    if size > 1 and len(set(alone)) != size:
        wrong.append("ranks that train alone got the same weights: they did not use different data")
    if size > 1 and everybody[rank] in alone:
        wrong.append("training together gave the same weights as training alone: nothing was averaged")
    if not far < 1e-4:
        wrong.append(f"the weights differ by {far:.3g} from those of averaged gradients")
    if not losses[-1] < losses[0]:
        wrong.append(f"the loss did not fall: {losses[0]:.4g} to {losses[-1]:.4g}")
    ringup.barrier()
    ringup.shutdown()
    if wrong:
        sys.exit(f"rank {rank}: " + "; ".join(wrong))
    if rank == 0:
        print(json.dumps({"framework": trainer.name, "ranks": size, "steps": STEPS,
                          "step_ms": round(took * 1000 / STEPS, 3),
                          "loss_first": round(losses[0], 6), "loss_last": round(losses[-1], 6),
                          "off_by": far, "agreed": True}))


if __name__ == "__main__":
    main()
