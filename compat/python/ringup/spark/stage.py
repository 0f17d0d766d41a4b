# stage.py - a job in a barrier stage of Spark: slots, tasks, shutdown.
# SPDX-License-Identifier: Apache-2.0
"""Spark starts the tasks of a barrier stage together or not at all.  Each task connects to the
driver and reports its host; then ranks are assigned to hosts, host by host, and started.  The stage
is followed only by collect(), because Spark would run a stage before a shuffle again after a
failure.  allGather() is not used, because it takes a second, and the driver must get a report from
every host anyway.  connect.py contains the differences for a Spark Connect session."""

import functools
import itertools
import math
import os
import re
import sys
import threading
import time

from ringup._version import __version__

from . import arguments, connect, failure, job as jobs, session, task
from .failure import JobFailed
from .launcher import Launcher

START_S = 600          # for slots to be there, and tasks to start
HELLO_S = 10           # for a task that has proved that it belongs to the job to say which it is
SLOTS_POLL_S = 0.5
SETTLED = 0.1          # of the time to start: executors that are there, but too few, get no more
PATIENT_S = 5          # after which it is said that a job waits for slots
APART_S = 15           # after which a client of Spark Connect hears that tasks have not connected
LEAVE_S = 10           # for the tasks to end after the job has
FAILED_LEAVE_S = 0.5   # the same after a failure, where an executor may be gone
WILDCARDS = ("0.0.0.0", "::", "*")  # of spark.driver.bindAddress
GPUS = "SPARK_GPUS_OF_RANKS"  # "0,1;2": the GPUs of a host's tasks, by local rank
_numbers = itertools.count()


# -- what Spark has --------------------------------------------------------------------------------

def context():
    """Return the active SparkContext, or its substitute in a Spark Connect session; RuntimeError
    without a session."""
    session = connect.active_session()
    if session is not None:
        return connect.Context(session)
    try:
        from pyspark import SparkContext
    except ImportError as e:
        raise RuntimeError("pyspark is not installed: `pip install pyspark`, or run on the driver "
                           "alone (HorovodRunner(np=-2))") from e
    sc = SparkContext._active_spark_context
    if sc is None:
        raise RuntimeError("Could not find an active SparkContext, are you running in a PySpark "
                           "session?  SparkSession.builder.getOrCreate() starts one; without "
                           "Spark, HorovodRunner(np=-2) runs two ranks on this host")
    return sc


def slots(sc):
    """Return how many tasks can run at the same time on the current executors; None if Spark
    Connect does not report it."""
    if isinstance(sc, connect.Context):
        return sc.slots()
    try:
        scala = sc._jsc.sc()
        return scala.maxNumConcurrentTasks(
            scala.resourceProfileManager().defaultResourceProfile())
    except Exception:  # a Spark that has no such method
        return sc.defaultParallelism


def start_seconds(given=None):
    """Return the number of seconds in which a job must start: the argument,
    HOROVOD_SPARK_START_TIMEOUT, or ten minutes."""
    return float(given if given is not None
                 else os.environ.get("HOROVOD_SPARK_START_TIMEOUT") or START_S)


def check_cluster(sc):
    """Raise RuntimeError if Spark would refuse the stage."""
    conf = sc.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        raise RuntimeError("barrier stages do not work with dynamic allocation (SPARK-24942): set "
                           "spark.dynamicAllocation.enabled=false in the cluster's configuration "
                           "and spark.executor.instances to the number of executors")


class TooFewSlots(JobFailed):
    """The executors cannot run this many tasks at the same time."""


def wait_for_slots(sc, size, seconds):
    """Wait until size tasks can run together.  Raise TooFewSlots after seconds, or after a tenth of
    this time in which the number of slots has not grown."""
    # Threads of the driver's JVM are there at once; executors, local-cluster's too, come later.
    waits = not re.fullmatch(r"local(\[.*\])?", sc.master)
    begin = changed = time.monotonic()
    before, is_said = 0, False
    while (there := slots(sc)) is not None and there < size:
        now = time.monotonic()
        if there != before:
            before, changed = there, now
        left = min(begin + seconds, changed + SETTLED * seconds if there else math.inf) - now
        if not is_said and waits and now - begin >= PATIENT_S:
            is_said = True
            print(f"ringup: {size} ranks wait for as many task slots; the executors have {there} "
                  f"so far. Without more, the job ends in {left:.0f} s",
                  file=sys.stderr, flush=True)
        if not waits or left <= 0:
            raise TooFewSlots(
                f"{size} ranks need {size} task slots at the same time, and the executors have "
                f"{there}: ask for {there or 'fewer'} ranks, or give the cluster more executors or "
                "cores (spark.executor.instances, spark.executor.cores; a slot is spark.task.cpus "
                "cores)")
        time.sleep(SLOTS_POLL_S)


