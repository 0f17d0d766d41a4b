# api_of_a_rank.py - what test_torch_api.py starts on ranks: Horovod's ways, and other frameworks.
# SPDX-License-Identifier: Apache-2.0

import os
import pickle
import sys

import numpy
import ops_of_a_rank as ops
import torch
import torch.distributed
from checks import Checks, raises
from ops_of_a_rank import equal

import horovod.torch as hvd
import ringup
from horovod.common import process_sets
from horovod.common.adapter import Adapter
from horovod.common.collectives import Collectives
from ringup import constants, memory
from ringup.meeting import Meeting

check = Checks()


# A rank that has joined

REFUSED = {
    "allgather": lambda _root: hvd.allgather(torch.ones(2), name="x"),
    "grouped_allgather": lambda _root: hvd.grouped_allgather([torch.ones(2), torch.ones(3)],
                                                             name="x"),
    "broadcast": lambda root: hvd.broadcast(torch.ones(2), root, name="x"),
    "alltoall": lambda _root: hvd.alltoall(torch.ones(hvd.size()), name="x"),
    "reducescatter": lambda _root: hvd.reducescatter(torch.ones(5), name="x"),
    "grouped_reducescatter": lambda _root: hvd.grouped_reducescatter([torch.ones(5)] * 2, name="x"),
    "sparse": lambda _root: hvd.sparse_allreduce_async(torch.eye(2).to_sparse(), "x", hvd.Sum)(),
    "an object": lambda _root: hvd.allgather_object("x"),
    "without a name": lambda _root: hvd.allgather(torch.ones(2)),
    "large": lambda _root: hvd.allgather(torch.ones(1 << 16), name="large"),
}


@check
def joined_ranks_take_part_in_sums_only():
    """And the ranks are in step after each error."""
    n, r = hvd.size(), hvd.rank()
    for early in range(n if n > 1 else 0):
        for refused in REFUSED.values():
            if r != early:
                raises(hvd.HorovodInternalError, refused, (early + 1) % n, says="RINGUP_JOIN=all")
                equal(hvd.allreduce(torch.ones(2), op=hvd.Sum, name="x"), torch.full((2,), n - 1.0))
                group = hvd.grouped_allreduce([torch.ones(1), torch.ones(2)], op=hvd.Sum)
                equal(group[1], torch.full((2,), n - 1.0))
                hvd.barrier()
            last = hvd.join()
            assert last != early
            assert hvd.allgather_object(last) == [last] * n


@check
def the_user_decides_what_joined_ranks_do():
    n, r = hvd.size(), hvd.rank()
    hvd.barrier(), hvd.shutdown()
    os.environ["RINGUP_JOIN"] = "some"
    raises(ValueError, hvd.init, says="must be sums or all")
    os.environ["RINGUP_JOIN"] = "all"
    hvd.init()
    if r or n == 1:
        assert hvd.allgather(torch.tensor([r])).tolist() == list(range(n > 1, n))
    hvd.join()
    hvd.shutdown()
    del os.environ["RINGUP_JOIN"]
    hvd.init()


# Who is in the job

class Comm:
    """What hvd.init() uses of an mpi4py communicator."""

    def __init__(self, name, ranks):
        self.ranks, self.mine = ranks, hvd.rank()
        path = os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"store.{name}.{len(ranks)}")
        store = torch.distributed.FileStore(path, len(ranks))
        meeting = Meeting(store, self.Get_rank(), len(ranks), 60)
        meeting.come()
        self.allgather_bytes = meeting.allgather

    def allgather(self, obj):
        return [pickle.loads(b) for b in self.allgather_bytes(pickle.dumps(obj))]

    def Get_rank(self):
        return self.ranks.index(self.mine)

    def Get_size(self):
        return len(self.ranks)


@check
def a_job_of_a_communicators_ranks():
    """In another order, and of some of the launcher's ranks only."""
    n, r = hvd.size(), hvd.rank()
    for name, parts in (("reversed", [list(range(n))[::-1]]),
                        ("apart", [p for p in (list(range(0, n, 2)), list(range(1, n, 2))) if p])):
        ranks = next(p for p in parts if r in p)
        comm = Comm(f"{name}.{ranks[0]}", ranks)
        hvd.barrier(), hvd.shutdown()
        hvd.init(comm)
        assert (hvd.rank(), hvd.size()) == (ranks.index(r), len(ranks))
        got = hvd.allgather(torch.tensor([r]))
        assert got.tolist() == ranks
        equal(hvd.allreduce(torch.ones(3) + r, op=hvd.Sum), torch.full((3,), 1.0 * sum(ranks)
                                                                      + len(ranks)))
        hvd.barrier(), hvd.shutdown()
        hvd.init()
        assert (hvd.rank(), hvd.size()) == (r, n)


