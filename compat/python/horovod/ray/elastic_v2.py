# elastic_v2.py - elastic jobs on Ray: ranks come and go with the nodes.
# SPDX-License-Identifier: Apache-2.0
"""An actor reserves the resources of a rank, and starts the rank as its child through a rank
daemon.  If the actor ends for any reason, its rank ends.  To `ringup run`, which makes all
decisions, each actor is a host with one slot; it reads the list of present actors once a second."""

import base64
import math
import os
import random
import re
import shlex
import sys
import tempfile
import threading
import time
import traceback

import ray
from ray import exceptions

import ringup
from horovod.runner.elastic import driver
from horovod.runner.elastic.discovery import HostDiscovery
from ringup.spark import job as jobs, session, stage, task
from ringup.spark.elastic_stage import HostFile
from ringup.spark.failure import JobFailed
from ringup.spark.launcher import Launcher

from . import ray_logger, worker

SETTLE_S = 10    # for more actors to come, once there are enough to begin
MOST_DEATHS = 3  # of actors before they have come


class RayHostDiscovery(HostDiscovery):
    """Returns all nodes of the Ray cluster, with their total resources."""

    def __init__(self, use_gpu=False, cpus_per_worker=1, gpus_per_worker=1):
        self.use_gpu, self.cpus_per_worker = use_gpu, cpus_per_worker
        self.gpus_per_worker = gpus_per_worker

    def find_available_hosts_and_slots(self):
        """Return {address of a node: number of slots}."""
        found = {}
        for node in ray.nodes():
            if not node.get("alive", node.get("Alive")):
                continue
            resources = node["Resources"]
            slots = resources.get("CPU", 0) // self.cpus_per_worker if self.cpus_per_worker else \
                math.inf
            if self.use_gpu:
                slots = min(slots, resources.get("GPU", 0) // self.gpus_per_worker)
            if slots and slots < math.inf:
                name = node["NodeManagerAddress"]  # nodes of one machine have the same
                found[name] = found.get(name, 0) + int(slots)
        return found


class Host:
    """An actor that reserves the resources of a rank."""

    def serve(self, name, address, key, orders, payload, paths):
        """Start the rank daemon, and wait until it ends."""
        worker.add_paths(paths)
        ch = session.connect(address, key, task.CONNECT_S)
        own = ch.address
        node = ray.get_runtime_context().get_node_id()
        ch.send({"name": name, "node": node, "ringup": ringup.__version__,
                 "executable": sys.executable})
        env = orders["env"]
        env["RINGUP_NODE"] = node
        if ray.get_gpu_ids():
            # Local ranks change, so each sees all GPUs of the node.
            count = next(n["Resources"]["GPU"] for n in ray.nodes() if n["NodeID"] == node)
            env.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(int(count)))))
        if {"RINGUP_INTERFACE", "HOROVOD_GLOO_IFACE"}.isdisjoint({**os.environ, **env}):
            env["RINGUP_INTERFACE"] = own
        return task.serve(*ch.release(), orders, payload, own)


class _Lobby:
    """The place where the actors connect."""

    def __init__(self, key):
        self.lock = threading.Lock()
        self.connections = {}  # name -> (socket, key), for the Launcher
        self.there = {}        # name -> the node's id
        self.error = None
        self.host = ray.util.get_node_ip_address()
        self.door = session.listen([self.host], key)
        self.address = self.host, self.door.port
        threading.Thread(target=self.door.serve, args=(self._welcome, self._refuse),
                         daemon=True).start()

    def _refuse(self, error):
        self.error = JobFailed(f"an actor cannot join: {error}")

    def _welcome(self, ch):
        try:
            hello = ch.receive(stage.HELLO_S)
            if hello["ringup"] != ringup.__version__:
                self.error = JobFailed(
                    f"{hello['executable']} on Ray node {hello['node'][:8]} has ringup "
                    f"{hello['ringup']}, the driver {ringup.__version__}: install the same version "
                    "on all nodes")
                raise ConnectionError(str(self.error))
            with self.lock:
                self.connections[hello["name"]] = ch.release()
                self.there[hello["name"]] = hello["node"]
        except (OSError, ValueError, KeyError, TypeError):
            ch.close()

    def close(self):
        """Close connections that no host has claimed."""
        self.door.shut()
        with self.lock:
            for sock, _ in self.connections.values():
                sock.close()
            self.connections.clear()


class _Slot:
    """The resources of a rank, and the actor that holds them."""

    def __init__(self, name, actor, ref):
        self.name, self.actor, self.ref, self.is_wanted = name, actor, ref, True