def hosts_of(sc):
    """Return the names or addresses at which tasks find the driver, and others at which it may
    listen."""
    if isinstance(sc, connect.Context):
        return sc.hosts()
    conf = sc.getConf()
    host = conf.get("spark.driver.host", "localhost")
    return [host, conf.get("spark.driver.bindAddress", host)]


# -- tasks that come -------------------------------------------------------------------------------

class Lobby:
    """The place where tasks connect."""

    def __init__(self, hosts, size, key):
        """hosts contains the names at which tasks find it, and further names at which to listen if
        none of these belongs to this host."""
        self.size, self.tasks, self.error = size, {}, None
        self.changed = threading.Condition()
        self.closed = False
        # Spark may be told to listen at all addresses.  This is one: that towards its own name.
        names = [connect.own_address(hosts[:1]) if h in WILDCARDS else h for h in hosts]
        try:
            self.door = session.listen(names, key)
        except OSError as e:
            raise RuntimeError(f"the driver cannot listen at {hosts[0]}, its spark.driver.host: "
                               f"{e}") from e
        self.address = hosts[0], self.door.port
        threading.Thread(target=self.door.serve, args=(self._welcome, self._refuse),
                         daemon=True).start()

    def _welcome(self, ch):
        try:
            hello = ch.receive(HELLO_S)
            with self.changed:
                if self.closed or not 0 <= hello["index"] < self.size:
                    raise ConnectionError("the job does not expect this task")
                self.take(hello, ch)
        except (OSError, ValueError, KeyError, TypeError):
            ch.close()

    def _refuse(self, error):
        with self.changed:
            self.error = JobFailed(f"a task cannot join: {error}")
            self.changed.notify_all()

    def take(self, hello, ch):
        """Handle a task that has connected; the caller holds the lock of changed."""
        old = self.tasks.pop(hello["index"], None)
        self.tasks[hello["index"]] = (hello, ch)
        self.changed.notify_all()
        if old:
            old[1].close()

    def wait(self, seconds):
        """Return whether all tasks have connected, or do so within this time.  Raise JobFailed if
        one cannot join."""
        with self.changed:
            there = self.changed.wait_for(
                lambda: self.error or len(self.tasks) == self.size, seconds)
            if self.error:
                raise self.error
            return there

    def close(self):
        """Close all connections that still belong to this object."""
        with self.changed:
            self.closed = True
            tasks, self.tasks = self.tasks, {}
        self.door.shut()
        for _, ch in tasks.values():
            ch.close()


class Host:
    """The tasks on one host, by index.  The first of them starts the ranks for all."""

    def __init__(self, name, tasks):
        self.name, self.tasks = name, tasks

    @property
    def first(self):
        """Return (report, session) of the task that starts the rank daemon."""
        return self.tasks[0]


def group_by_host(tasks):
    """Return a list of Hosts for {index: (report, session)}, with unique names; the host of task 0
    is the first."""
    found = {}
    for index in sorted(tasks):
        found.setdefault(tasks[index][0]["host"], []).append(tasks[index])
    hosts, names = [], {}
    for members in found.values():
        name = re.sub(r"[^A-Za-z0-9.-]", "-", members[0][0]["name"])[:200] or "host"
        names[name] = names.get(name, 0) + 1
        hosts.append(Host(name if names[name] == 1 else f"{name}.{names[name]}", members))
    return hosts


def check_tasks(hosts):
    """Raise JobFailed if a task's Python cannot run the data that the driver's Python has made."""
    for host in hosts:
        for hello, _ in host.tasks:
            version = ".".join(map(str, hello["python"]))
            if hello["python"] != list(sys.version_info[:2]):
                raise JobFailed(
                    f"the Python of the executors on {host.name} is {version} "
                    f"({hello['executable']}), the driver's "
                    f"{sys.version_info[0]}.{sys.version_info[1]} ({sys.executable}): functions "
                    "travel between equal versions only; set PYSPARK_PYTHON for both before the "
                    "session starts")
            if hello["ringup"] != __version__:
                raise JobFailed(f"{hello['executable']} on {host.name} has ringup "
                                f"{hello['ringup']}, the driver {__version__}: install the same "
                                "version on all nodes")


