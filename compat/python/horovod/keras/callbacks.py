# callbacks.py - Horovod's callbacks for Keras, on any back end.
# SPDX-License-Identifier: Apache-2.0

import keras

from horovod._keras import interface as _interface

globals().update(_interface.callbacks(keras, __name__))
