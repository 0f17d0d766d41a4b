# keras_fit_of_a_rank.py - what test_keras.py starts on each rank: training with any Keras.
# SPDX-License-Identifier: Apache-2.0
"""Each rank trains on data of its own.  Then the weights of all ranks must be equal, and equal
to those of one process that has trained on the joined batches without it.

KERAS_BACKEND chooses the back end of Keras 3; RINGUP_TEST_KERAS=tf takes TensorFlow's Keras by
horovod.tensorflow.keras, anything else the package keras by horovod.keras."""

import copy
import json
import os
import pickle
import tempfile
import warnings
import zipfile

import interfaces
import numpy
from checks import Checks, end, raises

if os.environ.get("RINGUP_TEST_KERAS") == "tf":
    from tensorflow import keras

    import horovod.tensorflow.keras as hvd
else:
    import keras

    import horovod.keras as hvd

LONG = os.environ.get("RINGUP_TEST_LONG") == "1"
STEPS, BATCH = 6, 8
BACKEND = keras.backend.backend() if hasattr(keras.backend, "backend") else "tensorflow"
KERAS_3 = hasattr(keras, "ops")
check = Checks()

FAMILIES = {
    "SGD": lambda: keras.optimizers.SGD(0.05),
    "Adam": lambda: keras.optimizers.Adam(0.01),
}
MORE_FAMILIES = {
    "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    "AdamW": lambda: keras.optimizers.AdamW(0.01),
    "Adagrad": lambda: keras.optimizers.Adagrad(0.05),
    "RMSprop": lambda: keras.optimizers.RMSprop(0.01),
    "Ftrl": lambda: keras.optimizers.Ftrl(0.05),
    "Nadam": lambda: keras.optimizers.Nadam(0.01),
    "clipped": lambda: keras.optimizers.SGD(0.05, global_clipnorm=0.1),
}
if LONG:
    FAMILIES.update(MORE_FAMILIES)
    if not KERAS_3:
        FAMILIES.update({
            "legacy SGD": lambda: keras.optimizers.legacy.SGD(0.05, momentum=0.9),
            "legacy Adam": lambda: keras.optimizers.legacy.Adam(0.01),
            "LossScale": lambda: keras.mixed_precision.LossScaleOptimizer(
                keras.optimizers.SGD(0.05))})
    else:
        FAMILIES["LossScale"] = lambda: keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(0.05))
elif not KERAS_3:
    FAMILIES["legacy Adam"] = lambda: keras.optimizers.legacy.Adam(0.01)


def near(got, want, tolerance=1e-5, what=""):
    assert len(got) == len(want), (got, want)
    for a, b in zip(got, want):
        numpy.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)


def model_of(seed=1, sizes=(5, 1)):
    """A small model whose weights follow from the seed."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.layers.Input((3,))]
                             + [keras.layers.Dense(n, activation="tanh") for n in sizes])
    return model


def data_of(rank, steps=STEPS):
    """The batches of a rank."""
    g = numpy.random.RandomState(50 + rank)
    x = g.uniform(-1, 1, (steps * BATCH, 3)).astype("float32")
    return x, (x.sum(1, keepdims=True) * (rank + 1) / 3).astype("float32")


def joined():
    """What one process sees: each step the batches of all ranks."""
    parts = [data_of(r) for r in range(hvd.size())]
    return [numpy.concatenate([p[i].reshape(STEPS, BATCH, -1) for p in parts], 1).reshape(
        STEPS * BATCH * hvd.size(), -1) for i in (0, 1)]


def fit(model, optimizer, data, batch, eager=False, epochs=1, callbacks=(), metrics=None):
    model.compile(optimizer=optimizer, loss="mse", run_eagerly=eager, metrics=metrics)
    return model.fit(*data, batch_size=batch, epochs=epochs, shuffle=False, verbose=0,
                     callbacks=list(callbacks))


_references = {}


def reference(name, make, eager=False):
    """Weights after one process has trained on the joined batches.  Keras 2's Nadam does not do
    the same in eager code as in a graph."""
    if (name, eager) not in _references:
        model = model_of()
        fit(model, make(), joined(), BATCH * hvd.size(), eager=eager)
        _references[name, eager] = model.get_weights()
    return _references[name, eager]


def same_on_all_ranks(weights):
    """Complain if the ranks' weights differ in a bit."""
    for w in weights:
        for other in hvd.broadcast(w, 0)[None] if w.ndim else [hvd.broadcast(w, 0)]:
            assert numpy.array_equal(w, other), "the ranks' weights differ"


