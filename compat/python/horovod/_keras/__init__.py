# __init__.py - horovod._keras: code shared by all forms of Keras.
# SPDX-License-Identifier: Apache-2.0
"""The optimizer keeps its class, so a model is saved and loaded as if this package did not exist.
In a copy of the optimizer, one method is replaced by one that first combines the gradients.  With
Keras 3 this is apply(), which all backends call; with Keras 2 it is apply_gradients(). An optimizer
that is made from the configuration of such an optimizer also combines gradients; see settings.py.
"""

import contextlib
import functools
import threading

from horovod._keras import backends, copies
from horovod._keras.settings import Settings, keep
from horovod.common import arrays
from horovod.common.process_sets import global_process_set
from horovod.common.semantics import Adasum, Average, Sum, choose

_MARK = "_ringup_distributed"  # the attribute of an optimizer that combines gradients
_METHODS = "_ringup_methods"   # the names of what was replaced for that
_KEPT = ("get_config", "__deepcopy__", "__reduce_ex__")  # see settings.keep()
_STORE = ("save_own_variables", "load_own_variables")    # see jax_passes.py


def create_distributed_optimizer(keras, optimizer, op=Average, **how):
    """Return a copy of an optimizer that combines its gradients across the ranks."""
    reducer = getattr(optimizer, _MARK, None)
    if reducer is not None and not reducer.is_implied:
        raise ValueError("this optimizer is already a DistributedOptimizer: its gradients would "
                         "be combined twice")
    if op == Adasum:
        raise ValueError("op == Adasum is not supported yet with Keras")
    if op not in (Average, Sum):
        raise ValueError("gradients can only be averaged or summed: op=hvd.Average or hvd.Sum")
    with _plain(optimizer):
        copy = copies.copy_of(optimizer)
    distribute(keras, copy, op=op, **how)
    return copy


def distribute(keras, optimizer, name=None, compression=None, sparse_as_dense=False,
               gradient_predivide_factor=1.0, op=Average, backward_passes_per_step=1,
               average_aggregated_gradients=False, num_groups=0, groups=None,
               process_set=global_process_set, scale_local_gradients=True):
    """Make this optimizer combine its gradients across the ranks."""
    settings = Settings(
        keras, name=name, compression=compression, sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor, op=op,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients, num_groups=num_groups,
        groups=groups, process_set=process_set, scale_local_gradients=scale_local_gradients)
    backend = backends.of(keras)
    how = backend.how(op=op, gradient_predivide_factor=gradient_predivide_factor,
                      compression=compression or backend.Compression.none,
                      sparse_as_dense=sparse_as_dense, num_groups=num_groups, groups=groups,
                      process_set=process_set)
    scope = name or f"Distributed{type(optimizer).__name__}"
    reducer = backend.Reducer(how, scope, scale_local_gradients, backward_passes_per_step,
                              average_aggregated_gradients)
    reducer.is_implied, reducer.settings = False, settings
    _attach(optimizer, reducer)
    _follow_loss_scaling(keras)


def _attach(optimizer, reducer):
    """Make a reducer run the steps of this optimizer."""
    before = set(vars(optimizer))

    def register_local_var(var):
        reducer.settings.has_local = True
        reducer.register_local_var(var)

    if hasattr(optimizer, "apply"):
        _replace_apply(optimizer, reducer)
    else:
        _replace_apply_gradients(optimizer, reducer)
    optimizer.register_local_var = register_local_var
    optimizer.process_set = reducer.settings.how["process_set"]
    replaced = sorted(set(vars(optimizer)) - before)
    setattr(optimizer, _METHODS, replaced)
    setattr(optimizer, _MARK, reducer)
    keep(optimizer, reducer.settings, functools.partial(_plain, optimizer))
    if getattr(optimizer, "jit_compile", False):
        optimizer.jit_compile = False  # XLA cannot compile collectives


@contextlib.contextmanager
def _plain(optimizer):
    """Make an optimizer, and one inside of it, behave as Keras's own while a block runs."""
    own = []
    for o in filter(None, (optimizer, getattr(optimizer, "inner_optimizer", None))):
        names = {*_KEPT, _MARK, _METHODS, *getattr(o, _METHODS, ())} - set(_STORE)
        own.append((o, {name: vars(o)[name] for name in names & set(vars(o))}))
    for o, values in own:
        for name in values:
            delattr(o, name)
    try:
        yield
    finally:
        for o, values in own:
            for name, value in values.items():
                setattr(o, name, value)


def _move(inner, outer):
    """Make the optimizer that wraps another one combine the gradients in its place.  Programs may
    have the configuration of either."""
    reducer = getattr(inner, _MARK)
    for name in getattr(inner, _METHODS):
        delattr(inner, name)
    setattr(inner, _METHODS, [])
    setattr(inner, _MARK, None)
    _attach(outer, reducer)


def _follow_loss_scaling(keras):
    """Combine gradients before a LossScaleOptimizer tests whether they are finite.

    After that test, the optimizer branches.  Each rank would take its own branch, and some would
    wait for gradients that never arrive.  compile() puts a LossScaleOptimizer around any optimizer
    of a model that computes with two bytes, so this function changes the class."""
    base = getattr(keras.optimizers, "LossScaleOptimizer", None)
    classes = [base] if base else keras.mixed_precision.LossScaleOptimizer.__subclasses__()
    for cls in classes:
        if not hasattr(cls.__init__, _MARK):
            _follow(cls)


