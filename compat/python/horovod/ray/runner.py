# runner.py - RayExecutor: upstream's interface to ranks on Ray.
# SPDX-License-Identifier: Apache-2.0

import collections
import os
import threading
from dataclasses import dataclass

import ray
from ray.util.placement_group import get_current_placement_group

import ringup
from horovod.runner.common.util import secret, timeout
from ringup.spark.failure import JobFailed

from . import failure, meeting, worker
from .elastic_v2 import ElasticAdapter
from .strategy import ColocatedStrategy, PGStrategy

LEAVE_S = 3      # for ranks to leave their job and end
TIMEOUT_S = 300  # for ranks to meet, if the settings do not say


@dataclass
class MiniSettings:
    """The settings of RayExecutor.  Horovod's Settings work, too."""

    nics: set = None
    verbose: int = 1
    key: str = None
    ssh_port: int = None
    ssh_identity_file: str = None
    timeout_s: int = TIMEOUT_S
    placement_group_timeout_s: int = 100
    elastic: bool = False

    def __post_init__(self):
        self.key = self.key or secret.make_secret_key()

    @property
    def start_timeout(self):
        """Return a time limit that starts now."""
        return timeout.Timeout(self.timeout_s, "Timed out waiting for {activity}.")


class Coordinator:
    """Numbers the ranks on each node."""

    def __init__(self, settings):
        self.settings, self.hostnames = settings, set()
        self.node_id_by_rank = collections.defaultdict(list)

    @property
    def world_size(self):
        """Return the number of ranks."""
        return sum(map(len, self.node_id_by_rank.values()))

    @property
    def node_id_string(self):
        """Return NODE:RANKS,NODE:RANKS."""
        return ",".join(f"{n}:{len(ranks)}" for n, ranks in self.node_id_by_rank.items())

    def register(self, hostname, node_id, world_rank):
        """Register a rank that has joined."""
        self.hostnames.add(hostname)
        self.node_id_by_rank[node_id].append(world_rank)

    def finalize_registration(self):
        """Return {rank: its variables}."""
        nodes = list(self.node_id_by_rank.values())
        found = {}
        for number, ranks in enumerate(nodes):
            for local_rank, rank in enumerate(ranks):
                peers = [i for i, other in enumerate(nodes) if len(other) > local_rank]
                found[rank] = {"HOROVOD_CROSS_RANK": peers.index(number),
                               "HOROVOD_CROSS_SIZE": len(peers),
                               "HOROVOD_LOCAL_RANK": local_rank, "HOROVOD_LOCAL_SIZE": len(ranks)}
        return found


