# jax_passes.py - add up the gradients of several backward passes in a Keras optimizer on JAX.
# SPDX-License-Identifier: Apache-2.0
"""Compiled JAX code keeps only its arguments and results, and Keras passes it the optimizer's
variables.  The sums of gradients, and the number of passes in them, are therefore variables of the
optimizer.  A saved model does not contain them."""

import contextlib
import functools

import jax
import jax.numpy as jnp


class Passes:
    """Makes an optimizer combine and apply the sum of the gradients of several passes.

    combined(grads, variables) returns the gradients of all ranks.  update(state, grads, trainable)
    is the optimizer's own stateless_apply()."""

    def __init__(self, optimizer, passes, average, combined, update):
        self.optimizer, self.passes, self.average = optimizer, passes, average
        self.combined, self.update = combined, update
        self.sums, self.count = [], None
        inner = optimizer.build

        @functools.wraps(inner)
        def build(variables):
            inner(variables)
            self._add_variables(variables)

        optimizer.build = build
        for name in ("save_own_variables", "load_own_variables"):
            setattr(optimizer, name, self._without_own(getattr(optimizer, name)))
        if optimizer.built:
            self._add_variables(optimizer._trainable_variables)

    def _add_variables(self, variables):
        if self.count is None:
            self.sums = [self.optimizer.add_variable_from_reference(v, "sum_of_passes")
                         for v in variables]
            self.count = self.optimizer.add_variable((), "zeros", "int32", name="passes")

    @contextlib.contextmanager
    def _hidden(self):
        """Make the optimizer appear to have no variables of this object."""
        own, known = {id(v) for v in (*self.sums, self.count)}, self.optimizer._variables
        everything = list(known)
        known[:] = [v for v in everything if id(v) not in own]
        try:
            yield
        finally:
            known[:] = everything

    def _without_own(self, method):
        @functools.wraps(method)
        def hidden(store):
            with self._hidden():
                method(store)

        return hidden

    def _iterations(self):
        """Return the variable in which the optimizer counts steps; None if its steps are not
        updates."""
        counting = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        steps = getattr(counting, "gradient_accumulation_steps", None)
        return None if steps else counting._iterations

    def stateless_apply(self, optimizer_variables, grads, trainable_variables):
        """Run the optimizer's stateless_apply() after each last pass."""
        place = {id(v): i for i, v in enumerate(self.optimizer.variables)}
        at = [place[id(v)] for v in self.sums]
        at_count, at_steps = place[id(self.count)], place.get(id(self._iterations()))
        state, trainable = list(optimizer_variables), list(trainable_variables)
        sums = [state[i] if g is None else state[i] + g.astype(state[i].dtype)
                for i, g in zip(at, grads)]
        count = state[at_count] + 1

        def with_own(after, sums, count):
            after = list(after)
            for i, value in zip([*at, at_count], [*sums, count]):
                after[i] = value
            return after

        def last():
            combined = self.combined([None if g is None else s for g, s in zip(grads, sums)],
                                     self.optimizer._trainable_variables)
            if self.average:
                combined = [None if g is None else g / self.passes for g in combined]
            new, after = self.update(state, combined, trainable)
            left = [s if g is None else jnp.zeros_like(s) for g, s in zip(grads, sums)]
            return list(new), with_own(after, left, jnp.zeros_like(count))

        def another():
            after = with_own(state, sums, count)
            if at_steps is not None:  # a step without an update counts, too
                after[at_steps] = after[at_steps] + 1
            return trainable, after

        is_last = count >= self.passes
        if isinstance(is_last, jax.core.Tracer):
            return jax.lax.cond(is_last, last, another)
        return last() if is_last else another()

    def apply(self, grads, trainable_variables=None):
        """Run the optimizer's apply() after each last pass."""
        optimizer = self.optimizer
        if not optimizer.built:
            if trainable_variables is None:
                raise ValueError("optimizer.build(variables) must come before apply(grads)")
            optimizer.build(list(trainable_variables))
        known = optimizer._trainable_variables
        if trainable_variables is None:
            trainable_variables = known
        given = {id(v): g for g, v in zip(grads, trainable_variables)}
        unknown = [v.path for v in trainable_variables if all(v is not k for k in known)]
        if unknown:
            raise ValueError(f"the optimizer was built for other variables than {unknown}")
        new, after = self.stateless_apply([v.value for v in optimizer.variables],
                                          [given.get(id(v)) for v in known],
                                          [v.value for v in known])
        for v, value in zip([*known, *optimizer.variables], [*new, *after]):
            v.assign(value)
