# parameter_names.py - names under which gradients are sent: unique among all optimizers of a job.
# SPDX-License-Identifier: Apache-2.0
"""Ranks match gradients by name.  A name that one parameter alone has is used as it is, as in
Horovod.  Where parameters of several optimizers have the same one (two layers, the two models of a
GAN), each is followed by the parameter's shape and, among equal shapes, a number in the order in
which their optimizers were wrapped.  So ranks may wrap optimizers in different orders as long as
shapes tell their parameters apart.

Names belong to a process set: other ranks may wrap other optimizers.  Nothing here depends on when
a rank frees an optimizer: within a job what has been named stays counted.  A parameter that is
wrapped again keeps its name.  In a new job, which ranks may join that have never seen optimizers of
the past, only those that still exist count.
"""

import gc
import weakref

from ringup import job

_job = None   # the job that these belong to
_named = {}   # (process set's id, name): [_Name]; two or more are told apart by what follows
_of = {}      # id of a parameter: [_Name]; it may have been given several
_owners = {}  # id of a parameter: weak references to it and to the optimizer that combines it


class _Name:
    """A parameter's claim to a name."""

    __slots__ = ("scope", "name", "shape", "number", "param")

    def __init__(self, scope, name, p):
        self.scope, self.name, self.param = scope, name, weakref.ref(p)
        self.shape, self.number = "x".join(map(str, p.shape)), 0

    def is_alone(self):
        """Return whether no other parameter has the same name."""
        return len(_named[self.scope, self.name]) == 1

    def __str__(self):
        if self.is_alone():
            return self.name
        return f"{self.name}@{self.shape}" + (f".{self.number}" if self.number > 1 else "")


def _enter(name):
    """Count a name."""
    same = _named.setdefault((name.scope, name.name), [])
    name.number = 1 + sum(other.shape == name.shape for other in same)
    same.append(name)
    _of.setdefault(id(name.param()), []).append(name)


def _follow():
    """Forget what no longer exists, if the job is another one."""
    global _job
    if _job is job.get():
        return
    if _named:
        gc.collect()  # so that all ranks forget the same
    old = [name for names in _named.values() for name in names]
    _named.clear(), _of.clear()
    _job = job.get()
    for name in old:
        if name.param() is not None:
            _enter(name)


def claim(scope, name, p, optimizer):
    """Name a parameter of an optimizer for a process set, which combines its gradient."""
    _follow()
    i, before = id(p), owner(p)
    if before is not None and before is not optimizer:
        before._has_lost = True
    _owners[i] = weakref.ref(p, lambda _: _owners.pop(i, None)), weakref.ref(optimizer)
    for known in _of.get(i, ()):
        if known.scope == scope and known.name == name and known.param() is p:
            return known
    known = _Name(scope, name, p)
    _enter(known)
    return known


def owner(p):
    """The optimizer that combines the gradient of a parameter: the last one wrapped with it."""
    parameter, optimizer = _owners.get(id(p), (None, None))
    return optimizer() if parameter is not None and parameter() is p else None


def current(name):
    """The name under which a gradient travels now: it changes when other optimizers get wrapped."""
    _follow()
    return str(name)
