# interface.py - the names of horovod.keras and horovod.tensorflow.keras, each for its own Keras.
# SPDX-License-Identifier: Apache-2.0
"""The packages horovod.keras and horovod.tensorflow.keras differ in the Keras module that they use
and in the order of some arguments.  This module creates their common functions, once for each
package, and gives them the package's name for pickling."""

from horovod import _keras as _impl
from horovod._keras import callbacks as _callbacks
from horovod._keras import elastic as _elastic
from horovod.common.keras_state import KerasState, run
from horovod.common.process_sets import global_process_set
from horovod.common.semantics import Average


def _belonging_to(module, things):
    """Return {name: function or class}, with each changed as if the module had defined it."""
    for thing in things:
        thing.__module__, thing.__qualname__ = module, thing.__name__
    return {thing.__name__: thing for thing in things}


def functions(keras, Compression, module):
    """Return the functions of a package, except DistributedOptimizer()."""

    def PartialDistributedOptimizer(optimizer, name=None, device_dense="", device_sparse="",
                                    compression=Compression.none, sparse_as_dense=False,
                                    gradient_predivide_factor=1.0, op=Average, groups=None,
                                    process_set=global_process_set, local_layers=None,
                                    scale_local_gradients=True, num_groups=0,
                                    backward_passes_per_step=1,
                                    average_aggregated_gradients=False):
        """Return a DistributedOptimizer() that keeps the gradients for the weights of local_layers
        local to this rank."""
        if local_layers is None:
            local_layers = []
        elif isinstance(local_layers, keras.layers.Layer):
            local_layers = [local_layers]
        elif not all(isinstance(layer, keras.layers.Layer) for layer in local_layers):
            raise ValueError("All local layers must be of tf.keras.layers.Layer type.")
        wrapped = _impl.create_distributed_optimizer(
            keras, optimizer, name=name, compression=compression, sparse_as_dense=sparse_as_dense,
            gradient_predivide_factor=gradient_predivide_factor, op=op, num_groups=num_groups,
            groups=groups, backward_passes_per_step=backward_passes_per_step,
            average_aggregated_gradients=average_aggregated_gradients, process_set=process_set,
            scale_local_gradients=scale_local_gradients)
        for layer in local_layers:
            for variable in layer.trainable_weights:
                wrapped.register_local_var(variable)
        return wrapped

    def allreduce(value, name=None, average=None, prescale_factor=1.0, postscale_factor=1.0,
                  op=None, compression=Compression.none):
        """Reduce a number, an array or a tensor over all ranks.

        This function and those below return a tensor on TensorFlow and an array on other backends.
        """
        return _impl.allreduce(keras, value, name, average, prescale_factor, postscale_factor, op)

    def allgather(value, name=None):
        """Concatenate the values of all ranks along the first dimension."""
        return _impl.allgather(keras, value, name)

    def broadcast(value, root_rank, name=None):
        """Return root's value on every rank."""
        return _impl.broadcast(keras, value, root_rank, name)

    def reducescatter(value, name=None, op=Average):
        """Reduce a value over all ranks, and return this rank's rows."""
        return _impl.reducescatter(keras, value, name, op)

    def broadcast_global_variables(root_rank):
        """Overwrite all variables of a TensorFlow 1 graph with root's values."""
        return _impl.broadcast_global_variables(root_rank)

    def load_model(filepath, custom_optimizers=None, custom_objects=None,
                   compression=Compression.none, legacy_opts=False):
        """Load a saved model whose optimizer combines gradients from now on and keeps its state.

        custom_optimizers and custom_objects are classes that Keras does not define."""
        return _impl.load_model(keras, filepath, custom_optimizers, custom_objects, compression)

    return _belonging_to(module, (PartialDistributedOptimizer, allreduce, allgather, broadcast,
                                  reducescatter, broadcast_global_variables, load_model))


def callbacks(keras, module):
    """Return the classes of a package's module callbacks."""
    Callback = keras.callbacks.Callback

    class BroadcastGlobalVariablesCallback(_callbacks.BroadcastGlobalVariablesCallbackImpl,
                                           Callback):
        """Gives every rank the weights and the optimizer state of rank root_rank after the first
        batch, so that all ranks start with the same weights, even if these are random or were
        restored on one rank.  Warns if the model's optimizer does not combine gradients."""

        def __init__(self, root_rank, device="", local_variables=None):
            super().__init__(keras, root_rank, local_variables)

    class MetricAverageCallback(_callbacks.MetricAverageCallbackImpl, Callback):
        """Averages metrics over the ranks at the end of an epoch.  Put it before callbacks that use
        the metrics, such as ReduceLROnPlateau and TensorBoard."""

        def __init__(self, device=""):
            super().__init__(device)

    class LearningRateScheduleCallback(_callbacks.LearningRateScheduleCallbackImpl, Callback):
        """Sets the learning rate to initial_lr * multiplier between start_epoch and end_epoch.

        multiplier is a number or a function of the epoch.  With staircase, the epoch is an integer;
        otherwise it is epoch + batch / steps_per_epoch."""

    class LearningRateWarmupCallback(_callbacks.LearningRateWarmupCallbackImpl, Callback):
        """Raises the learning rate from initial_lr / size() to initial_lr in the first
        warmup_epochs (Goyal et al., 2017)."""

    class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
        """Keras's ModelCheckpoint for the best model.  Set its path later: .filepath = path."""

        def __init__(self, monitor="val_loss", verbose=0, mode="auto", save_freq="epoch"):
            super().__init__(filepath="best.keras", monitor=monitor, verbose=verbose,
                             save_best_only=True, save_weights_only=False, mode=mode,
                             save_freq=save_freq)
            self.filepath = None

    return _belonging_to(module, (
        BroadcastGlobalVariablesCallback, MetricAverageCallback, LearningRateScheduleCallback,
        LearningRateWarmupCallback, BestModelCheckpoint))


def elastic(keras, module):
    """Return the names in a package's module elastic."""
    Callback = keras.callbacks.Callback

    class CommitStateCallback(_elastic.CommitStateCallbackImpl, Callback):
        """Commits the state after every batches_per_commit batches, and at the end of an epoch."""

    class UpdateBatchStateCallback(_elastic.UpdateBatchStateCallbackImpl, Callback):
        """Updates state.batch.  An epoch that is repeated is shortened by the batches already done.
        """

    class UpdateEpochStateCallback(_elastic.UpdateEpochStateCallbackImpl, Callback):
        """Updates state.epoch, which counts over all generations of the job."""

    return {"KerasState": KerasState, "run": run, **_belonging_to(module, (
        CommitStateCallback, UpdateBatchStateCallback, UpdateEpochStateCallback))}