def host_environments(hosts):
    """Return, for each host, the variables for its ranks: the address of torch's store, and the
    GPUs of its tasks in the order of local ranks, so that local_rank() is an index into them."""
    first = hosts[0].first[0]
    master = {"MASTER_ADDR": first["address"], "MASTER_PORT": str(first["port"])}
    environments = []
    for host in hosts:
        gpus = [hello["gpus"] for hello, _ in host.tasks]
        env = dict(master)
        if any(gpus):
            env["CUDA_VISIBLE_DEVICES"] = ",".join(itertools.chain(*gpus))
        env[GPUS] = ";".join(",".join(g) for g in gpus)
        environments.append(env)
    return environments


# -- the stage -------------------------------------------------------------------------------------

class Rdd:
    """The Spark job of a stage, run by a SparkContext."""

    def __init__(self, sc, size, body, description, barrier):
        from pyspark import InheritableThread

        self.thread_class = InheritableThread
        self.sc, self.group = sc, f"ringup.{os.getpid()}.{next(_numbers)}"
        self.size, self.body, self.description = size, body, description
        self.barrier, self.running = barrier, 0

    def collect(self):
        """Run the stage; return its rows."""
        self.sc.setJobGroup(self.group, self.description, interruptOnCancel=True)
        rdd = self.sc.parallelize(range(self.size), self.size)
        return (rdd.barrier() if self.barrier else rdd).mapPartitions(self.body).collect()

    def cancel(self):
        """Ask Spark to end the tasks."""
        self.sc.cancelJobGroup(self.group)


class Stage:
    """Runs the Spark job in a thread.  The main thread stays free for SIGINT, which pyspark handles
    badly while it waits for the JVM."""

    def __init__(self, sc, size, body, description, barrier=True):
        self.query = connect.Query(sc, size, body, barrier) \
            if isinstance(sc, connect.Context) else Rdd(sc, size, body, description, barrier)
        self.rows = self.error = None
        self.thread = self.query.thread_class(target=self._run)
        self.thread.daemon = True
        self.thread.start()

    def _run(self):
        try:
            self.rows = self.query.collect()
        except BaseException as e:
            self.error = e

    @property
    def is_over(self):
        """Return whether the Spark job has ended."""
        return not self.thread.is_alive()

    def cancel(self):
        """Ask Spark to end the tasks."""
        try:
            self.query.cancel()
        except Exception:  # the JVM is gone, and the tasks with it
            pass

    def leave(self, has_failed):
        """Wait until the tasks have ended; cancel them if they do not."""
        self.thread.join(FAILED_LEAVE_S if has_failed else LEAVE_S)
        if not self.is_over:
            self.cancel()
            self.thread.join(LEAVE_S)


def explain(error):
    """Return Spark's error as a sentence."""
    return failure.spark_says(str(getattr(error, "java_exception", None) or error))


def _start_failed(stage, lobby, size, seconds):
    """Raise JobFailed, because some tasks have not connected."""
    if stage.is_over and stage.error:
        raise JobFailed(f"Spark could not start the tasks: {explain(stage.error)}") \
            from stage.error
    there = len(lobby.tasks)
    raise JobFailed(
        f"Timed out waiting for Spark tasks to start: {there} of {size} have connected within "
        f"{seconds:g} s.  Please check that you have enough resources to run all processes: other "
        "jobs may keep the slots busy, or the executors cannot connect to the driver at "
        f"{lobby.address[0]} port {lobby.address[1]}.  A longer start timeout is "
        "HOROVOD_SPARK_START_TIMEOUT=SECONDS")


def _wait_for_tasks(stage, lobby, size, seconds):
    """Wait until all tasks have connected, or until the stage has ended successfully without
    connections; JobFailed if the tasks do not start."""
    begin, is_said = time.monotonic(), False
    while not lobby.wait(0.2):
        waited = time.monotonic() - begin
        if stage.is_over:
            if stage.rows:
                return
            _start_failed(stage, lobby, size, seconds)
        # Tasks that run, and tasks of which nothing is known, may be unable to connect.
        if waited >= seconds and stage.query.running == 0 and not lobby.tasks:
            _start_failed(stage, lobby, size, seconds)
        if waited >= seconds and isinstance(stage.query, Rdd):
            _start_failed(stage, lobby, size, seconds)
        if not is_said and waited >= APART_S and not isinstance(stage.query, Rdd):
            is_said = True
            print(_apart(stage, lobby), file=sys.stderr, flush=True)


