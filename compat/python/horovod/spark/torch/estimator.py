# estimator.py - TorchEstimator and TorchModel: fit a model of torch to a DataFrame, and apply it.
# SPDX-License-Identifier: Apache-2.0
"""fit() writes the columns that are needed to the store as Parquet, trains on num_proc ranks, each
of which reads its share into memory, and gives a TorchModel.  That adds a column to a DataFrame for
each label: a number where the model's output has one element, else a vector."""

import copy
import io
import uuid

from pyspark.ml import Estimator

from horovod.spark.common import data
from horovod.spark.common.model import FittedModel
from ringup.spark import job, stage

from . import remote
from .parameters import TABLE


def _saved(obj):
    import torch

    out = io.BytesIO()
    torch.save(obj, out)
    return out.getvalue()


def _on_cpu(model):
    return copy.deepcopy(model).cpu()


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


class TorchEstimator(Estimator):
    """Trains model, with optimizer, which has been made of its parameters, to minimize loss.

    Needed: store, model, optimizer, loss, feature_cols, label_cols.  The model is called with a
    tensor for each feature column, in their order, reshaped to input_shapes if these are given
    (-1 stands for the rows), and gives an output, or a tuple of one for each label column.  loss is
    a function of output and label, or a list of one for each label column, with loss_weights.
    num_proc: ranks; None for all task slots.  validation: a column, or a share of the rows.
    sample_weight_col: then losses are called with reduction="none".  metrics: functions of the
    first output and label.  transformation_fn: gets and returns {column: numpy array} on the ranks.
    train_minibatch_fn(model, optimizer, inputs, labels, weights) returns (outputs, loss) and makes
    the step itself.  run_id: of the checkpoint in the store; each run has a new one by default.

    Parameters of upstream's that only change how data are read are accepted and change nothing;
    those that mean something that is not there raise ValueError.
    """

    def __init__(self, **kwargs):
        super().__init__()
        self._values = TABLE.values(kwargs)

    def copy(self, extra=None):
        """Another one with the same values; Spark ML calls it."""
        other = type(self)(**self._values)
        other.uid = self.uid
        return other

    def _check(self):
        needed = ("store", "model", "optimizer", "loss", "feature_cols", "label_cols")
        missing = [name for name in needed if not self._values[name]]
        if missing:
            raise ValueError(f"TorchEstimator needs {', '.join(missing)}")
        shapes = self._values["input_shapes"]
        if shapes and len(shapes) != len(self._values["feature_cols"]):
            raise ValueError(f"{len(shapes)} input_shapes for "
                             f"{len(self._values['feature_cols'])} feature_cols")

    def _optimizer_plan(self):
        """What makes the same optimizer for the same model again."""
        model, optimizer = self._values["model"], self._values["optimizer"]
        names = {id(p): name for name, p in model.named_parameters()}
        try:
            groups = [[names[id(p)] for p in g["params"]] for g in optimizer.param_groups]
        except KeyError:
            raise ValueError("the optimizer has parameters that are not the model's: make it of "
                             "model.parameters()") from None
        lr = {"lr": optimizer.defaults["lr"]} if "lr" in optimizer.defaults else {}
        return {"groups": groups, "optimizer_class": type(optimizer), "optimizer_defaults": lr,
                "optimizer_state": _saved(optimizer.state_dict())}

    def _plan(self, run_id, has_validation):
        v = self._values
        features, labels = list(v["feature_cols"]), list(v["label_cols"])
        losses = _as_list(v["loss"])
        if len(losses) != len(labels):
            raise ValueError(f"{len(losses)} losses for {len(labels)} label_cols")
        store = v["store"]
        same = ("metrics", "sample_weight_col", "batch_size", "epochs", "verbose", "random_seed",
                "shuffle", "train_minibatch_fn", "train_steps_per_epoch", "use_gpu", "store",
                "validation_steps_per_epoch", "transformation_fn", "gradient_compression",
                "backward_passes_per_step")
        return {**{name: v[name] for name in same}, **self._optimizer_plan(),
                "feature_cols": features, "label_cols": labels, "loss": losses,
                "loss_weights": v["loss_weights"] or [1.0 / len(losses)] * len(losses),
                "input_shapes": v["input_shapes"] or [None] * len(features),
                "label_shapes": v["label_shapes"] or [None] * len(labels),
                "val_batch_size": v["val_batch_size"] or v["batch_size"],
                "model": _on_cpu(v["model"]), "checkpoint": store.get_checkpoint_path(run_id),
                "train_path": store.get_train_data_path(run_id),
                "val_path": store.get_val_data_path(run_id) if has_validation else None}

    def _fit(self, df):
        """What fit() calls."""
        self._check()
        v = self._values
        run_id = v["run_id"] or f"torch_{uuid.uuid4().hex}"
        columns = [*v["feature_cols"], *v["label_cols"]]
        columns += [v["sample_weight_col"]] if v["sample_weight_col"] else []
        wanted = columns + ([v["validation"]] if isinstance(v["validation"], str) else [])
        types = {c: df.schema[c].dataType for c in v["label_cols"]}
        train, held = data.split(data.vectors_to_arrays(df.select(*wanted), wanted),
                                 v["validation"], v["random_seed"])
        plan = self._plan(run_id, held is not None)
        try:
            train.write.mode("overwrite").parquet(plan["train_path"])
            if held is not None:
                held.write.mode("overwrite").parquet(plan["val_path"])
            state, history = self._train(plan)
        finally:
            v["store"].delete(plan["train_path"])
            if plan["val_path"]:
                v["store"].delete(plan["val_path"])
        return self._model(state, history, run_id, types)

    def _train(self, plan):
        output = stage.to_stdout() if self._values["verbose"] else job.Output()
        return stage.run(remote.train, (plan,), num_proc=self._values["num_proc"], output=output,
                         description="TorchEstimator")[0]

    def _model(self, state, history, run_id, types):
        import torch

        model = _on_cpu(self._values["model"])
        model.load_state_dict(torch.load(io.BytesIO(state), weights_only=True))
        return TorchModel(model=model, history=history, run_id=run_id, label_types=types,
                          feature_cols=list(self._values["feature_cols"]),
                          label_cols=list(self._values["label_cols"]),
                          input_shapes=self._values["input_shapes"])


