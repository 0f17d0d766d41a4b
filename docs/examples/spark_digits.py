#!/usr/bin/env python3
# spark_digits.py - from one process to HorovodRunner and to TorchDistributor, step by step.
# SPDX-License-Identifier: Apache-2.0
"""Start it with the Python that has pyspark, torch, scikit-learn and ringup:

    python3 spark_digits.py

or paste its parts into the cells of a notebook, which already has a session.  It trains on
handwritten digits, which come with scikit-learn: first in this process, then as a Horovod job of
one rank and of several on the driver, then in the task slots of a Spark cluster, and finally the
same model with torch.distributed.
"""

import os
import sys


# -- 1. One process ----------------------------------------------------------------------------

def make_model():
    """A model of 64 inputs and 10 classes.  Spark sends functions, so each imports torch itself."""
    import torch

    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def load_data():
    """(images, classes) to train with, and to test with."""
    import torch
    from sklearn.datasets import load_digits

    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    test = torch.arange(len(x)) % 5 == 0
    return (x[~test], y[~test]), (x[test], y[test])


def accuracy(model, data):
    """Return the fraction of images that the model classifies correctly."""
    import torch

    with torch.no_grad():
        return round((model(data[0]).argmax(1) == data[1]).float().mean().item(), 4)


def train_one_epoch(model, optimizer, loader):
    """Returns the loss of the last batch."""
    import torch

    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def train(lr=0.02, epochs=3):
    """Train in this process; returns the accuracy."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    train_data, test_data = load_data()
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    loader = DataLoader(TensorDataset(*train_data), batch_size=16, shuffle=True)
    for _ in range(epochs):
        train_one_epoch(model, optimizer, loader)
    return accuracy(model, test_data)


# -- 2. Horovod ----------------------------------------------------------------------------------

def train_hvd(lr=0.02, epochs=3, checkpoint_dir=None):
    """Train as a rank of a Horovod job; the steps that differ from train() are numbered."""
    import horovod.torch as hvd
    import torch
    from sparkdl.horovod import log_to_driver
    from torch.utils.data import DataLoader, TensorDataset
    from torch.utils.data.distributed import DistributedSampler

    hvd.init()                                                              # 1. join
    train_data, test_data = load_data()
    model = make_model()
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank())                             # 2. pin a GPU
    dataset = TensorDataset(*train_data)
    sampler = DistributedSampler(dataset, hvd.size(), hvd.rank())           # 3. share
    loader = DataLoader(dataset, batch_size=16, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr * hvd.size(),     # 4. scale
                                momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer,                         # 5. wrap
                                         named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)               # 6. agree
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        loss = train_one_epoch(model, optimizer, loader)
        if hvd.rank() == 0:                                                 # 7. one writes
            log_to_driver(f"epoch {epoch + 1} of {epochs}: loss {loss:.3f}")
            if checkpoint_dir:
                torch.save(model.state_dict(), f"{checkpoint_dir}/checkpoint-{epoch}.pt")
    return accuracy(model, test_data)


# -- 3. torch.distributed --------------------------------------------------------------------------

def train_ddp(lr=0.02, epochs=3, use_gpu=False):
    """Train as a rank of torch.distributed, for TorchDistributor."""
    import ringup_torch
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset
    from torch.utils.data.distributed import DistributedSampler

    # Use ringup on the CPU, and NCCL between GPUs.  TorchDistributor needs the name ringup.
    ringup_torch.register()                                 # torch 2.5 and later do this itself
    dist.init_process_group("nccl" if use_gpu else "ringup")
    train_data, test_data = load_data()
    device = int(os.environ["LOCAL_RANK"]) if use_gpu else "cpu"
    model = DistributedDataParallel(make_model().to(device))
    dataset = TensorDataset(*train_data)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=16, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr * dist.get_world_size(), momentum=0.9)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        train_one_epoch(model, optimizer, loader)
    value = accuracy(model.module, test_data)
    dist.destroy_process_group()
    return value


def main():
    # Before the session starts: make the executors use this Python, not one from PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession
    from ringup.spark import TorchDistributor
    from sparkdl import HorovodRunner

    SparkSession.builder.master(os.environ.get("SPARK_MASTER", "local[2]")).getOrCreate()
    print("one process:", train())
    print("HorovodRunner(np=-1):", HorovodRunner(np=-1).run(train_hvd, lr=0.02))
    print("HorovodRunner(np=-2):", HorovodRunner(np=-2).run(train_hvd, lr=0.02))
    print("HorovodRunner(np=2):", HorovodRunner(np=2).run(train_hvd, lr=0.02))
    distributor = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False)
    print("TorchDistributor:", distributor.run(train_ddp, 0.02, 3, False))


if __name__ == "__main__":
    main()
