# child_of_a_rank.py - a rank that multiprocessing starts, and that ends as the arguments say.
# SPDX-License-Identifier: Apache-2.0
"""child_of_a_rank.py METHOD END: the child of rank 1 ends so after the first sum, and the others
leave in rank.N the error that they get."""

import multiprocessing
import os
import sys

import numpy as np

import ringup


def end(how):
    if how == "raise":
        raise ValueError("a bad batch")
    if how == "exit":
        try:
            raise ValueError("a bad batch")
        except ValueError:
            sys.exit(4)


def rank(how):
    ringup.init()
    me, told = ringup.rank(), ""
    try:
        ringup.allreduce(np.ones(2, dtype=np.float32))
        if me == 1:
            return end(how)
        ringup.allreduce(np.ones(2, dtype=np.float32))
    except ringup.RingupError as e:
        told = f"{type(e).__name__}: {e}"
    with open(os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"rank.{me}"), "w",
              encoding="utf-8") as f:
        f.write(told)


if __name__ == "__main__":
    child = multiprocessing.get_context(sys.argv[1]).Process(target=rank, args=(sys.argv[2],))
    child.start()
    child.join()
