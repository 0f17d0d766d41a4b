# parameters.py - the parameters of KerasEstimator and KerasModel.
# SPDX-License-Identifier: Apache-2.0

from horovod.spark.common import estimator

PARAMETERS = {**estimator.PARAMETERS, "callbacks": [], "custom_objects": None,
              "checkpoint_callback": None}
MODEL_PARAMETERS = {**estimator.MODEL_PARAMETERS, "custom_objects": None}
