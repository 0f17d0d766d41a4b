# ops_of_a_rank.py - what test_checks.py starts on every rank: one check after the other.
# SPDX-License-Identifier: Apache-2.0
"""Each check knows all ranks' inputs (they are made from a seed) and so what must come out."""

import os
import signal
import threading
import time
import warnings

import torch
from checks import Checks, end, raises

import horovod.torch as hvd
from ringup import job, operation
from ringup_torch import staging

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
          torch.bfloat16, torch.float32, torch.float64]
DTYPES += [torch.uint16] if hasattr(torch, "uint16") else []
SHAPES = [(), (1,), (5,), (17, 3), (2, 3, 4), (1000, 33)]
check = Checks()


def inputs(shape, dtype, low=0, high=6):
    """Every rank's tensor; small whole numbers, so that sums are exact in every type."""
    out = []
    for r in range(hvd.size()):
        g = torch.Generator().manual_seed(100 + r)
        out.append(torch.randint(low, high, shape, generator=g).to(dtype))
    return out


def equal(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape, (got, want)
    assert torch.equal(got, want), f"{got} is not {want}"


def started_at_last(start, *args, **kwargs):
    """What is refused as long as its name is in use."""
    while True:  # until it hangs
        try:
            return start(*args, **kwargs)
        except ValueError:
            time.sleep(0.02)


def everywhere_equal(t):
    """All ranks have the same bits."""
    parts = hvd.allgather(t.detach().reshape(1, -1))
    assert (parts == parts[0]).all(), parts


@check
def reductions_of_every_type():
    for dtype in DTYPES:
        for shape in SHAPES:
            all_ = inputs(shape, dtype)
            mine, wide = all_[hvd.rank()], torch.stack(all_).to(torch.float64)
            before = mine.clone()
            equal(hvd.allreduce(mine, op=hvd.Sum), wide.sum(0).to(dtype))
            equal(hvd.allreduce(mine, op=hvd.Min), wide.min(0).values.to(dtype))
            equal(hvd.allreduce(mine, op=hvd.Max), wide.max(0).values.to(dtype))
            equal(mine, before)


@check
def reductions_of_bools():
    """Sums and maxima are "or", products and minima "and"."""
    all_ = [t > 2 for t in inputs((100,), torch.int32)]
    mine, both = all_[hvd.rank()], torch.stack(all_)
    for op in (hvd.Sum, hvd.Max):
        equal(hvd.allreduce(mine, op=op), both.any(0))
    for op in (hvd.Product, hvd.Min):
        equal(hvd.allreduce(mine, op=op), both.all(0))


@check
def views_that_negate_or_conjugate():
    z = torch.complex(torch.arange(4.0), torch.arange(4.0) + hvd.rank())
    want = sum(torch.arange(4.0) + r for r in range(hvd.size()))
    equal(hvd.allreduce(z.conj().imag, op=hvd.Sum), -want)
    equal(hvd.broadcast(z.conj(), 0), torch.complex(torch.arange(4.0), -torch.arange(4.0)))


@check
def products():
    for dtype in DTYPES:
        all_ = inputs((40,), dtype, 1, 3)
        want = torch.stack(all_).to(torch.float64).prod(0).to(dtype)
        equal(hvd.allreduce(all_[hvd.rank()], op=hvd.Product), want)


@check
def ctrl_c_ends_a_wait():
    """But not the operation, for which the others come later."""
    waits, wait = threading.Event(), job.lib.ringup_wait_on

    def noted(*args):
        waits.set()
        return wait(*args)

    def interrupt():
        waits.wait()
        os.kill(os.getpid(), signal.SIGINT)

    for name in ("left", None):
        if hvd.rank() == 0 and hvd.size() > 1:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            waits.clear()
            job.lib.ringup_wait_on = noted
            presser = threading.Thread(target=interrupt)
            presser.start()
            raises(KeyboardInterrupt, hvd.allreduce, torch.ones(1), name=name, op=hvd.Sum)
            presser.join()
            job.lib.ringup_wait_on = wait
        hvd.allgather(torch.ones(1), name="late")
        if hvd.rank() > 0:
            equal(hvd.allreduce(torch.ones(1), name=name, op=hvd.Sum),
                  torch.full((1,), float(hvd.size())))


@check
def averages_of_integers_lose_their_fraction():
    for dtype in (torch.int32, torch.int64):
        all_ = inputs((50,), dtype, -9, 9)
        want = torch.stack(all_).sum(0).to(dtype)
        got = hvd.allreduce(all_[hvd.rank()])
        equal(got, torch.div(want, hvd.size(), rounding_mode="trunc").to(dtype))


@check
def averages_of_floats():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        all_ = inputs((50,), dtype, -9, 9)
        want = torch.stack(all_).to(torch.float64).mean(0).to(dtype)
        assert torch.allclose(hvd.allreduce(all_[hvd.rank()]), want, rtol=1e-2, atol=1e-3)
        everywhere_equal(hvd.allreduce(torch.randn(1000)))


@check
def scales():
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        all_ = inputs((50,), dtype)
        total = torch.stack(all_).to(torch.float64).sum(0)
        mine = all_[hvd.rank()]
        got = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
        equal(got, (2 * total).to(dtype))
        got = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.25)
        equal(got, (total / 4).to(dtype))
    raises(ValueError, hvd.allreduce, torch.ones(2), prescale_factor=0)


