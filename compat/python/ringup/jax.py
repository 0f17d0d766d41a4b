# jax.py - collectives on JAX arrays, in compiled code.
# SPDX-License-Identifier: Apache-2.0
"""Collectives between the ranks of a job, under jit, grad, vmap, scan and shard_map:

    import ringup
    from ringup import jax as rj

    ringup.init()
    params = rj.broadcast_parameters(params)

    @jax.jit
    def step(params, x):
        loss, grads = jax.value_and_grad(loss_of)(params, x)
        return optimize(params, rj.allreduce_gradients(grads)), rj.allreduce(loss)

Each rank runs the same program.  Ranks match collectives by name.  A collective without a name is
named after its program and its position in it, so one rank may compile a program more often than
the others.  Outside of compiled code, all ranks must make the same calls in the same order.  If a
rank dies, the computation fails with jax.errors.JaxRuntimeError, which names the rank, when its
result is read.

On CPUs, collectives run concurrently with the computation.  Those without a name, and the small
ones of a tree, run in the order in which they were traced; the others run in any order.  On GPUs,
arrays go through host memory, and a collective blocks the program until it has its result.  All
ranks therefore run the same program there, and each process computes on one GPU; a shard_map over
several devices raises an exception."""

import functools
import itertools
import numbers
import warnings

import jax
import jax.numpy as jnp
import numpy

from . import jax_host, job, setting
from .constants import ADASUM, AVERAGE, MAX, MIN, PRODUCT, SUM  # noqa: F401

NAME = "libringup_jax.so"


def _load():
    """Register the functions with JAX, and attach them to the job."""
    if not hasattr(jax, "ffi"):
        raise ImportError(f"ringup.jax needs JAX 0.5 or later, not {jax.__version__}: "
                          "pip install --upgrade jax")
    from . import jax_primitive

    path = job.beside(NAME, "ringup.jax")
    job.attach(path, "ringup_jax_attach", "ringup_jax_closed")
    jax_primitive.load(path)
    return jax_primitive.collective, jax_primitive.Place


_call, _Place = _load()


def _is_key(x):
    """Return whether this is an array of jax.random.key()."""
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _carries_keys(collective):
    """Decorate a collective that only moves elements, so that it moves random keys as integers."""

    @functools.wraps(collective)
    def call(x, *args, **kwargs):
        if not _is_key(x):
            return collective(jnp.asarray(x), *args, **kwargs)
        moved = collective(jax.random.key_data(x), *args, **kwargs)
        return jax.random.wrap_key_data(moved, impl=jax.random.key_impl(x))

    return call


def _check_reducible(x, what):
    if _is_key(x):
        raise ValueError(f"{what}: random keys cannot be reduced; broadcast() them")
    x = jnp.asarray(x)
    if x.dtype.itemsize * 8 > 64 or jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise ValueError(f"arrays of {x.dtype} cannot be reduced")
    return x


def _factors(op, group, pre, post):
    if not pre or not post:
        raise ValueError("a factor of 0 would give zeros; multiply by 0 yourself")
    return {"reduction": int(op), "process_set_id": int(group), "prescale_factor": float(pre),
            "postscale_factor": float(post)}


def _size(group):
    return job.group(group).size


def _rows(x, what):
    if not x.shape:
        raise ValueError(f"{what} needs an array with at least one dimension; reshape it to (1,)")
    return x.shape[0]


def allreduce(x, op=AVERAGE, name=None, group=0, pre=1.0, post=1.0):
    """Reduce an array over all ranks; differentiable.

    group is the number of a group of ranks.  Elements are multiplied by pre before the reduction
    and by post after it."""
    x = _check_reducible(x, "allreduce")
    return _call("allreduce", x, None, name, **_factors(op, group, pre, post))


def allgather(x, name=None, group=0):
    """Concatenate the arrays of all ranks, which must have the same number of rows;
    differentiable."""
    x = x if _is_key(x) else jnp.asarray(x)
    _rows(x, "allgather")
    return _allgather(x, name, int(group))


@_carries_keys
def _allgather(x, name, group):
    return _call("allgather", x, x.shape[0] * _size(group), name, process_set_id=group)


@_carries_keys
def broadcast(x, root=0, name=None, group=0):
    """Return root's array on every rank; differentiable.  root is a rank of the job."""
    return _call("broadcast", x, None, name, root_rank=int(root), process_set_id=int(group))


def alltoall(x, name=None, group=0):
    """Send the same number of rows to each rank, and return the received rows; differentiable."""
    x = x if _is_key(x) else jnp.asarray(x)
    if _rows(x, "alltoall") % _size(group):
        raise ValueError(f"alltoall: {x.shape[0]} rows cannot be split evenly among "
                         f"{_size(group)} ranks")
    return _alltoall(x, name, int(group))


@_carries_keys
def _alltoall(x, name, group):
    return _call("alltoall", x, None, name, process_set_id=group)


