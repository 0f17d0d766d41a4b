# strategy.py - resources for the ranks: Ray's placement groups.
# SPDX-License-Identifier: Apache-2.0

import ray
from ray.util.placement_group import (get_current_placement_group, placement_group,
                                      remove_placement_group)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from .worker import BaseHorovodWorker


def create_placement_group(resources_per_bundle, num_bundles, pg_timeout, pg_strategy):
    """Return (a placement group of this many equal bundles, the bundles). TimeoutError if Ray has
    no room for it within pg_timeout seconds."""
    bundles = [{k: v for k, v in resources_per_bundle.items() if v} for _ in range(num_bundles)]
    group = placement_group(bundles, strategy=pg_strategy)
    if not group.wait(pg_timeout):
        remove_placement_group(group)
        there = {k: v for k, v in ray.available_resources().items() if k in ("CPU", "GPU")}
        raise TimeoutError(
            f"Placement group creation timed out: Ray found no room for {num_bundles} x "
            f"{bundles[0]} ({pg_strategy}) within {pg_timeout} s; free in the whole cluster: "
            f"{there}.  Ask for fewer workers, add nodes, or wait longer: "
            "create_settings(placement_group_timeout_s=SECONDS)")
    return group, bundles


class Strategy:
    """Creates the actors of the ranks; shutdown() releases the resources."""

    def __init__(self, *, settings, use_gpu, cpus_per_worker, gpus_per_worker):
        self.settings, self.use_gpu = settings, use_gpu
        self.resources = {"CPU": cpus_per_worker, "GPU": (gpus_per_worker or 1) * bool(use_gpu)}
        self.placement_group, self._created_placement_group = None, False

    def _create(self, resources, count, how):
        seconds = getattr(self.settings, "placement_group_timeout_s", 100)
        self.placement_group, _ = create_placement_group(resources, count, seconds, how)
        self._created_placement_group = True

    def _actors(self, bundles):
        """Return an actor in each of these bundles; -1 means any bundle of the group that has room.
        """
        actor = ray.remote(BaseHorovodWorker)
        return [actor.options(
            num_cpus=self.resources["CPU"], num_gpus=self.resources["GPU"],
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                placement_group=self.placement_group, placement_group_bundle_index=bundle,
                placement_group_capture_child_tasks=False)).remote() for bundle in bundles]

    def shutdown(self):
        """Remove the group, if this object created it."""
        if self._created_placement_group:
            remove_placement_group(self.placement_group)
        self.placement_group, self._created_placement_group = None, False


class ColocatedStrategy(Strategy):
    """Puts a fixed number of ranks on each of a fixed number of nodes."""

    def __init__(self, *, num_hosts, num_workers_per_host, **how):
        super().__init__(**how)
        self.num_hosts, self.num_workers_per_host = num_hosts, num_workers_per_host
        self.num_workers = num_hosts * num_workers_per_host

    def create_workers(self):
        """Create the actors."""
        self._create({k: v * self.num_workers_per_host for k, v in self.resources.items()},
                     self.num_hosts, "STRICT_SPREAD")
        return self._actors([i // self.num_workers_per_host for i in range(self.num_workers)])


class PGStrategy(Strategy):
    """Puts the ranks on as few nodes as possible, in the caller's placement group if it has one."""

    def __init__(self, *, num_workers, use_current, **how):
        super().__init__(**how)
        self.num_workers = num_workers
        self.placement_group = get_current_placement_group() if use_current else None

    def create_workers(self):
        """Create the actors."""
        if self.placement_group:
            return self._actors([-1] * self.num_workers)
        self._create(self.resources, self.num_workers, "PACK")
        return self._actors(range(self.num_workers))
