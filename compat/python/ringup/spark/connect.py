# connect.py - a job over Spark Connect, where the driver is a client without a SparkContext.
# SPDX-License-Identifier: Apache-2.0
"""DataFrame.mapInArrow(barrier=True) creates the stage.  The client may be on any machine, and its
only reliable way to the tasks and back is Spark itself.  The tasks therefore try to connect to the
client, as they do to a driver, and exchange by allGather() whether they succeeded.  If all
succeeded, the job runs as usual.  Otherwise, task 0 replaces the driver: it starts `ringup run`,
the other tasks connect to it, and the facts about the ended job are returned in rows."""

import collections
import copy
import functools
import hashlib
import hmac
import itertools
import json
import os
import pickle
import re
import socket
import sys
import threading

from ringup._version import __version__

from . import job as jobs, pickling, task
from .failure import JobFailed
from .launcher import Output

REACH_S = 5              # for a task to connect to the client
FOLLOW_S = 60            # for the tasks to connect to task 0
CANCEL_S = 5             # for the server to answer
PIECE_BYTES = 1 << 20    # of a row
LINES_BYTES = 16 << 20   # of what ranks print, that comes back with the rows; the last of it
MAC_BYTES = 32
SCHEMA = "number int, bytes binary"
_numbers = itertools.count()


def active_session():
    """Return the Spark Connect session that this process uses, or None."""
    try:
        from pyspark.sql.utils import is_remote
        if not is_remote():
            return None
        from pyspark.sql.connect.session import SparkSession
    except ImportError:
        return None
    try:
        return SparkSession.active()
    except RuntimeError:  # there is none
        return None


def _towards(host):
    """Return the address of this host's interface towards another host."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((host, 9))  # sends nothing
        return s.getsockname()[0]


def own_address(hosts):
    """Return the address of this host towards the first of the others that has an address."""
    found = "127.0.0.1"
    for host in hosts:
        try:
            address = _towards(host)
        except (OSError, TypeError, ValueError):  # UnicodeError is one
            continue
        if not address.startswith("127."):
            return address
        found = address
    return found


class Context:
    """The parts of a SparkContext that the stage needs, for a Spark Connect session."""

    def __init__(self, session):
        self.session = session
        self.master = self.get("spark.master", "")

    def getConf(self):
        """Return the settings; get() reads one."""
        return self

    def get(self, name, default=None):
        """Return a setting of the session, or the default, also if the service does not show the
        setting."""
        try:
            return self.session.conf.get(name, default)
        except Exception:
            return default

    def hosts(self):
        """Return a list of the address at which tasks reach this process, if they can."""
        try:
            server = self.session.client.host
        except AttributeError:
            server = None
        return [own_address([self.get("spark.driver.host"), server])]

    def slots(self):
        """Return how many tasks can run at the same time, or None if that is unknown.  Spark splits
        a range into as many parts, unless a setting determines the number."""
        if self.get("spark.default.parallelism") or \
                self.get("spark.sql.leafNodeDefaultParallelism"):
            return None
        try:
            plan = self.session.sql("EXPLAIN SELECT * FROM range(1048576)").collect()[0][0]
            cores = int(re.search(r"splits=(\d+)", plan).group(1))
            return cores // int(self.get("spark.task.cpus") or 1)
        except Exception:
            return None

    @property
    def defaultParallelism(self):
        """Return the number of task slots; ValueError if it is unknown."""
        there = self.slots()
        if there is None:
            raise ValueError("Spark Connect does not report the cluster's task slots: set the "
                             "number of ranks")
        return there

    def body(self, address, job):
        """Return the function of the tasks in a job's barrier stage."""
        plan = {"client": address, "driver": self.get("spark.driver.host"), "size": job.size,
                "hides_gpus": job.hides_gpus, "form": list(job.output.form),
                "wants": [name for name in ("stdout", "stderr", "log")
                          if getattr(job.output, name)],
                "ringup": __version__}
        return functools.partial(run, plan, job.key, job.orders(), job.payload)

    def elastic_body(self, address, job):
        """Return the function of an elastic job's tasks.  These come and go, so none of them can
        lead."""
        return functools.partial(_run_elastic, address, job.key, job.orders(), job.payload)


