# process_group_of_a_rank.py - what test_process_group.py starts on every rank: check after check.
# SPDX-License-Identifier: Apache-2.0
"""Each check knows all ranks' inputs, and so what must come out.  The ranks meet in a FileStore, as
a process group of torch.distributed whose back end is "ringup"."""

import datetime
import gc
import os
import warnings
import weakref

import torch
import torch.distributed as dist
from checks import Checks, end, raises

import ringup_torch

MINUTE = datetime.timedelta(seconds=60)
DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
          torch.bfloat16, torch.float32, torch.float64]
SHAPES = [(), (1,), (5,), (17, 3), (0,), (1000, 33)]
check = Checks()
_store = None


def me():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def inputs(shape, dtype, low=0, high=6):
    """Every rank's tensor; small whole numbers, so that sums are exact in every type."""
    out = []
    for r in range(size()):
        g = torch.Generator().manual_seed(100 + r)
        out.append(torch.randint(low, high, shape, generator=g).to(dtype))
    return out


def equal(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape, (got, want)
    assert torch.equal(got, want), f"{got} is not {want}"


def world():
    return dist.group.WORLD


def begin(timeout=MINUTE):
    """Create the default process group, each time in the same store.  Its ranks may be slow to
    come, whatever its time-out is."""
    global _store
    n = int(os.environ["RINGUP_SIZE"])
    if not _store:
        _store = dist.FileStore(os.path.join(os.environ["RINGUP_TEST_RESULTS"], "store"), n)
    elif torch.__version__ < "2":  # its own barrier fails at keys that are there already
        _store = dist.PrefixStore("again", _store)
    dist.init_process_group("ringup", store=_store, rank=int(os.environ["RINGUP_RANK"]),
                            world_size=n, timeout=max(timeout, MINUTE))
    dist.group.WORLD.set_timeout(timeout)


# ---- the group itself ----

@check
def the_group_knows_its_place():
    group = world()
    assert dist.get_backend() == "ringup" and group.name() == "ringup"
    assert (group.rank(), group.size()) == (me(), size()) == (group.getRank(), group.getSize())
    assert isinstance(group.group_name, str)  # old releases have no name for the world
    assert group.communicator.world.size == size()
    assert group.communicator.local_size == size(), "all ranks are on this host"


# ---- collectives ----

@check
def sums_of_every_type_and_shape():
    for dtype in DTYPES:
        for shape in SHAPES:
            all_ = inputs(shape, dtype)
            wide = torch.stack(all_).to(torch.float64)
            mine = all_[me()].clone()
            assert dist.all_reduce(mine) is None
            equal(mine, wide.sum(0).to(dtype))
            if shape != (0,):
                for op, want in ((dist.ReduceOp.MIN, wide.min(0).values),
                                 (dist.ReduceOp.MAX, wide.max(0).values)):
                    mine = all_[me()].clone()
                    work = dist.all_reduce(mine, op=op, async_op=True)
                    assert work.wait() is True and work.is_completed() and work.is_success()
                    equal(mine, want.to(dtype))
                    equal(work.result()[0], mine)


def bits_to_one_rank_and_in_parts(op, want):
    """want is what comes of the inputs of all ranks."""
    n, r = size(), me()
    mine = inputs((3, 5), torch.int32, 0, 1000)[r]
    for given in (mine.clone(), mine.t().contiguous().t()):
        dist.reduce(given, n - 1, op=op)
        equal(given, want if r == n - 1 else mine)
    part = torch.empty((5, 3), dtype=torch.int32).t()  # not contiguous
    dist.reduce_scatter(part, [mine] * n, op=op)
    equal(part, want)
    flat, wanted = mine.reshape(-1), want.reshape(-1)
    cuts = [0, *range(1, n), 15]  # sizes differ between ranks
    part = torch.empty(cuts[r + 1] - cuts[r], dtype=torch.int32)
    dist.reduce_scatter(part, [flat[a:b] for a, b in zip(cuts, cuts[1:])], op=op)
    equal(part, wanted[cuts[r]:cuts[r + 1]])
    if hasattr(dist, "reduce_scatter_tensor"):
        part = torch.empty(15, dtype=torch.int32)
        dist.reduce_scatter_tensor(part, flat.repeat(n), op=op, async_op=True).wait()
        equal(part, wanted)
        raises(ValueError, dist.reduce_scatter_tensor, part, flat.repeat(n + 1), op=op,
               says="cannot be split")


@check
def other_reductions():
    n, r = size(), me()
    t = torch.full((7,), float(r + 1))
    dist.all_reduce(t, op=dist.ReduceOp.AVG)
    equal(t, torch.full((7,), (n + 1) / 2))
    t = torch.full((7,), 2, dtype=torch.int32)
    dist.all_reduce(t, op=dist.ReduceOp.PRODUCT)
    equal(t, torch.full((7,), 2 ** n, dtype=torch.int32))
    for op, f in ((dist.ReduceOp.BAND, torch.bitwise_and), (dist.ReduceOp.BOR, torch.bitwise_or),
                  (dist.ReduceOp.BXOR, torch.bitwise_xor)):
        all_ = inputs((3, 5), torch.int32, 0, 1000)
        want = all_[0]
        for other in all_[1:]:
            want = f(want, other)
        dist.all_reduce(all_[r], op=op)
        equal(all_[r], want)
        bits_to_one_rank_and_in_parts(op, want)
    raises(ValueError, dist.all_reduce, torch.ones(2), op=dist.ReduceOp.BAND, says="BAND")
    raises(ValueError, dist.reduce, torch.ones(2), 0, op=dist.ReduceOp.BXOR, says="BXOR")
    raises(ValueError, dist.reduce_scatter, torch.ones(2), [torch.ones(2)] * n,
           op=dist.ReduceOp.BOR, says="BOR")
    truth = torch.tensor([r == 0, True, False])
    for op, want in ((dist.ReduceOp.BOR, [True, True, False]),
                     (dist.ReduceOp.BAND, [n == 1, True, False]),
                     (dist.ReduceOp.SUM, [True, True, False])):
        t = truth.clone()
        dist.all_reduce(t, op=op)
        equal(t, torch.tensor(want))
    t = torch.full((3,), 1.0)
    half = dist._make_nccl_premul_sum(0.5)
    if half.__getstate__() is None:  # torch 1.13
        raises(ValueError, dist.all_reduce, t, op=half, says="does not expose the factor")
        return
    dist.all_reduce(t, op=half)
    equal(t, torch.full((3,), n / 2))


@check
def complex_tensors():
    n, r = size(), me()
    z = torch.tensor([complex(r, 1), complex(2, r)])
    dist.all_reduce(z)
    equal(z, torch.tensor([complex(n * (n - 1) // 2, n), complex(2 * n, n * (n - 1) // 2)]))
    z = torch.tensor([complex(r, 1)], dtype=torch.complex128)
    world().allreduce([z], dist.ReduceOp.SUM).wait()  # as C++ code passes it
    equal(z, torch.tensor([complex(n * (n - 1) // 2, n)], dtype=torch.complex128))
    outs = [torch.zeros(1, dtype=torch.complex64) for _ in range(n)]
    dist.all_gather(outs, torch.tensor([complex(r, -r)]))
    equal(torch.cat(outs), torch.tensor([complex(i, -i) for i in range(n)]))


@check
def tensors_that_are_not_contiguous():
    n, r = size(), me()
    base = torch.zeros(4, 6)
    view = base[:, ::2]
    view.fill_(float(r))
    dist.all_reduce(view)
    equal(base[:, 0], torch.full((4,), n * (n - 1) / 2))
    equal(base[:, 1], torch.zeros(4))
    wide = torch.full((2, 3, 4, 5), float(r)).to(memory_format=torch.channels_last)
    dist.broadcast(wide, n - 1)
    assert (wide == n - 1).all() and wide.is_contiguous(memory_format=torch.channels_last)
    outs = [torch.zeros(3, 2).t() for _ in range(n)]
    dist.all_gather(outs, torch.full((3, 2), float(r)).t())
    for i, out in enumerate(outs):
        equal(out, torch.full((2, 3), float(i)))
    out = torch.zeros(6)[::2]
    dist.reduce_scatter_tensor(out, torch.arange(3.0 * n))
    equal(out, torch.arange(3.0 * r, 3.0 * r + 3) * n)


@check
def broadcasts():
    for root in range(size()):
        for dtype in DTYPES + [torch.bool, torch.complex64]:
            all_ = inputs((9, 4), dtype)
            t = all_[me()].clone()
            dist.broadcast(t, root)
            equal(t, all_[root])


@check
def reductions_to_one_rank():
    n, r = size(), me()
    for root in range(n):
        t = torch.full((5,), float(r + 1))
        dist.reduce(t, root)
        equal(t, torch.full((5,), n * (n + 1) / 2 if r == root else float(r + 1)))


@check
def gathers_and_scatters():
    n, r = size(), me()
    for root in range(n):
        outs = [torch.zeros(3, dtype=torch.int64) for _ in range(n)] if r == root else None
        dist.gather(torch.full((3,), r), outs, dst=root)
        if r == root:
            equal(torch.stack(outs), torch.arange(n).repeat_interleave(3).view(n, 3))
        got = torch.zeros(2)
        given = [torch.full((2,), float(10 * root + i)) for i in range(n)] if r == root else None
        dist.scatter(got, given, src=root)
        equal(got, torch.full((2,), float(10 * root + r)))


@check
def gathers_to_all():
    n, r = size(), me()
    for dtype in DTYPES + [torch.bool]:
        all_ = inputs((3, 4), dtype)
        outs = [torch.empty(3, 4, dtype=dtype) for _ in range(n)]
        dist.all_gather(outs, all_[r])
        equal(torch.stack(outs), torch.stack(all_))
        flat = torch.empty(3 * n, 4, dtype=dtype)
        dist.all_gather_into_tensor(flat, all_[r])
        equal(flat, torch.cat(all_))
    views = list(torch.zeros(n, 7).unbind())  # lie one after the other
    dist.all_gather(views, torch.full((7,), float(r)))
    equal(torch.stack(views), torch.arange(float(n)).repeat_interleave(7).view(n, 7))
    uneven = [torch.empty(i + 1, 2) for i in range(n)]
    dist.all_gather(uneven, torch.full((r + 1, 2), float(r)))
    for i, out in enumerate(uneven):
        equal(out, torch.full((i + 1, 2), float(i)))
    raises(ValueError, dist.all_gather, [torch.empty(2)] * (n + 1), torch.zeros(2), says="ranks")


@check
def scattered_reductions():
    n, r = size(), me()
    out = torch.empty(4, dtype=torch.int32)
    dist.reduce_scatter_tensor(out, torch.arange(4 * n, dtype=torch.int32) + r)
    equal(out, (torch.arange(4 * r, 4 * r + 4) * n + n * (n - 1) // 2).to(torch.int32))
    out = torch.empty(2, 3)
    dist.reduce_scatter(out, [torch.full((2, 3), float(r + i)) for i in range(n)],
                        op=dist.ReduceOp.AVG)
    equal(out, torch.full((2, 3), r + (n - 1) / 2))
    out = torch.empty(r + 1)
    dist.reduce_scatter(out, [torch.full((i + 1,), float(r)) for i in range(n)])
    equal(out, torch.full((r + 1,), n * (n - 1) / 2))


@check
def exchanges():
    n, r = size(), me()
    out = torch.empty(2 * n, dtype=torch.int64)
    dist.all_to_all_single(out, torch.arange(2 * n) + 100 * r)
    equal(out, torch.cat([torch.tensor([2 * r, 2 * r + 1]) + 100 * i for i in range(n)]))
    given = torch.cat([torch.full((i + 1, 2), float(r)) for i in range(n)])
    got = torch.empty(n * (r + 1), 2)
    dist.all_to_all_single(got, given, [r + 1] * n, [i + 1 for i in range(n)])
    equal(got, torch.arange(float(n)).repeat_interleave(2 * (r + 1)).view(-1, 2))
    outs = [torch.empty(i + 1) for i in range(n)]
    dist.all_to_all(outs, [torch.full((r + 1,), float(r)) for _ in range(n)])
    for i, out in enumerate(outs):
        equal(out, torch.full((i + 1,), float(i)))
    if n > 1:
        e = raises(RuntimeError, dist.all_to_all_single, torch.empty(n + 1),
                   torch.empty(n), [1] * (n - 1) + [2], [1] * n, says="instead of 2")
        assert type(e).__name__ == "Mismatch"
    t = torch.ones(1)
    dist.all_reduce(t)  # and it goes on
    equal(t, torch.tensor([float(n)]))


@check
def objects():
    n, r = size(), me()
    got = [None] * n
    dist.all_gather_object(got, {"rank": r, "text": "x" * r * 1000})
    assert got == [{"rank": i, "text": "x" * i * 1000} for i in range(n)]
    values = [["a", 1], None] if r == 0 else [None, None]
    dist.broadcast_object_list(values, 0)
    assert values == [["a", 1], None]
    got = [None] * n if r == n - 1 else None
    dist.gather_object(r, got, dst=n - 1)
    assert got is None or got == list(range(n))
    out = [None]
    dist.scatter_object_list(out, [f"for {i}" for i in range(n)] if r == 0 else None, src=0)
    assert out == [f"for {r}"]


@check
def coalesced_forms():
    n, r = size(), me()
    ts = [torch.full((i + 1,), float(r)) for i in range(4)]
    dist.all_reduce_coalesced(ts)
    for i, t in enumerate(ts):
        equal(t, torch.full((i + 1,), n * (n - 1) / 2))
    outs = [[torch.empty(i + 1) for i in range(2)] for _ in range(n)]
    dist.all_gather_coalesced(outs, [torch.full((i + 1,), float(r)) for i in range(2)])
    for of, out in enumerate(outs):
        for i in range(2):
            equal(out[i], torch.full((i + 1,), float(of)))
    if not hasattr(dist, "_coalescing_manager"):  # torch before 2.0
        return
    ts = [torch.full((i + 1,), float(r)) for i in range(4)]
    with dist._coalescing_manager():
        for t in ts:
            dist.all_reduce(t)
    for i, t in enumerate(ts):
        equal(t, torch.full((i + 1,), n * (n - 1) / 2))
    outs = [torch.empty(n * (i + 1)) for i in range(3)]
    with dist._coalescing_manager(async_ops=True) as cm:
        for i, out in enumerate(outs):
            dist.all_gather_into_tensor(out, torch.full((i + 1,), float(r)))
    cm.wait()
    for i, out in enumerate(outs):
        equal(out, torch.arange(float(n)).repeat_interleave(i + 1))
    outs = [torch.empty(i + 1) for i in range(3)]
    with dist._coalescing_manager():
        for i, out in enumerate(outs):
            dist.reduce_scatter_tensor(out, torch.ones(n * (i + 1)))
    for i, out in enumerate(outs):
        equal(out, torch.full((i + 1,), float(n)))


@check
def sparse_sums():
    n, r = size(), me()
    t = torch.sparse_coo_tensor([[0, r + 1]], [1.0, 2.0], (n + 2,))
    dist.all_reduce(t)
    want = torch.zeros(n + 2)
    want[0] = n
    want[1:n + 1] = 2
    equal(t.to_dense(), want)


@check
def barriers():
    for _ in range(3):
        dist.barrier()
        dist.barrier(async_op=True).wait()


@check
def works_in_any_number_and_nobody_waits():
    n = size()
    ts = [torch.full((64,), float(i)) for i in range(1500)]  # more than the library has room for
    for t in ts:
        dist.all_reduce(t, async_op=True)
    while True:  # until it hangs; each operation lets go of those that are over
        dist.all_reduce(torch.ones(1), async_op=True).wait()
        dist.barrier()
        more = torch.tensor([len(world()._pending)])
        dist.all_reduce(more, op=dist.ReduceOp.MAX)
        if more <= 1:
            break
    for i, t in enumerate(ts):
        equal(t, torch.full((64,), float(i * n)))


@check
def works_outlive_their_last_reference_and_large_tensors_do_not():
    """torch's C++ code may hold a Work that no Python code refers to any more."""
    works = [weakref.ref(dist.all_reduce(torch.ones(1), async_op=True)) for _ in range(50)]
    t = torch.ones(1 << 16)
    tensor, work = weakref.ref(t), dist.all_reduce(t, async_op=True)
    work.wait()
    assert work.result()[0] is t
    del t
    gc.collect()
    assert all(ref() for ref in works)
    assert tensor() is None and work.result() == []
    dist.barrier()


# ---- messages ----

@check
def messages_of_every_type():
    n, r = size(), me()
    if n == 1:
        return
    to, source = (r + 1) % n, (r - 1) % n
    for dtype in DTYPES + [torch.bool, torch.complex64]:
        all_ = inputs((5, 3), dtype)
        got = torch.empty(5, 3, dtype=dtype)
        work = dist.isend(all_[r], to)
        assert dist.recv(got, source) == source
        work.wait()
        equal(got, all_[source])
    got = torch.zeros(4, 6)
    work = dist.isend(torch.full((6, 4), float(r)).t(), to)
    dist.recv(got, source)
    work.wait()
    equal(got, torch.full((4, 6), float(source)))


@check
def a_ring_in_which_all_send_first():
    """Each rank sends before it receives, more than fits anywhere."""
    n, r = size(), me()
    for count in (1, 100000, 1 << 20):
        got = torch.empty(count)
        ops = [dist.P2POp(dist.isend, torch.full((count,), float(r)), (r + 1) % n),
               dist.P2POp(dist.irecv, got, (r - 1) % n)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        equal(got, torch.full((count,), float((r - 1) % n)))


@check
def tags_and_any_source():
    n, r = size(), me()
    if r == 0:
        parts = [torch.empty(2) for _ in range(2)]
        works = [dist.irecv(parts[t], 1, tag=7 + t) for t in range(2)]
        works[1].wait(), works[0].wait()
        equal(torch.stack(parts), torch.tensor([[7.0, 7.0], [8.0, 8.0]]))
        seen = set()
        for _ in range(n - 1):
            t = torch.empty(1, dtype=torch.int64)
            source = dist.recv(t)
            assert t.item() == source
            seen.add(source)
        assert seen == set(range(1, n))
    else:
        if r == 1:
            for t in (1, 0):
                dist.isend(torch.full((2,), 7.0 + t), 0, tag=7 + t).wait()
        dist.send(torch.tensor([r]), 0)


@check
def messages_beside_collectives():
    """A message that nobody has received yet keeps no collective waiting, and the reverse."""
    n, r = size(), me()
    got = torch.empty(3)
    work = dist.irecv(got, (r - 1) % n)
    t = torch.ones(1)
    dist.all_reduce(t)
    equal(t, torch.tensor([float(n)]))
    later = dist.all_reduce(t, async_op=True)
    sent = dist.isend(torch.full((3,), float(r)), (r + 1) % n)
    work.wait(), sent.wait(), later.wait()
    equal(got, torch.full((3,), float((r - 1) % n)))


@check
def objects_from_rank_to_rank():
    if not hasattr(dist, "send_object_list"):  # torch before 2.4
        return
    n, r = size(), me()
    if r == 0:
        for to in range(1, n):
            dist.send_object_list([{"to": to}, "x" * 100000], dst=to)
    else:
        got = [None, None]
        assert dist.recv_object_list(got, src=0) == 0
        assert got == [{"to": r}, "x" * 100000]


@check
def messages_of_other_sizes():
    if me() == 0:
        dist.isend(torch.ones(2), 1)
    elif me() == 1:
        e = raises(RuntimeError, dist.recv, torch.empty(3), 0)
        assert type(e).__name__ == "Mismatch" and "2" in str(e) and "3" in str(e), e


# ---- futures ----

@check
def futures():
    n, r = size(), me()
    t = torch.full((3,), float(r))
    work = dist.all_reduce(t, async_op=True)
    value = work.get_future().then(lambda f: f.value()[0].sum()).wait()
    equal(value, torch.tensor(3 * n * (n - 1) / 2))
    assert work.wait() is True
    again = work.get_future().wait()
    assert again[0] is t


@check
def callbacks_that_start_operations_and_wait():
    """With one thread for callbacks the second of these would wait for ever."""
    n = size()

    def more(_future):
        t = torch.ones(2)
        dist.all_reduce(t)
        work = dist.all_reduce(t, async_op=True)
        return work.get_future().then(lambda f: f.value()[0] * 1).wait()

    for _ in range(3):
        first = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(more)
        equal(first.wait(), torch.full((2,), float(n * n)))


# ---- groups ----

@check
def groups_come_and_go():
    n, r = size(), me()
    for round_ in range(3):
        ranks = [i for i in range(n) if i != round_ % n] or [0]
        group = dist.new_group(ranks)
        if r in ranks:
            t = torch.tensor([float(r)])
            dist.all_reduce(t, group=group)
            equal(t, torch.tensor([float(sum(ranks))]))
            dist.broadcast(t, ranks[-1], group=group)
        t = torch.ones(1)
        dist.all_reduce(t)
        equal(t, torch.tensor([float(n)]))
        if r in ranks:
            dist.destroy_process_group(group)


@check
def gloo_beside_it():
    group = dist.new_group(backend="gloo")
    t = torch.ones(1)
    dist.all_reduce(t, group=group)
    dist.all_reduce(t)
    equal(t, torch.tensor([float(size() ** 2)]))
    dist.destroy_process_group(group)


@check
def destroyed_and_made_again():
    """In the store of the first time, whose keys are still there, as under torchrun."""
    for _ in range(2):
        dist.destroy_process_group()
        begin()
        t = torch.ones(1)
        dist.all_reduce(t)
        equal(t, torch.tensor([float(size())]))


# ---- DDP ----

def model_and_data(seed=0):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(),
                                torch.nn.Linear(8, 3))
    batches = [(torch.randn(4 * size(), 6), torch.randn(4 * size(), 3)) for _ in range(4)]
    return model, batches


def trained_alone(model, batches):
    """The weights that one process gets on the batches of all ranks; without batch normalisation,
    which looks at a rank's share only."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def trained_together(model, batches, **options):
    ddp = torch.nn.parallel.DistributedDataParallel(model, **options)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for x, y in batches:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(ddp(x[me()::size()]), y[me()::size()]).backward()
        optimizer.step()
    return ddp, [p.detach() for p in model.parameters()]


def plain(seed=0):
    model, batches = model_and_data(seed)
    del model[1]
    return model, batches


def same_everywhere(ts):
    for t in ts:
        got = [torch.empty_like(t) for _ in range(size())]
        dist.all_gather(got, t)
        assert all(torch.equal(g, got[0]) for g in got)


@check
def ddp_trains_as_one_process_does():
    for options in ({}, {"static_graph": True}, {"gradient_as_bucket_view": True},
                    {"find_unused_parameters": True}, {"bucket_cap_mb": 0.0001}):
        want = trained_alone(*plain())
        model, batches = plain()
        if me():  # DDP gives all ranks the weights of the first
            torch.nn.init.zeros_(model[0].weight)
        _ddp, got = trained_together(model, batches, **options)
        for a, b in zip(got, want):
            assert torch.allclose(a, b, atol=1e-5), (options, a, b)
        same_everywhere(got)


@check
def ddp_with_buffers_and_unused_parameters():
    model, batches = model_and_data(1)
    model.unused = torch.nn.Parameter(torch.zeros(3))
    ddp, got = trained_together(model, batches, find_unused_parameters=True)
    same_everywhere(got)
    with ddp.no_sync():
        ddp(batches[0][0]).sum().backward()
    ddp(batches[0][0]).sum().backward()
    same_everywhere([p.grad for p in model.parameters() if p.grad is not None])


@check
def ddp_with_sparse_gradients():
    torch.manual_seed(3)
    model = torch.nn.EmbeddingBag(10, 4, sparse=True)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    ddp(torch.tensor([[me(), 9]])).sum().backward()
    same_everywhere([model.weight.grad.to_dense()])


@check
def ddp_join():
    """Ranks with different numbers of batches; C++ code gets Works of this thread here."""
    from torch.distributed.algorithms.join import Join

    model, batches = plain(2)
    ddp = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.0001)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for _ in range(3):
        with Join([ddp]):
            for x, y in batches[:1 + me() % 3]:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(ddp(x), y).backward()
                optimizer.step()
    same_everywhere([p.detach() for p in model.parameters()])


def main(made=check):
    """Make the checks of this script, or of another one."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # new releases of torch advise against half of what is called
    ringup_torch.register()
    begin()
    made.run(me(), lambda: torch.manual_seed(me()), dist.barrier)
    dist.destroy_process_group()
    end()


if __name__ == "__main__":
    main()