class StaticAdapter:
    """Runs a fixed number of ranks as actors in a placement group."""

    def __init__(self, settings, num_workers=None, num_hosts=None, num_workers_per_host=1,
                 cpus_per_worker=1, use_gpu=False, gpus_per_worker=None,
                 use_current_placement_group=True):
        self.settings = settings
        self.num_workers, self.num_hosts = num_workers, num_hosts
        self.num_workers_per_host = num_workers_per_host or 1
        self.how = {"settings": settings, "use_gpu": use_gpu, "cpus_per_worker": cpus_per_worker,
                    "gpus_per_worker": gpus_per_worker}
        self.use_current_placement_group = use_current_placement_group
        self.strategy = self.meeting = None
        self.members = []

    @property
    def workers(self):
        """Return the actors by rank."""
        return [m.actor for m in self.members]

    def _create_strategy(self):
        current = self.use_current_placement_group and get_current_placement_group()
        if self.num_workers or current:
            count = self.num_workers or self.num_hosts * self.num_workers_per_host
            return PGStrategy(num_workers=count, use_current=bool(current), **self.how)
        return ColocatedStrategy(num_hosts=self.num_hosts,
                                 num_workers_per_host=self.num_workers_per_host, **self.how)

    def start(self, executable_cls=None, executable_args=None, executable_kwargs=None,
              extra_env_vars=None):
        """Start the actors, and create an executable_cls in each."""
        self.shutdown()
        self.strategy = self._create_strategy()
        try:
            actors = self.strategy.create_workers()
            self.meeting = ray.remote(meeting.Meeting).options(
                num_cpus=0, max_concurrency=4 * len(actors) + 4).remote(len(actors))
            self._number(actors, extra_env_vars or {})
            if executable_cls:
                self._collect([a.start_executable.remote(executable_cls, executable_args,
                                                         executable_kwargs) for a in self.workers])
        except BaseException:
            self.shutdown()
            raise

    def _number(self, actors, extra):
        """Make the actors ranks, and number those of a node consecutively."""
        self.members = [failure.Member(i, a, "?", None) for i, a in enumerate(actors)]
        found = self._collect([a.where.remote() for a in actors])
        order = list(dict.fromkeys(w["node_id"] for w in found))
        ranks = sorted(range(len(actors)), key=lambda i: (order.index(found[i]["node_id"]), i))
        found = [found[i] for i in ranks]
        self.members = [failure.Member(r, actors[i], self._node(w), w["pid"])
                        for r, (i, w) in enumerate(zip(ranks, found))]
        coordinator = Coordinator(self.settings)
        for rank, w in enumerate(found):
            if w["ringup"] != ringup.__version__:
                raise JobFailed(f"{w['executable']} on {self.members[rank]} has ringup "
                                f"{w['ringup']}, the driver {ringup.__version__}: install the same "
                                "version on all nodes")
            coordinator.register(w["hostname"], w["node_id"], rank)
        places = coordinator.finalize_registration()
        nodes = [m.node for m in self.members]
        seconds, paths = getattr(self.settings, "timeout_s", TIMEOUT_S), worker.own_paths()
        self._collect([
            m.actor.join.remote(meeting.Place(self.meeting, m.rank, nodes, seconds),
                                {**self._variables(found, m.rank, places[m.rank]), **extra}, paths)
            for m in self.members])

    @staticmethod
    def _node(where):
        return f"{where['address']} ({where['hostname']}, Ray node {where['node_id'][:8]})"

    def _variables(self, found, rank, place):
        mine, size = found[rank], len(found)
        nics = getattr(self.settings, "nics", None)
        variables = {
            "HOROVOD_RANK": rank, "HOROVOD_SIZE": size, **place, "RANK": rank, "WORLD_SIZE": size,
            "HOROVOD_HOSTNAME": mine["node_id"], "RINGUP_NODE": mine["node_id"],
            "LOCAL_RANK": place["HOROVOD_LOCAL_RANK"],
            "LOCAL_WORLD_SIZE": place["HOROVOD_LOCAL_SIZE"],
            "MASTER_ADDR": found[0]["address"], "MASTER_PORT": found[0]["port"]}
        if nics:
            variables["HOROVOD_GLOO_IFACE"] = ",".join(sorted(nics))
        elif len({w["node_id"] for w in found}) > 1:
            variables["RINGUP_INTERFACE"] = mine["address"]
        if self.how["use_gpu"]:
            # A rank sees the GPUs of all ranks of its node, so local_rank() is an index into them.
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(
                str(g) for w in found if w["node_id"] == mine["node_id"] for g in w["gpus"])
        return variables

    def _collect(self, refs, idle=None):
        return failure.collect(self.members, refs, self.meeting, idle)

    def _check(self):
        if not self.members:
            raise RuntimeError("no workers: call start() first")

    def execute(self, fn, callbacks=None):
        """Call fn(executable) on each rank; return the results by rank."""
        return self._execute(callbacks, fn)

    def _execute(self, callbacks, *call):
        self._check()
        if not callbacks:
            return self._collect([a.execute.remote(*call) for a in self.workers])
        self._collect([a.log.remote(True) for a in self.workers])

        def tell():
            for info in ray.get(self.meeting.take.remote()):
                for callback in callbacks:
                    callback(info)

        try:
            return self._collect([a.execute.remote(*call) for a in self.workers], tell)
        finally:
            for a in self.workers:
                a.log.remote(False)

    def run(self, fn, args=None, kwargs=None, callbacks=None):
        """Call fn(*args, **kwargs) on each rank; return the results by rank."""
        return self._execute(callbacks, fn, args or [], kwargs or {})

    def run_remote(self, fn, args=None, kwargs=None):
        """Start the calls without waiting; return one ObjectRef per rank, for ray.get()."""
        self._check()
        refs = [a.execute.remote(fn, args or [], kwargs or {}) for a in self.workers]
        threading.Thread(target=failure.watch, daemon=True,
                         args=(self.members, list(refs), self.meeting)).start()
        return refs

    def execute_single(self, fn):
        """Call fn(executable) on rank 0; return its result."""
        self._check()
        first = self.members[:1]
        return failure.collect(first, [first[0].actor.execute.remote(fn)], self.meeting)[0]

    def shutdown(self):
        """End the actors, and release their resources."""
        actors, self.members = self.workers, []
        left = [a.finish.remote() for a in actors]
        if left:
            ray.wait(left, num_returns=len(left), timeout=LEAVE_S)
        for a in actors + [self.meeting] * bool(self.meeting):
            ray.kill(a)
        self.meeting = None
        if self.strategy:
            self.strategy.shutdown()
            self.strategy = None


