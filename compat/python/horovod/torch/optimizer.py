# optimizer.py - an optimizer whose gradients are combined across ranks before each step.
# SPDX-License-Identifier: Apache-2.0
"""The allreduce of a gradient starts as soon as backward() has computed it, from a hook, and so
runs while backward() goes on.  step() waits for all of them."""

import contextlib
import itertools
import numbers
import os
import warnings
import weakref

import torch

from horovod.common.process_sets import global_process_set
from horovod.torch.compression import Compression
from horovod.torch.mpi_ops import (Adasum, Average, Sum, allreduce, allreduce_async_,
                                   grouped_allreduce_async_, size, sparse_allreduce_async,
                                   synchronize)


def _checked(optimizer, named_parameters):
    """{parameter: name}, for every parameter of the optimizer."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    if named_parameters is None:
        return {p: f"parameter.{i}" for i, p in enumerate(params)}
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError("named_parameters must be pairs of a name and a parameter, such as "
                         "model.named_parameters() gives")
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(
        set(names)) < len(names) else []
    if twice:
        raise ValueError("the names of parameters must be unique; these are not: "
                         + ", ".join(twice))
    by_id = {id(p): name for name, p in pairs}
    unnamed = sum(id(p) not in by_id for p in params)
    if unnamed:
        raise ValueError(f"named_parameters leaves {unnamed} of the optimizer's {len(params)} "
                         "parameters without a name")
    return {p: name for name, p in pairs}


def _check_groups(groups):
    """Complain about groups= as Horovod does."""
    if groups is None or isinstance(groups, int) and groups > 0:
        return
    if not isinstance(groups, list):
        raise ValueError("groups must be a positive number or a list of lists of parameters")
    members = list(itertools.chain.from_iterable(groups))
    if any(not isinstance(p, torch.Tensor) for p in members):
        raise ValueError("groups must consist of parameters")
    if len({id(p) for p in members}) < len(members):
        raise ValueError("a parameter can be in one of the groups only")


class _Unit:
    """Parameters whose gradients are combined at a time, and how many backward() of each of them
    are still to come before that."""

    def __init__(self, params, names):
        self.params, self.names, self.left = params, [names[p] for p in params], []


def _split(params, groups):
    """Lists of parameters whose gradients are combined at a time."""
    if groups is None:
        return [[p] for p in params]
    if isinstance(groups, int):
        each, more = divmod(len(params), groups)
        ends = list(itertools.accumulate([each + (i < more) for i in range(groups)]))
        return [params[a:b] for a, b in zip([0] + ends, ends) if a < b]
    wanted, grouped = {id(p) for p in params}, {id(p) for g in groups for p in g}
    some = [[p for p in g if id(p) in wanted] for g in groups]
    return [g for g in some if g] + [[p] for p in params if id(p) not in grouped]


class _DistributedOptimizer:
    """What is put in front of the wrapped optimizer's class; see DistributedOptimizer()."""

    def _distribute(self, named_parameters, compression, passes, op, predivide, groups,
                    sparse_as_dense, process_set):
        self._parameter_names = _checked(self, named_parameters)
        self._compression, self._op, self._process_set = compression, op, process_set
        self._sparse_as_dense = sparse_as_dense
        self._pre, self._post = 1.0 / predivide, predivide
        self._handles = {}  # unit: what _start() returned; None while gradients are added up
        self._hooks = []
        self._synchronized, self._should_synchronize = False, True
        self._units, self._unit_of = [], {}  # all of them, and that of a parameter
        self.set_backward_passes_per_step(passes)
        if size() > 1 or os.environ.get("HOROVOD_ELASTIC") == "1":
            if process_set.included():
                self._register(groups)

    def _register(self, groups):
        """Be told of every gradient."""
        params = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        self._units = [_Unit(some, self._parameter_names) for some in _split(params, groups)]
        self.set_backward_passes_per_step(self._passes)
        for unit in self._units:
            for i, p in enumerate(unit.params):
                self._unit_of[p] = unit
                self._hook(p, unit, i)

    def _hook(self, p, unit, i):
        """Call _computed() each time backward() has added to p.grad, as long as this optimizer
        lives: in a notebook the same model is wrapped again and again."""
        mine = weakref.ref(self)

        def hook(*_):
            optimizer = mine()
            if optimizer is not None:
                optimizer._computed(unit, i)

        if hasattr(p, "register_post_accumulate_grad_hook"):  # torch 2.1
            self._hooks.append(p.register_post_accumulate_grad_hook(hook))
            return
        node = p.expand_as(p).grad_fn.next_functions[0][0]
        node.register_hook(hook)
        self._hooks.append(node)  # or the node, and the hook with it, would go away

    def _computed(self, unit, i):
        """The gradient of the i-th parameter of a unit is there."""
        left = unit.left
        if left[i] <= 0:
            raise AssertionError("backward() has computed gradients more than "
                                 "backward_passes_per_step times since the last step(): raise "
                                 "backward_passes_per_step, or call step() or synchronize()")
        left[i] -= 1
        self._handles[unit] = None if any(left) else self._start(unit)

    def _start(self, unit):
        """Start combining the gradients of a unit: a list of (parameters, handle, contexts).
        A rank that has no gradient sends zeroes, for others may have one and wait for it."""
        dense, started = [], []
        for p, name in zip(unit.params, unit.names):
            grad = p.grad
            if grad is None:
                grad = p.grad = torch.zeros_like(p)
            if not grad.is_sparse:
                dense.append((p, grad))
            elif self._sparse_as_dense:
                dense.append((p, grad.to_dense()))
            else:
                handle = sparse_allreduce_async(grad, name, self._op, self._process_set)
                started.append(((p,), handle, (None,)))
        if dense:
            started.append(self._start_dense(*zip(*dense), unit.names[0]))
        return started

    def _start_dense(self, params, grads, name):
        """_start() for gradients that are not sparse, or shall not be."""
        small, contexts = zip(*map(self._compression.compress, grads))
        how = name, self._op, self._pre, self._post, self._process_set
        if len(params) == 1:
            return params, allreduce_async_(small[0], None, *how), contexts
        return params, grouped_allreduce_async_(small, None, *how), contexts

    def _finish(self, params, handle, contexts):
        """Wait for gradients that are on their way and put the results into p.grad."""
        results = handle() if callable(handle) else synchronize(handle)
        results = results if isinstance(results, list) else [results]
        for p, result, ctx in zip(params, results, contexts):
            if not callable(handle):
                result = self._compression.decompress(result, ctx)
            grad = p.grad
            if result is grad:
                continue
            with torch.no_grad():
                if grad.is_sparse:
                    p.grad = result if result.is_sparse else result.to_sparse(grad.sparse_dim())
                elif result.data_ptr() != grad.data_ptr():
                    grad.copy_(result)

    @property
    def backward_passes_per_step(self):
        return self._passes

    @backward_passes_per_step.setter
    def backward_passes_per_step(self, passes):
        self.set_backward_passes_per_step(passes)

    def set_backward_passes_per_step(self, passes):
        """How many backward() add up before gradients are combined."""
        self._passes = passes
        for unit in self._units:
            unit.left = [passes] * len(unit.params)

    def synchronize(self):
        """Wait until every gradient has been combined, to look at them before step()."""
        for unit in self._units:
            if self._handles.get(unit) is None:
                self._handles[unit] = self._start(unit)
        failed = None
        for started in itertools.chain.from_iterable(self._handles.values()):
            try:
                self._finish(*started)
            except RuntimeError as e:  # the others must be waited for too
                failed = failed or e
        self._forget()
        if failed:
            raise failed
        self._synchronized = True

    def _forget(self):
        """Nothing is on its way any more."""
        self._handles.clear()
        self.set_backward_passes_per_step(self._passes)

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Let step() inside the with block not wait: synchronize() has been called before."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def _combine(self):
        """What step() does before the wrapped optimizer looks at the gradients."""
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn("optimizer.step() called without optimizer.skip_synchronize() after "
                              "optimizer.synchronize(): the gradients are combined twice",
                              stacklevel=3)
            self.synchronize()
        self._synchronized = False

    def _combined(self, closure):
        """The closure of all ranks' batches: an optimizer may decide by its loss what to do next,
        which must be the same on all ranks."""
        def combined():
            loss = closure()
            if self._handles:
                self.synchronize()
            elif not self._synchronized:
                self._combine()
            self._synchronized = False
            return self._of_all(loss) if self._units else loss

        return combined

    def _of_all(self, loss):
        """What closures return, combined like gradients; if it is a number at all, which it must
        be on all ranks or on none."""
        if isinstance(loss, numbers.Real) and not isinstance(loss, bool):
            return self._of_all(torch.tensor(float(loss), dtype=torch.float64)).item()
        if not isinstance(loss, torch.Tensor):
            return loss
        return allreduce(loss.detach(), op=self._op, process_set=self._process_set)

    def step(self, closure=None):
        """Combine the gradients of all ranks, then do the wrapped optimizer's step.  What a closure
        computes is combined each time the optimizer calls it: the gradients and its loss."""
        if closure is not None:
            if self._handles and self._should_synchronize:
                self.synchronize()  # of a backward() before
            return super().step(self._combined(closure))
        self._combine()
        return super().step()

    step.hooked = True  # torch wraps the inner step() for its step hooks; once is enough

    def zero_grad(self, *args, **kwargs):
        """Clear the gradients; not while they are on their way."""
        if self._handles:
            raise AssertionError("zero_grad() between backward() and step() or synchronize() would "
                                 "clear gradients that are being combined")
        return super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        """Take over a state; gradients under way are waited for and forgotten."""
        for _params, handle, _contexts in itertools.chain.from_iterable(
                started for started in self._handles.values() if started):
            handle() if callable(handle) else synchronize(handle)
        self._forget()
        self._synchronized, self._should_synchronize = False, True
        return super().load_state_dict(*args, **kwargs)


