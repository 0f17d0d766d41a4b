# __init__.py - horovod.spark.torch: a Spark ML estimator for torch models.
# SPDX-License-Identifier: Apache-2.0

from .estimator import TorchEstimator, TorchModel

__all__ = ["TorchEstimator", "TorchModel"]
