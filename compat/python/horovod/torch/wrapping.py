# wrapping.py - code that all wrapped optimizers share: names, copies, schedulers, the weight check.
# SPDX-License-Identifier: Apache-2.0

import weakref

from horovod.common.process_sets import global_process_set, number_of
from horovod.torch import parameter_names, weights
from horovod.torch.mpi_ops import size
from ringup import job

_sets = weakref.WeakValueDictionary()  # process sets of optimizers, by the numbers of their groups


def _pairs(named_parameters):
    """Return named parameters as a list, checked as Horovod does."""
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError("named_parameters must be pairs of a name and a parameter, like "
                         "model.named_parameters()")
    seen, twice = set(), set()
    for name, _ in pairs:
        (twice if name in seen else seen).add(name)
    if twice:
        raise ValueError("parameter names must be unique; these are not: "
                         + ", ".join(sorted(twice)))
    return pairs


def class_of(base, inner):
    """Return a class with two bases, one of ours and the optimizer's own, and the optimizer's name.
    """
    return type(inner.__name__, (base, inner), {})


def _again(base, inner):
    """Return an empty optimizer, for pickle and copy."""
    cls = class_of(base, inner)
    return cls.__new__(cls)


class Wrapped:
    """The base class that precedes the class of each wrapped optimizer."""

    def _remember(self, how):
        """Record the arguments of the wrapper, for copies, and name the parameters."""
        named = how.pop("named_parameters")
        process_set = how.pop("process_set")
        self._how = how
        self._set_number = number_of(process_set)
        if process_set is not global_process_set:
            _sets[self._set_number] = process_set
        self._travel_names, self._steps, self._check_every = {}, 0, weights.interval()
        self._original = vars(self).get("_original", lambda: None)
        self._is_copy = vars(self).get("_is_copy", False)
        self._parameter_names = {}
        if named is not None:
            pairs = _pairs(named)
            self._parameter_names = {p: name for name, p in pairs}
            by_id = {id(p) for _, p in pairs}
            params = [p for group in self.param_groups for p in group["params"]]
            unnamed = sum(id(p) not in by_id for p in params)
            if unnamed:
                raise ValueError(f"named_parameters leaves {unnamed} of the optimizer's "
                                 f"{len(params)} parameters without a name")
        size()  # complains if hvd.init() has not been called
        self._job = job.get()
        self._name_parameters()

    def _name_parameters(self):
        """Name the parameters that have no name yet, and assign the names under which ranks match
        them."""
        for i, group in enumerate(self.param_groups):
            names = group.get("param_names")
            for j, p in enumerate(group["params"]):
                if p not in self._parameter_names:
                    self._parameter_names[p] = self._new_name(names and names[j], i, j)
                if not self._is_copy and p not in self._travel_names:
                    self._travel_names[p] = parameter_names.claim(
                        self._set_number, self._parameter_names[p], p, self)

    def _new_name(self, name, i, j):
        """Return a name for a parameter that was given none, or for one that was added later."""
        taken = set(self._parameter_names.values())
        if name and self._how.get("grown") and name not in taken:
            return name
        name = f"allreduce.noname.{i}.{j}"
        while name in taken:
            name += "+"
        return name

    def _travel_name(self, p):
        """Return the name under which ranks match the gradient of a parameter.

        A copy of an optimizer gets its names on first use, because one rank may have copied it only
        to save it."""
        if p not in self._travel_names:
            self._is_copy = False
            self._name_parameters()
        return parameter_names.current(self._travel_names[p])

    def add_param_group(self, group):
        """Add parameters.  Their gradients are combined like those of the others."""
        super().add_param_group(group)
        if "_how" in vars(self):
            self._how["grown"] = True
            self._name_parameters()
            self._follow_parameters()

    def _follow_parameters(self):
        """Find parameters that are new."""

    def load_state_dict(self, *args, **kwargs):
        """Load a state.  The groups remain the same objects, because a scheduler that was created
        with the optimizer before it was wrapped also refers to them."""
        groups = self.param_groups
        super().load_state_dict(*args, **kwargs)
        for group, new in zip(groups, self.param_groups):
            group.clear()
            group.update(new)
        self.param_groups = groups

    def _stepped(self):
        """Record that a step has been done."""
        original = self._original()
        if original is not None:
            original._opt_called = True  # a scheduler of it would warn
        if not self._check_every or not self._process_set.included() or size() == 1:
            return
        if self._job is not job.get():  # ranks that are new have not counted
            self._job, self._steps = job.get(), 0
        self._steps += 1
        turn, rest = divmod(self._steps, self._check_every)
        if rest == 0:
            weights.check([(self._parameter_names[p], p) for group in self.param_groups
                           for p in group["params"]], turn, self._process_set)

    def __reduce_ex__(self, _protocol):
        """Return the data that torch keeps of an optimizer, and the arguments of the wrapper."""
        base, inner = type(self).__bases__
        state = dict(super().__getstate__())
        state["_wrapped"] = {**self._how, "process_set": self._set_number,
                             "names": [(name, p) for p, name in self._parameter_names.items()]}
        return _again, (base, inner), state

    def __setstate__(self, state):
        state = dict(state)
        how = state.pop("_wrapped", None)
        super().__setstate__(state)
        if how is None:
            return
        number = how.pop("process_set")
        process_set = _sets.get(number) if number else global_process_set
        if process_set is None:
            raise ValueError(f"this optimizer was wrapped for process set {number}, which does "
                             "not exist in this job: save optimizer.state_dict() and wrap a new "
                             "optimizer")
        how.pop("grown", None)
        self._is_copy = True
        self._distribute(named_parameters=how.pop("names"), process_set=process_set, **how)
