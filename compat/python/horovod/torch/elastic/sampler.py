# sampler.py - distribute a dataset across ranks, and the remaining samples after each rendezvous.
# SPDX-License-Identifier: Apache-2.0

import itertools
import random

import torch.utils.data

from horovod.torch.mpi_ops import rank, size


class ElasticSampler(torch.utils.data.Sampler):
    """Like torch's DistributedSampler, but records which samples of an epoch have been processed.

    Make it part of a TorchState, call record_batch() after each batch, and call set_epoch() at the
    end of each epoch.  If you call set_epoch() at the beginning, part of an epoch may be repeated.
    Every rank gets the same number of samples, so some are processed twice if the dataset does not
    divide evenly.

    The length of the dataset must not change; the seed must be the same on all ranks."""

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = self.processed_num = 0
        self.processed_indices = set()
        self.indices = []
        self.reset()

    def set_epoch(self, epoch):
        """Start another epoch, with no sample processed and in another order."""
        self.epoch = epoch
        self.processed_num, self.processed_indices = 0, set()
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """Mark a batch of batch_size samples on every rank as processed."""
        self.processed_num += batch_size * self.num_replicas

    def record_indices(self, indices):
        """Mark these samples of this rank as processed.  Use this instead of record_batch() if the
        program does not work in batches."""
        self.processed_indices.update(indices)

    def get_indices(self, batch_idx, batch_size):
        """Return the samples of this rank's batch_idx-th batch of the current iteration."""
        return self.indices[batch_idx * batch_size:(batch_idx + 1) * batch_size]

    def state_dict(self):
        """Return the state for load_state_dict()."""
        return {"epoch": self.epoch, "processed_num": self.processed_num,
                "processed_indices": set(self.processed_indices)}

    def load_state_dict(self, state_dict):
        """Continue from a state, on the current ranks."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.processed_indices = set(state_dict.get("processed_indices", ()))
        self.reset()

    def reset(self):
        """Distribute the unprocessed samples over the current ranks."""
        self.num_replicas, self.rank = size(), rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = [i for i in order[self.processed_num:]
                                  if i not in self.processed_indices]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        # The last round is filled up from the front.
        dealt = itertools.islice(itertools.cycle(self.remaining_indices), self.total_size)
        self.indices = list(itertools.islice(dealt, self.rank, None, self.num_replicas))
        return iter(self.indices)

    def __len__(self):
        return self.num_samples
