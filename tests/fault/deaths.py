#!/usr/bin/env python3
# deaths.py - kill ranks of every launcher and binding at any time: who is named, what is left?
# SPDX-License-Identifier: Apache-2.0
"""
deaths.py [--trials N] [--seed N] LAUNCHER BINDING

A job of three ranks sums without end; a rank, drawn each time, is killed by SIGKILL, SIGSEGV or
SIGABRT at a moment that is drawn, too.  Each time

- the launcher ends, with the rank's status where it passes that on, and else not with 0;
- what the launcher of ringup and a Spark driver say names that rank;
- each survivor that says anything names that rank;
- no process is left.

LAUNCHER is ringup, torchrun, mpirun or spark, BINDING c, horovod_torch, torch_distributed,
tensorflow or jax.  PATH has ringup and mpirun, RINGUP_TEST_PYTHON is the Python, and
RINGUP_TEST_LOOP the program tests/fault/loop.  Prints a line for each trial that went wrong; exit
status 77 if this machine lacks what it takes.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

RANKS = 3
LIMIT = 400  # seconds: for what hangs
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("RINGUP_TEST_PYTHON", sys.executable)

SPARK = """
import sys
sys.path.insert(0, {here!r})
import horovod.spark
def rank():
    import death_of_a_rank
    death_of_a_rank.run({binding!r})
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[{ranks}]")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
try:
    horovod.spark.run(rank, num_proc={ranks})
except Exception as e:
    print("driver", " ".join(str(e).split()), flush=True)
    sys.exit(5)
"""


def worker(binding):
    if binding == "c":
        return [os.environ["RINGUP_TEST_LOOP"], "-b", "4096"]
    return [PYTHON, os.path.join(HERE, "death_of_a_rank.py"), binding]


def command(launcher, binding):
    """How this launcher starts ranks of this binding."""
    if launcher == "ringup":
        return ["ringup", "run", "-np", str(RANKS), "--no-prefix", "--", *worker(binding)]
    if launcher == "torchrun":
        words = [PYTHON, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
        words += ["--no-python"] if binding == "c" else []
        return words + (worker(binding) if binding == "c" else worker(binding)[1:])
    if launcher == "mpirun":
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(RANKS),
                *worker(binding)]
    return [PYTHON, "-c", SPARK.format(here=HERE, binding=binding, ranks=RANKS)]


def marked(mark):
    """Processes whose environment has the mark."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if mark.encode() in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def wait_until(what, seconds):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Trial:
    def __init__(self, launcher, binding, chance):
        self.launcher, self.chance = launcher, chance
        self.folder = tempfile.mkdtemp(prefix="deaths.")
        self.mark = f"RINGUP_TEST_MARK={uuid.uuid4()}"
        env = dict(os.environ, TMPDIR=self.folder, OMP_NUM_THREADS="1", PYSPARK_PYTHON=PYTHON,
                   SPARK_LOCAL_IP="127.0.0.1")
        env.update([self.mark.split("=")])
        with open(f"{self.folder}/out", "wb") as out, open(f"{self.folder}/err", "wb") as err:
            self.process = subprocess.Popen(command(launcher, binding), stdout=out, stderr=err,
                                            stdin=subprocess.DEVNULL, env=env, cwd=self.folder,
                                            start_new_session=True)

    def said(self, name="out"):
        with open(f"{self.folder}/{name}", encoding="utf-8", errors="replace") as f:
            return f.read()

    def ready(self):
        # Spark's driver prints what ranks say as errors.
        said = self.said() + self.said("err")
        return dict(map(int, m) for m in re.findall(r"\bready (\d+) (\d+)", said))

    def run(self):
        """What is wrong, as a list of sentences."""
        if not wait_until(lambda: len(self.ready()) == RANKS or self.process.poll() is not None,
                          LIMIT) or len(self.ready()) < RANKS:
            return ["the ranks did not get ready: " + (self.said("err") + self.said())[-300:]]
        rank = self.chance.randrange(RANKS)
        sig = self.chance.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
        time.sleep(self.chance.random() / 10)
        os.kill(self.ready()[rank], sig)
        try:
            status = self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            return [f"rank {rank}, {sig.name}: the launcher did not end"]
        return [f"rank {rank}, {sig.name}: {w}" for w in self.judge(rank, sig, status)]

    def judge(self, rank, sig, status):
        out, err, pid = self.said(), self.said("err"), self.ready()[rank]
        if self.launcher == "ringup" and status != 128 + sig or status == 0:
            yield f"status {status}"
        if self.launcher == "ringup" and not re.search(
                rf"^ringup run: rank {rank} \(pid {pid}\) on \S+ was killed by signal {int(sig)}",
                err, re.M):
            yield "the launcher says " + err[-300:]
        if self.launcher == "spark" and not re.search(rf"^driver.*\brank {rank}\b", out, re.M):
            yield "the driver says " + out[-300:]
        out += err if self.launcher == "spark" else ""
        for teller, text in re.findall(r"^(?:\S*[\]:] ?)?error (\d+)\s+(.*)", out, re.M):
            if int(teller) != rank and not re.search(rf"\brank {rank}\b|^{pid} {rank} ", text):
                yield f"rank {teller} says {text}"
        if not wait_until(lambda: not marked(self.mark), 15):
            yield f"processes are left: {marked(self.mark)}"

    def close(self):
        for pid in marked(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def lacks(launcher, binding):
    """What is not there for this launcher and this binding, or ''."""
    modules = {"c": [], "horovod_torch": ["torch"], "torch_distributed": ["torch"],
               "tensorflow": ["tensorflow"], "jax": ["jax"]}[binding]
    modules += {"torchrun": ["torch"], "spark": ["pyspark"]}.get(launcher, [])
    if launcher == "mpirun" and not shutil.which("mpirun"):
        return "mpirun"
    if launcher in ("mpirun", "spark") and binding == "torch_distributed":
        return "the variables that init_process_group() reads"
    for m in modules:
        if subprocess.run([PYTHON, "-c", f"import importlib.util as u; assert u.find_spec({m!r})"],
                          stderr=subprocess.DEVNULL, check=False).returncode:
            return f"{m} in {PYTHON}"
    return "a function for Spark" if launcher == "spark" and binding == "c" else ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("launcher")
    parser.add_argument("binding")
    a = parser.parse_args()
    lack = lacks(a.launcher, a.binding)
    if lack:
        print(f"this machine lacks {lack}")
        return 77
    chance, bad = random.Random(a.seed), 0
    for _ in range(a.trials):
        t = Trial(a.launcher, a.binding, chance)
        try:
            wrong = t.run()
        finally:
            t.close()
        bad += bool(wrong)
        for w in wrong:
            print(f"{a.launcher}, {a.binding}: {w}", flush=True)
    print(f"{a.launcher}, {a.binding}: {a.trials - bad} of {a.trials} as promised, seed {a.seed}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