@check
def sets_of_communicators_ranks():
    """Ranks name different ones, of which all become sets; one that is there is an error."""
    n, r = hvd.size(), hvd.rank()
    if n == 1:
        return
    world = Comm("world", list(range(n)))
    parts = list(range(0, n, 2)), list(range(1, n, 2))
    half = Comm(f"half.{r % 2}", parts[r % 2])
    hvd.barrier(), hvd.shutdown()
    for double in (hvd.ProcessSet(half), hvd.ProcessSet(world), hvd.ProcessSet(parts[r % 2])):
        sets = [hvd.ProcessSet(half), double]
        raises(ValueError, hvd.init, world, sets, says="already")
        assert hvd.is_initialized() and sets[1].process_set_id is None
    mine = hvd.ProcessSet(half)
    hvd.init(world, [mine])
    assert mine.process_set_id == 1 + r % 2 and mine.ranks == parts[r % 2]
    assert hvd.global_process_set.mpi_comm is world
    basics = hvd.mpi_ops._basics
    assert basics._comm_process_set_id(half) == 1 + r % 2
    assert basics._get_process_set_ids_and_ranks() == {0: world.ranks, 1: parts[0], 2: parts[1]}
    equal(hvd.allreduce(torch.ones(2) * r, op=hvd.Sum, process_set=mine),
          torch.full((2,), float(sum(mine.ranks))))
    raises(NotImplementedError, hvd.add_process_set, hvd.ProcessSet(half), says="communicator")
    hvd.barrier()
    assert hvd.remove_process_set(process_sets.set_of(1))
    assert sets[0].process_set_id == mine.process_set_id == (2 if r % 2 else None)
    hvd.barrier(), hvd.shutdown()
    hvd.init()


@check
def a_job_of_a_list_of_ranks():
    n, r = hvd.size(), hvd.rank()
    hvd.barrier(), hvd.shutdown()
    hvd.init(comm=list(range(n)))
    assert (hvd.rank(), hvd.size()) == (r, n)
    if n > 1:
        hvd.barrier(), hvd.shutdown()
        raises(ValueError, hvd.init, comm=list(range(n - 1)), says=f"of a job of {n} ranks")
        assert not hvd.is_initialized()
        hvd.init(comm=[], process_sets="dynamic")
        hvd.init(comm=[0])  # nothing happens in a job
        assert (hvd.rank(), hvd.size()) == (r, n)
    hvd.barrier()


@check
def process_sets_by_number():
    n, basics = hvd.size(), hvd.mpi_ops._basics
    everybody = {0: list(range(n))}
    assert basics._get_process_set_ids_and_ranks() == everybody
    assert basics._add_process_set_impl(range(n)) is None
    if n > 1:
        number = basics._add_process_set_impl([0])
        assert basics._get_process_set_ids_and_ranks() == {**everybody, number: [0]}
        assert basics._process_set_size(number) == 1
        if hvd.rank():
            raises(ValueError, basics._process_set_rank, number, says="not a member")
        else:
            assert basics._process_set_rank(number) == 0
        assert basics._remove_process_set_impl(number) == number
        assert basics._remove_process_set_impl(number) is None
        raises(ValueError, basics._process_set_size, number, says="no process set")
    assert basics._remove_process_set_impl(0) is None
    assert basics._get_process_set_ids_and_ranks() == everybody


@check
def objects():
    n, r = hvd.size(), hvd.rank()
    for root in range(n):
        for name in (None, "named"):
            obj = {"root": r, "large": bytes(1 << 18), "class": Comm}
            got = hvd.broadcast_object(obj, root, name)
            assert got["root"] == root and len(got["large"]) == 1 << 18
            assert (got is obj) == (r == root)
    assert hvd.allgather_object("x" * r, name="lengths") == ["x" * i for i in range(n)]
    raises(ValueError, hvd.broadcast_object, 1, n, says="root")
    some = hvd.add_process_set([n - 1]) if n > 1 else hvd.global_process_set
    if some.included():
        assert hvd.broadcast_object("y", n - 1, process_set=some) == "y"
        assert hvd.allgather_object(r, process_set=some) == [n - 1]
    else:
        raises(ValueError, hvd.allgather_object, r, process_set=some, says="not a member")
    hvd.barrier()
    hvd.remove_process_set(some)


# Arrays, and a framework that is not torch

@check
def arrays_and_tensors_without_a_framework():
    n, r = hvd.size(), hvd.rank()
    for make in (torch.ones, numpy.ones):
        x = make((3, 2))
        assert ringup.allreduce(x) is x and (x == n).all()
        x *= 0
        x += r
        assert ringup.broadcast(x, n - 1) is x and (x == n - 1).all()
    z = numpy.array([1j * r])
    assert ringup.broadcast(z, n - 1)[0] == 1j * (n - 1)
    raises(ValueError, ringup.allreduce, z, says="cannot be reduced")
    raises(TypeError, ringup.allreduce, [1.0], says="list")


class Arrays(Adapter):
    """numpy as a framework, in which nothing is special."""

    dtypes = {numpy.dtype(name): getattr(constants, number) for name, number in
              (("float32", "F32"), ("float64", "F64"), ("int32", "I32"), ("bool", "BOOL"))}

    def memory(self, tensor):
        own = tensor if tensor.flags.c_contiguous else tensor.copy()
        return memory.Memory(own.ctypes.data, self.dtypes.get(own.dtype), own.itemsize, own.shape,
                             own, None, own.dtype)

    def from_memory(self, memory):
        block = b"" if memory.keep is None else memory.keep
        return numpy.frombuffer(block, memory.native, memory.count).reshape(memory.shape)

    def copy_into(self, tensor, memory):
        tensor[...] = memory.keep if isinstance(memory.keep, numpy.ndarray) else \
            self.from_memory(memory)
        return tensor


