# jax_primitive.py - the JAX operation that represents a collective in traced programs.
# SPDX-License-Identifier: Apache-2.0
"""One JAX primitive implements all collectives.  It is linear, so JAX derives forward and reverse
differentiation from its transpose, and vmap needs one collective for a whole batch.

Ranks match collectives by name.  When JAX lowers a program, a collective without a name is named
after the program and its position in it, such as "step.3". The name therefore does not depend on
what else a process has traced.  Calls outside of compiled code are numbered from 0 to 31, and then
from 0 again.  If a program calls a function several times, JAX lowers the function once, and
libringup_jax.so distinguishes the calls."""

import collections
import functools
import inspect
import itertools

import jax
import jax.experimental
import jax.numpy as jnp
import numpy
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from . import _c, jax_host, job
from .constants import ADASUM, AVERAGE, MAX, MIN, PRODUCT, SUM

WORDS = tuple(_c.COLLECTIVES)
_NAMES = {MIN: "MIN", MAX: "MAX", PRODUCT: "PRODUCT", ADASUM: "ADASUM"}
_NAMES_OF_CALLS = 32  # so many are under way at a time; the library starts a known name faster
_FEW_CALLS, _SMALL_BYTES = 8, 512  # of what XLA runs one after the other; see Place
_PROGRAMS = 4096  # so many compiled collectives are kept for calls outside of compiled code


class Place(str):
    """The name of a collective that is named after its position in a tree, so that all ranks trace
    it in the same order.

    XLA on CPUs runs the calls of a program one after the other if they are few or their arrays are
    small.  Their order depends on constants and shapes.  Ranks whose programs differ, because of
    the rank number or the size of the last batch, would wait for each other forever.  Such
    collectives, and those without a name, therefore start one after the other in the order of
    tracing."""


_collective = Primitive("ringup")
_refusal = Primitive("ringup_has_no_derivative")


# JAX keeps an operation with an effect although nobody uses its result: on another rank somebody
# may.  Which transformations allow an effect is told to a private module of JAX; without it, ranks
# have to use the same results.
try:
    from jax._src import effects as _effects

    class _Effect(_effects.Effect):
        """The effect of communication, for JAX."""

        def __str__(self):
            return "ringup"

        __repr__ = __str__

    for _allowed in ("lowerable_effects", "control_flow_allowed_effects",
                     "custom_derivatives_allowed_effects", "remat_allowed_effects"):
        getattr(_effects, _allowed).add_type(_Effect)
    _EFFECTS = frozenset({_Effect()})
except (ImportError, AttributeError):
    _EFFECTS = frozenset()


def load(path):
    """Register the functions of libringup_jax.so with JAX."""
    compiled = job.function_of(path, "ringup_jax_compiled")
    for word in WORDS:
        for platform, execute in (("cpu", word), ("CUDA", f"cuda_{word}")):
            stages = {stage: jax.ffi.pycapsule(job.function_of(path, f"ringup_jax_{function}"))
                      for stage, function in (("instantiate", f"{word}_instantiate"),
                                              ("execute", execute))}
            jax.ffi.register_ffi_target(f"ringup_{word}", stages, platform=platform)
    # JAX reports how long it traced, lowered and compiled; each is a boundary between programs.
    jax.monitoring.register_event_duration_secs_listener(lambda *_a, **_k: compiled())


# Where the arrays are

def by_cpu(word, x, number, shape, name, how, program):
    """Return the functions of libringup_jax.so for XLA on CPUs."""
    first = min(d.id for d in jax.local_devices(backend="cpu"))
    return _foreign(word, (x, *number), shape, name, how, program, first)


def by_cuda(word, x, number, shape, name, how, program):
    """Return the functions for the stream of a GPU, if the group supports GPU memory
    (RINGUP_BACKEND=nccl). A call there waits until all ranks have queued it, so its name needs no
    number."""
    if (not job.group(how["process_set_id"]).cuda or how.get("reduction") == ADASUM
            or _is_of_several_devices()):
        return by_host(word, x, number, shape, name, how, program)
    arrays = (x, *number) if "after" in how else (x,)
    return _foreign(word, arrays, shape, name, how, program, 0)


def _foreign(word, arrays, shape, name, how, program, first):
    """Return a call to a function of libringup_jax.so."""
    told = {key: numpy.int64(v) if isinstance(v, int) else numpy.float64(v)
            for key, v in how.items()}
    call = jax.ffi.ffi_call(f"ringup_{word}", jax.ShapeDtypeStruct(shape, arrays[0].dtype),
                            has_side_effect=True, vmap_method="sequential")
    return call(*arrays, name=name, first_device=numpy.int64(first),
                program=numpy.int64(program), **told)