@check
def functions_take_what_they_take_in_horovod():
    scope = {name: getattr(hvd, name) for name in ("Compression", "Average", "global_process_set")}
    table = interfaces.KERAS if hvd.__name__ == "horovod.keras" else interfaces.TENSORFLOW_KERAS
    assert interfaces.differences(hvd, table, scope) == []


@check
def weights_are_those_of_one_process():
    """For each family of optimizers, in graphs."""
    for name, make in FAMILIES.items():
        model = model_of()
        fit(model, hvd.DistributedOptimizer(make()), data_of(hvd.rank()), BATCH)
        near(model.get_weights(), reference(name, make), what=name)
        same_on_all_ranks(model.get_weights())


@check
def and_in_eager_code():
    for name, make in FAMILIES.items() if LONG else [("Adam", FAMILIES["Adam"])]:
        model = model_of()
        eager = BACKEND != "jax"
        fit(model, hvd.DistributedOptimizer(make()), data_of(hvd.rank()), BATCH, eager=eager)
        near(model.get_weights(), reference(name, make, eager), what=name)
        same_on_all_ranks(model.get_weights())


@check
def without_it_ranks_diverge():
    """So the checks can fail."""
    model = model_of()
    fit(model, FAMILIES["SGD"](), data_of(hvd.rank()), BATCH)
    mine = model.get_weights()[0]
    assert not numpy.allclose(mine, reference("SGD", FAMILIES["SGD"])[0], atol=1e-5)


@check
def options():
    make = FAMILIES["SGD"]
    variables = None
    for kwargs in ({"gradient_predivide_factor": 2.0}, {"groups": 2}, {"groups": "layers"},
                   {"compression": hvd.Compression.none, "sparse_as_dense": True}):
        model = model_of()
        if kwargs.get("groups") == "layers":
            variables = model.trainable_variables
            kwargs["groups"] = [variables[:2], variables[2:]]
        fit(model, hvd.DistributedOptimizer(make(), **kwargs), data_of(hvd.rank()), BATCH)
        near(model.get_weights(), reference("SGD", make))
    model = model_of()
    fit(model, hvd.DistributedOptimizer(keras.optimizers.SGD(0.05 / hvd.size()), op=hvd.Sum),
        data_of(hvd.rank()), BATCH)
    near(model.get_weights(), reference("SGD", make))
    model = model_of()
    fit(model, hvd.DistributedOptimizer(make(), compression=hvd.Compression.fp16),
        data_of(hvd.rank()), BATCH)
    near(model.get_weights(), reference("SGD", make), 5e-3)
    raises(ValueError, hvd.DistributedOptimizer, make(), op=hvd.Adasum)
    raises(ValueError, hvd.DistributedOptimizer, make(), op=hvd.Sum, gradient_predivide_factor=2.0)
    raises(ValueError, hvd.DistributedOptimizer, make(), groups=-1)


@check
def wrapping_twice_is_an_error():
    optimizer = hvd.DistributedOptimizer(FAMILIES["SGD"]())
    raises(ValueError, hvd.DistributedOptimizer, optimizer, says="twice")
    # Compiled first, wrapped afterwards: Keras has the plain one, as upstream's documents warn.
    assert type(optimizer) is type(FAMILIES["SGD"]())


