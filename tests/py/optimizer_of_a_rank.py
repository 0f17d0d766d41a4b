# optimizer_of_a_rank.py - what test_optimizer.py starts on every rank: gradients that change.
# SPDX-License-Identifier: Apache-2.0
"""The reference is one process that does the same on the ranks' batches joined into one."""

import contextlib
import copy
import gc
import io
import os
import warnings

import ops_of_a_rank as ops
import torch
from checks import Checks, raises
from ops_of_a_rank import equal, everywhere_equal
from train_of_a_rank import batches, loss_of, net

import horovod.torch as hvd

check = Checks()
SGD = torch.optim.SGD
clip = torch.nn.utils.clip_grad_norm_


def sgd(params):
    return SGD(params, lr=0.1, momentum=0.9)


def mine(step):
    """This rank's batch."""
    x, y = batches(step)
    return x[hvd.rank()], y[hvd.rank()]


def joined(step):
    """All ranks' batches as one."""
    x, y = batches(step)
    return x.flatten(0, 1), y.flatten(0, 1)


def alike(model, alone, tolerance=1e-5):
    """Are the weights those of one process, and the same everywhere?"""
    for p, q in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(p, q, atol=tolerance), (p - q).abs().max()
        everywhere_equal(p)


def same_everywhere(model):
    for p in model.parameters():
        everywhere_equal(p)


def compare(step_of, make=sgd, steps=3, model=net, tolerance=1e-5, **kwargs):
    """Train with step_of(step, model, optimizer, batch), wrapped and in one process."""
    ours, alone = model(), model()
    o = hvd.DistributedOptimizer(make(ours.parameters()), ours.named_parameters(), **kwargs)
    theirs = make(alone.parameters())
    for step in range(steps):
        step_of(step, ours, o, mine(step))
        step_of(step, alone, theirs, joined(step))
        alike(ours, alone, tolerance)
    return ours, o


