# run_task.py - a rank of horovod.run(): python -m horovod.runner.run_task FOLDER.
# SPDX-License-Identifier: Apache-2.0

import json
import os
import sys
import traceback

from horovod.runner.common.util import codec
from horovod.runner.common.util.env import get_env_rank_and_size

FUNCTION, PATHS = "function", "paths.json"


def result_name(rank):
    """Return the name of the file with a rank's result."""
    return f"result.{rank}"


def error_name(rank):
    """Return the name of the file with a rank's traceback."""
    return f"error.{rank}"


def own_rank():
    """Return the numbers that identify this process in the names of its files.  In an elastic job,
    the rank at the end is used, because another process may have had the rank at the start; the
    worker's number makes the name unique."""
    rank, worker = get_env_rank_and_size()[0], os.environ.get("RINGUP_WORKER")
    if worker is None:
        return str(rank)
    job = sys.modules.get("ringup.job")  # a function that needs no job has not loaded it
    last = job.last_rank() if job else None
    return f"{rank if last is None else last}.{worker}"


def main(folder):
    """Call the function in the folder and write its result there."""
    if not os.path.isdir(folder):
        sys.exit(f"horovod.run(): folder {folder} does not exist on {os.uname().nodename}: with "
                 "several hosts, call it in a folder that all of them share")
    with open(os.path.join(folder, PATHS), encoding="utf-8") as f:
        sys.path.extend(p for p in json.load(f) if p not in sys.path)
    try:
        result = codec.read(os.path.join(folder, FUNCTION))()
        codec.write(os.path.join(folder, result_name(own_rank())), result)
    except BaseException as e:
        if not isinstance(e, SystemExit) or e.code:
            path = os.path.join(folder, error_name(own_rank()))
            with open(path, "w", encoding="utf-8") as f:
                # Without this function's own frame.
                f.write("".join(traceback.format_exception(type(e), e, e.__traceback__.tb_next)))
        raise


if __name__ == "__main__":
    main(sys.argv[1])