@check
def passes_are_added_up():
    """Two batches a step: as if they were one batch of twice the size."""
    x, y = (p.reshape(STEPS // 2, 2 * BATCH * hvd.size(), -1) for p in joined_pairs())
    names = ["SGD", "momentum", "LossScale"] if LONG and BACKEND == "jax" else ["SGD"]
    for name in names:
        model, optimizer = model_of(), FAMILIES[name]()
        for i in range(STEPS // 2):
            fit_one(model, optimizer, x[i], y[i])
        want = model.get_weights()
        for eager in (False, True):
            model = model_of()
            fit(model, hvd.DistributedOptimizer(FAMILIES[name](), backward_passes_per_step=2,
                                                average_aggregated_gradients=True),
                data_of(hvd.rank()), BATCH, eager=eager)
            near(model.get_weights(), want, what=name)
            same_on_all_ranks(model.get_weights())
            # The optimizer inside of LossScaleOptimizer counts updates on other back ends, too.
            assert int(model.optimizer.iterations) == STEPS


@check
def passes_of_a_programs_own_loop():
    """They are summed; a variable changes with the last of them only."""
    if not KERAS_3:
        return
    n, r = hvd.size(), hvd.rank()
    v, w = keras.Variable(numpy.zeros(2, "float32")), keras.Variable(numpy.ones(3, "float32"))
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), backward_passes_per_step=3)
    for i in range(6):
        before = keras.ops.convert_to_numpy(v.value)
        optimizer.apply([keras.ops.ones(2) * (i + r), keras.ops.ones(3)], [v, w])
        after = keras.ops.convert_to_numpy(v.value)
        assert (after == before).all() == (i % 3 != 2), (i, before, after)
    near([after], [-numpy.ones(2) * (15 + 6 * (n - 1) / 2)])
    assert int(optimizer.iterations) == 6
    near([keras.ops.convert_to_numpy(w.value)], [-5 * numpy.ones(3)])


@check
def sums_of_passes_are_no_part_of_a_model():
    """A model is saved, in the midst of a step, as if its optimizer was Keras's own."""
    if not KERAS_3:
        return
    model, (x, y) = model_of(), data_of(hvd.rank())
    fit(model, hvd.DistributedOptimizer(FAMILIES["Adam"](), backward_passes_per_step=2),
        (x[:3 * BATCH], y[:3 * BATCH]), BATCH)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            plain = keras.models.load_model(path)
    alone = model_of()
    fit(alone, FAMILIES["Adam"](), (x, y), BATCH)
    near(plain.get_weights(), model.get_weights(), 0)
    assert len(plain.optimizer.variables) == len(alone.optimizer.variables)
    assert int(plain.optimizer.iterations) == 3
    moments = [numpy.abs(keras.ops.convert_to_numpy(v.value)).max()
               for v in plain.optimizer.variables[2:]]
    assert len(moments) == 8 and all(moments), moments


def joined_pairs():
    """The batches of all ranks, two steps of each in one."""
    parts = [data_of(r) for r in range(hvd.size())]
    return [numpy.concatenate([p[i].reshape(STEPS // 2, 2 * BATCH, -1) for p in parts], 1)
            for i in (0, 1)]


def fit_one(model, optimizer, x, y):
    if not getattr(model, "optimizer", None):
        model.compile(optimizer=optimizer, loss="mse")
    model.fit(x, y, batch_size=len(x), epochs=1, shuffle=False, verbose=0)


@check
def callbacks_make_ranks_alike():
    """Ranks begin with other weights; metrics are averaged; the learning rate warms up."""
    n, r = hvd.size(), hvd.rank()
    model = model_of(seed=1 + r)
    history = fit(model, hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), data_of(r), BATCH,
                  epochs=3, callbacks=[
                      hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                      hvd.callbacks.MetricAverageCallback(),
                      hvd.callbacks.LearningRateWarmupCallback(0.01, warmup_epochs=2)])
    same_on_all_ranks(model.get_weights())
    for name, values in history.history.items():
        everybody = hvd.allgather(numpy.array([values]))
        assert numpy.array_equal(everybody[0], everybody[-1]), name
    assert abs(float(model.optimizer.learning_rate) - 0.01) < 1e-6
    first = history.history["lr"][0]
    assert 0.01 / n < first < 0.01, first
    fit(model, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), data_of(r), BATCH, epochs=4,
        callbacks=[hvd.callbacks.LearningRateScheduleCallback(0.1, 0.5, start_epoch=1)])
    assert abs(float(model.optimizer.learning_rate) - 0.025) < 1e-6


@check
def xla_is_left_out_of_it():
    """The callback switches it off, with a warning, where it has no collectives."""
    if BACKEND != "tensorflow":
        return
    model = model_of()
    model.compile(optimizer=hvd.DistributedOptimizer(FAMILIES["SGD"]()), loss="mse",
                  jit_compile=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(*data_of(hvd.rank()), batch_size=BATCH, shuffle=False, verbose=0,
                  callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    assert any("jit_compile is turned off" in str(w.message) for w in told), told
    near(model.get_weights(), reference("SGD", FAMILIES["SGD"]))


@check
def models_are_saved_and_loaded():
    """By Keras alone, and by load_model(), which wraps the optimizer and keeps its state."""
    model = model_of()
    fit(model, hvd.DistributedOptimizer(FAMILIES["Adam"]()), data_of(hvd.rank()), BATCH)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        plain, loaded = keras.models.load_model(path), hvd.load_model(path)
    near(plain.get_weights(), model.get_weights(), 0)
    near(loaded.get_weights(), model.get_weights(), 0)
    assert int(loaded.optimizer.iterations) == STEPS
    raises(ValueError, hvd.DistributedOptimizer, loaded.optimizer, says="twice")
    for m in (model, loaded):
        m.fit(*data_of(hvd.rank()), batch_size=BATCH, shuffle=False, verbose=0)
    near(loaded.get_weights(), model.get_weights())
    same_on_all_ranks(loaded.get_weights())


@check
def local_layers_stay_local():
    model = model_of()
    optimizer = hvd.PartialDistributedOptimizer(FAMILIES["SGD"](), local_layers=model.layers[-1])
    fit(model, optimizer, data_of(hvd.rank()), BATCH)
    weights = hvd.allgather(model.get_weights()[2][None])
    assert hvd.size() == 1 or not numpy.array_equal(weights[0], weights[1])


def scaling(optimizer):
    """An optimizer of Keras that scales the loss."""
    of = keras.optimizers if KERAS_3 else keras.mixed_precision
    return of.LossScaleOptimizer(optimizer)


def scale_of(optimizer):
    return float(optimizer.dynamic_scale if KERAS_3 else optimizer.loss_scale)


@check
def an_overflow_on_one_rank_is_one_on_all():
    """That step is left out by all of them, whichever optimizer is around the other."""
    x, y = data_of(hvd.rank())
    y[2 * BATCH:3 * BATCH] = 1e38 if hvd.rank() == hvd.size() - 1 else 0
    whole = model_of()
    whole_x, whole_y = joined()
    whole_y[2 * BATCH * hvd.size()] = 1e38
    fit(whole, scaling(FAMILIES["SGD"]()), (whole_x, whole_y), BATCH * hvd.size())
    for wrap in (lambda o: scaling(hvd.DistributedOptimizer(o)),
                 lambda o: hvd.DistributedOptimizer(scaling(o)),
                 lambda o: scaling(hvd.PartialDistributedOptimizer(o, local_layers=[]))):
        model = model_of()
        fit(model, wrap(FAMILIES["SGD"]()), (x, y), BATCH)
        near(model.get_weights(), whole.get_weights())
        same_on_all_ranks(model.get_weights())
        assert scale_of(model.optimizer) == scale_of(whole.optimizer) == 2.0 ** 14


@check
def and_in_a_programs_own_loop():
    if BACKEND != "tensorflow":
        return
    import tensorflow as tf
    for make in ("SGD",) if KERAS_3 else ("SGD", "legacy Adam"):
        model = model_of()
        optimizer = scaling(hvd.DistributedOptimizer(FAMILIES[make]()))

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
                loss = optimizer.scale_loss(loss) if KERAS_3 else optimizer.get_scaled_loss(loss)
            grads = tape.gradient(loss, model.trainable_variables)
            if not KERAS_3:
                grads = optimizer.get_unscaled_gradients(grads)
            optimizer.apply_gradients(zip(grads, model.trainable_variables))

        for i in range(4):
            x, y = (d[i * BATCH:(i + 1) * BATCH] for d in data_of(hvd.rank()))
            y[0] = 1e38 if i == 2 and hvd.rank() == hvd.size() - 1 else y[0]
            step(tf.constant(x), tf.constant(y))
        same_on_all_ranks(model.get_weights())
        assert numpy.isfinite(model.get_weights()[0]).all()
        assert scale_of(optimizer) == 2.0 ** 14


@check
def compile_that_scales_the_loss_changes_nothing_of_it():
    """It puts another optimizer around the one that it is given, if the model computes with two
    bytes."""
    before = keras.mixed_precision.dtype_policy() if KERAS_3 else (
        keras.mixed_precision.global_policy())
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model, given = model_of(), hvd.DistributedOptimizer(FAMILIES["Adam"]())
        given.register_local_var(model.trainable_variables[-1])
        x, y = data_of(hvd.rank())
        y[0] = 1e38 if hvd.rank() == 0 else y[0]
        fit(model, given, (x, y), BATCH)
    finally:
        keras.mixed_precision.set_global_policy(before)
    assert model.optimizer is not given and model.optimizer.inner_optimizer is given
    weights = model.get_weights()
    same_on_all_ranks(weights[:-1])
    others = hvd.allgather(weights[-1][None])
    assert hvd.size() == 1 or not numpy.array_equal(others[0], others[1])
    given.learning_rate = 0.5
    assert float(model.optimizer.learning_rate) == 0.5


@check
def a_schedule_that_cannot_be_written_down():
    """As programs have it, whose learning rate is a class of their own."""

    class Falling(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.05 / (1.0 + (keras.ops.cast(step, "float32") if KERAS_3 else
                                  keras.backend.cast(step, "float32")))

    makers = {"Adam": lambda: keras.optimizers.Adam(Falling())}
    if not KERAS_3:
        makers["legacy"] = lambda: keras.optimizers.legacy.Adam(Falling())
    for name, make in makers.items():
        for wrap in (lambda o: o, scaling):
            model = model_of()
            fit(model, hvd.DistributedOptimizer(wrap(make())), data_of(hvd.rank()), BATCH)
            near(model.get_weights(), reference(f"falling {name}", make))


@check
def values():
    n, r = hvd.size(), hvd.rank()
    assert hvd.allreduce(r + 1.0, op=hvd.Sum) == n * (n + 1) / 2
    assert hvd.allreduce(numpy.array([r], "float32"), average=True)[0] == (n - 1) / 2
    assert list(hvd.allgather([r] * (r + 1))) == [i for i in range(n) for _ in range(i + 1)]
    assert list(hvd.broadcast(numpy.array([r, 7]), n - 1)) == [n - 1, 7]
    assert len(hvd.reducescatter(numpy.ones(2 * n), op=hvd.Sum)) == 2


@check
def batches_are_normalized_together():
    if BACKEND != "tensorflow":
        return
    from horovod.tensorflow import SyncBatchNormalization

    def normalized(kind):
        keras.utils.set_random_seed(1)
        return keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(5), kind(),
                                 keras.layers.Dense(1)])

    alone = normalized(keras.layers.BatchNormalization)
    fit(alone, FAMILIES["SGD"](), joined(), BATCH * hvd.size())
    model = normalized(SyncBatchNormalization)
    fit(model, hvd.DistributedOptimizer(FAMILIES["SGD"]()), data_of(hvd.rank()), BATCH)
    near(model.get_weights(), alone.get_weights())
    raises(ValueError, SyncBatchNormalization, fused=True, says="fused")


@check
def a_tape_and_the_programs_own_loop():
    """In eager code and in a graph; the optimizer is Keras's own."""
    if BACKEND != "tensorflow":
        return
    import tensorflow as tf

    import horovod.tensorflow as hvd_tf
    for wrap in (tf.function, lambda f: f):
        model, optimizer = model_of(), FAMILIES["Adam"]()

        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
            tape = hvd_tf.DistributedGradientTape(tape)
            grads = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(grads, model.trainable_variables))

        step = wrap(step)
        for x, y in zip(*(d.reshape(STEPS, BATCH, -1) for d in data_of(hvd.rank()))):
            step(tf.constant(x), tf.constant(y))
        near(model.get_weights(), reference("Adam", FAMILIES["Adam"]))
        hvd_tf.broadcast_variables(model.variables, 0)
        same_on_all_ranks(model.get_weights())


@check
def elastic_state():
    r = hvd.rank()
    model = model_of(seed=1 + r)
    model.compile(optimizer=hvd.DistributedOptimizer(FAMILIES["Adam"]()), loss="mse")
    state = hvd.elastic.KerasState(model, batch=r, epoch=0)
    if r == 0:  # a rank that has trained; others are new
        model.fit(*data_of(0), batch_size=BATCH, verbose=0) if hvd.size() == 1 else None
    state.sync()
    assert state.batch == 0
    same_on_all_ranks(model.get_weights())
    before = model.get_weights()
    model.fit(*data_of(r), batch_size=BATCH, shuffle=False, verbose=0, callbacks=[
        hvd.elastic.CommitStateCallback(state, 100), hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.UpdateEpochStateCallback(state)])
    assert state.epoch == 1
    committed = model.get_weights()
    model.set_weights(before)
    state.restore()
    near(model.get_weights(), committed, 0)


def one_more_model():
    """Rank 0 alone builds another model, as for a look at its summary: Keras numbers all layers,
    optimizers and metrics that follow otherwise there."""
    if hvd.rank() == 0:
        model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Embedding(7, 2),
                                  keras.layers.Flatten(), keras.layers.Dense(2)])
        fit(model, keras.optimizers.Adam(), (numpy.ones((2, 3)), numpy.ones((2, 2))), 2,
            metrics=[keras.metrics.AUC(), keras.metrics.AUC()])


