# __init__.py - horovod.ray: ranks as actors of a Ray cluster.
# SPDX-License-Identifier: Apache-2.0
"""Runs ranks on Ray.  Ray schedules a placement group, or the nodes of an elastic job, with room
for the ranks.

    from horovod.ray import RayExecutor

    ray.init()
    executor = RayExecutor(RayExecutor.create_settings(timeout_s=30), num_workers=4)
    executor.start()
    results = executor.run(train, args=[0.001])
    executor.shutdown()
"""

from ringup.spark.failure import JobFailed

from .elastic import ElasticRayExecutor
from .runner import RayExecutor
from .worker import BaseHorovodWorker

__all__ = ["RayExecutor", "BaseHorovodWorker", "ElasticRayExecutor", "JobFailed"]
