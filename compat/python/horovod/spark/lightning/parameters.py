# parameters.py - the parameters of TorchEstimator for Lightning.
# SPDX-License-Identifier: Apache-2.0

from horovod.spark.common import estimator

_MODULE = ("a LightningModule has its own: configure_optimizers() and training_step(); for a plain "
           "model of torch use horovod.spark.torch.TorchEstimator")
PARAMETERS = {
    **{name: value for name, value in estimator.PARAMETERS.items()
       if name not in ("optimizer", "loss", "loss_weights", "metrics")},
    "input_shapes": None, "callbacks": [], "logger": None, "log_every_n_steps": 50,
    "profiler": None, "trainer_args": None, "num_gpus": None,
    # They tune how petastorm reads data, as those of all estimators.
    "loader_num_epochs": None, "debug_data_loader": False,
    "train_async_data_loader_queue_size": None, "val_async_data_loader_queue_size": None,
}
REFUSED = {
    **estimator.REFUSED, "optimizer": _MODULE, "loss": _MODULE, "loss_constructors": _MODULE,
    "loss_weights": _MODULE, "train_minibatch_fn": _MODULE,
    "metrics": "log them in training_step() and validation_step(), with self.log()",
    "terminate_on_nan": "Lightning 2 has trainer_args={'detect_anomaly': True}, and "
                        "EarlyStopping(check_finite=True)",
}