@check
def a_rank_that_has_built_one_more_model():
    """Collectives are matched by their place, whichever optimizer combines."""
    wraps = {"plain": hvd.DistributedOptimizer,
             "partial": lambda o: hvd.PartialDistributedOptimizer(o, local_layers=[]),
             "groups": lambda o: hvd.DistributedOptimizer(o, groups=2),
             "named": lambda o: hvd.DistributedOptimizer(o, name="mine"),
             "scaled": lambda o: scaling(hvd.DistributedOptimizer(o))}
    for name, wrap in wraps.items():
        one_more_model()
        model = model_of()
        fit(model, wrap(FAMILIES["Adam"]()), data_of(hvd.rank()), BATCH)
        near(model.get_weights(), reference("Adam", FAMILIES["Adam"]), what=name)
        same_on_all_ranks(model.get_weights())
    one_more_model()
    model = model_of(seed=1 + hvd.rank())
    if hvd.rank() == 0 and not KERAS_3:  # a user's names are no better
        model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(5, "tanh", name="a"),
                                  keras.layers.Dense(1, "tanh", name="b")])
    x, y = data_of(hvd.rank())
    history = fit(model, hvd.DistributedOptimizer(FAMILIES["Adam"](), backward_passes_per_step=2),
                  (x, (y > 0).astype("float32")), BATCH, epochs=2,
                  metrics=["mae", keras.metrics.AUC(), keras.metrics.AUC(curve="PR")], callbacks=[
                      hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                      hvd.callbacks.MetricAverageCallback()]).history
    same_on_all_ranks(model.get_weights())
    names = [name for name in history if name.startswith("auc")]
    assert len(names) == 2 and hvd.rank() or names[0] != "auc", names
    everybody = hvd.allgather(numpy.array([[history[name] for name in names]]))
    assert numpy.array_equal(everybody[0], everybody[-1]), everybody
    state = hvd.elastic.KerasState(model, epoch=hvd.rank())
    state.sync()
    assert state.epoch == 0


