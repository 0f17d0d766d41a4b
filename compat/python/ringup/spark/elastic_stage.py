# elastic_stage.py - an elastic job on Spark: ranks come and go with the tasks of a stage.
# SPDX-License-Identifier: Apache-2.0
"""An elastic job is not a barrier stage.  Spark runs as many of its tasks as it has slots, and runs
a task again on another executor when one is lost.  To `ringup run`, each task that connects is a
host with one slot.  `ringup run` asks for the current hosts once a second, and makes all decisions.
"""

import functools
import os
import re
import select
import shlex
import socket
import tempfile
import time

from . import connect, failure, stage, task
from .failure import JobFailed
from .launcher import Launcher

ELASTIC_S = 600  # with too few tasks, before the job is given up


class Tasks(stage.Lobby):
    """Tasks as hosts.  Each task gets its orders when it connects, and is listed until its
    connection ends."""

    def __init__(self, sc, size, job):
        self.job = job
        self.connections = {}  # name -> (socket, key) that nobody has asked for yet
        self.watched = {}      # name -> the same connection, to see its end
        super().__init__(stage.hosts_of(sc), size, job.key)

    def take(self, hello, ch):
        """Handle a task that has connected."""
        try:
            stage.check_tasks([stage.Host(hello["name"], [(hello, ch)])])
        except JobFailed as e:
            self.error = e
            raise ConnectionError(str(e)) from e
        ch.send(self.job.start({stage.GPUS: ",".join(hello["gpus"]),
                                **({"CUDA_VISIBLE_DEVICES": ",".join(hello["gpus"])}
                                   if hello["gpus"] else {})}))
        name = re.sub(r"[^A-Za-z0-9.-]", "-", hello["name"])[:200] or "host"
        name = f"{name}.{hello['index']}.{hello['attempt']}"
        self.connections[name] = ch.release()
        self.watched[name] = self.connections[name][0].dup()
        self.changed.notify_all()

    def listed(self):
        """Return the names of the connected tasks, and forget the others."""
        with self.changed:
            for name, sock in list(self.watched.items()):
                poll = select.poll()
                poll.register(sock, select.POLLRDHUP)
                if poll.poll(0):
                    sock.close()
                    del self.watched[name]
            return sorted(self.watched)

    def wait_for(self, count, seconds):
        """Return whether this many tasks have connected, or do so within this time."""
        with self.changed:
            return self.changed.wait_for(lambda: len(self.watched) >= count, seconds)

    def close(self):
        """End all connections."""
        super().close()
        with self.changed:
            unused = [sock for sock, _ in self.connections.values()]
            for sock in (*self.watched.values(), *unused):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                sock.close()
            self.watched.clear()
            self.connections.clear()


class HostFile:
    """The file from which `ringup run` reads the hosts."""

    def __init__(self, folder):
        self.path, self.names = os.path.join(folder, "hosts"), None

    def write(self, names):
        """Write the file, completely or not at all; do nothing if the hosts are the same."""
        if names == self.names:
            return
        with open(f"{self.path}.part", "w", encoding="ascii") as f:
            f.write("".join(f"{name}:1\n" for name in names))
        os.rename(f"{self.path}.part", self.path)
        self.names = names


def _wait_for_tasks(running, tasks, count, seconds):
    begin = time.monotonic()
    deadline = begin + seconds
    while not tasks.wait_for(count, 0.2):
        if tasks.error:
            raise tasks.error
        if running.is_over and running.error:
            raise JobFailed(f"Spark could not start the tasks: {stage.explain(running.error)}") \
                from running.error
        # One that cannot connect fails and runs again, or another does in its place.
        if running.query.running == count and time.monotonic() >= begin + stage.APART_S and \
                isinstance(running.query, connect.Query):
            raise JobFailed(connect.apart(tasks.address))
        if time.monotonic() >= deadline:
            raise JobFailed(
                f"Timed out waiting for Spark tasks to start: {len(tasks.watched)} of {count} have "
                f"connected within {seconds:g} s.  Please check that you have enough resources to "
                "run all processes; a longer start timeout is HOROVOD_SPARK_START_TIMEOUT=SECONDS")


def _options(job, hosts, min_np, max_np, elastic_timeout, reset_limit):
    words = ["--min-np", min_np, "--max-np", max_np, "--host-discovery-script",
             f"cat {shlex.quote(hosts.path)}", "--elastic-timeout", int(elastic_timeout)]
    words += [] if reset_limit is None else ["--reset-limit", reset_limit]
    return [str(word) for word in words]


def run_job(job, sc, min_np, max_np, seconds, elastic_timeout, reset_limit, description):
    """Run a job of job.size ranks, at least min_np and at most max_np; return its Launcher after it
    has ended."""
    tasks = running = None
    with tempfile.TemporaryDirectory(prefix="ringup-hosts.") as folder:
        hosts = HostFile(folder)
        try:
            tasks = Tasks(sc, max_np, job)
            body = sc.elastic_body(tasks.address, job) if isinstance(sc, connect.Context) else \
                functools.partial(task.run, tasks.address, job.key, job.orders(), job.payload)
            running = stage.Stage(sc, max_np, body, description, barrier=False)
            _wait_for_tasks(running, tasks, job.size, seconds)

            def look():
                if tasks.error:
                    raise tasks.error
                if running.is_over and running.error:
                    raise JobFailed(f"Spark has ended the tasks: {stage.explain(running.error)}") \
                        from running.error
                hosts.write(tasks.listed())

            look()
            address = next(iter(tasks.watched.values())).getsockname()[0]
            launcher = Launcher(None, tasks.connections, job.size, address, job.output,
                                _options(job, hosts, min_np, max_np, elastic_timeout, reset_limit))
            launcher.wait(look)
            tasks.close()
            launcher.spark = failure.spark_error(running, launcher)
            if max_np > (stage.slots(sc) or 0):
                running.cancel()  # tasks that never had a slot would come now
            running.leave(launcher.process.returncode != 0)
            return launcher
        except BaseException:
            if running:
                running.cancel()
            raise
        finally:
            if tasks:
                tasks.close()