def by_host(word, x, number, shape, name, how, _program):
    """Return a Python function that XLA calls with a copy of the array."""
    several = _is_of_several_devices()
    if "after" in how:
        how, number = {key: v for key, v in how.items() if key != "after"}, ()

    def call(x, *number):
        if several and word == "check_weights":
            return numpy.empty(shape, x.dtype)
        if several:
            raise NotImplementedError(
                f"ringup.jax: {word} inside a shard_map or pmap over several devices only works "
                "on CPUs; start one process per GPU (CUDA_VISIBLE_DEVICES), and let ringup.jax "
                "combine between the processes")
        return jax_host.collective(word, x, shape, ".".join([name, *(str(int(n)) for n in number)]),
                                   how)

    return jax.experimental.io_callback(call, jax.ShapeDtypeStruct(shape, x.dtype), x, *number)


def _is_of_several_devices():
    """Return whether the program being lowered runs once on each of several devices."""
    ask = getattr(jax.sharding, "get_abstract_mesh", None)
    mesh = ask() if ask else None
    axes = getattr(mesh, "manual_axes", None)
    if axes is None:  # an older JAX does not tell
        return len(jax.local_devices()) > 1
    return any(mesh.shape[axis] > 1 for axis in axes)


def _check_place(word, x):
    """Raise an exception for an array that is split over or copied to several devices."""
    if not isinstance(x, jax.core.Tracer) and len(x.devices()) > 1:
        raise ValueError(f"ringup.jax: the array of this {word} lies on {len(x.devices())} devices "
                         "of this process; call it inside a jax.shard_map over them, or move the "
                         "array to one of them, jax.device_put(x, jax.devices()[0])")


# Names

def _number(group):
    """Return the number of a call outside of compiled code, among those of its group."""
    numbers = job.get_running().calls.setdefault(group, itertools.cycle(range(_NAMES_OF_CALLS)))
    return numpy.uint32(next(numbers))


class _Module:
    """A program that JAX is lowering."""

    count = collections.Counter()  # modules of each name that this process has lowered

    def __init__(self, module):
        name = mlir.ir.StringAttr(module.operation.attributes["sym_name"]).value
        self.name, self.seen = name.removeprefix("jit_"), collections.Counter()
        self.number = _Module.count[name]  # tells the library modules of one name apart
        _Module.count[name] += 1
        self.calls = 0
        self.last = {}  # for each block the result of the last collective that came in order

    @classmethod
    def of(cls, ctx):
        kept = ctx.module_context.cached_primitive_lowerings
        if cls not in kept:
            kept[cls] = cls(ctx.module_context.module)
        return kept[cls]

    def comes_in_order(self, name, aval):
        """Return whether its next collective must start after the previous ordered one of the
        block."""
        self.calls += 1
        return name is None or isinstance(name, Place) and (
            self.calls <= _FEW_CALLS or aval.size * aval.dtype.itemsize <= _SMALL_BYTES)

    def place(self, name):
        """Return the name of the next collective in the program, named or unnamed."""
        before = self.seen[name]
        self.seen[name] += 1
        if name is None:
            return f"{self.name}.{before}"
        return f"{name}:{before + 1}" if before else str(name)


def _derived(name, what):
    """Return the name of a derivative of a collective."""
    return name and f"{name.removesuffix('.tangent') if what == 'gradient' else name}.{what}"


# The primitive

def collective(word, x, rows, name, **how):
    """Add a collective on an array to the program being traced, or run it immediately.  rows is the
    number of rows of the result; with None, the result has the shape of x."""
    x = jnp.asarray(x)
    _check_place(word, x)
    return _collective.bind(x, word=word, rows=rows, name=name, how=tuple(how.items()))


@functools.lru_cache(_PROGRAMS)
def _program(**how):
    """Compile a program that consists of one collective."""
    return jax.jit(lambda *x: _collective.bind(*x, **how))


def _carry_out(x, *number, word, rows, name, how):
    """Run a collective outside of compiled code.  A collective without a name gets its number when
    it runs, so one compiled program is enough for all calls."""
    if name is None:
        name, number = "eager", (_number(dict(how)["process_set_id"]),)
    with jax.disable_jit(False):
        return _program(word=word, rows=rows, name=name, how=how)(x, *number)


def _shape(x, rows):
    return x.shape if rows is None else (rows, *x.shape[1:])


def _abstract(x, *_number, rows, **_how):
    return x.update(shape=_shape(x, rows), weak_type=False), _EFFECTS


