#!/usr/bin/env python3
# keras_digits_example.py - Keras on handwritten digits: one process, then many.
# SPDX-License-Identifier: Apache-2.0
"""The recipe of Databricks' page on HorovodRunner, with the digits of scikit-learn:

    python3 keras_digits_example.py                        # one process, train()
    ringup run -np 2 -- python3 keras_digits_example.py    # train_hvd() on two ranks

It runs with Keras 2 and 3; KERAS_BACKEND selects the backend of Keras 3.  The steps that
train_hvd() adds to train() are numbered.  Imports are inside the functions, so that the functions
can be sent to other processes.
"""

import argparse
import os
import tempfile

CLASSES, BATCH = 10, 16


def get_dataset(rank=0, size=1):
    """This rank's share of the training images, and all images for testing."""
    import numpy
    from sklearn.datasets import load_digits
    digits = load_digits()
    x, y = (digits.data / 16).astype("float32"), digits.target
    test = numpy.arange(len(x)) % 5 == 0
    return (x[~test][rank::size], y[~test][rank::size]), (x[test], y[test])


def get_model():
    """A small network of dense layers."""
    import keras
    return keras.Sequential([
        keras.layers.Input((64,)), keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(CLASSES, activation="softmax")])


def train(learning_rate=0.02, epochs=8):
    """Train in this process; returns the model."""
    import keras
    (x, y), _test = get_dataset()
    model = get_model()
    model.compile(optimizer=keras.optimizers.SGD(learning_rate, momentum=0.9),
                  loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=0)
    return model


def train_hvd(checkpoint_path, learning_rate=0.02, epochs=8, more_callbacks=()):
    """Train on all ranks; returns the model."""
    import horovod.keras as hvd
    import keras
    hvd.init()                                                                      # 1. join
    (x, y), _test = get_dataset(hvd.rank(), hvd.size())                             # 2. share
    model = get_model()
    optimizer = keras.optimizers.SGD(learning_rate * hvd.size(), momentum=0.9)      # 3. scale
    optimizer = hvd.DistributedOptimizer(optimizer)                                 # 4. wrap
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy",
                  metrics=["accuracy"])
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),                          # 5. agree
        hvd.callbacks.MetricAverageCallback(),                                      # 6. average
        *more_callbacks,
    ]
    if hvd.rank() == 0:                                                             # 7. one writes
        callbacks.append(keras.callbacks.ModelCheckpoint(checkpoint_path, save_weights_only=True))
    model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=0, callbacks=callbacks)
    return model


def main():
    ap = argparse.ArgumentParser(description="Train on handwritten digits with Keras.")
    ap.add_argument("--epochs", type=int, default=8)
    args = ap.parse_args()
    import horovod.keras as hvd
    hvd.init()
    if hvd.size() == 1:
        model = train(epochs=args.epochs)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoint.weights.h5")
            model = train_hvd(path, epochs=args.epochs)
            assert hvd.rank() or os.path.exists(path)
    x, y = get_dataset()[1]
    accuracy = float((model.predict(x, verbose=0).argmax(1) == y).mean())
    if hvd.rank() == 0:
        print(f"ranks {hvd.size()}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