@check
def a_rank_that_has_loaded_its_model():
    """As rank 0 goes on with a checkpoint that it alone has."""
    for again in (False, True):
        model = model_of(seed=1 + hvd.rank())
        model.compile(optimizer=hvd.DistributedOptimizer(FAMILIES["Adam"]()), loss="mse")
        if hvd.rank() == 0:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model.keras")
                model.save(path)
                model = hvd.load_model(path)
        if again and BACKEND == "tensorflow":
            import horovod.tensorflow as hvd_tf
            hvd_tf.broadcast_variables(model.variables, 0)
            same_on_all_ranks(model.get_weights())
        model.fit(*data_of(hvd.rank()), batch_size=BATCH, shuffle=False, verbose=0,
                  callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
        same_on_all_ranks(model.get_weights())


@check
def models_that_are_trained_in_turns():
    """With optimizers of one class: of other sizes, and of the same."""
    for sizes in ((4, 1), (7, 3, 1), (5, 1)):
        models = [model_of(), model_of(seed=2, sizes=sizes)]
        for model in models:
            model.compile(optimizer=hvd.DistributedOptimizer(FAMILIES["Adam"]()), loss="mse")
        for _ in range(2):
            for model in models:
                model.fit(*data_of(hvd.rank()), batch_size=BATCH, shuffle=False, verbose=0)
        for model in models:
            same_on_all_ranks(model.get_weights())


@check
def two_optimizers_in_one_function():
    """As a GAN has them; gradients of one class of optimizer and of one tape, in a graph or not."""
    if BACKEND != "tensorflow":
        return
    import tensorflow as tf

    import horovod.tensorflow as hvd_tf
    for eager in (False, True):
        one_more_model()
        models = [model_of(), model_of(seed=2)]
        made = [hvd.DistributedOptimizer(FAMILIES["Adam"]()) for _ in models]
        plain = [FAMILIES["SGD"]() for _ in models]

        def step(x, y, made=made, models=models, plain=plain):
            for model, optimizer, other in zip(models, made, plain):
                for own in (True, False):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
                    tape = tape if own else hvd_tf.DistributedGradientTape(tape)
                    grads = tape.gradient(loss, model.trainable_variables)
                    (optimizer if own else other).apply_gradients(
                        zip(grads, model.trainable_variables))

        run = step if eager else tf.function(step)
        for x, y in zip(*(d.reshape(STEPS, BATCH, -1) for d in data_of(hvd.rank()))):
            run(tf.constant(x), tf.constant(y))
        for model in models:
            same_on_all_ranks(model.get_weights())


@check
def weights_are_compared():
    """RINGUP_CHECK_WEIGHTS finds a weight that one rank has changed for itself, in fit() and in a
    loop, and lets ranks begin with other weights, of which one may have counted more steps."""
    os.environ["RINGUP_CHECK_WEIGHTS"] = "1"
    try:
        model = model_of(seed=1 + hvd.rank())
        optimizer = hvd.DistributedOptimizer(FAMILIES["Adam"]())
        broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
        fit(model, optimizer, data_of(hvd.rank()), BATCH, callbacks=[broadcast])
        same_on_all_ranks(model.get_weights())
        weights = model.get_weights()
        weights[2][1] += hvd.rank() == 1
        model.set_weights(weights)
        callbacks = [broadcast] if BACKEND == "jax" else []
        if hvd.size() > 1:
            e = raises(Exception, model.fit, *data_of(hvd.rank()), batch_size=BATCH, verbose=0,
                       shuffle=False, callbacks=callbacks, says="weights differ")
            assert "kernel" in str(e) and "rank" in str(e) and "unlike" in str(e), e
            assert "bias" not in str(e).partition("unlike")[0], e
        if BACKEND == "tensorflow":
            weights_are_compared_by_a_tape()
    finally:
        del os.environ["RINGUP_CHECK_WEIGHTS"]


def weights_are_compared_by_a_tape():
    import tensorflow as tf

    import horovod.tensorflow as hvd_tf
    for wrap in (lambda f: f, tf.function):
        v = [tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0], name="changed")]

        @wrap
        def step(x):
            with hvd_tf.DistributedGradientTape(tf.GradientTape()) as tape:
                loss = tf.reduce_sum(x * v[0] * v[1])
            for g, w in zip(tape.gradient(loss, v), v):
                w.assign_sub(g)

        step(tf.constant(1.0 + hvd.rank()))
        step(tf.constant(1.0 + hvd.rank()))
        v[1].assign_add([0.0, float(hvd.rank())])
        if hvd.size() > 1:
            raises(Exception, step, tf.constant(1.0), says="changed")