@check
def tensors_that_are_not_contiguous():
    all_ = inputs((6, 8), torch.float32)
    total = torch.stack(all_).sum(0)
    mine = all_[hvd.rank()]
    equal(hvd.allreduce(mine.t(), op=hvd.Sum), total.t().contiguous())
    for view in (lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[1:, 3]):
        t = mine.clone()
        got = hvd.allreduce_(view(t), op=hvd.Sum)
        equal(got, view(total))
        equal(view(t), view(total))
    untouched = mine.clone()
    hvd.allreduce_(untouched[:, ::2], op=hvd.Sum)
    equal(untouched[:, 1::2], mine[:, 1::2])
    image = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
    equal(hvd.allreduce_(image, op=hvd.Sum), torch.full((2, 3, 4, 5), float(hvd.size())))
    equal(hvd.allgather(mine.t()), torch.cat([t.t() for t in all_]))
    t = mine.clone().t()
    equal(hvd.broadcast_(t, 0), all_[0].t())


@check
def tensors_without_elements():
    for shape in ((0,), (0, 4), (3, 0)):
        e = torch.empty(shape)
        assert hvd.allreduce(e).shape == shape
        assert hvd.allreduce_(e) is e
        assert hvd.broadcast(e, 0).shape == shape
        assert hvd.allgather(e).shape == (shape[0] * hvd.size(), *shape[1:])


@check
def in_place_forms_return_their_argument():
    t = torch.ones(4)
    assert hvd.allreduce_(t, op=hvd.Sum) is t and t[0] == hvd.size()
    assert hvd.broadcast_(t, 0) is t
    u = torch.ones(4)
    assert hvd.synchronize(hvd.allreduce_async_(u, op=hvd.Sum)) is u and u[0] == hvd.size()


@check
def many_under_way_in_another_order_on_each_rank():
    n = 60
    order = torch.randperm(n, generator=torch.Generator().manual_seed(hvd.rank())).tolist()
    handles = {i: hvd.allreduce_async(torch.full((i + 1,), float(i)), name=f"many.{i}",
                                      op=hvd.Sum) for i in order}
    for i in reversed(range(n)):
        got = hvd.synchronize(handles[i])
        equal(got, torch.full((i + 1,), float(i * hvd.size())))
    assert hvd.synchronize(handles[0]) is None


