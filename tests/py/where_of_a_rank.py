# where_of_a_rank.py - what test_jobs.py starts: each rank says where it is.
# SPDX-License-Identifier: Apache-2.0

import json
import os

import torch

import horovod.torch as hvd

hvd.init()
total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum).item()
path = os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"rank.{hvd.rank()}")
with open(path, "w", encoding="utf-8") as f:
    json.dump([hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(),
               hvd.cross_size(), total], f)