class _Slots:
    """The current slots, created according to the discovery."""

    def __init__(self, adapter, job, lobby):
        self.adapter, self.job, self.lobby = adapter, job, lobby
        self.orders, self.payload = ray.put(job.orders()), ray.put(job.payload)
        self.slots, self.count = {}, 0  # (host, number) -> _Slot
        self.shut = {}                  # (host, number) -> when it may be used again
        self.next = self.deaths = 0     # deaths: of actors that never came
        self.has_begun = False          # has `ringup run`?

    def _wanted(self):
        """Return places for ranks according to the discovery, those in use first."""
        found = self.adapter.settings.discovery.find_available_hosts_and_slots()
        now = time.monotonic()
        places = [(host, i) for host, slots in found.items() for i in range(int(slots))]
        places = [p for p in places if self.shut.get(p, 0) <= now]
        places.sort(key=lambda p: p not in self.slots)
        return places[:self.adapter.max_workers]

    def _add(self, place):
        host, number = place
        self.count += 1
        name = re.sub(r"[^A-Za-z0-9.-]", "-", host)[:200] + f".{number}.{self.count}"
        actor = ray.remote(Host).options(
            num_cpus=self.adapter.cpus_per_worker, num_gpus=self.adapter.gpus,
            resources={f"node:{host}": 0.001}).remote()
        ref = actor.serve.remote(name, self.lobby.address, self.job.key, self.orders,
                                 self.payload, worker.own_paths())
        self.slots[place] = _Slot(name, actor, ref)

    def _reap(self):
        """Forget slots whose actor has ended."""
        refs = {slot.ref: place for place, slot in self.slots.items()}
        ended = ray.wait(list(refs), num_returns=len(refs), timeout=0)[0] if refs else []
        for ref in ended:
            place = refs[ref]
            slot = self.slots.pop(place)
            try:
                status = ray.get(ref)
                if status and not self.has_begun:
                    raise JobFailed(f"ringup rankd on node {place[0]} ended with status {status}: "
                                    "see the output of Ray's actor Host", host=place[0])
                # The launcher has done with it: a rank has failed there, or the host is gone.
                limits = self.adapter.cooldown_range
                self.shut[place] = time.monotonic() + random.uniform(*limits) if limits \
                    else math.inf if slot.is_wanted else 0
            except exceptions.RayTaskError as e:
                raise JobFailed(f"node {place[0]} cannot start a rank: {e.cause}\n\n"
                                f"{e.traceback_str.strip()}", host=place[0]) from e.cause
            except exceptions.RayError as e:  # the actor has died, or its node
                if slot.name not in self.lobby.there:
                    self.deaths += 1
                    if self.deaths == MOST_DEATHS:
                        raise JobFailed(f"actors on node {place[0]} end before they can start a "
                                        f"rank: {e}", host=place[0]) from e
            ray.kill(slot.actor)

    def look(self):
        """Update the slots; return the names of the present actors."""
        if self.lobby.error:
            raise self.lobby.error
        self._reap()
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + driver.DISCOVER_HOSTS_FREQUENCY_SECS
            wanted = self._wanted()
            for place, slot in list(self.slots.items()):
                slot.is_wanted = place in wanted
                if not slot.is_wanted and slot.name not in self.lobby.there:
                    ray.kill(slot.actor)  # it has not come yet, and is not waited for
                    del self.slots[place]
            for place in wanted:
                if place not in self.slots:
                    self._add(place)
        return sorted(s.name for s in self.slots.values()
                      if s.is_wanted and s.name in self.lobby.there)

    def close(self):
        """End all actors."""
        for slot in self.slots.values():
            ray.kill(slot.actor)
        self.slots.clear()


