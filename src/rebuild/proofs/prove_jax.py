# prove_jax.py - two ranks train with JAX on different data: are their weights averaged?
# SPDX-License-Identifier: Apache-2.0
import os

# Two ranks would fight for the memory of one GPU, and data go through host memory anyway.
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import ringup  # noqa: E402
from ringup import jax as rj  # noqa: E402

import prove  # noqa: E402

RATE = 0.1


def start(seed):
    one, two = jax.random.split(jax.random.key(seed))
    return {"hidden": (jax.random.normal(one, (prove.INPUTS, 4)), jnp.zeros(4)),
            "out": (jax.random.normal(two, (4, 1)), jnp.zeros(1))}


def loss_of(weights, x, y):
    w, b = weights["hidden"]
    v, c = weights["out"]
    return jnp.mean(jnp.square(jnp.tanh(x @ w + b) @ v + c - y))


def train(weights, ranks, combine):
    """Steps on the mean of the losses of @ranks, in one compiled program."""
    data = [tuple(jnp.asarray(part, jnp.float32) for part in prove.data(rank)) for rank in ranks]

    @jax.jit
    def step(weights):
        grads = jax.grad(lambda w: sum(loss_of(w, x, y) for x, y in data) / len(data))(weights)
        return jax.tree.map(lambda w, g: w - RATE * g, weights, combine(grads))

    for _ in range(prove.STEPS):
        weights = step(weights)
    return [float(v) for w in jax.tree.leaves(weights) for v in w.reshape(-1)]


ringup.init()
rank, size = ringup.rank(), ringup.size()
mine = rj.broadcast_parameters(start(rank + 1))  # another start on each rank before that
prove.tell(rank, size, train(mine, [rank], rj.allreduce_gradients),
           train(start(1), range(size), lambda grads: grads),
           train(start(1), [rank], lambda grads: grads), version=jax.__version__)
ringup.shutdown()