class Partly(torch.nn.Module):
    """A model one layer of which is never used."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.a, self.idle, self.b = (torch.nn.Linear(6, 8), torch.nn.Linear(3, 3),
                                     torch.nn.Linear(8, 2))

    def forward(self, x):
        return self.b(self.a(x).tanh())


@check
def clipping_without_synchronize():
    def step_of(step, model, opt, batch):
        opt.zero_grad(set_to_none=step % 2 == 0)
        loss_of(model, *batch).backward()
        clip(model.parameters(), 0.01)
        opt.step()

    compare(step_of)
    compare(step_of, groups=2)
    compare(step_of, model=Partly)
    compare(step_of, model=Partly, groups=2)
    compare(step_of, compression=hvd.Compression.bf16, tolerance=1e-3)
    compare(step_of, gradient_predivide_factor=2.0, groups=1)


@check
def clipping_after_several_backwards():
    def step_of(step, model, opt, batch):
        opt.zero_grad()
        for part in range(2):
            loss_of(model, *(t[part::2] for t in batch)).backward()
        clip(model.parameters(), 0.01)
        opt.step()

    compare(step_of, backward_passes_per_step=2)


@check
def gradients_changed_by_hand():
    def times(model, f):
        for p in model.parameters():
            f(p)

    def replaced(p):
        p.grad = p.grad * 0.5

    def by_numpy(p):
        p.grad.numpy()[...] *= 0.5

    def by_data(p):
        p.grad.data.mul_(0.5)

    for f in (lambda p: p.grad.mul_(0.5), replaced, by_numpy, by_data,
              lambda p: p.grad.clamp_(-0.01, 0.01), lambda p: p.grad.copy_(p.grad.sign())):
        def step_of(step, model, opt, batch, f=f):
            opt.zero_grad()
            loss_of(model, *batch).backward()
            times(model, f)
            opt.step()

        compare(step_of, make=lambda p: SGD(p, lr=0.1))


@check
def reading_gradients_on_one_rank():
    def step_of(step, model, opt, batch):
        opt.zero_grad()
        loss_of(model, *batch).backward()
        if hvd.rank() == 0:
            assert all(p.grad.isfinite().all() and p.grad.shape == p.shape
                       for p in model.parameters())
        opt.step()

    compare(step_of)
    model, opt = compare(step_of, groups=1)
    loss_of(model, *mine(0)).backward()
    p = model[0].weight
    seen = p.grad
    assert seen.shape == p.shape and seen.dtype == p.dtype and not seen.is_sparse
    everywhere_equal(p.grad)
    equal(seen.detach(), p.grad)
    assert type(p.grad) is torch.Tensor and "tensor(" in repr(seen)
    equal(copy.deepcopy(seen), p.grad)
    opt.step()


@check
def hooks_that_change_gradients():
    for before in (True, False):
        def step_of(step, model, opt, batch, before=before):
            opt.zero_grad()
            loss_of(model, *batch).backward()
            opt.step()

        def halve(p):
            p.grad.mul_(0.5)

        def halved(model):
            for p in model.parameters():
                p.register_post_accumulate_grad_hook(halve)
            return model

        ours, alone = net(), halved(net())
        if before:
            halved(ours)
        opt = hvd.DistributedOptimizer(sgd(ours.parameters()), ours.named_parameters())
        theirs = sgd(alone.parameters())
        if not before:
            halved(ours)
        for step in range(3):
            step_of(step, ours, opt, mine(step))
            step_of(step, alone, theirs, joined(step))
        alike(ours, alone)
    # an optimizer for each parameter, which steps inside backward()
    ours, alone = net(), net()
    for model, wrapped in ((ours, True), (alone, False)):
        for name, p in model.named_parameters():
            opt = SGD([p], lr=0.1)
            if wrapped:
                opt = hvd.DistributedOptimizer(opt, [(name, p)])

            def stepped(p, opt=opt):
                opt.step()
                opt.zero_grad()

            p.register_post_accumulate_grad_hook(stepped)
    for step in range(3):
        loss_of(ours, *mine(step)).backward()
        loss_of(alone, *joined(step)).backward()
    alike(ours, alone)


@check
def memory_that_a_program_shares_with_gradients():
    """Gradients are views of one vector, which the program changes without asking them."""
    for synchronized in (True, False):
        model, alone = net(), net()
        opt = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
        theirs = sgd(alone.parameters())
        flat = torch.zeros(sum(p.numel() for p in model.parameters()))
        for p, part in zip(model.parameters(),
                           flat.split([p.numel() for p in model.parameters()])):
            p.grad = part.view_as(p)
        loss_of(model, *mine(0)).backward()
        if synchronized:
            opt.synchronize()
        flat.mul_(0.5)
        if synchronized:
            with opt.skip_synchronize():
                opt.step()
            loss_of(alone, *joined(0)).backward()
            for p in alone.parameters():
                p.grad.mul_(0.5)
            theirs.step()
            alike(model, alone)
        elif hvd.size() > 1:
            raises(AssertionError, opt.step, says="optimizer.synchronize()")
            opt.zero_grad(set_to_none=True)
            loss_of(model, *mine(0)).backward()
            opt.step()
            same_everywhere(model)


@check
def gradients_that_are_cleared():
    if hvd.size() == 1:
        return
    model, opt = compare(lambda *_: None)
    loss_of(model, *mine(0)).backward()
    model.zero_grad()
    raises(AssertionError, opt.step, says="call zero_grad() before backward() or after step()")
    loss_of(model, *mine(0)).backward()
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    raises(AssertionError, opt.synchronize, says="optimizer.synchronize() before you replace")

    def cleared_by_model(step, model, opt, batch):
        loss_of(model, *joined(7)).backward()
        model.zero_grad(set_to_none=step != 1)  # and so these are forgotten
        loss_of(model, *batch).backward()
        opt.step()
        model.zero_grad()

    def cleared_by_optimizer(step, model, opt, batch):
        loss_of(model, *joined(7)).backward()
        opt.zero_grad(set_to_none=step != 1)
        loss_of(model, *batch).backward()
        opt.step()
        opt.zero_grad()

    for step_of in (cleared_by_model, cleared_by_optimizer):
        compare(step_of)
        compare(step_of, groups=2)

    def given_up(step, model, opt, batch):
        opt.zero_grad()
        loss_of(model, *batch).backward()
        if clip(model.parameters(), 0.1) > (0 if step == 1 else 1e9):
            model.zero_grad()
            return
        opt.step()

    compare(given_up)

    def twice_with_clearing(step, model, opt, batch):
        loss_of(model, *joined(7)).backward()
        model.zero_grad()
        for part in range(2):
            loss_of(model, *(t[part::2] for t in batch)).backward()
        opt.step()
        model.zero_grad()

    compare(twice_with_clearing, backward_passes_per_step=2)


@check
def gradients_collected_by_hand():
    def collected(step, model, opt, batch):
        sums = [torch.zeros_like(p) for p in model.parameters()]
        for part in range(2):
            opt.zero_grad()
            loss_of(model, *(t[part::2] for t in batch)).backward()
            for total, p in zip(sums, model.parameters()):
                total += p.grad
        for total, p in zip(sums, model.parameters()):
            p.grad = total
        opt.step()

    compare(collected)

    def sharpness_aware(step, model, opt, batch):
        opt.zero_grad()
        loss_of(model, *batch).backward()
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        moves = [0.05 * p.grad / norm for p in model.parameters()]
        with torch.no_grad():
            for p, move in zip(model.parameters(), moves):
                p.add_(move)
        opt.zero_grad()
        loss_of(model, *batch).backward()
        with torch.no_grad():
            for p, move in zip(model.parameters(), moves):
                p.sub_(move)
        opt.step()

    compare(sharpness_aware)

    def added(step, model, opt, batch):
        """Each backward() but the first adds to gradients that are combined already."""
        opt.zero_grad()
        for part in range(2):
            loss_of(model, *(t[part::2] for t in batch)).backward()
            model[0].weight.grad.isfinite()
            if isinstance(opt, hvd.optimizer.Wrapped):
                opt.synchronize()
        if isinstance(opt, hvd.optimizer.Wrapped):
            with opt.skip_synchronize():
                opt.step()
        else:
            opt.step()

    compare(added)
    if hvd.size() > 1:
        model = net()
        opt = hvd.DistributedOptimizer(sgd(model.parameters()), op=hvd.Sum)
        loss_of(model, *mine(0)).backward()
        opt.synchronize()
        raises(AssertionError, loss_of(model, *mine(0)).backward, says="zero_grad()")
        opt.zero_grad()


@check
def gradients_that_only_some_ranks_have():
    if hvd.size() == 1:
        return

    class Choosing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.all, self.some = torch.nn.Linear(6, 2), torch.nn.Linear(6, 2)

        def forward(self, x):
            return self.all(x) + (self.some(x) if hvd.rank() == 0 else 0)

    model = Choosing()
    opt = hvd.DistributedOptimizer(SGD(model.parameters(), lr=0.1), model.named_parameters())
    x, y = mine(0)
    for _ in range(2):
        opt.zero_grad()
        loss_of(model, x, y).backward()
        opt.synchronize()
        clip(model.parameters(), 0.01)
        with opt.skip_synchronize():
            opt.step()
    same_everywhere(model)
    # without synchronize() only rank 0 sees all gradients: the others must not go on
    opt.zero_grad()
    loss_of(model, x, y).backward()
    clip(model.parameters(), 0.01)
    if hvd.rank() == 0:
        opt.step()
    else:
        raises(AssertionError, opt.step, says="optimizer.synchronize() before you clip")
    opt.zero_grad()
    hvd.broadcast_parameters(model.state_dict(), 0)
    # GradScaler waits for all by itself
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for _ in range(2):
        opt.zero_grad()
        scaler.scale(loss_of(model, x, y)).backward()
        scaler.unscale_(opt)
        clip(model.parameters(), 0.01)
        scaler.step(opt)
        scaler.update()
    same_everywhere(model)


def scaled(way):
    """A step with GradScaler, as torch or Horovod documents it."""
    scalers = {}

    def step_of(step, model, opt, batch):
        scaler = scalers.setdefault(id(opt), torch.amp.GradScaler(
            "cpu", init_scale=1024.0, growth_interval=2))
        scalers[id(opt), 0] = opt  # or another may get its id
        opt.zero_grad()
        scaler.scale(loss_of(model, *batch)).backward()
        wrapped = isinstance(opt, hvd.optimizer.Wrapped)
        if way == "horovod" and wrapped:
            opt.synchronize()
        if way != "plain":
            scaler.unscale_(opt)
            clip(model.parameters(), 0.05)
        if way == "horovod" and wrapped:
            with opt.skip_synchronize():
                scaler.step(opt)
        else:
            scaler.step(opt)
        scaler.update()

    return step_of


@check
def grad_scaler():
    for way in ("plain", "clipped", "horovod"):
        compare(scaled(way), steps=5)
        compare(scaled(way), groups=2)
        compare(scaled(way), make=lambda p: torch.optim.Adam(p, lr=0.01), tolerance=1e-3)
    compare(scaled("plain"), make=lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
            tolerance=1e-3)
    compare(scaled("plain"), compression=hvd.Compression.fp16, tolerance=1e-2)


@check
def grad_scaler_when_one_rank_overflows():
    for op in (hvd.Average, hvd.Sum, hvd.Adasum):
        for fused in (False, True):
            model = net()
            opt = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), fused=fused),
                                           model.named_parameters(), op=op)
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            for step in range(4):
                opt.zero_grad()
                before = [p.detach().clone() for p in model.parameters()]
                loss = scaler.scale(loss_of(model, *mine(step)))
                if step in (1, 2) and hvd.rank() == hvd.size() - 1:
                    loss = loss * float("inf")
                loss.backward()
                scaler.step(opt)
                scaler.update()
                same = all(torch.equal(p, q) for p, q in zip(model.parameters(), before))
                assert same == (step in (1, 2)), (op, fused, step)
                assert scaler.get_scale() == 1024.0 / 2 ** min(step, 2), (op, scaler.get_scale())
                same_everywhere(model)


class Layers(torch.nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        torch.manual_seed(2)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x


@check
def optimizers_with_equal_names():
    # one for each layer; ranks make them in different orders, for shapes tell them apart
    model, alone = Layers(6, 5, 4, 2), Layers(6, 5, 4, 2)
    layers = list(model.layers)
    turn = layers[hvd.rank() % 3:] + layers[:hvd.rank() % 3]
    opts = [hvd.DistributedOptimizer(sgd(layer.parameters()), layer.named_parameters())
            for layer in turn]
    theirs = sgd(alone.parameters())
    for step in range(3):
        for opt in opts:
            opt.zero_grad()
        theirs.zero_grad()
        loss_of(model, *mine(step)).backward()
        loss_of(alone, *joined(step)).backward()
        for opt in opts:
            opt.step()
        theirs.step()
        alike(model, alone)
    # equal shapes, in the same order everywhere
    model, alone = Layers(6, 2, 2, 2), Layers(6, 2, 2, 2)
    opts = [hvd.DistributedOptimizer(sgd(layer.parameters())) for layer in model.layers]
    theirs = sgd(alone.parameters())
    for step in range(3):
        loss_of(model, *mine(step)).backward()
        loss_of(alone, *joined(step)).backward()
        for opt in (*opts, theirs):
            opt.step()
            opt.zero_grad()
    alike(model, alone)


@check
def a_generator_and_a_discriminator():
    def trained(wrapped, clear):
        torch.manual_seed(1)
        g, d = torch.nn.Linear(6, 2), torch.nn.Linear(2, 1)
        og, od = SGD(g.parameters(), 0.1), SGD(d.parameters(), 0.1)
        if wrapped:
            og = hvd.DistributedOptimizer(og, g.named_parameters())
            od = hvd.DistributedOptimizer(od, d.named_parameters())
        for step in range(3):
            x, y = mine(step) if wrapped else joined(step)
            clear(d, od)
            (d(y).mean() - d(g(x).detach()).mean()).backward()
            od.step()
            clear(g, og)
            (-d(g(x)).mean()).backward()  # the discriminator's gradients, too, for nothing
            og.step()
        return torch.nn.ModuleList([g, d])

    for clear in (lambda model, opt: opt.zero_grad(), lambda model, opt: model.zero_grad()):
        alike(trained(True, clear), trained(False, clear))


@check
def names_in_another_job():
    """Of the optimizers of a job that has ended, those that are left have the names that a rank
    gives which joins now."""
    from horovod.torch import parameter_names
    gc.collect()
    a, gone, b = Layers(6, 7), Layers(6, 7), Layers(6, 7)
    opts = [hvd.DistributedOptimizer(sgd(m.parameters()), m.named_parameters())
            for m in (a, gone, b)]
    name = lambda m, o: o._travel_name(m.layers[0].weight)  # noqa: E731
    assert len({name(m, o) for m, o in zip((a, gone, b), opts)}) == 3
    before = name(b, opts[2])
    del gone, opts[1]
    gc.collect()
    assert name(b, opts[1]) == before  # nothing depends on when that happens
    hvd.shutdown()
    hvd.init()
    fresh = [n for n in (name(a, opts[0]), name(b, opts[1]))]
    others = hvd.allgather_object(fresh)
    assert all(o == fresh for o in others) and len(set(fresh)) == 2, others
    assert not any(n.endswith(".3") for n in fresh), fresh
    again = hvd.DistributedOptimizer(sgd(a.parameters()), a.named_parameters())
    assert name(a, again) == name(a, opts[0])
    assert parameter_names.owner(a.layers[0].weight) is again


@check
def a_single_optimizer_keeps_its_names():
    hvd.shutdown()
    gc.collect()
    hvd.init()
    model = Layers(6, 3)
    opt = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    assert opt._travel_name(model.layers[0].bias) == "layers.0.bias"
    assert list(opt._parameter_names.values()) == ["layers.0.weight", "layers.0.bias"]
    copied = copy.deepcopy(opt) if hvd.rank() == 0 else None  # to save it, perhaps
    assert opt._travel_name(model.layers[0].bias) == "layers.0.bias", copied


@check
def parameters_added_later():
    for named in (True, False):
        model, alone = net(), net()
        opt = SGD(model[2].parameters(), 0.1)
        opt = hvd.DistributedOptimizer(opt, model.named_parameters() if named else None)
        theirs = SGD(alone[2].parameters(), 0.1)
        for step in range(4):
            if step == 2:
                opt.add_param_group({"params": list(model[0].parameters()), "lr": 0.05})
                theirs.add_param_group({"params": list(alone[0].parameters()), "lr": 0.05})
            opt.zero_grad(), theirs.zero_grad()
            loss_of(model, *mine(step)).backward()
            loss_of(alone, *joined(step)).backward()
            clip([p for g in opt.param_groups for p in g["params"]], 0.01)
            clip([p for g in theirs.param_groups for p in g["params"]], 0.01)
            opt.step(), theirs.step()
        for p in model[0].parameters():
            p.grad = None
        alike(model, alone)


@check
def parameters_that_go_or_come_without_a_word():
    for groups in (None, 2):
        model, alone = net(), net()
        opt = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(),
                                       groups=groups)
        theirs = sgd(alone.parameters())
        for step in range(4):
            for m, o in ((model, opt), (alone, theirs)):
                if step == 1:
                    del o.param_groups[0]["params"][0]
                if step == 3:
                    o.param_groups[0]["params"].append(m[0].weight)
            opt.zero_grad(), theirs.zero_grad()
            model[0].weight.grad = alone[0].weight.grad = None
            loss_of(model, *mine(step)).backward()
            loss_of(alone, *joined(step)).backward()
            opt.step(), theirs.step()
            alike(model, alone)


@check
def parameters_frozen_and_trained_again():
    def decaying(params):
        return SGD(params, lr=0.1, momentum=0.9, weight_decay=0.1)

    for first in (True, False):  # frozen when it is wrapped, or not
        for groups in (None, 2):
            model, alone = net(), net()
            for m in (model, alone):
                m[0].requires_grad_(not first)
            opt = hvd.DistributedOptimizer(decaying(model.parameters()), model.named_parameters(),
                                           groups=groups)
            theirs = decaying(alone.parameters())
            for step in range(6):
                for m in (model, alone):
                    m[0].requires_grad_((step // 2) % 2 == first)
                opt.zero_grad(), theirs.zero_grad()
                loss_of(model, *mine(step)).backward()
                loss_of(alone, *joined(step)).backward()
                clip(model.parameters(), 0.01)
                clip(alone.parameters(), 0.01)
                opt.step(), theirs.step()
                alike(model, alone)


@check
def what_cannot_be_wrapped():
    model = net()
    opt = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    raises(ValueError, hvd.DistributedOptimizer, opt, says="already")
    later = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    loss_of(model, *mine(0)).backward()
    if hvd.size() > 1:
        raises(ValueError, opt.step, says="a later DistributedOptimizer")
        with later.skip_synchronize():
            raises(AssertionError, later.step, says="optimizer.synchronize() first")
    later.step()
    same_everywhere(model)


def by_a_file(objects):
    """What torch reads of what it has written."""
    file = io.BytesIO()
    torch.save(objects, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@check
def copies_and_pickles():
    for op in (hvd.Average, hvd.Adasum):
        model, opt = net(), None
        opt = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), op=op,
                                       backward_passes_per_step=2)
        loss_of(model, *mine(0)).backward()
        loss_of(model, *mine(0)).backward()
        opt.step()
        opt.zero_grad()
        for copier in (copy.deepcopy, by_a_file):
            again, copied = copier([model, opt])
            assert type(copied).__name__ == "SGD" and isinstance(copied, SGD)
            assert copied.backward_passes_per_step == 2
            assert list(copied._parameter_names.values()) == list(opt._parameter_names.values())
            for step in range(2):
                for m, o in ((model, opt), (again, copied)):
                    for part in range(2):
                        x, y = mine(step)
                        loss_of(m, x[part::2], y[part::2]).backward()
                    o.step()
                    o.zero_grad()
            same_everywhere(again)
            for p, q in zip(again.parameters(), model.parameters()):
                equal(p.detach(), q.detach())


@check
def a_scheduler_made_before_wrapping():
    model = net()
    inner = sgd(model.parameters())
    schedules = [torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.5),
                 torch.optim.lr_scheduler.CyclicLR(inner, 0.01, 0.1, step_size_up=2)]
    state = copy.deepcopy(inner.state_dict())
    opt = hvd.DistributedOptimizer(inner, model.named_parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for schedule in schedules:
            for step in range(3):
                opt.zero_grad()
                loss_of(model, *mine(step)).backward()
                opt.step()
                schedule.step()
                assert opt.param_groups[0]["lr"] == schedule.get_last_lr()[0]
                if step == 1:
                    opt.load_state_dict(copy.deepcopy(state))
                    assert opt.param_groups[0]["momentum"] == state["param_groups"][0]["momentum"]


@check
def a_layer_shared_by_checkpoints():
    if hvd.size() == 1:
        return
    from torch.utils.checkpoint import checkpoint

    def step_of(step, model, opt, batch):
        x, y = batch
        for _ in range(2):
            x = checkpoint(model[0], x, use_reentrant=reentrant).tanh()
        opt.zero_grad()
        torch.nn.functional.mse_loss(model[1](x), y).backward()
        opt.step()

    def model():
        torch.manual_seed(4)
        return torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 2))

    reentrant = False
    compare(step_of, model=model)
    reentrant = True

    def needing(step, model, opt, batch):
        step_of(step, model, opt, (batch[0].clone().requires_grad_(), batch[1]))

    e = raises(AssertionError, compare, needing, model=model, says="use_reentrant=False")
    assert "backward_passes_per_step" in str(e)
    compare(needing, model=model, backward_passes_per_step=2)


@check
def a_reset_with_gradients_under_way():
    for way in ("load", "clear", "train", "fail"):
        model = net()
        opt = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
        loss_of(model, *mine(0)).backward()
        opt.step()
        opt.zero_grad()
        good = copy.deepcopy(model.state_dict()), copy.deepcopy(opt.state_dict())
        if hvd.rank() == 0:  # nobody answers
            loss_of(model, *mine(0)).backward()
        with contextlib.suppress(hvd.HorovodInternalError):  # rank 0 may have left
            hvd.barrier()
        hvd.shutdown()
        hvd.init()
        if way == "load":
            model.load_state_dict(good[0])
            opt.load_state_dict(good[1])
        if way == "fail" and hvd.size() > 1 and hvd.rank() == 0:
            raises((hvd.HorovodInternalError, ValueError), opt.step)
            opt.zero_grad()
        if way != "train":
            opt.zero_grad()
        else:
            model.zero_grad()
        for step in range(2):
            loss_of(model, *mine(step)).backward()
            opt.step()
            opt.zero_grad()
        same_everywhere(model)


@check
def optimizers_of_today():
    o = torch.optim

    def step_of(step, model, opt, batch):
        opt.zero_grad()
        loss_of(model, *batch).backward()
        clip(model.parameters(), 0.1)
        opt.step()

    for make in (lambda p: o.AdamW(p, foreach=True), lambda p: o.SGD(p, 0.1, fused=True),
                 lambda p: o.Adam(p, fused=True), lambda p: o.NAdam(p), lambda p: o.Adadelta(p),
                 lambda p: o.Rprop(p), lambda p: o.ASGD(p)):
        compare(step_of, make=make, tolerance=3e-3)
    if hasattr(o, "Adafactor"):
        compare(step_of, make=lambda p: o.Adafactor(p), tolerance=3e-3)

    class Matrices(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.a = torch.nn.Linear(6, 2, bias=False)

        def forward(self, x):
            return self.a(x)

    if hasattr(o, "Muon"):
        compare(step_of, make=lambda p: o.Muon(p), model=Matrices, tolerance=3e-3)
    seen = []
    model = net()
    inner = sgd(model.parameters())
    inner.register_step_pre_hook(lambda opt, *_: seen.append(
        [p.grad.clone() for g in opt.param_groups for p in g["params"]]))
    opt = hvd.DistributedOptimizer(inner, model.named_parameters())
    loss_of(model, *mine(0)).backward()
    opt.step()
    for grad in seen[0]:
        everywhere_equal(grad)
    assert len(seen) == 1


@check
def closures_that_clip():
    """In double precision, for LBFGS divides by small differences."""
    def make(params):
        return torch.optim.LBFGS(params, lr=0.5, max_iter=3)

    def step_of(step, model, opt, batch):
        def closure():
            opt.zero_grad()
            loss = loss_of(model, *(b.double() for b in batch))
            loss.backward()
            clip(model.parameters(), 0.1)
            return loss

        opt.step(closure)

    compare(step_of, make=make, model=lambda: net().double())


@check
def sparse_gradients_that_are_looked_at():
    for as_dense in (False, True):
        torch.manual_seed(1)
        table = torch.nn.Embedding(10, 3, sparse=True)
        alone = copy.deepcopy(table)
        ours = hvd.DistributedOptimizer(SGD(table.parameters(), lr=0.5), table.named_parameters(),
                                        sparse_as_dense=as_dense)
        theirs = SGD(alone.parameters(), lr=0.5)
        for step in range(3):
            ours.zero_grad(), theirs.zero_grad()
            rows = [torch.tensor([r, r + 1, step]) for r in range(hvd.size())]
            table(rows[hvd.rank()]).sum().backward()
            (alone(torch.cat(rows)).sum() / hvd.size()).backward()
            assert table.weight.grad.is_sparse
            everywhere_equal(table.weight.grad.to_dense())
            table.weight.grad = table.weight.grad * 0.5
            alone.weight.grad = alone.weight.grad * 0.5
            ours.step(), theirs.step()
        assert torch.allclose(table.weight, alone.weight, atol=1e-5)


@check
def sparse_gradients_that_a_rank_lacks_for_a_while():
    table, w = torch.nn.Embedding(6, 2, sparse=True), torch.nn.Parameter(torch.ones(2))
    torch.nn.init.ones_(table.weight)
    opt = hvd.DistributedOptimizer(SGD([table.weight, w], 0.5))
    for step in range(3):
        opt.zero_grad()
        loss = (w * 2).sum()
        if step == 0 or step == 1 and hvd.rank() == 0:
            loss = loss + table(torch.tensor([hvd.rank()])).sum() * hvd.size()
        loss.backward()
        opt.step()
    want = torch.ones(6, 2)
    want[:hvd.size()] = 0.5
    want[0] = 0
    equal(table.weight.detach(), want)


@check
def an_optimizer_that_only_some_ranks_have():
    few = hvd.add_process_set([0]) if hvd.size() > 1 else None
    whole = net()
    opt = hvd.DistributedOptimizer(sgd(whole.parameters()))
    if few and few.included():
        own = net()
        other = hvd.DistributedOptimizer(sgd(own.parameters()), process_set=few)
        loss_of(own, *mine(0)).backward()
        other.step()
    loss_of(whole, *mine(0)).backward()
    opt.step()
    same_everywhere(whole)
    if few:
        hvd.remove_process_set(few)


@check
def adasum_and_parameters_added_later():
    model = net()
    opt = hvd.DistributedOptimizer(SGD(model[2].parameters(), 0.1), model[2].named_parameters(),
                                   op=hvd.Adasum)
    other = hvd.DistributedOptimizer(SGD(net()[2].parameters(), 0.1), op=hvd.Adasum)
    opt.add_param_group({"params": list(model[0].parameters())})
    before = model[0].weight.detach().clone()
    for step in range(2):
        opt.zero_grad()
        loss_of(model, *mine(step)).backward()
        opt.step()
        other.step()
    assert not torch.equal(model[0].weight, before)
    same_everywhere(model)
    raises(ValueError, hvd.DistributedOptimizer, opt, says="already")


@check
def weights_are_compared():
    os.environ["RINGUP_CHECK_WEIGHTS"] = "2"
    try:
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            w = [torch.nn.Parameter(torch.ones(n, dtype=dtype)) for n in (3, 0, 1000, 7)]
            opt = hvd.DistributedOptimizer(SGD(w, 0.1), [(f"w.{i}", p) for i, p in enumerate(w)])
            for _ in range(5):
                for p in w:
                    p.grad = torch.full_like(p, hvd.rank() + 1)
                opt.step()
            with torch.no_grad():
                w[3].mul_(1 + (hvd.rank() == 1))
            if hvd.size() > 1:
                e = raises(RuntimeError, opt.step, says="'w.3' (rank 1 unlike rank 0)"
                           if hvd.size() > 2 else "'w.3' (rank ")
                assert "'w.0'" not in str(e) and "broadcast_parameters" in str(e), e
                opt.step()  # not a second one
            else:
                opt.step()
        model = net()
        opt = hvd.DistributedOptimizer(SGD(model.parameters(), 0.1), op=hvd.Adasum)
        with torch.no_grad():
            model[2].bias.add_(hvd.rank())
        loss_of(model, *mine(0)).backward()
        opt.step()
        if hvd.size() > 1:
            raises(RuntimeError, opt.step, says="weights differ")
        else:
            opt.step()
    finally:
        del os.environ["RINGUP_CHECK_WEIGHTS"]


if __name__ == "__main__":
    ops.main(check)
