# end_of_a_rank.py - what test_jobs.py starts: rank 1 ends somehow, the others say what they see.
# SPDX-License-Identifier: Apache-2.0
"""Usage: end_of_a_rank.py kill|raise|exit|abort"""

import json
import os
import signal
import sys

import torch

import horovod.torch as hvd


def end(way):
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "raise":
        raise KeyError("no such column")
    if way == "exit":
        sys.exit(0)
    import ringup
    ringup.abort("the loss is NaN")


def main():
    hvd.init()
    tensor = torch.full((1 << 16,), 3.0)
    try:
        for step in range(5):
            hvd.allreduce(torch.ones(100), name="before")
        if hvd.rank() == 1:
            end(sys.argv[1])
        for step in range(1000):
            hvd.allreduce(tensor, name="after")
    except hvd.HorovodInternalError as e:
        path = os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"rank.{hvd.rank()}")
        with open(path, "w", encoding="utf-8") as f:
            json.dump([type(e.__cause__).__name__, str(e), tensor.eq(3).all().item()], f)


if __name__ == "__main__":
    main()