class ElasticAdapter:
    """Runs ranks that come and go.  The arguments are those of RayExecutor."""

    def __init__(self, settings, min_workers, max_workers=None, use_gpu=False, cpus_per_worker=1,
                 gpus_per_worker=None, override_discovery=True, reset_limit=None,
                 cooldown_range=None, elastic_timeout=600):
        self.settings = settings
        self.min_workers, self.max_workers = min_workers, max_workers
        self.cpus_per_worker = cpus_per_worker
        self.gpus = (gpus_per_worker or 1) if use_gpu else 0
        self.reset_limit, self.cooldown_range = reset_limit, cooldown_range
        self.elastic_timeout = elastic_timeout
        self.executable, self.env = None, {}
        if override_discovery:
            settings.discovery = RayHostDiscovery(use_gpu, cpus_per_worker, self.gpus or 1)
        elif getattr(settings, "discovery", None) is None:
            raise ValueError("override_discovery=False, but settings.discovery is not set")

    def start(self, executable_cls=None, executable_args=None, executable_kwargs=None,
              extra_env_vars=None):
        """Wait until the cluster has room for min_workers.  The ranks start with run()."""
        deadline = time.monotonic() + self.elastic_timeout
        while True:
            found = self.settings.discovery.find_available_hosts_and_slots()
            if sum(found.values()) >= self.min_workers:
                break
            if time.monotonic() >= deadline:
                raise TimeoutError(f"the nodes have room for {sum(found.values())} ranks ({found}) "
                                   f"after {self.elastic_timeout:g} s, and min_workers is "
                                   f"{self.min_workers}: add nodes, or set elastic_timeout")
            time.sleep(driver.DISCOVER_HOSTS_FREQUENCY_SECS)
        self.executable = executable_cls, executable_args or (), executable_kwargs or {}
        self.env = {k: str(v) for k, v in (extra_env_vars or {}).items()}
        nics = getattr(self.settings, "nics", None)
        if nics:
            self.env.setdefault("HOROVOD_GLOO_IFACE", ",".join(sorted(nics)))

    def run(self, fn, args=None, kwargs=None, callbacks=None):
        """Call fn(*args, **kwargs) on each rank; return the results by rank, for the ranks at the
        end."""
        return self._run(fn, args or (), kwargs or {}, callbacks)

    def execute(self, fn, callbacks=None):
        """Call fn(executable) on each rank; return the results as run() does."""
        return self._run(fn, None, None, callbacks)

    def run_remote(self, fn, args=None, kwargs=None):
        """Raise an exception: elastic jobs do not support this."""
        raise NotImplementedError("elastic jobs have no ObjectRef per rank, because ranks change: "
                                  "call run()")

    def execute_single(self, fn):
        """Raise an exception: elastic jobs do not support this."""
        raise NotImplementedError("elastic jobs have no fixed first rank, because ranks change: "
                                  "call execute()")

    def shutdown(self):
        """Do nothing: run() leaves nothing behind."""
        self.executable = None

    def _job(self, fn, args, kwargs, callbacks):
        cls, cls_args, cls_kwargs = self.executable

        def call():
            executable = cls(*cls_args, **cls_kwargs) if cls else None
            return fn(executable) if args is None else fn(*args, **kwargs)

        output = stage.to_stdout()
        output.log = _Log(output.log, callbacks or ())
        env = {"RAY_ADDRESS": ray.get_runtime_context().gcs_address, **jobs.forwarded(), **self.env}
        return jobs.Job.of_function(self.min_workers, call, env=env, output=output)

    def _options(self, path):
        words = ["--min-np", self.min_workers, "--elastic-timeout",
                 max(1, int(self.elastic_timeout)), "--host-discovery-script",
                 f"cat {shlex.quote(path)}"]
        words += [] if self.max_workers is None else ["--max-np", self.max_workers]
        words += [] if self.reset_limit is None else ["--reset-limit", self.reset_limit]
        return [str(word) for word in words]

    def _run(self, fn, args, kwargs, callbacks):
        if self.executable is None:
            raise RuntimeError("no workers: call start() first")
        job = self._job(fn, args, kwargs, callbacks)
        lobby = _Lobby(job.key)
        slots = _Slots(self, job, lobby)
        try:
            with tempfile.TemporaryDirectory(prefix="ringup-hosts.") as folder:
                hosts = HostFile(folder)
                names = self._wait(slots)
                hosts.write(names)
                slots.has_begun = True
                running = Launcher(None, lobby.connections, len(names), lobby.host, job.output,
                                   self._options(hosts.path))
                running.wait(lambda: hosts.write(slots.look()))
                return running.results()
        finally:
            lobby.close()
            slots.close()

    def _wait(self, slots):
        """Return the actors of the first generation."""
        begin = time.monotonic()
        while True:
            names, now = slots.look(), time.monotonic()
            if len(names) >= self.min_workers and (
                    len(names) == len(slots.slots) or now - begin >= SETTLE_S):
                return names
            if now - begin >= self.elastic_timeout:
                raise JobFailed(f"{len(names)} of {self.min_workers} ranks have room after "
                                f"{self.elastic_timeout:g} s: Ray could not start actors with "
                                f"{self.cpus_per_worker} CPU and {self.gpus} GPU each; others may "
                                "use the nodes")
            time.sleep(0.1)


class _Log:
    """Processes reports of ranks: messages of ray_logger for callbacks, and lines for the driver.
    """

    def __init__(self, say, callbacks):
        self.say, self.callbacks = say, callbacks

    def __call__(self, text):
        if not text.startswith(ray_logger.MARK):
            self.say(text)
            return
        info = ray.cloudpickle.loads(base64.b64decode(text[len(ray_logger.MARK):]))
        for callback in self.callbacks:
            try:
                callback(info)
            except Exception:
                traceback.print_exc()
