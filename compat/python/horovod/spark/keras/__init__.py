# __init__.py - horovod.spark.keras: an estimator of Spark ML for models of Keras.
# SPDX-License-Identifier: Apache-2.0

from .estimator import KerasEstimator, KerasModel

__all__ = ["KerasEstimator", "KerasModel"]
