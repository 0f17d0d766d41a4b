# compiled_of_a_rank.py - Horovod's code in torch.compile, on every rank; for test_compiled.py.
# SPDX-License-Identifier: Apache-2.0
"""The reference is one process that does the same, uncompiled, on the ranks' batches joined."""

import os
import shutil

import ops_of_a_rank as ops
import torch
from checks import Checks
from ops_of_a_rank import equal, everywhere_equal
from train_of_a_rank import batches, loss_of, net

import horovod.torch as hvd

check = Checks()
BACKENDS = ("eager", "aot_eager")
# Minutes of g++ on a busy machine, so one check has it.
INDUCTOR = (("inductor",) if os.environ.get("RINGUP_TEST_LONG") == "1" and shutil.which("g++")
            else ())


def sgd(params):
    return torch.optim.SGD(params, lr=0.1, momentum=0.9)


def parts(step, of_all):
    """The batches of a step: this rank's, or all as one."""
    x, y = batches(step)
    return (x.flatten(0, 1), y.flatten(0, 1)) if of_all else (x[hvd.rank()], y[hvd.rank()])


def train(make_step, of_all, backend, count=1, make=sgd, steps=4, **kwargs):
    """Train count models; returns their weights.  make_step(compiled, models, optimizers) returns
    the function that does a step with two batches; compiled() compiles a function."""
    models = [net(seed=7 + i) for i in range(count)]
    optimizers = [make(m.parameters()) for m in models]
    if not of_all:
        optimizers = [hvd.DistributedOptimizer(
            o, [(f"{i}.{name}", p) for name, p in m.named_parameters()], **kwargs)
            for i, (m, o) in enumerate(zip(models, optimizers))]
    step = make_step((lambda f: f) if of_all else (lambda f: torch.compile(f, backend=backend)),
                     models, optimizers)
    for i in range(steps):
        step(parts(2 * i, of_all), parts(2 * i + 1, of_all))
    return [p.detach().clone() for m in models for p in m.parameters()]


def compare(make_step, backends=BACKENDS, tolerance=1e-5, **kwargs):
    """Compiled on all ranks it must give the weights of one process."""
    alone = train(make_step, True, None,
                  **{k: v for k, v in kwargs.items() if k in ("count", "make", "steps")})
    for backend in backends:
        torch._dynamo.reset()
        for p, q in zip(train(make_step, False, backend, **kwargs), alone):
            assert torch.allclose(p, q, atol=tolerance), (backend, (p - q).abs().max())
            everywhere_equal(p)


def whole(compiled, models, optimizers):
    """A step all of which is compiled."""
    @compiled
    def step(a, _b):
        optimizers[0].zero_grad()
        loss = loss_of(models[0], *a)
        loss.backward()
        optimizers[0].step()
        return loss

    return step


@check
def a_whole_step():
    compare(whole, BACKENDS + INDUCTOR)
    compare(whole, ("eager",), groups=2)
    compare(whole, ("eager",), make=lambda p: torch.optim.AdamW(p, lr=0.01), tolerance=1e-3)


@check
def a_part_of_a_step():
    def without_step(compiled, models, optimizers):
        @compiled
        def backward(a):
            optimizers[0].zero_grad()
            loss_of(models[0], *a).backward()

        def step(a, _b):
            backward(a)
            optimizers[0].step()

        return step

    def without_zero_grad(compiled, models, optimizers):
        @compiled
        def forward(a):
            loss_of(models[0], *a).backward()
            optimizers[0].step()

        def step(a, _b):
            optimizers[0].zero_grad(set_to_none=False)
            forward(a)

        return step

    def step_alone(compiled, models, optimizers):
        finish = compiled(lambda: optimizers[0].step())

        def step(a, _b):
            optimizers[0].zero_grad()
            loss_of(models[0], *a).backward()
            finish()

        return step

    def model_alone(compiled, models, optimizers):
        model = compiled(models[0])

        def step(a, _b):
            optimizers[0].zero_grad()
            loss_of(model, *a).backward()
            optimizers[0].step()

        return step

    for some in (without_step, without_zero_grad, step_alone, model_alone):
        compare(some, ("eager",))


