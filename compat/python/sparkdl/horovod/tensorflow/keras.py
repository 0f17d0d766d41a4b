# keras.py - LogCallback: a Keras callback that prints the progress of training on the driver.
# SPDX-License-Identifier: Apache-2.0

import time

from sparkdl.horovod import log_to_driver

try:
    from tensorflow.keras.callbacks import Callback
except ImportError:
    from keras.callbacks import Callback

__all__ = ["LogCallback"]


def _numbers(logs):
    return ", ".join(f"{k}: {v:.6g}" if isinstance(v, float) else f"{k}: {v}"
                     for k, v in sorted((logs or {}).items()))


class LogCallback(Callback):
    """Reports the start and end of each epoch to the driver, with the logged values.

    With per_batch_log, it also reports the end of each batch."""

    def __init__(self, per_batch_log=False):
        super().__init__()
        self.per_batch_log = per_batch_log
        self.epoch, self.began = 0, time.monotonic()

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch, self.began = epoch, time.monotonic()
        log_to_driver(f"Epoch {epoch} begin")

    def on_batch_end(self, batch, logs=None):
        if self.per_batch_log:
            log_to_driver(f"Epoch {self.epoch} batch {batch} end, {_numbers(logs)}")

    def on_epoch_end(self, epoch, logs=None):
        log_to_driver(f"Epoch {epoch} end after {time.monotonic() - self.began:.3g} s, "
                      f"{_numbers(logs)}")
