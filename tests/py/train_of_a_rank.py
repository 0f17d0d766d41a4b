# train_of_a_rank.py - what test_checks.py starts on every rank: training, and its edges.
# SPDX-License-Identifier: Apache-2.0
"""The reference is one process that trains on the ranks' batches joined into one."""

import copy
import gc
import warnings

import ops_of_a_rank as ops
import torch
from checks import Checks, raises
from ops_of_a_rank import equal, everywhere_equal

import horovod.torch as hvd

check = Checks()


def net(seed=3):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def batches(step, rows=4):
    """Every rank's (x, y) of a step."""
    g = torch.Generator().manual_seed(1000 + step)
    x = torch.randn(hvd.size(), rows, 6, generator=g)
    return x, torch.randn(hvd.size(), rows, 2, generator=g)


def loss_of(model, x, y):
    return torch.nn.functional.mse_loss(model(x), y)


def compare(make, steps=4, passes=1, tolerance=1e-5, **kwargs):
    """Train with make(parameters) on all ranks and in one process; the results must agree."""
    model, alone = net(), net()
    ours = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters(),
                                    backward_passes_per_step=passes, **kwargs)
    theirs = make(alone.parameters())
    for step in range(steps):
        ours.zero_grad()
        theirs.zero_grad()
        for i in range(passes):
            x, y = batches(step * passes + i)
            loss_of(model, x[hvd.rank()], y[hvd.rank()]).backward()
            loss_of(alone, x.flatten(0, 1), y.flatten(0, 1)).backward()
        if kwargs.get("op") == hvd.Sum:
            for p in alone.parameters():
                p.grad *= hvd.size()
        ours.step()
        theirs.step()
        for p, q in zip(model.parameters(), alone.parameters()):
            assert torch.allclose(p, q, atol=tolerance), (step, (p - q).abs().max())
            everywhere_equal(p)
    return model, ours


@check
def every_optimizer_trains_as_on_the_joined_batch():
    o = torch.optim
    for make in (lambda p: o.SGD(p, lr=0.1), lambda p: o.SGD(p, lr=0.1, momentum=0.9,
                                                             nesterov=True, weight_decay=0.01),
                 lambda p: o.RMSprop(p, lr=0.01), lambda p: o.Adagrad(p, lr=0.05)):
        compare(make)
    for make in (lambda p: o.Adam(p, lr=0.01), lambda p: o.AdamW(p, lr=0.01, amsgrad=True)):
        compare(make, tolerance=1e-3)


@check
def options():
    def sgd(p):
        return torch.optim.SGD(p, lr=0.1, momentum=0.9)

    compare(sgd, op=hvd.Sum)
    compare(sgd, passes=3)
    compare(sgd, gradient_predivide_factor=4.0)
    compare(sgd, groups=2)
    compare(sgd, compression=hvd.Compression.fp16, tolerance=5e-3)
    compare(sgd, compression=hvd.Compression.bf16, tolerance=3e-2)


@check
def a_closure():
    model = net()
    opt = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    x, y = batches(0)
    loss_of(model, x[hvd.rank()], y[hvd.rank()]).backward()
    assert opt.step(lambda: torch.tensor(5.0)) == 5


@check
def closures_that_compute_gradients():
    o = torch.optim
    for make, of_loss, op, times in (
            (lambda p: o.SGD(p, lr=0.1, momentum=0.9), lambda loss: loss, hvd.Average, 1),
            (lambda p: o.SGD(p, lr=0.1), lambda loss: loss, hvd.Sum, hvd.size()),
            (lambda p: o.LBFGS(p, lr=0.5, max_iter=4), lambda loss: loss, hvd.Average, 1),
            (lambda p: o.LBFGS(p, max_iter=4, line_search_fn="strong_wolfe"),
             lambda loss: loss.item(), hvd.Average, 1)):
        model, alone = net().double(), net().double()
        ours = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters(), op=op)
        theirs = make(alone.parameters())
        for step in range(3):
            x, y = (t.double() for t in batches(step))

            def closure_of(opt, net_, *batch):
                def closure():
                    opt.zero_grad()
                    loss = loss_of(net_, *batch) * (times if net_ is alone else 1)
                    loss.backward()
                    return of_loss(loss)
                return closure

            got = ours.step(closure_of(ours, model, x[hvd.rank()], y[hvd.rank()]))
            want = theirs.step(closure_of(theirs, alone, x.flatten(0, 1), y.flatten(0, 1)))
            assert abs(float(got) - float(want)) < 1e-9 and isinstance(got, type(want)), (got, want)
            for p, q in zip(model.parameters(), alone.parameters()):
                assert torch.allclose(p, q, atol=1e-6), (step, (p - q).abs().max())
                everywhere_equal(p)
    with_none = hvd.DistributedOptimizer(o.SGD(net().parameters(), lr=0.1))
    assert with_none.step(lambda: None) is None
    # An empty batch has a loss of 0, which is as good as 0.0.
    assert with_none.step(lambda: 0 if hvd.rank() == 0 else 1.0) == (hvd.size() - 1) / hvd.size()


