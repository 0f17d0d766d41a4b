# data.py - write and read an estimator's rows as Parquet, and apply a fitted model to them.
# SPDX-License-Identifier: Apache-2.0
"""stack() turns a column into a NumPy array, in training and in transform(). Numbers become
float64, int64 or bool; decimals become float64; vectors of Spark ML and lists of equal length add
an axis.  Any other column remains an array of objects: bytes, strings, rows of unequal length,
columns with nulls.  numbers() then says which column a model cannot use, and why."""

import contextlib

# What a vector of Spark ML is in Parquet.
_VECTOR = {"type", "size", "indices", "values"}


def _split(df, validation, seed):
    """Return (rows to train with, rows to validate with or None). validation is a fraction of the
    rows, or a column that is above 0, or true, in the rows to validate with.  A null in it means
    training."""
    from pyspark.sql.functions import coalesce, lit

    if not validation:
        return df, None
    if isinstance(validation, str):
        held = coalesce(df[validation].cast("double") > 0, lit(False))
        return df.filter(~held), df.filter(held)
    if not isinstance(validation, (int, float)) or not 0 < validation < 1:
        raise ValueError(f"validation={validation!r}: a column, or a share between 0 and 1")
    return tuple(df.randomSplit([1.0 - validation, validation], seed=seed or 0))


def _to_spark(folder):
    """Return a folder in the form that Spark needs, because Spark's default file system may be
    another one, such as HDFS or DBFS."""
    return folder if "://" in folder else f"file://{folder}"


def write(store, idx, df, columns, validation, seed=None):
    """Write columns of df to the store under idx; return whether rows to validate with exist."""
    missing = [c for c in columns if c not in df.columns]
    if missing:
        raise ValueError(f"the DataFrame has no column {missing[0]}; it has "
                         f"{', '.join(df.columns)}")
    columns = [*dict.fromkeys(columns)]
    flag = [validation] if isinstance(validation, str) else []
    if not set(flag) <= set(df.columns):
        raise ValueError(f"validation={validation!r}: the DataFrame has no such column")
    train, held = _split(df.select(*dict.fromkeys(columns + flag)), validation, seed)
    for rows, folder in ((train, store.get_train_data_path(idx)),
                         (held, store.get_val_data_path(idx))):
        if rows is not None:
            rows.select(*columns).write.mode("overwrite").parquet(_to_spark(folder))
    return held is not None


def delete(store, idx):
    """Remove the files that write() has written."""
    store.delete(store.get_train_data_path(idx))
    store.delete(store.get_val_data_path(idx))


def stored_schema(folder, columns):
    """Return Spark's schema of the Parquet files in a folder.  ValueError if files or a column are
    missing."""
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import AnalysisException

    try:
        schema = SparkSession.builder.getOrCreate().read.parquet(_to_spark(folder)).schema
    except AnalysisException as e:
        raise ValueError(
            f"ringup found no Parquet files in {folder}: write the rows there first, with "
            "horovod.spark.common.util.prepare_data() or df.write.parquet(), or give the Store "
            "the folder as train_path (val_path)") from e
    missing = [c for c in columns if c not in schema.fieldNames()]
    if missing:
        raise ValueError(f"the Parquet files in {folder} have no column {missing[0]}; they have "
                         f"{', '.join(schema.fieldNames())}")
    return schema


# -- columns as arrays -----------------------------------------------------------------------------

def read_rows(folder, columns, rank, size, least):
    """Return this rank's rows of the Parquet files in a folder: {column: NumPy array}.

    Rows are assigned to ranks one by one.  All ranks get the same number, and the remaining rows,
    fewer than size, are not used.  If the folder has fewer rows than ranks, each rank gets least of
    them."""
    import numpy
    import pyarrow
    import pyarrow.dataset

    data = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive")
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
    return {c: _array(table.column(c)) for c in columns}


def _array(column):
    """Return a column of Arrow as a NumPy array: directly for numbers, otherwise through stack().
    """
    import numpy

    pieces = [_numbers(chunk) for chunk in column.chunks if len(chunk)]
    if pieces and all(p is not None and p.shape[1:] == pieces[0].shape[1:] for p in pieces):
        return numpy.concatenate(pieces)
    return stack(column.to_pylist())


