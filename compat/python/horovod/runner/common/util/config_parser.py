# config_parser.py - options read from a file, and passed to the ranks.
# SPDX-License-Identifier: Apache-2.0

# attribute of the arguments: (variable, section and key of the file)
_ROWS = {
    "fusion_threshold_mb": ("HOROVOD_FUSION_THRESHOLD", "params", "fusion_threshold_mb"),
    "cycle_time_ms": ("HOROVOD_CYCLE_TIME", "params", "cycle_time_ms"),
    "cache_capacity": ("HOROVOD_CACHE_CAPACITY", "params", "cache_capacity"),
    "hierarchical_allreduce":
        ("HOROVOD_HIERARCHICAL_ALLREDUCE", "params", "hierarchical_allreduce"),
    "hierarchical_allgather":
        ("HOROVOD_HIERARCHICAL_ALLGATHER", "params", "hierarchical_allgather"),
    "torus_allreduce": ("HOROVOD_TORUS_ALLREDUCE", "params", "torus_allreduce"),
    "autotune": ("HOROVOD_AUTOTUNE", "autotune", "enabled"),
    "autotune_log_file": ("HOROVOD_AUTOTUNE_LOG", "autotune", "log_file"),
    "autotune_warmup_samples": ("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "autotune", "warmup_samples"),
    "autotune_steps_per_sample":
        ("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "autotune", "steps_per_sample"),
    "autotune_bayes_opt_max_samples":
        ("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "autotune", "bayes_opt_max_samples"),
    "autotune_gaussian_process_noise":
        ("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "autotune", "gaussian_process_noise"),
    "timeline_filename": ("HOROVOD_TIMELINE", "timeline", "filename"),
    "timeline_mark_cycles": ("HOROVOD_TIMELINE_MARK_CYCLES", "timeline", "mark_cycles"),
    "no_stall_check": ("HOROVOD_STALL_CHECK_DISABLE", "stall_check", "enabled"),
    "stall_check_warning_time_seconds":
        ("HOROVOD_STALL_CHECK_TIME_SECONDS", "stall_check", "warning_time_seconds"),
    "stall_check_shutdown_time_seconds":
        ("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "stall_check", "shutdown_time_seconds"),
    "mpi_threads_disable":
        ("HOROVOD_MPI_THREADS_DISABLE", "library_options", "mpi_threads_disable"),
    "num_nccl_streams": ("HOROVOD_NUM_NCCL_STREAMS", "library_options", "num_nccl_streams"),
    "thread_affinity": ("HOROVOD_THREAD_AFFINITY", "library_options", "thread_affinity"),
    "gloo_timeout_seconds":
        ("HOROVOD_GLOO_TIMEOUT_SECONDS", "library_options", "gloo_timeout_seconds"),
    "log_level": ("HOROVOD_LOG_LEVEL", "logging", "level"),
    "log_with_timestamp": ("HOROVOD_LOG_HIDE_TIME", "logging", "with_timestamp"),
}
# HOROVOD_FUSION_THRESHOLD = "HOROVOD_FUSION_THRESHOLD" and so on.
globals().update({row[0]: row[0] for row in _ROWS.values()})
NCCL_IB_DISABLE = "NCCL_IB_DISABLE"
LOG_LEVELS = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"]

_NOT_NEGATIVE = ("fusion_threshold_mb", "cycle_time_ms", "cache_capacity",
                 "autotune_warmup_samples", "autotune_steps_per_sample",
                 "autotune_bayes_opt_max_samples", "stall_check_warning_time_seconds",
                 "stall_check_shutdown_time_seconds", "num_nccl_streams", "thread_affinity",
                 "gloo_timeout_seconds")


def set_args_from_config(args, config, override_args):
    """Set the arguments in a file of options, given as a dictionary of sections; arguments in
    override_args stay."""
    controller = (config.get("controller") or "").lower()
    if controller and not args.use_gloo and not args.use_mpi:
        if controller not in ("gloo", "mpi"):
            raise ValueError(f"No such controller supported: {controller}")
        setattr(args, f"use_{controller}", True)
    for name, (_, section, key) in _ROWS.items():
        value = (config.get(section) or {}).get(key)
        if value is not None and name not in override_args:
            setattr(args, name, not value if name == "no_stall_check" else value)


def validate_config_args(args):
    """Raise ValueError for an invalid value."""
    for name in _NOT_NEGATIVE:
        value = getattr(args, name)
        if value is not None and value < 0:
            raise ValueError(f"{name}={value} must be >= 0")
    noise = args.autotune_gaussian_process_noise
    if noise is not None and not 0 <= noise <= 1:
        raise ValueError(f"autotune_gaussian_process_noise={noise} must be in [0, 1]")


def set_env_from_args(env, args):
    """Add the variables that pass these arguments to the ranks to env; return env."""
    for name, (variable, section, _) in _ROWS.items():
        value = getattr(args, name)
        if value is None or (section == "autotune" and not args.autotune) or \
                (section == "timeline" and not args.timeline_filename):
            continue
        if name == "fusion_threshold_mb":
            value = value * 1024 * 1024
        elif name == "log_with_timestamp":
            value = int(not value)
        elif isinstance(value, bool):
            value = int(value)
        env[variable] = str(value)
    if args.tcp_flag:
        env[NCCL_IB_DISABLE] = "1"
    return env
