# mpi_ops.py - collectives on torch tensors, with Horovod's names and behaviour.
# SPDX-License-Identifier: Apache-2.0
"""horovod.common runs the collectives; this file adds their gradients."""

import torch

from horovod.common.basics import (HorovodBasics, ccl_built, cross_rank, cross_size, cuda_built,
                                   ddl_built, gloo_built, gloo_enabled, init, is_homogeneous,
                                   is_initialized, local_rank, local_size, mpi_built, mpi_enabled,
                                   mpi_threads_supported, nccl_built, rank, rocm_built, shutdown,
                                   size, start_timeline, stop_timeline)
from horovod.common.collectives import Collectives, barrier
from horovod.common.collectives import join as _join
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import (ProcessSet, add_process_set, global_process_set,
                                         remove_process_set)
from horovod.common.semantics import (Adasum, Average, Max, Min, Product, Sum, check_linear,
                                      begin, check_sparse, choose, poll, scatter_gradient_factor,
                                      synchronize)
from horovod.torch.adapter import TorchAdapter
from horovod.torch.compression import Compression
from ringup import gpu

_basics = HorovodBasics(__file__, "mpi_lib_v2")
_torch = Collectives(TorchAdapter())


def _is_differentiated(tensor):
    """Return whether autograd records operations on this tensor."""
    return tensor.requires_grad and torch.is_grad_enabled()


# allreduce

class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, name, tensor):
        ctx.how = how
        return _torch.allreduce(tensor, None, name, *how)

    @staticmethod
    def backward(ctx, grad):
        check_linear(ctx.how[0])
        return None, None, allreduce(grad, None, None, Compression.none, *ctx.how)


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, name, *tensors):
        ctx.how = how
        return tuple(synchronize(_torch.grouped_allreduce_async(tensors, None, name, *how)))

    @staticmethod
    def backward(ctx, *grads):
        check_linear(ctx.how[0])
        return None, None, *grouped_allreduce(grads, None, None, Compression.none, *ctx.how)


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None,
              prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """Reduce a tensor over all ranks into a new one; differentiable."""
    op = choose(op, average)
    if compression is Compression.none and not tensor.requires_grad:
        return _torch.allreduce(tensor, None, name, op, prescale_factor, postscale_factor,
                                process_set)
    how = op, prescale_factor, postscale_factor, process_set
    small, ctx = compression.compress(tensor)
    if _is_differentiated(small):
        out = _Allreduce.apply(how, name, small)
    else:
        out = _torch.allreduce(small, None, name, *how)
    return compression.decompress(out, ctx)


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0,
                    postscale_factor=1.0, process_set=global_process_set):
    """Start an allreduce into a new tensor; return a handle for synchronize()."""
    return _torch.allreduce_async(tensor, None, name, choose(op, average), prescale_factor,
                                  postscale_factor, process_set)


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0,
               postscale_factor=1.0, process_set=global_process_set):
    """Reduce a tensor over all ranks in place."""
    return _torch.allreduce(tensor, tensor, name, choose(op, average), prescale_factor,
                            postscale_factor, process_set)


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0,
                     postscale_factor=1.0, process_set=global_process_set):
    """Start an allreduce in place; return a handle for synchronize()."""
    return _torch.allreduce_async(tensor, tensor, name, choose(op, average), prescale_factor,
                                  postscale_factor, process_set)


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None,
                      prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set):
    """Reduce several tensors into new ones; return a list; differentiable."""
    how = choose(op, average), prescale_factor, postscale_factor, process_set
    small = [compression.compress(t) for t in tensors]
    tensors = [t for t, _ in small]
    if any(map(_is_differentiated, tensors)):
        out = _GroupedAllreduce.apply(how, name, *tensors)
    else:
        out = synchronize(_torch.grouped_allreduce_async(tensors, None, name, *how))
    return [compression.decompress(t, ctx) for t, (_, ctx) in zip(out, small)]


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                            postscale_factor=1.0, process_set=global_process_set):
    """Start grouped_allreduce(); return a handle for synchronize()."""
    return _torch.grouped_allreduce_async(tensors, None, name, choose(op, average), prescale_factor,
                                          postscale_factor, process_set)


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                       postscale_factor=1.0, process_set=global_process_set):
    """Reduce several tensors in place; return them as a list."""
    return synchronize(_torch.grouped_allreduce_async(
        tensors, tensors, name, choose(op, average), prescale_factor, postscale_factor,
        process_set))


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                             postscale_factor=1.0, process_set=global_process_set):
    """Start grouped_allreduce_(); return a handle for synchronize()."""
    return _torch.grouped_allreduce_async(tensors, tensors, name, choose(op, average),
                                          prescale_factor, postscale_factor, process_set)


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Start adding up sparse tensors; return a function that waits and returns the result."""
    check_sparse(op)
    t = tensor.coalesce()
    indices = allgather_async(t.indices().t(), f"{name}.indices", process_set)
    values = allgather_async(t.values(), f"{name}.values", process_set)

    def finish():
        v = synchronize(values)
        if op == Average:
            v = v / process_set.size()
        return torch.sparse_coo_tensor(synchronize(indices).t(), v, t.shape)

    return finish


def allgather_async(tensor, name=None, process_set=global_process_set):
    """Start allgather(); return a handle for synchronize()."""
    return _torch.allgather_async(tensor, name, process_set)


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    """Start grouped_allgather(); return a handle for synchronize()."""
    return _torch.grouped_allgather_async(tensors, name, process_set)


def _own_rows(grad, rows, process_set):
    """Return this rank's part of the gradient of an allgather, averaged as in Horovod."""
    before = _torch.place_of(rows, process_set)
    grad = allreduce(grad, op=Average, process_set=process_set)
    return grad.narrow(0, before, rows)


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, tensor):
        handle = _torch.allgather_async(tensor, name, process_set)
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

    Only the first dimension may differ between ranks."""
    if _is_differentiated(tensor):
        return _Allgather.apply(name, process_set, tensor)
    return synchronize(_torch.allgather_async(tensor, name, process_set))


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """Gather several tensors as allgather() does; return a list; differentiable."""
    if any(map(_is_differentiated, tensors)):
        return list(_GroupedAllgather.apply(name, process_set, *tensors))
    return synchronize(grouped_allgather_async(tensors, name, process_set))


# broadcast

def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """Start broadcast_(); return a handle for synchronize()."""
    return _torch.broadcast_async(tensor, tensor, root_rank, name, process_set)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    """Overwrite the tensor with root's values."""
    return synchronize(_torch.broadcast_async(tensor, tensor, root_rank, name, process_set))


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """Start a broadcast into a new tensor; return a handle for synchronize()."""
    return _torch.broadcast_async(tensor, None, root_rank, name, process_set)


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


