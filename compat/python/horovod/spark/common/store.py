# store.py - Store: where an estimator keeps its data, checkpoints and logs.
# SPDX-License-Identifier: Apache-2.0
"""A store is a folder that the driver and all executors see under the same path, on one host or on
a shared file system.  Data is stored as Parquet."""

import os
import shutil
import uuid


class Store:
    """The folders of an estimator below prefix_path.

    train_path, val_path, runs_path and test_path replace the folders below prefix_path.  save_runs
    determines whether checkpoints are kept.  storage_options has no effect on a folder."""

    def __init__(self, prefix_path=None, train_path=None, val_path=None, test_path=None,
                 runs_path=None, save_runs=True, storage_options=None, checkpoint_filename=None):
        if prefix_path is None and None in (train_path, val_path):
            raise ValueError("a Store needs prefix_path, or train_path and val_path; with these "
                             "also runs_path to keep checkpoints")
        self.storage_options = storage_options
        self.checkpoint_filename = checkpoint_filename or "checkpoint.pt"
        self.prefix_path = prefix_path
        self._train_path = self._folder(train_path, "intermediate_train_data")
        self._val_path = self._folder(val_path, "intermediate_val_data")
        self._test_path = self._folder(test_path, "intermediate_test_data")
        self._runs_path = self._folder(runs_path, "runs")
        self._save_runs = save_runs and self._runs_path is not None
        self._own_val_path = val_path is None

    def _folder(self, path, name):
        if path is not None:
            return self.get_full_path(path)
        return os.path.join(self.prefix_path, name) if self.prefix_path else None

    def get_full_path(self, path):
        """Return the folder of a path, as an absolute path without file:."""
        return os.path.abspath(_without_file(path))

    get_localized_path = get_full_path

    @staticmethod
    def create(prefix_path, *args, **kwargs):
        """Return the store for a path: a folder, file:///FOLDER, or dbfs:/FOLDER on Databricks."""
        path = str(prefix_path)
        if HDFSStore.matches(path):
            return HDFSStore(path, *args, **kwargs)
        if path.startswith("dbfs:/") or (os.environ.get("DATABRICKS_RUNTIME_VERSION")
                                         and DBFSLocalStore.matches_dbfs(path)):
            return DBFSLocalStore(path, *args, **kwargs)
        scheme = path.partition("://")[0] if "://" in path else "file"
        if scheme != "file":
            raise ValueError(_only_folders(path, scheme))
        return LocalStore(path, *args, **kwargs)

    def _indexed(self, path, idx):
        return path if idx is None else f"{path}.{idx}"

    def get_train_data_path(self, idx=None):
        """Return the folder of the rows to train with; idx distinguishes data sets."""
        return self._indexed(self._train_path, idx)

    def get_val_data_path(self, idx=None):
        """Return the folder of the rows to validate with."""
        return self._indexed(self._val_path, idx)

    def has_own_val_path(self):
        """Return whether get_val_data_path() is below prefix_path, rather than given by the user.
        """
        return self._own_val_path

    def get_test_data_path(self, idx=None):
        """Return the folder of rows to test with.  The estimators do not use it."""
        return self._indexed(self._test_path, idx)

    def saving_runs(self):
        """Return whether checkpoints are kept."""
        return self._save_runs

    def get_runs_path(self):
        """Return the folder of all runs."""
        return self._runs_path

    def get_run_path(self, run_id):
        """Return the folder of one run."""
        return os.path.join(self._runs_path, run_id)

    def get_checkpoint_path(self, run_id):
        """Return the folder of a run's checkpoint, or None."""
        return self.get_run_path(run_id) if self._save_runs else None

    def get_checkpoint_file(self, run_id):
        """Return the file of a run's last checkpoint, or None."""
        return os.path.join(self.get_run_path(run_id), self.get_checkpoint_filename()) \
            if self._save_runs else None

    def get_checkpoints(self, run_id, suffix=".ckpt"):
        """Return the files in a run's folder that end in suffix."""
        folder = self.get_run_path(run_id)
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return [os.path.join(folder, name) for name in names if name.endswith(suffix)]

    def get_logs_path(self, run_id):
        """Return the folder of a run's logs, or None."""
        return os.path.join(self.get_run_path(run_id), self.get_logs_subdir()) \
            if self._save_runs else None

    def get_logs_subdir(self):
        """Return the name of the logs' folder within the folder of a run."""
        return "logs"

    def get_checkpoint_filename(self):
        """Return the name of a checkpoint within the folder of a run."""
        return self.checkpoint_filename

    def is_parquet_dataset(self, path):
        """Return whether a folder contains Parquet files that pyarrow can read."""
        import pyarrow
        import pyarrow.dataset

        try:
            return os.path.isdir(path) and bool(
                pyarrow.dataset.dataset(path, format="parquet").files)
        except (OSError, pyarrow.ArrowInvalid):
            return False

    def get_parquet_dataset(self, path):
        """Return the Parquet files in a folder, as a pyarrow dataset."""
        import pyarrow.parquet

        return pyarrow.parquet.ParquetDataset(path)

    def exists(self, path):
        """Return whether the file or folder exists."""
        return os.path.exists(path)

    def read(self, path):
        """Return the bytes of a file."""
        with open(path, "rb") as f:
            return f.read()

    def write_text(self, path, text):
        """Write a file completely or not at all."""
        self.write(path, text.encode())

    def write(self, path, data):
        """Write bytes to a file, completely or not at all."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = f"{path}.{uuid.uuid4().hex}"
        with open(part, "wb") as f:
            f.write(data)
        os.replace(part, path)

    def delete(self, path):
        """Remove a folder of this store, if it exists."""
        shutil.rmtree(path, ignore_errors=True)


def _without_file(path):
    """Return a path without file:// or file: at its start."""
    path = str(path)
    for prefix in ("file://", "file:"):
        if path.startswith(prefix):
            return path[len(prefix):]
    return path


