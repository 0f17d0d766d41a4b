#!/usr/bin/env python3
# digits.py - train on handwritten digits, on one rank or on many.
# SPDX-License-Identifier: Apache-2.0
"""Start it in any of these ways:

    python3 digits.py
    ringup run -np 4 -- python3 digits.py
    mpirun -np 4 python3 digits.py
    torchrun --nproc-per-node 4 digits.py
    python3 -m torch.distributed.launch --nproc-per-node 4 digits.py

The last command is older than torchrun.  It starts one rank if you give no number, and adds
--local-rank=N to the arguments of each rank.

The steps that make it distributed are numbered.  The data come with scikit-learn.
"""

import argparse
import hashlib
import os
import sys

try:
    import torch
    from sklearn.datasets import load_digits
except ImportError as e:
    sys.exit(f"digits.py: {e}; install it with `{sys.executable} -m pip install "
             f"{'scikit-learn' if 'sklearn' in str(e) else 'torch'}`")
import horovod.torch as hvd
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def data():
    """1797 images of 8 x 8 pixels: every fifth for testing, the others for training."""
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)
    test = torch.arange(len(x)) % 5 == 0
    return TensorDataset(x[~test], y[~test]), x[test], y[test]


def save(path, model, optimizer, epoch):
    """Write a checkpoint; after a crash, the file is either complete or missing."""
    part = f"{path}.{os.getpid()}"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "epoch": epoch}, part)
    os.replace(part, path)


def accuracy(model, x, y):
    """Return the fraction of images that the model classifies correctly."""
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def check_equal(model):
    """End the job if the ranks' parameters differ in a single bit."""
    h = hashlib.sha256()
    for p in model.parameters():
        h.update(p.detach().numpy().tobytes())
    everybody = hvd.allgather(torch.frombuffer(bytearray(h.digest()), dtype=torch.uint8)[None])
    if (everybody != everybody[0]).any():
        raise SystemExit("digits.py: the ranks' parameters differ")


def main():
    ap = argparse.ArgumentParser(description="Train on handwritten digits.")
    ap.add_argument("--epochs", type=int, default=15)
    ap.add_argument("--batch", type=int, default=16, help="images per rank and step")
    ap.add_argument("--lr", type=float, default=0.02, help="learning rate of one rank")
    ap.add_argument("--checkpoint", metavar="FILE", help="resume from this file, and write to it")
    ap.add_argument("--check", action="store_true", help="compare the ranks after each step")
    ap.add_argument("--local-rank", "--local_rank", type=int, metavar="N",  # torch 1's spelling
                    help="added by torch.distributed.launch; the same as hvd.local_rank()")
    args = ap.parse_args()

    hvd.init()                                                                      # 1. join
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // hvd.local_size()))
    torch.manual_seed(7)

    train, test_x, test_y = data()
    sampler = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())   # 2. share
    loader = DataLoader(train, batch_size=args.batch, sampler=sampler)

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(),        # 3. scale
                                momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer,                                 # 4. wrap
                                         named_parameters=model.named_parameters())
    start = 0
    if args.checkpoint and hvd.rank() == 0 and os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)                       # 5. agree
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    start = hvd.broadcast_object(start, root_rank=0)

    for epoch in range(start, args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if args.check:
                check_equal(model)
        loss = hvd.allreduce(loss.detach(), name="loss")                            # 6. average
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}, "
                  f"accuracy {accuracy(model, test_x, test_y):.4f}")
            if args.checkpoint:
                save(args.checkpoint, model, optimizer, epoch)                      # 7. one writes
    if hvd.rank() == 0:
        print(f"ranks {hvd.size()}, accuracy {accuracy(model, test_x, test_y):.4f}"
              + ", parameters equal" * args.check)


if __name__ == "__main__":
    main()
