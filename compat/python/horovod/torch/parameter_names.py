# parameter_names.py - names under which gradients are sent: unique among all optimizers of a job.
# SPDX-License-Identifier: Apache-2.0
"""Ranks match gradients by name.  A name that belongs to one parameter is used unchanged, as in
Horovod.  If parameters of several optimizers have the same name, such as two layers or the two
models of a GAN, the parameter's shape is appended to the name.  For equal shapes, a number is
appended as well, in the order in which the optimizers were wrapped.  Ranks may therefore wrap
optimizers in different orders if the shapes of their parameters differ.

Names belong to a process set, because other ranks may wrap other optimizers.  Names do not depend
on when a rank frees an optimizer: within a job, a name stays counted.  A parameter that is wrapped
again keeps its name.  In a new job, only existing optimizers count, because ranks that never had
the previous ones may join it."""

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
    """If the job is a new one, forget parameters that no longer exist."""
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
    """Name a parameter of an optimizer, for the process set that combines its gradient."""
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
    """Return the optimizer that combines the gradient of a parameter, which is the last one that
    was wrapped with it."""
    parameter, optimizer = _owners.get(id(p), (None, None))
    return optimizer() if parameter is not None and parameter() is p else None


def current(name):
    """Return the current name of a gradient, which changes when other optimizers are wrapped."""
    _follow()
    return str(name)
