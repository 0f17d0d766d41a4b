# keras_end_of_a_rank.py - what test_keras.py starts: the last rank is killed in a fit().
# SPDX-License-Identifier: Apache-2.0
"""Arguments: "graph" or "eager".  Keras is chosen as for keras_fit_of_a_rank.py."""

import json
import os
import signal
import sys

import keras_fit_of_a_rank as training

hvd, keras = training.hvd, training.keras
LAST = 3  # the batch in which the rank is killed


class End(keras.callbacks.Callback):
    """Counts batches, and kills the last rank as a batch begins."""

    ended = 0

    def on_train_batch_begin(self, batch, logs=None):
        if batch == LAST and hvd.rank() == hvd.size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_batch_end(self, batch, logs=None):
        self.ended += 1


def main():
    hvd.init()
    rank, end, said = hvd.rank(), End(), "nothing"
    try:
        model = training.model_of()
        training.fit(model, hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)),
                     training.data_of(rank), training.BATCH, eager=sys.argv[1] == "eager",
                     callbacks=[end])
        model.get_weights()  # JAX tells when a result is asked for
    except Exception as e:
        said = f"{type(e).__name__}: {e}"
    path = os.path.join(os.environ["RINGUP_TEST_RESULTS"], f"rank.{rank}")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"said": said, "ended": end.ended}, f)
    hvd.shutdown()
    training.end()


if __name__ == "__main__":
    main()
