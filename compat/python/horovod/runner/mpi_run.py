# mpi_run.py - find out which MPI is installed.
# SPDX-License-Identifier: Apache-2.0
"""`horovodrun --mpi` writes the command line of mpirun; this package has no function for it."""

import os  # noqa: F401  tests of upstream replace parts of it
import sys

from horovod.common.util import mpi_built
from horovod.runner.common.util import safe_shell_exec, tiny_shell_exec  # noqa: F401

_OMPI_IMPL = "OpenMPI"
_SMPI_IMPL = "SpectrumMPI"
_MPICH_IMPL = "MPICH"
_IMPI_IMPL = "IntelMPI"
_UNKNOWN_IMPL = "Unknown"
_MISSING_IMPL = "Missing"
_LARGE_CLUSTER_THRESHOLD = 64

_MARKS = (("Open MPI", _OMPI_IMPL), ("OpenRTE", _OMPI_IMPL), ("IBM Spectrum MPI", _SMPI_IMPL),
          ("MPICH", _MPICH_IMPL), ("HYDRA", _MPICH_IMPL), ("Intel(R) MPI", _IMPI_IMPL))


def _get_mpi_implementation(env=None):
    """Return the implementation of the mpirun in PATH, from its version text."""
    answer = tiny_shell_exec.execute("mpirun --version", env)
    if answer is None:
        return _MISSING_IMPL
    text, status = answer
    if status:
        print(f"Was unable to run mpirun --version:\n{text}", file=sys.stderr)
        return _MISSING_IMPL
    for mark, name in _MARKS:
        if mark in text:
            return name
    print(f"Unknown MPI implementation given in output of mpirun --version:\n{text}",
          file=sys.stderr)
    return _UNKNOWN_IMPL


def _get_mpi_implementation_flags(tcp_flag, env=None):
    """Return (flags, binding, implementation) without flags, because this package writes no command
    line."""
    return None, None, None


def is_open_mpi(env=None):
    """Return whether it is Open MPI."""
    return _get_mpi_implementation(env) == _OMPI_IMPL


def is_spectrum_mpi(env=None):
    """Return whether it is IBM Spectrum MPI."""
    return _get_mpi_implementation(env) == _SMPI_IMPL


def is_mpich(env=None):
    """Return whether it is MPICH."""
    return _get_mpi_implementation(env) == _MPICH_IMPL


def is_intel_mpi(env=None):
    """Return whether it is Intel MPI."""
    return _get_mpi_implementation(env) == _IMPI_IMPL


def mpi_available(env=None):
    """Return whether upstream's MPI launcher can be used.  It is part of a Horovod that was built
    with MPI."""
    return bool(mpi_built()) and _get_mpi_implementation(env) not in (_UNKNOWN_IMPL,
                                                                      _MISSING_IMPL)


def mpi_run(settings, nics, env, command, stdout=None, stderr=None):
    """Raise an exception: ringup does not have this part of upstream's launcher."""
    raise NotImplementedError("mpi_run() is part of upstream's launcher; start the ranks with "
                              "`horovodrun --mpi` or horovod.run(use_mpi=True)")
