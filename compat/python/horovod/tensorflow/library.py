# library.py - the operations of libringup_tf.so, loaded into TensorFlow.
# SPDX-License-Identifier: Apache-2.0

import tensorflow as tf

from ringup import job

NAME = "libringup_tf.so"


def find():
    """Return the path of the library that belongs to this process's libringup.so."""
    return job.beside(NAME, "horovod.tensorflow")


def _load():
    """Load the operations.  TensorFlow must be the first to open the file, because it assumes that
    a library that is already open contains no operations."""
    path = find()
    found = tf.load_op_library(path)
    if not hasattr(found, "ringup_wait_all"):
        raise ImportError(f"{path} has registered no operations with TensorFlow {tf.__version__}: "
                          "its libtensorflow_framework.so.2 is not loaded, or lacks a function of "
                          "the C API; use TensorFlow 2.15 to 2.21")
    job.attach(path, "ringup_tensorflow_attach")
    return found


operations = _load()
