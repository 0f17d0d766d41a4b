# mpi_ops.py - collectives on torch tensors, named and behaving as Horovod's.
# SPDX-License-Identifier: Apache-2.0
"""A tensor in host memory that is contiguous is handed to the library as it lies.  Any other one
(on a GPU, transposed, channels_last) goes through a contiguous copy in host memory."""

import functools
import math
import warnings

import torch

from horovod.common.basics import (Adasum, Average, Max, Min, Product, Sum, ccl_built,
                                   cross_rank, cross_size, cuda_built, ddl_built, gloo_built,
                                   gloo_enabled, init, is_homogeneous, is_initialized, local_rank,
                                   local_size, mpi_built, mpi_enabled, mpi_threads_supported,
                                   nccl_built, rank, rocm_built, shutdown, size, start_timeline,
                                   stop_timeline)
from horovod.common.exceptions import translated
from horovod.common.process_sets import (ProcessSet, add_process_set, global_process_set, group_of,
                                         remove_process_set)
from horovod.torch.compression import Compression
from ringup import _c, operation
from ringup.errors import RingupError

# What the library can do arithmetic with; anything else it can carry as bytes.
_DTYPES = {
    torch.uint8: _c.U8, torch.int8: _c.I8, torch.int16: _c.I16, torch.int32: _c.I32,
    torch.int64: _c.I64, torch.float16: _c.F16, torch.bfloat16: _c.BF16, torch.float32: _c.F32,
    torch.float64: _c.F64, torch.bool: _c.BOOL,
}
if hasattr(torch, "uint16"):  # torch 2.3
    _DTYPES[torch.uint16] = _c.U16
_OPS = {Average: _c.AVERAGE, Sum: _c.SUM, Min: _c.MIN, Max: _c.MAX, Product: _c.PRODUCT,
        Adasum: _c.ADASUM}


def poll(handle):
    """Would synchronize() return without blocking?"""
    return not hasattr(handle, "poll") or handle.poll()


def synchronize(handle):
    """Wait for an operation and return its result; None if that was done before."""
    if not hasattr(handle, "wait"):
        return None
    try:
        return handle.wait()
    except RingupError as e:
        raise translated(e) from e


def _begin(start, *args, **kwargs):
    """Start an operation of the library's; most collectives go through here."""
    try:
        return start(*args, **kwargs)
    except RingupError as e:
        raise translated(e) from e


def _is_direct(tensor):
    """Can the library work on the tensor's own memory?"""
    return (tensor.is_cpu and tensor.is_contiguous() and not tensor.is_conj()
            and not tensor.is_neg())


def _copy(tensor):
    """A contiguous copy in host memory."""
    return tensor.detach().resolve_conj().resolve_neg().to(
        "cpu", copy=True, memory_format=torch.contiguous_format)


def _empty(tensor):
    """An uninitialised contiguous tensor of the same shape, type and device."""
    if tensor.is_contiguous():
        return torch.empty_like(tensor)
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _bring_home(keep):
    """finish() of an operation that has left its result in the second of keep, perhaps a copy of
    the last: the tensor that it is meant for."""
    _source, memory, output = keep
    if output is memory:
        return output
    with torch.no_grad():
        return output.copy_(memory)


@functools.lru_cache(1 << 14)
def _named(what, name):
    """Each collective has names of its own, so that one parameter can go through several."""
    return None if name is None else f"{what}.{name}".encode()


def _choose(op, average):
    """The reduction asked for; average= is what Horovod had before op=."""
    if average is None:
        return Average if op is None else op
    if op is not None:
        raise ValueError("give op or average, not both")
    warnings.warn("average= is deprecated: use op=hvd.Average or op=hvd.Sum", DeprecationWarning,
                  stacklevel=3)
    return Average if average else Sum


@functools.lru_cache(1 << 10)
def _kind(dtype, layout, op):
    """The library's numbers of a tensor's type and of the reduction."""
    if layout is not torch.strided:
        raise ValueError("a sparse tensor cannot be reduced as it is: use "
                         "hvd.sparse_allreduce_async(), sparse_as_dense=True, or .to_dense()")
    number, redop = _DTYPES.get(dtype), _OPS.get(op)
    if number is None:
        raise ValueError(f"tensors of {dtype} cannot be reduced; these can: "
                         + ", ".join(str(d)[6:] for d in _DTYPES))
    if redop is None:
        raise ValueError(f"{op!r} is not one of hvd.Average, Sum, Adasum, Min, Max, Product")
    return number, redop


