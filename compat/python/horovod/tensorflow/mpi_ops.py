# mpi_ops.py - collectives on TensorFlow tensors, with Horovod's names and behaviour.
# SPDX-License-Identifier: Apache-2.0
"""Operations of libringup_tf.so run the collectives, in eager code and in graphs.  This file adds
Horovod's arguments and the gradients.

Operations of one tf.function run in the order in which they were traced, so all ranks must trace
them in the same order.  Gradients (see gradients.py) and grouped operations may come in any order.
"""

import tensorflow as tf

from horovod.common.basics import (HorovodBasics, ccl_built, cross_rank, cross_size, cuda_built,
                                   ddl_built, gloo_built, gloo_enabled, init, is_homogeneous,
                                   is_initialized, local_rank, local_size, mpi_built, mpi_enabled,
                                   mpi_threads_supported, nccl_built, rank, rocm_built, shutdown,
                                   size, start_timeline, stop_timeline)
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import (ProcessSet, add_process_set, global_process_set,
                                         number_of, remove_process_set, set_of, set_of_number)
from horovod.common.semantics import (REDUCTIONS, Adasum, Average, Max, Min, Product, Sum,
                                      check_linear, check_scatter, check_sparse, choose,
                                      reduction_of, scatter_gradient_factor)
from horovod.common.util import num_rank_is_power_2
from horovod.tensorflow import places
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.library import operations
from horovod.tensorflow.util import _executing_eagerly, is_elastic

_basics = HorovodBasics(__file__, "mpi_lib")
handle_average_backwards_compatibility = choose
check_num_rank_power_of_2 = num_rank_is_power_2

_OPS = {number: op for op, number in REDUCTIONS.items()}  # the library's numbers: Horovod's
_CAN_WAIT_LATER = hasattr(operations, "ringup_wait_later")
_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _INCLUDED = range(5)  # questions of ringup_query


def _named(kind, name):
    """Return the name by which ranks match an operation: the program's name, or one that is derived
    from the operation's position."""
    return places.of_operation(kind) if name is None else name


def _dense(tensors):
    """Return tensors for objects that can be converted: variables, numbers, arrays."""
    return [tf.convert_to_tensor(t) for t in tensors]


def is_session_graph():
    """Return whether this code builds a graph for a session, in which operations have no order."""
    graph = tf.compat.v1.get_default_graph()
    return not _executing_eagerly() and not getattr(graph, "building_function", False)


def _carry_out(at_once, start, tensors, **attributes):
    """Return the outputs of a collective.

    In eager code and in functions, where operations have an order, one operation runs the
    collective and blocks.  In the graph of a session, two operations start it and wait for it,
    because operations that block could keep others from starting."""
    if is_session_graph() and _CAN_WAIT_LATER:
        outputs, handle = start(tensors, **attributes)
        return operations.ringup_wait_later(outputs, [handle] * len(outputs))
    return at_once(tensors, **attributes)


# allreduce

_reductions = set()  # those that the program has asked for so far, by Horovod's numbers


def has_reduced():
    """Return whether this process has reduced a TensorFlow tensor, or has traced a function that
    does so."""
    return bool(_reductions)


def _reduction(op, pre, post, process_set):
    """Return the attributes of a reduction."""
    _reductions.add(op)
    if not pre or not post:
        raise ValueError("a scale factor of 0 gives zeros; multiply by 0 yourself")
    return {"reduction": reduction_of(op), "prescale_factor": pre, "postscale_factor": post,
            "process_set_id": number_of(process_set)}


def _allreduce(tensor, name=None, op=Sum, prescale_factor=1.0, postscale_factor=1.0,
               ignore_name_scope=False, process_set=global_process_set):
    """Reduce a tensor over all ranks."""
    tensor = tf.convert_to_tensor(tensor)
    return _carry_out(operations.ringup_allreduce, operations.ringup_allreduce_start, [tensor],
                      tensor_name=_named("Allreduce", name),
                      **_reduction(op, prescale_factor, postscale_factor, process_set))[0]


def _grouped_allreduce(tensors, name=None, op=Sum, prescale_factor=1.0, postscale_factor=1.0,
                       ignore_name_scope=False, process_set=global_process_set):
    """Reduce several tensors over all ranks: all of them or none."""
    tensors = _dense(tensors)
    return _carry_out(operations.ringup_allreduce, operations.ringup_allreduce_start, tensors,
                      tensor_name=_named("GroupedAllreduce", name),
                      grouped=1, **_reduction(op, prescale_factor, postscale_factor, process_set))


def allreduce_start(tensors, name, grouped, op, pre, post, process_set):
    """Start reducing one tensor, or a group of several; return (outputs, handle) for wait_all()."""
    return operations.ringup_allreduce_start(tensors, tensor_name=name, grouped=int(grouped),
                                             **_reduction(op, pre, post, process_set))