def _follow(cls):
    """Make a wrapping optimizer class take over the settings of the optimizer that it wraps."""
    init = cls.__init__

    @functools.wraps(init)
    def __init__(self, inner_optimizer, *args, **kwargs):
        init(self, inner_optimizer, *args, **kwargs)
        if is_distributed(inner_optimizer) and not is_distributed(self):
            _move(inner_optimizer, self)

    setattr(__init__, _MARK, True)
    cls.__init__ = __init__


def _replace_apply(optimizer, reducer):
    """Replace the methods of a Keras 3 optimizer.  For Keras's own optimizers, stateless_apply()
    calls apply(). That of LossScaleOptimizer does not, and JAX calls only stateless_apply()."""
    inner, inner_stateless = optimizer.apply, getattr(optimizer, "stateless_apply", None)
    combined_already, passes = threading.local(), None

    @functools.wraps(inner)
    def apply(grads, trainable_variables=None):
        if getattr(combined_already, "yes", False):
            return inner(grads, trainable_variables)
        if passes is not None:
            return passes.apply(grads, trainable_variables)
        variables = trainable_variables
        if variables is None:
            variables = optimizer._trainable_variables
        return reducer.step(list(grads), list(variables), optimizer,
                            lambda combined: inner(combined, trainable_variables))

    def update_stateless(optimizer_variables, grads, trainable_variables):
        combined_already.yes = True
        try:
            return inner_stateless(optimizer_variables, grads, trainable_variables)
        finally:
            combined_already.yes = False

    def stateless_apply(optimizer_variables, grads, trainable_variables):
        return reducer.step(
            list(grads), list(optimizer._trainable_variables), optimizer,
            lambda combined: update_stateless(optimizer_variables, combined, trainable_variables))

    optimizer.apply = apply
    if inner_stateless is None:
        return
    passes = reducer.passes_of(optimizer, update_stateless)
    if passes is not None:
        optimizer.stateless_apply = passes.stateless_apply
    elif reducer.is_each_step:
        optimizer.stateless_apply = functools.wraps(inner_stateless)(stateless_apply)


def _replace_apply_gradients(optimizer, reducer):
    """Replace the methods of a Keras 2 optimizer, new or legacy.  As in Horovod, gradients that the
    optimizer has computed are already combined, and apply_gradients() applies them unchanged."""
    inner = optimizer.apply_gradients

    @functools.wraps(inner)
    def apply_gradients(grads_and_vars, *args, **kwargs):
        pairs = [(g, v) for g, v in grads_and_vars]
        variables = [v for _g, v in pairs]
        return reducer.step([g for g, _v in pairs], variables, optimizer,
                            lambda combined: inner(list(zip(combined, variables)), *args, **kwargs))

    optimizer.apply_gradients = apply_gradients
    optimizer._agg_helper = reducer.helper
    optimizer._allreduce = lambda grads, variables: reducer.combine(grads, variables, optimizer)
    for name in ("_compute_gradients", "compute_gradients"):
        if hasattr(optimizer, name):
            _replace_compute_gradients(optimizer, name, reducer)
            break


def _replace_compute_gradients(optimizer, name, reducer):
    """Combine gradients in the method with which the optimizer computes them."""
    inner = getattr(optimizer, name)

    @functools.wraps(inner)
    def compute_gradients(*args, **kwargs):
        grads, variables = zip(*inner(*args, **kwargs))
        return list(zip(reducer.combine(grads, variables, optimizer), variables))

    setattr(optimizer, name, compute_gradients)
    if name == "compute_gradients":  # what Horovod's is called, with one argument more
        optimizer._compute_gradients = lambda loss, var_list, grad_loss=None, tape=None: (
            compute_gradients(loss, var_list, _tape_of(loss, tape)))


def _tape_of(loss, tape):
    """Return the tape that has recorded a loss; if the loss is a function, a tape that records it.
    """
    if tape is None and not callable(loss):
        raise ValueError("pass tape= with a loss that is already computed")
    return tape


def is_distributed(optimizer):
    """Return whether this optimizer reduces its gradients over all ranks."""
    return getattr(optimizer, _MARK, None) is not None


def imply(keras, optimizer, settings):
    """Make an optimizer from a configuration combine gradients as the original optimizer did.  A
    program may also call this a second time."""
    if not is_distributed(optimizer):
        distribute(keras, optimizer, **settings)
        getattr(optimizer, _MARK).is_implied = True


def load_model(keras, filepath, custom_optimizers=None, custom_objects=None, compression=None):
    """Load a model with a wrapped optimizer, which keeps its saved state."""
    known = {cls.__name__: cls for cls in custom_optimizers or ()}
    known.update(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=known)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not is_distributed(optimizer):
        distribute(keras, optimizer, compression=compression)
    return model


def allreduce(keras, value, name, average, pre, post, op):
    """Reduce a value over all ranks."""
    return backends.of(keras).value(arrays.allreduce(value, name, choose(op, average), pre, post,
                                                     global_process_set))


def allgather(keras, value, name):
    """Concatenate the values of all ranks."""
    return backends.of(keras).value(arrays.allgather(value, name, global_process_set))


def broadcast(keras, value, root_rank, name):
    """Return root's value."""
    return backends.of(keras).value(arrays.broadcast(value, root_rank, name, global_process_set))


def reducescatter(keras, value, name, op):
    """Return this rank's rows of the reduced values."""
    return backends.of(keras).value(arrays.reducescatter(value, name, op, global_process_set))


def broadcast_global_variables(root_rank):
    """Overwrite all variables of a TensorFlow 1 graph with root's values."""
    from horovod.tensorflow.optimizer import broadcast_global_variables as of_tensorflow
    return of_tensorflow(root_rank)
