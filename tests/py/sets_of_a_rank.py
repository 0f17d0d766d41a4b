# sets_of_a_rank.py - what test_checks.py starts on ranks: process sets, and what came with them.
# SPDX-License-Identifier: Apache-2.0
"""Ranks that have joined take part in everything here; api_of_a_rank.py is for Horovod's way."""

import copy
import gc
import os
import pickle

import ops_of_a_rank as ops
import torch
from checks import Checks, raises
from ops_of_a_rank import DTYPES, equal, everywhere_equal, inputs

import horovod.torch as hvd

check = Checks()


@check
def sets_are_added_and_removed():
    n, r = hvd.size(), hvd.rank()
    assert hvd.global_process_set.process_set_id == 0
    few = hvd.ProcessSet([n - 1, 0])
    assert (few.process_set_id, few.size(), few.rank()) == (None, None, None)
    raises(ValueError, hvd.allreduce, torch.ones(1), process_set=few, says="add ProcessSet")
    assert hvd.add_process_set(few) is few and few.ranks == [0, n - 1]
    assert few.process_set_id > 0 and few.size() == 2 and few.included() == (r in (0, n - 1))
    raises(ValueError, hvd.add_process_set, [0, n - 1], says="already")
    raises(ValueError, hvd.add_process_set, range(n), says="already")
    for wrong in ([], [0, 0], [-1], ["a"], 3):
        raises(ValueError, hvd.add_process_set, wrong)
    raises(ValueError, hvd.add_process_set, [0, n])
    if few.included():
        assert few.rank() == (0 if r == 0 else 1)
        equal(hvd.allreduce(torch.ones(3), op=hvd.Sum, process_set=few), torch.full((3,), 2.0))
    else:
        raises(ValueError, few.rank, says="not a member")
        for f in (hvd.allreduce, hvd.allgather, hvd.alltoall, hvd.reducescatter):
            raises(ValueError, f, torch.ones(2), process_set=few, says="not a member")
        raises(ValueError, hvd.broadcast, torch.ones(2), 0, process_set=few, says="not a member")
        raises(ValueError, hvd.barrier, few, says="not a member")
    hvd.barrier()
    assert hvd.remove_process_set(few) and few.process_set_id is None
    assert not hvd.remove_process_set(few) and not hvd.remove_process_set(hvd.global_process_set)
    raises(ValueError, hvd.allreduce, torch.ones(1), process_set=few)
    again = hvd.add_process_set([0, n - 1])
    assert again.process_set_id > 0 and hvd.remove_process_set(again)


@check
def every_collective_of_a_set():
    n, r = hvd.size(), hvd.rank()
    odd = hvd.add_process_set([i for i in range(n) if i % 2])
    even = hvd.add_process_set([i for i in range(n) if i % 2 == 0])
    mine, other = (odd, even) if r % 2 else (even, odd)
    k, me = mine.size(), mine.rank()
    assert mine.ranks[me] == r and k + other.size() == n
    x = torch.arange(6.0).view(3, 2) + r
    all_ = [torch.arange(6.0).view(3, 2) + i for i in mine.ranks]
    how = {"process_set": mine}
    equal(hvd.allreduce(x, op=hvd.Sum, name="x", **how), sum(all_))
    equal(hvd.allreduce(x, **how), sum(all_) / k)
    equal(hvd.allgather(x[:me + 1], **how), torch.cat([t[:i + 1] for i, t in enumerate(all_)]))
    equal(hvd.broadcast(x, mine.ranks[-1], **how), all_[-1])
    raises(ValueError, hvd.broadcast, x, other.ranks[0], says="root", **how)
    part = torch.full((k, 2), float(r))
    equal(hvd.alltoall(part, **how), torch.tensor(mine.ranks).float().repeat(2, 1).t())
    equal(hvd.reducescatter(part, op=hvd.Sum, **how), torch.full((1, 2), float(sum(mine.ranks))))
    a, b = hvd.grouped_allreduce([x, 2 * x], op=hvd.Sum, **how)
    equal(a, sum(all_)), equal(b, 2 * sum(all_))
    assert hvd.broadcast_object(r, mine.ranks[0], process_set=mine) == mine.ranks[0]
    hvd.barrier(mine)
    s = torch.sparse_coo_tensor([[me]], [1.0], (k,))
    got = hvd.sparse_allreduce_async(s, "s", hvd.Average, process_set=mine)()
    equal(got.to_dense(), torch.full((k,), 1.0 / k))
    # both sets, the world, and the same name in all of them at once
    hs = [hvd.allreduce_async(x, name="same", op=hvd.Sum, process_set=s)
          for s in (mine, hvd.global_process_set)]
    equal(hvd.synchronize(hs[1]), sum(torch.arange(6.0).view(3, 2) + i for i in range(n)))
    equal(hvd.synchronize(hs[0]), sum(all_))
    for s in (odd, even):
        assert hvd.remove_process_set(s)