def allgather_start(tensor, name, process_set):
    """Start concatenating the ranks' tensors; return (outputs, handle) for wait_all()."""
    return operations.ringup_allgather_start([tensor], tensor_name=name,
                                             process_set_id=number_of(process_set))


def broadcast_start(tensor, root_rank, name, process_set):
    """Start a broadcast of root's tensor; return (outputs, handle) for wait_all()."""
    return operations.ringup_broadcast_start([tensor], tensor_name=name, root_rank=root_rank,
                                             process_set_id=number_of(process_set))


def wait_all(started):
    """Wait for started operations, given as pairs (outputs, handle), and return their outputs."""
    outputs = [o for outputs, _handle in started for o in outputs]
    handles = [handle for outputs, handle in started for _ in outputs]
    return operations.ringup_wait_all(outputs, handles) if outputs else []


def _set_of(op):
    """Return the process set of an operation."""
    return set_of_number(op.get_attr("process_set_id"))


def _how(op):
    """Return the reduction of an operation, as arguments of _allreduce()."""
    return {"op": _OPS[op.get_attr("reduction")],
            "prescale_factor": op.get_attr("prescale_factor"),
            "postscale_factor": op.get_attr("postscale_factor"), "process_set": _set_of(op)}


def _gradient_of_allreduce(op, grads):
    """Return the gradients of the inputs of an allreduce of one tensor or a group."""
    how = _how(op)
    check_linear(how["op"])
    return [_allreduce(g, **how) for g in grads]


@tf.RegisterGradient("RingupAllreduce")
def _allreduce_grad(op, *grads):
    return _gradient_of_allreduce(op, grads)


@tf.RegisterGradient("RingupAllreduceStart")
def _allreduce_start_grad(op, *grads):
    return _gradient_of_allreduce(op, grads[:-1])


@tf.RegisterGradient("RingupWaitLater")
@tf.RegisterGradient("RingupWaitAll")
def _wait_all_grad(op, *grads):
    return [*grads, *(None for _ in grads)]


