# library.py - the operations of libringup_tf.so, loaded into TensorFlow.
# SPDX-License-Identifier: Apache-2.0

import os

import tensorflow as tf

from ringup import job

NAME = "libringup_tf.so"


def _path():
    """The file that belongs to the libringup.so of this process."""
    candidates = [job.library_path, os.path.realpath(job.library_path)]
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        candidates += [line.split(None, 5)[-1].strip() for line in maps if "libringup.so" in line]
    tried = list(dict.fromkeys(os.path.join(os.path.dirname(os.path.abspath(c)), NAME)
                               for c in candidates))
    for path in tried:
        if os.path.exists(path):
            return path
    raise ImportError(f"horovod.tensorflow needs {NAME}, which is installed beside libringup.so, "
                      f"but there is no {' and no '.join(tried)}; install ringup again with "
                      "`make install`, or build it anew with `ringup rebuild --engine ringup`")


def _load():
    """The operations.  TensorFlow opens the file first: what it finds open already it takes for a
    library without operations."""
    path = _path()
    found = tf.load_op_library(path)
    if not hasattr(found, "ringup_wait_all"):
        raise ImportError(f"{path} has registered no operations with TensorFlow {tf.__version__}: "
                          "its libtensorflow_framework.so.2 is not loaded, or lacks a function of "
                          "the C API; TensorFlow 2.15 to 2.21 have what is needed")
    job.attach(path, "ringup_tensorflow_attach")
    return found


operations = _load()
