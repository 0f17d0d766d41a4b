# mpi_ops.py - collectives on torch tensors, named and behaving as Horovod's.
# SPDX-License-Identifier: Apache-2.0
"""A tensor in host memory that is contiguous is handed to the library as it lies.  Any other one
(on a GPU, transposed, channels_last) goes through a contiguous copy in host memory."""

import math
import warnings

import torch

from horovod.common.basics import (Adasum, Average, Max, Min, Product, Sum, ccl_built,
                                   cross_rank, cross_size, cuda_built, ddl_built, gloo_built,
                                   gloo_enabled, init, is_homogeneous, is_initialized, local_rank,
                                   local_size, mpi_built, mpi_enabled, mpi_threads_supported,
                                   nccl_built, rank, rocm_built, shutdown, size, start_timeline,
                                   stop_timeline, translated)
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import (ProcessSet, add_process_set, global_process_set,
                                         remove_process_set, require_global)
from horovod.torch.compression import Compression
from ringup import _c, job

# What the library can do arithmetic with, and the other types it need only carry.
_DTYPES = {
    torch.uint8: _c.U8, torch.int8: _c.I8, torch.int32: _c.I32, torch.int64: _c.I64,
    torch.float16: _c.F16, torch.bfloat16: _c.BF16, torch.float32: _c.F32, torch.float64: _c.F64,
}
_OPS = {Average: _c.AVERAGE, Sum: _c.SUM, Min: _c.MIN, Max: _c.MAX, Product: _c.PRODUCT}

_pending = {}  # handle: (the library's handles, function of their results)


def _submit(parts, finish):
    """A handle for operations under way; finish(results) makes what synchronize() returns."""
    handle = parts[0]
    _pending[handle] = (parts, finish)
    return handle


def poll(handle):
    """Would synchronize() return without blocking?"""
    return all(job.poll(part) for part in _pending.get(handle, ((), None))[0])


def synchronize(handle):
    """Wait for an operation and return its result; None if that was done before."""
    if handle not in _pending:
        return None
    parts, finish = _pending[handle]
    results, failed = [], None
    for part in parts:
        try:
            results.append(translated(job.wait, part))
        except (HorovodInternalError, ValueError) as e:
            failed = failed or e
    del _pending[handle]
    if failed:
        raise failed
    return finish(results)


def _direct(tensor):
    """Can the library work on the tensor's own memory?"""
    return tensor.is_cpu and tensor.is_contiguous()


def _copy(tensor):
    """A contiguous copy in host memory."""
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def _empty(tensor):
    """An uninitialised contiguous tensor of the same shape, type and device."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _named(prefix, name):
    """Each collective has names of its own, so that one parameter can go through several."""
    return None if name is None else f"{prefix}.{name}"


def _choose(op, average):
    """The reduction asked for; average= is what Horovod had before op=."""
    if average is None:
        return Average if op is None else op
    if op is not None:
        raise ValueError("give op or average, not both")
    warnings.warn("average= is deprecated: use op=hvd.Average or op=hvd.Sum", DeprecationWarning,
                  stacklevel=3)
    return Average if average else Sum


def _redop(op):
    """The library's number of a reduction."""
    if op == Adasum:
        raise NotImplementedError("Adasum is not part of ringup yet; use hvd.Average")
    if op not in _OPS:
        raise ValueError(f"{op!r} is not one of hvd.Average, Sum, Min, Max, Product")
    return _OPS[op]


def _reducible(tensor):
    """The library's number of the tensor's type."""
    if tensor.layout != torch.strided:
        raise ValueError("a sparse tensor cannot be reduced as it is: use "
                         "hvd.sparse_allreduce_async(), sparse_as_dense=True, or .to_dense()")
    if tensor.dtype not in _DTYPES:
        raise ValueError(f"tensors of {tensor.dtype} cannot be reduced; these can: "
                         + ", ".join(str(d)[6:] for d in _DTYPES))
    return _DTYPES[tensor.dtype]


def _movable(tensor):
    """(the library's number of the type, how many of it make one element)."""
    if tensor.layout != torch.strided:
        raise ValueError("a sparse tensor cannot be sent as it is: use .to_dense()")
    if tensor.dtype in _DTYPES:
        return _DTYPES[tensor.dtype], 1
    return _c.U8, tensor.element_size()


def _reduce(tensor, output, name, op, pre, post):
    """Start reducing tensor into output, which may be the same; returns the part's handle and a
    function that brings the result home."""
    dtype, redop = _reducible(tensor), _redop(op)
    if _direct(tensor) and _direct(output):
        source, target, home = tensor, output, lambda: output
    else:
        source = target = _copy(tensor)
        home = lambda: output.copy_(target)  # noqa: E731
    part = translated(job.allreduce, source.data_ptr(), target.data_ptr(), source.numel(), dtype,
                      redop, name, pre, post, keep=(source, target), shape=tensor.shape)
    return part, home


def _no_grad_finish(homes):
    """finish() for one or several results."""
    def finish(_results):
        with torch.no_grad():
            return [home() for home in homes]
    return finish


