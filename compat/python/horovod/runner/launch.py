# launch.py - start horovodrun from Python, and run the jobs of horovod.run().
# SPDX-License-Identifier: Apache-2.0
"""The program horovodrun parses the arguments and starts the ranks.  This module calls that
program."""

import argparse
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from horovod.common.util import (ccl_built, ddl_built, extension_available,  # noqa: F401
                                 gloo_built, mpi_built, nccl_built)
from horovod.runner.common.util import codec, config_parser, hosts, safe_shell_exec
from horovod.runner.elastic import driver
from horovod.runner.elastic.constants import RESET_LIMIT_EXCEEDED_MESSAGE
from horovod.runner.js_run import is_jsrun_installed
from horovod.runner.run_task import FUNCTION, PATHS, error_name, result_name
from horovod.runner.util import cache, lsf, network, threads
from ringup import program
from ringup.spark import pickling

SSH_CONNECT_TIMEOUT_S = 10
_NOT_BUILT = ("{0} support has not been built.  If this is not expected, ensure {1} is installed "
              "and reinstall Horovod with HOROVOD_WITH_{2}=1 to debug the build error.")
_NO_LSF = ("Horovod did not detect an LSF job.  The jsrun launcher can only be used in that "
           "environment. Please, pick a different launcher for other environments.")


# -- arguments ---------------------------------------------------------------------------------