def join(device=-1):
    """Declare that this rank has no more data.  Blocks until all ranks have joined; returns the
    rank that joined last.

    Until then, this rank contributes zeros to the sums of the other ranks.  Averages are still
    divided by the number of all ranks."""
    return _join()


def wait_for_gpu():
    """Wait until the GPU has run all work that is queued; raise HorovodInternalError if the job has
    failed meanwhile.  Call it before you save a checkpoint: with RINGUP_BACKEND=nccl, the result of
    a collective is wrong if a rank died before the GPU had run it."""
    begin(gpu.wait_for_gpu)


# alltoall

def _exchange(tensor, splits, name, process_set):
    """Start an exchange.  The result is (rows, number of rows from each rank)."""
    like = splits
    if not isinstance(splits, torch.Tensor):
        like = torch.empty(0, dtype=torch.int32)
    elif splits.is_floating_point() or splits.is_complex():
        raise ValueError(f"alltoall: splits must be whole numbers, not {splits.dtype}")
    return _torch.alltoall_async(tensor, splits, name, process_set, like.new_tensor)


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """Start alltoall(). synchronize() returns the rows, and the number of rows from each rank."""
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
    """Send splits[i] rows to rank i, and return the received rows; differentiable. Without
    splits each rank gets the same number. With splits the result is a pair: the rows, and the
    number of rows received from each rank."""
    if _is_differentiated(tensor):
        output, received = _Alltoall.apply(splits, name, process_set, tensor)
    else:
        output, received = synchronize(_exchange(tensor, splits, name, process_set))
    return output if splits is None else (output, received)


# reducescatter

def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set,
                        prescale_factor=1.0, postscale_factor=1.0):
    """Start reducescatter(); return a handle for synchronize()."""
    return _torch.reducescatter_async(tensor, name, op, process_set, prescale_factor,
                                      postscale_factor)


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set,
                                prescale_factor=1.0, postscale_factor=1.0):
    """Start grouped_reducescatter(); return a handle for synchronize()."""
    return _torch.grouped_reducescatter_async(tensors, name, op, process_set, prescale_factor,
                                              postscale_factor)


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, name, tensor):
        ctx.how = how
        return synchronize(_torch.reducescatter_async(tensor, name, *how))

    @staticmethod
    def backward(ctx, grad):
        return None, None, allgather(grad * scatter_gradient_factor(*ctx.how), None, ctx.how[1])


class _GroupedReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, name, *tensors):
        ctx.how = how
        return tuple(synchronize(grouped_reducescatter_async(tensors, name, *how)))

    @staticmethod
    def backward(ctx, *grads):
        factor = scatter_gradient_factor(*ctx.how)
        grads = [grad * factor for grad in grads]
        return None, None, *grouped_allgather(grads, None, ctx.how[1])


def reducescatter(tensor, name=None, compression=Compression.none, op=Average,
                  process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0):
    """Reduce a tensor over all ranks, and return this rank's rows; differentiable. If the rows
    do not divide evenly, the first ranks get one more."""
    how = op, process_set, prescale_factor, postscale_factor
    small, ctx = compression.compress(tensor)
    if _is_differentiated(small):
        return compression.decompress(_Reducescatter.apply(how, name, small), ctx)
    return compression.decompress(synchronize(_torch.reducescatter_async(small, name, *how)), ctx)


def grouped_reducescatter(tensors, name=None, compression=Compression.none, op=Average,
                          process_set=global_process_set, prescale_factor=1.0,
                          postscale_factor=1.0):
    """Reduce several tensors as reducescatter() does; return a list; differentiable."""
    how = op, process_set, prescale_factor, postscale_factor
    small = [compression.compress(t) for t in tensors]
    tensors = [t for t, _ in small]
    if any(map(_is_differentiated, tensors)):
        out = _GroupedReducescatter.apply(how, name, *tensors)
    else:
        out = synchronize(grouped_reducescatter_async(tensors, name, *how))
    return [compression.decompress(t, ctx) for t, (_, ctx) in zip(out, small)]
