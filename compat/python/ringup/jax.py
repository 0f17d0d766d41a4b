# jax.py - collectives on JAX's arrays, in compiled code.
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

Each rank compiles the same program.  Ranks match collectives by name; one without a name gets the
number of the call that traced it, so ranks trace in the same order.  A rank that dies is an error
of the computation, which names it: jax.errors.JaxRuntimeError, when its result is asked for.

On CPUs collectives run beside the computation, in any order.  On GPUs arrays go through host
memory, and a collective holds the program up until it has its result, so all ranks run the same
program there, and each process computes on one GPU: several devices in one shard_map are refused.
"""

import functools
import itertools

import jax
import jax.custom_batching
import jax.experimental
import jax.numpy as jnp
import numpy

from . import jax_host, job
from .constants import ADASUM, AVERAGE, MAX, MIN, PRODUCT, SUM  # noqa: F401

NAME = "libringup_jax.so"
_numbers = itertools.count()
_PROGRAMS = 4096  # so many collectives are kept for calls outside of compiled code


def _load():
    """Tell JAX of the functions, and them of the job."""
    if not hasattr(jax, "ffi"):
        raise ImportError(f"ringup.jax needs JAX 0.5 or later, and this is {jax.__version__}: "
                          "pip install --upgrade jax")
    path = job.beside(NAME, "ringup.jax")
    job.attach(path, "ringup_jax_attach", "ringup_jax_closed")
    for word in ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter"):
        jax.ffi.register_ffi_target(f"ringup_{word}",
                                    jax.ffi.pycapsule(job.function_of(path, f"ringup_jax_{word}")),
                                    platform="cpu")


_load()


def _by_cpu(word, x, shape, name, how):
    """The functions of libringup_jax.so, which XLA calls."""
    told = {key: numpy.int64(v) if isinstance(v, int) else numpy.float64(v)
            for key, v in how.items()}
    first = min(d.id for d in jax.local_devices(backend="cpu"))
    call = jax.ffi.ffi_call(f"ringup_{word}", jax.ShapeDtypeStruct(shape, x.dtype),
                            has_side_effect=True, vmap_method="sequential")
    return call(x, name=name, first_device=numpy.int64(first), **told)


def _by_host(word, x, shape, name, how):
    """A function of Python, which XLA calls with a copy of the array."""
    several = _is_of_several_devices()

    def call(x):
        if several:
            raise NotImplementedError(
                f"ringup.jax: {word} inside of a shard_map or pmap over several devices works on "
                "CPUs only; start one process for each GPU, which sees no other "
                "(CUDA_VISIBLE_DEVICES), and let ringup.jax combine between the processes")
        return jax_host.collective(word, x, shape, name, how)

    return jax.experimental.io_callback(call, jax.ShapeDtypeStruct(shape, x.dtype), x)


def _is_of_several_devices():
    """Does the program that is being traced run once on each of several devices?"""
    ask = getattr(jax.sharding, "get_abstract_mesh", None)
    mesh = ask() if ask else None
    axes = getattr(mesh, "manual_axes", None)
    if axes is None:  # an older JAX does not tell
        return len(jax.local_devices()) > 1
    return any(mesh.shape[axis] > 1 for axis in axes)


@functools.lru_cache(_PROGRAMS)
def _program(word, shape, name, how, _several):
    """A function that carries one collective out, wherever its array is."""
    how = dict(how)

    def by(means):
        return lambda x: means(word, x, shape, name, how)

    @jax.custom_batching.sequential_vmap
    def program(x):
        return jax.lax.platform_dependent(x, cpu=by(_by_cpu), default=by(_by_host))

    return jax.jit(program, inline=True)


def _check_place(word, x):
    """Complain about an array of which each of several devices has a part, or a copy."""
    if not isinstance(x, jax.core.Tracer) and len(x.devices()) > 1:
        raise ValueError(f"ringup.jax: the array of this {word} lies on {len(x.devices())} devices "
                         "of this process; call it inside of a jax.shard_map over them, or take "
                         "the array to one of them, jax.device_put(x, jax.devices()[0])")


def _call(word, x, shape, name, **how):
    """One collective in the program that is being traced."""
    x = jnp.asarray(x)
    _check_place(word, x)
    name = f"jax.{next(_numbers)}" if name is None else name
    return _program(word, shape, name, tuple(how.items()), _is_of_several_devices())(x)


def _check_linear(op):
    if op not in (SUM, AVERAGE):
        raise NotImplementedError("only sums and averages have a gradient; use "
                                  "jax.lax.stop_gradient() on the result")


# Each collective is a function of one array whose other arguments are known when it is traced.

@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3, 4, 5))
def _allreduce(x, op, name, group, pre, post):
    return _call("allreduce", x, x.shape, name, reduction=op, process_set_id=group,
                 prescale_factor=pre, postscale_factor=post)


def _allreduce_forward(x, op, name, group, pre, post):
    return _allreduce(x, op, name, group, pre, post), None


def _allreduce_backward(op, name, group, pre, post, _kept, g):
    _check_linear(op)
    return (_allreduce(g, op, name and name + ".gradient", group, pre, post),)


_allreduce.defvjp(_allreduce_forward, _allreduce_backward)


def allreduce(x, op=AVERAGE, name=None, group=0, pre=1.0, post=1.0):
    """Combine an array across all ranks; differentiable.  group is the number of a group of ranks;
    pre and post are factors."""
    x = jnp.asarray(x)
    if x.dtype.itemsize * 8 > 64 or jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise ValueError(f"arrays of {x.dtype} cannot be reduced")
    if not pre or not post:
        raise ValueError("a factor of 0 would give zeros; multiply by 0 yourself")
    return _allreduce(x, int(op), name, int(group), float(pre), float(post))


def _size(group):
    return job.group(group).size


def _rows(x, what):
    if not x.shape:
        raise ValueError(f"{what} works on rows, and an array of no dimensions has none; reshape "
                         "it to (1,)")
    return x.shape[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _allgather(x, name, group):
    return _call("allgather", x, (x.shape[0] * _size(group), *x.shape[1:]), name,
                 process_set_id=group)


def _allgather_backward(name, group, rows, g):
    g = _allreduce(g, SUM, name and name + ".gradient", group, 1.0, 1.0)
    first = job.group(group).rank * rows
    return (g[first:first + rows],)


_allgather.defvjp(lambda x, name, group: (_allgather(x, name, group), x.shape[0]),
                  _allgather_backward)


def allgather(x, name=None, group=0):
    """Concatenate the ranks' arrays, which have as many rows each; differentiable."""
    x = jnp.asarray(x)
    _rows(x, "allgather")
    return _allgather(x, name, int(group))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _broadcast(x, root, name, group):
    return _call("broadcast", x, x.shape, name, root_rank=root, process_set_id=group)


