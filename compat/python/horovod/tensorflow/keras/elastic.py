# elastic.py - training with TensorFlow's Keras that goes on when ranks are lost or join.
# SPDX-License-Identifier: Apache-2.0

from tensorflow import keras

from horovod._keras import elastic as _impl
from horovod.common.keras_state import KerasState, run

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback",
           "UpdateEpochStateCallback", "run"]


class CommitStateCallback(_impl.CommitStateCallbackImpl, keras.callbacks.Callback):
    """Commits the state after every batches_per_commit batches, and at the end of an epoch."""


class UpdateBatchStateCallback(_impl.UpdateBatchStateCallbackImpl, keras.callbacks.Callback):
    """Keeps state.batch; an epoch that is repeated is shorter by the batches already done."""


class UpdateEpochStateCallback(_impl.UpdateEpochStateCallbackImpl, keras.callbacks.Callback):
    """Keeps state.epoch, counted over all generations of the job."""
