# __init__.py - horovod.keras: `import horovod.keras as hvd`.
# SPDX-License-Identifier: Apache-2.0

import keras

from horovod import _keras as _impl
from horovod._keras import backends as _backends
from horovod.common.basics import (ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
                                   gloo_built, gloo_enabled, init, is_homogeneous, is_initialized,
                                   local_rank, local_size, mpi_built, mpi_enabled,
                                   mpi_threads_supported, nccl_built, rank, rocm_built, shutdown,
                                   size, start_timeline, stop_timeline)
from horovod.common.process_sets import (ProcessSet, add_process_set, global_process_set,
                                         remove_process_set)
from horovod.common.semantics import Adasum, Average, Max, Min, Product, Sum
from horovod.keras import callbacks, elastic

_backend = _backends.of(keras)
Compression = _backend.Compression


def DistributedOptimizer(optimizer, name=None, device_dense="", device_sparse="",
                         compression=Compression.none, sparse_as_dense=False,
                         gradient_predivide_factor=1.0, op=Average, num_groups=0, groups=None,
                         backward_passes_per_step=1, average_aggregated_gradients=False,
                         process_set=global_process_set, scale_local_gradients=True):
    """An optimizer like this one, whose gradients are combined across the ranks before each step.

    It is of the same class, so a model is saved and loaded as without it; load_model() wraps it
    again.  With backward_passes_per_step gradients of so many batches are added up first, or
    averaged with average_aggregated_gradients.  groups is a number of groups, or lists of
    variables, whose gradients are combined at a time.  device_dense and device_sparse are taken
    for compatibility.
    """
    return _impl.create_distributed_optimizer(
        keras, optimizer, name=name, compression=compression, sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor, op=op, num_groups=num_groups,
        groups=groups, backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients, process_set=process_set,
        scale_local_gradients=scale_local_gradients)


def PartialDistributedOptimizer(optimizer, name=None, device_dense="", device_sparse="",
                                compression=Compression.none, sparse_as_dense=False,
                                gradient_predivide_factor=1.0, op=Average, groups=None,
                                process_set=global_process_set, local_layers=None,
                                scale_local_gradients=True, num_groups=0,
                                backward_passes_per_step=1, average_aggregated_gradients=False):
    """DistributedOptimizer() but for the weights of local_layers, whose gradients stay this rank's
    own."""
    if local_layers is None:
        local_layers = []
    elif isinstance(local_layers, keras.layers.Layer):
        local_layers = [local_layers]
    elif not all(isinstance(layer, keras.layers.Layer) for layer in local_layers):
        raise ValueError("All local layers must be of tf.keras.layers.Layer type.")
    wrapped = _impl.create_distributed_optimizer(
        keras, optimizer, name=name, compression=compression, sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor, op=op, num_groups=num_groups,
        groups=groups, backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients, process_set=process_set,
        scale_local_gradients=scale_local_gradients)
    for layer in local_layers:
        for variable in layer.trainable_weights:
            wrapped.register_local_var(variable)
    return wrapped


def allreduce(value, name=None, average=None, prescale_factor=1.0, postscale_factor=1.0, op=None,
              compression=Compression.none):
    """Combine a number, an array or a tensor across all ranks.

    This function and those below return a tensor on TensorFlow and an array on other back ends.
    """
    return _impl.allreduce(keras, value, name, average, prescale_factor, postscale_factor, op)


def allgather(value, name=None):
    """Concatenate the ranks' values along the first dimension."""
    return _impl.allgather(keras, value, name)


def broadcast(value, root_rank, name=None):
    """Return root's value on every rank."""
    return _impl.broadcast(keras, value, root_rank, name)


def reducescatter(value, name=None, op=Average):
    """Combine a value across all ranks, and return this rank's rows."""
    return _impl.reducescatter(keras, value, name, op)


def broadcast_global_variables(root_rank):
    """Overwrite all variables of a graph of TensorFlow 1 with root's."""
    return _impl.broadcast_global_variables(root_rank)


def load_model(filepath, custom_optimizers=None, custom_objects=None,
               compression=Compression.none, legacy_opts=False):
    """Load a saved model whose optimizer combines gradients from now on; its state is kept.

    custom_optimizers and custom_objects are classes that Keras does not know itself.
    """
    return _impl.load_model(keras, filepath, custom_optimizers, custom_objects, compression)
