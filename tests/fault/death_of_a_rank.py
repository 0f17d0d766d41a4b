# death_of_a_rank.py - what deaths.py starts: a rank that sums, by the binding named, until it is killed.
# SPDX-License-Identifier: Apache-2.0
"""Usage: death_of_a_rank.py BINDING.  Says "ready RANK PID" once, and "error RANK TEXT" at its end."""

import os
import sys


def horovod_torch():
    import torch
    import horovod.torch as hvd
    hvd.init()
    return hvd.rank(), lambda: hvd.allreduce(torch.ones(1000), name="x")


def torch_distributed():
    import torch
    import torch.distributed as dist
    import ringup_torch
    ringup_torch.register()
    dist.init_process_group("ringup")
    x = torch.ones(1000)
    return dist.get_rank(), lambda: dist.all_reduce(x)


def tensorflow():
    import tensorflow as tf
    import horovod.tensorflow as hvd
    hvd.init()
    return hvd.rank(), lambda: hvd.allreduce(tf.ones(1000), op=hvd.Sum, name="x")


def jax():
    import jax as j
    import jax.numpy as jnp
    import numpy
    import ringup
    from ringup import jax as rj
    ringup.init()
    step = j.jit(lambda x: rj.allreduce(x, rj.SUM, "x"))
    return ringup.rank(), lambda: numpy.asarray(step(jnp.ones(1000)))


def run(binding):
    rank, step = globals()[binding]()
    step()
    # In one write(2): print() makes two, and lines of several ranks would mix.
    os.write(1, f"ready {rank} {os.getpid()}\n".encode())
    try:
        while True:
            step()
    except Exception as e:
        text = " ".join(str(e).split())
        os.write(1, f"error {rank} {text}\n".encode())
        raise


if __name__ == "__main__":
    run(sys.argv[1])
