# __init__.py - horovod.keras: `import horovod.keras as hvd`.
# SPDX-License-Identifier: Apache-2.0

import keras

from horovod import _keras as _impl
from horovod._keras import backends as _backends
from horovod._keras import interface as _interface
from horovod.common.basics import (ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
                                   gloo_built, gloo_enabled, init, is_homogeneous, is_initialized,
                                   local_rank, local_size, mpi_built, mpi_enabled,
                                   mpi_threads_supported, nccl_built, rank, rocm_built, shutdown,
                                   size, start_timeline, stop_timeline)
from horovod.common.process_sets import (ProcessSet, add_process_set, global_process_set,
                                         remove_process_set)
from horovod.common.semantics import Adasum, Average, Max, Min, Product, Sum
from horovod.keras import callbacks, elastic

Compression = _backends.of(keras).Compression
globals().update(_interface.functions(keras, Compression, __name__))


def DistributedOptimizer(optimizer, name=None, device_dense="", device_sparse="",
                         compression=Compression.none, sparse_as_dense=False,
                         gradient_predivide_factor=1.0, op=Average, num_groups=0, groups=None,
                         backward_passes_per_step=1, average_aggregated_gradients=False,
                         process_set=global_process_set, scale_local_gradients=True):
    """Return a copy of an optimizer that combines its gradients across the ranks before each step.

    The copy has the same class, so a model is saved and loaded as without it, and load_model()
    wraps the optimizer again.  With backward_passes_per_step, the gradients of this many batches
    are first added up, or averaged with average_aggregated_gradients.  groups is a number of
    groups, or lists of variables; the gradients of a group are combined together.  device_dense and
    device_sparse are accepted for compatibility."""
    return _impl.create_distributed_optimizer(
        keras, optimizer, name=name, compression=compression, sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor, op=op, num_groups=num_groups,
        groups=groups, backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients, process_set=process_set,
        scale_local_gradients=scale_local_gradients)
