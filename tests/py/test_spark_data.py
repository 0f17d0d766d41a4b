# test_spark_data.py - columns of an estimator keep every value, or are refused by name.
# SPDX-License-Identifier: Apache-2.0
#
# Without a session: pyarrow writes what Spark would.
#
# needs: cpu
# tests: compat/python/horovod/spark/common/data.py compat/python/horovod/spark/torch/remote.py

import datetime
import decimal
import os
import sys

import numpy
import pytest
from conftest import ROOT  # noqa: F401  (sets the path up)

SPARK = os.environ.get("RINGUP_TEST_SPARK4") or os.environ.get("RINGUP_TEST_SPARK", "")
if SPARK and SPARK not in sys.path:
    sys.path.append(SPARK)
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from horovod.spark.common import data  # noqa: E402

VECTOR = pa.struct([("type", pa.int8()), ("size", pa.int32()), ("indices", pa.list_(pa.int32())),
                    ("values", pa.list_(pa.float64()))])
SPARSE = {"type": 0, "size": 4, "indices": [1, 3], "values": [5.0, 7.0]}
DENSE = {"type": 1, "size": None, "indices": None, "values": [1.0, 2.0, 3.0, 4.0]}
WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5)
NAN = float("nan")

# name: (six values, their type in Arrow, dtype and shape of a row).
SAME = {
    "byte": (list(range(6)), pa.int8(), "int64", ()),
    "long": ([2**62 + i for i in range(6)], pa.int64(), "int64", ()),
    "unsigned": ([2**63 + i for i in range(6)], pa.uint64(), "uint64", ()),
    "float": ([i / 2 for i in range(6)], pa.float32(), "float64", ()),
    "bool": ([True, False, True, True, False, False], pa.bool_(), "bool", ()),
    "decimal": ([decimal.Decimal(i) / 4 for i in range(6)], pa.decimal128(10, 2), "float64", ()),
    "list": ([[i, i + 1] for i in range(6)], pa.list_(pa.int32()), "int64", (2,)),
    "large list": ([[i / 2] for i in range(6)], pa.large_list(pa.float32()), "float64", (1,)),
    "fixed list": ([[i, 9] for i in range(6)], pa.list_(pa.int16(), 2), "int64", (2,)),
    "nested": ([[[i, 1], [2, 3]] for i in range(6)], pa.list_(pa.list_(pa.int8())), "int64",
               (2, 2)),
    "empty lists": ([[]] * 6, pa.list_(pa.float64()), "float64", (0,)),
    "dictionary": ([7, 8, 7, 8, 7, 8], pa.dictionary(pa.int32(), pa.int64()), "int64", ()),
    "list of decimals": ([[decimal.Decimal(i), decimal.Decimal(1)] for i in range(6)],
                         pa.list_(pa.decimal128(5, 0)), "float64", (2,)),
}
# name: (six values, type): what stays an array of objects, each of them unchanged.
OBJECTS = {
    "binary": ([bytes([9, i, 0, 0]) for i in range(6)], pa.binary()),
    "large binary": ([b"\0" * i for i in range(6)], pa.large_binary()),
    "fixed binary": ([bytes([i, 0]) for i in range(6)], pa.binary(2)),
    "binary in a dictionary": ([b"a\0", b"b"] * 3, pa.dictionary(pa.int32(), pa.binary())),
    "string": (["a\0", "", "ü\0\0", "x" * 50, "\0", "b"], pa.string()),
    "bytes with nulls": ([b"a\0", None] * 3, pa.binary()),
    "nulls": ([1.0, None, 2.0, None, 3.0, None], pa.float64()),
    "all null": ([None] * 6, pa.null()),
    "structs": ([{"data": bytes([i, 0]), "width": i} for i in range(6)],
                pa.struct([("data", pa.binary()), ("width", pa.int32())])),
}


