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
    """The file of a rank's result."""
    return f"result.{rank}"


def error_name(rank):
    """The file of a rank's traceback."""
    return f"error.{rank}"


def main(folder):
    """Call the function in the folder and write its result there."""
    if not os.path.isdir(folder):
        sys.exit(f"horovod.run(): there is no folder {folder} on {os.uname().nodename}: on several "
                 "hosts, call it in a folder that all of them share")
    with open(os.path.join(folder, PATHS), encoding="utf-8") as f:
        sys.path.extend(p for p in json.load(f) if p not in sys.path)
    try:
        result = codec.read(os.path.join(folder, FUNCTION))()
        # In an elastic job the rank may have changed since the start; the last one counts.
        codec.write(os.path.join(folder, result_name(get_env_rank_and_size()[0])), result)
    except BaseException as e:
        if not isinstance(e, SystemExit) or e.code:
            path = os.path.join(folder, error_name(get_env_rank_and_size()[0]))
            with open(path, "w", encoding="utf-8") as f:
                # Without this function's own frame.
                f.write("".join(traceback.format_exception(type(e), e, e.__traceback__.tb_next)))
        raise


if __name__ == "__main__":
    main(sys.argv[1])
