# saved.py - save and load estimators and models, as Spark ML does.
# SPDX-License-Identifier: Apache-2.0
"""Saving and loading of estimators and models.

PATH contains a folder metadata, in the format of Spark ML's own stages, so that a Pipeline finds
the class, and a folder values, a Parquet table with the pickled parameters in pieces.  Spark reads
and writes both, so PATH may be on any file system that Spark supports.  Loading runs code from the
files, as unpickling does."""

from pyspark.ml.util import (DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader,
                             MLWritable, MLWriter)

PIECE = 16 << 20  # bytes of a row: well below what a JVM's array holds


class _Writer(MLWriter):
    def __init__(self, instance):
        super().__init__()
        self.instance = instance

    def saveImpl(self, path):
        """Save the instance.  save() calls this after it has made sure that the path is free."""
        packed = self.instance._packed(self.instance._to_save())
        DefaultParamsWriter.saveMetadata(self.instance, path, self.sc, paramMap={})
        pieces = [(i, bytearray(packed[at:at + PIECE]))
                  for i, at in enumerate(range(0, len(packed), PIECE))]
        frame = self.sparkSession.createDataFrame(pieces, "piece int, bytes binary")
        frame.write.parquet(f"{path}/values")


class _Reader(MLReader):
    def __init__(self, cls):
        super().__init__()
        self.cls = cls

    def load(self, path):
        """Load the estimator or model that was saved at a path."""
        metadata = DefaultParamsReader.loadMetadata(path, self.sc)
        wanted = f"{self.cls.__module__}.{self.cls.__name__}"
        if metadata["class"] != wanted:
            raise ValueError(f"{path} holds a {metadata['class']}, not a {wanted}")
        rows = self.sparkSession.read.parquet(f"{path}/values").orderBy("piece").collect()
        instance = self.cls()._restored(self.cls._unpacked(b"".join(r["bytes"] for r in rows)))
        instance._resetUid(metadata["uid"])
        return instance


class Saved(MLWritable, MLReadable):
    """A subclass defines _packed(values) and _unpacked(bytes) for its framework."""

    LEFT_OUT = ()  # parameters that belong to one session

    def write(self):
        """Return a writer: write().overwrite().save(path)."""
        return _Writer(self)

    @classmethod
    def read(cls):
        """Return a reader: read().load(path)."""
        return _Reader(cls)

    def _to_save(self):
        """Return {name: value} of the parameters that are set."""
        return {name: self.getOrDefault(name) for name in self.DEFAULTS
                if self.isSet(name) and name not in self.LEFT_OUT}

    def _restored(self, values):
        return self._set(**values)