@check
def collectives_of_another_framework():
    all_, everybody = Collectives(Arrays()), hvd.global_process_set
    n, r, wait = hvd.size(), hvd.rank(), hvd.synchronize
    one = 1.0, 1.0, everybody
    for dtype in Arrays.dtypes:
        x = numpy.arange(6).reshape(2, 3).astype(dtype)
        want = (x.astype(float) * n).astype(dtype)
        got = all_.allreduce(x, None, "x", hvd.Sum, *one)
        assert got is not x and (got == want).all() and got.dtype == dtype
        got = wait(all_.allreduce_async(x.T, None, "x.T", hvd.Sum, *one))
        assert (got == want.T).all()
        turned = numpy.zeros((3, 2), dtype).T
        assert all_.allreduce(x, turned, "x", hvd.Sum, *one) is turned and (turned == want).all()
        assert all_.allreduce(x, x, "x", hvd.Sum, *one) is x and (x == want).all()
    x = numpy.full((2, 2), float(r))
    total = n * (n - 1) / 2
    group = wait(all_.grouped_allreduce_async([x, x.T], None, "g", hvd.Sum, *one))
    assert all((g == total).all() for g in group) and (x == r).all()
    for dtype in ("float32", "complex64", "int8"):
        rows = numpy.full((r, 2), r).astype(dtype)
        got = wait(all_.allgather_async(rows, "rows", everybody))
        assert got.dtype == dtype and got[:, 1].tolist() == [i for i in range(n) for _ in range(i)]
        mine = numpy.full((2, 3), r).astype(dtype)
        got = wait(all_.broadcast_async(mine, None, n - 1, "b", everybody))
        assert (got == n - 1).all() and (mine == r).all()
        turned = numpy.full((3, 2), r).astype(dtype).T
        assert wait(all_.broadcast_async(turned, turned, n - 1, "b", everybody)) is turned
        assert (turned == n - 1).all()
        rows = numpy.arange(n).astype(dtype)
        got, counts = wait(all_.alltoall_async(rows, [1] * n, "a", everybody))
        assert got.tolist() == [r] * n and counts == [1] * n
    both = wait(all_.grouped_allgather_async([x[:, :1], x], "gg", everybody))
    assert [b.shape for b in both] == [(2 * n, 1), (2 * n, 2)]
    x = numpy.arange(2.0 * n + 1)
    got = wait(all_.reducescatter_async(x, "s", hvd.Average, everybody, 1.0, 1.0))
    assert got.tolist() == numpy.array_split(x, n)[r].tolist()
    got = wait(all_.grouped_reducescatter_async([x, x], "gs", hvd.Sum, everybody, 1.0, 1.0))
    assert got[1].tolist() == (n * numpy.array_split(x, n)[r]).tolist()
    assert all_.place_of(r + 1, everybody) == sum(range(r + 1))
    raises(ValueError, all_.allreduce, numpy.ones(1, complex), None, None, hvd.Sum, *one,
           says="complex128 cannot be reduced; these can: float32, float64, int32, bool")
    raises(ValueError, all_.allgather_async, numpy.ones(()), None, everybody,
           says="at least one dimension")


@check
def tensors_that_are_not_in_one_piece():
    for t in (torch.eye(4).to_sparse(), torch.eye(4).to_sparse_csr()):
        for f in (hvd.allreduce, hvd.allreduce_async_, hvd.allgather, hvd.alltoall,
                  hvd.reducescatter, lambda t: hvd.broadcast(t, 0),
                  lambda t: hvd.broadcast_(t, 0), lambda t: hvd.grouped_allreduce([t])):
            raises(ValueError, f, t, says="a sparse tensor cannot be reduced or sent")


# What a step costs

def calls_of(f):
    """The Python functions that a call goes through, once it has been made before: the fewest of
    three, since one that waits half a second for a late rank looks for Ctrl-C."""
    calls = []

    def note(frame, event, _arg):
        if event == "call":
            calls[-1].append(frame.f_code.co_name)

    for _ in range(3):
        f()
    for _ in range(3):
        calls.append([])
        sys.setprofile(note)
        try:
            f()
        finally:
            sys.setprofile(None)
    return min(calls, key=len)[1:]  # but f


@check
def what_comes_in_each_step_is_short():
    x = torch.ones(1)
    for most, f in ((8, lambda: hvd.allreduce(x, name="x")), (8, lambda: hvd.allreduce(x)),
                    (8, lambda: hvd.allreduce_(x, name="y")),
                    (14, lambda: hvd.synchronize(hvd.allreduce_async_(x, name="z")))):
        calls = calls_of(f)
        assert len(calls) <= most, calls


if __name__ == "__main__":
    ops.main(check)