def _reduce_one(tensor, output, name, op, pre, post, process_set):
    require_global(process_set)
    part, home = _reduce(tensor, output, _named("allreduce", name), op, pre, post)
    finish = _no_grad_finish([home])
    return _submit([part], lambda results: finish(results)[0])


def _reduce_many(tensors, outputs, name, op, pre, post, process_set):
    require_global(process_set)
    if not tensors:
        raise ValueError("a group of no tensors")
    if len({t.device for t in tensors}) > 1:
        raise ValueError("the tensors of a group must be on one device")
    parts, homes = [], []
    try:
        for i, (tensor, output) in enumerate(zip(tensors, outputs)):
            own = _named("grouped_allreduce", name and f"{name}.{i}")
            part, home = _reduce(tensor, output, own, op, pre, post)
            parts.append(part)
            homes.append(home)
    finally:
        # if one could not be started, the others stay pending: their memory must stay alive
        if parts:
            handle = _submit(parts, _no_grad_finish(homes))
    return handle


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, pre, post, process_set, tensor):
        ctx.how = (op, pre, post, process_set)
        return synchronize(_reduce_one(tensor, _empty(tensor), name, op, pre, post, process_set))

    @staticmethod
    def backward(ctx, grad):
        op, pre, post, process_set = ctx.how
        _linear(op)
        return (None,) * 5 + (allreduce(grad, op=op, prescale_factor=pre, postscale_factor=post,
                                        process_set=process_set),)


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, pre, post, process_set, *tensors):
        ctx.how = (op, pre, post, process_set)
        handle = _reduce_many(tensors, [_empty(t) for t in tensors], name, op, pre, post,
                              process_set)
        return tuple(synchronize(handle))

    @staticmethod
    def backward(ctx, *grads):
        op, pre, post, process_set = ctx.how
        _linear(op)
        return (None,) * 5 + tuple(grouped_allreduce(
            list(grads), op=op, prescale_factor=pre, postscale_factor=post,
            process_set=process_set))


def _linear(op):
    """Only sums and averages have the gradient that is computed here."""
    if op not in (Average, Sum):
        raise NotImplementedError("there is no gradient of an allreduce with Min, Max or Product; "
                                  "detach the tensor first")


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None,
              prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """Combine a tensor across all ranks into a new one; differentiable."""
    op = _choose(op, average)
    small, ctx = compression.compress(tensor)
    return compression.decompress(
        _Allreduce.apply(name, op, prescale_factor, postscale_factor, process_set, small), ctx)


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0,
                    postscale_factor=1.0, process_set=global_process_set):
    """Start an allreduce into a new tensor; returns a handle for synchronize()."""
    return _reduce_one(tensor, _empty(tensor), name, _choose(op, average), prescale_factor,
                       postscale_factor, process_set)


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0,
               postscale_factor=1.0, process_set=global_process_set):
    """Combine a tensor across all ranks in place."""
    return synchronize(allreduce_async_(tensor, average, name, op, prescale_factor,
                                        postscale_factor, process_set))


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0,
                     postscale_factor=1.0, process_set=global_process_set):
    """Start an allreduce in place; returns a handle for synchronize()."""
    return _reduce_one(tensor, tensor, name, _choose(op, average), prescale_factor,
                       postscale_factor, process_set)


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None,
                      prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """Combine several tensors into new ones; returns a list; differentiable."""
    op = _choose(op, average)
    small = [compression.compress(t) for t in tensors]
    out = _GroupedAllreduce.apply(name, op, prescale_factor, postscale_factor, process_set,
                                  *[t for t, _ in small])
    return [compression.decompress(t, ctx) for t, (_, ctx) in zip(out, small)]


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                            postscale_factor=1.0, process_set=global_process_set):
    """Start grouped_allreduce(); returns a handle for synchronize()."""
    return _reduce_many(tensors, [_empty(t) for t in tensors], name, _choose(op, average),
                        prescale_factor, postscale_factor, process_set)


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                       postscale_factor=1.0, process_set=global_process_set):
    """Combine several tensors in place; returns them as a list."""
    return synchronize(grouped_allreduce_async_(tensors, average, name, op, prescale_factor,
                                                postscale_factor, process_set))


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                             postscale_factor=1.0, process_set=global_process_set):
    """Start grouped_allreduce_(); returns a handle for synchronize()."""
    return _reduce_many(tensors, tensors, name, _choose(op, average), prescale_factor,
                        postscale_factor, process_set)


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Start adding up sparse tensors; returns a function that waits and gives the result."""
    if op not in (Average, Sum):
        raise NotImplementedError("sparse tensors can be summed and averaged only")
    t = tensor.coalesce()
    indices = allgather_async(t.indices().t(), f"{name}.indices", process_set)
    values = allgather_async(t.values(), f"{name}.values", process_set)

    def finish():
        v = synchronize(values)
        if op == Average:
            v = v / size()
        return torch.sparse_coo_tensor(synchronize(indices).t(), v, t.shape)

    return finish


def _gather(tensor, name):
    """Start gathering; returns the part's handle and a function of its result."""
    if tensor.dim() == 0:
        raise ValueError("a tensor of no dimensions cannot be concatenated; reshape it to (1,)")
    dtype, per_element = _movable(tensor)
    source = tensor if _direct(tensor) else _copy(tensor)
    rest = tensor.shape[1:]
    part = translated(job.allgather, source.data_ptr(), tensor.shape[0],
                      math.prod(rest) * per_element, dtype, name, keep=source, shape=rest)

    def home(memory, rows):
        if memory is None or not len(memory):
            return torch.empty((sum(rows), *rest), dtype=tensor.dtype, device=tensor.device)
        flat = torch.frombuffer(memory, dtype=torch.uint8).view(tensor.dtype)
        return flat.view(sum(rows), *rest).to(tensor.device)

    return part, home


