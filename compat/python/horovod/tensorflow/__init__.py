# __init__.py - horovod.tensorflow: `import horovod.tensorflow as hvd`.
# SPDX-License-Identifier: Apache-2.0

from horovod.common.util import gpu_available
from horovod.tensorflow import elastic
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.functions import (allgather_object, broadcast_object, broadcast_object_fn,
                                          broadcast_variables)
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.mpi_ops import (
    Adasum, Average, HorovodInternalError, Max, Min, ProcessSet, Product, Sum, _allreduce,
    _grouped_allreduce, _grouped_reducescatter, _reducescatter, add_process_set, allgather,
    allreduce, alltoall, barrier, broadcast, broadcast_, ccl_built, check_num_rank_power_of_2,
    cross_rank, cross_size, cuda_built, ddl_built, global_process_set, gloo_built, gloo_enabled,
    grouped_allgather, grouped_allreduce, grouped_reducescatter,
    handle_average_backwards_compatibility, init, is_homogeneous, is_initialized, join,
    local_rank, local_rank_op, local_size, local_size_op, mpi_built, mpi_enabled,
    mpi_threads_supported, nccl_built, process_set_included_op, rank, rank_op, reducescatter,
    remove_process_set, rocm_built, shutdown, size, size_op, start_timeline, stop_timeline)
from horovod.tensorflow.optimizer import (BroadcastGlobalVariablesHook, DistributedOptimizer,
                                          _DistributedOptimizer, _LegacyOptimizer,
                                          broadcast_global_variables)
from horovod.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape
from horovod.tensorflow.util import (_cache, _executing_eagerly, _make_subgraph, refs_to_vars,
                                     vars_to_refs)


def __getattr__(name):
    """Import Keras on first use, because importing it takes longer than importing all other
    modules."""
    if name == "SyncBatchNormalization":
        from horovod.tensorflow.sync_batch_norm import SyncBatchNormalization
        return SyncBatchNormalization
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
