# env.py - environment variables: which ones are passed on, and what they mean to a rank.
# SPDX-License-Identifier: Apache-2.0

import os
import re

from horovod.runner.common.util import secret

LOG_LEVEL_STR = ["FATAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE"]
IGNORE_REGEXES = {"BASH_FUNC_.*", "OLDPWD", ".*CUDA_VISIBLE_DEVICES", secret.HOROVOD_SECRET_KEY}
KUBEFLOW_MPI_EXEC = "/etc/mpi/kubexec.sh"


def is_exportable(v):
    """Return whether the variable should be passed to other hosts."""
    return not any(re.match(r, v) for r in IGNORE_REGEXES)


def get_env_rank_and_size():
    """Return (rank, size) from the launcher's variables; (0, 1) without them."""
    for name, other in (("HOROVOD_RANK", "HOROVOD_SIZE"),
                        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                        ("PMI_RANK", "PMI_SIZE")):
        rank, size = os.environ.get(name), os.environ.get(other)
        if rank is not None and size is not None:
            return int(rank), int(size)
        if rank is not None or size is not None:
            raise RuntimeError(f"Could not determine process rank and size: only one of {name} "
                               f"and {other} found in environment")
    return 0, 1


def is_kubeflow_mpi():
    """Return whether Kubeflow's program replaces ssh."""
    return os.environ.get("OMPI_MCA_plm_rsh_agent") == KUBEFLOW_MPI_EXEC
