# __init__.py - horovod.spark: run() and run_elastic() call a function on Spark's task slots.
# SPDX-License-Identifier: Apache-2.0

from .runner import run, run_elastic

__all__ = ["run", "run_elastic"]
