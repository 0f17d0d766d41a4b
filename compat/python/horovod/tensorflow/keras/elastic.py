# elastic.py - training with TensorFlow's Keras that goes on when ranks are lost or join.
# SPDX-License-Identifier: Apache-2.0

from tensorflow import keras

from horovod._keras import interface as _interface

globals().update(_interface.elastic(keras, __name__))
