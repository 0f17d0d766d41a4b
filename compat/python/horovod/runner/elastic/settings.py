# settings.py - the settings of an elastic job.
# SPDX-License-Identifier: Apache-2.0

from horovod.runner.common.util.settings import BaseSettings


class ElasticSettings(BaseSettings):
    """Settings with the discovery of hosts, and the limits."""

    def __init__(self, discovery, min_num_proc, max_num_proc, elastic_timeout, reset_limit,
                 cooldown_range=None, **kwargs):
        super().__init__(elastic=True, **kwargs)
        self.discovery = discovery
        self.min_num_proc = min_num_proc
        self.max_num_proc = max_num_proc
        self.elastic_timeout = elastic_timeout
        self.reset_limit = reset_limit
        self.cooldown_range = cooldown_range

    def __getstate__(self):
        return {**self.__dict__, "discovery": None}  # ranks do not need it
