# elastic.py - TensorFlow Keras training that continues when ranks are lost or join.
# SPDX-License-Identifier: Apache-2.0

from tensorflow import keras

from horovod._keras import interface as _interface

globals().update(_interface.elastic(keras, __name__))
