# __init__.py - ringup.spark: ranks on Spark's executors, or on the driver alone.
# SPDX-License-Identifier: Apache-2.0
"""Runs ranks on Spark.  Spark schedules a barrier stage with a task for each rank.  ringup starts
the ranks there, in processes of their own, connects them, ends them together and reports which one
failed.

    import ringup.spark
    results = ringup.spark.run(train, (0.001,), num_proc=4)

sparkdl.HorovodRunner, horovod.spark.run() and ringup.spark.TorchDistributor use this package.  It
needs pyspark only when it submits a stage."""

from .failure import JobFailed
from .pickling import CannotPickle
from .rank import log_to_driver
from .stage import run
from .torch_distributor import TorchDistributor