def reducescatter(x, op=AVERAGE, name=None, group=0, pre=1.0, post=1.0):
    """Reduce an array over all ranks and return this rank's rows, the same number on each rank;
    differentiable."""
    x = _check_reducible(x, "reducescatter")
    if _rows(x, "reducescatter") % _size(group):
        raise ValueError(f"reducescatter: {x.shape[0]} rows cannot be split evenly among "
                         f"{_size(group)} ranks, as compiled code requires")
    return _call("reducescatter", x, x.shape[0] // _size(group), name,
                 **_factors(op, group, pre, post))


# Pytrees

def _each_leaf(tree, name, carry_out):
    """Return the tree with each leaf replaced by carry_out(leaf, name of the leaf)."""
    pairs, shape = jax.tree_util.tree_flatten_with_path(tree)
    return shape.unflatten([carry_out(leaf, _Place(f"{name}{jax.tree_util.keystr(path)}"))
                            for path, leaf in pairs])


def _has_no_derivative(leaf):
    """Return whether this is the gradient of an integer or of a random key, as
    jax.grad(allow_int=True) returns it."""
    return getattr(leaf, "dtype", None) == jax.dtypes.float0


def allreduce_gradients(grads, op=AVERAGE, name="gradients", group=0):
    """Reduce a pytree of gradients over all ranks.  All reductions run concurrently; ranks match
    them by their position in the tree."""
    return _each_leaf(grads, name, lambda leaf, called: leaf if _has_no_derivative(leaf) else
                      allreduce(leaf, op, called, group))


def _is_tracing():
    """Return whether this call is part of a program that JAX is tracing."""
    return isinstance(jax.lax.full((), 0), jax.core.Tracer)


def _from_root(leaf, root, name, group):
    """Return root's leaf.  NumPy arrays and Python numbers keep their type and all their bits; JAX
    would keep only 32 of 64 bits."""
    if isinstance(leaf, jax.Array) or _is_key(leaf) or _is_tracing():
        return broadcast(leaf, root, name, group)
    if not isinstance(leaf, (numpy.ndarray, numpy.generic, numbers.Number)):
        raise TypeError(f"{name} is of the type {type(leaf).__name__}, but only arrays and numbers "
                        "can be broadcast; use ringup.broadcast_object() for other objects")
    if _has_no_derivative(leaf):
        return leaf
    got = jax_host.collective("broadcast", numpy.asarray(leaf), numpy.shape(leaf), name,
                              {"root_rank": int(root), "process_set_id": int(group)})
    return type(leaf)(got[()]) if isinstance(leaf, (numpy.generic, numbers.Number)) else got


def broadcast_parameters(params, root=0, name="parameters", group=0):
    """Return root's pytree of parameters on every rank.  Leaves may be arrays, random keys and
    numbers."""
    return _each_leaf(params, name,
                      lambda leaf, called: _from_root(leaf, root, called, group))


def _checksum(leaf):
    """Return a number that depends on every bit of an array."""
    x = jax.random.key_data(leaf) if _is_key(leaf) else jnp.asarray(leaf)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        x = jnp.stack([x.real, x.imag])
    if x.dtype == bool or jnp.dtype(x.dtype).name in ("int4", "uint4", "int2", "uint2"):
        x = x.astype("uint8")
    width = min(x.dtype.itemsize, 4)
    bits = jax.lax.bitcast_convert_type(x, f"uint{8 * width}").reshape(-1).astype("uint32")
    return jnp.sum(bits * (2 * jax.lax.iota("uint32", bits.size) + 1), dtype="uint32")


def check_weights(params, every=None, group=0):
    """Raise an exception on all ranks if any bit of any array in a pytree differs between them.

    The check runs in every N-th call, where every=N or RINGUP_CHECK_WEIGHTS=N sets N. By default it
    never runs, and costs nothing.  In compiled code, the program fails instead."""
    every = setting.number("RINGUP_CHECK_WEIGHTS") if every is None else every
    pairs, shape = jax.tree_util.tree_flatten_with_path(params)
    if not every or not pairs:
        return
    if not _is_tracing():
        # Each call is a program of its own, so calls for the same tree are counted here.
        calls = job.get_running().calls.setdefault((group, shape), itertools.count(1))
        if next(calls) % every:
            return
        every = 1
    sums = jnp.stack([_checksum(jax.lax.stop_gradient(leaf)) for _path, leaf in pairs])
    names = tuple(jax.tree_util.keystr(path) or "the array" for path, _leaf in pairs)
    jax.block_until_ready(_call("check_weights", sums, 0, None, process_set_id=int(group),
                                every=int(every), names=names))


def distributed(optimizer, op=AVERAGE, group=0):
    """Return an optax optimizer that first reduces gradients over all ranks.

    With RINGUP_CHECK_WEIGHTS=N it compares the parameters of every N-th update, as
    check_weights() does."""
    import optax

    checks = setting.number("RINGUP_CHECK_WEIGHTS")
    optimizer = optax.with_extra_args_support(optimizer)

    def update(grads, state, params=None, **extra):
        if checks and params is None:
            warnings.warn("RINGUP_CHECK_WEIGHTS compares nothing: update() was called without "
                          "params; call update(grads, state, params)", RuntimeWarning,
                          stacklevel=2)
        check_weights(params, checks, group)
        return optimizer.update(allreduce_gradients(grads, op, group=group), state, params,
                                **extra)

    return optax.GradientTransformationExtraArgs(optimizer.init, update)
