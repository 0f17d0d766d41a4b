# lsf.py - read LSF's data about its job.
# SPDX-License-Identifier: Apache-2.0

import os


class LSFUtils:
    """Facts about the LSF job, from LSF's variables.  Upstream calls programs of one machine
    instead."""

    @staticmethod
    def using_lsf():
        """Return whether this process is part of an LSF job."""
        return "LSB_JOBID" in os.environ

    @staticmethod
    def _slots():
        """Return {host: slots} of LSB_MCPU_HOSTS, without the host that only starts the job."""
        words = os.environ.get("LSB_MCPU_HOSTS", "").split()
        pairs = list(zip(words[::2], map(int, words[1::2])))
        return dict(pairs[1:] if len(pairs) > 1 and pairs[0][1] == 1 else pairs)

    @staticmethod
    def get_compute_hosts():
        """Return the names of the hosts."""
        return sorted(LSFUtils._slots())

    @staticmethod
    def get_num_cores():
        """Return the number of slots on the smallest host."""
        return min(LSFUtils._slots().values(), default=1)

    @staticmethod
    def get_num_gpus():
        """Return the number of ranks for each host.  LSF does not report its GPUs, so this is the
        number of slots."""
        return LSFUtils.get_num_cores()

    @staticmethod
    def get_num_processes():
        """Return the number of ranks in the job."""
        return len(LSFUtils.get_compute_hosts()) * LSFUtils.get_num_gpus()

    @staticmethod
    def get_num_threads():
        """Return the number of threads per core."""
        return 1
