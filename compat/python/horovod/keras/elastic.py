# elastic.py - Keras training that continues when ranks are lost or join, on any back end.
# SPDX-License-Identifier: Apache-2.0

import keras

from horovod._keras import interface as _interface

globals().update(_interface.elastic(keras, __name__))
