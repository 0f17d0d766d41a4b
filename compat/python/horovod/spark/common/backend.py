# backend.py - SparkBackend: where the ranks of an estimator run, and where their output goes.
# SPDX-License-Identifier: Apache-2.0

import inspect
import numbers

from horovod.spark import runner
from ringup.spark import job, stage


def default_num_proc():
    """Return how many ranks the executors of the active session can run at the same time."""
    return stage.slots(stage.context())


class Backend:
    """The interface that estimators need.  A subclass may run the ranks anywhere."""

    def run(self, fn, args=(), kwargs={}, env=None):
        """Call fn(*args, **kwargs) on each rank, with env set; return the results by rank."""
        raise NotImplementedError()

    def num_processes(self):
        """Return the number of ranks that run() starts."""
        raise NotImplementedError()


class SparkBackend(Backend):
    """Runs the ranks in task slots of the active session, with horovod.spark.run().

    num_proc is the number of ranks; None means all task slots.  env contains variables for the
    ranks; None means the driver's HOROVOD_*, NCCL_*, OMP_*, TF_* and RINGUP_*. The other arguments
    are those of horovod.spark.run(): stdout, stderr, prefix_output_with_timestamp, start_timeout,
    verbose, nics and so on.  CUDA_VISIBLE_DEVICES is not sent, because programs hide the driver's
    GPUs with it."""

    def __init__(self, num_proc=None, env=None, **kwargs):
        known = set(inspect.signature(runner.run).parameters) - {
            "fn", "args", "kwargs", "num_proc", "env"}
        unknown = sorted(set(kwargs) - known)
        if unknown:
            raise TypeError(f"SparkBackend has no parameter {unknown[0]}: it takes num_proc, env, "
                            f"{', '.join(sorted(known))}")
        if num_proc is not None and (not isinstance(num_proc, numbers.Integral) or num_proc < 1):
            raise ValueError(f"num_proc={num_proc!r}: a whole number of 1 or more, or None for all "
                             "task slots")
        self._num_proc, self._env, self._kwargs = num_proc, env, kwargs

    def run(self, fn, args=(), kwargs={}, env=None):
        """Call fn(*args, **kwargs) on each rank, with env set; return the results by rank."""
        given = dict(job.forwarded() if self._env is None else self._env)
        given.update(env or {})
        given.pop("CUDA_VISIBLE_DEVICES", None)
        return runner.run(fn, args=args, kwargs=kwargs, num_proc=self.num_processes(), env=given,
                          **self._kwargs)

    def num_processes(self):
        """Return the number of ranks that run() starts."""
        return self._num_proc or default_num_proc()
