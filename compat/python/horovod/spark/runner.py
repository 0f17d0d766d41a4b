# runner.py - horovod.spark.run() and run_elastic(): upstream's arguments over ringup.spark.
# SPDX-License-Identifier: Apache-2.0

import os

from ringup.spark import arguments, elastic_stage, job, stage


def _writer(stream):
    """Return a function that writes lines to a stream of text or bytes; None if no lines are
    wanted."""
    if stream is None:
        return None

    def write(line):
        try:
            stream.write(line)
        except TypeError:
            stream.write(line.encode())
        if hasattr(stream, "flush"):
            stream.flush()

    return write


def _output(stdout, stderr, timestamps):
    form = ("--tag-output", "--timestamp-output") if timestamps else ("--tag-output",)
    return job.Output(_writer(stdout), _writer(stderr), stage.to_stdout().log, form)


def _check(fn, args, kwargs, name, num_proc, start_timeout):
    """Raise TypeError or ValueError for arguments that do not make a valid job."""
    if num_proc is not None:
        num_proc = arguments.number(num_proc, "num_proc", 1)
    try:
        arguments.function(fn, *arguments.sequences(args, kwargs), "fn",
                           f"horovod.spark.{name}({{}})")
    except TypeError:
        if fn is None and num_proc:  # upstream finds too few slots first
            _wait_for_slots(num_proc, start_timeout)
        raise


def _wait_for_slots(num_proc, start_timeout):
    """Raise TooFewSlots if a session exists that does not have this many slots."""
    try:
        sc = stage.context()
    except RuntimeError:
        return
    _told(stage.wait_for_slots, sc, num_proc, stage.start_seconds(start_timeout))


def _work(size, fn, args, kwargs, env, nics, output, copy):
    given = {k: str(v) for k, v in (env or {}).items()}
    if nics:
        names = sorted(nics) if isinstance(nics, (set, frozenset)) else nics
        given.setdefault("RINGUP_INTERFACE", ",".join(names))
    return job.Job.of_function(size, fn, args, kwargs, name="fn", env=given, output=output,
                               copy=copy)


def _results(run_job, *args):
    """Return the results of a job; too few slots raise upstream's error."""
    return _told(run_job, *args).results()


def _told(call, *args):
    try:
        return call(*args)
    except stage.TooFewSlots as e:
        raise stage.TooFewSlots(f"Timed out waiting for Spark tasks to start: {e}") from None


def _inferred(sc, num_proc, verbose):
    """Return num_proc, or the number of tasks that Spark's cores allow."""
    if num_proc is not None:
        return num_proc
    cores, each = sc.defaultParallelism, int(sc.getConf().get("spark.task.cpus", "1"))
    count = max(cores // each, 1)
    if verbose >= 1:
        print(f"Running {count} processes (inferred from spark.default.parallelism"
              f"{f'={cores} and spark.task.cpus={each}' * (each > 1)})...")
    return count


def run(fn, args=(), kwargs={}, num_proc=None, start_timeout=None,
        use_mpi=None, use_gloo=None, extra_mpi_args=None, env=None,
        stdout=None, stderr=None, verbose=1, nics=None,
        prefix_output_with_timestamp=False, executable=None):
    """Call fn(*args, **kwargs) on num_proc ranks, each in a task slot; return the results by rank.

    num_proc=None means all task slots.  start_timeout is the number of seconds in which the tasks
    must start; the default is HOROVOD_SPARK_START_TIMEOUT, or 600. env contains variables for the
    ranks in addition to those of the executors; the driver's environment is not sent.  stdout and
    stderr are streams for the ranks' output, with "[RANK]<stdout>:" before each line; with None,
    the output stays in the stderr of the executors.  nics are the interfaces between hosts.
    executable is the ranks' Python; None means that of the executors.  use_mpi, use_gloo and
    extra_mpi_args have no effect, because ringup runs the collectives.

    Raises RuntimeError (ringup.spark.JobFailed), which names the rank, if a rank fails.  Its
    __cause__ is the exception that fn raised there."""
    if use_mpi and use_gloo:
        raise ValueError("use_mpi and use_gloo exclude each other: choose one")
    _check(fn, args, kwargs, "run", num_proc, start_timeout)
    sc = stage.context()
    seconds = stage.start_seconds(start_timeout)
    work = _work(_inferred(sc, num_proc, verbose), fn, args, kwargs, env, nics,
                 _output(stdout, stderr, prefix_output_with_timestamp),
                 copy=stdout is None or stderr is None)
    work.executable = executable
    return _results(stage.run_job, work, sc, seconds,
                    f"horovod.spark.run: {getattr(fn, '__name__', 'function')}")


def run_elastic(fn, args=(), kwargs={}, num_proc=None, min_num_proc=None, max_num_proc=None,
                start_timeout=None, elastic_timeout=None, reset_limit=None, env=None, stdout=None,
                stderr=None, verbose=1, nics=None, prefix_output_with_timestamp=False,
                min_np=None, max_np=None):
    """Call fn(*args, **kwargs) on ranks that may be lost and added; return the results by rank, for
    the ranks at the end.

    fn calls a function that hvd.elastic.run() has wrapped.  The job starts with num_proc ranks.  It
    continues while at least min_num_proc (num_proc by default) remain, and never has more than
    max_num_proc (num_proc by default). elastic_timeout is the number of seconds to wait for enough
    ranks; the default is HOROVOD_ELASTIC_TIMEOUT, or 600. reset_limit is how often the ranks may
    rendezvous again.  min_np and max_np are older names.  The other arguments are those of run().

    A rank that fails is replaced.  If an executor is lost, Spark runs its tasks again, up to
    spark.task.maxFailures times.  Raises RuntimeError (ringup.spark.JobFailed) if the job fails."""
    _check(fn, args, kwargs, "run_elastic", num_proc, start_timeout)
    sc = stage.context()
    seconds = stage.start_seconds(start_timeout)
    size = _inferred(sc, num_proc, verbose)
    least = min_num_proc if min_num_proc is not None else min_np if min_np is not None else size
    most = max_num_proc if max_num_proc is not None else max_np if max_np is not None else size
    if not 1 <= least <= size <= most:
        raise ValueError(f"min_num_proc={least}, num_proc={size}, max_num_proc={most}: each must "
                         "be at least the previous one, and the first 1 or more")
    if elastic_timeout is None:
        elastic_timeout = os.environ.get("HOROVOD_ELASTIC_TIMEOUT") or elastic_stage.ELASTIC_S
    work = _work(size, fn, args, kwargs, env, nics,
                 _output(stdout, stderr, prefix_output_with_timestamp),
                 copy=stdout is None or stderr is None)
    return _results(elastic_stage.run_job, work, sc, least, most, seconds, float(elastic_timeout),
                    reset_limit,
                    f"horovod.spark.run_elastic: {getattr(fn, '__name__', 'function')}")
