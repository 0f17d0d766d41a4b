#!/usr/bin/env python3
# ray_digits.py - Horovod jobs on Ray: one with a fixed number of ranks, then an elastic one.
# SPDX-License-Identifier: Apache-2.0
"""Start it with the Python that has ray, torch, scikit-learn and ringup:

    python3 ray_digits.py

It trains on handwritten digits, which come with scikit-learn, on two ranks of the Ray cluster that
RAY_ADDRESS names, or of one that it starts on this machine.
"""

import ray

from horovod.ray import RayExecutor


def train(lr=0.02, epochs=3):
    """Train; both jobs run this.  The second job continues after a rank is lost."""
    import horovod.torch as hvd
    import torch
    from horovod.ray import ray_logger
    from sklearn.datasets import load_digits

    hvd.init()
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    @hvd.elastic.run
    def loop(state):
        while state.epoch < epochs:
            mine = torch.arange(hvd.rank(), len(x) - len(x) % hvd.size(), hvd.size())
            for batch in mine.split(16):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch])
                loss.backward()
                optimizer.step()
            if hvd.rank() == 0:
                ray_logger.log({"epoch": state.epoch, "ranks": hvd.size(), "loss": loss.item()})
            state.epoch += 1
            state.commit()

    loop(hvd.elastic.TorchState(model, optimizer, epoch=0))
    with torch.no_grad():
        return round((model(x).argmax(1) == y).float().mean().item(), 4)


def main():
    ray.init()
    settings = RayExecutor.create_settings(timeout_s=60)

    executor = RayExecutor(settings, num_workers=2)
    executor.start()
    print("num_workers=2:", executor.run(train, kwargs={"lr": 0.02}, callbacks=[print]))
    executor.shutdown()

    executor = RayExecutor(settings, min_workers=1, max_workers=2)
    executor.start()
    print("min_workers=1:", executor.run(train, kwargs={"lr": 0.02}, callbacks=[print]))
    executor.shutdown()


if __name__ == "__main__":
    main()
