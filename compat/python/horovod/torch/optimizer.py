# optimizer.py - an optimizer whose gradients are combined across ranks before each step.
# SPDX-License-Identifier: Apache-2.0
"""The allreduce of a gradient starts as soon as backward() has computed it, from a hook, and so
runs while backward() goes on.  step() waits for all of them."""

import contextlib
import itertools
import os
import warnings
import weakref

import torch

from horovod.common.process_sets import global_process_set, group_of
from horovod.torch.compression import Compression
from horovod.torch.mpi_ops import (Adasum, Average, Sum, allreduce_async_, size,
                                   sparse_allreduce_async, synchronize)


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
    """Complain about groups= as Horovod does; see DistributedOptimizer() on what it is for."""
    if groups is None or isinstance(groups, int) and groups > 0:
        return
    if not isinstance(groups, list):
        raise ValueError("groups must be a positive number or a list of lists of parameters")
    members = list(itertools.chain.from_iterable(groups))
    if any(not isinstance(p, torch.Tensor) for p in members):
        raise ValueError("groups must consist of parameters")
    if len({id(p) for p in members}) < len(members):
        raise ValueError("a parameter can be in one of the groups only")


class _DistributedOptimizer:
    """What is put in front of the wrapped optimizer's class; see DistributedOptimizer()."""

    def _distribute(self, named_parameters, compression, passes, op, predivide, sparse_as_dense):
        self._parameter_names = _checked(self, named_parameters)
        self._compression, self._op = compression, op
        self._sparse_as_dense = sparse_as_dense
        self._pre, self._post = 1.0 / predivide, predivide
        self._handles = {}  # parameter: (handle, what compression needs), None while accumulating
        self._hooks = []
        self._synchronized, self._should_synchronize = False, True
        self._requires_update = {}  # an ordered set of parameters
        self.set_backward_passes_per_step(passes)
        if size() > 1 or os.environ.get("HOROVOD_ELASTIC") == "1":
            for group in self.param_groups:
                for p in group["params"]:
                    if p.requires_grad:
                        self._requires_update[p] = True
                        self._hook(p)

    def _hook(self, p):
        """Call _computed(p) each time backward() has added to p.grad, as long as this optimizer
        lives: in a notebook the same model is wrapped again and again."""
        computed = weakref.WeakMethod(self._computed)

        def hook(*_):
            if computed() is not None:
                computed()(p)

        if hasattr(p, "register_post_accumulate_grad_hook"):  # torch 2.1
            self._hooks.append(p.register_post_accumulate_grad_hook(hook))
            return
        node = p.expand_as(p).grad_fn.next_functions[0][0]
        node.register_hook(hook)
        self._hooks.append(node)  # or the node, and the hook with it, would go away

    def _computed(self, p):
        if self._delay[p] <= 0:
            raise AssertionError("backward() has computed gradients more than "
                                 "backward_passes_per_step times since the last step(): raise "
                                 "backward_passes_per_step, or call step() or synchronize()")
        self._delay[p] -= 1
        self._handles[p] = self._start(p) if self._delay[p] == 0 else None

    def _start(self, p):
        """Start the allreduce of p's gradient.  A rank that has none sends zeroes, for others
        may have one and wait for it."""
        name = self._parameter_names[p]
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        grad = p.grad
        if grad.is_sparse:
            if not self._sparse_as_dense:
                return sparse_allreduce_async(grad, name, self._op), None
            grad = grad.to_dense()
        small, ctx = self._compression.compress(grad)
        return allreduce_async_(small, name=name, op=self._op, prescale_factor=self._pre,
                                postscale_factor=self._post), ctx

    def _finish(self, p, handle, ctx):
        """Wait for the allreduce of p's gradient and put the result into p.grad."""
        result = handle() if callable(handle) else synchronize(handle)
        result = self._compression.decompress(result, ctx) if not callable(handle) else result
        with torch.no_grad():
            if p.grad.is_sparse:
                p.grad = result if result.is_sparse else result.to_sparse(p.grad.sparse_dim())
            elif result.data_ptr() != p.grad.data_ptr():
                p.grad.copy_(result)

    @property
    def backward_passes_per_step(self):
        return self._passes

    @backward_passes_per_step.setter
    def backward_passes_per_step(self, passes):
        self.set_backward_passes_per_step(passes)

    def set_backward_passes_per_step(self, passes):
        """How many backward() add up before gradients are combined."""
        self._passes = passes
        self._delay = dict.fromkeys(self._parameter_names, passes)

    def synchronize(self):
        """Wait until every gradient has been combined, to look at them before step()."""
        for p in self._requires_update:
            if self._handles.get(p) is None:
                self._handles[p] = self._start(p)
        failed = None
        for p, (handle, ctx) in self._handles.items():
            try:
                self._finish(p, handle, ctx)
            except RuntimeError as e:  # the others must be waited for too
                failed = failed or e
            self._delay[p] = self._passes
        self._handles.clear()
        if failed:
            raise failed
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Let step() inside the with block not wait: synchronize() has been called before."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure=None):
        """Combine the gradients of all ranks, then do the wrapped optimizer's step."""
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn("optimizer.step() called without optimizer.skip_synchronize() after "
                              "optimizer.synchronize(): the gradients are combined twice",
                              stacklevel=2)
            self.synchronize()
        self._synchronized = False
        return super().step(closure) if closure is not None else super().step()

    step.hooked = True  # torch wraps the inner step() for its step hooks; once is enough

    def zero_grad(self, *args, **kwargs):
        """Clear the gradients; not while they are on their way."""
        if self._handles:
            raise AssertionError("zero_grad() between backward() and step() or synchronize() would "
                                 "clear gradients that are being combined")
        return super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        """Take over a state; gradients under way are waited for and forgotten."""
        for pair in self._handles.values():
            if pair is not None:
                pair[0]() if callable(pair[0]) else synchronize(pair[0])
        self._handles.clear()
        self._synchronized, self._should_synchronize = False, True
        self.set_backward_passes_per_step(self._passes)
        return super().load_state_dict(*args, **kwargs)


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
    afterwards.  groups and num_groups, which tell Horovod what to send together, are checked and
    otherwise not needed: the library sends together whatever is ready.
    """
    group_of(process_set)
    if op == Adasum:
        raise NotImplementedError("Adasum is not part of ringup yet; use hvd.Average")
    if op not in (Average, Sum):
        raise ValueError("op must be hvd.Average or hvd.Sum")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=hvd.Average")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be at least 1")
    if num_groups:
        warnings.warn("num_groups is deprecated: use groups", DeprecationWarning, stacklevel=2)
    _check_groups(groups or num_groups or None)
    cls = type(type(optimizer).__name__, (_DistributedOptimizer, type(optimizer)), {})
    wrapped = cls.__new__(cls)
    # a scheduler may have replaced step() on the instance
    wrapped.__setstate__({k: v for k, v in vars(optimizer).items() if k != "step"})
    wrapped._distribute(named_parameters, compression, backward_passes_per_step, op,
                        gradient_predivide_factor, sparse_as_dense)
    return wrapped