@check
def closures_after_a_backward():
    def trained(op, times, act):
        model, alone = net(), net()
        opt = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), op=op)
        x, y = batches(0)

        def closure():
            opt.zero_grad()
            loss = loss_of(model, x[hvd.rank()], y[hvd.rank()])
            loss.backward()
            return loss

        loss_of(model, x[hvd.rank()], y[hvd.rank()]).backward()
        act(opt, closure)
        (loss_of(alone, x.flatten(0, 1), y.flatten(0, 1)) * times).backward()
        torch.optim.SGD(alone.parameters(), lr=0.1).step()
        for p, q in zip(model.parameters(), alone.parameters()):
            assert torch.allclose(p, q, atol=1e-5), (p - q).abs().max()
            everywhere_equal(p)

    def skipping(opt, closure):
        opt.synchronize()
        with opt.skip_synchronize():
            opt.step(closure)

    for op, times in ((hvd.Average, 1), (hvd.Sum, hvd.size())):
        trained(op, times, lambda opt, closure: opt.step(closure))
        trained(op, times, lambda opt, closure: opt.step(lambda: None))
        trained(op, times, skipping)


@check
def several_parameter_groups_and_a_schedule():
    model = net()
    opt = torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.5},
                           {"params": model[2].parameters()}], lr=0.1, momentum=0.9)
    opt = hvd.DistributedOptimizer(opt, model.named_parameters())
    schedule = torch.optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(3):
            x, y = batches(step)
            opt.zero_grad(set_to_none=step % 2 == 0)
            loss_of(model, x[hvd.rank()], y[hvd.rank()]).backward()
            opt.step()
            schedule.step()
    assert [g["lr"] for g in opt.param_groups] == [0.5 / 8, 0.1 / 8]
    assert isinstance(opt, torch.optim.SGD) and opt.__class__.__name__ == "SGD"
    for p in model.parameters():
        everywhere_equal(p)


@check
def step_hooks_run_once():
    model = net()
    opt = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    ran = []
    opt.register_step_pre_hook(lambda *_: ran.append("before"))
    opt.register_step_post_hook(lambda *_: ran.append("after"))
    opt.step()
    assert ran == ["before", "after"], ran


@check
def clipping_between_synchronize_and_step():
    model, alone = net(), net()
    ours = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    theirs = torch.optim.SGD(alone.parameters(), lr=0.1)
    x, y = batches(0)
    loss_of(model, x[hvd.rank()], y[hvd.rank()]).backward()
    loss_of(alone, x.flatten(0, 1), y.flatten(0, 1)).backward()
    ours.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.01)
    with ours.skip_synchronize():
        ours.step()
    theirs.step()
    for p, q in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(p, q, atol=1e-6)


@check
def misuse_is_noticed():
    model = net()
    x, y = batches(0)
    opt = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                   model.named_parameters())
    if hvd.size() > 1:
        loss_of(model, x[0], y[0]).backward()
        raises(AssertionError, loss_of(model, x[0], y[0]).backward,
               says="backward_passes_per_step")
        opt.zero_grad()
        loss_of(model, x[0], y[0]).backward()
        opt.synchronize()
        with warnings.catch_warnings(record=True) as ws:
            warnings.simplefilter("always")
            opt.step()
        assert len(ws) == 1 and "skip_synchronize" in str(ws[0].message)
    sgd, named = torch.optim.SGD(model.parameters(), lr=0.1), list(model.named_parameters())
    wrap = hvd.DistributedOptimizer
    raises(ValueError, wrap, sgd, named[:1], says="without a name")
    raises(ValueError, wrap, sgd, [("a", p) for _, p in named], says="unique")
    raises(ValueError, wrap, sgd, [p for _, p in named], says="pairs")
    raises(ValueError, wrap, sgd, backward_passes_per_step=0)
    raises(ValueError, wrap, sgd, op=hvd.Sum, gradient_predivide_factor=2.0)
    raises(ValueError, wrap, sgd, groups=-1)
    raises(ValueError, wrap, sgd, groups=[[named[0][1]], [named[0][1]]])
    raises(ValueError, wrap, sgd, op=hvd.Max)