class LocalStore(Store):
    """A store in a folder, which may be given as file:///FOLDER."""

    def __init__(self, prefix_path=None, *args, **kwargs):
        full = None if prefix_path is None else self.get_full_path(prefix_path)
        super().__init__(full, *args, **kwargs)

    @classmethod
    def matches(cls, path):
        """Return whether this is the path of a folder."""
        return "://" not in str(path) or str(path).startswith("file://")


FilesystemStore = LocalStore


def _only_folders(path, scheme):
    return (f"{path}: ringup only supports stores in folders; mount {scheme} as a folder on the "
            "driver and all executors, and pass that to Store.create().  Or read the data with "
            "pyarrow in your own function, and run it with horovod.spark.run()")


class HDFSStore(Store):
    """Upstream's store on HDFS, which ringup does not support.  Creating one raises an exception
    that says what to do instead."""

    def __init__(self, prefix_path=None, *args, **kwargs):
        raise ValueError(_only_folders(prefix_path or kwargs.get("train_path", "HDFSStore"),
                                       "HDFS (its NFS gateway or FUSE)"))

    @classmethod
    def matches(cls, path):
        """Return whether this is an HDFS path: hdfs://HOST:PORT/FOLDER."""
        return str(path).startswith("hdfs://")


class DBFSLocalStore(LocalStore):
    """A store on DBFS, through the folder /dbfs."""

    def __init__(self, prefix_path=None, *args, **kwargs):
        super().__init__(prefix_path, *args, **kwargs)

    def get_full_path(self, path):
        """Return the folder of a path on DBFS."""
        return self.normalize_path(path)

    @classmethod
    def matches_dbfs(cls, path):
        """Return whether this is a path on DBFS: dbfs:/FOLDER, /dbfs/FOLDER, or the latter after
        file:."""
        path = _without_file(path)
        return path.startswith("/dbfs/") or (path.startswith("dbfs:/")
                                             and not path.startswith("dbfs://"))

    @staticmethod
    def normalize_path(path):
        """Return the folder below /dbfs; ValueError for dbfs://HOST."""
        path = _without_file(path)
        if path.startswith("dbfs://"):
            raise ValueError(f"{path} names a host, but DBFS has none: use dbfs:/FOLDER")
        return "/dbfs/" + path[len("dbfs:/"):].lstrip("/") if path.startswith("dbfs:/") else path