def read(tmp_path, values, kind, rank=0, size=1, files=1):
    """A column of that type, written to files and read again as one rank does it."""
    each = -(-len(values) // files) or 1
    for i in range(files):
        table = pa.table({"c": pa.array(values[i * each:(i + 1) * each], kind)})
        pq.write_table(table, str(tmp_path / f"{i}.parquet"), row_group_size=2)
    return data.read_rows(str(tmp_path), ["c"], rank, size, 1)["c"]


@pytest.mark.parametrize("name", sorted(SAME))
def test_numbers_come_as_they_are(tmp_path, name):
    values, kind, dtype, shape = SAME[name]
    got = read(tmp_path, values, kind, files=2)
    assert got.dtype == dtype and got.shape == (6, *shape)
    wanted = numpy.array(values, dtype=dtype)
    assert (got == wanted).all()
    assert data.numbers("c", got).dtype == dtype
    slow = data.stack(values)
    assert slow.shape == got.shape and (slow == got).all(), "transform() goes another way"


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_what_has_no_form_in_numbers_keeps_every_byte(tmp_path, name):
    values, kind = OBJECTS[name]
    got = read(tmp_path, values, kind, files=3)
    assert got.dtype == object and got.shape == (6,) and list(got) == values
    with pytest.raises(ValueError, match="^column of has (nulls|values of type)"):
        data.numbers("of", got)


def test_each_rank_gets_its_own_bytes(tmp_path):
    raw = [bytes([9, 8, i, 0, 0]) for i in range(7)]
    for rank in range(2):
        got = read(tmp_path, raw, pa.binary(), rank, 2, files=3)
        assert list(got) == raw[rank::2][:3]


def test_rows_of_unequal_length_are_arrays_and_are_refused_by_name(tmp_path):
    got = read(tmp_path, [[1.0] * (1 + i % 3) for i in range(6)], pa.list_(pa.float64()), files=2)
    assert got.dtype == object and [len(x) for x in got] == [1, 2, 3, 1, 2, 3]
    assert all(x.dtype == "float64" for x in got)
    with pytest.raises(ValueError, match=r"column boxes has rows of unequal length \(1 and 2 "):
        data.numbers("boxes", got)


def test_files_whose_rows_differ_in_length_are_not_joined(tmp_path):
    got = read(tmp_path, [[1, 2]] * 3 + [[1, 2, 3]] * 3, pa.list_(pa.int32()), files=2)
    assert got.dtype == object and [len(x) for x in got] == [2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("values, kind, message", [
    ([[[1], [1, 2]]] * 6, pa.list_(pa.list_(pa.int8())), r"unequal length \(1 and 2 "),
    ([[1.0, None]] * 6, pa.list_(pa.float64()), "nulls"),
    ([[1.0], None] * 3, pa.list_(pa.float64()), "nulls"),
    ([WHEN] * 6, pa.timestamp("us"), r"dates or times: .*col\('c'\)"),
    ([WHEN] * 6, pa.timestamp("us", "UTC"), "dates or times"),
    ([WHEN] * 6, pa.timestamp("ns"), "dates or times"),
    ([WHEN.date()] * 6, pa.date32(), "dates or times"),
    (["1"] * 6, pa.string(), "values of type str, but models need numbers"),
    ([[b"1"]] * 6, pa.list_(pa.binary()), "values of type bytes"),
    ([[("a", 1)]] * 6, pa.map_(pa.string(), pa.int32()), "values of type "),
])
def test_what_a_model_cannot_take_is_refused_with_its_column_and_a_cure(tmp_path, values, kind,
                                                                        message):
    got = read(tmp_path, values, kind)
    assert len(got) == 6
    with pytest.raises(ValueError, match=f"^column c has .*{message}"):
        data.numbers("c", got)


def test_text_is_what_some_models_of_keras_take(tmp_path):
    got = read(tmp_path, ["a\0", "b"], pa.string())
    assert data.numbers("c", got, text=True) is got
    with pytest.raises(ValueError, match="nulls"):
        data.numbers("c", data.stack(["a", None]), text=True)


@pytest.mark.parametrize("vectors", [[DENSE] * 6, [SPARSE] * 6, [DENSE, SPARSE] * 3])
def test_vectors_of_spark_are_rows_of_numbers(tmp_path, vectors):
    dense = {0: [0.0, 5.0, 0.0, 7.0], 1: [1.0, 2.0, 3.0, 4.0]}
    got = read(tmp_path, vectors, VECTOR, files=2)
    assert got.dtype == "float64" and got.tolist() == [dense[v["type"]] for v in vectors]


def test_a_vector_that_is_null_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="column v has nulls"):
        data.numbers("v", read(tmp_path, [DENSE, None] * 3, VECTOR))


def test_folders_with_empty_files_and_few_rows(tmp_path):
    kind = pa.list_(pa.float32())
    for i, rows in enumerate(([], [[1.0, 2.0]], [])):
        pq.write_table(pa.table({"c": pa.array(rows, kind)}), str(tmp_path / f"{i}.parquet"))
    for rank in range(3):  # one row, which each of three ranks gets
        got = data.read_rows(str(tmp_path), ["c"], rank, 3, 1)["c"]
        assert got.tolist() == [[1.0, 2.0]]
    os.unlink(tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="has 0 rows"):
        data.read_rows(str(tmp_path), ["c"], 0, 2, 1)


def test_a_function_transforms_each_row(tmp_path):
    rows = {"image": data.stack([bytes([i, 0, 0, 7]) for i in range(4)]), "y": numpy.arange(4)}

    def decode(row):
        assert isinstance(row["image"], bytes)
        return {"x": numpy.frombuffer(row["image"], "uint8").reshape(2, 2), "y": 2 * row["y"]}

    got = data.transformed(rows, decode)
    assert got["x"].shape == (4, 2, 2) and got["x"][3].tolist() == [[3, 0], [0, 7]]
    assert got["y"].tolist() == [0, 2, 4, 6]
    assert data.transformed(rows, None) is rows
    for wrong in (lambda row: None, lambda row: {str(row["y"]): 1}):
        with pytest.raises(ValueError, match="transformation_fn gets a dict with the columns of"):
            data.transformed(rows, wrong)
    with pytest.raises(ValueError, match="column x has rows of unequal length .1x3 and 2x3"):
        data.numbers("x", data.stack([numpy.ones((1, 3)), numpy.ones((2, 3))]))


def test_tensors_are_what_models_take():
    remote = pytest.importorskip("horovod.spark.torch.remote")
    assert str(remote.tensor("c", numpy.array([1.5]), None).dtype) == "torch.float32"
    assert remote.tensor("c", numpy.array([True, False]), [-1, 1]).tolist() == [[1.0], [0.0]]
    assert str(remote.tensor("c", numpy.array([3]), None).dtype) == "torch.int64"
    assert numpy.isnan(remote.tensor("c", numpy.array([NAN]), None)).all()
    with pytest.raises(ValueError, match="column image has values of type bytes"):
        remote.tensor("image", data.stack([b"a"]), None)
