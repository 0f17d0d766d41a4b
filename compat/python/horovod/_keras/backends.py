# backends.py - combine gradients on each Keras backend.
# SPDX-License-Identifier: Apache-2.0
"""Each Keras backend is a class.  It has a name, Compression and how(); a Reducer, which runs the
steps of an optimizer; assign(), which gives variables root's values; and value(), which converts a
returned array."""

import math

from horovod.common import array_weights, arrays, weights
from horovod.common.objects import check_lengths
from horovod.common.process_sets import global_process_set
from horovod.common.semantics import Average


def of(keras):
    """Return the backend of a Keras module, which was chosen when it was imported."""
    name = keras.backend.backend() if hasattr(keras.backend, "backend") else "tensorflow"
    if name == "tensorflow":
        return TensorFlow
    if name == "torch":
        return Torch
    if name == "jax":
        return Jax
    raise NotImplementedError(f"Keras runs on {name}; horovod.keras combines gradients on "
                              "tensorflow, torch and jax")


class _Lazy:
    """An attribute that is imported on first use."""

    def __init__(self, load):
        self.load = load

    def __get__(self, _instance, owner):
        return self.load()


def _tensorflow(name):
    import horovod.tensorflow as hvd
    return getattr(hvd, name)


class TensorFlow:
    """Keras 2, and Keras 3 on TensorFlow."""

    name = "tensorflow"
    Compression = _Lazy(lambda: _tensorflow("Compression"))

    @staticmethod
    def how(**kwargs):
        from horovod.tensorflow import gradients
        return gradients.how(**kwargs)

    @staticmethod
    def Reducer(*args):
        from horovod._keras.tensorflow_reducer import TensorFlowReducer
        return TensorFlowReducer(*args)

    @staticmethod
    def value(array):
        """Return a tensor in eager code, as Horovod does."""
        import tensorflow as tf
        return tf.convert_to_tensor(array) if tf.executing_eagerly() else array

    @staticmethod
    def check_weights(model):
        """Do nothing.  After a batch, other backends compare the ranks' weights here; gradients.py
        compares those of TensorFlow in each step."""

    @staticmethod
    def assign(variables, root_rank, process_set=global_process_set):
        from horovod.tensorflow.functions import broadcast_variables
        return broadcast_variables(variables, root_rank, process_set)


class _How:
    """The way to combine gradients: Horovod's arguments."""

    def __init__(self, op, gradient_predivide_factor, compression, sparse_as_dense, num_groups,
                 groups, process_set):
        if gradient_predivide_factor != 1.0 and op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        groups = groups if groups is not None else num_groups or None
        if groups is not None and not isinstance(groups, list) and groups <= 0:
            raise ValueError("groups must be a positive number or a list of lists of variables")
        self.op, self.predivide, self.compression = op, gradient_predivide_factor, compression
        self.groups, self.process_set = groups, process_set

    def units(self, grads, variables):
        """Return lists of indices of gradients that are combined together."""
        there = [i for i, g in enumerate(grads) if g is not None]
        if self.groups is None:
            return [[i] for i in there]
        if isinstance(self.groups, int):
            each = math.ceil(len(there) / self.groups) or 1
            return [there[a:a + each] for a in range(0, len(there), each)]
        index = {id(variables[i]): i for i in there}
        units = [[index.pop(id(v)) for v in group if id(v) in index] for group in self.groups]
        return [u for u in units if u] + [[i] for i in index.values()]