def _movable(tensor, what):
    """(the library's number of the type, how many of it make one element)."""
    if tensor.layout is not torch.strided:
        raise ValueError("a sparse tensor cannot be sent as it is: use .to_dense()")
    if tensor.dim() == 0 and what != "broadcast":
        raise ValueError(f"{what} works on rows, and a tensor of no dimensions has none; reshape "
                         "it to (1,)")
    if tensor.dtype in _DTYPES:
        return _DTYPES[tensor.dtype], 1
    return _c.U8, tensor.element_size()


def _is_differentiated(tensor):
    """Must autograd know of what is done to it?"""
    return tensor.requires_grad and torch.is_grad_enabled()


def _linear(op):
    """Only sums and averages have the gradients that are computed here."""
    if op not in (Average, Sum):
        raise NotImplementedError("only Sum and Average have a gradient here; detach the tensor "
                                  "first")


# allreduce

@functools.lru_cache(1 << 14)
def _reduction(what, name, dtype, layout, shape, op, pre, post):
    """What the library is asked for in each step of a training."""
    return operation.Reduction(_named(what, name), shape.numel(), *_kind(dtype, layout, op), pre,
                               post, shape)


def _memory(tensor, output):
    """(where to read, where to write, where the result shall be): without output a new tensor."""
    if _is_direct(tensor):
        if output is None:
            output = torch.empty_like(tensor)
            return tensor, output, output
        if output is tensor or _is_direct(output):
            return tensor, output, output
    both = _copy(tensor)
    return both, both, _empty(tensor) if output is None else output


def _reduce(tensor, output, name, op, pre, post, process_set):
    """Start reducing tensor into output, which may be the same, or None: a new tensor."""
    try:
        r = _reduction("allreduce", name, tensor.dtype, tensor.layout, tensor.shape, op, pre, post)
        keep = _memory(tensor, output)
        return r.start(keep[0].data_ptr(), keep[1].data_ptr(), group_of(process_set), keep,
                       _bring_home)
    except RingupError as e:
        raise translated(e) from e


def _reduce_now(tensor, output, name, op, pre, post, process_set):
    """The same, and wait for it, which is cheaper than synchronize()."""
    try:
        r = _reduction("allreduce", name, tensor.dtype, tensor.layout, tensor.shape, op, pre, post)
        source, memory, output = keep = _memory(tensor, output)
        r.carry_out(source.data_ptr(), memory.data_ptr(), group_of(process_set), keep)
    except RingupError as e:
        raise translated(e) from e
    return output if output is memory else _bring_home(keep)


def _check_many(tensors):
    """Complain about what cannot be one group."""
    if not tensors:
        raise ValueError("a group of no tensors")
    if len({t.device for t in tensors}) > 1:
        raise ValueError("the tensors of a group must be on one device")


