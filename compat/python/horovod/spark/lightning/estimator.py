# estimator.py - TorchEstimator for Lightning: fit a module to a DataFrame, and apply it.
# SPDX-License-Identifier: Apache-2.0

from horovod.spark.common.estimator import HorovodEstimator
from horovod.spark.common.parameters import named
from horovod.spark.torch import estimator as of_torch

from . import remote
from .parameters import PARAMETERS, REFUSED

MIN_PL_VERSION = "2.0.0"  # programs compare theirs with it


@named
class TorchEstimator(of_torch.Torch, HorovodEstimator):
    """Trains model, a LightningModule, with a Lightning Trainer on each rank.

    Required: store, model, feature_cols and label_cols.  training_step() and validation_step() get
    a dict with a tensor for each of these columns, and for sample_weight_col.  Optimizers are those
    of configure_optimizers(); the learning rate is multiplied by the number of ranks.  callbacks,
    logger, profiler, log_every_n_steps and trainer_args are passed to the Trainer.  Files of a
    ModelCheckpoint are in the run's folder of the store, and its best model becomes the fitted
    model.  input_shapes are the shapes of the features that transform() passes to the module's
    forward(). backend or num_proc determines where the ranks run; by default, they run in all task
    slots.  validation is a column, or a fraction of the rows.  transformation_fn is called on the
    ranks; it gets and returns {column: value} of each row.  run_id names the checkpoint in the
    store; training continues from an existing one.

    Upstream parameters that only tune petastorm are accepted without effect.  Those that ringup
    does not support raise ValueError."""

    DEFAULTS, REFUSED, KIND, TRAIN = PARAMETERS, REFUSED, "lightning", staticmethod(remote.train)
    NEEDED = ("store", "model", "feature_cols", "label_cols")

    def _checked(self):
        v = super()._checked()
        remote.package_of(v["model"])
        if v["num_gpus"] not in (None, 0, 1):
            raise ValueError(f"num_gpus={v['num_gpus']!r}: a rank uses one GPU, or none (0); to "
                             "use more, raise num_proc")
        return v

    def _plan(self):
        v = self.values()
        use_gpu = v["use_gpu"] and v["num_gpus"] != 0
        return {"model": of_torch.on_cpu(v["model"]), "package": remote.package_of(v["model"]),
                "use_gpu": use_gpu, "callbacks": list(v["callbacks"]),
                "trainer_args": dict(v["trainer_args"] or {})}

    def _fitted(self, result, **known):
        state, history = result
        model = of_torch.on_cpu(self.getModel())
        model.load_state_dict(of_torch.remote.loaded(state)["model"])
        return TorchModel(model=model.train(False), history=history,
                          input_shapes=self.getInputShapes(), **known)


@named
class TorchModel(of_torch.TorchModel):
    """A fitted module.  transform() calls its forward() with a tensor for each feature column.

    history is a list with a dict for each epoch, which contains epoch and the metrics that the
    module has logged."""