@check
def accumulation():
    def twice(compiled, models, optimizers):
        @compiled
        def step(a, b):
            optimizers[0].zero_grad()
            for some in (a, b):
                (loss_of(models[0], *some) / 2).backward()
            optimizers[0].step()

        return step

    def call_by_call(compiled, models, optimizers):
        @compiled
        def add(some):
            (loss_of(models[0], *some) / 2).backward()

        @compiled
        def finish():
            optimizers[0].step()
            optimizers[0].zero_grad()

        def step(a, b):
            add(a), add(b), finish()

        return step

    compare(twice, backward_passes_per_step=2)
    compare(call_by_call, ("eager",), backward_passes_per_step=2)


@check
def two_models():
    def both(compiled, models, optimizers):
        @compiled
        def step(a, b):
            for model, optimizer, some in zip(models, optimizers, (a, b)):
                optimizer.zero_grad()
                loss_of(model, *some).backward()
            for optimizer in optimizers:
                optimizer.step()

        return step

    def in_turn(compiled, models, optimizers):
        """As in a GAN: one model's loss goes through the other, whose gradients nobody wants."""
        @compiled
        def step(a, _b):
            for i in (0, 1):
                optimizers[i].zero_grad()
                x, y = a
                loss_of(models[1 - i], torch.cat([models[i](x)] * 3, 1), y).backward()
                optimizers[i].step()
                optimizers[1 - i].zero_grad()

        return step

    compare(both, count=2)
    compare(in_turn, ("eager",), count=2)


@check
def gradients_are_combined_before_compiled_code_reads_them():
    def clipped(compiled, models, optimizers):
        @compiled
        def step(a, _b):
            optimizers[0].zero_grad()
            loss_of(models[0], *a).backward()
            torch.nn.utils.clip_grad_norm_(models[0].parameters(), 0.05)
            optimizers[0].step()

        return step

    def synchronized(compiled, models, optimizers):
        @compiled
        def step(a, _b):
            o = optimizers[0]
            o.zero_grad()
            loss_of(models[0], *a).backward()
            if hasattr(o, "synchronize"):
                o.synchronize()
                torch.nn.utils.clip_grad_norm_(models[0].parameters(), 0.05)
                with o.skip_synchronize():
                    o.step()
            else:
                torch.nn.utils.clip_grad_norm_(models[0].parameters(), 0.05)
                o.step()

        return step

    def halved(compiled, models, optimizers):
        @compiled
        def change():
            for p in models[0].parameters():
                p.grad.mul_(0.5)
                p.grad = p.grad + p.grad.abs().mean()

        def step(a, _b):
            optimizers[0].zero_grad()
            loss_of(models[0], *a).backward()
            change()
            optimizers[0].step()

        return step

    for some in (clipped, synchronized, halved):
        compare(some, ("eager", "aot_eager"))


@check
def a_closure():
    def closure(compiled, models, optimizers):
        @compiled
        def step(a, _b):
            def again():
                optimizers[0].zero_grad()
                loss = loss_of(models[0], *a)
                loss.backward()
                return loss

            return optimizers[0].step(again)

        return step

    compare(closure, ("eager",))
    compare(closure, ("eager",), tolerance=1e-3,
            make=lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3))


@check
def compiled_autograd():
    if not hasattr(torch._dynamo.config, "compiled_autograd"):
        return
    try:
        torch._dynamo.config.compiled_autograd = True
        compare(whole, ("eager", "aot_eager"))
    finally:
        torch._dynamo.config.compiled_autograd = False
        torch._dynamo.reset()


@check
def adasum():
    """Compiled as not compiled."""
    def train_adasum(backend):
        model = net()
        o = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(),
                                     op=hvd.Adasum)
        step = whole((lambda f: f) if backend is None
                     else lambda f: torch.compile(f, backend=backend), [model], [o])
        for i in range(3):
            step(parts(i, False), None)
        return [p.detach().clone() for p in model.parameters()]

    want = train_adasum(None)
    for p, q in zip(train_adasum("eager"), want):
        assert torch.allclose(p, q, atol=1e-6), (p - q).abs().max()
        everywhere_equal(p)


@check
def gradient_scaling():
    if not hasattr(torch.amp, "GradScaler"):
        return

    def scaled(compiled, models, optimizers):
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)

        @compiled
        def step(a, _b):
            optimizers[0].zero_grad()
            scaler.scale(loss_of(models[0], *a)).backward()
            scaler.unscale_(optimizers[0])
            torch.nn.utils.clip_grad_norm_(models[0].parameters(), 0.05)
            scaler.step(optimizers[0])
            scaler.update()

        return step

    compare(scaled, ("eager",))


