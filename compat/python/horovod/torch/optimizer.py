# optimizer.py - an optimizer whose gradients are combined across ranks before each step.
# SPDX-License-Identifier: Apache-2.0
"""A hook starts the allreduce of a gradient as soon as backward() has computed it, so the allreduce
runs while backward() continues.  step() waits for all of them.  An operation that reads or changes
a gradient earlier waits for its allreduce (see gradients.py)."""

import contextlib
import itertools
import numbers
import os
import sys
import warnings
import weakref

import torch

from horovod.common.process_sets import global_process_set
from horovod.torch import grad_scaler, parameter_names
from horovod.torch.compression import Compression
from horovod.torch.delta import DeltaOptimizer
from horovod.torch.gradients import Reduction, Unit, list_names, split
from horovod.torch.mpi_ops import (Adasum, Average, Sum, allreduce, allreduce_async_,
                                   grouped_allreduce_async_, size, sparse_allreduce_async)
from horovod.torch.wrapping import Wrapped, class_of
from ringup_torch.dynamo import hidden


def _check_groups(groups):
    """Raise Horovod's exceptions for an invalid groups=."""
    if groups is None or isinstance(groups, int) and groups > 0:
        return
    if not isinstance(groups, list):
        raise ValueError("groups must be a positive number or a list of lists of parameters")
    members = list(itertools.chain.from_iterable(groups))
    if any(not isinstance(p, torch.Tensor) for p in members):
        raise ValueError("groups must consist of parameters")
    if len({id(p) for p in members}) < len(members):
        raise ValueError("a parameter can only be in one group")


def _is_recomputing():
    """Return whether this backward() runs inside another one, as with torch.utils.checkpoint."""
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "backward" and code.co_filename.endswith("checkpoint.py"):
            return True
        frame = frame.f_back
    return False


def _has_nonzero(grad):
    """Return whether a gradient has a nonzero element."""
    return bool((grad.coalesce().values() if grad.is_sparse else grad).any())