def _numbers(values):
    """Return an Arrow array as the array of numbers that stack() would make of it; otherwise None.
    """
    import numpy
    from pyarrow import types

    kind = values.type
    if values.null_count:
        return None
    if types.is_dictionary(kind):
        return _numbers(values.dictionary_decode())
    if types.is_integer(kind):
        return values.to_numpy().astype("int64" if not types.is_uint64(kind) else "uint64")
    if types.is_floating(kind):
        return values.to_numpy().astype("float64")
    if types.is_boolean(kind):
        return values.to_numpy(zero_copy_only=False)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = _numbers(values.flatten())
        if inner is None or len(inner) % len(values):
            return None
        each = len(inner) // len(values)
        if not types.is_fixed_size_list(kind) and \
                (numpy.diff(values.offsets.to_numpy()) != each).any():
            return None
        return inner.reshape(len(values), each, *inner.shape[1:])
    if types.is_struct(kind) and {f.name for f in kind} == _VECTOR and \
            not values.field("values").null_count and values.field("size").null_count == \
            len(values):
        return _numbers(values.field("values"))
    return None


def _plain(value):
    """Return a value of Arrow or of a Row as numbers, bytes, a string, None, an array or a list."""
    import decimal

    import numpy

    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, bytearray):
        return bytes(value)
    if hasattr(value, "toArray"):  # a vector or a matrix of Spark ML
        return value.toArray()
    if isinstance(value, dict) and set(value) == _VECTOR:
        if value["size"] is None:
            return numpy.asarray(value["values"], dtype="float64")
        dense = numpy.zeros(value["size"])
        dense[value["indices"]] = value["values"]
        return dense
    return value


def _shape(value):
    """Return the shape of a value that can be part of an array of numbers, otherwise None."""
    if isinstance(value, (bool, int, float)):
        return ()
    return tuple(value.shape) if hasattr(value, "__array__") and \
        not isinstance(value, (bytes, str)) else None


def stack(values):
    """Return a NumPy array with an item for each value.  It is an array of numbers if all values
    are numbers, or arrays or lists of numbers of the same shape; otherwise it is an array of
    objects."""
    import numpy

    items = [_plain(v) for v in values]
    items = [stack(v) if isinstance(v, (list, tuple)) else v for v in items]
    shapes = {_shape(v) for v in items}
    if len(shapes) == 1 and None not in shapes:
        array = numpy.stack([numpy.asarray(v) for v in items])
        if array.dtype.kind != "O" or array.ndim > 1:
            return array
    array = numpy.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # a slice would look into the items
        array[i] = item
    return array


def numbers(name, array, text=False):
    """Return the array if it contains numbers, or, with text, only bytes or strings.  Otherwise
    raise ValueError, which names the column."""
    return array if array.dtype.kind in "biuf" else _objects(name, array, text)


def _objects(name, array, text):
    """Return numbers() of an array that contains objects."""
    import numpy

    def cure(what, how):
        return ValueError(f"column {name} has {what}: {how}, or in transformation_fn")

    flat, shapes = list(array.ravel()), set()
    while any(isinstance(i, numpy.ndarray) for i in flat):
        if len(shapes) < 2:
            shapes = {i.shape for i in flat if isinstance(i, numpy.ndarray)}
        flat = [x for i in flat for x in (i.ravel() if isinstance(i, numpy.ndarray) else [i])]
    kinds = {type(i).__name__ for i in flat}
    if "NoneType" in kinds:
        raise cure("nulls", "fill them (df.fillna()) or drop their rows (df.dropna())")
    if len(shapes) > 1:
        few = " and ".join("x".join(map(str, s)) for s in sorted(shapes)[:2])
        raise cure(f"rows of unequal length ({few} elements)", "pad or cut them to one length")
    if all(isinstance(i, (bytes, str)) for i in flat) and text:
        return array
    if not flat:
        return array.astype("float64")
    if kinds & {"datetime", "date", "timedelta", "time", "datetime64", "timedelta64", "Timestamp"}:
        raise cure("dates or times",
                   f"convert them to numbers, as with col({name!r}).cast('double')")
    raise cure(f"values of type {', '.join(sorted(kinds))}, but models need numbers",
               "convert them to numbers first")


