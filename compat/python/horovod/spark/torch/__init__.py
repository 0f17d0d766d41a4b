# __init__.py - horovod.spark.torch: an estimator of Spark ML for models of torch.
# SPDX-License-Identifier: Apache-2.0

from .estimator import TorchEstimator, TorchModel

__all__ = ["TorchEstimator", "TorchModel"]
