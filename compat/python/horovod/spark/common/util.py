# util.py - functions that Horovod programs on Spark import from this module.
# SPDX-License-Identifier: Apache-2.0

import contextlib
import os

from horovod.runner.common.util import host_hash as _host

from . import data as _data


def host_hash(salt=None):
    """Return a name that processes share if and only if they are on the same host, or in the same
    container."""
    parts = [part for part in (os.environ.get("CONTAINER_ID"), salt) if part]
    return _host.host_hash("-".join(parts) or None)


def to_list(var, length):
    """Return a list of that length: var itself, or var repeated; None stays None."""
    if var is None:
        return None
    values = list(var) if isinstance(var, (list, tuple)) else [var]
    if len(values) == 1:
        values *= length
    if len(values) != length:
        raise ValueError(f"{len(values)} values instead of {length}")
    return values


def is_databricks():
    """Return whether this process runs on Databricks."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


@contextlib.contextmanager
def prepare_data(num_processes, store, df, label_columns, feature_columns=None, validation=None,
                 sample_weight_col=None, compress_sparse=False, partitions_per_process=10,
                 verbose=0):
    """Write the columns of df to the store as Parquet, where an estimator's fit_on_parquet() reads
    them: with prepare_data(...): estimator.fit_on_parquet().

    The files remain there, so later programs need not write them.  validation is a column, or a
    fraction of the rows.  feature_columns=None means all other columns.  Files are not split for
    num_processes, because ranks share the rows, and sparse vectors remain sparse.  Yields the index
    of the data in the store: store.get_train_data_path(index)."""
    if num_processes < 1 or partitions_per_process < 1:
        raise ValueError(f"num_processes={num_processes}, partitions_per_process="
                         f"{partitions_per_process}: whole numbers of 1 or more")
    if not label_columns:
        raise ValueError("label_columns is empty: name the columns to predict")
    apart = {*label_columns, sample_weight_col,
             validation if isinstance(validation, str) else None}
    if feature_columns is None:
        feature_columns = [c for c in df.columns if c not in apart]
    weight = [sample_weight_col] if sample_weight_col else []
    columns = [*feature_columns, *label_columns, *weight]
    with _data.prepared(store, df, columns, validation):
        yield None


def get_dataset_properties(dataset_idx):
    """Return (rows to train with, rows to validate with, {column: its type and shape}, average
    bytes per row) of the data of the innermost prepare_data()."""
    return _data.properties()


def clear_training_cache():
    """Do nothing: fit() removes its data when it ends."""
