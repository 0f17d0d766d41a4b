# remote.py - train a KerasEstimator's model on one rank, and convert models to data.
# SPDX-License-Identifier: Apache-2.0
"""No Keras objects are sent.  A model is sent as its JSON and weights, an optimizer as its
configuration."""

import contextlib

from horovod.spark.common import data


def saved_model(model):
    """Return a model as data."""
    return {"json": model.to_json(), "weights": model.get_weights()}


def made_model(saved, custom_objects):
    """Return the model for the data of saved_model()."""
    import keras

    model = keras.models.model_from_json(saved["json"], custom_objects=custom_objects)
    model.set_weights(saved["weights"])
    return model


def saved_optimizer(optimizer):
    """Return an optimizer, or the name of one, as data."""
    import keras

    return keras.optimizers.serialize(keras.optimizers.get(optimizer))


def inputs_of(model, names, columns):
    """Return an array for each input of the model, with the shape of that input."""

    if len(model.inputs) != len(columns):
        raise ValueError(f"the model has {len(model.inputs)} inputs, but there are {len(columns)} "
                         "feature columns")
    arrays = []
    for name, values, wanted in zip(names, columns, model.inputs):
        values = data.numbers(name, values, text=True)
        shape = [-1 if n is None else int(n) for n in tuple(wanted.shape)[1:]]
        values = values.astype("float32") if values.dtype.kind == "f" else values
        arrays.append(values.reshape([len(values), *shape]) if shape.count(-1) < 2 else
                      values)
    return arrays if len(arrays) > 1 else arrays[0]


class Rows:
    """This rank's rows: x and y, in the form that fit() requires, and weights or None."""

    def __init__(self, plan, model, folder, rank, size):
        features, labels = list(plan["feature_cols"]), list(plan["label_cols"])
        weight = plan["sample_weight_col"]
        rows = data.transformed(
            data.read_rows(folder, features + labels + ([weight] if weight else []), rank, size, 1),
            plan["transformation_fn"])
        self.x = inputs_of(model, features, [rows[c] for c in features])
        shapes = plan["label_shapes"] or [None] * len(labels)
        y = [data.numbers(c, rows[c], text=True) for c in labels]
        y = [values.reshape(s) if s else values for values, s in zip(y, shapes)]
        self.y = y if len(y) > 1 else y[0]
        self.weights = data.numbers(weight, rows[weight]).astype("float32") if weight else None


def _use_gpu(plan, hvd):
    """If TensorFlow does the computation, make it see only this rank's GPU, or none."""
    with contextlib.suppress(ImportError, RuntimeError, ValueError):
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        mine = gpus[hvd.local_rank():hvd.local_rank() + 1] if plan["use_gpu"] else []
        if gpus:
            tf.config.set_visible_devices(mine, "GPU")


def _compiled(plan, hvd):
    import keras

    model = made_model(plan["model"], plan["custom_objects"])
    if plan["resume"]:
        _load(model, plan["resume"])
    with keras.utils.custom_object_scope(plan["custom_objects"] or {}):
        optimizer = keras.optimizers.deserialize(plan["optimizer"])
    _scale_lr(optimizer, hvd.size())
    more = {"compression": plan["gradient_compression"]} if plan["gradient_compression"] else {}
    optimizer = hvd.DistributedOptimizer(
        optimizer, backward_passes_per_step=plan["backward_passes_per_step"], **more)
    weights = {"loss_weights": list(plan["loss_weights"])} if plan["loss_weights"] else {}
    loss = plan["loss"]
    loss = loss[0] if isinstance(loss, (list, tuple)) and len(loss) == 1 else loss
    model.compile(optimizer=optimizer, loss=loss, metrics=list(plan["metrics"]) or None, **weights)
    return model


def _scale_lr(optimizer, factor):
    """Multiply a learning rate that is a number; leave a schedule unchanged."""
    with contextlib.suppress(TypeError, AttributeError):
        optimizer.learning_rate = float(optimizer.learning_rate) * factor


def _callbacks(plan, model, hvd):
    import keras

    class Checkpoint(keras.callbacks.Callback):
        """Writes the weights to the store after each epoch, on rank 0."""

        def on_epoch_end(self, epoch, logs=None):
            plan["store"].write(plan["checkpoint"], _bytes(self.model))

    found = [hvd.callbacks.BroadcastGlobalVariablesCallback(0),
             hvd.callbacks.MetricAverageCallback()]
    for callback in plan["callbacks"]:
        if isinstance(callback, keras.callbacks.TensorBoard):  # of one rank, in the store
            if hvd.rank():
                continue
            callback.log_dir = plan["logs"] or callback.log_dir
        if isinstance(callback, hvd.callbacks.LearningRateScheduleCallback):
            callback.initial_lr = float(model.optimizer.learning_rate)
        found.append(callback)
    if hvd.rank() == 0:
        found += [plan["checkpoint_callback"]] if plan["checkpoint_callback"] else []
        found += [Checkpoint()] if plan["checkpoint"] else []
    return found


def _bytes(model):
    """Return weights as a NumPy file."""
    import io

    import numpy

    out = io.BytesIO()
    numpy.savez(out, *model.get_weights())
    return out.getvalue()


def _load(model, saved):
    """Load the weights of _bytes() into a model."""
    import io

    import numpy

    with numpy.load(io.BytesIO(saved), allow_pickle=False) as weights:
        model.set_weights([weights[name] for name in weights.files])


def train(plan):
    """Train as one rank.  Rank 0 returns (weights, history); the others return None.

    plan is a dict from estimator.py."""
    import horovod.keras as hvd
    import keras

    hvd.init()
    _use_gpu(plan, hvd)
    if plan["random_seed"] is not None:
        keras.utils.set_random_seed(plan["random_seed"])
    model = _compiled(plan, hvd)
    rows = Rows(plan, model, plan["train_path"], hvd.rank(), hvd.size())
    held = {}
    if plan["val_path"]:
        of_val = Rows(plan, model, plan["val_path"], hvd.rank(), hvd.size())
        more = () if of_val.weights is None else (of_val.weights,)
        held = {"validation_data": (of_val.x, of_val.y, *more),
                "validation_batch_size": plan["val_batch_size"] or plan["batch_size"],
                "validation_steps": plan["validation_steps_per_epoch"]}
    result = model.fit(rows.x, rows.y, sample_weight=rows.weights, batch_size=plan["batch_size"],
                       epochs=plan["epochs"], shuffle=plan["shuffle"],
                       steps_per_epoch=plan["train_steps_per_epoch"],
                       verbose=2 if plan["verbose"] and hvd.rank() == 0 else 0,
                       callbacks=_callbacks(plan, model, hvd), **held)
    if hvd.rank():
        return None
    return model.get_weights(), {name: [float(x) for x in values]
                                 for name, values in result.history.items()}
