# __init__.py - the package sparkdl, as ringup provides it: HorovodRunner.
# SPDX-License-Identifier: Apache-2.0
"""The interface of Databricks' sparkdl for distributed training, over ringup.spark."""

from sparkdl.horovod.runner_base import HorovodRunner

__all__ = ["HorovodRunner"]

# The release whose interface this is.
__version__ = "2.2.0-db1"