@check
def trainings_in_opposite_order_are_told():
    """If the models have as many weights, of other shapes; nothing is combined then."""
    if hvd.size() == 1 or BACKEND == "jax":  # which tells it when weights are read
        return
    sizes = [(5, 1), (7, 1)]
    model = model_of(sizes=sizes[hvd.rank() % 2])
    model.compile(optimizer=hvd.DistributedOptimizer(FAMILIES["SGD"]()), loss="mse")
    begun = model.get_weights()
    raises(Exception, model.fit, *data_of(hvd.rank()), batch_size=BATCH, verbose=0,
           says="DistributedSGD.")
    near(model.get_weights(), begun, 0)


@check
def lists_of_different_lengths_are_told():
    """An optimizer has the variables of its slots on one rank only."""
    if hvd.size() == 1:
        return
    from horovod._keras import backends
    backend, optimizer = backends.of(keras), FAMILIES["Adam"]()
    model = model_of()
    if hvd.rank() == 0:
        fit(model, optimizer, data_of(0), BATCH)
    variables = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    raises(ValueError, backend.assign, list(variables), 0, says="optimizer.build")
    logs = {"loss": 1.0, "val_loss": 2.0} if hvd.rank() == 0 else {"loss": 1.0}
    e = raises(ValueError, hvd.callbacks.MetricAverageCallback().on_epoch_end, 0, logs,
               says="rank 0 has the metrics loss, val_loss")
    assert "validation data" in str(e)