def _reduce_many(tensors, outputs, name, op, pre, post, process_set):
    """Start reducing some tensors into others, which may be the same: all of them or none."""
    _check_many(tensors)
    memory = [_memory(t, o) for t, o in zip(tensors, outputs)]
    return _begin(operation.allreduce_many,
                  [_reduction("grouped_allreduce", name, t.dtype, t.layout, t.shape, op, pre, post)
                   for t in tensors],
                  [(source.data_ptr(), target.data_ptr()) for source, target, _output in memory],
                  group_of(process_set), memory, lambda keep: [_bring_home(k) for k in keep])


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, name, tensor):
        ctx.how = how
        return _reduce_now(tensor, None, name, *how)

    @staticmethod
    def backward(ctx, grad):
        _linear(ctx.how[0])
        return None, None, allreduce(grad, None, None, Compression.none, *ctx.how)


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, name, *tensors):
        ctx.how = how
        return tuple(synchronize(_reduce_many(tensors, [None] * len(tensors), name, *how)))

    @staticmethod
    def backward(ctx, *grads):
        _linear(ctx.how[0])
        return None, None, *grouped_allreduce(grads, None, None, Compression.none, *ctx.how)


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None,
              prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """Combine a tensor across all ranks into a new one; differentiable."""
    op = _choose(op, average)
    if compression is Compression.none and not tensor.requires_grad:
        return _reduce_now(tensor, None, name, op, prescale_factor, postscale_factor, process_set)
    how = op, prescale_factor, postscale_factor, process_set
    small, ctx = compression.compress(tensor)
    if _is_differentiated(small):
        out = _Allreduce.apply(how, name, small)
    else:
        out = _reduce_now(small, None, name, *how)
    return compression.decompress(out, ctx)


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0,
                    postscale_factor=1.0, process_set=global_process_set):
    """Start an allreduce into a new tensor; returns a handle for synchronize()."""
    return _reduce(tensor, None, name, _choose(op, average), prescale_factor,
                   postscale_factor, process_set)


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0,
               postscale_factor=1.0, process_set=global_process_set):
    """Combine a tensor across all ranks in place."""
    return _reduce_now(tensor, tensor, name, _choose(op, average), prescale_factor,
                       postscale_factor, process_set)


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0,
                     postscale_factor=1.0, process_set=global_process_set):
    """Start an allreduce in place; returns a handle for synchronize()."""
    return _reduce(tensor, tensor, name, _choose(op, average), prescale_factor,
                   postscale_factor, process_set)


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None,
                      prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """Combine several tensors into new ones; returns a list; differentiable."""
    how = _choose(op, average), prescale_factor, postscale_factor, process_set
    small = [compression.compress(t) for t in tensors]
    tensors = [t for t, _ in small]
    if any(map(_is_differentiated, tensors)):
        out = _GroupedAllreduce.apply(how, name, *tensors)
    else:
        out = synchronize(_reduce_many(tensors, [None] * len(tensors), name, *how))
    return [compression.decompress(t, ctx) for t, (_, ctx) in zip(out, small)]


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                            postscale_factor=1.0, process_set=global_process_set):
    """Start grouped_allreduce(); returns a handle for synchronize()."""
    return _reduce_many(tensors, [None] * len(tensors), name, _choose(op, average),
                        prescale_factor, postscale_factor, process_set)


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                       postscale_factor=1.0, process_set=global_process_set):
    """Combine several tensors in place; returns them as a list."""
    return synchronize(_reduce_many(tensors, tensors, name, _choose(op, average), prescale_factor,
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
            v = v / process_set.size()
        return torch.sparse_coo_tensor(synchronize(indices).t(), v, t.shape)

    return finish


# Collectives whose result has a size that only the library knows

def _rows(tensor):
    """finish() for an operation whose result is rows like tensor's."""
    rest, dtype, device = tensor.shape[1:], tensor.dtype, tensor.device

    def finish(memory, rows):
        if memory is None or not len(memory):
            return torch.empty((sum(rows), *rest), dtype=dtype, device=device)
        flat = torch.frombuffer(memory, dtype=torch.uint8).view(dtype)
        return flat.view(sum(rows), *rest).to(device)

    return finish


def _block(tensor, what):
    """(the rows in memory, what the library is told of them)"""
    dtype, per_element = _movable(tensor, what)
    source, rest = tensor if _is_direct(tensor) else _copy(tensor), tensor.shape[1:]
    return source, {"source": source.data_ptr(), "rows": tensor.shape[0],
                    "row": math.prod(rest) * per_element, "dtype": dtype, "shape": rest}


def _gather(tensor, name, process_set):
    """Start concatenating the ranks' tensors."""
    source, block = _block(tensor, "allgather")
    return _begin(operation.allgather, name=_named("allgather", name), group=group_of(process_set),
                  keep=source, finish=_rows(tensor), **block)


def allgather_async(tensor, name=None, process_set=global_process_set):
    """Start concatenating the ranks' tensors; returns a handle for synchronize()."""
    return _gather(tensor, name, process_set)


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    """Start concatenating several tensors; returns a handle for synchronize()."""
    _check_many(tensors)
    sources, blocks = zip(*[_block(t, "grouped_allgather") for t in tensors])
    makers = [_rows(t) for t in tensors]
    return _begin(operation.allgather_many, blocks, _named("grouped_allgather", name),
                  group_of(process_set), sources,
                  lambda parts: [make(*part) for make, part in zip(makers, parts)])


def _own_rows(grad, rows, process_set):
    """What of a concatenation's gradient belongs to this rank, averaged as in Horovod."""
    counts = allgather(torch.tensor([rows]), process_set=process_set).tolist()
    grad = allreduce(grad, op=Average, process_set=process_set)
    return grad.narrow(0, sum(counts[:process_set.rank()]), rows)


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, tensor):
        handle = _gather(tensor, name, process_set)
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
    if _is_differentiated(tensor):
        return _Allgather.apply(name, process_set, tensor)
    return synchronize(_gather(tensor, name, process_set))


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """allgather() of several tensors; returns a list; differentiable."""
    if any(map(_is_differentiated, tensors)):
        return list(_GroupedAllgather.apply(name, process_set, *tensors))
    return synchronize(grouped_allgather_async(tensors, name, process_set))


# broadcast

def _spread(tensor, root_rank, name, process_set):
    """Start overwriting the tensor with root's."""
    dtype, per_element = _movable(tensor, "broadcast")
    group = group_of(process_set)
    if root_rank not in group.ranks:
        raise ValueError(f"broadcast: the root, rank {root_rank}, is not in {process_set}")
    memory = tensor if _is_direct(tensor) else _copy(tensor)
    address = memory.data_ptr()
    return _begin(operation.broadcast, address, address, memory.numel() * per_element, dtype,
                  group.ranks.index(root_rank), _named("broadcast", name), tensor.shape, group,
                  (memory, memory, tensor), _bring_home)


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """Start broadcast_(); returns a handle for synchronize()."""
    return _spread(tensor, root_rank, name, process_set)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    """Overwrite the tensor with root's."""
    return synchronize(_spread(tensor, root_rank, name, process_set))


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """Start a broadcast into a new tensor; returns a handle for synchronize()."""
    output = _empty(tensor)
    if rank() == root_rank:
        output.copy_(tensor.detach())
    return _spread(output, root_rank, name, process_set)


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, root_rank, name, process_set, tensor):
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return synchronize(broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, grad):
        grad = allreduce(grad, op=Average, process_set=ctx.process_set)
        if rank() != ctx.root_rank:  # zeros, but of grad: all ranks go the same way back again
            grad = grad.masked_fill(grad.new_ones((), dtype=torch.bool), 0)
        return None, None, None, grad


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """Return root's tensor on every rank; differentiable."""
    if _is_differentiated(tensor):
        return _Broadcast.apply(root_rank, name, process_set, tensor)
    return synchronize(broadcast_async(tensor, root_rank, name, process_set))


