# interfaces.py - how the functions of Horovod 0.28.1 for TensorFlow and Keras can be called.
# SPDX-License-Identifier: Apache-2.0
"""A call that is right there is right here: ours may take more arguments, behind these."""

import inspect

TENSORFLOW = {
    "allreduce":
        "tensor, average=None, device_dense='', device_sparse='', "
        "compression=Compression.none, op=None, prescale_factor=1.0, "
        "postscale_factor=1.0, name=None, process_set=global_process_set, "
        "ignore_name_scope=False",
    "reducescatter":
        "tensor, device_dense='', compression=Compression.none, op=Average, "
        "name=None, process_set=global_process_set, ignore_name_scope=False, "
        "prescale_factor=1.0, postscale_factor=1.0",
    "grouped_allreduce":
        "tensors, average=None, device_dense='', device_sparse='', "
        "compression=Compression.none, op=None, prescale_factor=1.0, "
        "postscale_factor=1.0, process_set=global_process_set, "
        "ignore_name_scope=False, name=None",
    "grouped_reducescatter":
        "tensors, device_dense='', compression=Compression.none, op=Average, "
        "process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0",
    "DistributedOptimizer":
        "optimizer, name=None, use_locking=False, device_dense='', device_sparse='', "
        "compression=Compression.none, sparse_as_dense=False, "
        "backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0, "
        "average_aggregated_gradients=False, num_groups=0, groups=None, "
        "process_set=global_process_set, scale_local_gradients=True",
    "broadcast_global_variables":
        "root_rank",
    "DistributedGradientTape":
        "gradtape, device_dense='', device_sparse='', compression=Compression.none, "
        "sparse_as_dense=False, op=Average, gradient_predivide_factor=1.0, "
        "num_groups=0, groups=None, process_set=global_process_set, "
        "scale_local_gradients=True",
    "PartialDistributedGradientTape":
        "gradtape, device_dense='', device_sparse='', compression=Compression.none, "
        "sparse_as_dense=False, op=Average, gradient_predivide_factor=1.0, "
        "num_groups=0, groups=None, process_set=global_process_set, "
        "local_layers=None, scale_local_gradients=True",
    "allgather":
        "tensor, name=None, ignore_name_scope=False, process_set=global_process_set",
    "grouped_allgather":
        "tensors, name=None, ignore_name_scope=False, process_set=global_process_set",
    "broadcast":
        "tensor, root_rank, name=None, ignore_name_scope=False, "
        "process_set=global_process_set",
    "broadcast_":
        "variables, root_rank, name=None, process_set=global_process_set",
    "alltoall":
        "tensor, splits=None, name=None, ignore_name_scope=False, "
        "process_set=global_process_set",
    "join":
        "",
    "size_op":
        "process_set_id=0, name=None",
    "process_set_included_op":
        "process_set_id=0, name=None",
    "local_size_op":
        "name=None",
    "rank_op":
        "name=None",
    "local_rank_op":
        "name=None",
    "broadcast_variables":
        "variables, root_rank, process_set=global_process_set, inplace=False",
    "broadcast_object":
        "obj, root_rank=0, session=None, name=None, process_set=global_process_set",
    "broadcast_object_fn":
        "root_rank=0, session=None, name=None, process_set=global_process_set",
    "allgather_object":
        "obj, session=None, name=None, process_set=global_process_set",
}
TENSORFLOW_KERAS = {
    "DistributedOptimizer":
        "optimizer, name=None, device_dense='', device_sparse='', "
        "compression=Compression.none, sparse_as_dense=False, "
        "gradient_predivide_factor=1.0, op=Average, backward_passes_per_step=1, "
        "average_aggregated_gradients=False, num_groups=0, groups=None, "
        "process_set=global_process_set, scale_local_gradients=True",
    "broadcast_global_variables":
        "root_rank",
    "allreduce":
        "value, name=None, average=None, prescale_factor=1.0, postscale_factor=1.0, "
        "op=None, compression=Compression.none",
    "allgather":
        "value, name=None",
    "broadcast":
        "value, root_rank, name=None",
    "reducescatter":
        "value, name=None, op=Average",
    "load_model":
        "filepath, custom_optimizers=None, custom_objects=None, "
        "compression=Compression.none, legacy_opts=False",
}
KERAS = {
    "DistributedOptimizer":
        "optimizer, name=None, device_dense='', device_sparse='', "
        "compression=Compression.none, sparse_as_dense=False, "
        "gradient_predivide_factor=1.0, op=Average, num_groups=0, groups=None",
    "PartialDistributedOptimizer":
        "optimizer, name=None, device_dense='', device_sparse='', "
        "compression=Compression.none, sparse_as_dense=False, "
        "gradient_predivide_factor=1.0, op=Average, groups=None, "
        "process_set=global_process_set, local_layers=None, "
        "scale_local_gradients=True",
    "broadcast_global_variables":
        "root_rank",
    "allreduce":
        "value, name=None, average=None, prescale_factor=1.0, postscale_factor=1.0, "
        "op=None, compression=Compression.none",
    "allgather":
        "value, name=None",
    "broadcast":
        "value, root_rank, name=None",
    "reducescatter":
        "value, name=None, op=Average",
    "load_model":
        "filepath, custom_optimizers=None, custom_objects=None, "
        "compression=Compression.none, legacy_opts=False",
}


def differences(module, functions, scope):
    """Why functions of a module cannot be called as the table says."""
    out = []
    for name, text in functions.items():
        want = inspect.signature(eval(f"lambda {text}: None", scope)).parameters.values()
        mine = list(inspect.signature(getattr(module, name)).parameters.values())
        out += [f"{name}: {a} is not {b}" for a, b in zip(mine, want)
                if (a.name, a.default, a.kind) != (b.name, b.default, b.kind)]
        out += [f"{name}: {b} is missing" for b in list(want)[len(mine):]]
        out += [f"{name}: {a} is needed" for a in mine[len(want):] if a.default is a.empty]
    return out
