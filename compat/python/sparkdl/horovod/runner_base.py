# runner_base.py - HorovodRunner: Horovod training on the driver, or on Spark's task slots.
# SPDX-License-Identifier: Apache-2.0

import logging
import os
import sys
import warnings

from ringup.spark import arguments, job, stage

DEPRECATED_ZERO = (
    "Setting np=0 is deprecated and it will be removed in the next major Databricks Runtime "
    "release. Choosing np based on the total task slots at runtime is unreliable due to dynamic "
    "executor registration. Please set the number of parallel processes you need explicitly.")
VERBOSITIES = ("all", "log_callback_only")


def _spawns():
    """Shall np=-1 be a process of its own?  On Databricks it is; there, or if asked for."""
    asked = os.environ.get("RINGUP_HOROVODRUNNER_SPAWN")
    return asked not in ("0", "") if asked is not None else \
        "DATABRICKS_RUNTIME_VERSION" in os.environ


def _is_in_a_job():
    """Return whether this process has called hvd.init()."""
    found = sys.modules.get("ringup.job")
    return bool(found and found.is_initialized())


class HorovodRunner(object):
    """Runs a function as the ranks of a Horovod job.

    np: how many ranks, and where.
      below -1  -np processes on the driver
      -1        the driver alone: in this process, or on Databricks, or with
                RINGUP_HOROVODRUNNER_SPAWN=1, in one of its own
      above 0   one task each of a barrier stage of Spark, so that many task slots are needed
      0         all task slots that there are (deprecated)
    driver_log_verbosity: "all" prints here what the ranks print; "log_callback_only" only what
    log_to_driver() and LogCallback say: the rest is in the stderr of the executors.
    """

    def __init__(self, *, np, driver_log_verbosity="log_callback_only"):
        self.num_processor = arguments.number(np, "np")
        self.driver_log_verbosity = driver_log_verbosity
        self.logger = logging.getLogger("HorovodRunner")

    def run(self, main, **kwargs):
        """Call main(**kwargs) on each rank; returns what it returned on rank 0.

        main and its arguments travel by cloudpickle, so imports belong inside it; the driver's own
        modules travel, too, and those of its variables that frameworks read (HOROVOD_*, NCCL_*,
        TF_*, KERAS_BACKEND and others).

        Raises TypeError before anything starts if main is no function or does not take these
        arguments, ringup.spark.CannotPickle if it cannot be sent, and ringup.spark.JobFailed, which
        names the rank; its __cause__ is the exception that main has raised there.
        """
        np = arguments.number(self.num_processor, "np")
        if self.driver_log_verbosity not in VERBOSITIES:
            raise ValueError(f"driver_log_verbosity={self.driver_log_verbosity!r}: must be one of "
                             f"{', '.join(VERBOSITIES)}")
        call = f"HorovodRunner(np={np}).run({{}})"
        arguments.function(main, (), kwargs, call=call)
        if np == -1 and not _spawns():
            return self._run_in_process(main, kwargs)
        if np < 0:
            return job.run_here(job.Job.of_function(-np, main, (), kwargs, env={}, call=call,
                                                    first_only=True, output=self._output()))[0]
        if np == 0:
            warnings.warn(DEPRECATED_ZERO, DeprecationWarning, stacklevel=2)
            self.logger.warning(DEPRECATED_ZERO)
        return stage.run(main, (), kwargs, np or None, output=self._output(), first_only=True,
                         copy=self.driver_log_verbosity != "all",
                         description=f"HorovodRunner: {getattr(main, '__name__', 'main')}")[0]

    def _run_in_process(self, main, kwargs):
        self.logger.warning("np=-1 calls the function in this process, as the one rank of a job; "
                            "RINGUP_HOROVODRUNNER_SPAWN=1 starts a process for it.")
        was_in_a_job = _is_in_a_job()
        try:
            return main(**kwargs)
        finally:
            # hvd.init() is of main's job: the next one of this process may be another.
            if not was_in_a_job and _is_in_a_job():
                sys.modules["ringup.job"].shutdown()

    def _output(self):
        everything = stage.to_stdout()
        if self.driver_log_verbosity != "all" and self.num_processor >= 0:
            everything.stdout = everything.stderr = None
        return everything
