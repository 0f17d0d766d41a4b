# tensorflow_end_of_a_rank.py - what test_tensorflow.py starts: the last rank is killed.
# SPDX-License-Identifier: Apache-2.0

import json
import os
import signal

import tensorflow as tf

import horovod.tensorflow as hvd


def step(x):
    return hvd.allreduce(x, op=hvd.Sum)


def failure(f):
    """The error of a step, in words."""
    try:
        f(tf.ones(1000))
    except tf.errors.OpError as e:
        return f"{type(e).__name__}: {e.message}"
    return "nothing"


def main():
    hvd.init()
    graph = tf.function(step)
    for f in (step, graph):
        f(tf.ones(1000))
    if hvd.rank() == hvd.size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    said = {"eager": failure(step), "graph": failure(graph)}
    path = os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"rank.{hvd.rank()}")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(said, f)
    hvd.shutdown()


if __name__ == "__main__":
    main()
