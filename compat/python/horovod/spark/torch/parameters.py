# parameters.py - what can be set of a TorchEstimator: names, defaults, getters and setters.
# SPDX-License-Identifier: Apache-2.0

from horovod.spark.common.parameters import Table

# name: default.  All of them are upstream's.
PARAMETERS = {
    "num_proc": None, "store": None, "model": None, "optimizer": None, "loss": None,
    "metrics": (), "loss_weights": None, "sample_weight_col": None, "feature_cols": None,
    "label_cols": None, "input_shapes": None, "label_shapes": None, "validation": None,
    "batch_size": 32, "val_batch_size": None, "epochs": 1, "verbose": 1, "random_seed": None,
    "shuffle": True, "run_id": None, "train_minibatch_fn": None, "train_steps_per_epoch": None,
    "validation_steps_per_epoch": None, "transformation_fn": None, "use_gpu": True,
    "gradient_compression": None, "backward_passes_per_step": 1,
}
# Upstream's that change how data are read and nothing of the result: each rank holds its rows in
# memory here, so there are no readers, buffers and caches.
ACCEPTED = frozenset(("partitions_per_process", "shuffle_buffer_size", "train_reader_num_workers",
                      "val_reader_num_workers", "reader_pool_type", "inmemory_cache_all",
                      "mp_start_method", "backend_env", "terminate_on_nan", "profiler"))
# Upstream's that mean something which is not there.
REFUSED = {
    "backend": "the ranks run on Spark's executors; num_proc says how many",
    "data_module": "rows are read from the store's Parquet files",
    "callbacks": "the training loop calls none; metrics and history are in the result",
    "loss_constructors": "give loss functions, which are made on the driver and travel",
    "transformation_edit_fields": "transformation_fn gets and returns all columns",
    "transformation_removed_fields": "transformation_fn gets and returns all columns",
}
TABLE = Table("TorchEstimator", PARAMETERS, ACCEPTED, REFUSED)