def _broadcast_backward(root, name, group, _kept, g):
    g = _allreduce(g, SUM, name and name + ".gradient", group, 1.0, 1.0)
    return (g if job.rank() == root else jnp.zeros_like(g) * g,)


_broadcast.defvjp(lambda x, root, name, group: (_broadcast(x, root, name, group), None),
                  _broadcast_backward)


def broadcast(x, root=0, name=None, group=0):
    """Root's array on every rank; differentiable.  The root is a rank of the job."""
    return _broadcast(jnp.asarray(x), int(root), name, int(group))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _alltoall(x, name, group):
    return _call("alltoall", x, x.shape, name, process_set_id=group)


_alltoall.defvjp(lambda x, name, group: (_alltoall(x, name, group), None),
                 lambda name, group, _kept, g: (
                     _alltoall(g, name and name + ".gradient", group),))


def alltoall(x, name=None, group=0):
    """Send as many rows to each rank, and return those received; differentiable."""
    x = jnp.asarray(x)
    if _rows(x, "alltoall") % _size(group):
        raise ValueError(f"alltoall: {x.shape[0]} rows cannot be dealt out evenly to "
                         f"{_size(group)} ranks")
    return _alltoall(x, name, int(group))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3, 4, 5))
def _reducescatter(x, op, name, group, pre, post):
    return _call("reducescatter", x, (x.shape[0] // _size(group), *x.shape[1:]), name,
                 reduction=op, process_set_id=group, prescale_factor=pre, postscale_factor=post)


def _reducescatter_backward(op, name, group, pre, post, _kept, g):
    _check_linear(op)
    factor = pre * post / (_size(group) if op == AVERAGE else 1)
    return (_allgather(g * jnp.asarray(factor, g.dtype), name and name + ".gradient", group),)


_reducescatter.defvjp(
    lambda x, op, name, group, pre, post: (_reducescatter(x, op, name, group, pre, post), None),
    _reducescatter_backward)


def reducescatter(x, op=AVERAGE, name=None, group=0, pre=1.0, post=1.0):
    """Combine an array across all ranks, and return this rank's rows, which are as many on each;
    differentiable."""
    x = jnp.asarray(x)
    if _rows(x, "reducescatter") % _size(group):
        raise ValueError(f"reducescatter: {x.shape[0]} rows cannot be dealt out evenly to "
                         f"{_size(group)} ranks, which compiled code demands")
    return _reducescatter(x, int(op), name, int(group), float(pre), float(post))


# Pytrees

def _named_leaves(tree, name):
    """(leaves, a name for each, what puts them together)"""
    pairs, shape = jax.tree_util.tree_flatten_with_path(tree)
    return [leaf for _path, leaf in pairs], [f"{name}{jax.tree_util.keystr(path)}"
                                             for path, _leaf in pairs], shape


def allreduce_gradients(grads, op=AVERAGE, name="gradients", group=0):
    """A pytree of gradients, combined across the ranks.  All are under way at once; they are
    matched by their place in the tree."""
    leaves, names, shape = _named_leaves(grads, name)
    return shape.unflatten([allreduce(leaf, op, n, group) for leaf, n in zip(leaves, names)])


def broadcast_parameters(params, root=0, name="parameters", group=0):
    """A pytree of parameters, which are root's on every rank."""
    leaves, names, shape = _named_leaves(params, name)
    return shape.unflatten([broadcast(leaf, root, n, group) for leaf, n in zip(leaves, names)])


def distributed(optimizer, op=AVERAGE, group=0):
    """An optax optimizer that combines gradients across the ranks first."""
    import optax

    optimizer = optax.with_extra_args_support(optimizer)

    def update(grads, state, params=None, **extra):
        return optimizer.update(allreduce_gradients(grads, op, group=group), state, params,
                                **extra)

    return optax.GradientTransformationExtraArgs(optimizer.init, update)
