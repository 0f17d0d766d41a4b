# estimator.py - TorchEstimator and TorchModel: fit a torch model to a DataFrame, and apply it.
# SPDX-License-Identifier: Apache-2.0

import copy
import io

from horovod.spark.common import data
from horovod.spark.common.estimator import HorovodEstimator, HorovodModel
from horovod.spark.common.parameters import named

from . import remote
from .parameters import MODEL_PARAMETERS, PARAMETERS, REFUSED


def on_cpu(model):
    """Return a copy of a model in host memory."""
    return copy.deepcopy(model).cpu()


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


class Torch:
    """Saves torch objects.  Tensors are saved by torch, so GPU tensors are loaded on the host.
    Classes and functions of the driver are saved with them."""

    @staticmethod
    def _packed(values):
        import torch
        from pyspark import cloudpickle

        out = io.BytesIO()
        torch.save(values, out, pickle_module=cloudpickle)
        return out.getvalue()

    @staticmethod
    def _unpacked(packed):
        return remote.loaded(packed)


@named
class TorchEstimator(Torch, HorovodEstimator):
    """Trains model to minimize loss, with optimizer, which has the model's parameters.

    Required: store, model, optimizer, loss (or loss_constructors), feature_cols and label_cols.
    The model is called with a tensor for each feature column, in their order, reshaped to
    input_shapes if given (-1 stands for the rows). It returns an output, or a tuple with one output
    for each label column.  loss is a function of output and label, or a list with one function for
    each label column, with loss_weights; loss_constructors are functions that create the losses on
    the ranks.  backend or num_proc determines where the ranks run; by default, they run in all task
    slots.  The learning rate is multiplied by the number of ranks.  validation is a column, or a
    fraction of the rows.  With sample_weight_col, losses are called with reduction="none". metrics
    are functions of the first output and label.  transformation_fn is called on the ranks; it gets
    and returns {column: value} of each row.  train_minibatch_fn(model, optimizer, inputs, labels,
    weights) returns (outputs, loss) and runs the step itself.  run_id names the checkpoint in the
    store; training continues from an existing one.

    Upstream parameters that only tune petastorm are accepted without effect.  Those that ringup
    does not support raise ValueError."""

    DEFAULTS, REFUSED, KIND, TRAIN = PARAMETERS, REFUSED, "torch", staticmethod(remote.train)

    def _needed(self, values):
        if values["loss_constructors"] is None:
            return self.NEEDED
        return [name for name in self.NEEDED if name != "loss"]

    def _checked(self):
        v = super()._checked()
        if v["loss"] is not None and v["loss_constructors"] is not None:
            raise ValueError("give loss or loss_constructors, not both")
        losses = _as_list(v["loss"] if v["loss_constructors"] is None else v["loss_constructors"])
        if len(losses) != len(v["label_cols"]):
            raise ValueError(f"{len(losses)} losses for {len(v['label_cols'])} label_cols")
        shapes = v["input_shapes"]
        if shapes and len(shapes) != len(v["feature_cols"]):
            raise ValueError(f"{len(shapes)} input_shapes for {len(v['feature_cols'])} "
                             "feature_cols")
        return v

    def _plan(self):
        v = self.values()
        losses = None if v["loss"] is None else _as_list(v["loss"])
        makers = None if losses else _as_list(v["loss_constructors"])
        count = len(v["label_cols"])
        return {"loss": losses, "loss_constructors": makers,
                "loss_weights": v["loss_weights"] or [1.0 / count] * count,
                "input_shapes": v["input_shapes"] or [None] * len(v["feature_cols"]),
                "label_shapes": v["label_shapes"] or [None] * count, "model": on_cpu(v["model"]),
                **remote.saved_optimizer(v["model"], v["optimizer"])}

    def _fitted(self, result, **known):
        state, history = result
        v = self.values()
        model = on_cpu(v["model"])
        state = remote.loaded(state)
        model.load_state_dict(state["model"])
        optimizer = remote.made_optimizer(remote.saved_optimizer(v["model"], v["optimizer"]), model)
        optimizer.load_state_dict(state["optimizer"])
        return TorchModel(model=model.train(False), optimizer=optimizer, history=history,
                          input_shapes=v["input_shapes"], loss=v["loss"],
                          loss_constructors=v["loss_constructors"], **known)


@named
class TorchModel(Torch, HorovodModel):
    """A fitted torch model.  transform() adds output_cols, by default LABEL__output for each label.

    history is a list with a dict for each epoch, which contains epoch, train and validation, with
    loss and metrics."""

    DEFAULTS = MODEL_PARAMETERS

    def _predict(self):
        v = self.values()
        return Predict(on_cpu(v["model"]).train(False), v["feature_columns"], v["input_shapes"],
                       self._label_types())


class Predict(data.Predict):
    """Is applied to the rows of a partition, and returns the same rows with the model's outputs
    appended."""

    def __init__(self, model, features, shapes, label_types):
        super().__init__(features, label_types)
        self.model, self.shapes = model, shapes or [None] * len(features)

    def outputs(self, columns):
        import torch

        inputs = [remote.tensor(name, values, shape) for name, values, shape in
                  zip(self.features, columns, self.shapes)]
        with torch.no_grad():
            out = self.model(*inputs)
        return [o.reshape(len(columns[0]), -1).double().numpy() for o in
                (out if isinstance(out, (list, tuple)) else [out])]
