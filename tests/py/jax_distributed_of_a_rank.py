# jax_distributed_of_a_rank.py - what test_jax.py starts: ringup.jax beside jax.distributed.
# SPDX-License-Identifier: Apache-2.0
"""Argument: the port of JAX's coordinator."""

import json
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import ringup  # noqa: E402
from ringup import jax as rj  # noqa: E402


def main():
    ringup.init()
    rank = ringup.rank()
    jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", ringup.size(), rank)
    got = jax.jit(lambda x: rj.allreduce(x, rj.SUM, "x"))(jnp.ones(2) * (rank + 1))
    with open(os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"rank.{rank}"), "w",
              encoding="utf-8") as f:
        json.dump([float(x) for x in got], f)
    ringup.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
