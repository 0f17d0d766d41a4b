# keras_of_a_rank.py - what Horovod's Keras interface does on one rank, compared with Keras alone.
# SPDX-License-Identifier: Apache-2.0
"""Two ranks; each prints "ok NAME" or "not ok NAME: why".  For tests/cli/rebuild-real.bats."""

import os
import sys
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow.keras as hvd  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

keras = tf.keras


def data(rank):
    pick = np.random.default_rng(100 + rank)
    x = pick.normal(size=(8, 3)).astype("float32")
    return x, (x.sum(axis=1, keepdims=True) + rank).astype("float32")


def everybody():
    return [np.concatenate(parts) for parts in zip(*(data(r) for r in range(hvd.size())))]


def model_of(seed=1):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="tanh"),
                             keras.layers.Dense(1)])


def fit(model, optimizer, x, y, epochs=4, **more):
    model.compile(optimizer, loss="mse")
    model.fit(x, y, batch_size=len(x), epochs=epochs, shuffle=False, verbose=0, **more)
    return np.concatenate([w.numpy().flatten() for w in model.trainable_variables])


def same(a, b, what):
    off = float(np.max(np.abs(np.asarray(a) - np.asarray(b))))
    if off > 1e-5:
        raise AssertionError(f"{what}: {off} off")


def check_eager():
    model = model_of()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.05)), loss="mse",
                  run_eagerly=True)
    model.fit(*data(hvd.rank()), batch_size=8, epochs=3, shuffle=False, verbose=0)
    mine = np.concatenate([w.numpy().flatten() for w in model.trainable_variables])
    same(mine, fit(model_of(), keras.optimizers.Adam(0.05), *everybody(), epochs=3), "eager")


def check_several_passes():
    made = fit(model_of(), hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.05), backward_passes_per_step=2,
        average_aggregated_gradients=True), *data(hvd.rank()))
    same(made, fit(model_of(), keras.optimizers.SGD(0.05), *everybody(), epochs=2), "averaged")
    made = fit(model_of(), hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.05), backward_passes_per_step=2), *data(hvd.rank()))
    same(made, fit(model_of(), keras.optimizers.SGD(0.1), *everybody(), epochs=2), "summed")


def check_warmup():
    model, rates = model_of(), []
    watch = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: rates.append(float(logs["lr"])))
    fit(model, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9)),
        *data(hvd.rank()), epochs=3, callbacks=[
            hvd.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=2, steps_per_epoch=1),
            watch])
    same(rates[1], 0.1, "the rate after warming up")
    if not rates[0] < 0.1:
        raise AssertionError(f"no warming up: {rates}")


def check_metrics():
    model, seen = model_of(), []
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.0)), loss="mse")
    model.fit(*data(hvd.rank()), batch_size=8, epochs=1, verbose=0, callbacks=[
        hvd.callbacks.MetricAverageCallback(),
        keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: seen.append(logs["loss"]))])
    plain = model_of()
    plain.compile(loss="mse")
    same(seen[0], np.mean([plain.evaluate(*data(r), verbose=0) for r in range(hvd.size())]),
         "the loss of all")


def check_embedding():
    def build():
        keras.utils.set_random_seed(3)
        return keras.Sequential([keras.Input((2,)), keras.layers.Embedding(10, 4),
                                 keras.layers.Flatten(), keras.layers.Dense(1)])
    x = [np.array([[r, r + 1], [5, 2]]) for r in range(hvd.size())]
    y = np.ones((2, 1), "float32")
    made = fit(build(), hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), x[hvd.rank()], y)
    same(made, fit(build(), keras.optimizers.SGD(0.1), np.concatenate(x),
                   np.concatenate([y] * hvd.size())), "sparse gradients")


def check_local_variable():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    optimizer.register_local_var(model.trainable_variables[-1])
    fit(model, optimizer, *data(hvd.rank()), epochs=1)
    all_of = hvd.allgather(model.trainable_variables[-1].numpy())
    if np.ptp(np.asarray(all_of)) < 1e-3:
        raise AssertionError("a local variable is the same on all ranks")


def check_saved():
    model = model_of()
    fit(model, hvd.DistributedOptimizer(keras.optimizers.Adam(0.05)), *data(hvd.rank()))
    path = os.path.join(sys.argv[1], f"model-{hvd.rank()}.keras")
    model.save(path)
    loaded = hvd.load_model(path)
    same(loaded.optimizer.iterations.numpy(), 4, "steps so far")
    loaded.fit(*data(hvd.rank()), batch_size=8, epochs=2, shuffle=False, verbose=0)
    mine = np.concatenate([w.numpy().flatten() for w in loaded.trainable_variables])
    same(mine, fit(model_of(), keras.optimizers.Adam(0.05), *everybody(), epochs=6), "loaded")
    keras.models.load_model(path)


hvd.init()
for name, check in sorted(globals().copy().items()):
    if not name.startswith("check_"):
        continue
    try:
        check()
        print("ok", name, flush=True)
    except Exception as e:
        traceback.print_exc()
        print(f"not ok {name}: {type(e).__name__}: {e}", flush=True)