def _apart(stage, lobby):
    """Return a message for a Spark Connect client to which the tasks have not connected."""
    where = f"this process at {lobby.address[0]} port {lobby.address[1]}"
    if stage.query.running or lobby.tasks:
        return (f"ringup: the tasks run, and cannot all connect to {where}: the ranks' output "
                "comes when the job has ended; until then it is in the executors' stderr")
    return (f"ringup: no task has connected to {where} so far: either they wait for task slots, or "
            "they run and cannot connect; then the ranks' output comes when the job has ended")


def _give_orders(job, hosts):
    """Send each task its orders; return the connections to the rank daemons by host."""
    connections = {}
    for host, env in zip(hosts, host_environments(hosts)):
        for _, ch in host.tasks[1:]:
            ch.send({"starts": False})
        ch = host.first[1]
        ch.send(job.start(env))
        connections[host.name] = ch.release()
    return connections


def run_ranks(job, tasks, look=lambda: None):
    """Run the ranks of a job in the connected tasks, {index: (report, session)}; return its
    Launcher after it has ended."""
    hosts = group_by_host(tasks)
    check_tasks(hosts)
    address = hosts[0].first[1].address
    running = Launcher([(h.name, len(h.tasks)) for h in hosts], _give_orders(job, hosts),
                       job.size, address, job.output)
    running.wait(look)
    return running


def run_job(job, sc, seconds, description):
    """Run a job in a barrier stage; return its Launcher after it has ended."""
    check_cluster(sc)
    wait_for_slots(sc, job.size, seconds)
    lobby = Lobby(hosts_of(sc), job.size, job.key)
    stage = None
    try:
        body = sc.body(lobby.address, job) if isinstance(sc, connect.Context) else \
            functools.partial(task.run, lobby.address, job.key, job.orders(), job.payload)
        stage = Stage(sc, job.size, body, description)
        _wait_for_tasks(stage, lobby, job.size, seconds)
        if stage.rows:
            return connect.ended(stage.rows, job)
        running = run_ranks(job, lobby.tasks, lambda: _look(stage))
        lobby.close()
        running.spark = failure.spark_error(stage, running)
        stage.leave(running.process.returncode != 0)
        return running
    except BaseException:
        if stage:
            stage.cancel()
        raise
    finally:
        lobby.close()


def _look(stage):
    """Raise JobFailed if Spark has given up; called while ranks run."""
    if stage.is_over and stage.error:
        raise JobFailed(f"Spark has ended the tasks: {explain(stage.error)}") from stage.error


def run(fn, args=(), kwargs=None, num_proc=None, env=None, start_timeout=None, output=None,
        copy=False, description=None, first_only=False):
    """Call fn(*args, **kwargs) on num_proc ranks on Spark's executors; return the results by rank.

    Each of the num_proc ranks occupies a task slot; None means all slots.  env contains variables
    for the ranks in addition to those of the executors; None means the driver's variables that
    frameworks read (job.FORWARDED). start_timeout is the number of seconds in which slots must
    become free and tasks must start.  output is an Output; without one, the ranks' output is
    printed here, with "[RANK]<stdout>:" before each line.  With copy, it also goes to the stderr of
    the executors.  With first_only, only rank 0's result is returned; the others are None.

    Raises JobFailed if a rank fails, CannotPickle if fn cannot be sent, and RuntimeError without a
    session.  Several threads may call this function; each call is a separate job."""
    arguments.function(fn, *arguments.sequences(args, kwargs), "fn")
    size = num_proc if num_proc is None else arguments.number(num_proc, "num_proc", 1)
    sc = context()
    seconds = start_seconds(start_timeout)
    size = size or slots(sc) or sc.defaultParallelism
    job = jobs.Job.of_function(size, fn, args, kwargs,
                               env=jobs.forwarded() if env is None else env,
                               output=output or to_stdout(), copy=copy, first_only=first_only)
    name = description or f"ringup: {getattr(fn, '__name__', 'function')}"
    return run_job(job, sc, seconds, name).results()


def to_stdout(form=("--tag-output",)):
    """Return an Output that prints all lines on this process's own streams."""
    lock = threading.Lock()  # lines of ranks and messages come from threads of their own

    def write(stream, end=""):
        def line(text):
            with lock:
                s = getattr(sys, stream)
                s.write(text + end)
                s.flush()
        return line

    return jobs.Output(write("stdout"), write("stderr"), write("stdout", "\n"), form)
