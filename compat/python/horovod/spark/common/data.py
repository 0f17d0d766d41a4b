# data.py - the rows of an estimator: to Parquet and back, and through a fitted model.
# SPDX-License-Identifier: Apache-2.0


def vectors_to_arrays(df, columns):
    """Vectors of Spark ML as arrays, which Parquet has."""
    from pyspark.ml.functions import vector_to_array
    from pyspark.ml.linalg import VectorUDT

    vectors = [c for c in columns if isinstance(df.schema[c].dataType, VectorUDT)]
    for c in vectors:
        df = df.withColumn(c, vector_to_array(df[c]))
    return df


def split(df, validation, seed):
    """(rows to train with, rows to validate with or None); validation is a share, or a column that
    is above 0, or true, for the latter."""
    if not validation:
        return df, None
    if isinstance(validation, str):
        held = df[validation].cast("double") > 0
        return df.filter(~held).drop(validation), df.filter(held).drop(validation)
    if not 0 < validation < 1:
        raise ValueError(f"validation={validation}: a column, or a share between 0 and 1")
    return tuple(df.randomSplit([1.0 - validation, validation], seed=seed or 0))


def read_rows(folder, columns, rank, size, least):
    """This rank's rows of the Parquet files in a folder: {column: numpy array}.

    Rows are dealt out one by one; all ranks get equally many, and the few that are left over, less
    than size, to none, unless there are fewer rows than ranks: then least of them to each.
    """
    import numpy
    import pyarrow
    import pyarrow.dataset

    data = pyarrow.dataset.dataset(folder, format="parquet")
    total = data.count_rows()
    count = total // size
    if not count and total < least:
        raise ValueError(f"{folder} has {total} rows, too few for a rank")
    parts, before = [], 0
    for batch in data.to_batches(columns=columns):
        index = numpy.arange((rank - before) % size, batch.num_rows, size) if count else \
            numpy.arange(batch.num_rows)
        parts.append(batch.take(pyarrow.array(index)))
        before += batch.num_rows
    table = pyarrow.Table.from_batches(parts).slice(0, count or least)
    return {c: numpy.asarray(table.column(c).to_pylist()) for c in columns}


class Predict:
    """Applied to the rows of a partition: the same rows with a model's outputs behind.

    outputs(), which a subclass has, gets a numpy array for each feature and returns for each output
    of the model an array of doubles with a row for each row.
    """

    BATCH = 256

    def __init__(self, features, label_types):
        self.features, self.label_types = features, label_types

    def outputs(self, columns):
        raise NotImplementedError

    def _outputs(self, rows):
        import numpy

        return self.outputs([numpy.asarray([r[name].toArray() if hasattr(r[name], "toArray") else
                                            r[name] for r in rows]) for name in self.features])

    def sizes(self, df):
        """How many elements each output has for a row of df."""
        rows = df.collect()
        return [o.shape[1] for o in self._outputs(rows)] if rows else [1] * len(self.label_types)

    def _value(self, values, kind):
        from pyspark.ml.linalg import DenseVector
        from pyspark.sql.types import IntegralType

        if len(values) > 1:
            return DenseVector(values)
        return int(round(values[0])) if isinstance(kind, IntegralType) else float(values[0])

    def __call__(self, rows):
        batch = []
        for row in rows:
            batch.append(row)
            if len(batch) == self.BATCH:
                yield from self._rows(batch)
                batch = []
        if batch:
            yield from self._rows(batch)

    def _rows(self, batch):
        outputs = self._outputs(batch)
        for i, row in enumerate(batch):
            yield tuple(row) + tuple(self._value(o[i], kind) for o, kind in
                                     zip(outputs, self.label_types))


def transform(df, predict, names):
    """df with a column of that name for each output of predict: a number of the label's type where
    an output has one element, else a vector."""
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql.types import DoubleType, StructField, StructType

    first = vectors_to_arrays(df.select(*predict.features).limit(1), predict.features)
    fields = [StructField(name, (kind if kind is not None else DoubleType()) if size == 1
                          else VectorUDT(), True)
              for name, size, kind in zip(names, predict.sizes(first), predict.label_types)]
    schema = StructType([*df.schema.fields, *fields])
    return df.sparkSession.createDataFrame(df.rdd.mapPartitions(predict), schema)