class Query:
    """The Spark job of a stage.  running is the number of running tasks that Spark last reported;
    None if it is unknown, because Spark is older than 4."""

    thread_class = threading.Thread

    def __init__(self, context, size, body, barrier):
        self.session, self.size, self.body, self.barrier = context.session, size, body, barrier
        self.tag = f"ringup.{os.getpid()}.{next(_numbers)}"
        self.running = 0 if hasattr(self.session, "registerProgressHandler") else None
        self.thread = None

    def _progress(self, stages=(), inflight_tasks=0, *_, **__):
        if inflight_tasks and threading.current_thread() is self.thread:
            self.running = inflight_tasks

    def collect(self):
        """Run the stage; return its rows."""
        self.thread = threading.current_thread()
        self.session.addTag(self.tag)  # of this thread
        if self.running is not None:
            self.session.registerProgressHandler(self._progress)
        try:
            return self.session.range(0, self.size, 1, self.size).mapInArrow(
                self.body, SCHEMA, barrier=self.barrier).collect()
        finally:
            if self.running is not None:
                self.session.removeProgressHandler(self._progress)

    def cancel(self):
        """Ask Spark to end the tasks; do not wait for a server that does not answer."""
        asking = threading.Thread(target=self._interrupt, daemon=True)
        asking.start()
        asking.join(CANCEL_S)

    def _interrupt(self):
        try:
            self.session.interruptTag(self.tag)
        except Exception:  # the server is gone, or the session has ended
            pass


# -- the job's outcome, in rows --------------------------------------------------------------------

class Lines:
    """The last lines that ranks have printed, in order of arrival."""

    def __init__(self):
        self.lock, self.lines = threading.Lock(), collections.deque()
        self.size = self.dropped = 0

    def taker(self, name):
        """Return a function that takes a line of this stream."""
        def take(line):
            with self.lock:
                self.lines.append((name, line))
                self.size += len(line)
                while self.size > LINES_BYTES:
                    self.size -= len(self.lines.popleft()[1])
                    self.dropped += 1
        return take


def _seal(key, data):
    return hmac.digest(key, b"rows " + data, hashlib.sha256)


def _pieces(key, known):
    """Return the information for the client, as the bytes of the rows."""
    data = pickle.dumps(known)
    data = _seal(key, data) + data
    for begin in range(0, len(data), PIECE_BYTES):
        yield data[begin:begin + PIECE_BYTES]


def _row(number, piece):
    """Return a record batch with one row."""
    import pyarrow

    return pyarrow.RecordBatch.from_arrays(
        [pyarrow.array([number], pyarrow.int32()), pyarrow.array([piece], pyarrow.binary())],
        schema=pyarrow.schema([("number", pyarrow.int32()), ("bytes", pyarrow.binary())]))


def ended(rows, job):
    """Return the Launcher of a job that has run inside the stage, and print the ranks' output."""
    data = b"".join(bytes(row[1]) for row in sorted(rows, key=lambda row: row[0]))
    mac, data = data[:MAC_BYTES], data[MAC_BYTES:]
    if not hmac.compare_digest(mac, _seal(job.key, data)):
        raise JobFailed("the tasks have ended, but their results belong to another job")
    known = pickling.loads_result(data)
    if known["dropped"]:
        print(f"ringup: the first {known['dropped']} lines of the ranks are missing here; they "
              "are in the executors' stderr", file=sys.stderr, flush=True)
    for name, line in known["lines"]:
        try:
            getattr(job.output, name)(line)
        except Exception:  # a stream that is closed
            break
    if isinstance(known["outcome"], Exception):
        raise known["outcome"]
    return known["outcome"]


# -- in the tasks ----------------------------------------------------------------------------------