@check
def any_number_without_names():
    """The last rank begins when the others have more under way than the library has room for."""
    full, make_room = threading.Event(), operation._make_room

    def noted(group, called):
        full.set()
        return make_room(group, called)

    def tell():
        full.wait()
        hvd.allreduce(torch.ones(1), name="full")

    teller = threading.Thread(target=tell)
    if hvd.rank() < hvd.size() - 1:
        operation._make_room = noted
    else:
        full.set()
    teller.start()
    if hvd.rank() == hvd.size() - 1:
        teller.join()
    handles = [hvd.allreduce_async(torch.full((3,), float(i)), op=hvd.Sum) for i in range(3000)]
    teller.join()
    operation._make_room = make_room
    # one that blocks, too
    equal(hvd.allreduce(torch.ones(3), op=hvd.Sum), torch.full((3,), float(hvd.size())))
    for i, h in enumerate(handles):
        equal(hvd.synchronize(h), torch.full((3,), float(i * hvd.size())))


@check
def poll_becomes_true():
    h = hvd.allreduce_async(torch.ones(10))
    while not hvd.poll(h):
        pass
    equal(hvd.synchronize(h), torch.ones(10))
    assert hvd.poll(h)


@check
def groups_of_tensors():
    ts = [torch.full((i, 2), float(i + hvd.rank())) for i in range(1, 6)]
    ranks = sum(range(hvd.size()))
    want = [torch.full((i, 2), float(i * hvd.size() + ranks)) for i in range(1, 6)]
    for got, w in zip(hvd.grouped_allreduce(ts, op=hvd.Sum, name="g"), want):
        equal(got, w)
    for got, w in zip(hvd.synchronize(hvd.grouped_allreduce_async(ts, op=hvd.Sum)), want):
        equal(got, w)
    out = hvd.grouped_allreduce_(ts, op=hvd.Sum)
    assert isinstance(out, list) and all(a is b for a, b in zip(out, ts))
    equal(ts[4], want[4])
    got = hvd.grouped_allgather([torch.ones(2), torch.zeros(1, 3)])
    assert [t.shape for t in got] == [(2 * hvd.size(),), (hvd.size(), 3)]


@check
def gathering_of_every_type_with_ragged_rows():
    for dtype in DTYPES + [torch.bool, torch.int16, torch.complex64]:
        parts = [torch.full((r, 3), r % 2 + 1).to(dtype) for r in range(hvd.size())]
        equal(hvd.allgather(parts[hvd.rank()]), torch.cat(parts))  # rank 0 has no rows
    raises(ValueError, hvd.allgather, torch.tensor(1.0), says="at least one dimension")
    handle = hvd.allgather_async(torch.ones(2), name="async")
    assert hvd.synchronize(handle).shape == (2 * hvd.size(),)


@check
def a_gathered_tensor_outlives_everything():
    kept = [hvd.allgather(torch.full((1000,), float(i))) for i in range(20)]
    for i, t in enumerate(kept):
        assert (t == i).all()
        t += 1  # it is writable
        assert (t == i + 1).all()


@check
def broadcasts_of_every_type_from_every_rank():
    for root in range(hvd.size()):
        for dtype in DTYPES + [torch.bool, torch.int16, torch.complex64]:
            mine = torch.full((7, 2), hvd.rank() % 2 + 1).to(dtype)
            want = torch.full((7, 2), root % 2 + 1).to(dtype)
            before = mine.clone()
            equal(hvd.broadcast(mine, root), want)
            equal(mine, before)
            equal(hvd.broadcast_(mine, root), want)