class _DistributedOptimizer(Wrapped):
    """The class that precedes the class of the wrapped optimizer; see DistributedOptimizer()."""

    def _distribute(self, named_parameters, compression, passes, op, predivide, groups,
                    sparse_as_dense, process_set):
        self._remember(dict(
            named_parameters=named_parameters, compression=compression, passes=passes, op=op,
            predivide=predivide, groups=groups, sparse_as_dense=sparse_as_dense,
            process_set=process_set))
        self._compression, self._op, self._process_set = compression, op, process_set
        self._sparse_as_dense, self._passes = sparse_as_dense, passes
        self._pre, self._post = 1.0 / predivide, predivide
        self._hooks = {}  # id of a parameter: what keeps its hook
        self._synchronized, self._should_synchronize = False, True
        self._units, self._unit_of = [], {}  # all of them; the one of each parameter
        self._known = []  # ids of the parameters that these are made of
        self._groups, self._has_lost = groups, False
        self._combines = process_set.included() and (
            size() > 1 or os.environ.get("HOROVOD_ELASTIC") == "1")
        grad_scaler.install()
        self._follow_parameters()

    # Parameters, and their hooks

    def _follow_parameters(self):
        """Combine the gradients of the optimizer's current parameters."""
        if not self._combines:
            return
        params = [p for group in self.param_groups for p in group["params"]]
        known = [id(p) for p in params]
        if known == self._known:
            return
        self._name_parameters()
        new = [p for p in params if p not in self._unit_of]
        if self._known:  # later ones do not change how those before are grouped
            wanted = set(known)
            for unit in [u for u in self._units if any(id(p) not in wanted for p in u.params)]:
                new = self._part_with(unit, wanted) + new
        numbered = self._groups if not self._known or isinstance(self._groups, list) else None
        moving = [p for p in new if p.requires_grad]
        idle = [p for p in new if not p.requires_grad
                and (p.is_floating_point() or p.is_complex())]
        for some in split(moving, numbered) + [[p] for p in idle]:
            self._add_unit(some)
        self._known = known

    def _part_with(self, unit, wanted):
        """Give up a unit if some of its parameters are gone; return those that remain."""
        if unit.reduction is not None:
            unit.reduction.discard()
        unit.reset(self._passes)
        self._units.remove(unit)
        for p in unit.params:
            del self._unit_of[p]
            self._hooks.pop(id(p)).remove()
        return [p for p in unit.params if id(p) in wanted]

    def _add_unit(self, params):
        """Combine the gradients of some parameters together."""
        unit = Unit(params, [self._parameter_names[p] for p in params], self._passes)
        self._units.append(unit)
        for i, p in enumerate(params):
            self._unit_of[p] = unit
            self._hook(p, i)

    def _hook(self, p, i):
        """Call _computed() each time backward() has added to p.grad, as long as this optimizer
        exists.  In a notebook, the same model is often wrapped again."""
        mine, param = weakref.ref(self), weakref.ref(p)

        @hidden
        def hook(*_):
            optimizer, p = mine(), param()
            if optimizer is None or optimizer._has_lost and parameter_names.owner(p) not in (
                    None, optimizer):
                return
            optimizer._computed(optimizer._unit_of[p], i)

        frozen = not p.requires_grad
        if frozen:  # it may be trained later
            p.requires_grad_(True)
        if hasattr(p, "register_post_accumulate_grad_hook"):  # torch 2.1
            self._hooks[id(p)] = p.register_post_accumulate_grad_hook(hook)
        else:
            node = p.expand_as(p).grad_fn.next_functions[0][0]
            self._hooks[id(p)] = node.register_hook(hook)
            self._hooks[id(p)].node = node  # or it would go away, and the hook with it
        if frozen:
            p.requires_grad_(False)

    def _computed(self, unit, i):
        """Record that the gradient of the i-th parameter of a unit is ready."""
        if unit.reduction is not None:
            self._begin_again(unit, i)
        elif unit.is_new(i):
            unit.left[i], unit.waiting[i] = self._passes, None
        if unit.left[i] <= 0:
            self._complain_of_passes(unit.names[i])
        unit.active, unit.is_fresh = True, False
        unit.left[i] -= 1
        if not any(unit.left):
            unit.reduction = self._start(unit, visible=True)
            return
        unit.note(i)
        if unit.left[i] == 0:
            mine, this = weakref.ref(self), weakref.ref(unit)

            def start():
                optimizer = mine()
                return None if optimizer is None else optimizer._start_now(this())

            unit.wait_for_others(i, start)

    def _complain_of_passes(self, name):
        """Raise an exception that says why a gradient must not be computed now."""
        if _is_recomputing():
            raise AssertionError(
                f"{name!r} is used in several parts of the model that torch.utils.checkpoint "
                "recomputes, so its gradient is computed in several pieces: use checkpoint(..., "
                "use_reentrant=False), or a backward_passes_per_step as large as "
                "the number of these parts")
        raise AssertionError(
            "backward() has computed gradients more than backward_passes_per_step times since the "
            f"last step() (of {name!r}): raise backward_passes_per_step, or call step() or "
            "synchronize()")

    def _begin_again(self, unit, i):
        """Handle another backward() for a unit that has been combined or is being combined."""
        reduction, p = unit.reduction, unit.params[i]
        if not reduction.done and not reduction.is_over():
            waiting = reduction.pending[i]
            if waiting is None or p.grad is waiting or p.grad.requires_grad:
                self._complain_of_passes(unit.names[i])
            reduction.discard()  # the gradient has been cleared: this is a new one
        elif reduction.done and self._op == Sum and reduction.after is not None:
            ref, version = reduction.after[i]
            if version is not None and ref() is p.grad and p.grad._version == version + 1:
                raise AssertionError(
                    f"backward() has added to the gradient of {unit.names[i]!r}, which is already "
                    "the sum over all ranks, so every rank would count it: call "
                    "optimizer.zero_grad() before, or use a larger backward_passes_per_step")
        self._forget(lambda u: u is unit or u.reduction is not None and u.reduction.done)

    def _forget(self, which=lambda unit: True):
        """Discard combined gradients, so that gradients are local to this rank again."""
        for unit in self._units:
            if not unit.is_fresh and which(unit):
                unit.reset(self._passes)
        self._synchronized = False

    # Reductions

    def _start_now(self, unit):
        """Return the reduction of a unit, and start it if necessary."""
        if unit.reduction is None:
            unit.reduction = self._start(unit, visible=True)
        return unit.reduction

    def _start(self, unit, visible):
        """Start combining the gradients of a unit.  A rank without a gradient sends zeros, because
        other ranks may have one and wait for it."""
        unit.take_back()
        dense, parts = [], []
        for i, p in enumerate(unit.params):
            grad = p.grad
            if grad is None:
                grad = p.grad = unit.zeros(i)
            if grad.is_sparse:
                unit.sparse_dims[i] = grad.sparse_dim()
            if not grad.is_sparse:
                dense.append((i, grad))
            elif self._sparse_as_dense:
                dense.append((i, grad.to_dense()))
            else:
                handle = sparse_allreduce_async(grad, self._travel_name(p), self._op,
                                                self._process_set)
                parts.append(((i,), handle, (None,)))
        if dense:
            parts.append(self._start_dense(*zip(*dense), self._travel_name(unit.params[0])))
        unit.is_fresh = False
        return Reduction(unit, parts, self._compression, visible)

    def _start_dense(self, places, grads, name):
        """Do the work of _start() for gradients that are dense, or are sent as dense ones."""
        small, contexts = zip(*map(self._compression.compress, grads))
        how = name, self._op, self._pre, self._post, self._process_set
        if len(places) == 1:
            return places, allreduce_async_(small[0], None, *how), contexts
        return places, grouped_allreduce_async_(small, None, *how), contexts

    def _complete(self, last=False):
        """Combine every gradient that is not combined yet, and wait for all of them.  last means
        that the step follows."""
        self._follow_parameters()
        if self._has_lost:
            self._check_owner()
        modified = any(u.reduction is not None and u.reduction.modified() for u in self._units)
        lacking, own, wrong, failed = [], [], [], None
        for unit in self._units:
            unit.active = unit.active or any(p.requires_grad for p in unit.params)
            if unit.reduction is None and unit.active:
                lacking += [(p, n) for p, n in zip(unit.params, unit.names) if p.grad is None]
                own += unit.changed() if modified else ()
                unit.reduction = self._start(unit, visible=False)
            elif unit.is_under_way():
                wrong += unit.reduction.replaced()
        for unit in self._units:
            try:
                if unit.reduction is not None:
                    unit.reduction.finish(last)
            except (RuntimeError, AssertionError) as e:
                failed = failed or e
        for p, name in lacking:
            if not p.requires_grad and not _has_nonzero(p.grad):
                p.grad = None  # it is frozen, so no step shall change it
            elif modified and not failed and _has_nonzero(p.grad):
                own.append(name)
        failed = failed or self._misuse(wrong, own)
        if failed:
            self._forget()
            raise failed

    @staticmethod
    def _misuse(wrong, own):
        """Return an error for a use of gradients that would make ranks differ, or None."""
        if wrong:
            return AssertionError(
                f"the gradient of {list_names(wrong)} was cleared or replaced after "
                "backward() had computed it and before step(): call zero_grad() before backward() "
                "or after step(), and optimizer.synchronize() before you replace gradients")
        if own:
            return AssertionError(
                "gradients were changed when some were already combined, but not that of "
                f"{list_names(own)}: backward() has reached it fewer times than others.  Call "
                "optimizer.synchronize() before you clip or change gradients, and optimizer.step() "
                "inside `with optimizer.skip_synchronize():` then")
        return None

    def _check_owner(self):
        """Raise an exception for parameters that now belong to another optimizer."""
        for unit in self._units:
            for p, name in zip(unit.params, unit.names):
                owner = parameter_names.owner(p)
                if owner is not self and owner is not None:
                    raise ValueError(
                        f"{name!r} also belongs to a later DistributedOptimizer, which combines "
                        "its gradient: create one DistributedOptimizer with several parameter "
                        "groups, or use the later one")

    @property
    def backward_passes_per_step(self):
        return self._passes

    @backward_passes_per_step.setter
    def backward_passes_per_step(self, passes):
        self.set_backward_passes_per_step(passes)

    def set_backward_passes_per_step(self, passes):
        """Set how many backward() calls are accumulated before gradients are reduced."""
        self._passes = passes
        for unit in self._units:
            if unit.reduction is None:
                unit.reset(passes)  # also a fresh one

    def synchronize(self):
        """Wait until every gradient has been combined.  Call this to read or change gradients
        before step()."""
        if self._synchronized:
            self._forget()
        self._complete()
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Make step() inside the with block not wait, because the program has called synchronize().
        """
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def _combine(self):
        """Combine the gradients, before the wrapped optimizer's step."""
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn("optimizer.step() called without optimizer.skip_synchronize() after "
                              "optimizer.synchronize(): the gradients are combined twice",
                              stacklevel=3)
                self._forget()
            self._complete(last=True)
        elif any(u.is_under_way() or u.reduction is None and any(
                left < self._passes for left in u.left) for u in self._units):
            raise AssertionError("step() with optimizer.skip_synchronize(), but gradients are not "
                                 "combined: call optimizer.synchronize() first")
        self._forget()

    def _combined(self, closure):
        """Return a closure over the batches of all ranks.  An optimizer may decide by its loss what
        to do next, so the loss must be the same on all ranks."""
        def combined():
            loss = closure()
            self._complete(last=True)
            self._forget()
            return self._of_all(loss) if self._units else loss

        return combined

    def _of_all(self, loss):
        """Return the result of a closure.  A number is combined like gradients; it must be a number
        on all ranks or on none."""
        if isinstance(loss, numbers.Real) and not isinstance(loss, bool):
            return self._of_all(torch.tensor(float(loss), dtype=torch.float64)).item()
        if not isinstance(loss, torch.Tensor):
            return loss
        return allreduce(loss.detach(), op=self._op, process_set=self._process_set)

    def step(self, closure=None):
        """Combine the gradients of all ranks, then run the wrapped optimizer's step.  Each time the
        optimizer calls a closure, the gradients and the loss that it computes are combined."""
        if closure is not None:
            if self._should_synchronize and any(u.is_under_way() for u in self._units):
                self._complete()  # of a backward() before
            result = super().step(self._combined(closure))
        else:
            self._combine()
            result = super().step()
        self._stepped()
        return result

    step.hooked = True  # torch wraps the inner step() for its step hooks; once is enough

    def zero_grad(self, *args, **kwargs):
        """Clear the gradients, after waiting for reductions.  A backward() for another optimizer,
        such as the one for a GAN's generator, may have started them unnecessarily."""
        self._follow_parameters()
        for unit in self._units:
            if unit.is_under_way():
                unit.reduction.discard()
        self._forget()
        return super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        """Load a state.  Wait for reductions in flight and discard their results and errors,
        because their job may have ended."""
        for unit in self._units:
            if unit.reduction is not None:
                unit.reduction.discard()
        self._forget()
        self._should_synchronize = True
        return super().load_state_dict(*args, **kwargs)

    # What GradScaler asks for

    def _before_unscale(self):
        """Combine all gradients, because GradScaler is about to read and divide them."""
        self._complete()

    def _agree_on_inf(self, found):
        """Return found unchanged: combined gradients are equal on all ranks, so the ranks agree."""
        return found


def DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none,
                         backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0,
                         num_groups=0, groups=None, sparse_as_dense=False,
                         process_set=global_process_set):
    """Wrap an optimizer so that step() uses the gradients of all ranks.

    The result is also an instance of the wrapped optimizer's class, and takes over its state.  As
    soon as backward() has computed a gradient, reading it returns the combined gradient.  The
    program can therefore clip, scale or examine gradients as in a program of one process.
    synchronize() waits for all gradients, also for those that this rank has not computed:

        loss.backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()

    gradient_predivide_factor, which requires Average, divides gradients by this factor before they
    are added up, and multiplies them by it afterwards.  groups is a number of groups, or a list of
    lists of parameters; the gradients of a group are combined together.  With op=hvd.Adasum, each
    rank runs its own step, and the changes of the steps are combined."""
    if isinstance(optimizer, Wrapped):
        raise ValueError("already a DistributedOptimizer: wrap torch's optimizer only once")
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
    base = DeltaOptimizer if op == Adasum else _DistributedOptimizer
    cls = class_of(base, type(optimizer))
    wrapped = cls.__new__(cls)
    # a scheduler may have replaced step() on the instance
    wrapped.__setstate__({k: v for k, v in vars(optimizer).items() if k != "step"})
    wrapped._original = weakref.ref(optimizer)
    if op == Adasum:
        wrapped._distribute(named_parameters, compression, backward_passes_per_step, process_set)
    else:
        wrapped._distribute(named_parameters, compression, backward_passes_per_step, op,
                            gradient_predivide_factor, groups, sparse_as_dense, process_set)
    return wrapped
