# elastic.py - TensorFlow training that continues when ranks are lost or join.
# SPDX-License-Identifier: Apache-2.0

import tensorflow as tf

from horovod.common.elastic import ObjectState
from horovod.common.keras_state import KerasState, run
from horovod.tensorflow.functions import broadcast_object, broadcast_variables
from horovod.tensorflow.mpi_ops import rank
from horovod.tensorflow.util import _executing_eagerly

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]

TensorFlowKerasState = KerasState


class TensorFlowState(ObjectState):
    """The state of training with TensorFlow variables: TensorFlowState(variables, step=0).

    In a TensorFlow 1 graph, the session has the variables' values.  Without variables, the state
    contains all global variables."""

    def __init__(self, variables=None, session=None, **kwargs):
        self.variables = variables or tf.compat.v1.global_variables()
        self.session = session or (None if _executing_eagerly()
                                   else tf.compat.v1.get_default_session())
        self._bcast_op = None if _executing_eagerly() else broadcast_variables(self.variables, 0)
        self._save_model()
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **kwargs)

    def _save_model(self):
        if self.session is not None:
            self._values = self.session.run(self.variables)
        else:
            self._values = [v.numpy() for v in self.variables]

    def _load_model(self):
        for v, value in zip(self.variables, self._values):
            if self.session is not None:
                v.load(value, self.session)
            else:
                v.assign(value)

    def save(self):
        super().save()  # first, because it may raise an exception
        self._save_model()

    def restore(self):
        self._load_model()
        super().restore()

    def sync(self):
        if self.session is not None:
            self.session.run(self._bcast_op)
        else:
            broadcast_variables(self.variables, root_rank=0)
        self._save_model()
        super().sync()