def _reduce_slices(slices, name, op, scaled, process_set):
    """Add up IndexedSlices by concatenating the ranks' values and indices."""
    check_sparse(op)
    if scaled:
        raise NotImplementedError("prescale_factor and postscale_factor cannot be used with "
                                  "tf.IndexedSlices")
    values = allgather(slices.values, name and name + ".values", process_set=process_set)
    indices = allgather(slices.indices, name and name + ".indices", process_set=process_set)
    if op == Average:
        values = values / tf.cast(ranks_of(process_set), values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


def ranks_of(process_set):
    """Return the number of ranks in a set; if it may change, an operation that returns it."""
    return _ask(_SIZE, number_of(process_set)) if is_elastic() else process_set.size()


def allreduce(tensor, average=None, device_dense="", device_sparse="",
              compression=Compression.none, op=None, prescale_factor=1.0, postscale_factor=1.0,
              name=None, process_set=global_process_set, ignore_name_scope=False):
    """Reduce a tensor, a variable or IndexedSlices over all ranks; differentiable.

    device_dense, device_sparse and ignore_name_scope are accepted for compatibility and have no
    effect: collectives work on host memory, and names are those that the program gives."""
    op = choose(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        return _reduce_slices(tensor, name, op, prescale_factor != 1 or postscale_factor != 1,
                              process_set)
    small, ctx = compression.compress(tf.convert_to_tensor(tensor))
    return compression.decompress(_allreduce(small, name, op, prescale_factor, postscale_factor,
                                             ignore_name_scope, process_set), ctx)


def grouped_allreduce(tensors, average=None, device_dense="", device_sparse="",
                      compression=Compression.none, op=None, prescale_factor=1.0,
                      postscale_factor=1.0, process_set=global_process_set,
                      ignore_name_scope=False, name=None):
    """Reduce several tensors as allreduce() does, all of them or none; return a list."""
    if not tensors:
        return tensors
    op, out = choose(op, average), [None] * len(tensors)
    dense = [i for i, t in enumerate(tensors) if not isinstance(t, tf.IndexedSlices)]
    for i, t in enumerate(tensors):
        if isinstance(t, tf.IndexedSlices):
            out[i] = _reduce_slices(t, name and f"{name}.{i}", op,
                                    prescale_factor != 1 or postscale_factor != 1, process_set)
    if dense:
        small = [compression.compress(tf.convert_to_tensor(tensors[i])) for i in dense]
        reduced = _grouped_allreduce([t for t, _ctx in small], name, op, prescale_factor,
                                     postscale_factor, ignore_name_scope, process_set)
        for i, t, (_t, ctx) in zip(dense, reduced, small):
            out[i] = compression.decompress(t, ctx)
    return out


# allgather

def allgather(tensor, name=None, ignore_name_scope=False, process_set=global_process_set):
    """Concatenate the tensors of all ranks along the first dimension; differentiable.  Only the
    first dimension may differ between ranks."""
    tensor = tf.convert_to_tensor(tensor)
    return _carry_out(operations.ringup_allgather, operations.ringup_allgather_start, [tensor],
                      tensor_name=_named("Allgather", name),
                      process_set_id=number_of(process_set))[0]


def grouped_allgather(tensors, name=None, ignore_name_scope=False, process_set=global_process_set):
    """Gather several tensors as allgather() does, all of them or none; return a list."""
    tensors = _dense(tensors)
    return _carry_out(operations.ringup_allgather, operations.ringup_allgather_start, tensors,
                      tensor_name=_named("GroupedAllgather", name),
                      grouped=1, process_set_id=number_of(process_set))


def _own_rows(grad, tensor, process_set):
    """Return this rank's part of the gradient of an allgather, averaged as in Horovod."""
    grad = _allreduce(grad, op=Average, process_set=process_set)
    rows = allgather(tf.reshape(tf.shape(tensor)[0], [1]), process_set=process_set)
    before = tf.reduce_sum(rows[:process_set.rank()])
    return grad[before:before + tf.shape(tensor)[0]]


def _gradient_of_allgather(op, grads):
    process_set = _set_of(op)
    return [_own_rows(g, t, process_set) for g, t in zip(grads, op.inputs)]


@tf.RegisterGradient("RingupAllgather")
def _allgather_grad(op, *grads):
    return _gradient_of_allgather(op, grads)


@tf.RegisterGradient("RingupAllgatherStart")
def _allgather_start_grad(op, *grads):
    return _gradient_of_allgather(op, grads[:-1])


# broadcast

def broadcast(tensor, root_rank, name=None, ignore_name_scope=False,
              process_set=global_process_set):
    """Return root's tensor on every rank; differentiable.  The root is a rank of the job."""
    tensor = tf.convert_to_tensor(tensor)
    return _carry_out(operations.ringup_broadcast, operations.ringup_broadcast_start, [tensor],
                      tensor_name=_named("Broadcast", name), root_rank=root_rank,
                      process_set_id=number_of(process_set))[0]


def _gradient_of_broadcast(op, grad):
    grad = _allreduce(grad, op=Average, process_set=_set_of(op))
    return grad if rank() == op.get_attr("root_rank") else grad * 0


@tf.RegisterGradient("RingupBroadcast")
def _broadcast_grad(op, grad):
    return _gradient_of_broadcast(op, grad)


@tf.RegisterGradient("RingupBroadcastStart")
def _broadcast_start_grad(op, grad, _handle):
    return _gradient_of_broadcast(op, grad)


def assign_all(variables, root_rank, name=None, process_set=global_process_set):
    """Overwrite variables with root's values, concurrently; return the assignments."""
    if not variables:
        return []
    names = places.of_list(name or "variables", len(variables))
    started = [broadcast_start(tf.convert_to_tensor(v), root_rank, label, process_set)
               for v, label in zip(variables, names)]
    return [v.assign(t) for v, t in zip(variables, wait_all(started))]


def broadcast_(variables, root_rank, name=None, process_set=global_process_set):
    """Overwrite variables with root's values; return the new values."""
    with tf.control_dependencies(_operations(assign_all(variables, root_rank, name, process_set))):
        return [v.read_value() for v in variables]


def _operations(assignments):
    """Return operations that a graph can depend on; none in eager code, where all are complete."""
    return [] if _executing_eagerly() else [a for a in assignments if a is not None]


# alltoall

def alltoall(tensor, splits=None, name=None, ignore_name_scope=False,
             process_set=global_process_set):
    """Send splits[i] rows to rank i, and return the received rows; differentiable.

    Without splits each rank gets the same number.  With splits the result is a pair: the rows,
    and the number of rows received from each rank."""
    tensor = tf.convert_to_tensor(tensor)
    told = tf.constant([], tf.int32) if splits is None else tf.convert_to_tensor(splits)
    if told.dtype != tf.int32:
        if not told.dtype.is_integer:
            raise ValueError(f"alltoall: splits must be whole numbers, not {told.dtype.name}")
        told = tf.cast(told, tf.int32)
    outputs, received = operations.ringup_alltoall(
        [tensor], told, tensor_name=_named("Alltoall", name),
        process_set_id=number_of(process_set))
    return outputs[0] if splits is None else (outputs[0], received)


@tf.RegisterGradient("RingupAlltoall")
def _alltoall_grad(op, grad, _received):
    back, _counts = alltoall(grad, op.outputs[1], process_set=_set_of(op))
    unsent = tf.shape(op.inputs[0])[0] - tf.shape(back)[0]  # rows beyond the splits
    return tf.pad(back, [[0, unsent]] + [[0, 0]] * (len(back.shape) - 1)), None


# reducescatter

def _reducescatter(tensor, name=None, op=Sum, ignore_name_scope=False,
                   process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0):
    """Reduce a tensor over all ranks, and return this rank's rows."""
    check_scatter(op)
    tensor = tf.convert_to_tensor(tensor)
    return _carry_out(operations.ringup_reducescatter, operations.ringup_reducescatter_start,
                      [tensor], tensor_name=_named("Reducescatter", name),
                      **_reduction(op, prescale_factor, postscale_factor, process_set))[0]


def _grouped_reducescatter(tensors, name=None, op=Sum, ignore_name_scope=False,
                           process_set=global_process_set, prescale_factor=1.0,
                           postscale_factor=1.0):
    """Reduce several tensors over all ranks, all of them or none, and return this rank's rows of
    each."""
    check_scatter(op)
    tensors = _dense(tensors)
    return _carry_out(operations.ringup_reducescatter, operations.ringup_reducescatter_start,
                      tensors, tensor_name=_named("GroupedReducescatter", name),
                      grouped=1, **_reduction(op, prescale_factor, postscale_factor, process_set))


def reducescatter(tensor, device_dense="", compression=Compression.none, op=Average, name=None,
                  process_set=global_process_set, ignore_name_scope=False, prescale_factor=1.0,
                  postscale_factor=1.0):
    """Reduce a tensor over all ranks, and return this rank's rows; differentiable.

    If the rows do not divide evenly, the first ranks get one more."""
    small, ctx = compression.compress(tf.convert_to_tensor(tensor))
    return compression.decompress(_reducescatter(small, name, op, ignore_name_scope, process_set,
                                                 prescale_factor, postscale_factor), ctx)


def grouped_reducescatter(tensors, device_dense="", compression=Compression.none, op=Average,
                          process_set=global_process_set, prescale_factor=1.0,
                          postscale_factor=1.0):
    """Reduce several tensors as reducescatter() does, all or none of them; return a list."""
    if not tensors:
        return tensors
    small = [compression.compress(tf.convert_to_tensor(t)) for t in tensors]
    out = _grouped_reducescatter([t for t, _ctx in small], None, op, False, process_set,
                                 prescale_factor, postscale_factor)
    return [compression.decompress(t, ctx) for t, (_t, ctx) in zip(out, small)]


def _gradient_of_reducescatter(op, grads):
    how = _how(op)
    factor = scatter_gradient_factor(how["op"], how["process_set"], how["prescale_factor"],
                                     how["postscale_factor"])
    return [allgather(g * tf.cast(factor, g.dtype), process_set=how["process_set"]) for g in grads]


@tf.RegisterGradient("RingupReducescatter")
def _reducescatter_grad(op, *grads):
    return _gradient_of_reducescatter(op, grads)


@tf.RegisterGradient("RingupReducescatterStart")
def _reducescatter_start_grad(op, *grads):
    return _gradient_of_reducescatter(op, grads[:-1])


# The rest

def join():
    """Contribute zeros to the sums of the other ranks until all ranks have joined; return the
    rank that joined last."""
    return operations.ringup_join()


def barrier(process_set=global_process_set):
    """Block until all ranks have called barrier()."""
    return operations.ringup_barrier(process_set_id=number_of(process_set))


def _ask(what, number, name=None):
    """Return the value of a function for the library's group with this number."""
    return operations.ringup_query(what=what, process_set_id=number, name=name)


def _query(what, process_set_id, name):
    return _ask(what, number_of(set_of(process_set_id)) if process_set_id else 0, name)


def size_op(process_set_id=0, name=None):
    """Return the number of ranks when the graph runs, rather than when it is built."""
    return _query(_SIZE, process_set_id, name)


def rank_op(name=None):
    """Return this process's rank when the graph runs."""
    return _query(_RANK, 0, name)


def local_size_op(name=None):
    """Return the number of ranks on this host when the graph runs."""
    return _query(_LOCAL_SIZE, 0, name)


def local_rank_op(name=None):
    """Return this process's rank on its host when the graph runs."""
    return _query(_LOCAL_RANK, 0, name)


def process_set_included_op(process_set_id=0, name=None):
    """Return 1 if this process is in the set, else 0, when the graph runs."""
    return _query(_INCLUDED, process_set_id, name)


for _name in ("RingupQuery", "RingupBarrier", "RingupJoin"):
    tf.no_gradient(_name)


def _check_has_gpu():
    """Return whether a GPU is available; Horovod's helpers call this."""
    return bool(tf.config.list_physical_devices("GPU"))
