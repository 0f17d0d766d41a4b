# ends_of_a_rank.py - a rank of torch.distributed that ends in a given way, for ends.bats.
# SPDX-License-Identifier: Apache-2.0
"""ends_of_a_rank.py RANK HOW: the ranks meet at torch's store, and rank RANK ends in the way HOW
during their work."""

import os
import signal
import sys

import torch
import torch.distributed as dist

import ringup_torch

WAYS = {
    "raise": lambda: [][1],
    "exit3": lambda: sys.exit(3),
    "_exit3": lambda: os._exit(3),
    "signal9": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "signal19": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "memory": lambda: bytearray(1 << 60),
}

ringup_torch.register()
culprit, how = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("ringup")
x = torch.ones(1000)
for i in range(1000000):
    if dist.get_rank() == culprit and i == 20:
        WAYS[how]()
    dist.all_reduce(x.clone())
