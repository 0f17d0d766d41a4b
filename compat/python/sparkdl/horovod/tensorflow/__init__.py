# __init__.py - sparkdl.horovod.tensorflow: the package of the Keras callback.
# SPDX-License-Identifier: Apache-2.0