@check
def a_parameter_that_only_one_rank_uses():
    if hvd.size() == 1:
        return  # nothing is sent, so torch decides what an unused parameter's gradient is
    used, unused, mixed = (torch.nn.Parameter(torch.ones(3)) for _ in range(3))
    opt = hvd.DistributedOptimizer(torch.optim.SGD([used, unused, mixed], lr=1.0))
    loss = used.sum()
    if hvd.rank() == 0:
        loss = loss + mixed.sum() * hvd.size()
    loss.backward()
    opt.step()
    equal(used.detach(), torch.zeros(3))
    equal(unused.detach(), torch.ones(3))
    equal(mixed.detach(), torch.zeros(3))


@check
def parameters_that_are_frozen_for_a_while():
    model = net()
    opt = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    x, y = batches(0)
    for frozen in (True, False, True):
        for p in model[0].parameters():
            p.requires_grad_(not frozen)
        opt.zero_grad()
        loss_of(model, x[hvd.rank()], y[hvd.rank()]).backward()
        opt.step()
    for p in model.parameters():
        everywhere_equal(p)


@check
def sparse_gradients():
    for as_dense in (False, True):
        torch.manual_seed(1)
        table = torch.nn.Embedding(10, 3, sparse=True)
        alone = copy.deepcopy(table)
        ours = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.5),
                                        table.named_parameters(), sparse_as_dense=as_dense)
        theirs = torch.optim.SGD(alone.parameters(), lr=0.5)
        for step in range(3):
            ours.zero_grad()
            theirs.zero_grad()
            rows = [torch.tensor([r, r + 1, step]) for r in range(hvd.size())]
            table(rows[hvd.rank()]).sum().backward()
            (alone(torch.cat(rows)).sum() / hvd.size()).backward()
            ours.step()
            theirs.step()
        assert torch.allclose(table.weight, alone.weight, atol=1e-5)
    s = torch.sparse_coo_tensor([[hvd.rank()]], [1.0], (8,))
    total = hvd.sparse_allreduce_async(s, "s", hvd.Sum)().to_dense()
    equal(total, (torch.arange(8) < hvd.size()).float())


@check
def sparse_gradients_of_an_optimizer_that_takes_no_others():
    for restored in (False, True):  # root's, where the others' are new
        torch.manual_seed(1)
        table = torch.nn.Embedding(10, 3, sparse=True)
        opt = torch.optim.SparseAdam(list(table.parameters()), lr=0.1)
        if restored and hvd.rank() == 0:
            table(torch.tensor([3])).sum().backward()
            opt.step()
            opt.zero_grad()
        hvd.broadcast_parameters(table.state_dict(), 0)
        hvd.broadcast_optimizer_state(opt, 0)
        opt = hvd.DistributedOptimizer(opt, table.named_parameters())
        table(torch.tensor([hvd.rank(), 5])).sum().backward()
        opt.step()
        everywhere_equal(table.weight)


@check
def half_precision_models():
    for dtype in (torch.float16, torch.bfloat16):
        w = torch.nn.Parameter(torch.full((4,), 2.0, dtype=dtype))
        opt = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=1.0))
        (w * float(hvd.rank())).sum().backward()
        opt.step()
        equal(w.detach(), torch.full((4,), 2 - (hvd.size() - 1) / 2, dtype=dtype))