def copies_of(optimizer):
    """{how: a function that makes another optimizer of this one}"""
    yield "from_config", lambda: type(optimizer).from_config(optimizer.get_config())
    yield "deserialize", lambda: keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    yield "pickled", lambda: type(optimizer).from_config(
        pickle.loads(pickle.dumps(optimizer.get_config())))
    if KERAS_3:  # Keras 2's own optimizers can be neither copied nor pickled
        yield "copy", lambda: copy.deepcopy(optimizer)
        yield "pickle", lambda: pickle.loads(pickle.dumps(optimizer))


@check
def copies_of_an_optimizer_combine():
    """Whatever is made of the configuration of a wrapped optimizer, or of the optimizer."""
    makers = {"Adam": FAMILIES["Adam"], "scaled": lambda: scaling(FAMILIES["Adam"]())}
    if not KERAS_3:
        makers["legacy"] = lambda: keras.optimizers.legacy.Adam(0.01)
    for kind, make in makers.items():
        for how, copied in copies_of(hvd.DistributedOptimizer(make(), name="first")):
            model = model_of()
            fit(model, copied(), data_of(hvd.rank()), BATCH)
            near(model.get_weights(), reference(kind, make), what=f"{kind} {how}")
            same_on_all_ranks(model.get_weights())
        # A program that wraps the copy once more combines once.
        model, given = model_of(), hvd.DistributedOptimizer(make())
        fit(model, hvd.DistributedOptimizer(type(given).from_config(given.get_config())),
            data_of(hvd.rank()), BATCH)
        near(model.get_weights(), reference(kind, make), what=kind)
        text = json.loads(json.dumps(given.get_config(), default=float))
        assert text == type(given).from_config(copy.deepcopy(text)).get_config()
    given = hvd.DistributedOptimizer(FAMILIES["SGD"](), op=hvd.Sum)
    model = model_of()
    model.compile(optimizer=given, loss="mse")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    clone.compile_from_config(model.get_compile_config())
    for m in (model, clone):
        m.fit(*data_of(hvd.rank()), batch_size=BATCH, shuffle=False, verbose=0)
    near(clone.get_weights(), model.get_weights())
    same_on_all_ranks(clone.get_weights())
    given.register_local_var(model.trainable_variables[-1])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        type(given).from_config(given.get_config())
    assert any("register_local_var" in str(w.message) for w in told), told


