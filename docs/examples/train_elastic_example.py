#!/usr/bin/env python3
# train_elastic_example.py - elastic training as in Horovod's tutorials: ranks are lost and join.
# SPDX-License-Identifier: Apache-2.0
"""Start it with a script that prints the available hosts, one line such as host-1:4 for each:

    horovodrun -np 4 --min-np 2 --host-discovery-script ./hosts.sh python train_elastic_example.py

or on this host alone, where a rank that is killed is replaced:

    ringup run -np 4 --min-np 2 -- python train_elastic_example.py

Without a launcher, or under one that does not support elastic jobs, it trains as usual.  The data
are synthetic, as in train_horovod_example.py.
"""

import argparse

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description="Train a classifier on a changing number of ranks.")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=32, help="samples per rank and step")
parser.add_argument("--batches-per-commit", type=int, default=4)
parser.add_argument("--lr", type=float, default=0.01, help="learning rate of one rank")
args = parser.parse_args()


def make_data(n, seed):
    patterns = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    x = torch.randn(n, 64, generator=torch.Generator().manual_seed(seed))
    return x, (x @ patterns).argmax(1)


hvd.init()

model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

# The sampler distributes the rest of an epoch when the number of ranks has changed.
dataset = TensorDataset(*make_data(2048, seed=1))
sampler = hvd.elastic.ElasticSampler(dataset)
loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler)


def validate():
    data, target = make_data(512, seed=2)
    with torch.no_grad():
        return (model(data).argmax(1) == target).float().mean().item()


# Called again with the last commit if ranks were lost or hosts have changed.
@hvd.elastic.run
def train(state):
    while state.epoch < args.epochs:
        for batch, (data, target) in enumerate(loader):
            optimizer.zero_grad()
            F.cross_entropy(model(data), target).backward()
            optimizer.step()
            sampler.record_batch(batch, len(data))
            state.steps += 1
            if (batch + 1) % args.batches_per_commit == 0:
                state.commit()  # saves; if hosts have changed, starts a new rendezvous
        if hvd.rank() == 0:
            print(f"epoch {state.epoch}: {hvd.size()} workers, accuracy {validate():.3f}",
                  flush=True)
        state.epoch += 1
        sampler.set_epoch(state.epoch)  # at the end of the epoch: start a new one
        state.commit()


def on_state_reset():
    # The learning rate is proportional to the number of workers.
    for group in optimizer.param_groups:
        group["lr"] = args.lr * hvd.size()


state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, steps=0)
state.register_reset_callbacks([on_state_reset])
train(state)

if hvd.rank() == 0:
    print(f"done: {state.steps} steps")