def barrier(process_set=global_process_set):
    """Wait until every rank is here."""
    synchronize(_begin(operation.barrier, None, group_of(process_set)))


def join(device=-1):
    """Say that this rank has no more data, and help the others until all have said so.

    Until then it adds zeros to their sums; averages are still divided by the number of all
    ranks.  Returns the rank that joined last.
    """
    return synchronize(_begin(operation.join))


# alltoall

def _splits(splits, tensor, group):
    """How many rows go to each rank, as a list; None if as many to each."""
    if splits is None:
        if tensor.shape[0] % group.size:
            raise ValueError(f"alltoall: {tensor.shape[0]} rows cannot be dealt out evenly to "
                             f"{group.size} ranks; say with splits= how many go to each")
        return None
    if isinstance(splits, torch.Tensor) and (splits.is_floating_point() or splits.is_complex()):
        raise ValueError(f"alltoall: splits must be whole numbers, not {splits.dtype}")
    numbers = [int(n) for n in splits]
    if len(numbers) != group.size:
        raise ValueError(f"alltoall: {len(numbers)} splits for {group.size} ranks")
    if min(numbers) < 0 or sum(numbers) > tensor.shape[0]:
        raise ValueError(f"alltoall: splits {numbers} of {tensor.shape[0]} rows")
    return numbers


