# store.py - Store: where an estimator keeps its data, checkpoints and logs.
# SPDX-License-Identifier: Apache-2.0
"""A folder that the driver and all executors see under one path: of one host, or on a file system
that they share.  Data are Parquet."""

import os
import shutil
import uuid


class Store:
    """The folders of an estimator below prefix_path.

    train_path, val_path, runs_path and test_path take the place of those below prefix_path.
    """

    def __init__(self, prefix_path=None, train_path=None, val_path=None, test_path=None,
                 runs_path=None, save_runs=True):
        if prefix_path is None and None in (train_path, val_path, runs_path):
            raise ValueError("a store needs prefix_path, or train_path, val_path and runs_path")
        self.prefix_path, self._save_runs = prefix_path, save_runs
        self._train_path = train_path or self._below("intermediate_train_data")
        self._val_path = val_path or self._below("intermediate_val_data")
        self._test_path = test_path or self._below("intermediate_test_data")
        self._runs_path = runs_path or self._below("runs")

    def _below(self, name):
        return os.path.join(self.prefix_path, name) if self.prefix_path else None

    @staticmethod
    def create(prefix_path, *args, **kwargs):
        """The store for a path: a folder, file:///FOLDER, or dbfs:/FOLDER on Databricks."""
        path = str(prefix_path)
        if path.startswith("dbfs:/") or (os.environ.get("DATABRICKS_RUNTIME_VERSION")
                                         and DBFSLocalStore.matches_dbfs(path)):
            return DBFSLocalStore(path, *args, **kwargs)
        scheme = path.partition("://")[0] if "://" in path else "file"
        if scheme != "file":
            raise ValueError(f"{path}: ringup has stores in folders alone; mount {scheme} where "
                             "the driver and all executors see it as a folder (LocalStore)")
        return LocalStore(path, *args, **kwargs)

    def _indexed(self, path, idx):
        return path if idx is None else f"{path}.{idx}"

    def get_train_data_path(self, idx=None):
        """The folder of the rows to train with; idx tells several data sets apart."""
        return self._indexed(self._train_path, idx)

    def get_val_data_path(self, idx=None):
        """The folder of the rows to validate with."""
        return self._indexed(self._val_path, idx)

    def get_test_data_path(self, idx=None):
        """The folder of rows to test with; the estimators do not use it."""
        return self._indexed(self._test_path, idx)

    def saving_runs(self):
        """Are checkpoints kept?"""
        return self._save_runs

    def get_runs_path(self):
        """The folder of all runs."""
        return self._runs_path

    def get_run_path(self, run_id):
        """The folder of one run."""
        return os.path.join(self._runs_path, run_id)

    def get_checkpoint_path(self, run_id):
        """The file of a run's last checkpoint, or None."""
        return os.path.join(self.get_run_path(run_id), self.get_checkpoint_filename()) \
            if self._save_runs else None

    def get_logs_path(self, run_id):
        """The folder of a run's logs, or None."""
        return os.path.join(self.get_run_path(run_id), "logs") if self._save_runs else None

    def get_checkpoint_filename(self):
        """The name of a checkpoint in its run's folder."""
        return "checkpoint.pt"

    def exists(self, path):
        """Is there such a file or folder?"""
        return os.path.exists(path)

    def read(self, path):
        """The bytes of a file."""
        with open(path, "rb") as f:
            return f.read()

    def write_text(self, path, text):
        """Write a file; it is there whole or not at all."""
        self.write(path, text.encode())

    def write(self, path, data):
        """The same with bytes."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = f"{path}.{uuid.uuid4().hex}"
        with open(part, "wb") as f:
            f.write(data)
        os.replace(part, path)

    def delete(self, path):
        """Remove a folder of this store, if it is there."""
        shutil.rmtree(path, ignore_errors=True)


def _without_file(path):
    """A path without file:// or file: in front."""
    path = str(path)
    for prefix in ("file://", "file:"):
        if path.startswith(prefix):
            return path[len(prefix):]
    return path


class LocalStore(Store):
    """A store in a folder; file:///FOLDER is the same."""

    def __init__(self, prefix_path, *args, **kwargs):
        super().__init__(os.path.abspath(_without_file(prefix_path)), *args, **kwargs)


FilesystemStore = LocalStore


class DBFSLocalStore(LocalStore):
    """A store on DBFS, by way of its folder /dbfs."""

    def __init__(self, prefix_path, *args, **kwargs):
        super().__init__(self.normalize_path(prefix_path), *args, **kwargs)

    @classmethod
    def matches_dbfs(cls, path):
        """Is it a path of DBFS: dbfs:/FOLDER, /dbfs/FOLDER, or that with file: in front?"""
        path = _without_file(path)
        return path.startswith("/dbfs/") or (path.startswith("dbfs:/")
                                             and not path.startswith("dbfs://"))

    @staticmethod
    def normalize_path(path):
        """The folder below /dbfs; ValueError for dbfs://HOST."""
        path = _without_file(path)
        if path.startswith("dbfs://"):
            raise ValueError(f"{path} names a host, and DBFS has none: dbfs:/FOLDER")
        return "/dbfs/" + path[len("dbfs:/"):].lstrip("/") if path.startswith("dbfs:/") else path
