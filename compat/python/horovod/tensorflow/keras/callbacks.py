# callbacks.py - Horovod's callbacks for TensorFlow's Keras.
# SPDX-License-Identifier: Apache-2.0

from tensorflow import keras

from horovod._keras import interface as _interface

globals().update(_interface.callbacks(keras, __name__))
