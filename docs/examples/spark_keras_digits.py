#!/usr/bin/env python3
# spark_keras_digits.py - the same Keras program in one process, as a Horovod job, and on Spark.
# SPDX-License-Identifier: Apache-2.0
"""Start it with the Python that has pyspark, TensorFlow, scikit-learn and ringup:

    python3 spark_keras_digits.py [FOLDER]

The model, the data and the training are those of keras_digits_example.py, which is next to this
file and only on the driver: ringup sends modules that a notebook imports from its own folder.
FOLDER receives the timeline.  It must be the same on all hosts; by default it is a temporary one.
"""

import json
import os
import sys
import tempfile
import uuid

import keras_digits_example as digits


def accuracy(model):
    """Return the fraction of test images that the model classifies correctly."""
    x, y = digits.get_dataset()[1]
    return round(float((model.predict(x, verbose=0).argmax(1) == y).mean()), 4)


def run_training_horovod(learning_rate, epochs):
    """Train as one rank.  HorovodRunner returns rank 0's accuracy."""
    import horovod.keras as hvd
    from sparkdl.horovod import log_to_driver
    from sparkdl.horovod.tensorflow.keras import LogCallback

    hvd.init()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.weights.h5")
        callbacks = [LogCallback()] if hvd.rank() == 0 else []
        model = digits.train_hvd(path, learning_rate, epochs, callbacks)
    log_to_driver(f"rank {hvd.rank()} of {hvd.size()} is done")
    return accuracy(model)


def main():
    # Before the session starts: make the executors use this Python, not one from PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession
    from sparkdl import HorovodRunner

    SparkSession.builder.master(os.environ.get("SPARK_MASTER", "local[2]")).getOrCreate()
    print("one process:", accuracy(digits.train(epochs=4)))
    params = {"learning_rate": 0.02, "epochs": 4}
    print("HorovodRunner(np=-2):", HorovodRunner(np=-2).run(run_training_horovod, **params))

    with tempfile.TemporaryDirectory() as temporary:
        timeline_dir = os.path.join(sys.argv[1] if len(sys.argv) > 1 else temporary,
                                    str(uuid.uuid4()))
        os.makedirs(timeline_dir)
        os.environ["HOROVOD_TIMELINE"] = timeline_dir + "/horovod_timeline.json"
        print("HorovodRunner(np=2):", HorovodRunner(np=2).run(run_training_horovod, **params))
        with open(os.environ["HOROVOD_TIMELINE"], encoding="utf-8") as f:
            print("events in the timeline:", len(json.load(f)))


if __name__ == "__main__":
    main()
