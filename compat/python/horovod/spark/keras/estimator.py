# estimator.py - KerasEstimator and KerasModel: fit a Keras model to a DataFrame, and apply it.
# SPDX-License-Identifier: Apache-2.0

from horovod.spark.common import data
from horovod.spark.common.estimator import REFUSED, HorovodEstimator, HorovodModel
from horovod.spark.common.parameters import named

from . import remote
from .parameters import MODEL_PARAMETERS, PARAMETERS


class Keras:
    """Saves Keras objects: a model as its JSON and weights, an optimizer as its configuration."""

    @staticmethod
    def _packed(values):
        from pyspark import cloudpickle

        as_data = {"model": remote.saved_model, "optimizer": remote.saved_optimizer}
        return cloudpickle.dumps({name: as_data.get(name, lambda value: value)(value)
                                  for name, value in values.items()})

    @staticmethod
    def _unpacked(packed):
        import keras
        from pyspark import cloudpickle

        values = cloudpickle.loads(packed)
        custom = values.get("custom_objects")
        if values.get("model") is not None:
            values["model"] = remote.made_model(values["model"], custom)
        if values.get("optimizer") is not None:
            with keras.utils.custom_object_scope(custom or {}):
                values["optimizer"] = keras.optimizers.deserialize(values["optimizer"])
        return values


@named
class KerasEstimator(Keras, HorovodEstimator):
    """Trains model with optimizer to minimize loss, as keras.Model.fit() does.

    Required: store, model, loss, feature_cols and label_cols; also optimizer, unless the model is
    compiled.  The model is built from its JSON and weights on each rank, with custom_objects.  It
    gets an array for each feature column, reshaped to the shape of that input.  loss is the
    argument of compile(), or a list with one loss for each label column, with loss_weights; the
    same holds for metrics.  callbacks are called on all ranks, and checkpoint_callback on rank 0.
    backend or num_proc determines where the ranks run; by default, they run in all task slots.  The
    learning rate is multiplied by the number of ranks.  validation is a column, or a fraction of
    the rows.  sample_weight_col is a column of weights.  transformation_fn is called on the ranks;
    it gets and returns {column: value} of each row.  run_id names the checkpoint in the store;
    training continues from an existing one.

    Upstream parameters that only tune petastorm are accepted without effect.  Those that ringup
    does not support raise ValueError."""

    DEFAULTS, REFUSED, KIND, TRAIN = PARAMETERS, REFUSED, "keras", staticmethod(remote.train)

    def _adopt(self):
        """Take over the optimizer that a model is compiled with, because the model's data does not
        contain it."""
        compiled = getattr(self.getModel(), "optimizer", None)
        if self.getOptimizer() is None and compiled is not None:
            self.setOptimizer(compiled)

    def _checked(self):
        self._adopt()
        return super()._checked()

    def _to_save(self):
        self._adopt()
        return super()._to_save()

    def _plan(self):
        v = self.values()
        return {"model": remote.saved_model(v["model"]),
                "optimizer": remote.saved_optimizer(v["optimizer"])}

    def _fitted(self, result, **known):
        weights, history = result
        v = self.values()
        saved = {**remote.saved_model(v["model"]), "weights": weights}
        return KerasModel(model=remote.made_model(saved, v["custom_objects"]), history=history,
                          custom_objects=v["custom_objects"], **known)


@named
class KerasModel(Keras, HorovodModel):
    """A fitted Keras model.  transform() adds output_cols, by default LABEL__output for each label.

    history is the history of keras.Model.fit(): for each name, a list with one value per epoch."""

    DEFAULTS = MODEL_PARAMETERS

    def _predict(self):
        v = self.values()
        return Predict(remote.saved_model(v["model"]), v["custom_objects"], v["feature_columns"],
                       self._label_types())


class Predict(data.Predict):
    """Is applied to the rows of a partition, and returns the same rows with the model's outputs
    appended."""

    def __init__(self, saved, custom_objects, features, label_types):
        super().__init__(features, label_types)
        self.saved, self.custom_objects, self.model = saved, custom_objects, None

    def __getstate__(self):
        return {**self.__dict__, "model": None}  # a model is made where it is called

    def outputs(self, columns):
        import numpy

        if self.model is None:
            self.model = remote.made_model(self.saved, self.custom_objects)
        out = self.model.predict(remote.inputs_of(self.model, self.features, columns), verbose=0)
        return [numpy.asarray(o, dtype="float64").reshape(len(columns[0]), -1) for o in
                (out if isinstance(out, (list, tuple)) else [out])]
