# test_torch_api.py - the names of horovod.torch and horovod.common, and the arguments they take.
# SPDX-License-Identifier: Apache-2.0
#
# needs: cpu
# tests: src compat/python tests/py

import inspect

import pytest
from conftest import checks_of, outcome

# What Horovod 0.28.1 has, and how it can be called: a call that is right there is right here.
FUNCTIONS = {
    "allreduce": "tensor, average=None, name=None, compression=Compression.none, op=None, "
                 "prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set",
    "allreduce_async": "tensor, average=None, name=None, op=None, prescale_factor=1.0, "
                       "postscale_factor=1.0, process_set=global_process_set",
    "allreduce_": "tensor, average=None, name=None, op=None, prescale_factor=1.0, "
                  "postscale_factor=1.0, process_set=global_process_set",
    "allreduce_async_": "tensor, average=None, name=None, op=None, prescale_factor=1.0, "
                        "postscale_factor=1.0, process_set=global_process_set",
    "grouped_allreduce": "tensors, average=None, name=None, compression=Compression.none, "
                         "op=None, prescale_factor=1.0, postscale_factor=1.0, "
                         "process_set=global_process_set",
    "grouped_allreduce_async": "tensors, average=None, name=None, op=None, prescale_factor=1.0, "
                               "postscale_factor=1.0, process_set=global_process_set",
    "grouped_allreduce_": "tensors, average=None, name=None, op=None, prescale_factor=1.0, "
                          "postscale_factor=1.0, process_set=global_process_set",
    "grouped_allreduce_async_": "tensors, average=None, name=None, op=None, prescale_factor=1.0, "
                                "postscale_factor=1.0, process_set=global_process_set",
    "sparse_allreduce_async": "tensor, name, op, process_set=global_process_set",
    "allgather": "tensor, name=None, process_set=global_process_set",
    "allgather_async": "tensor, name=None, process_set=global_process_set",
    "grouped_allgather": "tensors, name=None, process_set=global_process_set",
    "grouped_allgather_async": "tensors, name=None, process_set=global_process_set",
    "broadcast": "tensor, root_rank, name=None, process_set=global_process_set",
    "broadcast_async": "tensor, root_rank, name=None, process_set=global_process_set",
    "broadcast_": "tensor, root_rank, name=None, process_set=global_process_set",
    "broadcast_async_": "tensor, root_rank, name=None, process_set=global_process_set",
    "alltoall": "tensor, splits=None, name=None, process_set=global_process_set",
    "alltoall_async": "tensor, splits=None, name=None, process_set=global_process_set",
    "reducescatter": "tensor, name=None, compression=Compression.none, op=Average, "
                     "process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0",
    "reducescatter_async": "tensor, name=None, op=Average, process_set=global_process_set, "
                           "prescale_factor=1.0, postscale_factor=1.0",
    "grouped_reducescatter": "tensors, name=None, compression=Compression.none, op=Average, "
                             "process_set=global_process_set, prescale_factor=1.0, "
                             "postscale_factor=1.0",
    "grouped_reducescatter_async": "tensors, name=None, op=Average, "
                                   "process_set=global_process_set, prescale_factor=1.0, "
                                   "postscale_factor=1.0",
    "poll": "handle",
    "synchronize": "handle",
    "join": "device=-1",
    "barrier": "process_set=global_process_set",
    "broadcast_parameters": "params, root_rank",
    "broadcast_optimizer_state": "optimizer, root_rank, model=None",
    "broadcast_object": "obj, root_rank=0, name=None, process_set=global_process_set",
    "allgather_object": "obj, name=None",
    "DistributedOptimizer": "optimizer, named_parameters=None, compression=Compression.none, "
                            "backward_passes_per_step=1, op=Average, "
                            "gradient_predivide_factor=1.0, num_groups=0, groups=None, "
                            "sparse_as_dense=False, process_set=global_process_set",
    "add_process_set": "process_set",
    "remove_process_set": "process_set",
    "init": "comm=None, process_sets=None",
    "shutdown": "",
    "is_initialized": "",
    "start_timeline": "file_path, mark_cycles=False",
    "stop_timeline": "",
    "size": "",
    "local_size": "",
    "cross_size": "",
    "rank": "",
    "local_rank": "",
    "cross_rank": "",
    "mpi_threads_supported": "",
    "mpi_enabled": "",
    "mpi_built": "",
    "gloo_enabled": "",
    "gloo_built": "",
    "nccl_built": "",
    "ddl_built": "",
    "ccl_built": "",
    "cuda_built": "",
    "rocm_built": "",
}
CLASSES = {
    "SyncBatchNorm": "num_features, eps=1e-05, momentum=0.1, affine=True, "
                     "track_running_stats=True",
    "ProcessSet": "ranks_or_comm",
}
# What users and Horovod's own tests take from elsewhere.
ELSEWHERE = {
    "horovod.torch.mpi_ops": "_basics HorovodInternalError synchronize poll is_homogeneous "
                             "allreduce_async_ ProcessSet global_process_set",
    "horovod.torch.functions": "broadcast_object allgather_object broadcast_parameters "
                               "broadcast_optimizer_state",
    "horovod.torch.compression": "Compression Compressor NoneCompressor FP16Compressor",
    "horovod.torch.optimizer": "DistributedOptimizer _DistributedOptimizer",
    "horovod.torch.sync_batch_norm": "SyncBatchNorm",
    "horovod.common.basics": "HorovodBasics",
    "horovod.common.process_sets": "ProcessSet global_process_set add_process_set "
                                   "remove_process_set",
    "horovod.common.exceptions": "HorovodInternalError HostsUpdatedInterrupt "
                                 "HorovodVersionMismatchError get_version_mismatch_message",
}
# As methods of mpi_ops._basics: with the arguments of the functions above.
BASICS = ("init shutdown is_initialized start_timeline stop_timeline size local_size cross_size "
          "rank local_rank cross_rank mpi_threads_supported mpi_enabled mpi_built gloo_enabled "
          "gloo_built nccl_built ddl_built ccl_built cuda_built rocm_built").split()


