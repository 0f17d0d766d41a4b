#!/usr/bin/env python3
# train_horovod_example.py - the recipe of Horovod's tutorials: PyTorch training on many ranks.
# SPDX-License-Identifier: Apache-2.0
"""Start it in any of these ways:

    mpirun -np 4 python train_horovod_example.py
    horovodrun -np 4 python train_horovod_example.py
    ringup run -np 4 -- python train_horovod_example.py
    python -m torch.distributed.launch --nproc_per_node 4 train_horovod_example.py
    torchrun --nproc-per-node 4 train_horovod_example.py

Each step of the recipe has one comment.  The data are synthetic: 64 numbers, and the one of 4
hidden patterns that is strongest.
"""

import argparse
import os

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser(description="Train a classifier on all ranks.")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=32, help="samples per rank and step")
parser.add_argument("--lr", type=float, default=0.01, help="learning rate of one rank")
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--checkpoint-dir", default=".", help="where rank 0 writes checkpoints")
parser.add_argument("--local-rank", "--local_rank", type=int,
                    help="added by torch.distributed.launch; not used here")
args = parser.parse_args()


def make_data(n, seed):
    patterns = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    x = torch.randn(n, 64, generator=torch.Generator().manual_seed(seed))
    return x, (x @ patterns).argmax(1)


def checkpoint_path(epoch):
    return os.path.join(args.checkpoint_dir, f"checkpoint-{epoch}.pt")


# Initialize Horovod.
hvd.init()

# Use one GPU per process.
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# Partition the dataset among workers using DistributedSampler.
train_dataset = TensorDataset(*make_data(2048, seed=1))
train_sampler = DistributedSampler(train_dataset, num_replicas=hvd.size(), rank=hvd.rank())
train_loader = DataLoader(train_dataset, batch_size=args.batch_size, sampler=train_sampler)

model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)

# Scale the learning rate by the number of workers: a step uses one batch per worker.
optimizer = optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=args.momentum)

# Wrap the optimizer: gradients are averaged over all workers before each step.
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

# Continue from the last checkpoint, which only rank 0 reads.
first_epoch = 0
if hvd.rank() == 0:
    while os.path.exists(checkpoint_path(first_epoch)):
        first_epoch += 1
    if first_epoch > 0:
        saved = torch.load(checkpoint_path(first_epoch - 1), map_location=device)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])

# Every worker starts from rank 0's state.
first_epoch = hvd.broadcast(torch.tensor(first_epoch), root_rank=0, name="first_epoch").item()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

for epoch in range(first_epoch, args.epochs):
    model.train()
    train_sampler.set_epoch(epoch)
    for data, target in train_loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data.to(device)), target.to(device))
        loss.backward()
        optimizer.step()

    # Validate and write checkpoints on one worker only, so that no other overwrites them.
    if hvd.rank() == 0:
        model.eval()
        data, target = make_data(512, seed=2)
        with torch.no_grad():
            accuracy = (model(data.to(device)).argmax(1).cpu() == target).float().mean().item()
        print(f"epoch {epoch}: {hvd.size()} workers, accuracy {accuracy:.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                   checkpoint_path(epoch))

# A metric over all workers: how much their models differ.
norm = torch.stack([p.detach().double().norm().cpu() for p in model.parameters()])
spread = hvd.allreduce(norm, op=hvd.Max) - hvd.allreduce(norm, op=hvd.Min)
if hvd.rank() == 0:
    print(f"done: models differ by {spread.max().item():g}")
