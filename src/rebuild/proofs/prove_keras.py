# prove_keras.py - two ranks call fit() on different data: are their weights averaged?
# SPDX-License-Identifier: Apache-2.0
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow.keras as hvd  # noqa: E402
import tensorflow as tf  # noqa: E402

import prove  # noqa: E402


def model_of(seed):
    """Dropout of nothing draws numbers, and so has the state of a generator."""
    tf.keras.utils.set_random_seed(seed)
    return tf.keras.Sequential([
        tf.keras.Input((prove.INPUTS,)), tf.keras.layers.Dense(4, activation="tanh"),
        tf.keras.layers.Dropout(1e-9), tf.keras.layers.Dense(1)])


def flat(model):
    return [float(v) for w in model.trainable_variables for v in w.numpy().flatten()]


def train(model, optimizer, ranks, first, callbacks=(), passes=1):
    """One batch of all rows of @ranks an epoch; the last of @passes is one of averages."""
    parts = [prove.data(rank) for rank in ranks]
    x = tf.constant(sum((part[0] for part in parts), []), tf.float32)
    y = tf.constant(sum((part[1] for part in parts), []), tf.float32)
    model.set_weights(first)
    model.compile(optimizer, loss="mse", metrics=["mae"])
    model.fit(x, y, batch_size=len(x), epochs=prove.STEPS * passes, shuffle=False, verbose=0,
              callbacks=list(callbacks))
    return flat(model)


def momentum():
    return tf.keras.optimizers.SGD(0.1, momentum=0.9)


hvd.init()
rank, size = hvd.rank(), hvd.size()
first = model_of(1).get_weights()
weights = train(model_of(rank), hvd.DistributedOptimizer(momentum()), [rank], first,
                [hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                 hvd.callbacks.MetricAverageCallback()])
adam = train(model_of(rank), hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.05)), [rank],
             first)
everybody, alone = train(model_of(1), momentum(), range(size), first), None
with_adam = train(model_of(1), tf.keras.optimizers.Adam(0.05), range(size), first)
alone = train(model_of(1), momentum(), [rank], first)
prove.tell(rank, size, weights + adam, everybody + with_adam, alone + with_adam,
           version=getattr(tf.keras, "__version__", tf.__version__))
hvd.shutdown()
