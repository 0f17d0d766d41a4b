# estimator.py - code that the estimators and models of all frameworks share.
# SPDX-License-Identifier: Apache-2.0
"""fit() writes the columns that it needs to the store as Parquet, and runs a framework's train() on
the ranks, each of which reads its share into memory.  A subclass knows its framework: how to plan
the training, and how to make a fitted model from rank 0's result."""

import numbers
import sys
import uuid

from pyspark.ml import Estimator, Model

from . import data
from .backend import SparkBackend
from .parameters import Parameters
from .saved import Saved

# name: default, of every estimator.  All of them are upstream's.
PARAMETERS = {
    "num_proc": None, "backend": None, "store": None, "model": None, "optimizer": None,
    "loss": None, "loss_weights": None, "metrics": [], "sample_weight_col": None,
    "feature_cols": None, "label_cols": None, "label_shapes": None, "validation": None,
    "batch_size": 32, "val_batch_size": None, "epochs": 1, "verbose": 1, "random_seed": None,
    "shuffle": True, "run_id": None, "train_steps_per_epoch": None,
    "validation_steps_per_epoch": None, "transformation_fn": None, "use_gpu": True,
    "gradient_compression": None, "backward_passes_per_step": 1, "backend_env": None,
    # These tune how petastorm reads data, and change no result: each rank holds its rows in memory
    # here.  Of shuffle_buffer_size, 0 means that nothing is shuffled.
    "shuffle_buffer_size": None, "partitions_per_process": 10, "train_reader_num_workers": 2,
    "val_reader_num_workers": 2, "reader_pool_type": "thread", "inmemory_cache_all": False,
    "mp_start_method": None, "compress_sparse_cols": False,
    # What transformation_fn returns says this by itself.
    "transformation_edit_fields": None, "transformation_removed_fields": None,
}
REFUSED = {
    "data_module": "the ranks read the store's Parquet files into memory; a transformation_fn "
                   "changes rows, to read data in another way, write your own loop and run it "
                   "with horovod.spark.run()",
    "continuous_cols": "they belong to NVTabular's data module; name all columns in feature_cols",
    "categorical_cols": "they belong to NVTabular's data module; name all columns in feature_cols",
}
# What ranks do not get: it stays on the driver, or the framework's plan has it in another form.
OF_DRIVER = ("num_proc", "backend", "model", "optimizer", "validation", "run_id", "backend_env")


