# gradients.py - gradients in flight: their reductions, and the object that replaces p.grad.
# SPDX-License-Identifier: Apache-2.0
"""A reduction runs in the background, in the gradient's own memory.  Meanwhile, p.grad is a
PendingGradient.  The first operation that reads or changes it waits for the reduction, so a program
sees the combined gradient or none.  After that, p.grad is the tensor that backward() produced."""

import itertools
import weakref

import torch

from horovod.torch.mpi_ops import synchronize
from ringup import job

_T = torch.Tensor
# What these tell of a gradient is the same before and after its reduction.
_METADATA = {getattr(_T, name).__get__ for name in (
    "shape", "dtype", "device", "layout", "ndim", "is_sparse", "is_cuda", "is_leaf", "grad_fn",
    "requires_grad", "_version", "_base", "is_cpu", "is_meta", "is_quantized", "names")
    if hasattr(_T, name)} | {getattr(_T, name) for name in (
        "size", "dim", "numel", "nelement", "stride", "is_contiguous", "element_size", "get_device",
        "is_floating_point", "is_complex", "__len__") if hasattr(_T, name)} | {
            torch.is_floating_point, torch.is_complex, torch.numel}
_bases = {}  # id of a tensor: a weak reference to it, and its version when autograd last wrote


class PendingGradient(torch.Tensor):
    """A gradient whose reduction may still be running.  It shares the memory of the tensor that it
    stands for, .value, because autograd, which does not call __torch_function__(), adds to that
    memory."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in _METADATA:
            return func(*_replaced(args, _value), **_replaced(kwargs or {}, _value))
        return func(*_replaced(args, _waited), **_replaced(kwargs or {}, _waited))


def pending(value, reduction):
    """Return a PendingGradient for a gradient; None if the gradient has a class of its own."""
    if type(value) is not torch.Tensor or value.requires_grad:
        return None
    p = torch.Tensor._make_subclass(PendingGradient, value)
    p.value, p.reduction = value, reduction
    return p


def _value(gradient):
    return gradient.value


def _waited(gradient):
    """Return the combined gradient."""
    if gradient.reduction is not None:
        gradient.reduction.finish()
    return gradient.value


def _replaced(x, f):
    """Return nested arguments with f() applied to each PendingGradient."""
    if type(x) is PendingGradient:
        return f(x)
    if isinstance(x, dict):
        return {k: _replaced(v, f) for k, v in x.items()}
    if type(x) in (list, tuple):
        return type(x)([_replaced(v, f) for v in x])
    return x


def settled(p):
    """Return p.grad as a tensor, after waiting for a reduction that the parameter's previous
    optimizer has started."""
    grad = p.grad
    if type(grad) is not PendingGradient:
        return grad
    value = _waited(grad)
    if p.grad is grad:
        p.grad = value
    return p.grad


def _version(value):
    """Return how often a gradient has been written; None for a view, because all views of a tensor
    share the count."""
    return value._version if value._base is None else None


def _note_version(value):
    """Record that autograd has written a gradient; return _version(). The version of a view's base
    changes as long as backward() continues."""
    base = value._base
    if base is None:
        return value._version
    i = id(base)
    _bases[i] = weakref.ref(base, lambda _: _bases.pop(i, None)), base._version
    return None


def _has_changed(value, version):
    """Return whether the program has changed a gradient since _note_version()."""
    if version is not None:
        return value._version != version
    ref, version = _bases.get(id(value._base), (lambda: None, None))
    return ref() is value._base and value._version != version


class Reduction:
    """The gradients of a Unit, from the start of their reduction until step().

    p.grad refers to this object, so the object must not refer to p: the memory of such a cycle
    would never be freed."""

    __slots__ = ("params", "names", "parts", "compression", "job", "done", "failed", "values",
                 "versions", "pending", "after", "__weakref__")

    def __init__(self, unit, parts, compression, visible):
        self.params, self.names = unit.refs, unit.names
        self.parts, self.compression = parts, compression
        self.job, self.done, self.failed = job.get(), False, None
        self.values = [p.grad for p in unit.params]
        self.versions = [_note_version(v) for v in self.values]
        self.pending = [None] * len(self.values)
        self.after = None  # (weak reference, version) of each gradient when it was combined
        if visible:
            self._show(unit)

    def _show(self, unit):
        """Make each p.grad a PendingGradient."""
        for i, (p, value) in enumerate(zip(unit.params, self.values)):
            waiting = unit.waiting[i]
            if waiting is not None and waiting.value is value:
                waiting.reduction = self
            else:
                waiting = pending(value, self)
            self.pending[i], unit.waiting[i] = waiting, None
            if waiting is not None:
                p.grad = waiting

    def _gradients(self):
        """Return p.grad of each parameter."""
        params = [ref() for ref in self.params]
        return [None if p is None else p.grad for p in params]

    def is_over(self):
        """Return whether the job in which the reduction was started has ended."""
        return not self.job.running or self.job is not job.get()

    def replaced(self):
        """Return the names of parameters whose gradient the program has cleared or replaced without
        reading it."""
        return [] if self.done else [
            name for grad, name, value, waiting in zip(self._gradients(), self.names, self.values,
                                                       self.pending)
            if grad is not (value if waiting is None else waiting)]

    def touched(self):
        """Return the names of parameters whose gradient changed during its reduction."""
        return [] if self.done else [
            name for name, value, version in zip(self.names, self.values, self.versions)
            if _has_changed(value, version)]

    def modified(self):
        """Return whether the program has changed a reduced gradient."""
        return self.after is not None and any(
            ref() is None or grad is not ref() or _version(grad) != version
            for grad, (ref, version) in zip(self._gradients(), self.after))

    def finish(self, last=False):
        """Wait for the reduction and make p.grad the combined gradient.  A failure is raised by
        each call.  last means that modified() is not called after this."""
        if not self.done:
            wrong = self.touched()
            while self.parts:
                try:
                    self._finish_part(*self.parts[0])
                except RuntimeError as e:  # the others must be waited for too
                    self.failed = self.failed or e
                self.parts.pop(0)
            self._end(last)
            if wrong and not self.failed:
                self.failed = AssertionError(
                    f"the gradient of {list_names(wrong)} was changed while it was combined with "
                    "those of the other ranks, through other tensors in the same memory or by a "
                    "second backward(): call optimizer.synchronize() before you change gradients, "
                    "and optimizer.step() inside `with optimizer.skip_synchronize():` then")
        if self.failed:
            raise self.failed

    def _finish_part(self, places, handle, contexts):
        """Wait for some of the gradients, and put the results where they belong."""
        results = handle() if callable(handle) else synchronize(handle)
        results = results if isinstance(results, list) else [results]
        for i, result, context in zip(places, results, contexts):
            if not callable(handle):
                result = self.compression.decompress(result, context)
            value = self.values[i]
            if result is value:
                continue
            with torch.no_grad():
                if value.is_sparse:
                    if not result.is_sparse:
                        result = result.to_sparse(value.sparse_dim())
                    self._replace(i, value, result)
                    self.values[i] = result
                elif result.data_ptr() != value.data_ptr():
                    value.copy_(result)

    def _end(self, last):
        """Show the results, and keep nothing alive."""
        self.done = True
        for i, (value, waiting) in enumerate(zip(self.values, self.pending)):
            if waiting is not None:
                self._replace(i, waiting, value)
                waiting.value, waiting.reduction = value, None
        if not last:
            self.after = [(weakref.ref(v), _version(v)) for v in self.values]
        self.values = self.pending = ()

    def _replace(self, i, old, new):
        """Replace the i-th p.grad with another tensor, if it is still this one."""
        p = self.params[i]()
        if p is not None and p.grad is old:
            p.grad = new

    def discard(self):
        """Wait for the reduction, and discard its result or failure."""
        try:
            self.finish()
        except (RuntimeError, AssertionError, ValueError):
            pass
        self.failed = None


class _Incomplete:
    """Stands for the Reduction of a Unit that lacks some of its gradients.  The reduction starts
    when the program reads one of the others after backward()."""

    def __init__(self, start):
        self.start = start

    def finish(self):
        """Start the reduction and wait for it.  Not inside backward(), which may soon compute the
        missing gradients."""
        if getattr(torch._C, "_current_graph_task_id", lambda: -1)() == -1:
            reduction = self.start()
            if reduction is not None:
                reduction.finish()


class Unit:
    """Parameters whose gradients are combined together, and how many backward() calls for each of
    them are still due before that."""

    def __init__(self, params, names, passes):
        self.params, self.names = params, names
        self.refs = list(map(weakref.ref, params))
        self.active = any(p.requires_grad for p in params)  # it never was, if not
        self.reduction, self.waiting = None, [None] * len(params)
        self.sparse_dims = {}  # number of a parameter: sparse dimensions that its gradient had
        self.reset(passes)

    def reset(self, passes):
        """Start to count from zero.  Gradients that waited for others belong to the program again.
        """
        self.reduction, self.left, self.is_fresh = None, [passes] * len(self.params), True
        self.seen = [None] * len(self.params)  # (weak reference, version) after each backward()
        for i, waiting in enumerate(self.waiting):
            if waiting is not None:
                self._release(i, waiting)

    def _release(self, i, waiting):
        if self.params[i].grad is waiting:
            self.params[i].grad = waiting.value
        self.waiting[i] = waiting.reduction = None

    def is_under_way(self):
        """Return whether a reduction is in flight that nothing has waited for yet."""
        return self.reduction is not None and not self.reduction.done

    def note(self, i):
        """Record the i-th gradient as backward() has left it."""
        grad = self.params[i].grad
        self.seen[i] = weakref.ref(grad), _version(grad)

    def is_new(self, i):
        """Return whether the i-th gradient was cleared since the previous backward()."""
        grad, seen, waiting = self.params[i].grad, self.seen[i], self.waiting[i]
        if seen is None or grad.requires_grad:
            return False
        return grad is not (seen[0]() if waiting is None else waiting)

    def zeros(self, i):
        """Return a gradient of zeros for the i-th parameter, if this rank has computed none.  It
        has the same kind as the previous gradient, as the other ranks' gradients will."""
        p, sparse = self.params[i], self.sparse_dims.get(i)
        if sparse is None:
            return torch.zeros_like(p, requires_grad=False)
        indices = torch.empty((sparse, 0), dtype=torch.int64, device=p.device)
        values = torch.empty((0, *p.shape[sparse:]), dtype=p.dtype, device=p.device)
        return torch.sparse_coo_tensor(indices, values, p.shape)

    def wait_for_others(self, i, start):
        """Make the i-th gradient pending, because the unit is not complete."""
        value = self.params[i].grad
        if type(value) is torch.Tensor:
            self.waiting[i] = pending(value, _Incomplete(start))
            if self.waiting[i] is not None:
                self.params[i].grad = self.waiting[i]

    def take_back(self):
        """Make each p.grad an ordinary tensor, as a reduction requires."""
        for i, p in enumerate(self.params):
            waiting = self.waiting[i]
            if waiting is None:
                settled(p)
            elif p.grad is waiting:
                p.grad = waiting.value
            else:
                self.waiting[i] = None

    def changed(self):
        """Return the names of parameters whose local gradient the program has changed."""
        return [name for p, name, seen in zip(self.params, self.names, self.seen)
                if seen is not None and p.grad is not None and _version(p.grad) != seen[1]]


def list_names(names):
    """Return some names, for messages."""
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(map(repr, names[:4])) + more


def split(params, groups):
    """Return lists of parameters whose gradients are combined together."""
    if groups is None:
        return [[p] for p in params]
    if isinstance(groups, int):
        each, more = divmod(len(params), groups)
        ends = list(itertools.accumulate([each + (i < more) for i in range(groups)]))
        return [params[a:b] for a, b in zip([0] + ends, ends) if a < b]
    wanted, grouped = {id(p) for p in params}, {id(p) for g in groups for p in g}
    some = [[p for p in g if id(p) in wanted] for g in groups]
    return [g for g in some if g] + [[p] for p in params if id(p) not in grouped]
