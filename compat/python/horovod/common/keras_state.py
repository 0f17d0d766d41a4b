# keras_state.py - the elastic state of a Keras training run, on any back end.
# SPDX-License-Identifier: Apache-2.0

import functools
import re

from horovod.common.basics import rank
from horovod.common.elastic import ObjectState, meet_again, run_fn
from horovod.common.exceptions import HorovodInternalError
from horovod.common.objects import allgather_object, broadcast_object
from ringup import job


def translated(e):
    """Return Horovod's exception for a failed ringup operation in a graph, which each framework
    raises in its own way.  Return None for other exceptions."""
    told = re.search(r"([^\n]*) \[ringup (E[A-Z]+)\]", str(getattr(e, "message", None) or e))
    if told is None:
        return None
    text = told.group(1)
    error = HorovodInternalError(text)
    error.__cause__ = job.error_of(told.group(2), text)
    return error


def run(func):
    """Decorate the training function, whose first argument is a State.

    On every rank, the function is called with the state of rank 0. It is called again each time the
    ranks have met again: with the last commit if a rank was lost, with the current state if hosts
    have changed."""
    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        try:
            return func(state, *args, **kwargs)
        except Exception as e:
            error = None if isinstance(e, HorovodInternalError) else translated(e)
            if error is None:
                raise
            raise error from error.__cause__

    return run_fn(wrapper, meet_again)


def optimizer_variables(optimizer):
    """Return the variables of an optimizer.  Keras 2 has a method for them, Keras 3 a property."""
    if optimizer is None:
        return []
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def _is_of_keras_2(variable):
    """Return whether it is a TensorFlow variable."""
    return hasattr(variable, "numpy") and not hasattr(variable, "_value")


def _graph_backend(variables):
    """Return Keras's functions for variables of a TensorFlow 1 graph, whose values are in its
    session.  None: each variable returns its own value."""
    if not variables or not all(map(_is_of_keras_2, variables)):
        return None
    import tensorflow as tf
    return None if tf.executing_eagerly() else tf.compat.v1.keras.backend


def _value(variable):
    """Return a copy of a variable's value, as an array."""
    if _is_of_keras_2(variable):
        return variable.numpy()
    import keras
    return keras.ops.convert_to_numpy(variable.value).copy()


def _values(variables):
    """Return copies of variables' values, as arrays."""
    backend = _graph_backend(variables)
    return backend.batch_get_value(variables) if backend else [_value(v) for v in variables]


def _set_values(variables, values):
    """Overwrite variables.  An optimizer creates some variables only when it first needs them;
    variables without a value become 0."""
    backend, known = _graph_backend(variables), len(values)
    values = [*values, *(0 * value for value in _values(variables[known:]))]
    if backend:
        backend.batch_set_value(list(zip(variables, values)))
        return
    for v, value in zip(variables, values):
        v.assign(value)


class KerasState(ObjectState):
    """The state of training with Keras: KerasState(model, optimizer, epoch=0).

    Each keyword becomes an attribute.  Without an optimizer, the state uses the model's optimizer.
    """

    def __init__(self, model, optimizer=None, backend=None, **kwargs):
        if not getattr(model, "built", True):
            raise ValueError("Model must be built first. Run `model.build(input_shape)`.")
        self.model, self.backend = model, backend
        self.optimizer = optimizer or getattr(model, "optimizer", None)
        self._save_model()
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **kwargs)

    def _variables(self):
        return list(self.model.variables), optimizer_variables(self.optimizer)

    def _copies(self):
        return [_values(variables) for variables in self._variables()]

    def _save_model(self):
        # A copy in host memory is made after the GPU has computed the values.
        copies = self._copies()
        self.await_values()
        self._saved_model_state, self._saved_optimizer_state = copies

    def _load_model(self):
        saved = self._saved_model_state, self._saved_optimizer_state
        for variables, values in zip(self._variables(), saved):
            _set_values(variables, values)

    def save(self):
        copies, values = self._copies(), self._attributes()
        self.await_values(values)
        self._saved_model_state, self._saved_optimizer_state = copies
        self._saved_state = values

    def restore(self):
        self._load_model()
        super().restore()

    def sync(self):
        if len(set(allgather_object(len(optimizer_variables(self.optimizer))))) > 1:
            self._build_optimizer()
        model, optimizer = self._variables()
        self._assign(model + optimizer)
        self._save_model()
        super().sync()

    @staticmethod
    def _assign(variables):
        """Overwrite variables with rank 0's values.  They are sent as objects, which need no graph.
        """
        root = rank() == 0
        sent = broadcast_object(_values(variables) if root else None, name="keras_state")
        if not root:
            _set_values(variables, sent)

    def _build_optimizer(self):
        """Let the optimizer create all its variables.  It creates some only when it first needs
        them, and a new rank has not needed any yet."""
        variables = self.model.trainable_variables
        if hasattr(self.optimizer, "build"):
            self.optimizer.build(variables)
        elif hasattr(self.optimizer, "_create_all_weights"):
            self.optimizer._create_all_weights(variables)
