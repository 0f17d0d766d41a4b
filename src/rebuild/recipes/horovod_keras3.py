# horovod_keras3.py - Horovod for models of Keras 3: gradients are averaged where it applies them.
# SPDX-License-Identifier: Apache-2.0
"""Laid over Horovod 0.28.1 by `ringup rebuild`.

Horovod overrides methods that Keras 2 called with gradients.  Keras 3 calls none of them: it
hands gradients to Optimizer.apply(), so without this nothing is averaged and nothing fails.
"""

import types
import warnings

import horovod.tensorflow as hvd
import tensorflow as tf


def is_module(keras):
    """Is the module @keras that of Keras 3?"""
    return int(getattr(keras, "__version__", "2").split(".")[0]) >= 3


def is_optimizer(optimizer):
    """Is it, or its class, one of Keras 3?"""
    cls = optimizer if isinstance(optimizer, type) else type(optimizer)
    return any(c.__module__.startswith("keras.src.") and hasattr(c, "apply") for c in cls.__mro__)


def variable_of(var):
    """TensorFlow's variable in one of Keras 3; any other is itself."""
    value = getattr(var, "value", None)
    return var if value is None or callable(value) else value


def to_broadcast(variables):
    """TensorFlow's variables among @variables, but for states of random generators: ranks
    are to draw different numbers, and there is no operation for their type."""
    return [v for v in map(variable_of, variables) if v.dtype not in (tf.uint32, tf.uint64)]


def _times(grad, factor):
    if grad is None or factor == 1:
        return grad
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(grad.values * factor, grad.indices, grad.dense_shape)
    return grad * factor


class _Ranks:
    """What a wrapped optimizer knows of the other ranks."""

    def __init__(self, reduce, process_set, scale_local, factor):
        self.reduce, self.process_set = reduce, process_set
        self.scale_local, self.factor = scale_local, factor
        self.local = set()

    def combine(self, grads, variables):
        """@grads with those of the other ranks, but for local variables' own."""
        shared = [i for i, v in enumerate(variables) if v.ref() not in self.local]
        out = list(grads)
        for i, grad in zip(shared, self.reduce([grads[i] for i in shared],
                                               [variables[i] for i in shared])):
            out[i] = grad
        if self.scale_local:
            for i in set(range(len(out))) - set(shared):
                out[i] = _times(out[i], 1 / self.process_set.size())
        return [_times(grad, self.factor) for grad in out]


def wrap(optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
         gradient_predivide_factor, op, backward_passes_per_step, average_aggregated_gradients,
         groups, process_set, scale_local_gradients, **_):
    """What create_distributed_optimizer() does, for an optimizer of Keras 3."""
    import keras
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError("horovod.tensorflow needs Keras with KERAS_BACKEND=tensorflow, not "
                           + keras.backend.backend())
    base, config = type(optimizer), optimizer.get_config()
    name = name or "Distributed" + base.__name__
    if backward_passes_per_step > 1:
        if config.get("gradient_accumulation_steps"):
            raise ValueError("the optimizer has gradient_accumulation_steps already; say it "
                             "there or as backward_passes_per_step, not twice")
        config["gradient_accumulation_steps"] = backward_passes_per_step
    if isinstance(groups, list):
        groups = [[variable_of(v) for v in group] for group in groups]
    reduce = hvd._make_allreduce_grads_fn(name, device_dense, device_sparse, compression,
                                          sparse_as_dense, op, gradient_predivide_factor, groups,
                                          process_set=process_set)
    # Keras averages what it accumulates; Horovod, unless told, sums it.
    factor = 1 if average_aggregated_gradients else backward_passes_per_step

    def apply(self, grads, trainable_variables=None):
        grads = list(grads)
        if trainable_variables is None:
            trainable_variables = self._trainable_variables
        trainable_variables = list(trainable_variables)
        grads = self._ranks.combine(grads, [variable_of(v) for v in trainable_variables])
        return base.apply(self, grads, trainable_variables)

    def register_local_var(self, var):
        self._ranks.local.add(variable_of(var).ref())

    # Named as what it wraps and as if from there, so that a saved model loads without Horovod.
    cls = types.new_class(base.__name__, (base,))
    cls.__module__, cls.__qualname__ = base.__module__, base.__qualname__
    cls.apply, cls.register_local_var = apply, register_local_var
    made = cls.from_config(config)
    object.__setattr__(made, "_ranks",
                       _Ranks(reduce, process_set, scale_local_gradients, factor))
    return made


def load_model(keras, wrap_optimizer, filepath, custom_optimizers=None, custom_objects=None, **_):
    """A saved model, its optimizer wrapped and in the state in which it was saved."""
    objects = {cls.__name__: cls for cls in custom_optimizers or ()}
    objects.update(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects)
    plain = getattr(model, "optimizer", None)
    if plain is None:
        return model
    made = wrap_optimizer(lambda **config: type(plain).from_config(config))(**plain.get_config())
    if plain.built:
        made.build(model.trainable_variables)
        for to, source in zip(made.variables, plain.variables):
            to.assign(source)
    model.optimizer = made
    return model


_told = set()


def has_momentum(optimizer):
    """Has it a momentum that can be changed while training runs?  Says so once if not."""
    momentum = getattr(optimizer, "momentum", None)
    if momentum is None or hasattr(momentum, "assign"):
        return momentum is not None
    if momentum and "momentum" not in _told:
        _told.add("momentum")
        warnings.warn("this Keras compiles momentum in as a number, so that it is not corrected "
                      "while the learning rate changes; momentum_correction=False says the same")
    return False


class _Backend:
    """What Horovod calls of keras.backend, where Keras 3 has it no more."""

    @staticmethod
    def _keras():
        """Of tf.keras, which is Keras 2 where TF_USE_LEGACY_KERAS=1 says so."""
        return None if is_module(tf.keras) else tf.keras.backend

    def get_value(self, var):
        old = self._keras()
        if old:
            return old.get_value(var)
        return var.numpy() if hasattr(var, "numpy") else var

    def set_value(self, var, value):
        old = self._keras()
        if old:
            old.set_value(var, value)
        else:
            var.assign(value)

    def constant(self, value, dtype=None, shape=None, name=None):
        old = self._keras()
        if old:
            return old.constant(value, dtype=dtype, shape=shape, name=name)
        return tf.constant(value, dtype or tf.keras.config.floatx(), shape, name or "Const")

    def __getattr__(self, name):
        old = self._keras()
        if old:
            return getattr(old, name)
        return getattr(tf.keras.backend, name)


backend = _Backend()
