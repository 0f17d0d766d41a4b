# parameters.py - the parameters of TorchEstimator and TorchModel.
# SPDX-License-Identifier: Apache-2.0

from horovod.spark.common import estimator

PARAMETERS = {**estimator.PARAMETERS, "input_shapes": None, "train_minibatch_fn": None,
              "loss_constructors": None}
REFUSED = {
    **estimator.REFUSED,
    "callbacks": "its training loop calls none, as upstream's; getHistory() has losses and metrics "
                 "of all epochs, and horovod.spark.lightning calls callbacks",
}
MODEL_PARAMETERS = {**estimator.MODEL_PARAMETERS, "input_shapes": None, "optimizer": None,
                    "loss": None, "loss_constructors": None}
