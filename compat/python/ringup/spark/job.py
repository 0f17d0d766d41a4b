# job.py - a function, or a program, on ranks: on the driver alone, or in a barrier stage of Spark.
# SPDX-License-Identifier: Apache-2.0

import os
import socket
import threading

from . import arguments, gather, pickling, session, task, values
from .launcher import Launcher, Output

# What the driver's environment has of these goes to ranks on other hosts, the rest does not: they
# decide what a framework computes, or how ranks talk.  docs/migration.md lists them.
FORWARDED = ("HOROVOD_", "RINGUP_", "NCCL_", "GLOO_", "UCX_", "OMPI_MCA_", "OMP_", "MKL_",
             "OPENBLAS_", "KERAS_", "TF_", "XLA_", "JAX_", "TORCH_", "PYTORCH_", "CUBLAS_",
             "CUDNN_", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_ORDER", "NVIDIA_TF32_OVERRIDE")
# Of these one that is another for the ranks is worth a warning, where nothing travels.
DECIDING = ("KERAS_BACKEND", "TF_USE_LEGACY_KERAS", "TF_DETERMINISTIC_OPS", "XLA_FLAGS",
            "TF_XLA_FLAGS", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION",
            "NVIDIA_TF32_OVERRIDE")
# What is about one rank, or about one host, or nobody's business.
NOT_FORWARDED = frozenset(
    [f"{prefix}_{name}" for prefix in ("HOROVOD", "RINGUP") for name in
     ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "HOSTNAME", "MEET",
      "SECRET_FD", "NOTICE_FD", "REPORT_FD", "WORKER", "DAEMON", "JOB", "ELASTIC", "INTERFACE",
      "LIBRARY", "CACHE_KEY", "GLOO_RENDEZVOUS_ADDR", "GLOO_RENDEZVOUS_PORT", "GLOO_IFACE")]
    + ["TF_CONFIG", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JAX_COORDINATOR_ADDRESS",
       "JAX_LOCAL_DEVICE_IDS", "KERAS_HOME", "TORCH_HOME", "TORCH_EXTENSIONS_DIR",
       "JAX_COMPILATION_CACHE_DIR"])
FUNCTION_WORDS = ("-m", "ringup.spark.call", "{function}")


def forwarded(environ=None):
    """Return the variables of the driver that are sent to ranks on other hosts."""
    return {k: v for k, v in (os.environ if environ is None else environ).items()
            if k.startswith(FORWARDED) and k not in NOT_FORWARDED}


def deciding(environ=None):
    """Return the variables of the driver that ranks should have, too: {name: value or None}."""
    found = os.environ if environ is None else environ
    return {name: found.get(name) for name in DECIDING}


class Job:
    """The program of a job, and its number of ranks.

    words is the ranks' command after the name of their Python.  payload is read from {function}.
    env contains variables for the ranks.  copy says whether their output also goes to the stderr of
    the executors.  hides_gpus says whether the ranks see no GPUs.  executable is their Python; None
    means that of the task that starts them."""

    def __init__(self, size, words, payload=b"", env=None, output=None, copy=False,
                 hides_gpus=False):
        self.size, self.words, self.payload = size, list(words), payload
        self.env, self.output = dict(env or {}), output or Output()
        self.copy, self.hides_gpus, self.executable = copy, hides_gpus, None
        self.function = self.file = None
        self.key = session.new_key()

    @classmethod
    def of_function(cls, size, fn, args=(), kwargs=None, name="main", call="run({})",
                    first_only=False, **how):
        """Return a Job that calls a function on each rank.  Raises TypeError for an invalid call,
        and CannotPickle if the function cannot be sent.  For name and call, see
        arguments.function(). With first_only, only rank 0's result is returned; the others are
        None."""
        args, kwargs = arguments.sequences(args, kwargs)
        arguments.function(fn, args, kwargs, name, call)
        payload = pickling.dumps_call(
            fn, args, kwargs, gather.by_value(), first_only=first_only, environment=deciding(),
            values=values.changed(m for m, top in gather.own_modules() if top is not None))
        work = cls(size, FUNCTION_WORDS, payload, **how)
        work.function = fn
        return work

    @classmethod
    def of_file(cls, size, path, args=(), **how):
        """Return a Job that runs a Python file on each rank: the driver's file if it has one."""
        if os.path.isfile(path):
            path = os.path.abspath(path)
        work = cls(size, [path, *map(str, args)], **how)
        work.file = path
        return work

    def orders(self, here=False):
        """Return the orders for task.serve(). here means that the job runs on this host, which has
        the driver's own files."""
        files = gather.here() if here else gather.gather(self.function, self.file)
        return {"words": self.words, "executable": self.executable, "copy": self.copy,
                "env": dict(self.env), "files": files}

    def start(self, env):
        """Return the orders for a task that starts the ranks of its host.  env contains variables
        for this host in addition to those of orders()."""
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if self.hides_gpus else {}
        return {"starts": True, "env": {**env, **hidden}}


def run_here(job):
    """Run a job on this host, as children of this process.  For a function, return the results by
    rank.  Raises JobFailed."""
    return run_here_to_its_end(job).results()


def run_here_to_its_end(job):
    """Do the same, but return the Launcher of the ended job, whether it succeeded or not."""
    near, far = socket.socketpair()
    port, key, orders = task.reserve_port("127.0.0.1"), session.new_key(), job.orders(here=True)
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port.getsockname()[1])}
    orders["env"].update(job.start(env)["env"])
    server = threading.Thread(target=task.serve, daemon=True,
                              args=(far, key, orders, job.payload))
    server.start()
    try:
        name = "localhost"
        running = Launcher([(name, job.size)], {name: (near, key)}, job.size, "127.0.0.1",
                           job.output)
        running.wait()
    finally:
        near.close()
        server.join(10)
        port.close()
    return running
