#!/usr/bin/env python3
# train_ddp_example.py - DistributedDataParallel with the back end "ringup", under any launcher.
# SPDX-License-Identifier: Apache-2.0
"""Start it in any of these ways:

    torchrun --nproc-per-node 4 train_ddp_example.py
    python -m torch.distributed.launch --nproc-per-node 4 train_ddp_example.py
    python train_ddp_example.py --spawn 4
    spark-submit train_ddp_example.py --spark 4

The last command uses pyspark's TorchDistributor, which needs a function that imports its modules
itself.  The data are synthetic: 64 numbers, and the one of 4 hidden patterns that is strongest.
"""

import argparse
import os

parser = argparse.ArgumentParser(description="Train a classifier on all ranks.")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--backend", default="ringup", help="backend of torch.distributed")
parser.add_argument("--spawn", type=int, default=0, help="start this many processes here")
parser.add_argument("--spark", type=int, default=0, help="start this many with TorchDistributor")
parser.add_argument("--local-rank", "--local_rank", type=int,
                    help="added by torch.distributed.launch; not used here")


def train(backend, epochs):
    """Train on this rank's share of the data.  Return the accuracy, the same on all ranks."""
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    def make_data(n, seed):
        patterns = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
        x = torch.randn(n, 64, generator=torch.Generator().manual_seed(seed))
        return TensorDataset(x, (x @ patterns).argmax(1))

    torch.set_num_threads(1)
    dist.init_process_group(backend)
    torch.manual_seed(dist.get_rank())  # DDP then copies rank 0's weights to all ranks
    model = DDP(torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(),
                                    torch.nn.Linear(32, 4)))
    dataset = make_data(2048, seed=1)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * dist.get_world_size(), momentum=0.9)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    x, y = make_data(1024, seed=2).tensors
    share = slice(dist.get_rank(), None, dist.get_world_size())
    right = (model(x[share]).argmax(1) == y[share]).sum()
    dist.all_reduce(right)
    accuracy = right.item() / len(y)
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks over {dist.get_backend()}, accuracy {accuracy:.3f}")
    dist.destroy_process_group()
    return accuracy


def train_as(rank, size, port, backend, epochs):
    """Run one of the processes that --spawn starts."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    train(backend, epochs)


def spawn(size, backend, epochs):
    """Start processes, which find each other through a port of this process."""
    import torch.multiprocessing as mp
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # serves them
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"  # so rank 0 does not serve one, too
    mp.spawn(train_as, (size, store.port, backend, epochs), nprocs=size)


def main():
    args = parser.parse_args()
    if args.spawn:
        spawn(args.spawn, args.backend, args.epochs)
    elif args.spark:
        from pyspark.ml.torch.distributor import TorchDistributor
        from pyspark.sql import SparkSession

        SparkSession.builder.master(f"local[{args.spark}]").getOrCreate()
        accuracy = TorchDistributor(num_processes=args.spark, local_mode=True, use_gpu=False).run(
            train, args.backend, args.epochs)
        print(f"the function returned {accuracy:.3f}")
    else:
        train(args.backend, args.epochs)


if __name__ == "__main__":
    main()
