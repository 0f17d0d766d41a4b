# basics.py - joining, leaving and asking where one is, alike for all frameworks.
# SPDX-License-Identifier: Apache-2.0

from ringup import job
from ringup.errors import NotRunning

from .process_sets import begin

# Horovod's numbers for the reductions.
Average, Sum, Adasum, Min, Max, Product = range(6)


def init(comm=None, process_sets=None):
    """Join the job; nothing happens if this process is in one.

    process_sets are sets that exist from the start; more can be added later, whether or not
    it says "dynamic".
    """
    if comm is not None and not (isinstance(comm, (list, tuple)) and not comm):
        raise NotImplementedError("hvd.init(comm=...) is not part of ringup: a job has the ranks "
                                  "that its launcher started; call hvd.init() without comm")
    begin([] if process_sets in (None, "dynamic") else list(process_sets))


def _asked(question):
    """A query of the job that raises ValueError before init(), as Horovod's do."""
    def ask():
        try:
            return question()
        except NotRunning as e:
            raise ValueError("Horovod is not initialized: call hvd.init() first") from e

    ask.__name__, ask.__doc__ = question.__name__, question.__doc__
    return ask


shutdown = job.shutdown
is_initialized = job.is_initialized
rank = _asked(job.rank)
size = _asked(job.size)
local_rank = _asked(job.local_rank)
local_size = _asked(job.local_size)
cross_rank = _asked(job.host_rank)
cross_size = _asked(job.host_count)
is_homogeneous = _asked(job.is_homogeneous)


def start_timeline(file_path, mark_cycles=False):
    """Begin to record a timeline."""
    raise NotImplementedError("timelines are not part of ringup yet")


def stop_timeline():
    """End the recording."""
    raise NotImplementedError("timelines are not part of ringup yet")


# Horovod asks which libraries it was compiled with.  ringup carries the data itself and needs no
# MPI for that, which is what "gloo" stands for in Horovod's vocabulary.

def gloo_built():
    """Is there a transport that needs no MPI?  Always."""
    return True


gloo_enabled = gloo_built


def mpi_built():
    """Does MPI carry the data?  Never; mpirun may start the ranks all the same."""
    return False


mpi_enabled = mpi_built


def mpi_threads_supported():
    """May the program use MPI from several threads?  Not ringup's to say."""
    raise ValueError("ringup does not use MPI, so it cannot say whether MPI allows threads")


def nccl_built():
    """NCCL's version code, or 0 without it."""
    return 0


def ddl_built():
    """IBM's DDL: never."""
    return False


ccl_built = cuda_built = rocm_built = ddl_built