class HorovodEstimator(Estimator, Parameters, Saved):
    """A subclass defines KIND, the first word of its run ids; TRAIN, a static function that gets
    the plan on each rank; _plan() and _fitted()."""

    NEEDED = ("store", "model", "optimizer", "loss", "feature_cols", "label_cols")
    LEFT_OUT = ("store", "backend")

    def __init__(self, **kwargs):
        super().__init__(kwargs)

    def fit_on_parquet(self, params=None):
        """Train on Parquet files that are already in the store, instead of a DataFrame.

        They were written by prepare_data() or any other program: to store.get_train_data_path()
        and, for validation, to store.get_val_data_path(). Returns a fitted model."""
        if params:
            return self.copy(params).fit_on_parquet()
        store = self._checked()["store"]
        columns = self._columns()
        schema = data.stored_schema(store.get_train_data_path(), columns)
        held = store.is_parquet_dataset(store.get_val_data_path())
        if held:
            data.stored_schema(store.get_val_data_path(), columns)
        return self._fit_on(None, {c: schema[c].dataType for c in self.getLabelCols()}, held)

    def _fit(self, df):
        """The implementation of fit()."""
        v = self._checked()
        idx, columns = uuid.uuid4().hex, self._columns()
        types = {c: df.schema[c].dataType for c in v["label_cols"]}
        try:
            held = data.write(v["store"], idx, df, columns, v["validation"], v["random_seed"])
            return self._fit_on(idx, types, held)
        finally:
            data.delete(v["store"], idx)

    def _columns(self):
        weight = self.getSampleWeightCol()
        return [*self.getFeatureCols(), *self.getLabelCols(), *([weight] if weight else [])]

    def _needed(self, values):
        """Return the names of parameters that must have a value."""
        return self.NEEDED

    def _checked(self):
        """Return values(); raise ValueError if a required value is missing."""
        v = self.values()
        missing = [name for name in self._needed(v) if _is_missing(v[name])]
        if missing:
            raise ValueError(f"{type(self).__name__} needs {', '.join(missing)}")
        for name in ("feature_cols", "label_cols"):
            if isinstance(v[name], str):
                raise TypeError(f"{name}={v[name]!r} is a string: give a list, [{v[name]!r}]")
        for name in ("batch_size", "epochs", "backward_passes_per_step"):
            if not isinstance(v[name], numbers.Integral) or v[name] < 1:
                raise ValueError(f"{name}={v[name]!r}: a whole number of 1 or more")
        if v["backend"] is not None and v["num_proc"] is not None:
            raise ValueError("give num_proc or backend, not both: a backend has its own num_proc, "
                             "as in SparkBackend(num_proc=2)")
        if callable(getattr(v["store"], "get_train_data_path", None)):
            return v
        raise TypeError(f"store={v['store']!r}: pass a Store, such as Store.create(PATH)")

    def _backend(self):
        if self.getBackend() is not None:
            return self.getBackend()
        streams = {"stdout": sys.stdout, "stderr": sys.stderr} if self.getVerbose() else {}
        return SparkBackend(self.getNumProc(), verbose=self.getVerbose(), **streams)

    def _fit_on(self, idx, label_types, has_validation):
        """Train on the store's data number idx."""
        v = self.values()
        store, run_id = v["store"], v["run_id"] or f"{self.KIND}_{uuid.uuid4().hex}"
        checkpoint = store.get_checkpoint_file(run_id)
        plan = {name: value for name, value in v.items() if name not in OF_DRIVER}
        plan.update(
            feature_cols=list(v["feature_cols"]), label_cols=list(v["label_cols"]),
            shuffle=v["shuffle"] and v["shuffle_buffer_size"] != 0, checkpoint=checkpoint,
            logs=store.get_logs_path(run_id),
            val_batch_size=v["val_batch_size"] or v["batch_size"], resume=None,
            train_path=store.get_train_data_path(idx),
            val_path=store.get_val_data_path(idx) if has_validation else None)
        if v["run_id"] and checkpoint and store.exists(checkpoint):
            plan["resume"] = store.read(checkpoint)
            if v["verbose"]:
                print(f"{type(self).__name__}: training goes on from {checkpoint}")
        plan.update(self._plan())
        results = self._backend().run(self.TRAIN, args=(plan,), env=v["backend_env"])
        return self._fitted(results[0], run_id=run_id, label_types=label_types,
                            feature_columns=list(v["feature_cols"]),
                            label_columns=list(v["label_cols"]))


def _is_missing(value):
    return value is None or (isinstance(value, (str, list, tuple, dict)) and not value)


# name: default, of every fitted model; label_types, of Spark, are ringup's own.
MODEL_PARAMETERS = {"history": None, "model": None, "feature_columns": None, "label_columns": None,
                    "run_id": None, "output_cols": None, "label_types": None}


class HorovodModel(Model, Parameters, Saved):
    """A fitted model.  transform() adds output_cols, by default LABEL__output for each label.  A
    subclass defines _predict(), which returns a data.Predict."""

    def __init__(self, **kwargs):
        super().__init__(kwargs)

    def getOutputCols(self):
        """Return the names of the columns that transform() adds."""
        return self.getOrDefault("output_cols") or \
            [f"{c}__output" for c in self.getOrDefault("label_columns")]

    def get_history(self):
        """Return getHistory()."""
        return self.getOrDefault("history")

    def _label_types(self):
        types = self.getOrDefault("label_types") or {}
        return [types.get(c) for c in self.getOrDefault("label_columns")]

    def _transform(self, df):
        """The implementation of transform(): apply the model in batches, on the executors."""
        for name in ("model", "feature_columns", "label_columns"):
            if self.getOrDefault(name) is None:
                raise ValueError(f"{type(self).__name__} needs {name}")
        return data.transform(df, self._predict(), self.getOutputCols())