def _lowered(usual):
    def rule(ctx, *x, word, rows, name, how):
        means = usual if word in WORDS else "by_host"
        module, how = _Module.of(ctx), dict(how)
        block = mlir.ir.InsertionPoint.current.block
        in_order = False
        if len(x) == 1:
            in_order = module.comes_in_order(name, ctx.avals_in[0]) and means != "by_host"
            name = module.place(name)
        if in_order and block in module.last:
            last, aval = module.last[block]
            x, how["after"] = (*x, last), 1
            ctx = ctx.replace(avals_in=[*ctx.avals_in, aval])
        shape = _shape(ctx.avals_in[0], rows)
        results = mlir.lower_fun(lambda x, *number: globals()[means](word, x, number, shape, name,
                                                                     how, module.number),
                                 multiple_results=False)(ctx, *x)
        if in_order:
            module.last[block] = results[0], ctx.avals_out[0]
        return results

    return rule


def _differentiated(primals, tangents, **how):
    (x,), (t,) = primals, tangents
    out = _collective.bind(x, **how)
    if type(t) is ad.Zero or t.dtype == jax.dtypes.float0:
        return out, ad.Zero.from_primal_value(out)
    op = dict(how["how"]).get("reduction", SUM)
    if op not in (SUM, AVERAGE):
        return out, _refusal.bind(t, word=how["word"], rows=how["rows"], op=_NAMES[op])
    return out, _collective.bind(t, **{**how, "name": _derived(how["name"], "tangent")})


def _sum_of(word, ct, rows, name, group):
    return collective(word, ct, rows, name, reduction=SUM, process_set_id=group,
                      prescale_factor=1.0, postscale_factor=1.0)


def _transposed(ct, x, *, word, rows, name, how):
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    how = dict(how)
    group, back = how["process_set_id"], _derived(name, "gradient")
    if word in ("allreduce", "alltoall"):
        return [collective(word, ct, rows, back, **how)]
    if word == "broadcast":
        total = _sum_of("allreduce", ct, None, back, group)
        return [total if job.rank() == how["root_rank"] else jnp.zeros_like(total)]
    if word == "allgather":
        return [_sum_of("reducescatter", ct, x.aval.shape[0], back, group)]
    factor = how["prescale_factor"] * how["postscale_factor"]
    if how["reduction"] == AVERAGE:
        factor /= job.group(group).size
    return [collective("allgather", ct * jnp.asarray(factor, ct.dtype), x.aval.shape[0], back,
                       process_set_id=group)]


def _batched(args, dims, **how):
    """Batch a collective.  Rows stay the first dimension; without rows, the batch may be any."""
    x, at = args[0], dims[0]
    if dict(how["how"]).get("reduction") == ADASUM:  # which looks at whole vectors
        return jax.lax.map(lambda v: _collective.bind(v, **how), jnp.moveaxis(x, at, 0)), 0
    if how["word"] not in ("allreduce", "broadcast"):
        x, at = jnp.moveaxis(x, at, 1), 1
    return _collective.bind(x, **how), at


# The derivative of a minimum or the like is an error, but only if the program uses it.

def _refuse(op, word):
    raise NotImplementedError(f"ringup.jax: {word} with op={op} has no derivative: only sums and "
                              "averages have one; use jax.lax.stop_gradient() on the result")


def _refused_in_program(ctx, t, *, word, rows, op):
    shape = _shape(ctx.avals_in[0], rows)

    def call(t):
        return jax.pure_callback(lambda _t: _refuse(op, word),
                                 jax.ShapeDtypeStruct(shape, t.dtype), t)

    return mlir.lower_fun(call, multiple_results=False)(ctx, t)


def _refused_batch(args, dims, *, rows, **how):
    x = args[0] if rows is None else jnp.moveaxis(args[0], dims[0], 1)
    return _refusal.bind(x, rows=rows, **how), dims[0] if rows is None else 1


def _define():
    """Define the rules of the primitive for JAX."""
    # Equal calls in one program are not one call.
    apart = ({"cacheable": False}
             if "cacheable" in inspect.signature(mlir.register_lowering).parameters else {})
    _collective.def_impl(_carry_out)
    _collective.def_effectful_abstract_eval(_abstract)
    mlir.register_lowering(_collective, _lowered("by_host"), **apart)
    mlir.register_lowering(_collective, _lowered("by_cpu"), platform="cpu", **apart)
    mlir.register_lowering(_collective, _lowered("by_cuda"), platform="cuda", **apart)
    ad.primitive_jvps[_collective] = _differentiated
    ad.primitive_transposes[_collective] = _transposed
    batching.primitive_batchers[_collective] = _batched

    _refusal.def_impl(lambda _t, *, word, op, **_rest: _refuse(op, word))
    _refusal.def_abstract_eval(lambda t, *, rows, **_how: t.update(shape=_shape(t, rows)))
    mlir.register_lowering(_refusal, _refused_in_program)
    ad.primitive_jvps[_refusal] = lambda primals, _tangents, **how: (
        _refuse(how["op"], how["word"]))
    ad.primitive_transposes[_refusal] = lambda _ct, _t, *, word, op, **_rest: _refuse(op, word)
    batching.primitive_batchers[_refusal] = _refused_batch


_define()