@check
def gradients():
    n = hvd.size()
    x = torch.full((3,), float(hvd.rank()), requires_grad=True)
    hvd.allreduce(x, op=hvd.Sum).sum().backward()
    equal(x.grad, torch.full((3,), float(n)))
    x.grad = None
    hvd.allreduce(x, op=hvd.Average).sum().backward()
    equal(x.grad, torch.ones(3))
    x.grad = None
    whole = hvd.allgather(x)
    (whole * torch.arange(3.0 * n)).sum().backward()
    equal(x.grad, torch.arange(3.0 * n)[3 * hvd.rank():3 * hvd.rank() + 3])
    x.grad = None
    hvd.broadcast(x, n - 1).sum().backward()
    equal(x.grad, torch.full((3,), 1.0 if hvd.rank() == n - 1 else 0.0))
    x.grad = None
    a, b = hvd.grouped_allreduce([x, 2 * x], op=hvd.Sum)
    (a + b).sum().backward()
    equal(x.grad, torch.full((3,), 3.0 * n))
    x.grad = None
    raises(NotImplementedError, hvd.allreduce(x, op=hvd.Max).sum().backward)


@check
def compressions():
    t = torch.full((100,), 1.5)
    for c in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
        equal(hvd.allreduce(t, compression=c, op=hvd.Sum), torch.full((100,), 1.5 * hvd.size()))
        i = torch.ones(3, dtype=torch.int32)
        equal(hvd.allreduce(i, compression=c, op=hvd.Sum), i * hvd.size())


@check
def objects():
    mine = {"rank": hvd.rank(), "text": "x" * 1000 * hvd.rank(), "t": torch.ones(2)}
    for root in range(hvd.size()):
        got = hvd.broadcast_object(mine if hvd.rank() == root else None, root, name="o")
        assert got["rank"] == root and len(got["text"]) == 1000 * root
    assert [o["rank"] for o in hvd.allgather_object(mine)] == list(range(hvd.size()))


@check
def the_same_as_gloo():
    import torch.distributed as dist

    where = os.path.join(os.environ["RINGUP_TEST_RESULTS"], "gloo")
    dist.init_process_group("gloo", init_method=f"file://{where}", rank=hvd.rank(),
                            world_size=hvd.size())
    for dtype in (torch.float32, torch.float64, torch.int64):
        t = torch.randn(10000).mul_(100).to(dtype)
        theirs = t.clone()
        dist.all_reduce(theirs)
        ours = hvd.allreduce(t, op=hvd.Sum)
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-4)
        everywhere_equal(ours)
    dist.destroy_process_group()


@check
def ranks_that_disagree_all_learn_it_and_go_on():
    n, r = hvd.size(), hvd.rank()
    if n == 1:
        return
    first = 1 if r == 0 else 0
    wrong = [
        lambda: hvd.allreduce(torch.ones(4 + first), name="count"),
        lambda: hvd.allreduce(torch.ones(4, dtype=[torch.int32, torch.float32][first]), name="t"),
        lambda: hvd.allreduce(torch.ones(4), op=[hvd.Sum, hvd.Max][first], name="op"),
        lambda: hvd.allreduce(torch.ones(4), prescale_factor=1.0 + first, name="scale"),
        lambda: hvd.broadcast(torch.ones(4), first, name="root"),
        lambda: hvd.allgather(torch.ones(4, 2 + first), name="row"),
        lambda: hvd.allreduce(torch.ones(4 + first)),
    ]
    for f in wrong:
        e = raises(hvd.HorovodInternalError, f)
        assert type(e.__cause__).__name__ == "Mismatch", e
        equal(hvd.allreduce(torch.ones(3), op=hvd.Sum), torch.full((3,), float(n)))
    t = torch.full((4 + first,), 7.0)
    raises(hvd.HorovodInternalError, hvd.allreduce_, t, name="untouched")
    assert (t == 7).all()


@check
def a_name_can_be_in_flight_once():
    if hvd.size() == 1:
        return
    t = torch.ones(4)
    if hvd.rank() == 0:
        h = hvd.allreduce_async(t, name="twice")
        raises(ValueError, hvd.allreduce_async, t, name="twice", says="twice")
    hvd.barrier()
    if hvd.rank() > 0:
        h = hvd.allreduce_async(t, name="twice")
    equal(hvd.synchronize(h), t)
    # other collectives have names of their own
    a = hvd.allreduce_async(t, name="w")
    b = hvd.broadcast_async(t, 0, name="w")
    equal(hvd.synchronize(b), t)
    equal(hvd.synchronize(a), t)