def allgather_async(tensor, name=None, process_set=global_process_set):
    """Start concatenating the ranks' tensors; returns a handle for synchronize()."""
    require_global(process_set)
    part, home = _gather(tensor, _named("allgather", name))
    return _submit([part], lambda results: home(*results[0]))


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    """Start concatenating several tensors; returns a handle for synchronize()."""
    require_global(process_set)
    if not tensors:
        raise ValueError("a group of no tensors")
    parts, homes = zip(*[_gather(t, _named("grouped_allgather", name and f"{name}.{i}"))
                         for i, t in enumerate(tensors)])
    return _submit(parts, lambda results: [home(*r) for home, r in zip(homes, results)])


def _own_rows(grad, rows, process_set):
    """What of a concatenation's gradient belongs to this rank, averaged as in Horovod."""
    counts = allgather(torch.tensor([rows]), process_set=process_set).tolist()
    grad = allreduce(grad, op=Average, process_set=process_set)
    return grad.narrow(0, sum(counts[:process_set.rank()]), rows)


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, tensor):
        handle = allgather_async(tensor, name, process_set)
        ctx.rows, ctx.process_set = tensor.shape[0], process_set
        return synchronize(handle)

    @staticmethod
    def backward(ctx, grad):
        return None, None, _own_rows(grad, ctx.rows, ctx.process_set)


class _GroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        handle = grouped_allgather_async(tensors, name, process_set)
        ctx.rows, ctx.process_set = [t.shape[0] for t in tensors], process_set
        return tuple(synchronize(handle))

    @staticmethod
    def backward(ctx, *grads):
        return (None, None) + tuple(_own_rows(g, n, ctx.process_set)
                                    for g, n in zip(grads, ctx.rows))


def allgather(tensor, name=None, process_set=global_process_set):
    """Concatenate the ranks' tensors along the first dimension; differentiable.

    The first dimension may differ between ranks, the others must not.
    """
    return _Allgather.apply(name, process_set, tensor)


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """allgather() of several tensors; returns a list; differentiable."""
    return list(_GroupedAllgather.apply(name, process_set, *tensors))


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """Start broadcast_(); returns a handle for synchronize()."""
    require_global(process_set)
    dtype, per_element = _movable(tensor)
    memory = tensor if _direct(tensor) else _copy(tensor)
    address = memory.data_ptr()
    part = translated(job.broadcast, address, address, memory.numel() * per_element, dtype,
                      root_rank, _named("broadcast", name), keep=memory, shape=tensor.shape)

    def finish(_results):
        with torch.no_grad():
            return tensor if memory is tensor else tensor.copy_(memory)

    return _submit([part], finish)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    """Overwrite the tensor with root's."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """Start a broadcast into a new tensor; returns a handle for synchronize()."""
    output = _empty(tensor)
    if rank() == root_rank:
        output.copy_(tensor.detach())
    return broadcast_async_(output, root_rank, name, process_set)


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, root_rank, name, process_set, tensor):
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return synchronize(broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, grad):
        grad = allreduce(grad, op=Average, process_set=ctx.process_set)
        return None, None, None, grad if rank() == ctx.root_rank else torch.zeros_like(grad)


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """Return root's tensor on every rank; differentiable."""
    return _Broadcast.apply(root_rank, name, process_set, tensor)


def barrier(process_set=global_process_set):
    """Wait until every rank is here."""
    require_global(process_set)
    translated(job.wait, translated(job.barrier))


def _missing(name):
    """A function of Horovod's that the library cannot serve yet."""
    def missing(*args, **kwargs):
        raise NotImplementedError(f"hvd.{name}() is not part of ringup yet")

    missing.__name__ = name
    missing.__doc__ = "Not part of ringup yet."
    return missing


join = _missing("join")
alltoall = _missing("alltoall")
alltoall_async = _missing("alltoall_async")
reducescatter = _missing("reducescatter")
reducescatter_async = _missing("reducescatter_async")
grouped_reducescatter = _missing("grouped_reducescatter")
grouped_reducescatter_async = _missing("grouped_reducescatter_async")