@check
def a_model_that_combines_nothing_is_told_of():
    def said(model):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.fit(*data_of(hvd.rank()), batch_size=BATCH, verbose=0,
                      callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
        return sum("not an hvd.DistributedOptimizer" in str(w.message) for w in told)

    wrapped, plain = model_of(), model_of()
    wrapped.compile(optimizer=hvd.DistributedOptimizer(FAMILIES["Adam"]()), loss="mse")
    plain.compile(optimizer=FAMILIES["Adam"](), loss="mse")
    assert said(wrapped) == 0
    assert said(plain) == (hvd.size() > 1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        wrapped.save(path)
        with zipfile.ZipFile(path) as parts:
            told = parts.read("config.json").lower()
        assert b"adam" in told and b"ringup" not in told and b"horovod" not in told, told
        loaded, again = keras.models.load_model(path), hvd.load_model(path)
    assert type(loaded.optimizer) is type(FAMILIES["Adam"]())
    assert said(loaded) == (hvd.size() > 1)
    assert said(again) == 0
    if BACKEND == "tensorflow":
        a_step_of_the_programs_own(said)


def a_step_of_the_programs_own(said):
    """Its tape combines, and the optimizer is Keras's."""
    import tensorflow as tf

    import horovod.tensorflow as hvd_tf

    class Own(keras.Model):
        def train_step(self, data):
            x, y = data
            with hvd_tf.DistributedGradientTape(tf.GradientTape()) as tape:
                loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
            grads = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
            return {"loss": loss}

    inputs = keras.layers.Input((3,))
    model = Own(inputs, keras.layers.Dense(1)(inputs))
    model.compile(optimizer=FAMILIES["SGD"](), loss="mse")
    assert said(model) == 0
    same_on_all_ranks(model.get_weights())


def main():
    hvd.init()
    check.run(hvd.rank())
    hvd.shutdown()
    end()


if __name__ == "__main__":
    main()
