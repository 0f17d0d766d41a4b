# elastic.py - ElasticRayExecutor: the older interface to elastic jobs on Ray.
# SPDX-License-Identifier: Apache-2.0

import os
import warnings

from horovod.runner.common.util import secret, timeout
from horovod.runner.elastic.settings import ElasticSettings

from . import elastic_v2


class RayHostDiscovery(elastic_v2.RayHostDiscovery):
    """The class of elastic_v2, with the older names of its arguments."""

    def __init__(self, use_gpu=False, cpus_per_slot=1, gpus_per_slot=1):
        super().__init__(use_gpu, cpus_per_slot, gpus_per_slot)


class ElasticRayExecutor:
    """Calls a function on ranks that come and go with the nodes of the Ray cluster.

    settings is the result of create_settings(). Each rank reserves cpus_per_slot CPUs and, with
    use_gpu, gpus_per_slot GPUs (1 by default). env_vars contains variables for the ranks.  With
    override_discovery, Ray is asked for the nodes; otherwise settings.discovery is.
    RayExecutor(min_workers=...) does the same."""

    @staticmethod
    def create_settings(min_num_proc=1, max_num_proc=None, reset_limit=None, elastic_timeout=600,
                        timeout_s=30, ssh_identity_file=None, nics=None, min_np=None, max_np=None,
                        **kwargs):
        """Return settings for at least min_num_proc and at most max_num_proc ranks.

        reset_limit is how often the ranks may rendezvous again.  elastic_timeout is the number of
        seconds to wait for enough ranks.  nics are the interfaces between nodes.  min_np and max_np
        are older names."""
        for old, new in ((min_np, "min_num_proc"), (max_np, "max_num_proc")):
            if old is not None:
                warnings.warn(f"use {new}", DeprecationWarning, stacklevel=2)
        least = min_np if min_np is not None and min_num_proc == 1 else min_num_proc
        return ElasticSettings(
            discovery=None, min_num_proc=least,
            max_num_proc=max_np if max_num_proc is None else max_num_proc,
            elastic_timeout=elastic_timeout, reset_limit=reset_limit, num_proc=least,
            ssh_identity_file=ssh_identity_file or os.path.expanduser("~/ray_bootstrap_key.pem"),
            nics=nics, key=secret.make_secret_key(),
            start_timeout=timeout.Timeout(timeout_s, "Timed out waiting for {activity}."), **kwargs)

    def __init__(self, settings, use_gpu=False, cpus_per_slot=1, gpus_per_slot=None, env_vars=None,
                 override_discovery=True):
        if gpus_per_slot and not use_gpu:
            raise ValueError("gpus_per_slot is set, but use_gpu is False: pass use_gpu=True")
        if use_gpu and gpus_per_slot is not None and gpus_per_slot < 1:
            raise ValueError(f"gpus_per_slot must be >= 1: got {gpus_per_slot}")
        self.settings, self.env_vars = settings, env_vars or {}
        self.adapter = elastic_v2.ElasticAdapter(
            settings, settings.min_num_proc, settings.max_num_proc, use_gpu, cpus_per_slot,
            gpus_per_slot, override_discovery, settings.reset_limit, settings.cooldown_range,
            settings.elastic_timeout)

    def start(self):
        """Wait until the cluster has room for enough ranks."""
        self.adapter.start(extra_env_vars=self.env_vars)

    def run(self, worker_fn, callbacks=None):
        """Call worker_fn() on each rank; return the results by rank, for the ranks at the end.

        callbacks are called with the arguments of ray_logger.log() on the ranks.  Raises JobFailed.
        """
        return self.adapter.run(worker_fn, callbacks=callbacks)