class TorchModel(FittedModel):
    """A fitted model; transform() adds output_cols, by default LABEL__output for each label.

    history: a list with a dict for each epoch: epoch, train and validation, with loss and metrics.
    """

    def __init__(self, model, feature_cols, label_cols, label_types=None, history=None,
                 run_id=None, input_shapes=None, output_cols=None):
        super().__init__()
        self._values = {"model": model, "feature_cols": feature_cols, "label_cols": label_cols,
                        "label_types": label_types or {}, "history": history, "run_id": run_id,
                        "input_shapes": input_shapes, "output_cols": output_cols}

    def getModel(self):
        """The model of torch."""
        return self._values["model"]

    def get_history(self):
        """The same as getHistory()."""
        return self._values["history"]

    def _transform(self, df):
        """What transform() calls: the model in batches, where the rows are."""
        v = self._values
        predict = Predict(_on_cpu(v["model"]).train(False), list(v["feature_cols"]),
                          v["input_shapes"], [v["label_types"].get(c) for c in v["label_cols"]])
        return data.transform(df, predict, self.getOutputCols())


TABLE.add_accessors(TorchEstimator)
TABLE.add_accessors(TorchModel, ("history", "run_id", "feature_cols", "label_cols"))


class Predict(data.Predict):
    """Applied to the rows of a partition: the same rows with the model's outputs behind."""

    def __init__(self, model, features, shapes, label_types):
        super().__init__(features, label_types)
        self.model, self.shapes = model, shapes or [None] * len(features)

    def outputs(self, columns):
        import torch

        inputs = []
        for values, shape in zip(columns, self.shapes):
            t = torch.as_tensor(values)
            t = t.float() if t.is_floating_point() else t
            inputs.append(t.reshape(shape) if shape else t)
        with torch.no_grad():
            out = self.model(*inputs)
        return [o.reshape(len(columns[0]), -1).double().numpy() for o in
                (out if isinstance(out, (list, tuple)) else [out])]
