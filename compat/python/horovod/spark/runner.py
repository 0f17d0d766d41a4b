# runner.py - horovod.spark.run() and run_elastic(): upstream's arguments over ringup.spark.
# SPDX-License-Identifier: Apache-2.0

import os

from ringup.spark import arguments, elastic_stage, job, stage


def _writer(stream):
    """A function that writes lines to a stream of text or of bytes; None: they are not wanted."""
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
    """TypeError or ValueError for what no job can be made of."""
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
    """TooFewSlots if there is a session without so many slots."""
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
    """The results of a job; too few slots raise upstream's error."""
    return _told(run_job, *args).results()


def _told(call, *args):
    try:
        return call(*args)
    except stage.TooFewSlots as e:
        raise stage.TooFewSlots(f"Timed out waiting for Spark tasks to start: {e}") from None


def _inferred(sc, num_proc, verbose):
    """num_proc, or as many ranks as the cores that Spark counts allow tasks."""
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
    """Call fn(*args, **kwargs) on num_proc ranks, each in a task slot; returns the results by rank.

    num_proc: None for all task slots.  start_timeout: seconds for the tasks to start; by default
    HOROVOD_SPARK_START_TIMEOUT, or 600.  env: variables for the ranks beside those of the
    executors; the driver's environment does not travel.  stdout, stderr: streams for what the ranks
    print, with "[RANK]<stdout>:" in front; None: it stays in the stderr of the executors.  nics:
    the interfaces between hosts.  executable: the ranks' Python; None: that of the executors.
    use_mpi, use_gloo and extra_mpi_args choose nothing here: ringup carries the collectives.

    Raises RuntimeError (ringup.spark.JobFailed) if a rank fails; it names the rank, and its
    __cause__ is what fn has raised there.
    """
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
    """Call fn(*args, **kwargs) on ranks that may be lost and added; returns the results by rank, of
    the ranks of the end.

    fn calls what hvd.elastic.run() has wrapped.  num_proc ranks begin; min_num_proc (num_proc) have
    to be left for the job to go on, and there are never more than max_num_proc (num_proc).
    elastic_timeout: seconds for enough ranks to come together; by default HOROVOD_ELASTIC_TIMEOUT,
    or 600.  reset_limit: how often they may meet again.  min_np, max_np: older names.  The other
    arguments are those of run().

    A rank that fails is replaced; a task whose executor is lost is run again by Spark, up to
    spark.task.maxFailures times.  Raises RuntimeError (ringup.spark.JobFailed) if the job fails.
    """
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