@check
def batch_norm_of_all_ranks():
    def trained(of_all, backend):
        torch.manual_seed(5)
        norm = torch.nn.BatchNorm1d(8) if of_all else hvd.SyncBatchNorm(8)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), norm, torch.nn.Linear(8, 2))
        o = sgd(model.parameters())
        if not of_all:
            o = hvd.DistributedOptimizer(o, model.named_parameters())
        step = whole((lambda f: f) if of_all else lambda f: torch.compile(f, backend=backend),
                     [model], [o])
        for i in range(3):
            step(parts(i, of_all), None)
        return [*(p.detach() for p in model.parameters()), norm.running_mean, norm.running_var]

    want = trained(True, None)
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        for p, q in zip(trained(False, backend), want):
            assert torch.allclose(p, q, atol=1e-4), (backend, (p - q).abs().max())


def compiled_alike(f, *make_args, backends=("eager", "aot_eager")):
    """f compiled, more than once, gives what it gives uncompiled, and gradients, too."""
    def results(g):
        args = [make() for make in make_args]
        out = g(*args)
        out = list(out) if isinstance(out, (list, tuple)) else [out]
        if any(t.requires_grad for t in out):
            sum((t * torch.arange(1.0, t.numel() + 1).view(t.shape)).sum() for t in out
                if t.requires_grad).backward()
        return [t.detach().clone() for t in out] + [a.grad for a in args if a.grad is not None]

    want = results(f)
    for backend in backends:
        torch._dynamo.reset()
        g = torch.compile(f, backend=backend)
        for _ in range(3):
            for got, right in zip(results(g), want):
                equal(got, right)


def plain():
    return torch.arange(6.0).view(3, 2) + hvd.rank()


def traced():
    return plain().requires_grad_()


@check
def collectives():
    for make in (plain, traced):
        compiled_alike(lambda x: hvd.allreduce(x * 2, op=hvd.Sum) + 1, make)
        compiled_alike(lambda x: hvd.allreduce(x * 2, name="n", compression=hvd.Compression.fp16),
                       make, backends=("eager",))
        compiled_alike(lambda x: [t + 1 for t in hvd.grouped_allreduce([x, x * 2], op=hvd.Sum)],
                       make)
        compiled_alike(lambda x: hvd.allgather(x * 2) + 1, make)
        compiled_alike(lambda x: hvd.broadcast(x * 2, hvd.size() - 1) + 1, make)
        compiled_alike(lambda x: hvd.reducescatter(x.repeat(hvd.size(), 1), op=hvd.Sum) + 1, make)
        compiled_alike(lambda x: hvd.alltoall(x.repeat(hvd.size(), 1)) + 1, make)
        compiled_alike(lambda x: hvd.grouped_allgather([x, x + 1])[1] * 2, make)


@check
def collectives_in_place_and_in_the_background():
    def in_place(x):
        y = x * 2
        hvd.allreduce_(y, op=hvd.Sum)
        hvd.broadcast_(y, 0)
        return y + 1

    def background(x):
        handles = [hvd.allreduce_async(x + i, name=f"b{i}", op=hvd.Sum) for i in range(3)]
        y = x.cos()
        return sum(hvd.synchronize(h) for h in handles) + y

    def messages(x):
        y = x.clone()
        hvd.broadcast_parameters({"y": y}, root_rank=0)
        return y + len(hvd.allgather_object({"rank": hvd.rank()}))

    for f in (in_place, background, messages):
        compiled_alike(f, plain)


@check
def sets_of_ranks():
    some = hvd.add_process_set([0])

    def f(x):
        return hvd.allreduce(x, op=hvd.Sum, process_set=some) if some.included() else x

    compiled_alike(f, plain)
    hvd.barrier()
    hvd.remove_process_set(some)


@check
def numbers_are_compiled_with_their_caller():
    def f(x):
        return x * hvd.size() + hvd.rank() + hvd.local_rank()

    got = torch.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    equal(got, torch.full((2,), float(hvd.size() + 2 * hvd.rank())))


if __name__ == "__main__":
    ops.main(check)
