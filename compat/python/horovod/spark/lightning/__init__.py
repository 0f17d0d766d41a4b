# __init__.py - horovod.spark.lightning: an estimator of Spark ML for modules of Lightning.
# SPDX-License-Identifier: Apache-2.0

from .estimator import TorchEstimator, TorchModel

__all__ = ["TorchEstimator", "TorchModel"]
