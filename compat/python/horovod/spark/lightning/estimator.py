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
    """Trains model, a LightningModule, with a Trainer of Lightning on each rank.

    Needed: store, model, feature_cols, label_cols.  training_step() and validation_step() get a
    dict with a tensor for each of these columns, and for sample_weight_col.  Optimizers are those
    of configure_optimizers(); the learning rate is multiplied by the number of ranks.  callbacks,
    logger, profiler, log_every_n_steps and trainer_args are the Trainer's; what a ModelCheckpoint
    keeps is in the run's folder of the store, and the fitted model is its best.  input_shapes: of
    the features as transform() gives them to the module's forward().  backend, or num_proc: where
    the ranks run; by default in all task slots.  validation: a column, or a share of the rows.
    transformation_fn: gets and returns {column: value} of each row, on the ranks.  run_id: of the
    checkpoint in the store; training goes on from one that is there.

    Parameters of upstream's that only tune petastorm are accepted and change nothing; those that
    ringup lacks raise ValueError.
    """

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
    """A fitted module; transform() calls its forward() with a tensor for each feature column.

    history: a list with a dict for each epoch: epoch, and what the module has logged.
    """
