# __init__.py - horovod.spark.lightning: a Spark ML estimator for Lightning modules.
# SPDX-License-Identifier: Apache-2.0

from .estimator import TorchEstimator, TorchModel

__all__ = ["TorchEstimator", "TorchModel"]
