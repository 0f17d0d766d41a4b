# saved.py - save and load estimators and models, as Spark ML does.
# SPDX-License-Identifier: Apache-2.0
"""Below PATH: metadata, as Spark ML's own stages have it, so that a Pipeline finds the class; and
values, a Parquet table of the pickled parameters in pieces.  Spark reads and writes both, so PATH
may be on any file system that it knows.  Loading runs code of the file, as unpickling does."""

from pyspark.ml.util import (DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader,
                             MLWritable, MLWriter)

PIECE = 16 << 20  # bytes of a row: well below what a JVM's array holds


class _Writer(MLWriter):
    def __init__(self, instance):
        super().__init__()
        self.instance = instance

    def saveImpl(self, path):
        """Called by save(), once the path is free."""
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
        """The estimator or model that was saved below a path."""
        metadata = DefaultParamsReader.loadMetadata(path, self.sc)
        wanted = f"{self.cls.__module__}.{self.cls.__name__}"
        if metadata["class"] != wanted:
            raise ValueError(f"{path} holds a {metadata['class']}, not a {wanted}")
        rows = self.sparkSession.read.parquet(f"{path}/values").orderBy("piece").collect()
        instance = self.cls()._restored(self.cls._unpacked(b"".join(r["bytes"] for r in rows)))
        instance._resetUid(metadata["uid"])
        return instance


class Saved(MLWritable, MLReadable):
    """A subclass has _packed(values) and _unpacked(bytes), which know its framework."""

    LEFT_OUT = ()  # parameters that belong to one session

    def write(self):
        """A writer: write().overwrite().save(path)."""
        return _Writer(self)

    @classmethod
    def read(cls):
        """A reader: read().load(path)."""
        return _Reader(cls)

    def _to_save(self):
        """{name: value} of the parameters that are set."""
        return {name: self.getOrDefault(name) for name in self.DEFAULTS
                if self.isSet(name) and name not in self.LEFT_OUT}

    def _restored(self, values):
        return self._set(**values)
