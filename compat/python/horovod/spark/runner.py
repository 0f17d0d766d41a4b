# runner.py - horovod.spark.run(): upstream's arguments and order of results, over ringup.spark.
# SPDX-License-Identifier: Apache-2.0

from ringup.spark import job, stage


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
    return job.Output(_writer(stdout), _writer(stderr), lambda text: print(text, flush=True), form)


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
        raise ValueError("use_mpi and use_gloo are two ways to the same thing: choose one")
    sc = stage.context()
    seconds = stage.start_timeout(start_timeout)
    size = num_proc if num_proc is not None else sc.defaultParallelism
    if verbose >= 1 and num_proc is None:
        print(f"Running {size} processes (inferred from spark.default.parallelism)...")
    given = {k: str(v) for k, v in (env or {}).items()}
    if nics:
        given.setdefault("RINGUP_INTERFACE", ",".join(
            sorted(nics) if isinstance(nics, (set, frozenset)) else nics))
    work = job.Job.of_function(size, fn, args, kwargs, env=given,
                               output=_output(stdout, stderr, prefix_output_with_timestamp),
                               copy=stdout is None or stderr is None)
    work.executable = executable
    return stage.run_job(work, sc, seconds, f"horovod.spark.run: "
                                            f"{getattr(fn, '__name__', 'function')}").results()
