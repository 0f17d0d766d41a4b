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
    """Return whether np=-1 starts a process of its own: on Databricks, or if requested."""
    asked = os.environ.get("RINGUP_HOROVODRUNNER_SPAWN")
    return asked not in ("0", "") if asked is not None else \
        "DATABRICKS_RUNTIME_VERSION" in os.environ


def _is_in_a_job():
    """Return whether this process has called hvd.init()."""
    found = sys.modules.get("ringup.job")
    return bool(found and found.is_initialized())


class HorovodRunner(object):
    """Runs a function as the ranks of a Horovod job.

    np says how many ranks run, and where:
      below -1  -np processes on the driver
      -1        one rank on the driver: in this process, or in one of its own on Databricks and with
                RINGUP_HOROVODRUNNER_SPAWN=1
      above 0   one task of a Spark barrier stage for each rank, so that many task slots are needed
      0         all task slots (deprecated)
    With driver_log_verbosity="all", the ranks' output is printed here.  With "log_callback_only",
    only the messages of log_to_driver() and LogCallback are printed here, and other output stays in
    the stderr of the executors."""

    def __init__(self, *, np, driver_log_verbosity="log_callback_only"):
        self.num_processor = arguments.number(np, "np")
        self.driver_log_verbosity = driver_log_verbosity
        self.logger = logging.getLogger("HorovodRunner")

    def run(self, main, **kwargs):
        """Call main(**kwargs) on each rank; return rank 0's result.

        main and its arguments are sent with cloudpickle, so put imports inside main.  The driver's
        own modules are sent, too, and the driver's variables that frameworks read (HOROVOD_*,
        NCCL_*, TF_*, KERAS_BACKEND and others).

        Raises TypeError before anything starts if main is not a function or does not accept these
        arguments, ringup.spark.CannotPickle if it cannot be sent, and ringup.spark.JobFailed, which
        names the rank, if a rank fails; its __cause__ is the exception that main raised there."""
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
