# callbacks.py - Horovod's callbacks for TensorFlow's Keras.
# SPDX-License-Identifier: Apache-2.0

from tensorflow import keras

from horovod._keras import callbacks as _impl


class BroadcastGlobalVariablesCallback(_impl.BroadcastGlobalVariablesCallbackImpl,
                                       keras.callbacks.Callback):
    """Gives every rank the weights and the optimizer's state of rank root_rank after the first
    batch, so that training begins alike also when weights are random or restored on one rank."""

    def __init__(self, root_rank, device="", local_variables=None):
        super().__init__(keras, root_rank, local_variables)


class MetricAverageCallback(_impl.MetricAverageCallbackImpl, keras.callbacks.Callback):
    """Averages metrics over the ranks at the end of an epoch.  It comes before callbacks that use
    them, such as ReduceLROnPlateau and TensorBoard."""

    def __init__(self, device=""):
        super().__init__(device)


class LearningRateScheduleCallback(_impl.LearningRateScheduleCallbackImpl,
                                   keras.callbacks.Callback):
    """Sets the learning rate to initial_lr * multiplier between start_epoch and end_epoch.

    multiplier is a number or a function of the epoch, which is a whole number if staircase, else
    epoch + batch / steps_per_epoch.
    """


class LearningRateWarmupCallback(_impl.LearningRateWarmupCallbackImpl, keras.callbacks.Callback):
    """Raises the learning rate from initial_lr / size() to initial_lr in the first warmup_epochs
    (Goyal et al., 2017)."""


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """Keras's ModelCheckpoint of the best model, whose path is set later: .filepath = path."""

    def __init__(self, monitor="val_loss", verbose=0, mode="auto", save_freq="epoch"):
        super().__init__(filepath="best.keras", monitor=monitor, verbose=verbose,
                         save_best_only=True, save_weights_only=False, mode=mode,
                         save_freq=save_freq)
        self.filepath = None
