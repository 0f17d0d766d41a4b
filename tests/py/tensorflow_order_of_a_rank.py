# tensorflow_order_of_a_rank.py - what test_tensorflow.py starts: functions in opposite order.
# SPDX-License-Identifier: Apache-2.0

import json
import os

import tensorflow as tf

import horovod.tensorflow as hvd


@tf.function
def first(x):
    return hvd.allreduce(x)


@tf.function
def second(x):
    return hvd.allreduce(x)


def main():
    hvd.init()
    told = ""
    try:
        for f in (first, second) if hvd.rank() == 0 else (second, first):
            f(tf.ones(2))
    except tf.errors.OpError as e:
        told = f"{type(e).__name__}: {e.message}"
    path = os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"rank.{hvd.rank()}")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"told": told}, f)


if __name__ == "__main__":
    main()