@check
def a_rank_in_many_sets():
    n = hvd.size()
    sets = [hvd.add_process_set(range(i + 1)) for i in range(n - 1)]
    hs = [(s, hvd.allreduce_async(torch.ones(100), op=hvd.Sum, process_set=s))
          for s in sets if s.included()]
    for s, h in reversed(hs):
        equal(hvd.synchronize(h), torch.full((100,), float(s.size())))
    hvd.barrier()
    assert all([hvd.remove_process_set(s) for s in sets])


@check
def ids_of_removed_sets_are_given_again():
    n = hvd.size()
    if n < 3:
        return
    hvd.shutdown()
    hvd.init()
    first, second, third = [hvd.add_process_set(ranks) for ranks in ([0], [1], [0, 1])]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=1),
                                         process_set=first)
    saved = pickle.dumps(optimizer)
    assert hvd.remove_process_set(second) and hvd.remove_process_set(first)
    later = [hvd.add_process_set(ranks) for ranks in ([0, n - 1], [1, n - 1], [n - 1])]
    assert [s.process_set_id for s in (third, *later)] == [3, 2, 1, 4]  # as Horovod does
    for s in (third, *later):
        if s.included():
            equal(hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=s),
                  torch.full((2,), float(len(s.ranks))))
    del first, optimizer
    gc.collect()
    raises(ValueError, pickle.loads, saved, says="does not exist")
    hvd.barrier()
    assert all([hvd.remove_process_set(s) for s in (third, *later)])


@check
def sets_from_the_start():
    n = hvd.size()
    hvd.shutdown()
    one, two = hvd.ProcessSet([n - 1]), hvd.ProcessSet([0, n - 1])
    raises(ValueError, hvd.init, process_sets=[one, hvd.ProcessSet([n - 1])], says="already")
    assert hvd.is_initialized()  # as in Horovod
    hvd.init(process_sets=[one, two])
    assert (one.process_set_id, two.process_set_id) == (1, 2)
    if two.included():
        equal(hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=two), torch.full((2,), 2.0))
    hvd.barrier()
    hvd.shutdown()
    hvd.init(process_sets="dynamic")
    raises(ValueError, hvd.allreduce, torch.ones(1), process_set=two, says="add ProcessSet")
    hvd.add_process_set(two)
    assert two.process_set_id == 1 and hvd.remove_process_set(two)


@check
def exchanges():
    n, r = hvd.size(), hvd.rank()
    for dtype in DTYPES + [torch.bool, torch.complex64]:
        x = torch.full((2 * n, 3), r % 2).to(dtype)
        want = torch.cat([torch.full((2, 3), i % 2).to(dtype) for i in range(n)])
        equal(hvd.alltoall(x), want)
    # rank r sends i + r rows of r to rank i
    splits = [i + r for i in range(n)]
    x = torch.full((sum(splits), 2), float(r))
    want = torch.cat([torch.full((r + i, 2), float(i)) for i in range(n)])
    for s in (splits, tuple(splits), torch.tensor(splits), torch.tensor(splits, dtype=torch.int32)):
        got, received = hvd.alltoall(x, s)
        equal(got, want)
        assert received.tolist() == [r + i for i in range(n)]
        assert received.dtype == (s.dtype if isinstance(s, torch.Tensor) else torch.int32)
    got, received = hvd.synchronize(hvd.alltoall_async(x, splits, name="named"))
    equal(got, want)
    equal(hvd.alltoall(x.t().contiguous().t(), splits)[0], want)
    more = torch.cat([x, torch.full((5, 2), 9.0)])  # rows that go nowhere
    equal(hvd.alltoall(more, splits)[0], want)
    got, received = hvd.alltoall(torch.empty(0, 3), [0] * n)
    assert got.shape == (0, 3) and received.tolist() == [0] * n
    assert hvd.alltoall(torch.empty(0)).shape == (0,)
    raises(ValueError, hvd.alltoall, torch.tensor(1.0), says="at least one dimension")
    raises(ValueError, hvd.alltoall, torch.ones(2), [2] + [0] * n, says="splits")
    raises(ValueError, hvd.alltoall, torch.ones(2), [3] + [0] * (n - 1), says="rows")
    raises(ValueError, hvd.alltoall, torch.ones(n, 1), torch.ones(n), says="whole")
    if n > 1:
        raises(ValueError, hvd.alltoall, torch.ones(n + 1), says="evenly")
        raises(ValueError, hvd.alltoall, torch.ones(2), [3, -1] + [0] * (n - 2), says="splits")


