#!/usr/bin/env python3
# spark.py - how long jobs on Spark take to begin and end, and a failure to be named.
# SPDX-License-Identifier: Apache-2.0
"""The Python that runs it has to have pyspark, and PYTHONPATH the packages of compat/python; ringup
is in PATH.  The first call of each session is not counted: workers are warm.

    tests/peers/spark.py [--master 'local[2]'] [--rounds 7] [--horovod VENV/bin/python]

With --horovod, a Python that has Horovod 0.28.1 with Gloo, the same torch and a pyspark, what both
can do is done by each in turn, in a session of its own: horovod.spark.run() of a function that
imports horovod.torch and adds one tensor up, and of one that fails on rank 1 meanwhile.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time


# -- what ranks do ---------------------------------------------------------------------------------

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


def add_up():
    import horovod.torch as hvd
    import torch

    hvd.init()
    return hvd.allreduce(torch.ones(4), name="t").sum().item()


def fail_in_horovod(path):
    import os
    import time
    import horovod.torch as hvd
    import torch

    hvd.init()
    if hvd.rank() == 1:
        with open(path + ".part", "w", encoding="ascii") as f:
            f.write(repr(time.time()))
        os.rename(path + ".part", path)
        raise ValueError("of rank 1")
    hvd.allreduce(torch.ones(4), name="t")


# -- measuring -------------------------------------------------------------------------------------

def seconds(act, rounds):
    """How long each call has taken; a call may return when it began."""
    taken = []
    for _ in range(rounds):
        begin = time.time()
        begin = act() or begin
        taken.append(time.time() - begin)
    return taken


def say(name, taken):
    print(f"{name}: {statistics.median(taken):.2f} s ({min(taken):.2f} to {max(taken):.2f})",
          flush=True)


def session_of(master):
    """(session, pyspark's version)"""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark import __version__ as version
    from pyspark.sql import SparkSession

    session = (SparkSession.builder.master(master).config("spark.ui.enabled", "false")
               .config("spark.ui.showConsoleProgress", "false").getOrCreate())
    session.sparkContext.setLogLevel("OFF")
    return session, version


def named(np):
    """When rank 1 failed in a job that the driver has named it for."""
    from ringup.spark import JobFailed
    from sparkdl import HorovodRunner

    try:
        HorovodRunner(np=np, driver_log_verbosity="all").run(fail)
    except JobFailed as e:
        assert e.rank == 1
        return e.__cause__.args[0]
    raise SystemExit("spark.py: a job that should fail has not")


def told(path):
    """When rank 1 failed in a job of horovod.spark.run() that has raised."""
    import horovod.spark

    try:
        horovod.spark.run(fail_in_horovod, (path,), num_proc=2, verbose=0)
    except Exception:  # upstream's is a RuntimeError, or what Spark makes of it
        with open(path, encoding="ascii") as f:
            return float(f.read())
    raise SystemExit("spark.py: a job that should fail has not")


def both_can(master, rounds):
    """What horovod.spark.run() takes, whoever's it is; a line of JSON."""
    import tempfile

    import horovod.spark

    session, _ = session_of(master)

    def run():
        assert horovod.spark.run(add_up, num_proc=2, verbose=0) == [4.0, 4.0]

    run()
    with tempfile.TemporaryDirectory() as folder:
        found = {"horovod.spark.run(num_proc=2), torch, one allreduce": seconds(run, rounds),
                 "a failure until horovod.spark.run() raises":
                 seconds(lambda: told(os.path.join(folder, "failed")), min(rounds, 3))}
    session.stop()
    print("BOTH", json.dumps(found), flush=True)


def ours(master, rounds):
    """What is ours alone."""
    import horovod.spark
    from sparkdl import HorovodRunner

    session, version = session_of(master)
    print(f"pyspark {version}, {master}, {rounds} rounds", flush=True)
    HorovodRunner(np=2).run(main_of_rank)
    for name, act in (
            ("HorovodRunner(np=2).run()", lambda: HorovodRunner(np=2).run(main_of_rank)),
            ("horovod.spark.run(num_proc=2)",
             lambda: horovod.spark.run(main_of_rank, num_proc=2, verbose=0) and None),
            ("HorovodRunner(np=-2).run()", lambda: HorovodRunner(np=-2).run(main_of_rank)),
            ("a failure until the driver names the rank, np=2", lambda: named(2)),
            ("the same, np=-2", lambda: named(-2))):
        say(name, seconds(act, rounds))
    session.stop()


def beside(python, master, rounds):
    """The rows of both_can() by this Python and by that one, in turn; half of the rounds first."""
    rows = {}
    for _ in range(2):
        for who, program in (("ringup", sys.executable), ("Horovod", python)):
            env = dict(os.environ)
            if who == "Horovod":
                del env["PYTHONPATH"]
            out = subprocess.run([program, os.path.abspath(__file__), "--both", "--master", master,
                                  "--rounds", str(max(1, rounds // 2))], env=env, check=True,
                                 stdout=subprocess.PIPE, text=True).stdout
            found = [line for line in out.splitlines() if line.startswith("BOTH ")]
            for name, taken in json.loads(found[0][len("BOTH "):]).items():
                rows.setdefault(f"{who}: {name}", []).extend(taken)
    for name in sorted(rows, key=lambda n: n.partition(": ")[2]):
        say(name, rows[name])


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--master", default="local[2]")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--horovod", metavar="PYTHON")
    p.add_argument("--both", action="store_true", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.both:
        both_can(o.master, o.rounds)
        return
    ours(o.master, o.rounds)
    if o.horovod:
        beside(o.horovod, o.master, o.rounds)


if __name__ == "__main__":
    main()
