#!/usr/bin/env python3
# spark.py - how long jobs on Spark take to begin and end, and a failure to be named.
# SPDX-License-Identifier: Apache-2.0
"""Usage: spark.py [MASTER] [ROUNDS]

MASTER is local[2] if not given.  The Python that runs it has to have pyspark, and PYTHONPATH the
packages of compat/python; ringup is in PATH.  The first call is not counted: workers are warm.
"""

import os
import statistics
import sys
import time


def main_of_rank():
    import ringup

    ringup.init()
    ringup.barrier()


def fail():
    import time
    import ringup

    ringup.init()
    if ringup.rank() == 1:
        raise ValueError(time.time())
    ringup.barrier()


def seconds(act, rounds):
    """Median and extremes of calls."""
    taken = []
    for _ in range(rounds):
        begin = time.time()
        begin = act() or begin
        taken.append(time.time() - begin)
    return f"{statistics.median(taken):.2f} s ({min(taken):.2f} to {max(taken):.2f})"


def main(master="local[2]", rounds="7"):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark import __version__ as version
    from pyspark.sql import SparkSession

    import horovod.spark
    from ringup.spark import JobFailed
    from sparkdl import HorovodRunner

    session = (SparkSession.builder.master(master).config("spark.ui.enabled", "false")
               .config("spark.ui.showConsoleProgress", "false").getOrCreate())
    session.sparkContext.setLogLevel("OFF")

    def named(np):
        try:
            HorovodRunner(np=np, driver_log_verbosity="all").run(fail)
        except JobFailed as e:
            assert e.rank == 1
            return e.__cause__.args[0]
        raise SystemExit("spark.py: a job that should fail has not")

    HorovodRunner(np=2).run(main_of_rank)
    rows = [("HorovodRunner(np=2).run()", lambda: HorovodRunner(np=2).run(main_of_rank) and None),
            ("horovod.spark.run(num_proc=2)",
             lambda: horovod.spark.run(main_of_rank, num_proc=2, verbose=0) and None),
            ("HorovodRunner(np=-2).run()", lambda: HorovodRunner(np=-2).run(main_of_rank) and None),
            ("a failure until the driver names the rank, np=2", lambda: named(2)),
            ("the same, np=-2", lambda: named(-2))]
    print(f"pyspark {version}, {master}, {rounds} rounds")
    for name, act in rows:
        print(f"{name}: {seconds(act, int(rounds))}")
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
