# semantics.py - Horovod's meaning of an operation's arguments, for all frameworks.
# SPDX-License-Identifier: Apache-2.0

import functools
import warnings

from ringup import constants, errors

from .exceptions import translated

# Horovod's numbers for the reductions, and the library's.
Average, Sum, Adasum, Min, Max, Product = range(6)
REDUCTIONS = {Average: constants.AVERAGE, Sum: constants.SUM, Min: constants.MIN,
              Max: constants.MAX, Product: constants.PRODUCT, Adasum: constants.ADASUM}


@functools.lru_cache(1 << 14)
def named(what, name):
    """Return a name that is unique to the kind of collective, so that one parameter can go through
    several."""
    return None if name is None else f"{what}.{name}".encode()


def choose(op, average):
    """Return the requested reduction.  Horovod had average= before op=."""
    if average is None:
        return Average if op is None else op
    if op is not None:
        raise ValueError("give op or average, not both")
    warnings.warn("average= is deprecated: use op=hvd.Average or op=hvd.Sum", DeprecationWarning,
                  stacklevel=3)
    return Average if average else Sum


def reduction_of(op):
    """Return the library's number of a reduction."""
    number = REDUCTIONS.get(op)
    if number is None:
        raise ValueError(f"{op!r} is not one of hvd.Average, Sum, Adasum, Min, Max, Product")
    return number


def check_linear(op):
    """Raise an exception for a reduction other than a sum or an average; the gradients of others
    are not defined here."""
    if op not in (Average, Sum):
        raise NotImplementedError("only Sum and Average have a gradient; detach the tensor first")


def check_sparse(op):
    """Raise an exception for a reduction of sparse tensors that is not linear.  Sparse tensors are
    gathered, so they can only be added."""
    if op not in (Average, Sum):
        raise NotImplementedError("sparse tensors can only be summed or averaged")


def check_rows(shape, what):
    """Raise an exception for a tensor without rows."""
    if not shape:
        raise ValueError(f"{what} needs a tensor with at least one dimension; reshape it to (1,)")


def check_scatter(op):
    """Raise an exception for a reduction that reducescatter does not support."""
    if op == Adasum:
        raise NotImplementedError("reducescatter does not support Adasum; use hvd.allreduce()")


def root_of(root_rank, group, process_set):
    """Return the rank of a root within a group; the argument is its rank in the world."""
    if root_rank not in group.ranks:
        raise ValueError(f"broadcast: the root, rank {root_rank}, is not in {process_set}")
    return group.ranks.index(root_rank)


def check_splits(splits, rows, group):
    """Return the number of rows of an alltoall for each rank, as a list; None if all get the
    same number."""
    if splits is None:
        if rows % group.size:
            raise ValueError(f"alltoall: {rows} rows cannot be split evenly among {group.size} "
                             "ranks; pass splits=")
        return None
    numbers = [int(n) for n in splits]
    if len(numbers) != group.size:
        raise ValueError(f"alltoall: {len(numbers)} splits for {group.size} ranks")
    if min(numbers) < 0 or sum(numbers) > rows:
        raise ValueError(f"alltoall: splits {numbers} of {rows} rows")
    return numbers


def scatter_gradient_factor(op, process_set, pre, post):
    """Return the factor for the gradient of a reducescatter, before the gradient is gathered."""
    check_linear(op)
    return pre * post * (process_set.size() if op == Sum else 1)


def begin(start, *args, **kwargs):
    """Start an operation of the library, and replace its errors with Horovod's."""
    try:
        return start(*args, **kwargs)
    except errors.RingupError as e:
        raise translated(e) from e


def poll(handle):
    """Return whether synchronize() would return without blocking."""
    return not hasattr(handle, "poll") or handle.poll()


def synchronize(handle):
    """Wait for an operation and return its result; None if a previous call has returned it."""
    if not hasattr(handle, "wait"):
        return None
    try:
        return handle.wait()
    except errors.RingupError as e:
        raise translated(e) from e