@check
def what_is_not_supported_says_so():
    raises(ValueError, hvd.allreduce, torch.ones(2, dtype=torch.complex64), says="complex64")
    raises(ValueError, hvd.allreduce, torch.ones(2).to_sparse(), says="sparse")
    raises(ValueError, hvd.allreduce, torch.ones(2), op=hvd.Sum, average=True)
    raises(ValueError, hvd.broadcast_parameters, {"a": 1}, 0)
    raises(ValueError, hvd.broadcast_parameters, iter([]), 0)
    raises(NotImplementedError, hvd.reducescatter, torch.ones(2), op=hvd.Adasum)
    raises(ValueError, hvd.broadcast, torch.ones(2), hvd.size(), says="root")
    raises(ValueError, hvd.allreduce, torch.ones(2), op=17, says="hvd.Average")
    raises(ValueError, hvd.mpi_threads_supported)
    assert not hvd.nccl_built() and not hvd.mpi_built()


@check
def average_is_the_old_word():
    with warnings.catch_warnings(record=True) as ws:
        warnings.simplefilter("always")
        equal(hvd.allreduce(torch.ones(2), average=False), torch.full((2,), float(hvd.size())))
        equal(hvd.allreduce(torch.ones(2), True), torch.ones(2))
    assert len(ws) == 2 and ws[0].category is DeprecationWarning


@check
def where_the_ranks_are():
    n, r = hvd.size(), hvd.rank()
    assert (hvd.local_size(), hvd.local_rank()) == (n, r)  # all on one host
    assert (hvd.cross_size(), hvd.cross_rank()) == (1, 0)
    assert hvd.is_homogeneous() is True
    assert hvd.global_process_set.ranks == list(range(n))
    assert hvd.global_process_set.size() == n and hvd.global_process_set.rank() == r


@check
def names_in_use():
    """However fast an operation is, its name is not free before this rank could know."""
    x, n, unseen = torch.ones(2), hvd.size(), operation.UNSEEN
    operation.UNSEEN = 1e9  # however slow this rank is
    for way in (hvd.allreduce_async, hvd.allgather_async, hvd.reducescatter_async):
        for _ in range(20):
            first = way(x, name="twice")
            raises(ValueError, way, x, name="twice", says="in flight")
            hvd.synchronize(first)
    for _ in range(20):
        first = hvd.allreduce_async(x, name="twice", op=hvd.Sum)
        raises(ValueError, hvd.allreduce, x, name="twice", op=hvd.Sum, says="in flight")
        while not hvd.poll(first):
            pass
        equal(hvd.allreduce(x, name="twice", op=hvd.Sum), torch.full((2,), float(n)))
    # Nobody waits for the first, but for something later; then nobody waits at all.
    handles = []
    for _ in range(3):
        handles.append(hvd.allreduce_async(x, name="left", op=hvd.Sum))
        hvd.barrier()
    operation.UNSEEN = unseen
    for _ in range(3):
        handles.append(started_at_last(hvd.allreduce_async, x, name="left", op=hvd.Sum))
    for handle in reversed(handles):
        equal(hvd.synchronize(handle), torch.full((2,), float(n)))


@check
def threads():
    failed = []

    def work(k):
        try:
            for i in range(30):
                got = hvd.allreduce(torch.full((9,), float(k)), op=hvd.Sum, name=f"th.{k}.{i}")
                equal(got, torch.full((9,), float(k * hvd.size())))
        except BaseException as e:
            failed.append(e)

    ts = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    assert not failed, failed