@check
def exchanges_have_gradients():
    n, r = hvd.size(), hvd.rank()
    splits = [i + 1 for i in range(n)]
    x = torch.ones(sum(splits) + 1, 2, requires_grad=True)
    got, received = hvd.alltoall(x, splits)
    (got * (r + 1)).sum().backward()
    want = torch.cat([torch.full((i + 1, 2), i + 1.0) for i in range(n)] + [torch.zeros(1, 2)])
    equal(x.grad, want)


@check
def reduced_and_dealt_out():
    n, r = hvd.size(), hvd.rank()
    for dtype in DTYPES:
        for rows in (0, 1, n, n + 1, 3 * n + 2):
            all_ = inputs((rows, 3), dtype)
            first = r * (rows // n) + min(r, rows % n)
            mine = slice(first, first + rows // n + (r < rows % n))
            wide = torch.stack(all_).to(torch.float64)
            equal(hvd.reducescatter(all_[r], op=hvd.Sum), wide.sum(0).to(dtype)[mine])
            equal(hvd.reducescatter(all_[r], op=hvd.Max), wide.max(0).values.to(dtype)[mine])
    x = torch.arange(2.0 * n)
    equal(hvd.reducescatter(x), x[2 * r:2 * r + 2])
    got = hvd.reducescatter(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0, name="s")
    equal(got, 2 * n * x[2 * r:2 * r + 2])
    a, b = hvd.grouped_reducescatter([x, x.int()], op=hvd.Sum)
    equal(a, n * x[2 * r:2 * r + 2]), equal(b, n * x[2 * r:2 * r + 2].int())
    equal(hvd.synchronize(hvd.reducescatter_async(x.view(n, 2).t().contiguous().t())),
          x[2 * r:2 * r + 2].view(1, 2))
    raises(ValueError, hvd.reducescatter, torch.tensor(1.0), says="at least one dimension")
    y = torch.ones(2 * n, requires_grad=True)
    (hvd.reducescatter(y, op=hvd.Sum) * (r + 1)).sum().backward()
    equal(y.grad, n * torch.arange(1.0, n + 1).repeat(2, 1).t().flatten())


def second_derivative(f, xs):
    """Of a cubic function of f's results, by way of its first one."""
    first = torch.autograd.grad(sum((y**3).sum() for y in f(xs)), xs, create_graph=True)
    return torch.autograd.grad(sum(g.square().sum() for g in first), xs)


@check
def gradients_have_gradients():
    n, r = hvd.size(), hvd.rank()
    xs = [(torch.arange(4.0 * n).view(2 * n, 2) + i + 1).double().requires_grad_()
          for i in range(n)]
    # what each rank does, what all of them do, and the factors of Horovod's gradients
    for ours, alone, factor in (
            (lambda x: hvd.allreduce(x, op=hvd.Sum), lambda xs: [sum(xs)] * n, 1),
            (lambda x: hvd.grouped_allreduce([x, x + x])[1], lambda xs: [sum(xs) * 2 / n] * n, 1),
            (hvd.allgather, lambda xs: [torch.cat(xs)] * n, n**-3),
            (lambda x: hvd.grouped_allgather([x, x + x])[1],
             lambda xs: [torch.cat(xs) * 2] * n, n**-3),
            (lambda x: hvd.broadcast(x, n - 1), lambda xs: [xs[-1] + 0 * sum(xs)] * n, n**-3),
            (hvd.alltoall,
             lambda xs: [torch.cat([x.chunk(n)[i] for x in xs]) for i in range(n)], 1),
            (lambda x: hvd.reducescatter(x, op=hvd.Sum), lambda xs: sum(xs).chunk(n), n**2),
            (lambda x: hvd.grouped_reducescatter([x, x + x], op=hvd.Sum)[1],
             lambda xs: (sum(xs) * 2).chunk(n), n**2)):
        got, = second_derivative(lambda x: [ours(*x)], [xs[r]])
        want = second_derivative(alone, xs)[r] * factor
        assert torch.allclose(got, want, rtol=1e-9), (got, want)
    x = torch.ones(2, requires_grad=True)
    (hvd.broadcast(x, n - 1) * torch.inf).sum().backward()
    equal(x.grad, torch.full((2,), torch.inf if r == n - 1 else 0.0))


@check
def groups_of_other_kinds():
    n = hvd.size()
    ts = [torch.ones(3), torch.ones(2, dtype=torch.int64), torch.empty(0), torch.ones(2, 2).t()]
    for _ in range(3):
        got = hvd.grouped_allreduce(ts, op=hvd.Sum, name="mixed")
        for t, g in zip(ts, got):
            equal(g, t * n)
    raises(ValueError, hvd.grouped_allreduce_async, [])
    many = [torch.full((i,), float(i)) for i in range(200)]
    out = hvd.synchronize(hvd.grouped_allreduce_async_(many, op=hvd.Average, name="many"))
    assert all([a is b for a, b in zip(out, many)])
    for i, t in enumerate(many):
        equal(t, torch.full((i,), float(i)))
    if n > 1:
        wrong = torch.ones(2 + hvd.rank())
        raises(hvd.HorovodInternalError, hvd.grouped_allreduce, [torch.ones(1), wrong], name="w")
        equal(hvd.allreduce(torch.ones(1), op=hvd.Sum), torch.tensor([float(n)]))


@check
def groups_are_atomic():
    n, r = hvd.size(), hvd.rank()
    ts = [torch.ones(3), torch.ones(2).long(), torch.ones(70000), torch.ones(1).double()]
    if r < n - 1:
        late = hvd.grouped_allreduce_async_(ts, op=hvd.Sum, name="late")
    hvd.barrier()  # it needs all ranks, so the others have started by now
    if r < n - 1:
        assert not hvd.poll(late) and all((t == 1).all() for t in ts)
    hvd.barrier()
    if r == n - 1:
        late = hvd.grouped_allreduce_async_(ts, op=hvd.Sum, name="late")
    assert all(a is b for a, b in zip(hvd.synchronize(late), ts))
    assert hvd.poll(late) and all((t == n).all() for t in ts)
    if n == 1:
        return
    for dtype in (torch.float32, torch.int32):
        odd = torch.ones(2 + r, dtype=dtype)
        for collective in (hvd.grouped_allreduce, hvd.grouped_reducescatter):
            raises(hvd.HorovodInternalError, collective, [torch.ones(1, 2), odd], name="odd",
                   says="odd[1]: rank 0 wants ")
        raises(hvd.HorovodInternalError, hvd.grouped_allgather, [torch.ones(1), odd.view(1, -1)],
               name="odd", says="odd[1]: rank 0 wants ")
    number = hvd.grouped_allgather_async([torch.ones(1)] * (1 + (r == 1)), name="number")
    raises(hvd.HorovodInternalError, hvd.synchronize, number, says="a group of 2 tensors")
    raises(ValueError, hvd.grouped_allgather_async, [])
    raises(ValueError, hvd.grouped_reducescatter_async, [])
    equal(hvd.grouped_allgather([torch.ones(1)], name="number")[0], torch.ones(n))


def gathered(world, ranks, i):
    """Of the member i of groups_that_move()."""
    return torch.cat([torch.full(((r + i) % 3, i + 1), float(r)) for r in world if r in ranks]
                     + [torch.empty(0, i + 1)])


def move_groups(ranks, **how):
    """Groups that are gathered and dealt out, of which only some ranks have something."""
    r, world = hvd.rank(), how["process_set"].ranks if how else list(range(hvd.size()))
    place = world.index(r)
    kinds = [torch.float32, torch.int32, torch.complex64, torch.bfloat16]
    mine = [torch.full(((r + i) % 3, i + 1), float(r)).to(k) for i, k in enumerate(kinds)]
    for i, got in enumerate(hvd.grouped_allgather(mine, name="move", **how)):
        equal(got, gathered(world, ranks, i).to(kinds[i]))
    kinds[2] = torch.uint8
    mine = [torch.arange(2 * len(world)).to(k) + r for k in kinds]
    want = torch.arange(2 * len(world)) * len(ranks) + sum(ranks)
    for got, k in zip(hvd.grouped_reducescatter(mine, op=hvd.Sum, name="move", **how), kinds):
        equal(got, want.to(k)[2 * place:2 * place + 2])


@check
def groups_that_move():
    n, r = hvd.size(), hvd.rank()
    move_groups(range(n))
    ends = hvd.add_process_set([0, n - 1] if n > 1 else [0])
    if ends.included():
        move_groups(ends.ranks, process_set=ends)
    assert hvd.remove_process_set(ends)
    for early in range(n):  # the others go on without the one that has joined
        others = [i for i in range(n) if i != early]
        if r != early:
            move_groups(others)
            x, y = hvd.grouped_allreduce([torch.ones(3), torch.ones(2).int()], op=hvd.Sum)
            equal(x, torch.full((3,), n - 1.0)), equal(y, torch.full((2,), n - 1).int())
        hvd.join()


@check
def joining():
    n, r = hvd.size(), hvd.rank()
    for round_ in range(2):
        for early in range(n):
            if r != early:
                others = sum(range(n)) - early
                x = torch.arange(4.0) + r
                want = (n - 1) * torch.arange(4.0) + others
                equal(hvd.allreduce(x, op=hvd.Sum, name="known"), want)
                assert torch.allclose(hvd.allreduce(x), want / n)  # divided by all
                got = hvd.allgather(torch.tensor([r]))
                assert got.tolist() == [i for i in range(n) if i != early]
            last = hvd.join()
            assert n == 1 or last != early
            assert hvd.allgather_object(last) == [last] * n
    hvd.barrier()


def sparse_of(rank, early, shape):
    """What a rank adds up beside one that has joined: a place twice, one of all, or nothing."""
    if rank == (early + 2) % hvd.size():
        return torch.zeros(shape).to_sparse(1)
    at = torch.tensor([[rank, 5, rank]])
    values = (torch.arange(3.0) + rank).view(3, *[1] * (len(shape) - 1)).expand(3, *shape[1:])
    return torch.sparse_coo_tensor(at, values, shape)


@check
def sparse_beside_who_has_joined():
    n, r = hvd.size(), hvd.rank()
    for early in range(n):
        for step in range(2 if r != early else 0):
            for shape in ((6,), (6, 2)):
                total = sum(sparse_of(i, early, shape).to_dense() for i in range(n) if i != early)
                mine = sparse_of(r, early, shape)
                name = f"sparse.{len(shape)}"
                summed = hvd.sparse_allreduce_async(mine, name, hvd.Sum)
                average = hvd.sparse_allreduce_async(mine, f"{name}.average", hvd.Average)
                # divided by all, as where they are dense
                dense = hvd.allreduce(mine.to_dense(), name="dense")
                assert torch.allclose(average().to_dense(), total / n)
                assert torch.allclose(dense, total / n)
                equal(summed().to_dense(), total)
        last = hvd.join()
        assert last != early
    total = sum(sparse_of(i, n, (6, 2)).to_dense() for i in range(n))
    equal(hvd.sparse_allreduce_async(sparse_of(r, n, (6, 2)), "all", hvd.Sum)().to_dense(), total)


@check
def sparse_gradients_beside_who_has_joined():
    n, r = hvd.size(), hvd.rank()
    for as_dense in (False, True):
        torch.manual_seed(1)
        table = torch.nn.Embedding(10, 3, sparse=True)
        alone = copy.deepcopy(table)
        opt = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.5),
                                       table.named_parameters(), sparse_as_dense=as_dense)
        rows = [torch.tensor([i, i + 1, 7]) for i in range(n)]
        early = n - 1
        if r != early:
            table(rows[r]).sum().backward()
            opt.step()
            (alone(torch.cat(rows[:early])).sum() / n).backward()
            torch.optim.SGD(alone.parameters(), lr=0.5).step()
            assert torch.allclose(table.weight, alone.weight, atol=1e-6)
        hvd.join()