def _exchange(tensor, splits, name, process_set):
    """Start an exchange; the result is (rows, how many of them are from each rank)."""
    dtype, per_element = _movable(tensor, "alltoall")
    group, rows, rest = group_of(process_set), _rows(tensor), tensor.shape[1:]
    numbers = _splits(splits, tensor, group)
    source = tensor if _is_direct(tensor) else _copy(tensor)
    like = splits if isinstance(splits, torch.Tensor) else torch.empty(0, dtype=torch.int32)

    def finish(memory, counts):
        return rows(memory, counts), like.new_tensor(counts)

    return _begin(operation.alltoall, source.data_ptr(),
                  tensor.shape[0] if numbers is None else sum(numbers),
                  math.prod(rest) * per_element, dtype, numbers, _named("alltoall", name), rest,
                  group, source, finish)


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """Start alltoall(); synchronize() gives the rows and how many of them each rank sent."""
    return _exchange(tensor, splits, name, process_set)


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx, splits, name, process_set, tensor):
        output, received = synchronize(_exchange(tensor, splits, name, process_set))
        ctx.received, ctx.process_set, ctx.rows = received, process_set, tensor.shape[0]
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, grad, _received):
        back, _counts = alltoall(grad, ctx.received, None, ctx.process_set)
        unsent = ctx.rows - back.shape[0]  # rows beyond the splits went nowhere
        if unsent:
            back = torch.cat([back, back.new_zeros((unsent, *back.shape[1:]))])
        return None, None, None, back


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Send splits[i] rows to rank i, and return the rows received; differentiable.

    Without splits each rank gets as many.  With them the result is a pair: the rows, and how
    many of them came from each rank.
    """
    if _is_differentiated(tensor):
        output, received = _Alltoall.apply(splits, name, process_set, tensor)
    else:
        output, received = synchronize(_exchange(tensor, splits, name, process_set))
    return output if splits is None else (output, received)


# reducescatter

def _part(tensor, op, process_set, pre, post):
    """(the rows in memory, where this rank's go, what the library is told of them)"""
    dtype, redop = _kind(tensor.dtype, tensor.layout, op)
    if tensor.dim() == 0:
        raise ValueError("reducescatter works on rows, and a tensor of no dimensions has none")
    if op == Adasum:
        raise NotImplementedError("there is no reducescatter with Adasum; use hvd.allreduce()")
    group, rest = group_of(process_set), tensor.shape[1:]
    source = tensor if _is_direct(tensor) else _copy(tensor)
    target = torch.empty((operation.own_rows(tensor.shape[0], group), *rest), dtype=tensor.dtype)
    return source, target, {"source": source.data_ptr(), "rows": tensor.shape[0],
                            "row": math.prod(rest), "target": target.data_ptr(), "dtype": dtype,
                            "op": redop, "pre": pre, "post": post, "shape": rest}


def _scatter(tensor, name, op, process_set, pre, post):
    """Start reducing rows, of which each rank gets a part."""
    source, target, told = _part(tensor, op, process_set, pre, post)
    return _begin(operation.reducescatter, _named("reducescatter", name), group_of(process_set),
                  source, lambda _source: target.to(tensor.device), **told)


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set,
                        prescale_factor=1.0, postscale_factor=1.0):
    """Start reducescatter(); returns a handle for synchronize()."""
    return _scatter(tensor, name, op, process_set, prescale_factor, postscale_factor)


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set,
                                prescale_factor=1.0, postscale_factor=1.0):
    """Start grouped_reducescatter(); returns a handle for synchronize()."""
    _check_many(tensors)
    sources, targets, told = zip(*[_part(t, op, process_set, prescale_factor, postscale_factor)
                                   for t in tensors])
    device = tensors[0].device
    return _begin(operation.reducescatter_many, told, _named("grouped_reducescatter", name),
                  group_of(process_set), sources,
                  lambda _sources: [target.to(device) for target in targets])


def _scatter_backward(how, grad):
    """The gradient of a reducescatter, scaled as Horovod does."""
    op, process_set, pre, post = how
    _linear(op)
    return grad * (pre * post * (process_set.size() if op == Sum else 1))


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, name, tensor):
        ctx.how = how
        return synchronize(_scatter(tensor, name, *how))

    @staticmethod
    def backward(ctx, grad):
        grad = _scatter_backward(ctx.how, grad)
        return None, None, allgather(grad, None, ctx.how[1])


class _GroupedReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, name, *tensors):
        ctx.how = how
        return tuple(synchronize(grouped_reducescatter_async(tensors, name, *how)))

    @staticmethod
    def backward(ctx, *grads):
        grads = [_scatter_backward(ctx.how, g) for g in grads]
        return None, None, *grouped_allgather(grads, None, ctx.how[1])


def reducescatter(tensor, name=None, compression=Compression.none, op=Average,
                  process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0):
    """Combine a tensor across all ranks, and return this rank's rows of it; differentiable.

    Every rank gets as many rows; where that does not work out the first ranks get one more.
    """
    how = op, process_set, prescale_factor, postscale_factor
    small, ctx = compression.compress(tensor)
    if _is_differentiated(small):
        return compression.decompress(_Reducescatter.apply(how, name, small), ctx)
    return compression.decompress(synchronize(_scatter(small, name, *how)), ctx)


def grouped_reducescatter(tensors, name=None, compression=Compression.none, op=Average,
                          process_set=global_process_set, prescale_factor=1.0,
                          postscale_factor=1.0):
    """reducescatter() of several tensors; returns a list; differentiable."""
    how = op, process_set, prescale_factor, postscale_factor
    small = [compression.compress(t) for t in tensors]
    tensors = [t for t, _ in small]
    if any(map(_is_differentiated, tensors)):
        out = _GroupedReducescatter.apply(how, name, *tensors)
    else:
        out = synchronize(grouped_reducescatter_async(tensors, name, *how))
    return [compression.decompress(t, ctx) for t, (_, ctx) in zip(out, small)]