def _lead(plan, key, lobby, told):
    """Run the job on task 0 instead of the client; return the information for the client."""
    from . import stage  # which imports this file

    lines = Lines()
    job = jobs.Job(plan["size"], (), hides_gpus=plan["hides_gpus"], output=Output(
        form=plan["form"], **{name: lines.taker(name) for name in plan["wants"]}))
    job.key = key
    try:
        if not lobby.wait(FOLLOW_S):
            missing = [t for t in told if t["index"] not in lobby.tasks]
            who = ", ".join(f"{t['index']} on {t['name']}" for t in missing)
            raise JobFailed(
                f"the tasks of the ranks cannot connect to each other: task {who} did not reach "
                f"task 0 at {lobby.address[0]} port {lobby.address[1]} within {FOLLOW_S} s.  Ranks "
                "need connections between all executors, on any port: look for a firewall or a "
                "network policy that blocks them")
        outcome = stage.run_ranks(job, lobby.tasks)
    except JobFailed as e:
        outcome = e
    except Exception as e:
        outcome = JobFailed(f"the job could not be run on {os.uname().nodename}: "
                            f"{type(e).__name__}: {e}")
    finally:
        lobby.close()
    return {"lines": list(lines.lines), "dropped": lines.dropped, "outcome": outcome}


def _check(plan):
    if plan["ringup"] != __version__:
        raise RuntimeError(f"{sys.executable} on {os.uname().nodename} has ringup {__version__}, "
                           f"the client {plan['ringup']}: install the same version everywhere")


def run(plan, key, orders, payload, batches):
    """The body of the stage's tasks, as mapInArrow() requires.  Only task 0 yields rows."""
    from pyspark import BarrierTaskContext

    from . import stage  # which imports this file

    _check(plan)
    context = BarrierTaskContext.get()
    for _ in batches:
        pass
    guest = lobby = None
    index, name = context.partitionId(), os.uname().nodename
    # The client may be behind another network than the executors.
    own = own_address([plan["driver"]] +
                      [info.address.rpartition(":")[0] for info in context.getTaskInfos()])
    try:
        guest = task.Guest(plan["client"], key, context, REACH_S, own)
    except OSError:
        pass
    if index == 0:
        lobby = stage.Lobby([own], plan["size"], key)
    try:
        told = [json.loads(text) for text in context.allGather(json.dumps(
            {"index": index, "name": name, "reached": bool(guest),
             "lobby": lobby and lobby.address}))]
        if all(t["reached"] for t in told):
            guest.serve(orders, payload)
            return
        where = next(t["lobby"] for t in told if t["index"] == 0)
        outcome = []
        if lobby:
            leader = threading.Thread(
                target=lambda: outcome.append(_lead(plan, key, lobby, told)), daemon=True)
            leader.start()
        # What ranks print is to be found somewhere while they run, and if the stage fails.
        inside = {**copy.deepcopy(orders), "copy": True}
        try:
            task.Guest(tuple(where), key, context, FOLLOW_S, own).serve(inside, payload)
        except OSError:  # task 0 tells who did not come
            pass
        if lobby:
            leader.join()
            for number, piece in enumerate(_pieces(key, outcome[0])):
                yield _row(number, piece)
    finally:
        if guest:
            guest.close()
        if lobby:
            lobby.close()


def apart(client, what="the tasks", why=""):
    """Return why an elastic job cannot run."""
    return (f"{what} cannot connect to the client of Spark Connect at {client[0]} port {client[1]}"
            f"{why}, which elastic jobs need: start the job on the cluster's driver, or use "
            "horovod.spark.run() with a fixed number of ranks")


def _run_elastic(client, key, orders, payload, batches):
    """Run the body of an elastic job's tasks."""
    from pyspark import TaskContext

    for _ in batches:
        pass
    try:
        guest = task.Guest(client, key, TaskContext.get(), REACH_S)
    except OSError as e:
        raise RuntimeError(apart(client, os.uname().nodename, f" ({e})")) from None
    guest.serve(orders, payload)
    return iter(())