class RayExecutor:
    """Calls functions on ranks that are Ray actors.

    settings is the result of create_settings(). The executor starts num_workers ranks on as few
    nodes as possible, or num_workers_per_host ranks on each of num_hosts nodes.  Each rank reserves
    cpus_per_worker CPUs and, with use_gpu, gpus_per_worker GPUs (1 by default). With
    use_current_placement_group, it uses the caller's placement group, if it has one.

    With min_workers, the job is elastic: ranks may come and go with the nodes, and their number
    stays between min_workers and max_workers.  reset_limit is how often the ranks may rendezvous
    again.  cooldown_range is the minimum and maximum number of seconds after which a place where a
    rank failed is used again; None means never.  elastic_timeout is the number of seconds to wait
    for enough ranks.  With override_discovery, Ray is asked for the nodes; otherwise
    settings.discovery is."""

    @classmethod
    def create_settings(cls, timeout_s=30, ssh_identity_file=None, ssh_str=None,
                        placement_group_timeout_s=100, nics=None):
        """Return the settings.

        timeout_s is the time limit for the ranks to meet in init(). placement_group_timeout_s is
        the time limit for Ray to find room for them.  nics are the interfaces between nodes.
        ssh_str is written to ssh_identity_file if that file does not exist; this package does not
        use ssh."""
        if ssh_str and not os.path.exists(ssh_identity_file):
            with open(os.open(ssh_identity_file, os.O_CREAT | os.O_WRONLY, 0o600), "w",
                      encoding="utf-8") as f:
                f.write(ssh_str)
        return MiniSettings(ssh_identity_file=ssh_identity_file, timeout_s=timeout_s,
                            placement_group_timeout_s=placement_group_timeout_s, nics=nics)

    def __init__(self, settings, num_workers=None, num_hosts=None, num_workers_per_host=1,
                 cpus_per_worker=1, use_gpu=False, gpus_per_worker=None,
                 use_current_placement_group=True, min_workers=None, max_workers=None,
                 reset_limit=None, cooldown_range=None, elastic_timeout=600,
                 override_discovery=True):
        if max_workers and (not min_workers or min_workers <= 0):
            raise ValueError("`max_workers` provided without any positive `min_workers`: an "
                             "elastic job needs min_workers of 1 or more")
        if min_workers and num_workers:
            raise ValueError("Both `min_workers` and `num_workers` provided.  Use num_workers for "
                             "a fixed size, min_workers for an elastic job")
        if gpus_per_worker and not use_gpu:
            raise ValueError("gpus_per_worker is set, but use_gpu is False: pass use_gpu=True")
        if use_gpu and gpus_per_worker is not None and gpus_per_worker < 1:
            raise ValueError(f"gpus_per_worker must be >= 1: got {gpus_per_worker}")
        common = {"cpus_per_worker": cpus_per_worker, "use_gpu": use_gpu,
                  "gpus_per_worker": gpus_per_worker}
        self.settings, self.adapter, self._is_remote = settings, None, False
        settings.elastic = min_workers is not None
        if settings.elastic:
            if max_workers is not None and max_workers < min_workers:
                raise ValueError(f"max_workers={max_workers} is less than "
                                 f"min_workers={min_workers}")
            self._kind = ElasticAdapter
            self._params = {**common, "min_workers": min_workers, "max_workers": max_workers,
                            "reset_limit": reset_limit, "cooldown_range": cooldown_range,
                            "elastic_timeout": elastic_timeout,
                            "override_discovery": override_discovery}
        else:
            if bool(num_workers) == bool(num_hosts):
                raise ValueError(f"num_workers={num_workers}, num_hosts={num_hosts}: give the "
                                 "number of workers or of hosts, 1 or more")
            self._kind = StaticAdapter
            self._params = {**common, "num_workers": num_workers, "num_hosts": num_hosts,
                            "num_workers_per_host": num_workers_per_host,
                            "use_current_placement_group": use_current_placement_group}

    def start(self, executable_cls=None, executable_args=None, executable_kwargs=None,
              extra_env_vars=None):
        """Start the ranks.

        Each rank creates executable_cls(*executable_args, **executable_kwargs), which is passed to
        the functions of execute(). extra_env_vars contains variables for the ranks."""
        self.shutdown()
        self._is_remote = ray.util.client.ray.is_connected()
        kind = ray.remote(self._kind).options(num_cpus=0).remote if self._is_remote else self._kind
        self.adapter = kind(self.settings, **self._params)
        return self._call("start", executable_cls=executable_cls, executable_args=executable_args,
                          executable_kwargs=executable_kwargs, extra_env_vars=extra_env_vars)

    def execute(self, fn, callbacks=None):
        """Call fn(executable) on each rank; return the results by rank.

        callbacks are called with the arguments of ray_logger.log() on the ranks.  Raises JobFailed,
        which names the rank and node, and also has the type of the exception that fn raised."""
        return self._call("execute", fn=fn, callbacks=callbacks)

    def run(self, fn, args=None, kwargs=None, callbacks=None):
        """Call fn(*args, **kwargs) on each rank; otherwise like execute()."""
        return self._call("run", fn=fn, args=args, kwargs=kwargs, callbacks=callbacks)

    def run_remote(self, fn, args=None, kwargs=None):
        """Start to call fn(*args, **kwargs) on each rank; return ObjectRefs for ray.get()."""
        return self._call("run_remote", fn=fn, args=args, kwargs=kwargs)

    def execute_single(self, fn):
        """Call fn(executable) on rank 0; return its result."""
        return self._call("execute_single", fn=fn)

    def shutdown(self):
        """End the ranks; start() may be called again."""
        if self.adapter is None:
            return
        try:
            self._call("shutdown")
        finally:
            if self._is_remote:
                ray.kill(self.adapter)
            self.adapter = None

    def _call(self, name, **kwargs):
        if self.adapter is None:
            raise RuntimeError("no workers: call start() first")
        method = getattr(self.adapter, name)
        if not self._is_remote:
            return method(**kwargs)
        try:
            return ray.get(method.remote(**kwargs))
        except ray.exceptions.RayTaskError as e:
            raise e.cause from None