def parse_args():
    """Return sys.argv as a Namespace; the program horovodrun parses it."""
    p = subprocess.run([*program.horovodrun(), "--json", *sys.argv[1:]], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if p.returncode or not p.stdout.startswith("{"):
        if re.search("must be (0 or more|from 0 to 1)", p.stderr):
            raise ValueError(p.stderr.splitlines()[0])
        sys.stderr.write(p.stderr)
        sys.stdout.write(p.stdout)
        sys.exit(p.returncode)
    sys.stderr.write(p.stderr)
    args = argparse.Namespace(**json.loads(p.stdout), run_func=None, executable=None, env=None)
    args.nics = set(args.nics) if args.nics else None
    if args.check_build:
        check_build(args.verbose)
    return args


def check_build(verbose):
    """Print the output of `horovodrun --check-build` for this Python, and exit."""
    if verbose:
        print(flush=True)
    sys.exit(subprocess.run([*program.horovodrun(), "--check-build"], check=False,
                            env={**os.environ, "RINGUP_PYTHON": sys.executable}).returncode)


def _words(args, command):
    """Return the command line of horovodrun for these arguments."""
    words = ["-np", str(args.num_proc)]
    for name, option in (("hosts", "hosts"), ("host_discovery_script", "host-discovery-script"),
                         ("ssh_port", "ssh-port"), ("ssh_identity_file", "ssh-identity-file"),
                         ("start_timeout", "start-timeout"), ("mpi_args", "mpi-args"),
                         ("output_filename", "output-filename"),
                         ("binding_args", "binding-args"), ("min_num_proc", "min-np"),
                         ("max_num_proc", "max-np"), ("slots", "slots-per-host"),
                         ("elastic_timeout", "elastic-timeout"), ("reset_limit", "reset-limit")):
        value = getattr(args, name, None)
        if value is not None:
            words.append(f"--{option}={value}")
    if args.nics:
        words.append("--network-interfaces=" + ",".join(sorted(args.nics)))
    if args.cooldown_range:
        words += ["--blacklist-cooldown-range", *map(str, args.cooldown_range)]
    for name, option in (("verbose", "verbose"), ("use_gloo", "gloo"), ("use_mpi", "mpi"),
                         ("use_jsrun", "jsrun"), ("prefix_output_with_timestamp",
                                                  "prefix-output-with-timestamp")):
        if getattr(args, name, None):
            words.append(f"--{option}")
    return [*program.horovodrun(), *words, "--", *command]


# -- the start ---------------------------------------------------------------------------------

def _environment(args):
    """Return the environment of horovodrun: variables for the arguments, and the path of this
    package."""
    env = dict(os.environ)
    config_parser.set_env_from_args(env, args)
    env.update(getattr(args, "env", None) or {})
    if driver.DISCOVER_HOSTS_FREQUENCY_SECS != 1:  # a program has set it
        env["RINGUP_DISCOVERY_MS"] = str(round(driver.DISCOVER_HOSTS_FREQUENCY_SECS * 1000))
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = env.get("PYTHONPATH", "").split(os.pathsep) if env.get("PYTHONPATH") else []
    env["PYTHONPATH"] = os.pathsep.join(paths + [home] * (home not in paths))
    return env


class _Stderr:
    """sys.stderr, which also copies the launcher's own messages."""

    def __init__(self):
        self.said = []

    def write(self, text):
        """Write a line that prefix_connection() has read."""
        if text.startswith(("ringup run: ", "horovodrun: ")) and len(self.said) < 100:
            self.said.append(text.strip())
        sys.stderr.write(text)

    def flush(self):
        """Flush the stream."""
        sys.stderr.flush()


def _launch(args, command):
    """Run the command on the ranks.  If one fails, raise RuntimeError with upstream's text."""
    stderr = _Stderr()
    status = safe_shell_exec.execute(shlex.join(_words(args, command)), env=_environment(args),
                                     stderr=stderr)
    if not status:
        return
    said = "".join(f"\n{line}" for line in stderr.said)
    if "--reset-limit" in said:
        raise RuntimeError(RESET_LIMIT_EXCEEDED_MESSAGE.format(args.reset_limit))
    if args.use_mpi:
        raise RuntimeError(f"mpirun failed with exit code {status}{said}")
    raise RuntimeError("Horovod detected that one or more processes exited with non-zero "
                       "status, thus causing the job to be terminated. Exit code: "
                       f"{status}{said}")


def _numbers(path):
    """Return the numbers in the name of a rank's file: the rank and, in an elastic job, the worker.
    """
    return [int(n) for n in os.path.basename(path).split(".")[1:]]


def _tracebacks(folder):
    """Return the tracebacks of the ranks that failed."""
    found = ""
    for path in sorted(glob.glob(os.path.join(folder, error_name("*"))), key=_numbers):
        with open(path, encoding="utf-8", errors="replace") as f:
            found += f"\n\nRank {_numbers(path)[0]}:\n{f.read().rstrip()}"
    return found


def _results(args, folder):
    """Return the results by rank; for an elastic job, those of the ranks at the end."""
    if not _is_elastic(args):
        paths = [os.path.join(folder, result_name(r)) for r in range(args.num_proc)]
        for rank, path in enumerate(paths):
            if not os.path.exists(path):
                raise RuntimeError(f"rank {rank} ended without a result: its function did not "
                                   "return (did it call sys.exit() or os._exit()?)")
        return [codec.read(path) for path in paths]
    paths = sorted(glob.glob(os.path.join(folder, result_name("*[0-9]"))), key=_numbers)
    return [codec.read(path) for path in paths][:args.min_num_proc]


def _launch_function(args, is_remote):
    """Call args.run_func on the ranks.  The function and the results are files in a folder that
    only this user can read."""
    folder = tempfile.mkdtemp(prefix=".horovod_run." if is_remote else "horovod_run.",
                              dir=os.getcwd() if is_remote else None)
    try:
        try:
            codec.write(os.path.join(folder, FUNCTION), args.run_func)
        except Exception as e:
            raise pickling.cannot_pickle(args.run_func, e) from e
        with open(os.path.join(folder, PATHS), "w", encoding="utf-8") as f:
            json.dump([os.path.abspath(p) for p in sys.path], f)
        try:
            _launch(args, [args.executable or sys.executable, "-m", "horovod.runner.run_task",
                           folder])
        except RuntimeError as e:
            raise RuntimeError(f"{e}{_tracebacks(folder)}") from None
        return _results(args, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(args):
    """Run the function or the command; print upstream's remarks if asked to be verbose."""
    names = hosts.parse_hosts_and_slots(args.hosts)[0] if args.hosts else []
    if args.verbose:
        print("Filtering local host names.")
    remote = network.filter_local_addresses(names)
    if args.verbose:
        print("Remote host found: " + " ".join(remote))
        if names and not remote:
            print("All hosts are local, finding the interfaces with address 127.0.0.1")
            print("Local interface found " + " ".join(sorted(network.get_local_intfs())))
    if args.run_func:
        return _launch_function(args, bool(remote or args.host_discovery_script))
    _launch(args, args.command)
    return None


def _run_static(args):
    """Run a job whose ranks do not change."""
    result = []

    def start():
        result.append(_start(args))

    if args.use_mpi or args.use_jsrun:
        start()
    else:
        run_controller(args.use_gloo, start, args.use_mpi, start, args.use_jsrun, start,
                       2 if args.verbose else 0)
    return result[0] if result else None


def _run_elastic(args):
    """Run a job whose ranks may come and go."""
    if not args.host_discovery_script and not args.hosts:
        raise ValueError("One of --host-discovery-script, --hosts, or --hostnames must be "
                         "provided")
    return _start(args)


def is_gloo_used(use_gloo=None, use_mpi=None, use_jsrun=None):
    """Return whether run_controller() calls gloo_run."""
    return use_gloo or (not use_mpi and not use_jsrun and not mpi_built())


def run_controller(use_gloo, gloo_run, use_mpi, mpi_run, use_jsrun, js_run, verbosity):
    """Call the one of the three functions that upstream would call."""
    verbose = verbosity is not None and verbosity >= 2
    if use_gloo:
        if not gloo_built(verbose=verbose):
            raise ValueError(_NOT_BUILT.format("Gloo", "CMake", "GLOO"))
        gloo_run()
    elif use_mpi or use_jsrun:
        if not mpi_built(verbose=verbose):
            raise ValueError(_NOT_BUILT.format("MPI", "MPI", "MPI"))
        if not use_mpi and not lsf.LSFUtils.using_lsf():
            raise ValueError(_NO_LSF)
        (mpi_run if use_mpi else js_run)()
    elif mpi_built(verbose=verbose):
        (js_run if lsf.LSFUtils.using_lsf() and is_jsrun_installed() else mpi_run)()
    elif gloo_built(verbose=verbose):
        gloo_run()
    else:
        raise ValueError("Neither MPI nor Gloo support has been built. Try reinstalling Horovod "
                         "ensuring that either MPI is installed (MPI) or CMake is installed "
                         "(Gloo).")


def _is_elastic(args):
    return args.host_discovery_script is not None or args.min_num_proc is not None


def _run(args):
    """Run a job for arguments of horovodrun or horovod.run()."""
    if lsf.LSFUtils.using_lsf() and not args.hosts and not args.hostfile \
            and not args.host_discovery_script:
        args.num_proc = args.num_proc or lsf.LSFUtils.get_num_processes()
        args.hosts = ",".join(f"{host}:{lsf.LSFUtils.get_num_gpus()}"
                              for host in lsf.LSFUtils.get_compute_hosts())
    if not args.hosts and not args.host_discovery_script:
        args.hosts = (hosts.parse_host_files(args.hostfile) if args.hostfile
                      else f"localhost:{args.num_proc}")
    return _run_elastic(args) if _is_elastic(args) else _run_static(args)


@cache.use_cache()
def _check_all_hosts_ssh_successful(host_addresses, ssh_port=None, ssh_identity_file=None):
    """Return True if ssh reaches all hosts without a password; otherwise print the reason and
    return None."""
    def ask(host):
        words = ["ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={SSH_CONNECT_TIMEOUT_S}"]
        words += ["-p", str(ssh_port)] if ssh_port else []
        words += ["-i", ssh_identity_file] if ssh_identity_file else []
        try:
            p = subprocess.run([*words, host, "true"], stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        except OSError as e:
            return str(e)
        return p.stdout or f"exit status {p.returncode}" if p.returncode else ""

    answers = threads.execute_function_multithreaded(ask, [[host] for host in host_addresses])
    for i, why in sorted(answers.items()):
        if why:
            print(f"ssh not successful for host {host_addresses[i]}:\n{why}")
    return None if any(answers.values()) else True


def run_commandline():
    """Replace this process with horovodrun."""
    words = program.horovodrun()
    os.execv(words[0], [*words, *sys.argv[1:]])


if __name__ == "__main__":
    run_commandline()
