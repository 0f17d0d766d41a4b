# __init__.py - horovod.run(): call a function on the ranks of a job.
# SPDX-License-Identifier: Apache-2.0

import functools
import warnings


class _HorovodArgs:
    """The arguments of horovodrun as attributes; None means not given."""

    def __init__(self):
        for name in ("check_build", "ssh_port", "ssh_identity_file", "disable_cache",
                     "start_timeout", "nic", "output_filename", "verbose", "command", "run_func",
                     "config_file", "nics", "executable", "fusion_threshold_mb", "cycle_time_ms",
                     "cache_capacity", "hierarchical_allreduce", "hierarchical_allgather",
                     "torus_allreduce", "autotune", "autotune_log_file",
                     "autotune_warmup_samples", "autotune_steps_per_sample",
                     "autotune_bayes_opt_max_samples", "autotune_gaussian_process_noise",
                     "min_num_proc", "max_num_proc", "slots", "elastic_timeout", "reset_limit",
                     "cooldown_range", "timeline_filename", "timeline_mark_cycles",
                     "no_stall_check", "stall_check_warning_time_seconds",
                     "stall_check_shutdown_time_seconds", "mpi_threads_disable", "mpi_args",
                     "tcp_flag", "binding_args", "num_nccl_streams", "thread_affinity",
                     "gloo_timeout_seconds", "log_level", "log_with_timestamp",
                     "prefix_output_with_timestamp", "hosts", "hostfile",
                     "host_discovery_script", "use_gloo", "use_mpi", "use_jsrun"):
            setattr(self, name, None)
        self.num_proc = 1
        self.env = None


def _renamed(old, new, value, other):
    """Return the value of an argument that also has an older name."""
    if value is None:
        return other
    warnings.warn(f"{old} is deprecated, use {new} instead", DeprecationWarning, stacklevel=3)
    return value


def run(func, args=(), kwargs=None, num_proc=1, min_num_proc=None, max_num_proc=None, slots=None,
        reset_limit=None, cooldown_range=None, hosts=None, hostfile=None,
        host_discovery_script=None, start_timeout=None, ssh_port=None, ssh_identity_file=None,
        disable_cache=None, output_filename=None, verbose=None, use_gloo=None, use_mpi=None,
        mpi_args=None, network_interface=None, network_interfaces=None, executable=None,
        np=None, min_np=None, max_np=None, env=None):
    """Call func(*args, **kwargs) on each rank of a new job; return a list of the results by rank.

    func is sent with cloudpickle, so it may be defined in a notebook; its result must be picklable.
    num_proc ranks are started on this host, on hosts ("HOST:N,HOST:N") or on those of hostfile.
    With other hosts, all hosts must share the current folder, because it contains the function and
    the results while the job runs.  executable is the Python of the ranks; env contains variables
    for them in addition to os.environ.  The other arguments are options of horovodrun; see man
    horovodrun.  In an elastic job (min_num_proc, host_discovery_script), the results are those of
    the ranks at the end, at most the first min_num_proc of them.

    Raises TypeError before anything starts if func is not a function or does not accept these
    arguments, and ringup.spark.CannotPickle if it cannot be sent.  If a rank fails, raises
    RuntimeError with the rank's own traceback."""
    from ringup.spark import arguments

    from .launch import _run

    num_proc = arguments.number(_renamed("np", "num_proc", np, num_proc), "num_proc", 1)
    min_num_proc = _renamed("min_np", "min_num_proc", min_np, min_num_proc)
    max_num_proc = _renamed("max_np", "max_num_proc", max_np, max_num_proc)
    if network_interface:
        network_interfaces = _renamed("network_interface", "network_interfaces",
                                      network_interface.split(","), None)
    if hosts is not None and hostfile is not None:
        raise ValueError("Argument hosts and hostfile only allow one provided.")
    if use_gloo and use_mpi:
        raise ValueError("Argument use_gloo and use_mpi only allow one set True.")
    args, kwargs = arguments.sequences(args, kwargs)
    arguments.function(func, args, kwargs, "func", "horovod.run({})")

    a = _HorovodArgs()
    a.num_proc, a.min_num_proc, a.max_num_proc = num_proc, min_num_proc, max_num_proc
    a.slots, a.reset_limit, a.cooldown_range = slots, reset_limit, cooldown_range
    a.hosts, a.hostfile, a.host_discovery_script = hosts, hostfile, host_discovery_script
    a.start_timeout, a.disable_cache = start_timeout, disable_cache
    a.ssh_port, a.ssh_identity_file = ssh_port, ssh_identity_file
    a.output_filename, a.verbose = output_filename, verbose
    a.use_gloo, a.use_mpi, a.mpi_args = use_gloo, use_mpi, mpi_args
    a.nics = set(network_interfaces) if network_interfaces else None
    a.run_func = functools.partial(func, *args, **kwargs)
    a.executable, a.env = executable, env
    return _run(a)
