# prove_tensorflow.py - two ranks train with a GradientTape on different data: averaged?
# SPDX-License-Identifier: Apache-2.0
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd  # noqa: E402
import tensorflow as tf  # noqa: E402

import prove  # noqa: E402

RATE = 0.1


def start(seed):
    pick = tf.random.Generator.from_seed(seed)
    return [tf.Variable(pick.normal((prove.INPUTS, 4))), tf.Variable(tf.zeros(4)),
            tf.Variable(pick.normal((4, 1))), tf.Variable(tf.zeros(1))]


def loss_of(weights, rank):
    x, y = (tf.constant(part, tf.float32) for part in prove.data(rank))
    made = tf.tanh(x @ weights[0] + weights[1]) @ weights[2] + weights[3]
    return tf.reduce_mean(tf.square(made - y))


def train(weights, ranks, wrap):
    for _ in range(prove.STEPS):
        with tf.GradientTape() as tape:
            loss = sum(loss_of(weights, rank) for rank in ranks) / len(ranks)
        for weight, grad in zip(weights, wrap(tape).gradient(loss, weights)):
            weight.assign_sub(RATE * grad)
    return [float(v) for w in weights for v in w.numpy().flatten()]


hvd.init()
rank, size = hvd.rank(), hvd.size()
mine = start(rank + 1)  # another start on each rank, until that is broadcast
hvd.broadcast_variables(mine, root_rank=0)
prove.tell(rank, size, train(mine, [rank], hvd.DistributedGradientTape),
           train(start(1), range(size), lambda tape: tape),
           train(start(1), [rank], lambda tape: tape), version=tf.__version__)
hvd.shutdown()