class _DeltaOptimizer:
    """The same for op=Adasum: what is combined is not gradients but what a step changes."""

    def _distribute(self, named_parameters, compression, passes, process_set):
        self._parameter_names = _checked(self, named_parameters)
        self._compression, self._process_set = compression, process_set
        self.backward_passes_per_step = passes

    def set_backward_passes_per_step(self, passes):
        """How many backward() add up before step(); for Adasum it does not matter."""
        self.backward_passes_per_step = passes

    def synchronize(self):
        """Gradients stay this rank's own: there is nothing to wait for."""

    def skip_synchronize(self):
        """Horovod refuses this too."""
        raise AssertionError("skip_synchronize() makes no sense with op=hvd.Adasum: gradients are "
                             "not combined, but what step() changes")

    def step(self, closure=None):
        """Do the wrapped optimizer's step, then combine what it has changed on all ranks."""
        params = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        before = [p.detach().clone() for p in params]
        loss = super().step(closure) if closure is not None else super().step()
        if not self._process_set.included():
            return loss
        with torch.no_grad():
            started = []
            for p, start in zip(params, before):
                small, ctx = self._compression.compress(p - start)
                name = f"delta.{self._parameter_names[p]}"
                started.append((allreduce_async_(small, name=name, op=Adasum,
                                                 process_set=self._process_set), ctx))
            for p, start, (handle, ctx) in zip(params, before, started):
                p.copy_(start + self._compression.decompress(synchronize(handle), ctx))
        return loss

    step.hooked = True  # as above


def DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none,
                         backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0,
                         num_groups=0, groups=None, sparse_as_dense=False,
                         process_set=global_process_set):
    """Wrap an optimizer so that step() uses the gradients of all ranks.

    The result is an instance of the wrapped optimizer's class too and takes over its state.
    To look at the combined gradients before the step, for instance to clip them:

        loss.backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()

    gradient_predivide_factor, with Average only, divides by it before adding up and multiplies
    afterwards.  groups says which gradients go together, all or none: a number of groups, or a list
    of lists of parameters.  With op=hvd.Adasum each rank does its own step, and what the steps
    change is combined.
    """
    if op not in (Average, Sum, Adasum):
        raise ValueError("op must be hvd.Average, hvd.Sum or hvd.Adasum")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=hvd.Average")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be at least 1")
    if num_groups:
        warnings.warn("num_groups is deprecated: use groups", DeprecationWarning, stacklevel=2)
    groups = groups or num_groups or None
    _check_groups(groups)
    base = _DeltaOptimizer if op == Adasum else _DistributedOptimizer
    cls = type(type(optimizer).__name__, (base, type(optimizer)), {})
    wrapped = cls.__new__(cls)
    # a scheduler may have replaced step() on the instance
    wrapped.__setstate__({k: v for k, v in vars(optimizer).items() if k != "step"})
    if op == Adasum:
        wrapped._distribute(named_parameters, compression, backward_passes_per_step, process_set)
    else:
        wrapped._distribute(named_parameters, compression, backward_passes_per_step, op,
                            gradient_predivide_factor, groups, sparse_as_dense, process_set)
    return wrapped