@check
def parameters_become_those_of_root():
    for root in range(hvd.size()):
        model = torch.nn.Sequential(net(seed=hvd.rank()), torch.nn.BatchNorm1d(2))
        model[1].running_mean += hvd.rank()
        want = torch.nn.Sequential(net(seed=root), torch.nn.BatchNorm1d(2))
        want[1].running_mean += root
        hvd.broadcast_parameters(model.state_dict(), root_rank=root)
        for name, t in model.state_dict().items():
            equal(t, want.state_dict()[name])
        hvd.broadcast_parameters(list(model.named_parameters()), root)
        hvd.broadcast_parameters(list(model.parameters()), root)


@check
def optimizer_state_becomes_that_of_root():
    o = torch.optim
    for make in (lambda p, lr: o.SGD(p, lr=lr), lambda p, lr: o.SGD(p, lr=lr, momentum=0.9),
                 lambda p, lr: o.Adam(p, lr=lr), lambda p, lr: o.AdamW(p, lr=lr, amsgrad=True),
                 lambda p, lr: o.RMSprop(p, lr=lr, centered=True),
                 lambda p, lr: o.LBFGS(p, lr=lr)):
        root = hvd.size() - 1
        model = net()
        opt = make(model.parameters(), 0.1 + hvd.rank())
        if hvd.rank() == root:  # the others have not taken a step
            def closure():
                opt.zero_grad()
                loss = model(torch.ones(2, 6)).sum()
                loss.backward()
                return loss
            opt.step(closure)
        before = [p.detach().clone() for p in model.parameters()]
        hvd.broadcast_optimizer_state(opt, root_rank=root)
        for p, q in zip(model.parameters(), before):
            equal(p.detach(), q)  # only the state has changed
        assert opt.param_groups[0]["lr"] == 0.1 + root
        states = hvd.allgather_object(opt.state_dict())
        for s in states:
            same(s, states[0])
        assert states[0]["state"] or "momentum" in opt.param_groups[0]


@check
def what_a_program_keeps_in_the_state_becomes_root_s():
    for made in (lambda r: torch.tensor(7 + r), lambda r: {"seen": [r, torch.ones(2) * r]}):
        opt = torch.optim.SGD(net().parameters(), lr=0.1, momentum=0.9)
        opt.state["steps"] = made(hvd.rank())
        if hvd.rank():
            opt.state["mine"] = 1
        hvd.broadcast_optimizer_state(opt, root_rank=0)
        same(dict(opt.state), {"steps": made(0)})


def same(a, b):
    """Nested containers with tensors are equal."""
    if isinstance(a, torch.Tensor):
        equal(a, b)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for k in a:
            same(a[k], b[k])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    else:
        assert a == b, (a, b)


@check
def a_wrapped_optimizer_keeps_its_state_and_saves_it():
    model, opt = compare(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), steps=2)
    state = copy.deepcopy(opt.state_dict())
    inner = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9)
    inner.load_state_dict(state)
    again = hvd.DistributedOptimizer(inner, model.named_parameters())
    same(again.state_dict(), state)
    del opt, inner  # with them go their hooks
    gc.collect()
    x, y = batches(9)
    loss_of(model, x[0], y[0]).backward()
    again.load_state_dict(state)  # with gradients on their way
    again.zero_grad()
    same(again.state_dict(), state)


@check
def groups_of_gradients():
    make = lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)  # noqa: E731
    for kwargs in ({}, {"gradient_predivide_factor": 2.0}, {"compression": hvd.Compression.fp16},
                   {"op": hvd.Sum}):
        tolerance = 1e-2 if "compression" in kwargs else 1e-5
        compare(make, groups=3, tolerance=tolerance, **kwargs)
    compare(make, groups=100, passes=2)
    model = net()
    first, *others = model.parameters()
    opt = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0),
                                   model.named_parameters(), groups=[[others[0], first]])
    assert len(opt._unit_of) == 4 and len(set(opt._unit_of.values())) == 3
    # a rank whose loss leaves parameters out takes part in their groups all the same
    (model[2] if hvd.rank() else model)(torch.ones(1, 8 if hvd.rank() else 6)).sum().backward()
    opt.step()
    for p in model.parameters():
        everywhere_equal(p)


@check
def an_optimizer_of_a_process_set():
    few = hvd.add_process_set(range(hvd.size() - 1))
    model = net()
    opt = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                   model.named_parameters(), process_set=few)
    x, y = batches(0)
    loss_of(model, x[hvd.rank()], y[hvd.rank()]).backward()
    opt.step()
    alone, ranks = net(), few.ranks if few.included() else [hvd.rank()]
    sgd = torch.optim.SGD(alone.parameters(), lr=0.1)
    loss_of(alone, x[ranks].flatten(0, 1), y[ranks].flatten(0, 1)).backward()
    sgd.step()
    for p, q in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(p, q, atol=1e-6)
    assert hvd.remove_process_set(few)


