#!/usr/bin/env python3
# jax_digits_example.py - JAX on handwritten digits, on one rank or on many.
# SPDX-License-Identifier: Apache-2.0
"""Start it in one of these ways:

    python3 jax_digits_example.py
    ringup run -np 2 -- python3 jax_digits_example.py

The steps that make it distributed are numbered.  The data come with scikit-learn.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy
import optax
from sklearn.datasets import load_digits

import ringup
from ringup import jax as collectives

BATCH = 16


def logits_of(params, x):
    return jax.nn.relu(x @ params["w1"] + params["b1"]) @ params["w2"]


def loss_of(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits_of(params, x), y).mean()


def main():
    ap = argparse.ArgumentParser(description="Train on handwritten digits with JAX.")
    ap.add_argument("--steps", type=int, default=600)
    args = ap.parse_args()
    ringup.init()                                                                   # 1. join

    digits = load_digits()
    data, labels = (digits.data / 16).astype("float32"), digits.target
    test = numpy.arange(len(data)) % 5 == 0
    mine = slice(ringup.rank(), None, ringup.size())                                # 2. share
    x, y = data[~test][mine], labels[~test][mine]

    random = numpy.random.RandomState(ringup.rank())
    params = {"w1": jnp.asarray(random.normal(0, 0.1, (64, 64)), "float32"),
              "b1": jnp.zeros(64), "w2": jnp.asarray(random.normal(0, 0.1, (64, 10)), "float32")}
    params = collectives.broadcast_parameters(params)                               # 3. agree
    optimizer = optax.sgd(0.02 * ringup.size(), momentum=0.9)                       # 4. scale
    optimizer = collectives.distributed(optimizer)                                  # 5. wrap
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, x, y):
        updates, state = optimizer.update(jax.grad(loss_of)(params, x, y), state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(args.steps):
        chosen = random.randint(0, len(x), BATCH)
        params, state = step(params, state, x[chosen], y[chosen])
    accuracy = float((logits_of(params, data[test]).argmax(1) == labels[test]).mean())
    if ringup.rank() == 0:                                                          # 6. one prints
        print(f"ranks {ringup.size()}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
