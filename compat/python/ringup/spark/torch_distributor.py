# torch_distributor.py - TorchDistributor with pyspark's interface, over ringup.spark.
# SPDX-License-Identifier: Apache-2.0
"""Runs torch.distributed jobs on Spark, with the interface of pyspark's TorchDistributor.  It
differs from pyspark's in these ways:

- LOCAL_RANK and LOCAL_WORLD_SIZE are those of the host.
- In local mode, too, the result is that of rank 0.
- If the cluster has too few slots, the error is raised before anything is submitted.
- The __cause__ of an error is the exception that a rank raised.
- torch.distributed uses the interface that leads to the driver.
- If nothing reads the log, the job continues.
- torch is not imported.
"""

import os

from . import arguments, job, stage


class TorchDistributor:
    """Runs a function, or a Python file, as num_processes ranks of torch.distributed.

    With local_mode the ranks run on the driver, otherwise each runs in a task of a barrier stage.
    With use_gpu the ranks see the GPUs of the driver, or those that Spark has given to the tasks of
    their host, and LOCAL_RANK is an index into these GPUs.  Otherwise, they see no GPU."""

    def __init__(self, num_processes=1, local_mode=True, use_gpu=True, _ssl_conf=None):
        if arguments.number(num_processes, "num_processes") <= 0:
            raise ValueError("num_processes must be a positive integer")
        self.num_processes, self.local_mode, self.use_gpu = num_processes, local_mode, use_gpu
        if use_gpu and not local_mode:
            amount = stage.context().getConf().get("spark.task.resource.gpu.amount", "0")
            if float(amount) < 1:
                raise RuntimeError("'spark.task.resource.gpu.amount' was unset, so gpu usage is "
                                   "unavailable.  Set it to 1 in the cluster's configuration, or "
                                   "use_gpu=False")

    def run(self, train_object, *args, **kwargs):
        """Run train_object(*args, **kwargs) on each rank; return rank 0's result.

        A string is the path of a Python file, which runs with args as its arguments; the result is
        then None.  A file on the driver is sent with its folder, like the driver's modules.  Any
        other file must exist at that path on each host.

        Raises TypeError before anything starts if train_object is neither a function nor a path, or
        does not accept these arguments.  Raises ringup.spark.JobFailed, which names the rank, if a
        rank fails."""
        output = stage.to_stdout(("--no-prefix",))
        if isinstance(train_object, os.PathLike):
            train_object = os.fspath(train_object)
        if isinstance(train_object, str):
            if kwargs:
                raise ValueError("Running pytorch file does not support key-word type arguments.")
            if self.local_mode and not os.path.isfile(train_object):
                raise FileNotFoundError(f"train_object={train_object!r}: no such file; the current "
                                        f"folder is {os.getcwd()}")
            work = job.Job.of_file(self.num_processes, train_object, args, output=output)
        else:
            work = job.Job.of_function(
                self.num_processes, train_object, args, kwargs, output=output, first_only=True,
                name="train_object", call="TorchDistributor(...).run({})")
        work.hides_gpus = not self.use_gpu
        if self.local_mode:
            done = job.run_here_to_its_end(work)
        else:
            work.env = job.forwarded()
            name = getattr(train_object, "__name__", train_object)
            done = stage.run_job(work, stage.context(), stage.start_seconds(),
                                 f"TorchDistributor: {name}")
        if isinstance(train_object, str):
            done.check()
            return None
        return done.results()[0]
