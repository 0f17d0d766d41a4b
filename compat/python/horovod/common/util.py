# util.py - helpers that Horovod's users and tests need besides the collectives.
# SPDX-License-Identifier: Apache-2.0

import importlib.util
import os
import sysconfig
import warnings
from contextlib import contextmanager

EXTENSIONS = ["tensorflow", "torch", "mxnet"]


def _cache(f):
    """Decorator that calls f once for each set of arguments, and keeps the results."""
    known = {}

    def wrapper(*args, **kwargs):
        key = (args, frozenset(kwargs.items()))
        if key not in known:
            known[key] = f(*args, **kwargs)
        return known[key]

    return wrapper


def get_ext_suffix():
    """Return the suffix of compiled modules."""
    return sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def get_extension_full_path(pkg_path, *args):
    """Return the path at which Horovod has the library of a framework.  ringup needs none."""
    return os.path.join(os.path.dirname(pkg_path), *args[:-1], args[-1] + get_ext_suffix())


def extension_available(ext_base_name, verbose=False):
    """Return whether the framework and the part of this package for it are installed. Imports
    neither."""
    there = all(importlib.util.find_spec(name)
                for name in (ext_base_name, f"horovod.{ext_base_name}"))
    if verbose:
        print(f"Extension {ext_base_name} {'was' if there else 'was NOT'} built.")
    return there


def check_extension(ext_name, ext_env_var, pkg_path, *args):
    """Raise ImportError unless ext_name, such as "horovod.torch", can be imported here."""
    framework = ext_name.rpartition(".")[2]
    if not extension_available(framework):
        missing = framework if not importlib.util.find_spec(framework) else ext_name
        raise ImportError(f"Extension {ext_name} has not been built: module {missing} is not "
                          f"installed; ringup needs neither {ext_env_var}=1 nor a compiler")


@_cache
def gpu_available(ext_base_name, verbose=False):
    """Return whether the framework sees a GPU. Imports it."""
    if not extension_available(ext_base_name, verbose):
        return False
    if ext_base_name == "torch":
        import torch
        return torch.cuda.is_available()
    if ext_base_name == "tensorflow":
        import tensorflow
        return bool(tensorflow.config.list_physical_devices("GPU"))
    return False


def _built(what, verbose):
    """Return the answer of horovod.common.basics for a library; None without a framework, as in
    Horovod."""
    if not any(extension_available(name) for name in EXTENSIONS):
        return None
    from horovod.common import basics
    answer = getattr(basics, f"{what}_built")()
    if verbose:
        print(f"ringup {'stands' if answer else 'does NOT stand'} in for Horovod with {what}.")
    return answer


@_cache
def mpi_built(verbose=False):
    """Return whether MPI moves the data."""
    return _built("mpi", verbose)


@_cache
def gloo_built(verbose=False):
    """Return whether a transport without MPI exists."""
    return _built("gloo", verbose)


@_cache
def nccl_built(verbose=False):
    """Return NCCL's version code, or 0 without NCCL."""
    return _built("nccl", verbose)


@_cache
def ddl_built(verbose=False):
    """Return whether IBM's DDL is available."""
    return _built("ddl", verbose)


@_cache
def ccl_built(verbose=False):
    """Return whether oneCCL is available."""
    return _built("ccl", verbose)


@contextmanager
def env(**kwargs):
    """Set environment variables while the block runs.  A value of None leaves a variable unchanged.
    """
    new = {k: v for k, v in kwargs.items() if v is not None}
    old = {k: os.environ.get(k) for k in new}
    os.environ.update(new)
    try:
        yield
    finally:
        for k, v in old.items():
            if v is None:
                os.environ.pop(k, None)
            else:
                os.environ[k] = v


def get_average_backwards_compatibility_fun(reduce_ops):
    """Return a function (op, average) -> op, for code that uses the older argument average."""
    def impl(op, average):
        if op is not None and average is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of "
                             "them.")
        if op is not None:
            return op
        if average is None:
            return reduce_ops.Average
        warnings.warn("average= has been replaced by op=", DeprecationWarning, stacklevel=3)
        return reduce_ops.Average if average else reduce_ops.Sum

    return impl


def num_rank_is_power_2(num_rank):
    """Return whether the number of ranks is a power of two.  Horovod's Adasum requires this;
    ringup's Adasum supports any number."""
    return num_rank != 0 and num_rank & (num_rank - 1) == 0


def split_list(l, n):
    """Return n lists whose lengths differ by at most one, the longer ones first."""
    short, longer = divmod(len(l), n)
    starts = [i * short + min(i, longer) for i in range(n + 1)]
    return [l[a:b] for a, b in zip(starts, starts[1:])]


def check_installed_version(name, version, exception=None):
    """Do nothing.  Horovod compares the framework's version with the one that it was built for;
    ringup does not depend on the version."""


def is_iterable(x):
    """Return whether x is iterable."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


@_cache
def is_version_greater_equal_than(ver, target):
    """Return whether the version ver is at least target, in the form MAJOR.MINOR.PATCH."""
    from packaging import version
    if not isinstance(ver, str) or not isinstance(target, str):
        raise ValueError(f"versions are strings, not {ver!r} and {target!r}")
    if len(target.split(".")) != 3:
        raise ValueError(f"{target!r} is not of the form MAJOR.MINOR.PATCH")
    return version.parse(ver) >= version.parse(target)
