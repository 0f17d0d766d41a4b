# gloo_run.py - upstream's launcher without MPI, under its name.
# SPDX-License-Identifier: Apache-2.0

from horovod.runner.util import network  # noqa: F401  tests of upstream replace parts of it


def _get_min_start_hosts(settings):
    """Return the number of hosts with which an elastic job starts."""
    return 1


def _run(settings, env, command, **more):
    from horovod.runner import _HorovodArgs
    from horovod.runner.launch import _launch

    args = _HorovodArgs()
    for name in ("num_proc", "ssh_port", "ssh_identity_file", "output_filename",
                 "prefix_output_with_timestamp"):
        setattr(args, name, getattr(settings, name))
    args.hosts = getattr(settings, "hosts", None)
    args.env = dict(env or {})
    for name, value in more.items():
        setattr(args, name, value)
    _launch(args, command)


def gloo_run(settings, nics, env, server_ip, command):
    """Run a command on the ranks of a job."""
    _run(settings, env, command, nics=nics)


def gloo_run_elastic(settings, env, command_or_func, executable):
    """Run a command on the ranks of an elastic job.  horovodrun finds the hosts, not an object."""
    raise NotImplementedError("gloo_run_elastic() is part of upstream's launcher; call "
                              "horovod.run(min_num_proc=..., host_discovery_script=...)")
