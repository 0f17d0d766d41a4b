# __init__.py - horovod.spark.task: the resources that Spark has given to a rank's task.
# SPDX-License-Identifier: Apache-2.0

import os


def get_available_devices():
    """Return the addresses of the GPUs of this rank's task, as strings; [] if the task has none."""
    from ringup.spark.stage import GPUS

    groups = os.environ.get(GPUS, "").split(";")
    local_rank = int(os.environ.get("HOROVOD_LOCAL_RANK", "0"))
    if local_rank >= len(groups):
        return []
    return [gpu for gpu in groups[local_rank].split(",") if gpu]