@check
def buffers_and_bytes():
    import array

    import numpy
    import ringup

    n, r = hvd.size(), hvd.rank()
    for kind in "bhHiqfd":
        a = array.array(kind, [1, 2, 3])
        assert ringup.allreduce(a) is a and list(a) == [n, 2 * n, 3 * n]
    x = numpy.full((3, 2), float(r), dtype="float32")
    assert (ringup.allreduce(x, ringup.MAX, name="x") == n - 1).all()
    assert ringup.broadcast(bytearray([r, r]), root=n - 1) == bytearray([n - 1, n - 1])
    assert ringup.allgather(b"ab" * r) == [b"ab" * k for k in range(n)]
    raises(ValueError, ringup.allreduce, b"read only", says="read-only")
    raises(ValueError, ringup.allreduce, x[:, 0], says="contiguous")
    ringup.barrier()


@check
def arrays_of_several_libraries():
    import numpy
    import ringup

    n, r = hvd.size(), hvd.rank()
    for make, same in ((numpy.asarray, lambda a, b: type(a) is numpy.ndarray and (a == b).all()),
                       (torch.as_tensor, lambda a, b: a.equal(torch.as_tensor(b)))):
        def block(rows, value, make=make):
            return make(numpy.full((rows, 2), value, dtype="float32"))
        rows = numpy.repeat(numpy.arange(n, dtype="float32"), numpy.arange(n))[:, None]
        got = ringup.allgather(block(r, r))
        assert same(got, numpy.hstack([rows, rows])) and got.dtype == block(1, 0).dtype
        out, counts = ringup.alltoall(block(n, r), [1] * n)
        assert counts == [1] * n and same(out[:, 0], numpy.arange(n, dtype="float32"))
        out, counts = ringup.alltoall(block(r, r), [r] + [0] * (n - 1), name="to 0")
        assert counts == (list(range(n)) if r == 0 else [0] * n) and tuple(out.shape)[1] == 2
        work = ringup.allreduce(block(3, r), "max", async_op=True)
        assert same(work.wait(), numpy.full((3, 2), n - 1, "float32")) and work.poll()
        part = ringup.reducescatter(block(n + 1, 1.0), post=0.5)
        assert same(part, numpy.full((1 + (r == 0), 2), n / 2, "float32"))
        assert same(ringup.broadcast(block(1, r), root=n - 1), numpy.full((1, 2), n - 1, "float32"))
        evens = ringup.new_group(range(0, n, 2))
        assert evens.ranks == list(range(0, n, 2)) and (evens.rank >= 0) == (r % 2 == 0)
        if evens.rank >= 0:
            assert same(evens.allreduce(block(1, 1.0)), numpy.full((1, 2), evens.size, "float32"))
        evens.remove()
        if n > 1 and r < 2:
            there = block(2, 7.0 + r)
            if r == 0:
                ringup.send(there, 1, tag=3)
            else:
                assert ringup.recv(there, tag=3) == 0
                assert same(there, numpy.full((2, 2), 7.0, "float32"))
    t = torch.full((2,), 1.5, dtype=torch.bfloat16)
    equal(ringup.allgather(t), torch.full((2 * n,), 1.5, dtype=torch.bfloat16))
    assert ringup.allgather(numpy.zeros((0, 3))).shape == (0, 3)
    assert ringup.allgather(numpy.full(r, 1 + 2j)).tolist() == [1 + 2j] * sum(range(n))
    raises(ValueError, ringup.allreduce, numpy.ones(2), "mean", says="op='mean' is not one of sum,")
    raises(ValueError, ringup.allgather, numpy.float32(1), says="at least one dimension")
    raises(ValueError, ringup.alltoall, numpy.ones(n), [2] * n, says="add up to at most")
    raises(ValueError, ringup.WORLD.remove, says="shutdown() ends the job")
    assert ringup.join() in range(n)


