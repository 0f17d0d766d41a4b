# __init__.py - horovod.spark: run() calls a function on Spark's task slots.
# SPDX-License-Identifier: Apache-2.0

from .runner import run

__all__ = ["run"]