@pytest.fixture(scope="module")
def hvd():
    import horovod.torch
    return horovod.torch


def wanted(text, hvd):
    """The parameters of a line of the table."""
    scope = {name: getattr(hvd, name) for name in ("Compression", "Average", "global_process_set")}
    return list(inspect.signature(eval(f"lambda {text}: None", scope)).parameters.values())


def differences(found, text, hvd):
    """Why a function that was found cannot be called as the table says; more may be allowed."""
    mine, want = list(inspect.signature(found).parameters.values()), wanted(text, hvd)
    out = [f"{a} is not {b}" for a, b in zip(mine, want)
           if (a.name, a.default, a.kind) != (b.name, b.default, b.kind)]
    out += [f"{b} is missing" for b in want[len(mine):]]
    return out + [f"{a} is needed" for a in mine[len(want):] if a.default is a.empty]


def test_functions_take_what_they_take_in_horovod(hvd):
    bad = {name: differences(getattr(hvd, name), text, hvd) for name, text in FUNCTIONS.items()
           if differences(getattr(hvd, name), text, hvd)}
    assert bad == {}


def test_classes_are_made_as_in_horovod(hvd):
    for name, text in CLASSES.items():
        found = getattr(hvd, name)
        assert inspect.isclass(found) and differences(found, text, hvd) == [], name


def test_there_is_nothing_else_that_horovod_has(hvd):
    for name in ("Average", "Sum", "Adasum", "Min", "Max", "Product"):
        assert getattr(hvd, name) == getattr(hvd.mpi_ops._basics, name)
    assert [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product] == list(range(6))
    for name in ("none", "fp16"):
        assert issubclass(getattr(hvd.Compression, name), hvd.compression.Compressor)
    assert hvd._check_has_gpu() in (True, False)


def test_names_that_users_take_from_elsewhere():
    missing = [f"{module}.{name}" for module, names in ELSEWHERE.items() for name in names.split()
               if not hasattr(__import__(module, fromlist=["x"]), name)]
    assert missing == []


def test_basics_has_the_same_as_methods(hvd):
    for name in BASICS:
        method = getattr(hvd.mpi_ops._basics, name)
        assert differences(method, FUNCTIONS[name], hvd) == [], name
    assert hvd.mpi_ops._basics.gloo_built() and not hvd.mpi_ops._basics.mpi_built()


def test_exceptions(hvd):
    from horovod.common import exceptions
    e = exceptions.HorovodVersionMismatchError("torch", "2.0", "1.13")
    assert isinstance(e, ImportError) and (e.name, e.version, e.installed_version) == (
        "torch", "2.0", "1.13")
    assert str(e) == exceptions.get_version_mismatch_message("torch", "2.0", "1.13")
    assert issubclass(exceptions.HorovodInternalError, RuntimeError)
    assert exceptions.HostsUpdatedInterrupt(True).skip_sync
    assert hvd.HorovodInternalError is exceptions.HorovodInternalError


def test_without_init_everything_says_so(hvd):
    for name in ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size"):
        with pytest.raises(ValueError, match="init"):
            getattr(hvd, name)()
    assert not hvd.is_initialized()


def test_what_a_job_cannot_be_made_of(hvd):
    for comm in ([0, 2], [1], 7):
        with pytest.raises(ValueError, match="comm"):
            hvd.init(comm=comm)
    with pytest.raises(ValueError, match="dynamic"):
        hvd.init(process_sets="static")
    assert not hvd.is_initialized()


def test_what_a_process_set_can_be_made_of(hvd):
    class Comm:
        def Get_rank(self):
            return 0

    for wrong in (3, ["a"], [0.5]):
        with pytest.raises(ValueError, match="ProcessSet"):
            hvd.ProcessSet(wrong)
    assert hvd.ProcessSet(ranks_or_comm=[2, 1]).ranks == [1, 2]
    assert hvd.ProcessSet([1]).mpi_comm is None
    comm = Comm()
    later = hvd.ProcessSet(comm)
    assert later.mpi_comm is comm and later.ranks is later.included() is later.size() is None
    for too_early in (lambda: hvd.init(process_sets=[later]), lambda: hvd.init([0], [later])):
        with pytest.raises(NotImplementedError, match="together with a communicator"):
            too_early()
    assert not hvd.is_initialized()


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", checks_of("api_of_a_rank.py"))
def test_api(n, name, parent, tmp_path_factory):
    outcome("api_of_a_rank.py", n, name, parent, tmp_path_factory)