@check
def adasum():
    n, r = hvd.size(), hvd.rank()
    x = torch.arange(1.0, 9.0)
    assert torch.allclose(hvd.allreduce(x, op=hvd.Adasum), x)  # equal ones count once
    unit = torch.zeros(n + 3)
    unit[r] = r + 1.0  # orthogonal ones add up
    want = torch.cat([torch.arange(1.0, n + 1), torch.zeros(3)])
    assert torch.allclose(hvd.allreduce(unit, op=hvd.Adasum, name="unit"), want)
    g = torch.Generator().manual_seed(r)
    pair = hvd.add_process_set([0, n - 1])
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        t = torch.randn(1000, generator=g).to(dtype)
        out = hvd.allreduce(t, op=hvd.Adasum)
        everywhere_equal(out)
        if pair.included():
            a, b = hvd.allgather(t.view(1, -1), process_set=pair).double()
            dot = a @ b
            want = (1 - dot / (2 * a @ a)) * a + (1 - dot / (2 * b @ b)) * b
            out = hvd.allreduce(t, op=hvd.Adasum, process_set=pair)
            assert torch.allclose(out.double(), want, rtol=2e-2, atol=2e-2)
    hvd.barrier()
    assert hvd.remove_process_set(pair)
    equal(hvd.grouped_allreduce([x, x], op=hvd.Adasum)[1], hvd.allreduce(x, op=hvd.Adasum))


if __name__ == "__main__":
    os.environ["RINGUP_JOIN"] = "all"
    ops.main(check)
