#!/usr/bin/env python3
# tensorflow1_digits_example.py - digits with code written for TensorFlow 1.
# SPDX-License-Identifier: Apache-2.0
"""Sessions, hooks and compute_gradients(), with TensorFlow 2:

    ringup run -np 2 -- python3 tensorflow1_digits_example.py

The steps that make it distributed are numbered.  The data come with scikit-learn.
"""

import argparse

import numpy
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

import horovod.tensorflow as hvd

BATCH = 16


def batches(x, y, steps, seed):
    """Random batches of this rank's images."""
    random = numpy.random.RandomState(seed)
    for _ in range(steps):
        chosen = random.randint(0, len(x), BATCH)
        yield x[chosen], y[chosen]


def main():
    ap = argparse.ArgumentParser(description="Train on handwritten digits, as with TensorFlow 1.")
    ap.add_argument("--steps", type=int, default=600)
    args = ap.parse_args()
    tf.disable_eager_execution()
    hvd.init()                                                                      # 1. join
    config = tf.ConfigProto()
    config.gpu_options.visible_device_list = str(hvd.local_rank())                  # 2. a GPU each

    digits = load_digits()
    data, labels = (digits.data / 16).astype("float32"), digits.target
    test = numpy.arange(len(data)) % 5 == 0
    x, y = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
    w1 = tf.get_variable("w1", [64, 64], initializer=tf.glorot_uniform_initializer())
    b1 = tf.get_variable("b1", [64], initializer=tf.zeros_initializer())
    w2 = tf.get_variable("w2", [64, 10], initializer=tf.glorot_uniform_initializer())
    logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=y, logits=logits))
    correct = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))

    optimizer = tf.train.AdagradOptimizer(0.05 * hvd.size())                        # 3. scale
    optimizer = hvd.DistributedOptimizer(optimizer)                                 # 4. wrap
    step = tf.train.get_or_create_global_step()
    pairs = optimizer.compute_gradients(loss)
    train = optimizer.apply_gradients(
        [(tf.clip_by_norm(g, 5.0), v) for g, v in pairs if g is not None], global_step=step)

    hooks = [hvd.BroadcastGlobalVariablesHook(0)]                                   # 5. agree
    mine = slice(hvd.rank(), None, hvd.size())                                      # 6. share
    with tf.train.MonitoredTrainingSession(hooks=hooks, config=config) as session:
        for a, b in batches(data[~test][mine], labels[~test][mine], args.steps, hvd.rank()):
            session.run(train, {x: a, y: b})
        accuracy = session.run(correct, {x: data[test], y: labels[test]})
    if hvd.rank() == 0:
        print(f"ranks {hvd.size()}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
