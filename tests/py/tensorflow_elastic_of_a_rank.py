# tensorflow_elastic_of_a_rank.py - what test_tensorflow.py starts: training goes on without a rank.
# SPDX-License-Identifier: Apache-2.0
"""Started by `ringup run --min-np`: in its first life one rank ends in the middle of the training,
which the others see in a graph; a new one takes its place.  Each rank that ends prints a line."""

import os
import sys

import tensorflow as tf

import horovod.tensorflow as hvd

STEPS = 20
MARK = os.path.join(os.environ["RINGUP_TEST_RESULTS"], "died")


def main():
    hvd.init()
    w = tf.Variable([0.0])
    state = hvd.elastic.TensorFlowState([w], step=0)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * x)
        w.assign_add(hvd.DistributedGradientTape(tape).gradient(loss, w))

    @hvd.elastic.run
    def train(state):
        while state.step < STEPS:
            if state.step == 7 and hvd.rank() == 1 and not os.path.exists(MARK):
                with open(MARK, "w", encoding="utf-8"):
                    os._exit(3)
            step(tf.constant([float(hvd.size())]))
            state.step += 1
            state.commit()

    train(state)
    print(f"rank {hvd.rank()} of {hvd.size()}: {state.step} steps, weight {w.numpy()[0]:g}",
          flush=True)
    hvd.shutdown()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
