# process_group_timeline_of_a_rank.py - process groups of all kinds, for a timeline to record.
# SPDX-License-Identifier: Apache-2.0

import json
import os

import torch
import torch.distributed as dist

import horovod.torch as hvd
import ringup_torch
from process_group_of_a_rank import begin, me

PAIRS = ((1, 2), (0, 2))  # groups whose first rank is another process each


def sums():
    """An operation in each of the groups, and a message in one."""
    t = torch.ones(3)
    dist.all_reduce(t)
    groups = [dist.new_group(pair) for pair in PAIRS]
    for pair, group in zip(PAIRS, groups):
        if me() in pair:
            dist.all_reduce(t, group=group)
    if me() == 1:
        dist.send(t, 2, groups[0], tag=7)
    if me() == 2:
        dist.recv(t, 1, groups[0], tag=7)
    dist.destroy_process_group(groups[0])
    dist.all_reduce(t)  # the file is not that of the group which has ended
    dist.destroy_process_group()


ringup_torch.register()
begin()
sums()
hvd.init()
hvd.allreduce(torch.ones(3), name="beside")
begin()
sums()
hvd.allreduce(torch.ones(3), name="later")
hvd.shutdown()
with open(os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"rank.{os.environ['RINGUP_RANK']}"),
          "w", encoding="utf-8") as f:
    json.dump("done", f)