@check
def memory_that_ranks_share():
    import ringup

    for count in (1, 1000, 300000):
        t = torch.frombuffer(ringup.alloc(4 * count), dtype=torch.float32)
        assert not t.any()
        for k in range(1, 4):
            t.fill_(hvd.rank() + k)
            want = sum(r + k for r in range(hvd.size()))
            equal(hvd.allreduce_(t, op=hvd.Sum, name="shared"), torch.full((count,), float(want)))
    raises(MemoryError, ringup.alloc, 1 << 62)
    assert ringup.alloc(0).nbytes == 0


@check
def memory_that_ranks_share_lives_as_long_as_it_is_used():
    import numpy
    import ringup

    freed, free = [], job.lib.ringup_free
    job.lib.ringup_free = lambda address: (freed.append(address), free(address))
    try:
        for make in (lambda m: m, lambda m: m.cast("f"), lambda m: m[8:16],
                     lambda m: numpy.frombuffer(m, dtype="float32")[1:],
                     lambda m: torch.frombuffer(m, dtype=torch.float32)[1:]):
            used = make(ringup.alloc(64))
            assert not freed
            del used
            assert len(freed) == 1
            freed.clear()
    finally:
        job.lib.ringup_free = free


@check
def staging_memory_is_used_again_but_never_twice_at_once():
    """The pool that tensors of a GPU go through; without a GPU nothing can be pinned."""
    pinned = []
    pool = staging.Pool(pin=lambda address, nbytes: pinned.append((address, nbytes)) or True)
    for dtype in (torch.bfloat16, torch.bool, torch.complex64, torch.float64):
        for shape in ((), (3, 4), (0, 2), (5000,)):
            t = pool.empty(shape, dtype)
            assert t.shape == shape and t.dtype == dtype and t.is_contiguous()
            t.fill_(1)
            other = pool.empty(shape, dtype).fill_(0)
            assert t.eq(1).all() and (not t.numel() or t.data_ptr() != other.data_ptr())
    made = len(pinned)
    t = pool.empty((6,), torch.float32)
    at, view = t.data_ptr(), t[2:]
    del t
    assert pool.empty((6,), torch.float32).data_ptr() != at  # the view is there yet
    del view
    assert pool.empty((6,), torch.float32).data_ptr() == at
    assert len(pinned) == made
    for n in (1, 4096, 4097, 5 << 20, (64 << 20) + 1):
        assert n <= staging.size_class(n) <= max(n * 5 // 4 + 1, 4096), n
    t = pool.empty((300000,), torch.float32).fill_(hvd.rank() + 1)
    hvd.allreduce_(t, op=hvd.Sum)
    equal(t, torch.full((300000,), hvd.size() * (hvd.size() + 1) / 2))


@check
def staging_memory_that_cannot_be_pinned_is_ordinary():
    asked = []
    pool = staging.Pool(pin=lambda address, nbytes: asked.append(address))
    for _ in range(3):
        assert pool.empty((7,), torch.float32).fill_(2).eq(2).all()
    assert len(asked) == 1


@check
def left_and_joined_again():
    n, r = hvd.size(), hvd.rank()
    for _ in range(3):
        hvd.barrier()
        hvd.shutdown()
        assert not hvd.is_initialized()
        raises(ValueError, hvd.rank, says="hvd.init()")
        raises(hvd.HorovodInternalError, hvd.allreduce, torch.ones(1), says="init()")
        hvd.init()
        assert (hvd.size(), hvd.rank()) == (n, r)
        equal(hvd.allreduce(torch.ones(5), op=hvd.Sum), torch.full((5,), float(n)))
        hvd.init()  # harmless


def main(made=check):
    """Make the checks of this script, or of another one."""
    torch.set_num_threads(1)
    hvd.init()
    made.run(hvd.rank(), lambda: torch.manual_seed(hvd.rank()), hvd.barrier)
    hvd.shutdown()
    end()


if __name__ == "__main__":
    main()
