# estimator.py - KerasEstimator and KerasModel: fit a model of Keras to a DataFrame, and apply it.
# SPDX-License-Identifier: Apache-2.0
"""As horovod.spark.torch's: fit() writes the columns that are needed to the store as Parquet,
trains on num_proc ranks, each of which reads its share into memory, and gives a KerasModel, which
adds a column to a DataFrame for each label."""

import uuid

from pyspark.ml import Estimator

from horovod.spark.common import data
from horovod.spark.common.model import FittedModel
from ringup.spark import job, stage

from . import remote
from .parameters import TABLE


class KerasEstimator(Estimator):
    """Trains model, with optimizer, to minimize loss, as keras.Model.fit() does it.

    Needed: store, model, optimizer, loss, feature_cols, label_cols.  The model is built from its
    JSON and its weights on each rank, with custom_objects, and gets an array for each feature
    column, reshaped to the shape of that input.  loss is what compile() takes, or a list of one for
    each label column, with loss_weights; so are metrics.  callbacks are called on all ranks, and
    checkpoint_callback on rank 0.  num_proc: ranks; None for all task slots.  validation: a column,
    or a share of the rows.  sample_weight_col: a column of weights.  transformation_fn: gets and
    returns {column: numpy array} on the ranks.  run_id: of the checkpoint in the store.

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

    def _plan(self, run_id, has_validation):
        v = self._values
        needed = ("store", "model", "optimizer", "loss", "feature_cols", "label_cols")
        missing = [name for name in needed if v[name] is None]
        if missing:
            raise ValueError(f"KerasEstimator needs {', '.join(missing)}")
        store = v["store"]
        left_out = ("model", "optimizer", "num_proc", "validation", "run_id")
        return {**{name: value for name, value in v.items() if name not in left_out},
                "model": remote.saved_model(v["model"]),
                "optimizer": remote.saved_optimizer(v["optimizer"]),
                "checkpoint": store.get_checkpoint_path(run_id),
                "train_path": store.get_train_data_path(run_id),
                "val_path": store.get_val_data_path(run_id) if has_validation else None}

    def _fit(self, df):
        """What fit() calls."""
        v = self._values
        run_id = v["run_id"] or f"keras_{uuid.uuid4().hex}"
        plan = self._plan(run_id, bool(v["validation"]))
        columns = [*v["feature_cols"], *v["label_cols"]]
        columns += [v["sample_weight_col"]] if v["sample_weight_col"] else []
        wanted = columns + ([v["validation"]] if isinstance(v["validation"], str) else [])
        train, held = data.split(data.vectors_to_arrays(df.select(*wanted), wanted),
                                 v["validation"], v["random_seed"])
        try:
            train.write.mode("overwrite").parquet(plan["train_path"])
            if held is not None:
                held.write.mode("overwrite").parquet(plan["val_path"])
            output = stage.to_stdout() if v["verbose"] else job.Output()
            weights, history = stage.run(remote.train, (plan,), num_proc=v["num_proc"],
                                         output=output, description="KerasEstimator")[0]
        finally:
            v["store"].delete(plan["train_path"])
            if plan["val_path"]:
                v["store"].delete(plan["val_path"])
        saved = {**plan["model"], "weights": weights}
        return KerasModel(saved=saved, history=history, run_id=run_id,
                          custom_objects=v["custom_objects"],
                          label_types={c: df.schema[c].dataType for c in v["label_cols"]},
                          feature_cols=list(v["feature_cols"]), label_cols=list(v["label_cols"]))


class KerasModel(FittedModel):
    """A fitted model; transform() adds output_cols, by default LABEL__output for each label.

    history: what keras.Model.fit() tells, a list of one value an epoch for each name.
    """

    def __init__(self, saved, feature_cols, label_cols, label_types=None, history=None,
                 run_id=None, custom_objects=None, output_cols=None):
        super().__init__()
        self._values = {"saved": saved, "feature_cols": feature_cols, "label_cols": label_cols,
                        "label_types": label_types or {}, "history": history, "run_id": run_id,
                        "custom_objects": custom_objects, "output_cols": output_cols}

    def getModel(self):
        """The model of Keras, with its weights."""
        return remote.made_model(self._values["saved"], self._values["custom_objects"])

    def _transform(self, df):
        """What transform() calls: the model in batches, where the rows are."""
        v = self._values
        predict = Predict(v["saved"], v["custom_objects"], list(v["feature_cols"]),
                          [v["label_types"].get(c) for c in v["label_cols"]])
        return data.transform(df, predict, self.getOutputCols())


TABLE.add_accessors(KerasEstimator)
TABLE.add_accessors(KerasModel, ("run_id", "feature_cols", "label_cols"))
KerasModel.getHistory = KerasModel.get_history = lambda self: self._values["history"]


class Predict(data.Predict):
    """Applied to the rows of a partition: the same rows with the model's outputs behind."""

    def __init__(self, saved, custom_objects, features, label_types):
        super().__init__(features, label_types)
        self.saved, self.custom_objects, self.model = saved, custom_objects, None

    def __getstate__(self):
        return {**self.__dict__, "model": None}  # a model is made where it is called

    def outputs(self, columns):
        import numpy

        if self.model is None:
            self.model = remote.made_model(self.saved, self.custom_objects)
        out = self.model.predict(remote.inputs_of(self.model, columns), verbose=0)
        return [numpy.asarray(o, dtype="float64").reshape(len(columns[0]), -1) for o in
                (out if isinstance(out, (list, tuple)) else [out])]
