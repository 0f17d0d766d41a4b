# __init__.py - horovod.spark.keras: a Spark ML estimator for Keras models.
# SPDX-License-Identifier: Apache-2.0

from .estimator import KerasEstimator, KerasModel

__all__ = ["KerasEstimator", "KerasModel"]
