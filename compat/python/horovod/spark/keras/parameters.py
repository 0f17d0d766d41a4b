# parameters.py - what can be set of a KerasEstimator.
# SPDX-License-Identifier: Apache-2.0

from horovod.spark.common.parameters import Table

# All of them are upstream's.
TABLE = Table("KerasEstimator", {
    "num_proc": None, "store": None, "model": None, "optimizer": None, "loss": None,
    "loss_weights": None, "metrics": (), "sample_weight_col": None, "feature_cols": None,
    "label_cols": None, "label_shapes": None, "validation": None, "callbacks": (),
    "batch_size": 32, "val_batch_size": None, "epochs": 1, "verbose": 1, "random_seed": None,
    "shuffle": True, "run_id": None, "train_steps_per_epoch": None,
    "validation_steps_per_epoch": None, "transformation_fn": None, "custom_objects": None,
    "gradient_compression": None, "backward_passes_per_step": 1, "use_gpu": True,
    "checkpoint_callback": None,
}, frozenset((
    # They change how data are read and nothing of the result: each rank holds its rows in memory.
    "partitions_per_process", "shuffle_buffer_size", "train_reader_num_workers",
    "val_reader_num_workers", "reader_pool_type", "inmemory_cache_all", "mp_start_method",
    "backend_env", "compress_sparse_cols")), {
    "backend": "the ranks run on Spark's executors; num_proc says how many",
    "data_module": "rows are read from the store's Parquet files",
    "transformation_edit_fields": "transformation_fn gets and returns all columns",
    "transformation_removed_fields": "transformation_fn gets and returns all columns",
})