def transformed(rows, function):
    """Return rows, in the form of read_rows(), after applying function({column: value}) to each
    row.  The function returns such a dict; columns may come, go and change their shape."""
    if not function:
        return rows
    names = list(rows)
    changed = [function(dict(zip(names, values))) for values in zip(*rows.values())]
    for row in changed:
        if not isinstance(row, dict) or row.keys() != changed[0].keys():
            raise ValueError("transformation_fn gets a dict with the columns of one row, and "
                             "returns such a dict, with equal columns for all rows; it returned "
                             f"{type(row).__name__} {list(row) if isinstance(row, dict) else ''}")
    return {name: stack([row[name] for row in changed]) for name in changed[0]}


# -- a fitted model --------------------------------------------------------------------------------

class Predict:
    """Is applied to the rows of a partition, and returns the same rows with a model's outputs
    appended.

    A subclass defines outputs(). It gets a NumPy array for each feature, and returns for each
    output of the model an array of doubles with one row per input row."""

    BATCH = 256

    def __init__(self, features, label_types):
        self.features, self.label_types = list(features), label_types

    def outputs(self, columns):
        raise NotImplementedError

    def _outputs(self, rows):
        return self.outputs([stack([r[name] for r in rows]) for name in self.features])

    def sizes(self, df):
        """Return the number of elements of each output for a row of df."""
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


def _output_type(kind, size):
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql.types import DoubleType, FloatType, IntegralType

    if size > 1:
        return VectorUDT()
    return kind if isinstance(kind, (IntegralType, FloatType)) else DoubleType()


def transform(df, predict, names):
    """Return df with a column of that name for each output of predict.  The column contains a
    number of the label's type if the output has one element and the label is a number, otherwise a
    double or a vector."""
    from pyspark.sql.types import StructField, StructType

    taken = [name for name in names if name in df.columns]
    if taken:
        raise ValueError(f"the DataFrame already has a column {taken[0]}: choose another name with "
                         "setOutputCols(), or drop it")
    sizes = predict.sizes(df.select(*predict.features).limit(1))
    if not len(sizes) == len(names) == len(predict.label_types):
        raise ValueError(f"the model has {len(sizes)} outputs, but there are "
                         f"{len(predict.label_types)} label columns and {len(names)} output "
                         "columns")
    fields = [StructField(name, _output_type(kind, size), True)
              for name, size, kind in zip(names, sizes, predict.label_types)]
    return df.sparkSession.createDataFrame(df.rdd.mapPartitions(predict),
                                           StructType([*df.schema.fields, *fields]))


# -- data that stay --------------------------------------------------------------------------------

_prepared = []  # stores that prepare_data() serves now, the latest last


@contextlib.contextmanager
def prepared(store, df, columns, validation):
    """Keep columns of df in the store, where fit_on_parquet() finds them.  They remain there."""
    folder = store.get_train_data_path()
    if any(other.get_train_data_path() == folder for other in _prepared):
        raise ValueError("prepare_data() of another DataFrame is still open, and its rows are in "
                         f"{folder}: use a separate Store for each")
    if not validation and store.has_own_val_path():
        store.delete(store.get_val_data_path())  # rows of an earlier time
    write(store, None, df, columns, validation)
    _prepared.append(store)
    try:
        yield
    finally:
        _prepared.remove(store)


def properties():
    """Return (rows to train with, rows to validate with, {column: its type and shape}, bytes per
    row) of the data that prepared() keeps."""
    import pyarrow.dataset
    from pyspark.sql import SparkSession

    if not _prepared:
        raise ValueError("no data is prepared: call get_dataset_properties() inside `with "
                         "prepare_data(...)`")
    store = _prepared[-1]
    folder = store.get_train_data_path()
    train = pyarrow.dataset.dataset(folder, format="parquet")
    held = 0
    if store.is_parquet_dataset(store.get_val_data_path()):
        held = pyarrow.dataset.dataset(store.get_val_data_path(), format="parquet").count_rows()
    rows = train.count_rows()
    schema = SparkSession.builder.getOrCreate().read.parquet(_to_spark(folder)).schema
    first = {c: _array(train.head(1).column(c)) for c in schema.fieldNames()}
    metadata = {f.name: {"spark_data_type": type(f.dataType),
                         "shape": list(first[f.name].shape[1:]) if rows else None}
                for f in schema.fields}
    size = sum(batch.nbytes for batch in train.to_batches())
    return rows, held, metadata, size / rows if rows else 0.0
