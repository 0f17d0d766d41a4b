# worker.py - a rank: an actor that calls the user's functions.
# SPDX-License-Identifier: Apache-2.0

import os
import socket
import sys
import sysconfig
import traceback

import ray

import ringup
from ringup.spark import task

from . import ray_logger

# What an outer job, in which the driver or Ray was started, has left in the environment.
OF_OTHERS = ("RINGUP_RANK", "RINGUP_SIZE", "RINGUP_LOCAL_RANK", "RINGUP_LOCAL_SIZE", "RINGUP_MEET",
             "RINGUP_SECRET_FD", "RINGUP_WORKER", "RINGUP_NOTICE_FD", "RINGUP_CAUSE_FD",
             "RINGUP_REPORT_FD", "RINGUP_ELASTIC", "RINGUP_JOB", "RINGUP_DAEMON", "HOROVOD_ELASTIC")


def own_paths():
    """Return the folders of the driver's sys.path that belong to the user, not to installed
    packages."""
    installed = tuple(sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib"))
    return [p for p in map(os.path.abspath, sys.path) if not p.startswith(installed)]


def add_paths(paths):
    """Look for modules where the driver does, if this node has these folders."""
    sys.path.extend(p for p in paths if p not in sys.path and os.path.isdir(p))


class BaseHorovodWorker:
    """The class of Ray's actors.  executable is the object that start_executable() has made."""

    executable = None

    def __init__(self, world_rank=0, world_size=1):
        self.world_rank, self.world_size = world_rank, world_size
        self.node = self.port = self.meeting = None

    def node_id(self):
        """Return the id of the Ray node that runs this process."""
        return ray.get_runtime_context().get_node_id()

    def hostname(self):
        """Return the name of the host."""
        return socket.gethostname()

    def get_gpu_ids(self):
        """Return the GPUs that Ray has given to this actor."""
        return ray.get_gpu_ids()

    def update_env_vars(self, env_vars):
        """Set variables of this process."""
        os.environ.update({k: str(v) for k, v in env_vars.items()})

    def env_vars(self):
        """Return the environment of this process."""
        return dict(os.environ)

    def where(self):
        """Return the facts about this process that the driver needs to number the ranks."""
        address = ray.util.get_node_ip_address()
        if self.port is None:  # for torch's store; bound, so that nobody else gets it
            self.port = task.reserve_port(address)
        return {"node_id": self.node_id(), "hostname": self.hostname(), "pid": os.getpid(),
                "address": address, "gpus": self.get_gpu_ids(),
                "port": self.port.getsockname()[1], "ringup": ringup.__version__,
                "executable": sys.executable}

    def join(self, place, env_vars, paths):
        """Become a rank.  place is a meeting.Place; paths are the driver's own_paths()."""
        from ringup import job

        add_paths(paths)
        for name in OF_OTHERS:
            os.environ.pop(name, None)
        if not {"RINGUP_INTERFACE", "HOROVOD_GLOO_IFACE"}.isdisjoint(os.environ):
            env_vars.pop("RINGUP_INTERFACE", None)
        self.update_env_vars(env_vars)
        self.world_rank, self.world_size = place.rank, len(place.nodes)
        self.node, self.meeting = place.nodes[place.rank], place.actor
        job.meeting = place.meet

    def log(self, logs):
        """Connect ray_logger.log() to the driver, or disconnect it."""
        ray_logger.configure(self._tell if logs else None)

    def _tell(self, info):
        ray.get(self.meeting.tell.remote(info))

    def start_executable(self, executable_cls=None, executable_args=None, executable_kwargs=None):
        """Make the object that is passed to the functions of execute()."""
        if executable_cls:
            self.executable = self._call(executable_cls, *(executable_args or ()),
                                         **(executable_kwargs or {}))

    def execute(self, func, args=None, kwargs=None):
        """Call a function: with the object, or with args and kwargs if given."""
        if args is None:
            return self._call(func, self.executable)
        return self._call(func, *args, **kwargs)

    def _call(self, func, *args, **kwargs):
        try:
            return func(*args, **kwargs)
        except SystemExit as e:  # would end the actor without a word
            raise self._marked(RuntimeError(f"the function called sys.exit({e.code!r})"), e) from e
        except Exception as e:
            raise self._marked(e, e)

    def _marked(self, error, origin):
        """Return the exception with rank, node and traceback, which a RayTaskError does not keep;
        if it cannot be pickled, return another one."""
        lines = traceback.format_exception(type(origin), origin, origin.__traceback__.tb_next)
        kind = type(origin)
        name = f"{kind.__module__}.{kind.__qualname__}".replace("builtins.", "")
        told = {"rank": self.world_rank, "node": self.node, "type": name, "message": str(error),
                "types": [t.__name__ for t in kind.__mro__], "traceback": "".join(lines)}
        try:
            error.ringup_failure = told
            ray.cloudpickle.loads(ray.cloudpickle.dumps(error))
        except Exception:
            error = RuntimeError(f"{told['type']}: {told['message']}")
            error.ringup_failure = told
        if hasattr(error, "add_note"):
            error.add_note(f"(rank {told['rank']} on node {told['node']})")
        return error

    def abort(self, why):
        """Fail the operations that other ranks wait for, because this rank will not take part."""
        job = sys.modules.get("ringup.job")
        current = job and job.get_or_none()
        if current and current.running and job.size() > 1:
            current.abort(why)

    def finish(self):
        """Leave the job."""
        job = sys.modules.get("ringup.job")
        if job:
            job.shutdown()
        ray_logger.configure(None)
