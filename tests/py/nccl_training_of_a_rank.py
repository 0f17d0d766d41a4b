# nccl_training_of_a_rank.py - what test_nccl.py starts on every rank: a training on fake GPUs.
# SPDX-License-Identifier: Apache-2.0
"""A linear regression with momentum.  Weights and gradients are arrays in a GPU's memory, and the
ranks share out each batch.  At its end a rank has the weights of one process on whole batches,
which numpy alone computes; so it has if ranks were lost, and the others went on."""

import ctypes
import os
import signal
import sys

import numpy
from nccl_of_a_rank import WORLD, Array, basics, call, hvd, sit

import ringup
from horovod.common.elastic import ObjectState, meet_again, run_fn
from horovod.common.objects import broadcast_object
from horovod.common.semantics import Average, synchronize

STEPS, ROWS, RATE, MOMENTUM = 12, 24, numpy.float32(0.125), numpy.float32(0.5)
SHAPES = {"weight": (6, 3), "bias": (3,)}


def batch(step):
    """The rows of a step, and what is to be found for them."""
    rows = numpy.random.default_rng(step).standard_normal((ROWS, 6), "float32")
    return rows, rows @ numpy.arange(18, dtype="float32").reshape(6, 3) + numpy.float32(1)


def parameters(seed):
    """Those that one rank would begin with."""
    random = numpy.random.default_rng(seed)
    return {name: random.standard_normal(shape, "float32") for name, shape in SHAPES.items()}


def still():
    """The momentum of parameters that have not moved yet."""
    return {name: numpy.zeros(shape, "float32") for name, shape in SHAPES.items()}


def gradients(found, rows, wanted):
    """Of the mean square error, by parameter."""
    error = (rows @ found["weight"] + found["bias"] - wanted) / numpy.float32(len(rows))
    return {"weight": rows.T @ error, "bias": error.sum(axis=0)}


def improve(found, speed, slopes):
    """A step of gradient descent with momentum, in place."""
    for name, slope in slopes.items():
        speed[name] = MOMENTUM * speed[name] + slope
        found[name] -= RATE * speed[name]


def alone():
    """The weights of one process, on whole batches."""
    found, speed = parameters(0), still()
    for step in range(STEPS):
        improve(found, speed, gradients(found, *batch(step)))
    return found


class Model:
    """Parameters in the memory of this rank's GPU, and their optimizer."""

    def __init__(self, found, speed):
        self.on_gpu = {name: Array(value) for name, value in found.items()}
        self.speed = {name: value.copy() for name, value in speed.items()}

    def broadcast(self):
        """Begin with those of rank 0."""
        handles = [hvd.broadcast_async(a, a, 0, f"parameter.{name}", WORLD)
                   for name, a in self.on_gpu.items()]
        for h in handles:
            synchronize(h)

    def found(self):
        """The parameters, as numpy's arrays."""
        return {name: a.numpy() for name, a in self.on_gpu.items()}

    def step(self, number):
        """Average the gradients of the ranks' parts of a batch, and take a step."""
        rank, size, found = ringup.rank(), ringup.size(), self.found()
        mine = slice(ROWS // size * rank, ROWS // size * (rank + 1))
        slopes = {name: Array(slope) for name, slope in gradients(
            found, *(part[mine] for part in batch(number))).items()}
        # In the order in which they come back: that of the layers, reversed.
        handles = [hvd.allreduce_async(a, a, f"gradient.{name}", Average, 1.0, 1.0, WORLD)
                   for name, a in reversed(slopes.items())]
        for h in handles:
            synchronize(h)
        improve(found, self.speed, {name: a.numpy() for name, a in slopes.items()})
        for name, value in found.items():
            self.on_gpu[name].fill(value)


def check(model):
    """Every rank has the same bits, and the digits of one process; NCCL has carried them."""
    assert ctypes.CDLL("libnccl.so.2").fake_nccl_left() > 0, "no communicator of NCCL"
    expected, found = alone(), model.found()
    for name, value in found.items():
        assert numpy.allclose(value, expected[name], rtol=1e-4, atol=1e-5), (value, expected)
        bits = numpy.asarray(ringup.allgather(value.reshape(1, -1).view("int32")))
        assert len(bits) == ringup.size() and (bits == bits[0]).all(), bits
        assert not numpy.allclose(value, parameters(0)[name], atol=0.5), "nothing was learned"
    print(f"rank {ringup.rank()} of {ringup.size()} has the weights of one process", flush=True)


def train():
    """Every rank begins elsewhere, and takes all steps."""
    model = Model(parameters(ringup.rank()), still())
    model.broadcast()
    for step in range(STEPS):
        model.step(step)
    check(model)


def elastic(doomed):
    """The same, but a rank is killed in the middle of a step; the others go on."""
    def start(state):
        model = Model(state.found, state.speed)
        model.broadcast()
        while state.step < STEPS:
            if state.step == 5 and ringup.size() == state.size and ringup.rank() == doomed:
                os.kill(os.getpid(), signal.SIGKILL)
            model.step(state.step)
            state.found, state.speed = model.found(), model.speed
            state.step += 1
            state.commit()
        print(f"a job of {state.size} has ended with {ringup.size()}", flush=True)
        check(model)

    rank = ringup.rank()
    state = ObjectState(broadcast_object, basics.rank, step=0, size=ringup.size(),
                        found=parameters(rank), speed=still())
    run_fn(start, meet_again)(state)


if __name__ == "__main__":
    basics.init()
    local = basics.local_rank()
    sit(local)
    if len(sys.argv) > 1:
        elastic(int(sys.argv[1]))
    else:
        train()
    basics.shutdown()
    call("cuDevicePrimaryCtxRelease_v2", local)
