# __init__.py - ringup.spark: ranks on Spark's executors, or on the driver alone.
# SPDX-License-Identifier: Apache-2.0
"""Spark schedules: a barrier stage has a task for each rank.  ringup starts the ranks there, in
processes of their own, brings them together, ends them together and tells which one failed.

    import ringup.spark
    results = ringup.spark.run(train, (0.001,), num_proc=4)

sparkdl.HorovodRunner, horovod.spark.run() and ringup.spark.TorchDistributor are made of this.
Neither this package nor its parts need pyspark before a stage is submitted.
"""

from .failure import JobFailed
from .pickling import CannotPickle
from .rank import log_to_driver
from .stage import run
from .torch_distributor import TorchDistributor