class ArrayReducer:
    """Combines gradients outside of graphs: adds up the gradients of several passes in Python, and
    combines them with combine()."""

    def __init__(self, how, scope, scale_local_gradients, passes, average_aggregated_gradients):
        self.how, self.scope, self.passes = how, scope, passes
        self.average, self.scale = average_aggregated_gradients, scale_local_gradients
        self.local, self.count, self.sums = set(), 0, None
        self.is_each_step = passes == 1

    def register_local_var(self, var):
        """Keep the gradient of this variable local to this rank."""
        self.local.add(id(var))

    def step(self, grads, variables, optimizer, update):
        """Combine the gradients, and update variables with them."""
        if self.passes > 1:
            self.sums = grads if self.sums is None else [
                s if g is None else g if s is None else s + g for s, g in zip(self.sums, grads)]
            self.count += 1
            if self.count < self.passes:
                self._count_iteration(optimizer)
                return None
            grads, self.sums, self.count = self.sums, None, 0
        combined = self._combined(grads, variables)
        if self.passes > 1 and self.average:
            combined = [None if g is None else g / self.passes for g in combined]
        return update(combined)

    @staticmethod
    def _count_iteration(optimizer):
        """Count an iteration for a step that updates nothing."""
        optimizer.iterations.assign(optimizer.iterations + 1)

    def _combined(self, grads, variables):
        process_set = self.how.process_set
        if not process_set.included() or process_set.size() == 1:
            return grads
        shared = [i for i, v in enumerate(variables) if id(v) not in self.local]
        out = [g / process_set.size() if self.scale and g is not None else g for g in grads]
        for i, g in zip(shared, self.combine([grads[i] for i in shared],
                                             [variables[i] for i in shared])):
            out[i] = g
        return out

    def passes_of(self, _optimizer, _update):
        """Return the object that sums several passes in the optimizer's variables; None if step()
        sums them."""
        return None

    def label(self, i, variables):
        """Return the name under which ranks match a gradient: its place in the list.  Names of
        variables contain numbers that count everything that the process has built."""
        return f"{self.scope}.{i + 1}of{len(variables)}"

    def combine(self, grads, variables):
        """Return the gradients of all ranks."""
        raise NotImplementedError


class _TorchReducer(ArrayReducer):
    """Combines gradients that are torch tensors, in place."""

    def combine(self, grads, variables):
        from horovod.torch.mpi_ops import grouped_allreduce_async_, synchronize
        _check_weights(self.scope, variables, self.how.process_set)
        h, out, started = self.how, list(grads), []
        for unit in h.units(grads, variables):
            small, contexts = zip(*[h.compression.compress(grads[i].detach()) for i in unit])
            handle = grouped_allreduce_async_(list(small), name=self.label(unit[0], variables),
                                              op=h.op, prescale_factor=1.0 / h.predivide,
                                              postscale_factor=h.predivide,
                                              process_set=h.process_set)
            started.append((unit, contexts, handle))
        for unit, contexts, handle in started:
            for i, t, ctx in zip(unit, synchronize(handle), contexts):
                out[i] = h.compression.decompress(t, ctx)
        return out


def _check_weights(scope, variables, process_set):
    """If a check is due, compare samples of the ranks' weights."""
    if weights.interval():
        import keras
        array_weights.check(scope, variables, lambda v: keras.ops.convert_to_numpy(v.value),
                            process_set)


class _ArrayBackend:
    """A backend whose weights can be read as NumPy arrays."""

    how = staticmethod(_How)

    @staticmethod
    def value(array):
        """Return the array."""
        return array

    @staticmethod
    def assign(variables, root_rank, process_set=global_process_set):
        """Overwrite variables with root's values."""
        import keras
        check_lengths(len(variables), process_set)
        values = [keras.ops.convert_to_numpy(v.value) for v in variables]
        for v, value in zip(variables, arrays.broadcast_all(values, root_rank, "keras.variables",
                                                            process_set)):
            v.assign(value)


class Torch(_ArrayBackend):
    """Keras 3 on torch."""

    name = "torch"

    @staticmethod
    def _compression():
        from horovod.torch.compression import Compression
        return Compression

    Compression = _Lazy(lambda: Torch._compression())
    Reducer = _TorchReducer

    @staticmethod
    def check_weights(model):
        """Do nothing.  The reducer compares the ranks' weights in each step."""


class Jax(_ArrayBackend):
    """Keras 3 on JAX."""

    name = "jax"

    @staticmethod
    def _compression():
        from horovod._keras.jax_reducer import Compression
        return Compression

    Compression = _Lazy(lambda: Jax._compression())

    @staticmethod
    def check_weights(model):
        """Compare the ranks' weights after a batch, because compiled code cannot do so during it.
        """
        reducer = getattr(getattr(model, "optimizer", None), "_ringup_distributed", None)
        if reducer is not None:
            shared = [v for v in model.trainable_variables if id(v) not in reducer.local]
            _check_weights(reducer.scope, shared, reducer.how.process_set)

    @staticmethod
    def Reducer(*args):
        from horovod._keras.jax_reducer import JaxReducer
        return JaxReducer(*args)