@check
def adasum_combines_what_steps_change():
    for passes in (1, 2):
        model = net()
        opt = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                       model.named_parameters(), op=hvd.Adasum,
                                       backward_passes_per_step=passes)
        for _ in range(passes):  # the same on all ranks: the sum of equals is one of them
            x, y = batches(0)
            loss_of(model, x[0], y[0]).backward()
        opt.step()
        alone = net()
        sgd = torch.optim.SGD(alone.parameters(), lr=0.1)
        for _ in range(passes):
            loss_of(alone, x[0], y[0]).backward()
        sgd.step()
        for p, q in zip(model.parameters(), alone.parameters()):
            assert torch.allclose(p, q, atol=1e-6)
    for step in range(5):  # different ones: the ranks stay together
        opt.zero_grad()
        x, y = batches(step)
        loss_of(model, x[hvd.rank()], y[hvd.rank()]).backward()
        opt.step()
    for p in model.parameters():
        everywhere_equal(p)
    raises(AssertionError, opt.skip_synchronize)


@check
def batches_are_normalized_together():
    n, r = hvd.size(), hvd.rank()
    for shape, kind in (((7, 3), torch.nn.BatchNorm1d), ((5, 3, 4, 2), torch.nn.BatchNorm2d)):
        g = torch.Generator().manual_seed(5)
        parts = [torch.randn(shape[0] + i, *shape[1:], generator=g) * (i + 1) + 100
                 for i in range(n)]
        whole = torch.cat(parts).requires_grad_()
        mine = parts[r].clone().requires_grad_()
        ours, theirs = hvd.SyncBatchNorm(3), kind(3)
        for _ in range(2):
            want = theirs(whole).split([len(p) for p in parts])[r]
            got = ours(mine)
        assert torch.allclose(got, want, atol=1e-4), (got - want).abs().max()
        assert torch.allclose(ours.running_mean, theirs.running_mean, atol=1e-4)
        assert torch.allclose(ours.running_var, theirs.running_var, rtol=1e-4)
        weights = torch.cat([torch.arange(float(p.numel())).view(p.shape).sin() for p in parts])
        (theirs(whole) * weights).sum().backward()
        at = sum(len(p) for p in parts[:r])
        (ours(mine) * weights[at:at + len(mine)]).sum().backward()
        assert torch.allclose(mine.grad, whole.grad[at:at + len(mine)], atol=1e-4)
        theirs.eval(), ours.eval()
        assert torch.allclose(ours(mine), theirs(whole)[at:at + len(mine)], atol=1e-4)
    raises(ValueError, hvd.SyncBatchNorm(3), torch.ones(3))


@check
def normalization_without_weight_or_bias():
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    for lacking in (("weight",), ("bias",), ("weight", "bias"), ("running_mean", "running_var")):
        ours, theirs = hvd.SyncBatchNorm(3), torch.nn.BatchNorm1d(3)
        for m in (ours, theirs):
            with torch.no_grad():
                m.weight += 1
                m.bias += 2
            for name in lacking:
                setattr(m, name, None)
            m.track_running_stats = m.running_mean is not None
        for train in (True, False):
            got, want = ours.train(train)(x), theirs.train(train)(x.repeat(hvd.size(), 1))[:4]
            assert torch.allclose(got, want, atol=1e-5), (lacking, got, want)


@check
def the_state_of_lbfgs_is_broadcast():
    model = net(hvd.rank())
    opt = torch.optim.LBFGS(model.parameters(), max_iter=3)
    x, y = batches(0)

    def closure():
        opt.zero_grad()
        loss = loss_of(model, x[hvd.rank()], y[hvd.rank()])
        loss.backward()
        return loss

    if hvd.rank() == 0:
        opt.step(closure)
    hvd.broadcast_optimizer_state(opt, 0)
    states = hvd.allgather_object(opt.state_dict())
    for s in states:
        same(s, states[0])
    assert states[0]["state"]


if __name__ == "__main__":
    ops.main(check)
